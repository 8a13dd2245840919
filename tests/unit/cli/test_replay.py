"""`headway replay`: a journal decides the same again, or the first difference is told."""

import json
import re
from pathlib import Path

import pytest
from tests.recorded_run import record_run

from headway.cli import EXIT_FAILED, EXIT_OK, EXIT_USAGE, main


@pytest.fixture
def journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A run with batches, expiries and a lost worker, under `priority`."""
    path = record_run(tmp_path / "run.journal")
    capsys.readouterr()
    return path


def rewritten(journal: Path, old: bytes, new: bytes) -> None:
    """Change the journal on disk."""
    text = journal.read_bytes()
    assert old in text
    journal.write_bytes(text.replace(old, new, 1))


def test_simulated_run_replays_identically(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every step of the file is decided as it was, whatever happened in it."""
    assert b"ReplicasLost" in journal.read_bytes()
    assert b"Expire" in journal.read_bytes()
    steps = len(journal.read_bytes().splitlines()) - 1
    assert main(["replay", str(journal)]) == EXIT_OK
    captured = capsys.readouterr()
    assert captured.out.splitlines()[1].split() == [
        str(journal),
        "priority",
        str(steps),
        "the",
        "same",
    ]
    assert captured.err == ""
    assert main(["replay", str(journal), "--format", "json"]) == EXIT_OK
    assert json.loads(capsys.readouterr().out) == {
        "journal": str(journal),
        "policy": "priority",
        "steps": steps,
        "is_identical": True,
        "divergence": None,
    }


def test_other_decision_is_told(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, with the event, what was decided then and what is decided now."""
    rewritten(journal, b'"kind":"priority"', b'"kind":"fifo"')
    assert main(["replay", str(journal)]) == EXIT_FAILED
    captured = capsys.readouterr()
    assert "otherwise at the next step" in captured.out
    lines = [line.strip() for line in captured.out.splitlines()]
    assert any(line.startswith("step ") and "after the start" in line for line in lines)
    assert any(line.startswith("event ") for line in lines)
    assert any(line.startswith("- Dispatch batch_id") for line in lines)
    assert any(line.startswith("+ Dispatch batch_id") for line in lines)
    assert captured.err.startswith("error: step ")
    assert "hint: " in captured.err
    assert main(["replay", str(journal), "--format", "json"]) == EXIT_FAILED
    data = json.loads(capsys.readouterr().out)
    assert data["is_identical"] is False
    assert data["divergence"]["commands"] != data["divergence"]["replayed"]
    assert data["divergence"]["seq"] == data["steps"]


def test_step_without_commands_reads_as_nothing(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where one side did nothing, that is said in words."""
    lines = journal.read_bytes().splitlines(keepends=True)
    index = next(i for i, line in enumerate(lines) if b'"commands":[]' in line)
    cancel = b'"commands":[{"type":"CancelBatch","batch_id":9}]'
    lines[index] = lines[index].replace(b'"commands":[]', cancel)
    journal.write_bytes(b"".join(lines))
    assert main(["replay", str(journal)]) == EXIT_FAILED
    out = capsys.readouterr().out
    assert "- CancelBatch batch_id 9" in out
    assert "+ nothing to do" in out


def test_bug_of_the_kernel_is_told(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A step on which the kernel stops is a difference like any other, without a traceback."""
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[50] = re.sub(rb'"now_ns":\d+', b'"now_ns":0', lines[50], count=1)
    journal.write_bytes(b"".join(lines))
    assert main(["replay", str(journal)]) == EXIT_FAILED
    captured = capsys.readouterr()
    assert "+ stopped on a bug: AssertionError('time went back" in captured.out
    assert "error: step 49 of" in captured.err
    assert main(["replay", str(journal), "--format", "json"]) == EXIT_FAILED
    assert "time went back" in json.loads(capsys.readouterr().out)["divergence"]["error"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        (b"duration: 3s\n", "is not a journal"),
        (b'{"format":"other"}\n', "is not a journal"),
    ],
)
def test_other_files_are_refused(
    content: bytes | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 for what is no journal."""
    path = tmp_path / "some.file"
    if content is not None:
        path.write_bytes(content)
    assert main(["replay", str(path)]) == EXIT_USAGE
    assert words in capsys.readouterr().err


def test_unknown_policy_is_refused(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A journal of a policy that is not here says so."""
    rewritten(journal, b'"kind":"priority"', b'"kind":"best"')
    assert main(["replay", str(journal)]) == EXIT_USAGE
    captured = capsys.readouterr()
    assert "'kind': 'best'" in captured.err
    assert "hint: this version has fifo" in captured.err


def test_score_judges_predictors_that_were_not_there(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has a row for executions and one for responses, all over the same ones."""
    words = ["replay", str(journal), "--score", "fixed, rls"]
    assert main([*words, "--format", "json"]) == EXIT_OK
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert [(row["of"], row["predictor"]) for row in scores] == [
        ("execution", "fixed"),
        ("execution", "rls"),
        ("response", "fixed"),
        ("response", "rls"),
    ]
    assert scores[0]["count"] == scores[1]["count"] > 20
    assert scores[0]["cost_us"] > 0
    assert 0 < scores[1]["mape"] < 1
    assert main(words) == EXIT_OK
    out = capsys.readouterr().out
    assert "execution" in out
    assert "own profiles" in " ".join(out.split())  # a long path folds what is below the table


def test_score_of_an_unknown_predictor_is_refused(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, with the names that there are."""
    assert main(["replay", str(journal), "--score", "best"]) == EXIT_USAGE
    captured = capsys.readouterr()
    assert "no predictor `best`" in captured.err
    assert "headway" in captured.err
