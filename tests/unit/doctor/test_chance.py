"""Trends that hold, and shares beyond a threshold."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.doctor.chance import Point, confidence_above, is_staircase, quantile, trend_of


def _series(values: list[float]) -> list[Point]:
    return [Point(float(at), value) for at, value in enumerate(values)]


def test_trend_is_the_median_slope_and_ignores_wild_values() -> None:
    """A line with a few values far out has the line's slope, within its interval."""
    chance = Random("line")
    values = [3.0 * at + chance.gauss(0, 1) for at in range(40)]
    values[7] += 1e6
    values[31] -= 1e6
    trend = trend_of(_series(values))
    assert trend is not None
    assert trend.per_s == pytest.approx(3.0, abs=0.1)
    assert trend.low_per_s < 3.0 < trend.high_per_s
    assert trend.rising_ratio > 0.999
    assert trend.tau > 0.8


def test_trend_by_hand() -> None:
    """Five points: slopes, tau and its variance as on paper."""
    trend = trend_of(_series([1, 3, 2, 5, 4]))
    assert trend is not None
    assert trend.per_s == pytest.approx(0.875)  # of -1 -1 1/3 1/2 3/4 1 1 4/3 2 3 the middle
    assert trend.tau == pytest.approx(0.6)  # eight pairs rise, two fall, of ten


def test_trend_of_a_flat_series_is_none_at_all() -> None:
    """Equal values have no slope and are not sure to rise."""
    trend = trend_of(_series([5.0] * 20))
    assert trend is not None
    assert (trend.per_s, trend.tau) == (0.0, 0.0)
    assert trend.rising_ratio == 0.5


def test_trend_needs_three_points_in_time() -> None:
    """Two points make any slope."""
    assert trend_of(_series([1, 2])) is None
    assert trend_of([Point(1.0, 1.0)] * 5) is None


def test_interval_holds_the_true_slope_in_99_of_100() -> None:
    """Of 300 noisy lines the interval misses the slope about three times."""
    chance = Random("coverage")
    missed = 0
    for _ in range(300):
        values = [0.5 * at + chance.gauss(0, 4) for at in range(25)]
        trend = trend_of(_series(values))
        assert trend is not None
        missed += not trend.low_per_s <= 0.5 <= trend.high_per_s
    assert missed <= 9


def test_trend_of_a_long_series_is_that_of_its_parts() -> None:
    """Neighbours are merged; the slope stays."""
    trend = trend_of(_series([0.25 * at for at in range(5_000)]))
    assert trend is not None
    assert trend.per_s == pytest.approx(0.25)


def test_staircase_tells_a_leak_from_what_has_settled() -> None:
    """Even growth climbs all the way; a jump, and a bend to a plateau, stop."""
    assert is_staircase(_series([float(at) for at in range(50)]), steps=5, rise=2.5)
    jump = [0.0] * 25 + [50.0] * 25
    assert not is_staircase(_series(jump), steps=5, rise=2.5)
    bend = [50 * (1 - 0.85**at) for at in range(50)]
    assert not is_staircase(_series(bend), steps=5, rise=2.5)
    assert not is_staircase(_series([1.0, 2.0]), steps=5, rise=0.1)


def test_confidence_by_hand() -> None:
    """One of one at a half is three quarters; none of none is what was thought before."""
    assert confidence_above(1, 1, 0.5) == pytest.approx(0.75)
    assert confidence_above(0, 1, 0.5) == pytest.approx(0.25)
    assert confidence_above(0, 0, 0.5) == pytest.approx(0.5)
    assert confidence_above(30, 30, 0.5) > 0.999999


@given(st.integers(0, 3_000), st.integers(0, 3_000), st.floats(0.01, 0.99))
def test_confidence_is_a_chance_and_grows_with_the_count(
    first: int, second: int, threshold: float
) -> None:
    """Between 0 and 1, and more observations of the kind never make it less sure."""
    count, total = sorted((first, second))
    sure = confidence_above(count, total, threshold)
    assert 0 <= sure <= 1
    if count < total:
        assert confidence_above(count + 1, total, threshold) >= sure - 1e-9


def test_confidence_is_the_same_by_all_three_ways() -> None:
    """Small, middle and large totals agree where they meet."""
    for total in (48, 49, 50, 998, 999, 1000, 1001):
        count = round(total * 0.35)
        exact = confidence_above(count, total, 0.3)
        beside = confidence_above(count, total + 1, 0.3)
        assert exact == pytest.approx(beside, abs=0.03)


def test_quantile_is_one_of_the_values() -> None:
    """The lower quartile of four is the second; beyond the end is the last."""
    assert quantile([4, 1, 3, 2], 0.25) == 2
    assert quantile([4, 1, 3, 2], 1.0) == 4
