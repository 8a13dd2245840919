"""`headway bench`: what is asked for, what is missing, and how results are shown."""

import json
from pathlib import Path

import pytest

from headway.bench import (
    FULL,
    QUICK,
    Judgement,
    Outcome,
    PredictionRow,
    Recorded,
    ShiftRow,
    SoloMeasured,
)
from headway.bench import Progress as RecordingProgress
from headway.bench.plan import Shift
from headway.cli import EXIT_FAILED, EXIT_OK, EXIT_USAGE, bench_words, main, parser_of
from headway.cli import bench_prediction as verb


def campaign_of(*words):
    """What a command line asks for."""
    return verb._campaign(parser_of("bench").parse_args(["prediction", *words]))


def test_nothing_said_means_the_pinned_setup():
    """All loads and seeds of the full campaign, no other set-up and no shift."""
    campaign = campaign_of()
    assert campaign.configs == ("pinned",)
    assert campaign.utilisations == FULL.utilisations
    assert campaign.seeds == FULL.seeds
    assert campaign.shifts == ()


def test_words_choose_what_is_recorded():
    """Loads, seeds, set-ups and shifts are what was said."""
    campaign = campaign_of(
        *("--utilisation", "0.5,0.9", "--seeds", "2", "--configs", "unpinned, intra2", "--shifts")
    )
    assert campaign.utilisations == (0.5, 0.9)
    assert campaign.seeds == 2
    assert campaign.configs == ("unpinned", "intra2")
    assert campaign.shifts == FULL.shifts


def test_quick_is_short():
    """What is recorded and timed before takes less than a minute, loading included."""
    campaign = campaign_of("--quick")
    assert campaign.recordings_count == 1
    assert campaign.duration_ns == QUICK.duration_ns < FULL.duration_ns


@pytest.mark.parametrize("loads", ["much", "0", "2", "0.5,,0.9"])
def test_loads_that_are_none_are_refused(loads, capsys):
    """Exit code 2, before anything is recorded."""
    assert main(["bench", "prediction", "--utilisation", loads]) == EXIT_USAGE
    assert "error: " in capsys.readouterr().err


def test_unknown_setup_and_predictor_are_refused(capsys, monkeypatch):
    """Exit code 2, with those that there are."""
    monkeypatch.setattr(verb, "fetch", lambda cache: None)
    assert main(["bench", "prediction", "--quick", "--configs", "best"]) == EXIT_USAGE
    assert "no set-up `best`" in capsys.readouterr().err
    assert main(["bench", "prediction", "--quick", "--predictors", "best"]) == EXIT_USAGE
    assert "no predictor `best`" in capsys.readouterr().err


def test_missing_extra_is_told(capsys, monkeypatch):
    """With the words that install it, before the first minute is spent."""
    monkeypatch.setattr(bench_words, "find_spec", lambda name: None)
    assert main(["bench", "prediction", "--quick"]) == EXIT_FAILED
    captured = capsys.readouterr()
    assert "the benchmark needs `onnxruntime`, `pillow`" in captured.err
    assert "pip install 'headway[demo]'" in captured.err


def an_outcome():
    """One row of two results, none of the others."""
    prediction = PredictionRow(
        config="pinned",
        utilisation=0.85,
        predictor="fixed",
        executions=1200,
        mape=0.436,
        p95_error=0.56,
        bias=-0.43,
        under=0.97,
        coverage=0.95,
        coverage_min=0.94,
        coverage_max=0.97,
        width=1.3,
        cost_us=12.0,
        busy=0.86,
        busy_min=0.8,
        busy_max=0.9,
        others_cores=None,
        seeds=3,
    )
    shift = ShiftRow(
        shift=Shift.RATE,
        predictor="fixed",
        mape_before=0.2,
        mape_first=0.4,
        mape_settled=0.5,
        settled_after=0,
        coverage_after=0.94,
        seeds=2,
    )
    rows = Judgement(
        prediction=[prediction],
        response_prediction=[],
        prediction_cold_start=[],
        prediction_shift=[shift],
    )
    return Outcome([], rows)


@pytest.fixture
def campaign_run(monkeypatch):
    """A campaign that is over at once; what it was asked for."""
    asked = {}

    def run_campaign(campaign, predictors, **options):
        asked.update(options, campaign=campaign, predictors=predictors)
        for news in (
            SoloMeasured(classes=(), capacity_ratio=0.9, others_cores=0.9),
            RecordingProgress(path="x/pinned-u85-s1.jsonl", done_ratio=0.5),
            Recorded(path="x/pinned-u85-s1.jsonl", busy_ratio=0.8, others_cores=0.1),
        ):
            options["on_news"](news)
        options["on_judged"](Path("x/pinned-u85-s1.jsonl"))
        return an_outcome()

    monkeypatch.setattr(verb, "fetch", lambda cache: None)
    monkeypatch.setattr("headway.bench.run_campaign", run_campaign)
    return asked


def test_json_has_every_result(campaign_run, capsys, tmp_path):
    """Under the names of the results files, with what was asked for; words go to stderr."""
    keep = tmp_path / "kept"
    words = ["bench", "prediction", "--quick", "--keep", str(keep), "--format", "json"]
    assert main([*words, "--predictors", "fixed,rls"]) == EXIT_OK
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    assert list(data) == [
        "campaign",
        "prediction",
        "response_prediction",
        "prediction_cold_start",
        "prediction_shift",
    ]
    assert data["prediction"][0]["mape"] == 0.436
    assert data["prediction_shift"][0]["shift"] == "rate"
    assert data["campaign"]["seeds"] == 1
    assert campaign_run["predictors"] == ("fixed", "rls")
    assert campaign_run["folder"] == keep
    assert "seed 1" in captured.err
    assert f"recordings: {keep}" in captured.err
    assert "other programs kept 0.9 cores busy" in captured.err


def test_table_has_a_section_for_each_result(campaign_run, capsys):
    """Ratios as percent; results without rows are not shown, recordings not kept are gone."""
    assert main(["bench", "prediction", "--quick"]) == EXIT_OK
    out = capsys.readouterr().out
    assert "43.6 %" in out
    assert "predicted when the batch starts" in out
    assert "around a change half way" in out
    assert "at admission" not in out
    assert not campaign_run["folder"].exists()
