"""Bounds that hold as often as they say."""

import random

import pytest

from headway.predict.conformal import Bounds

GROUPS = (("c", "fine"), ("c",))


def play(bounds, ratios, groups=GROUPS):
    """Outcomes of a prediction of 100; how many stayed within."""
    held = 0
    for ratio in ratios:
        bound_ns = 100.0 * bounds.factor(groups)
        held += 100.0 * ratio <= bound_ns
        bounds.see(groups, 100.0, bound_ns, 100.0 * ratio)
    return held


def test_cold_the_margin_is_wide_and_needs_no_history():
    """Before anything was seen the bound is three times the mean."""
    assert Bounds(0.95).factor(GROUPS) == pytest.approx(3.0)


def test_early_it_is_the_largest_of_the_last_ten_and_a_tenth():
    """Five outcomes are too few for a quantile."""
    bounds = Bounds(0.95)
    play(bounds, [1.0, 1.5, 1.2, 1.1, 0.9])
    assert bounds.factor(GROUPS) == pytest.approx(1.65)


@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.95])
def test_coverage_is_what_was_asked_for(confidence):
    """Of two thousand outcomes, the share within is the confidence, give or take two points."""
    chance = random.Random(f"coverage/{confidence}")
    bounds = Bounds(confidence)
    held = play(bounds, [chance.lognormvariate(0.0, 0.3) for _ in range(2000)])
    assert held / 2000 == pytest.approx(confidence, abs=0.02)


def test_coverage_survives_a_shift():
    """When everything suddenly takes twice as long, misses come back to what was asked for."""
    chance = random.Random("shift")
    bounds = Bounds(0.9)
    play(bounds, [chance.lognormvariate(0.0, 0.2) for _ in range(500)])
    play(bounds, [chance.lognormvariate(0.7, 0.2) for _ in range(200)])
    held = play(bounds, [chance.lognormvariate(0.7, 0.2) for _ in range(500)])
    assert held / 500 == pytest.approx(0.9, abs=0.04)


def test_a_fine_group_speaks_for_itself_once_it_is_large_enough():
    """A steady group is bounded closely beside an erratic one of the same class."""
    chance = random.Random("groups")
    bounds = Bounds(0.9)
    steady, erratic = (("c", "steady"), ("c",)), (("c", "erratic"), ("c",))
    for _ in range(200):
        play(bounds, [1.0 + 0.01 * chance.random()], steady)
        play(bounds, [chance.lognormvariate(0.0, 1.0)], erratic)
    assert bounds.factor(steady) < 1.02
    assert bounds.factor(erratic) > 1.5


def test_a_bound_is_never_below_the_mean():
    """Things that always end early do not make a bound that promises it."""
    bounds = Bounds(0.9)
    play(bounds, [0.5] * 100)
    assert bounds.factor(GROUPS) == 1.0


def test_nonsense_is_not_learnt():
    """No prediction, no time and no number are no outcomes."""
    bounds = Bounds(0.9)
    for predicted_ns, actual_ns in ((0.0, 1.0), (1.0, 0.0), (float("nan"), 1.0)):
        bounds.see(GROUPS, predicted_ns, 1.0, actual_ns)
    assert bounds.state() == {"windows": [], "misses": []}


def test_state_comes_back():
    """Restored, the bound is as tight as it was; a broken state leaves it wide."""
    bounds = Bounds(0.9)
    play(bounds, [1.0 + index / 100 for index in range(50)])
    fresh = Bounds(0.9)
    fresh.restore(bounds.state())
    assert fresh.factor(GROUPS) == bounds.factor(GROUPS)
    broken = Bounds(0.9)
    broken.restore({"windows": [[["c"], ["x", None]], 5, [[], []]], "misses": "x"})
    assert broken.factor(GROUPS) == pytest.approx(3.0)


@pytest.mark.parametrize("confidence", [0.5, 1.0, -1.0])
def test_a_confidence_is_a_share(confidence):
    """Half or less is no bound, and certainty cannot be had."""
    with pytest.raises(ValueError, match="confidence"):
        Bounds(confidence)


def test_misses_are_kept_only_of_groups_that_are():
    """Whatever was stored or met, the tables stay as small as that of groups."""
    bounds = Bounds(0.9)
    windows = [[[f"c{index}"], [0.1]] for index in range(2_000)]
    misses = [[f"c{index}", 0.1] for index in range(8_000)]
    bounds.restore({"windows": windows, "misses": misses})
    for index in range(3_000):
        bounds.factor(((f"new{index}",), ("c1",)))
        bounds.see(((f"new{index}",), ("c1",)), 100.0, 200.0, 150.0)
    for index in range(3_000):
        bounds.factor(((f"new{index}",), ("c1",)))
    state = bounds.state()
    assert (len(state["windows"]), len(state["misses"]), len(bounds._factors)) == (1024,) * 3
    bounds.restore({"windows": [[["late"], [0.1]]], "misses": [["late", 0.2]]})
    assert len(bounds.state()["windows"]) == 1024
