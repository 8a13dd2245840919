"""`headway plan policy`: what is printed, as text and as JSON, and what is refused."""

import json
from pathlib import Path

import pytest

from headway.cli import EXIT_FAILED, EXIT_OK, EXIT_USAGE, main

SCENARIO = """\
devices:
  - {name: cpu:0, slots: 4, lanes: 2}
sharing: {kind: lanes, niced: true}
tiers:
  live: {priority: 0, budget: 40ms}
  bulk: {priority: 5, budget: 1s, slot_class: low}
models:
  - {name: speech, service: 9ms, noise_cv: 0.05}
  - {name: ocr, service: 30ms}
workload:
  duration: 60s
  streams:
    - {model: speech, tier: live, arrivals: {kind: poisson, rate_rps: 60}}
    - {model: ocr, tier: bulk, arrivals: {kind: poisson, rate_rps: 30}}
"""
ALONE = """\
devices: [{name: cpu:0, slots: 1}]
tiers: {live: {priority: 0, budget: 200ms}}
models: [{name: vision, service: {1: 10ms, 8: 20ms}, batch: {rows_max: 8}}]
workload:
  duration: 2s
  streams: [{model: vision, tier: live, arrivals: {kind: poisson, rate_rps: 50}}]
"""
FEW = ["--seeds", "2", "--requests", "150", "--processes", "1"]


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A small scenario file."""
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO)
    return path


def test_recommendation_comes_with_a_table_reasons_and_settings(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All on stdout; on stderr how much was played."""
    assert main(["plan", "policy", str(scenario), *FEW]) == EXIT_OK
    captured = capsys.readouterr()
    assert "policies on the first 1.667s of 60s, 2 seeds from 1 on" in captured.err
    lines = captured.out.splitlines()
    for policy in ("fifo", "priority", "static-cap", "lane-edf", "headway"):
        assert any(f" {policy} " in line for line in lines if line.startswith("│"))
    assert any(line.startswith("- Two classes compete") for line in lines)
    assert "# for the server's configuration" in lines
    assert lines[-1].startswith("policy: {kind: ")


def test_json_has_the_same_and_more(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The workload, the candidates, a row for each, and what is recommended."""
    line = ["plan", "policy", str(scenario), *FEW, "--format", "json"]
    assert main(line) == EXIT_OK
    data = json.loads(capsys.readouterr().out)
    assert (data["seed"], data["seeds"], data["emulated"]) == (1, 2, None)
    assert data["workload"]["preempts"] is True
    assert list(data["candidates"]) == [row["policy"] for row in data["rows"]]
    recommended = data["recommended"]
    assert recommended["label"] in data["candidates"]
    assert recommended["policy"]["kind"] == recommended["label"].partition(":")[0]
    assert recommended["reasons"]
    assert main(line) == EXIT_OK
    again = json.loads(capsys.readouterr().out)
    assert again == data


def test_runs_are_cut_so_that_all_of_them_take_no_long_time(
    scenario: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --requests the candidates and seeds share what may be played in all."""
    monkeypatch.setattr("headway.cli.plan_policy._REQUESTS_IN_ALL_MAX", 720)
    line = ["plan", "policy", str(scenario), "--seeds", "1", "--processes", "1"]
    assert main([*line, "--format", "json"]) == EXIT_OK
    data = json.loads(capsys.readouterr().out)
    expected = 720 // len(data["candidates"])
    assert data["duration_ns"] == int(60_000_000_000 * expected / (90 * 60))


def test_seed_and_target_are_taken(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They stand in the JSON."""
    flags = ["--seed", "9", "--high-missed-ratio", "0.2", "--format", "json"]
    assert main(["plan", "policy", str(scenario), *FEW, *flags]) == EXIT_OK
    data = json.loads(capsys.readouterr().out)
    assert (data["seed"], data["high_missed_ratio"]) == (9, 0.2)


def test_settings_of_batches_are_printed_where_they_are_recommended(
    scenario: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A candidate that waits a fixed time has settings of its models as well."""
    from headway import plan

    def only_waiting(character, found):
        return [each for each in plan.candidates.candidates_for(character, found) if each.linger_ns]

    scenario.write_text(ALONE)
    monkeypatch.setattr(plan, "candidates_for", only_waiting)
    assert main(["plan", "policy", str(scenario), *FEW]) == EXIT_OK
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "policy: {kind: fifo}",
        "models:  # add to what stands there",
        "  - {name: vision, batch: {linger: 50ms}}",
    ]


def test_load_that_moves_and_is_cut_is_warned_of(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is left out may be the very thing that matters."""
    phases = "[{duration: 20s, rate_rps: 20}, {duration: 10s, rate_rps: 200}]"
    scenario.write_text(
        SCENARIO.replace("{kind: poisson, rate_rps: 60}", f"{{kind: piecewise, phases: {phases}}}")
    )
    assert main(["plan", "policy", str(scenario), *FEW]) == EXIT_OK
    assert "warning: the load moves" in capsys.readouterr().err


def test_workload_that_sends_nothing_is_refused(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to do about it."""
    scenario.write_text(ALONE.replace("rate_rps: 50", "rate_rps: 0.0001"))
    assert main(["plan", "policy", str(scenario)]) == EXIT_FAILED
    captured = capsys.readouterr()
    assert "sends nothing" in captured.err
    assert "hint:" in captured.err


@pytest.mark.parametrize("ratio", ["-0.1", "1.5"])
def test_ratio_beyond_its_bounds_is_refused(
    scenario: Path, ratio: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part is between 0 and 1."""
    line = ["plan", "policy", str(scenario), "--high-missed-ratio", ratio]
    assert main(line) == EXIT_USAGE
    assert "between 0 and 1" in capsys.readouterr().err
