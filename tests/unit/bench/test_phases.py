"""When the requests of a mix arrive: how much work, in which phases, how unevenly."""

from itertools import pairwise
from statistics import fmean, pstdev

import pytest
from tests.unit.bench.contest_words import SOLO_NS, a_mix

from headway.bench.phases import offered_work, phases_of, plan_mix, usual_share
from headway.units import NS_PER_S

DURATION_NS = 12 * NS_PER_S
STEADY = a_mix(load_min=0.9, load_max=0.9, high_share=None, gap_cv=1.0)


def phases(mix=None, seed=1, **words):
    """Of twelve seconds."""
    return phases_of(mix or a_mix(), SOLO_NS, duration_ns=DURATION_NS, seed=seed, **words)


def plan(mix=None, seed=1, **words):
    """On cores that do the work of two."""
    mix = mix or a_mix()
    return plan_mix(mix, SOLO_NS, phases(mix, seed, **words), capacity_cores=2.0, seed=seed)


def test_phases_cover_loads_shares_and_time():
    """Every load and share from the least to the most comes once, whatever the seed."""
    for seed in (1, 2, 3):
        found = phases(seed=seed)
        assert sorted(phase.load for phase in found) == pytest.approx([0.6, 0.8, 1.0, 1.2])
        assert sorted(phase.high_share for phase in found) == pytest.approx([0.2, 0.4, 0.6, 0.8])
        assert found[0].from_ns == 0
        assert found[-1].to_ns == DURATION_NS
        assert all(one.to_ns == other.from_ns for one, other in pairwise(found))
    assert phases(seed=1) != phases(seed=2)


def test_mix_that_does_not_move_has_one_phase_with_as_many_high_as_low():
    """Half of the requests are high, whatever part of the work that is."""
    (phase,) = phases(STEADY)
    assert phase.load == 0.9
    assert phase.high_share == usual_share(STEADY, SOLO_NS) == pytest.approx(10 / (10 + 45))
    (loaded,) = phases(STEADY, load=1.2)
    assert loaded.load == 1.2
    found = plan(STEADY)
    high = sum(arrival.class_index == 0 for arrival in found)
    assert high == pytest.approx(len(found) / 2, abs=2)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_plan_brings_the_work_of_each_phase(seed):
    """To within a request of each class, of which one brings the work or the next phase does."""
    mix = a_mix()
    found = plan(seed=seed)
    for phase in phases(seed=seed):
        own = [a for a in found if phase.from_ns <= a.at_ns < phase.to_ns]
        wanted_ns = phase.load * 2.0 * (phase.to_ns - phase.from_ns)
        assert offered_work(mix, SOLO_NS, own) == pytest.approx(
            wanted_ns, abs=sum(SOLO_NS.values())
        )
        high = [a for a in own if a.class_index == 0]
        assert offered_work(mix, SOLO_NS, high) == pytest.approx(
            wanted_ns * phase.high_share, abs=SOLO_NS["minilm-32 x1"]
        )


def test_plan_is_ordered_and_repeats_itself():
    """The same seed gives the same instants in order, another seed gives others."""
    found = plan()
    assert found == sorted(found)
    assert 0 <= found[0].at_ns <= found[-1].at_ns < DURATION_NS
    assert found == plan()
    assert found != plan(seed=2)


def test_bursts_are_burstier_than_chance():
    """Gaps of a class scatter about as was asked for, and like an exponential where it is 1."""

    def scatter(cv):
        mix = a_mix(load_min=1.0, load_max=1.0, high_share=(0.5, 0.5), gap_cv=cv)
        instants = [
            a.at_ns
            for seed in range(20)
            for a in (b._replace(at_ns=b.at_ns + seed * DURATION_NS) for b in plan(mix, seed))
            if a.class_index == 0
        ]
        gaps = [b - a for a, b in pairwise(instants)]
        return pstdev(gaps) / fmean(gaps)

    assert scatter(1.0) == pytest.approx(1.0, abs=0.1)
    assert scatter(4.0) == pytest.approx(4.0, abs=0.8)
