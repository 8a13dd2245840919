"""Profiles: what is said between and beyond the sizes that were measured."""

import pytest

from headway.predict import Profile


def test_profile_is_exact_at_measured_sizes():
    """What was measured is said back."""
    profile = Profile({8: 400, 1: 100})
    assert [profile.service_ns(rows) for rows in (1, 8)] == [100, 400]


def test_profile_interpolates_and_rounds_up():
    """Between sizes the time grows evenly; time needed is rounded up."""
    profile = Profile({1: 100, 4: 200})
    assert [profile.service_ns(rows) for rows in (2, 3)] == [134, 167]


def test_profile_grows_in_proportion_beyond_the_largest():
    """Nothing is known there, so overheads are not assumed to be shared."""
    assert Profile({1: 100, 3: 200}).service_ns(4) == 267


def test_profile_below_the_smallest_is_the_smallest():
    """A smaller batch is not assumed to be faster."""
    assert Profile({4: 200}).service_ns(1) == 200


def test_profile_may_fall():
    """A larger size that was measured faster is believed."""
    assert Profile({1: 200, 3: 100}).service_ns(2) == 150


@pytest.mark.parametrize("times", [{}, {0: 5}, {1: 0}, {1: 5, 2: -1}])
def test_profile_needs_positive_numbers(times):
    """A profile of nothing is refused."""
    with pytest.raises(ValueError, match="positive rows and times"):
        Profile(times)
