"""Means and how far they can be trusted."""

from random import Random
from statistics import NormalDist

import pytest

from headway.report import estimate, estimate_paired


def test_interval_is_students():
    """Of 1, 2, 3: mean 2, scatter 1, two degrees of freedom: half is 4.303 / sqrt(3)."""
    found = estimate([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert (found.low, found.high) == pytest.approx((2 - 2.4843, 2 + 2.4843), abs=1e-3)
    assert not found.excludes_zero


def test_single_number_has_no_interval():
    """Nobody knows its scatter, so nothing is known of its sign either."""
    found = estimate([5.0])
    assert (found.mean, found.low, found.high) == (5.0, None, None)
    assert not found.excludes_zero


def test_interval_of_many_nears_the_normal_one():
    """Beyond the table the quantile goes on falling to that of the normal distribution."""
    wide = estimate([0.0, 1.0] * 16)
    narrow = estimate([0.0, 1.0] * 5000)
    scatter = (10_000 / 9_999) ** 0.5 / 2
    half = NormalDist().inv_cdf(0.975) * scatter / 100
    assert narrow.high - narrow.mean == pytest.approx(half, rel=1e-3)
    assert wide.high - wide.mean > narrow.high - narrow.mean


def test_interval_holds_the_mean_nineteen_times_of_twenty():
    """Over many draws of five numbers, within what chance allows."""
    chance = Random(4)
    hits = 0
    for _ in range(2000):
        found = estimate([chance.gauss(10, 3) for _ in range(5)])
        hits += found.low <= 10 <= found.high
    assert 0.93 < hits / 2000 < 0.97


def test_pairs_cancel_what_they_share():
    """The same step above numbers that scatter is known exactly."""
    others = [10.0, 30.0, 50.0]
    paired = estimate_paired([number + 3 for number in others], others)
    assert paired.difference == (3.0, 3.0, 3.0)
    assert paired.difference.excludes_zero


def test_relative_difference_is_over_the_others_mean():
    """A tenth more of each is a tenth more, whatever the scatter; of nothing there is no part."""
    others = [10.0, 30.0, 50.0]
    relative = estimate_paired([number * 1.1 for number in others], others).relative
    assert relative == pytest.approx((0.1, 0.1, 0.1))
    assert estimate_paired([1.0, 2.0], [0.0, 0.0]).relative is None


def test_nothing_and_unequal_are_refused():
    """A mean needs numbers, a pair both of its halves."""
    with pytest.raises(ValueError, match="nothing"):
        estimate([])
    with pytest.raises(ValueError, match="shorter"):
        estimate_paired([1.0, 2.0], [1.0])
