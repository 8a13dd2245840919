"""`headway report timeline`: a journal becomes a file that Perfetto opens."""

import json

import pytest
from tests.recorded_run import record_run

from headway.cli import EXIT_FAILED, EXIT_OK, EXIT_USAGE, main


@pytest.fixture
def journal(tmp_path, capsys):
    """A simulated run with batches, expiries and a loss."""
    path = record_run(tmp_path / "run.journal")
    capsys.readouterr()
    return path


def test_timeline_stands_beside_the_journal(journal, capsys):
    """Every request that arrived is there, and the loss of the worker."""
    assert main(["report", "timeline", str(journal)]) == EXIT_OK
    path = journal.with_suffix(".timeline.json")
    assert f"timeline: {path} (" in capsys.readouterr().err
    whole = json.loads(path.read_bytes())
    assert whole["otherData"]["policy"] == "priority"
    events = whole["traceEvents"]
    arrivals = journal.read_text().count('"RequestArrived"')
    assert sum(event.get("cat") == "arrival" for event in events) == arrivals
    assert sum(event["name"] == "worker lost" for event in events) == 1
    met, late, early = (
        sum(event["args"].get(key, 0) for event in events if event["ph"] == "X")
        for key in ("met", "late", "ended_early")
    )
    assert met + late == journal.read_text().count('"Complete"')
    assert early > 0


def test_part_of_a_run_is_smaller(journal, tmp_path):
    """Only what reaches into the window is written, where it was wanted."""
    out = tmp_path / "part.json"
    words = ["report", "timeline", str(journal), "--from", "500ms", "--to", "800ms"]
    assert main([*words, "--out", str(out)]) == EXIT_OK
    events = json.loads(out.read_bytes())["traceEvents"]
    assert {e["ts"] // 1e5 for e in events if e.get("cat") == "arrival"} == {5.0, 6.0, 7.0}


def test_bad_wishes_are_refused(journal, tmp_path, capsys):
    """A window that ends before it begins, no journal, and a place that cannot be written."""
    words = ["report", "timeline", str(journal)]
    assert main([*words, "--from", "2s", "--to", "1s"]) == EXIT_USAGE
    assert "`--to` is not after `--from`" in capsys.readouterr().err
    assert main(["report", "timeline", str(tmp_path / "none")]) == EXIT_USAGE
    assert main([*words, "--out", str(journal / "a.json")]) == EXIT_FAILED
    assert "cannot write" in capsys.readouterr().err


def test_simulation_draws_its_runs(tmp_path, capsys):
    """`headway sim --timeline` writes a file a policy, also of the one that has no journal."""
    journal = record_run(tmp_path / "run.journal")
    scenario = str(journal.with_name("scenario.yaml"))
    out = tmp_path / "run.json"
    policies = ["--policy", "priority", "--policy", "oracle"]
    assert main(["sim", scenario, *policies, "--timeline", str(out)]) == EXIT_OK
    assert f"timeline: {tmp_path / 'run-oracle.json'}; open it" in capsys.readouterr().err
    whole = json.loads((tmp_path / "run-oracle.json").read_bytes())
    assert whole["otherData"]["policy"] == "oracle"
    drawn = json.loads((tmp_path / "run-priority.json").read_bytes())["traceEvents"]
    assert main(["report", "timeline", str(journal)]) == EXIT_OK
    recorded = json.loads(journal.with_suffix(".timeline.json").read_bytes())["traceEvents"]
    assert drawn == recorded
    assert main(["sim", scenario, "--timeline", str(journal / "a.json")]) == EXIT_FAILED
    assert "cannot write the timeline" in capsys.readouterr().err
    assert main(["sim", scenario, "--seeds", "2", "--timeline", str(out)]) == EXIT_USAGE
