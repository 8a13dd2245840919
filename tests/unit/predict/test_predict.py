"""Profiles and the predictor that reads them."""

import pytest

from headway.predict import FixedPredictor, Profile


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


def test_nothing_known_is_zero():
    """Without evidence nothing is predicted and nobody refused."""
    predictor = FixedPredictor()
    assert (predictor.service_ns("m", 1), predictor.floor_ns("m", 1)) == (0, 0)


def test_profile_overrules_what_was_seen():
    """Where there is a profile the mean follows it; the floor is always what was seen."""
    predictor = FixedPredictor({"m": Profile({1: 100})})
    predictor.observe("m", 1, 40)
    assert (predictor.service_ns("m", 1), predictor.floor_ns("m", 1)) == (100, 40)


def test_mean_moves_by_a_sixteenth_and_floor_by_the_best():
    """One slow batch does not upset the mean; one fast one lowers the floor for good."""
    predictor = FixedPredictor()
    for service_ns in (1_600, 3_200, 800):
        predictor.observe("m", 1, service_ns)
    assert predictor.service_ns("m", 1) == 1_700 - 57
    assert predictor.floor_ns("m", 1) == 800


def test_negative_time_counts_as_none():
    """A clock that stumbles spoils nothing."""
    predictor = FixedPredictor()
    predictor.observe("m", 1, -5)
    assert (predictor.service_ns("m", 1), predictor.floor_ns("m", 1)) == (0, 0)


def test_unseen_size_is_taken_for_the_next_larger_or_the_largest():
    """A model that has run is never predicted to take no time at all."""
    predictor = FixedPredictor()
    predictor.observe("m", 2, 100)
    predictor.observe("m", 8, 300)
    predictor.observe("m", 4, 200)
    assert [predictor.service_ns("m", rows) for rows in (1, 3, 5, 9)] == [100, 200, 300, 300]
    assert predictor.floor_ns("m", 3) == 0
    assert predictor.service_ns("n", 3) == 0


def test_sizes_are_bounded():
    """Beyond the bound a new size is not kept and shares its model's."""
    predictor = FixedPredictor()
    for rows in range(1, 4_098):
        predictor.observe("m", rows, rows * 100)
    assert (predictor.service_ns("m", 4_097), predictor.floor_ns("m", 4_097)) == (409_600, 0)
