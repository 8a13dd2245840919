"""What is learnt of how batches slow one another."""

import pytest

from headway.predict import Pressures
from headway.predict.belief import Belief
from headway.predict.speeds import Experience, Speeds

MS = 1_000_000
SIZE = ("m", "", 1)


def met(execution_ms, slowdown=1.0, base_ms=10.0, cell=(0, 0), beside=None, size=SIZE, lane=0):
    return Experience(
        size, lane, base_ms * MS, execution_ms * MS, slowdown, {cell: 1.0}, beside or {}
    )


def firm():
    """A solo time that is certain, so that all else must give way."""
    return Belief(16.0, 1e-4, drift_sigma=0.0, low=0.0, high=40.0)


def learn(speeds, experience, times=300):
    for _ in range(times):
        speeds.learn(experience, firm())


def test_plain_sharing_is_where_everything_starts():
    """Efficiency 1, pace 1, all of a slowdown felt, no pair costs anything."""
    speeds = Speeds(2)
    assert {value for column in speeds.efficiency for value in column[1:]} == {1.0}
    assert (speeds.pace(0), speeds.feel(SIZE, 10.0 * MS), speeds.costs) == (1.0, 1.0, {})
    assert speeds.expected_ns(met(1.0, slowdown=2.0)) == pytest.approx(20 * MS)


def test_what_was_expected_teaches_nothing():
    """No surprise, no change."""
    speeds = Speeds(2)
    learn(speeds, met(20.0, slowdown=2.0))
    assert speeds.expected_ns(met(20.0, slowdown=2.0)) == pytest.approx(20 * MS)
    assert speeds.pace(0) == pytest.approx(1.0)


@pytest.mark.parametrize("execution_ms", [10.0, 15.0, 30.0])
def test_whatever_happens_again_and_again_is_expected(execution_ms):
    """Faster or slower than the share says, it is learnt."""
    speeds = Speeds(2)
    learn(speeds, met(execution_ms, slowdown=2.0, cell=(1, 0)))
    expected_ns = speeds.expected_ns(met(execution_ms, slowdown=2.0, cell=(1, 0)))
    assert expected_ns == pytest.approx(execution_ms * MS, rel=0.05)


def test_a_core_that_is_shared_with_another_program_slows_its_lane():
    """Lane 1 takes half as long again on its own: its pace says so, lane 0's does not."""
    speeds = Speeds(2)
    for _ in range(50):
        speeds.learn(met(15.0, lane=1), firm())
        speeds.learn(met(10.0, lane=0), firm())
    assert speeds.pace(1) > 1.3
    assert speeds.pace(0) < 1.1


def test_a_short_batch_may_feel_little_of_a_slowdown():
    """What a scheduler lets run before it must share is hardly slowed."""
    speeds = Speeds(1)
    learn(speeds, met(0.5, slowdown=2.0, base_ms=0.5))
    assert speeds.feel(SIZE, 0.5 * MS) < 0.4


def test_efficiency_never_rises_with_company():
    """Even if more company was seen to go faster."""
    speeds = Speeds(4)
    for row in range(4):
        learn(speeds, met(20.0 - 3 * row, slowdown=2.0, cell=(row, row)), times=60)
    for column in speeds.efficiency:
        assert column[1:] == sorted(column[1:], reverse=True)
    for fewer, more in zip(speeds.efficiency, speeds.efficiency[1:], strict=False):
        assert all(a >= b for a, b in zip(fewer, more, strict=True))


def test_pressures_are_where_pair_effects_start():
    """A model sensitive to bandwidth beside one that takes half of it: a tenth of 0.2."""
    sensitive = Pressures(compute_demand=0.0, bandwidth_sensitivity=0.2)
    greedy = Pressures(compute_demand=0.0, bandwidth_demand=0.5)
    speeds = Speeds(2, {"m": sensitive, "greedy": greedy})
    assert speeds.costs == {"m": {"greedy": pytest.approx(0.1)}}
    expected_ns = speeds.expected_ns(met(1.0, beside={"greedy": 1.0}))
    assert expected_ns == pytest.approx(10 * MS / 0.9)


def test_pair_effects_of_a_profile_are_mended():
    """Neighbours that turn out to do no harm are believed in the end."""
    sensitive = Pressures(compute_demand=0.0, bandwidth_sensitivity=0.5)
    greedy = Pressures(compute_demand=0.0, bandwidth_demand=1.0)
    speeds = Speeds(2, {"m": sensitive, "greedy": greedy})
    learn(speeds, met(10.0, beside={"greedy": 1.0}))
    assert speeds.expected_ns(met(10.0, beside={"greedy": 1.0})) == pytest.approx(10 * MS, rel=0.1)


def test_state_comes_back():
    """As it was; broken parts are left out."""
    speeds = Speeds(2)
    learn(speeds, met(30.0, slowdown=2.0, cell=(1, 1), beside={"x": 1.0}), times=40)
    fresh = Speeds(2)
    fresh.restore(speeds.state())
    assert fresh.state() == speeds.state()
    assert fresh.efficiency == speeds.efficiency
    assert fresh.costs == speeds.costs
    fresh.restore({"cells": [[9, 9, 1.0, 1.0]], "paces": [[7, 1.0, 1.0]], "noise": "x"})
    assert fresh.state() == speeds.state()


def test_lanes_that_share_all_of_a_device_are_soon_seen_to_slow_one_another():
    """Forty executions, each twice as long beside three others, are enough there; not on cores."""
    efficiencies = []
    for shares_all in (True, False):
        speeds = Speeds(4, shares_all=shares_all)
        for _ in range(40):
            slowdown = 1.0 / speeds.efficiency[3][1]
            speeds.learn(met(20.0, slowdown=slowdown, cell=(0, 3)), firm())
        efficiencies.append(speeds.efficiency[3][1])
    assert efficiencies[0] < 0.6 < efficiencies[1]
