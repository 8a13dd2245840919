"""When enough has been measured: order statistics and the stopping rule, on made-up runs."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.profiling import StopRule, is_enough, spread_of

MS = 1_000_000


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=300))
def test_spread_is_ordered(times_ns: list[int]) -> None:
    """Interval, median and p95 are runs, in their order, whatever the runs are."""
    spread = spread_of(times_ns)
    assert min(times_ns) <= spread.low_ns <= spread.median_ns <= spread.high_ns <= max(times_ns)
    assert spread.median_ns <= spread.p95_ns <= max(times_ns)
    assert {spread.low_ns, spread.median_ns, spread.high_ns, spread.p95_ns} <= set(times_ns)
    assert spread.runs == len(times_ns)
    assert spread.doubt_ratio >= 0


def test_spread_of_known_runs() -> None:
    """A hundred runs of 1 to 100: the ranks are those of the formula."""
    spread = spread_of(list(range(100, 0, -1)))
    assert (spread.median_ns, spread.p95_ns) == (51, 95)
    assert (spread.low_ns, spread.high_ns) == (40, 61)
    assert spread.doubt_ratio == pytest.approx(10.5 / 51)


def test_spread_needs_a_run() -> None:
    """Nothing has no median."""
    with pytest.raises(ValueError, match="at least one run"):
        spread_of([])


def test_interval_holds_the_true_median() -> None:
    """Of skewed runs with a known median, the 95 % interval holds it in at least 93 of 100 sets."""
    chance = random.Random("spread")
    true_median_ns = 2.0**0.5 * 1e6  # of 1e6 * U^-1/2, which is a Pareto law
    held = 0
    for _ in range(1000):
        spread = spread_of([int(1e6 * (1 - chance.random()) ** -0.5) for _ in range(40)])
        held += spread.low_ns <= true_median_ns <= spread.high_ns
    assert held >= 930


def test_steady_runs_are_enough_at_the_minimum() -> None:
    """As soon as there are enough of them, and not before."""
    rule = StopRule(runs_min=20)
    assert not is_enough([10 * MS] * 19, rule)
    assert is_enough([10 * MS] * 20, rule)


def test_scattered_runs_are_not_enough() -> None:
    """Runs that differ by a third leave the median in doubt; many more of them settle it."""
    rule = StopRule()
    assert not is_enough([9 * MS, 12 * MS] * 20, rule)
    few = [9 * MS, 10 * MS, 10 * MS, 12 * MS] * 20
    assert is_enough(few, rule)


def test_time_ends_it_in_any_case() -> None:
    """When the time is up the spread does not matter, but a few runs must be there."""
    rule = StopRule(busy_ns_max=100 * MS)
    assert is_enough([10 * MS, 90 * MS, 10 * MS, 90 * MS, 10 * MS], rule)
    assert not is_enough([1000 * MS] * 4, rule)
    assert is_enough([1000 * MS] * 5, rule)


def test_short_runs_go_on_for_a_while() -> None:
    """Twenty equal runs within a moment are not enough where a least time is asked for."""
    rule = StopRule(busy_ns_min=50 * MS)
    assert not is_enough([MS] * 49, rule)
    assert is_enough([MS] * 50, rule)


def test_runs_are_limited() -> None:
    """A model that takes no time ends by its number of runs."""
    rule = StopRule(runs_max=100, busy_ns_min=MS)
    assert not is_enough([1] * 99, rule)
    assert is_enough([1] * 100, rule)
