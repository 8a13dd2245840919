"""Who of two predictors answers."""

import math

import pytest

from headway.predict.contest import Contest


def test_contest_is_won_by_lower_errors_after_a_trial():
    """Fifty executions must be scored; then the lower rolling error wins, and can lose again."""
    contest = Contest()
    for _ in range(49):
        contest = contest.after(challenger_ns=100.0, champion_ns=150.0, actual_ns=100.0)
    assert not contest.is_won
    contest = contest.after(challenger_ns=100.0, champion_ns=150.0, actual_ns=100.0)
    assert contest.is_won
    assert Contest.restored(list(contest)) == contest
    for _ in range(100):
        contest = contest.after(challenger_ns=math.nan, champion_ns=150.0, actual_ns=100.0)
    assert not contest.is_won
    assert contest.challenger <= 3.0


@pytest.mark.parametrize("junk", [None, [1], [1, "x", 2.0], [-1, 0.0, 0.0], [1, math.nan, 0.0]])
def test_contest_starts_afresh_from_junk(junk):
    """What is not a contest's state is nobody's win."""
    assert Contest.restored(junk) == Contest()
