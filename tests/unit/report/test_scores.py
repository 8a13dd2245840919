"""How right a predictor was, on forecasts made by hand."""

import io

import pytest
from rich.console import Console

from headway.report import (
    BoundPoint,
    ErrorStep,
    Observation,
    coverage_by_group,
    error_by_seen,
    learning_table,
    plot_bounds,
    plot_calibration,
    plot_errors,
    plot_learning,
    score,
    scores_table,
    settled_after,
)


def an_observation(predicted=100, actual=100, bound=120, *, seen=0, group="m x1"):
    """One forecast, in nanoseconds; the bound is of the same time."""
    return Observation(group, seen, predicted, actual, bound, actual)


def test_errors_are_relative_to_what_came():
    """Half of what came is -50 %, twice as much is +100 %."""
    scores = score([an_observation(50, 100), an_observation(200, 100)])
    assert scores.count == 2
    assert scores.mape == pytest.approx(0.75)
    assert scores.bias == pytest.approx(0.25)
    assert scores.under == 0.5
    assert scores.p95_error == 1.0


def test_p95_is_the_nearest_rank():
    """Of twenty errors it is the nineteenth."""
    observations = [an_observation(100 + n, 100) for n in range(20)]
    assert score(observations).p95_error == pytest.approx(0.18)


def test_bound_is_judged_against_what_it_was_of():
    """A bound may be of a longer time than the prediction; meeting it exactly holds."""
    held = Observation("m x1", 0, 100, 100, 150, 150)
    missed = Observation("m x1", 0, 100, 100, 150, 151)
    scores = score([held, missed])
    assert scores.mape == 0.0
    assert scores.coverage == 0.5
    assert scores.width == pytest.approx((1 + 150 / 151) / 2)


def test_coverage_of_a_class_needs_a_hundred_observations():
    """Classes with fewer are in the whole, and say nothing of themselves."""
    many = [an_observation(bound=90 if n < 10 else 120, group="a x1") for n in range(100)]
    few = [an_observation(bound=0, group="b x1") for _ in range(99)]
    assert coverage_by_group([*many, *few]) == [("a x1", 0.9)]
    scores = score([*many, *few])
    assert (scores.coverage_min, scores.coverage_max) == (0.9, 0.9)
    assert scores.coverage == pytest.approx(90 / 199)
    assert score(few).coverage_min is None


def test_nothing_predicted_cannot_be_judged():
    """An empty list is a mistake of the caller's."""
    with pytest.raises(ValueError, match="nothing was predicted"):
        score([])


def test_error_by_seen_goes_step_by_step():
    """Each step has its own mean; one without observations is left out."""
    observations = [
        an_observation(150, seen=0),
        an_observation(110, seen=9),
        an_observation(100, seen=10),
        an_observation(120, seen=60),
    ]
    steps = error_by_seen(observations, [0, 10, 20, 50, 100])
    assert steps == [
        ErrorStep(0, 10, 2, pytest.approx(0.3)),
        ErrorStep(10, 20, 1, 0.0),
        ErrorStep(50, 100, 1, pytest.approx(0.2)),
    ]


def a_learner(bad_count, count=200):
    """Wrong by as much again at first, then by a tenth."""
    return [an_observation(200 if n < bad_count else 110, seen=n) for n in range(count)]


def test_settling_counts_until_the_error_is_near_its_end():
    """One bad forecast among twenty is still too much."""
    assert settled_after(a_learner(0)) == 0
    assert settled_after(a_learner(40)) == 40
    assert settled_after(a_learner(40), since=10) == 30
    assert settled_after([]) is None


def test_what_never_comes_near_has_not_settled():
    """None, where the error stays high until the half that it is compared with."""
    assert settled_after(a_learner(120)) is None
    assert settled_after(a_learner(0), settled=0.01) is None


def test_table_shows_what_there_is():
    """Columns without a value are left out; ratios read as percent, absence as a dash."""
    rows = [
        {
            "config": "pinned",
            "utilisation": 0.85,
            "predictor": "fixed",
            "mape": 0.436,
            "width": 1.3,
        },
        {
            "config": "pinned",
            "utilisation": 0.85,
            "predictor": "oracle",
            "mape": 0.057,
            "width": None,
        },
    ]
    console = Console(file=io.StringIO(), width=200, no_color=True)
    console.print(scores_table(rows, caption="why"))
    text = console.file.getvalue()
    assert "43.6 %" in text
    assert "85.0 %" in text
    assert "1.30" in text
    assert "–" in text
    assert "why" in text
    assert "cost" not in text
    assert "coverage" not in text


def test_learning_has_a_line_for_each_predictor():
    """With and without a profile apart; steps side by side, an absent one as a dash."""
    given = {"settled_after": 31, "executions": 5}
    rows = [
        {"predictor": "rls", "has_profile": True, "seen_min": 0, "mape": 0.44, **given},
        {"predictor": "rls", "has_profile": True, "seen_min": 10, "mape": 0.26, **given},
        {"predictor": "rls", "has_profile": False, "seen_min": 0, "mape": 0.8, **given},
    ]
    console = Console(file=io.StringIO(), width=200, no_color=True)
    console.print(learning_table(rows))
    lines = [line for line in console.file.getvalue().splitlines() if "rls" in line]
    words = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]
    assert words == [
        ["rls", "yes", "44.0 %", "26.0 %", "31"],
        ["rls", "no", "80.0 %", "–", "31"],
    ]


def test_pictures_are_written(tmp_path):
    """Each is a PNG of some size, made without a display."""
    observations = {name: a_learner(5, 30) for name in ("fixed", "rls", "headway", "a", "b")}
    words = {"title": "t", "command": "headway bench prediction"}
    plot_errors({"fixed": {0.6: 0.3, 0.95: 0.5}}, tmp_path / "new" / "e.png", **words)
    plot_calibration(observations, tmp_path / "c.png", **words)
    plot_learning({"fixed": [ErrorStep(0, 10, 5, 0.4)]}, tmp_path / "l.png", **words)
    plot_bounds({"fixed": [BoundPoint(0.95, 1.4)]}, tmp_path / "b.png", confidence=0.95, **words)
    for path in (tmp_path / "new" / "e.png", *tmp_path.glob("*.png")):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 5_000
