"""`headway sim`: the table, the JSON and the journal of simulated runs."""

import json
from pathlib import Path

import pytest

from headway.cli import EXIT_FAILED, EXIT_OK, EXIT_USAGE, main
from headway.observe import read_journal

ROOT = Path(__file__).parents[3]
SCENARIO = """\
devices:
  - {name: cpu:0, slots: 2, lanes: 1}
sharing: {kind: lanes, niced: true}
tiers:
  live: {priority: 0, budget: 40ms}
  bulk: {priority: 5, budget: 1s, slot_class: low}
models:
  - {name: speech, service: 9ms, noise_cv: 0.05}
  - {name: ocr, service: 30ms}
workload:
  duration: 3s
  streams:
    - {model: speech, tier: live, arrivals: {kind: poisson, rate_rps: 30}}
    - {model: ocr, tier: bulk, arrivals: {kind: poisson, rate_rps: 20}}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    """A small scenario file."""
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO)
    return str(path)


def test_policies_are_compared_on_the_same_arrivals(
    scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row for each tier and policy, the seed on stderr, and JSON with the same figures."""
    line = ["sim", scenario, "--policy", "fifo", "--policy", "edf"]
    assert main(line) == EXIT_OK
    captured = capsys.readouterr()
    assert "seed 1" in captured.err
    cells = [row.split("│") for row in captured.out.splitlines() if row.startswith("│")]
    words = [(row[1].strip(), row[2].strip()) for row in cells]
    assert words == [
        ("live", "fifo"),
        ("40ms", "edf"),
        ("bulk", "fifo"),
        ("1s", "edf"),
        ("all", "fifo"),
        ("", "edf"),
    ]
    assert main([*line, "--format", "json"]) == EXIT_OK
    data = json.loads(capsys.readouterr().out)
    assert (data["seed"], data["duration_ns"]) == (1, 3_000_000_000)
    runs = data["policies"]
    assert list(runs) == ["fifo", "edf"]
    for tier in ("live", "bulk"):
        counts = [runs[policy]["tiers"][tier]["requests"] for policy in runs]
        assert counts[0] == counts[1]
        assert cells[0 if tier == "live" else 2][3].strip() == str(counts[0])
    total = runs["edf"]["total"]
    assert total["requests"] == total["completed"] + total["rejected"] + total["expired"]
    assert total["violation_ratio"] == total["violations"] / total["requests"]


def test_seed_replaces_the_scenarios(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The same seed prints the same, another one does not; without one the file's counts."""
    printed = []
    for seed in ("7", "7", "8"):
        assert main(["sim", scenario, "--seed", seed, "--format", "json"]) == EXIT_OK
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert json.loads(printed[0])["policies"] != json.loads(printed[2])["policies"]
    Path(scenario).write_text(f"seed: 7\n{SCENARIO}")
    assert main(["sim", scenario, "--format", "json"]) == EXIT_OK
    assert capsys.readouterr().out == printed[0]


def test_one_policy_stands_beside_its_budget(
    scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a single row a tier, name and budget share it; without --policy it is `priority`."""
    assert main(["sim", scenario]) == EXIT_OK
    rows = [row for row in capsys.readouterr().out.splitlines() if row.startswith("│")]
    assert [row.split()[1] for row in rows] == ["live", "40ms", "bulk", "1s", "all"]
    assert "priority" in rows[0]


def test_journals_are_named_after_their_policies(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One run writes the file, several one each beside it."""
    path = tmp_path / "run.journal"
    assert main(["sim", scenario, "--policy", "edf", "--journal", str(path)]) == EXIT_OK
    header, records = read_journal(path)
    assert header.policy["kind"] == "edf"
    count = sum(1 for _ in records)
    assert f"journal: {path} ({count} steps)" in capsys.readouterr().err
    line = ["sim", scenario, "--policy", "fifo", "--policy", "edf", "--journal", str(path)]
    assert main(line) == EXIT_OK
    assert (tmp_path / "run-fifo.journal").exists()
    assert (tmp_path / "run-edf.journal").read_bytes().splitlines()[1:] == (
        path.read_bytes().splitlines()[1:]
    )


def test_mistake_is_named_with_file_and_line(
    scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and the place of the wrong value."""
    Path(scenario).write_text(SCENARIO.replace("30ms", "soon"))
    assert main(["sim", scenario]) == EXIT_USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {scenario}:9: `models[1].service`: `soon` is not a")
    assert main(["sim", "nowhere.yaml"]) == EXIT_USAGE


def test_journal_that_cannot_be_written_is_an_error(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said before a long run, not after it."""
    path = tmp_path / "no" / "run.journal"
    assert main(["sim", scenario, "--journal", str(path)]) == EXIT_FAILED
    assert f"cannot write the journal `{path}`" in capsys.readouterr().err


def test_progress_is_shown_on_a_terminal_only(
    scenario: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bar for whoever waits, nothing in a log."""
    monkeypatch.setattr("headway.cli.sim._EVENTS_BETWEEN_LOOKS", 10)
    monkeypatch.setattr("headway.cli.sim._REFRESH_S", 0.0)
    assert main(["sim", scenario]) == EXIT_OK
    assert "virtual time" not in capsys.readouterr().err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert main(["sim", scenario]) == EXIT_OK
    assert "s of virtual time" in capsys.readouterr().err


def test_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The scenario among the examples compares every policy, and classes help the urgent."""
    monkeypatch.chdir(ROOT)
    line = "sim examples/scenario.yaml --policy fifo --policy priority --format json"
    assert main(line.split()) == EXIT_OK
    runs = json.loads(capsys.readouterr().out)["policies"]
    urgent = {policy: runs[policy]["tiers"]["live"]["violation_ratio"] for policy in runs}
    assert urgent["priority"] < urgent["fifo"] / 2


def test_emulated_example_runs_and_is_labelled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Whoever reads its figures is told that they are of no accelerator."""
    monkeypatch.chdir(ROOT)
    text = (ROOT / "examples/emulated-scenario.yaml").read_text(encoding="utf-8")
    short = tmp_path / "short.yaml"
    short.write_text(text.replace("duration: 20s", "duration: 2s"), encoding="utf-8")
    assert main(["sim", str(short), "--policy", "edf"]) == EXIT_OK
    shown = capsys.readouterr()
    assert "of an emulated a100-pcie4" in shown.err
    assert "of an emulated a100-pcie4" in shown.out
    assert main(["sim", str(short), "--format", "json"]) == EXIT_OK
    told = json.loads(capsys.readouterr().out)
    assert told["emulated"] == "a100-pcie4"
    assert told["policies"]["priority"]["total"]["completed"] > 100


def test_seeds_and_loads_are_played_for_every_policy(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row a policy and load, with intervals; the last policy's differences; and a plot."""
    line = ["sim", scenario, "--policy", "fifo", "--policy", "priority", "--seeds", "3"]
    line += ["--load", "0.5,1.5", "--processes", "1"]
    assert main([*line, "--format", "json", "--plots", str(tmp_path)]) == EXIT_OK
    shown = capsys.readouterr()
    data = json.loads(shown.out)
    rows = {(row["load"], row["policy"]): row for row in data["rows"]}
    assert set(rows) == {(load, policy) for load in (0.5, 1.5) for policy in ("fifo", "priority")}
    for row in rows.values():
        assert (row["seeds"], row["emulated"], row["mix"]) == (3, False, "scenario")
        assert row["high_violations_from"] <= row["high_violations"] <= row["high_violations_to"]
    assert rows[0.5, "fifo"]["high_violations"] < rows[1.5, "fifo"]["high_violations"]
    assert rows[1.5, "priority"]["high_violations"] < rows[1.5, "fifo"]["high_violations"]
    (first, second) = data["differences"]
    assert (first["policy"], first["against"], first["pairs"]) == ("priority", "fifo", 3)
    assert second["high_violations_difference"] < 0
    assert (tmp_path / "scenario-frontier.png").stat().st_size > 1000
    assert main(line) == EXIT_OK
    assert "priority" in capsys.readouterr().out


def test_oracle_is_a_policy_and_the_others_are_compared_with_it(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It lets down no more than whoever does not know the future; it cannot be replayed."""
    line = ["sim", scenario, "--policy", "oracle", "--policy", "edf"]
    assert main([*line, "--seeds", "2", "--processes", "1", "--format", "json"]) == EXIT_OK
    oracle, edf = json.loads(capsys.readouterr().out)["rows"]
    assert edf["oracle_high"] == oracle["high_violations"] <= edf["high_violations"]
    assert main([*line, "--journal", str(tmp_path / "run.journal")]) == EXIT_FAILED
    assert "does not know the future" in capsys.readouterr().err


def test_journal_of_several_runs_is_refused(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is one a run, and here there are many."""
    line = ["sim", scenario, "--seeds", "2", "--journal", str(tmp_path / "run.journal")]
    assert main(line) == EXIT_USAGE
    assert "a journal is of one run" in capsys.readouterr().err


def test_loads_are_ratios_above_nothing(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistake is named."""
    assert main(["sim", scenario, "--load", "0.5,0"]) == EXIT_USAGE
    assert "--load" in capsys.readouterr().err
