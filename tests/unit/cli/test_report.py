"""`headway report`: tables, JSON and plots of samples and journals."""

import json
import re
import sys
from pathlib import Path

import pytest

from headway.cli import EXIT_FAILED, EXIT_OK, EXIT_USAGE, main
from headway.core import ModelName, TenantId, TierName
from headway.report import samples_to_jsonl
from headway.units import NS_PER_MS
from headway.workload import Outcome, Sample

SCENARIO = """\
devices: [{name: cpu:0, slots: 1}]
tiers: {live: {budget: 40ms}}
models: [{name: ocr, service: 9ms}]
workload:
  duration: 1s
  streams: [{model: ocr, tier: live, arrivals: {kind: poisson, rate_rps: 80}}]
"""


def samples_file(path: Path, took_ms: int) -> str:
    """Fifty requests that all took the same, with a budget of 20 ms."""
    samples = [
        Sample(
            model=ModelName("ocr"),
            tier=TierName("live"),
            tenant=TenantId("a"),
            intended_at_ns=at_ms * NS_PER_MS,
            sent_at_ns=at_ms * NS_PER_MS,
            done_at_ns=(at_ms + took_ms) * NS_PER_MS,
            outcome=Outcome.COMPLETED,
            budget_ns=20 * NS_PER_MS,
        )
        for at_ms in range(50)
    ]
    samples_to_jsonl(samples, path)
    return str(path)


@pytest.fixture
def journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """A short simulated run."""
    scenario, path = tmp_path / "scenario.yaml", tmp_path / "edf.journal"
    scenario.write_text(SCENARIO)
    assert main(["sim", str(scenario), "--policy", "edf", "--journal", str(path)]) == EXIT_OK
    capsys.readouterr()
    return str(path)


def test_one_file_is_shown_in_detail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines for its tiers and its models."""
    assert main(["report", samples_file(tmp_path / "a.jsonl", 10)]) == EXIT_OK
    out = capsys.readouterr().out
    assert "tier live" in out
    assert "model ocr" in out
    assert "10ms" in out


def test_files_are_compared_side_by_side(
    tmp_path: Path, journal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Samples and journals have a column each, named after their files."""
    slow = samples_file(tmp_path / "slow.jsonl", 30)
    assert main(["report", slow, journal]) == EXIT_OK
    lines = capsys.readouterr().out.splitlines()
    assert [word for word in lines[1].split() if word.isalpha()] == ["tier", "slow", "edf"]
    violations = next(line for line in lines if "violations" in line)
    assert "100.00 %" in violations


def test_files_of_one_name_are_runs_of_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """NAME=FILE gathers runs, whose spread is shown."""
    files = [samples_file(tmp_path / f"{took}.jsonl", took) for took in (10, 30, 12)]
    line = ["report", f"a={files[0]}", f"a={files[1]}", f"b={files[2]}"]
    assert main(line) == EXIT_OK
    out = capsys.readouterr().out
    assert "50.00 % (0.00 % to 100.00 %)" in out
    assert "mean of 2 runs" in out
    assert main([*line, "--format", "json"]) == EXIT_OK
    data = json.loads(capsys.readouterr().out)
    assert {name: len(runs) for name, runs in data.items()} == {"a": 2, "b": 1}
    assert data["b"][0]["tiers"]["live"]["latency_p50_ns"] == 12 * NS_PER_MS


def test_files_of_one_stem_keep_their_paths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names are made longer where they would be the same."""
    (tmp_path / "x").mkdir()
    files = [samples_file(tmp_path / "a.jsonl", 10), samples_file(tmp_path / "x" / "a.jsonl", 10)]
    assert main(["report", *files, "--format", "json"]) == EXIT_OK
    assert list(json.loads(capsys.readouterr().out)) == files


def test_plot_is_written(tmp_path: Path, journal: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A PNG, beside the table."""
    png = tmp_path / "latency.png"
    assert main(["report", journal, "--plot", str(png), "--title", "A run"]) == EXIT_OK
    captured = capsys.readouterr()
    assert f"plot: {png}" in captured.err
    assert png.read_bytes().startswith(b"\x89PNG")
    made = tmp_path / "new" / "a.png"
    assert main(["report", journal, "--plot", str(made)]) == EXIT_OK
    assert made.exists()
    assert main(["report", journal, "--plot", str(png / "a.png")]) == EXIT_FAILED
    assert "cannot write" in capsys.readouterr().err


def test_missing_plotter_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without matplotlib the verb names the extra that brings it."""
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    file = samples_file(tmp_path / "a.jsonl", 10)
    assert main(["report", file, "--plot", str(tmp_path / "a.png")]) == EXIT_FAILED
    assert "hint: pip install headway[report]" in capsys.readouterr().err


def test_terminal_is_not_overrun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a narrow terminal the last columns are left out, and that is said."""
    file = samples_file(tmp_path / "a.jsonl", 10)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "70")
    assert main(["report", file]) == EXIT_OK
    captured = capsys.readouterr()
    plain = re.sub(r"\x1b\[[\d;]*m", "", captured.out)
    assert max(map(len, plain.splitlines())) <= 70
    assert captured.err.startswith("too narrow for ")


@pytest.mark.parametrize("content", [None, b"", b"{}\n", b"not json\n"])
def test_other_files_are_refused(
    content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is neither samples nor a journal is named."""
    path = tmp_path / "some.jsonl"
    if content is not None:
        path.write_bytes(content)
    expected = EXIT_FAILED if content == b"" else EXIT_USAGE
    assert main(["report", str(path)]) == expected
    assert str(path) in capsys.readouterr().err


def test_half_a_name_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """A name without a file, or a file without a name."""
    for text in ("edf=", "=run.journal"):
        assert main(["report", text]) == EXIT_USAGE
        assert "is not NAME=FILE" in capsys.readouterr().err
