"""`headway timeline`: a journal becomes a file that Perfetto opens."""

import json

import pytest
from tests.recorded_run import record_run

from headway.cli import EXIT_FAILED, EXIT_OK, EXIT_USAGE, main
from headway.observe import read_journal
from headway.units import format_duration


@pytest.fixture
def journal(tmp_path, capsys):
    """A simulated run with batches, expiries and a loss."""
    path = record_run(tmp_path / "run.journal")
    capsys.readouterr()
    return path


def test_timeline_stands_beside_the_journal(journal, capsys):
    """Every request that arrived is there, and the loss of the worker."""
    assert main(["timeline", str(journal)]) == EXIT_OK
    path = journal.with_suffix(".timeline.json")
    assert f"timeline: {path} (" in capsys.readouterr().err
    whole = json.loads(path.read_bytes())
    assert whole["otherData"]["policy"] == "priority"
    events = whole["traceEvents"]
    arrivals = journal.read_text().count('"RequestArrived"')
    assert sum(event.get("cat") == "arrival" for event in events) == arrivals
    assert sum(event["name"] == "worker lost" for event in events) == 1
    batches = [event for event in events if event["ph"] == "X" and "met" in event["args"]]
    met, late, early = (
        sum(event["args"][key] for event in batches) for key in ("met", "late", "ended_early")
    )
    assert met + late == journal.read_text().count('"Complete"')
    assert early > 0


def test_part_of_a_run_is_smaller(journal, tmp_path):
    """Only what reaches into the window is written, where it was wanted."""
    out = tmp_path / "part.json"
    words = ["timeline", str(journal), "--from", "500ms", "--to", "800ms"]
    assert main([*words, "--out", str(out)]) == EXIT_OK
    events = json.loads(out.read_bytes())["traceEvents"]
    assert {e["ts"] // 1e5 for e in events if e.get("cat") == "arrival"} == {5.0, 6.0, 7.0}


def test_window_beside_the_run_says_where_the_run_is(journal, tmp_path, capsys):
    """An empty picture would look like an idle server; one of the run itself says nothing."""
    words = ["timeline", str(journal), "--out", str(tmp_path / "a.json")]
    ends = max(record.now_ns for record in read_journal(journal)[1])
    assert main([*words, "--from", "500s"]) == EXIT_OK
    said = f"nothing is drawn then: `run.journal` ends at {format_duration(ends)} after"
    assert said in capsys.readouterr().err
    lines = journal.read_bytes().splitlines(keepends=True)
    late = tmp_path / "late.journal"
    late.write_bytes(b"".join([lines[0], *lines[-5:]]))
    begins = next(read_journal(late)[1]).now_ns
    words = ["timeline", str(late), "--out", str(tmp_path / "a.json")]
    assert main([*words, "--to", "100ms"]) == EXIT_OK
    assert f"`late.journal` begins at {format_duration(begins)} after" in capsys.readouterr().err
    assert main([*words, "--from", "100ms"]) == EXIT_OK
    assert "nothing is drawn" not in capsys.readouterr().err


def test_cut_journal_is_drawn_as_far_as_it_goes(journal, tmp_path):
    """A crash leaves half a line; what stands before it is drawn, its last batches unfinished."""
    text = journal.read_bytes()
    journal.write_bytes(text[: len(text) // 2])
    assert main(["timeline", str(journal), "--out", str(tmp_path / "a.json")]) == EXIT_OK
    events = json.loads((tmp_path / "a.json").read_bytes())["traceEvents"]
    assert any(event["name"] == "unfinished" for event in events)
    (tmp_path / "header.journal").write_bytes(text.splitlines(keepends=True)[0])
    assert main(["timeline", str(tmp_path / "header.journal")]) == EXIT_OK
    (tmp_path / "empty.journal").write_bytes(b"")
    assert main(["timeline", str(tmp_path / "empty.journal")]) == EXIT_USAGE


def test_bad_wishes_are_refused(journal, tmp_path, capsys):
    """A window that ends before it begins, no journal, and a place that cannot be written."""
    words = ["timeline", str(journal)]
    assert main([*words, "--from", "2s", "--to", "1s"]) == EXIT_USAGE
    assert "`--to` is not after `--from`" in capsys.readouterr().err
    assert main(["timeline", str(tmp_path / "none")]) == EXIT_USAGE
    assert main([*words, "--out", str(journal / "a.json")]) == EXIT_FAILED
    assert "cannot write" in capsys.readouterr().err


def test_journal_is_not_drawn_over(journal, tmp_path, capsys):
    """By its own name or another one: what a run left behind is not to be had again."""
    whole = journal.read_bytes()
    link = tmp_path / "link.json"
    link.symlink_to(journal)
    for out in (journal, link):
        assert main(["timeline", str(journal), "--out", str(out)]) == EXIT_USAGE
        assert "is the journal itself" in capsys.readouterr().err
    assert journal.read_bytes() == whole


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
    assert main(["timeline", str(journal)]) == EXIT_OK
    recorded = json.loads(journal.with_suffix(".timeline.json").read_bytes())["traceEvents"]
    assert drawn == recorded
    assert main(["sim", scenario, "--timeline", str(journal / "a.json")]) == EXIT_FAILED
    assert "cannot write the timeline" in capsys.readouterr().err
    assert main(["sim", scenario, "--seeds", "2", "--timeline", str(out)]) == EXIT_USAGE
