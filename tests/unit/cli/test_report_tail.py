"""`headway report tail`: from p50 to p99, cause by cause."""

import json
import sys

import pytest
from tests.recorded_run import record_run

from headway.cli import EXIT_FAILED, EXIT_OK, EXIT_USAGE, main


@pytest.fixture
def journal(tmp_path, capsys):
    """A simulated run with batches, expiries and a loss."""
    path = record_run(tmp_path / "run.journal")
    capsys.readouterr()
    return path


def test_causes_and_remedies_are_printed(journal, capsys):
    """A table of causes, and what to do in words."""
    assert main(["report", "tail", str(journal)]) == EXIT_OK
    captured = capsys.readouterr()
    assert captured.err == ""
    for words in ("ocr, live", "ocr, bulk", "p99 and beyond", "latency"):
        assert words in captured.out
    assert "ocr, tier live: p50 " in captured.out
    assert "): " in captured.out  # a cause with its share, and its remedy


def test_json_adds_up(journal, capsys):
    """What the causes add is what lies between the two means, to the nanosecond."""
    assert main(["report", "tail", str(journal), "--format", "json"]) == EXIT_OK
    report = json.loads(capsys.readouterr().out)
    assert {group["tier"] for group in report["groups"]} == {"live", "bulk"}
    for group in report["groups"]:
        added_ns = sum(cause["added_ns"] for cause in group["causes"])
        assert added_ns == group["tail_ns"] - group["middle_ns"]
        assert group["p50_ns"] < group["p99_ns"] <= group["tail_ns"]
        ordered = [cause["added_ns"] for cause in group["causes"]]
        assert ordered == sorted(ordered, reverse=True)
        for cause in group["causes"]:
            assert (cause["remedy"] is not None) is (cause["added_ratio"] >= 0.05)


def test_plot_is_written_with_its_command(journal, tmp_path, capsys):
    """A PNG; where it cannot be written, that is said."""
    png = tmp_path / "deep" / "tail.png"
    assert main(["report", "tail", str(journal), "--plot", str(png), "--title", "A"]) == EXIT_OK
    assert f"plot: {png}" in capsys.readouterr().err
    assert png.read_bytes().startswith(b"\x89PNG")
    assert main(["report", "tail", str(journal), "--plot", str(png / "a.png")]) == EXIT_FAILED
    assert "cannot write" in capsys.readouterr().err


def test_missing_plotter_says_what_to_install(journal, tmp_path, monkeypatch, capsys):
    """Without matplotlib the verb names the extra that brings it, after the table."""
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    words = ["report", "tail", str(journal), "--plot", str(tmp_path / "a.png")]
    assert main(words) == EXIT_FAILED
    captured = capsys.readouterr()
    assert "ocr, live" in captured.out
    assert "pip install headway[report]" in captured.err


def test_journal_without_answers_is_an_error(journal, tmp_path, capsys):
    """Nothing to take apart; and what is no journal is bad usage."""
    header = journal.read_bytes().splitlines(keepends=True)[0]
    journal.write_bytes(header)
    assert main(["report", "tail", str(journal)]) == EXIT_FAILED
    assert "has no request that was answered or expired" in capsys.readouterr().err
    assert main(["report", "tail", str(tmp_path / "none")]) == EXIT_USAGE
    journal.write_bytes(b"")
    assert main(["report", "tail", str(journal)]) == EXIT_USAGE


def test_cut_journal_is_read_as_far_as_it_goes(journal, capsys):
    """A crash leaves half a line."""
    text = journal.read_bytes()
    journal.write_bytes(text[: len(text) * 2 // 3])
    assert main(["report", "tail", str(journal)]) == EXIT_OK
    assert "ocr, live" in capsys.readouterr().out


def test_broken_line_in_the_middle_is_an_error(journal, capsys):
    """It is not left out in silence."""
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[20] = b"{broken\n"
    journal.write_bytes(b"".join(lines))
    assert main(["report", "tail", str(journal)]) == EXIT_USAGE
    assert "line 21 of" in capsys.readouterr().err
