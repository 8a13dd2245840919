"""The predictor that tests of other things are made with."""

from headway.predict import Profile
from headway.testing import MeanPredictor


def test_nothing_known_is_zero():
    """Without evidence nothing is predicted and nobody refused."""
    predictor = MeanPredictor()
    assert (predictor.service_ns("m", 1), predictor.floor_ns("m", 1)) == (0, 0)


def test_profile_overrules_what_was_seen():
    """Where there is a profile the mean follows it; the floor is always what was seen."""
    predictor = MeanPredictor({"m": Profile({1: 100})})
    predictor.observe("m", 1, 40)
    assert (predictor.service_ns("m", 1), predictor.floor_ns("m", 1)) == (100, 40)


def test_mean_moves_by_a_sixteenth_and_floor_by_the_best():
    """One slow batch does not upset the mean; one fast one lowers the floor for good."""
    predictor = MeanPredictor()
    for service_ns in (1_600, 3_200, 800):
        predictor.observe("m", 1, service_ns)
    assert predictor.service_ns("m", 1) == 1_700 - 57
    assert predictor.floor_ns("m", 1) == 800


def test_negative_time_counts_as_none():
    """A clock that stumbles spoils nothing."""
    predictor = MeanPredictor()
    predictor.observe("m", 1, -5)
    assert (predictor.service_ns("m", 1), predictor.floor_ns("m", 1)) == (0, 0)


def test_unseen_size_is_taken_for_the_next_larger_or_the_largest():
    """A model that has run is never predicted to take no time at all."""
    predictor = MeanPredictor()
    predictor.observe("m", 2, 100)
    predictor.observe("m", 8, 300)
    predictor.observe("m", 4, 200)
    assert [predictor.service_ns("m", rows) for rows in (1, 3, 5, 9)] == [100, 200, 300, 300]
    assert predictor.floor_ns("m", 3) == 0
    assert predictor.service_ns("n", 3) == 0


def test_sizes_are_bounded():
    """Beyond the bound a new size is not kept and shares its model's."""
    predictor = MeanPredictor()
    for rows in range(1, 4_098):
        predictor.observe("m", rows, rows * 100)
    assert (predictor.service_ns("m", 4_097), predictor.floor_ns("m", 4_097)) == (409_600, 0)
