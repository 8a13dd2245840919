"""`headway plan capacity` of a generating model: the law, what was played, and the answer."""

import json
from pathlib import Path

import pytest

from headway.cli import EXIT_MISSED, EXIT_OK, EXIT_USAGE, main

ROOT = Path(__file__).parents[3]
QUESTION = """\
engine:
  {memory: 24GiB, weights: 15GiB, reserve: 3GiB, kv_token: 128KiB,
   step: {base: 12ms, prefill_token: 67us, context_token: 65ns, free_tokens: 128}}
tiers:
  gold: {priority: 0, ttft: 800ms, tpot: 60ms}
  bronze: {priority: 1, ttft: 5s, tpot: 200ms, part: 2, gated: true}
requests: {kind: bursts, rate_rps: 20, count: 120}
"""


@pytest.fixture
def question(tmp_path: Path) -> Path:
    """A small file."""
    path = tmp_path / "generation.yaml"
    path.write_text(QUESTION)
    return path


def capacity_of(path: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, object]:
    """The answer as data."""
    assert main(["plan", "capacity", str(path), "--format", "json", *flags]) == EXIT_OK
    data = json.loads(capsys.readouterr().out)
    assert data["simulated"] is data["generated"] is True
    answer = data["capacity"]
    assert isinstance(answer, dict)
    return answer


def test_answer_is_the_first_number_whose_targets_hold(
    question: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The point of the answer is met, those before it are not, and the law asks for no more."""
    answer = capacity_of(question, capsys, "--rate", "60")
    points = answer["points"]
    assert [point["is_met"] for point in points] == [False] * (len(points) - 1) + [True]
    assert points[-1]["engines"] == answer["by_simulation"]
    assert answer["by_law"] <= answer["by_simulation"]
    for point in points:
        law = point["law"]
        assert (law is None) == (point["engines"] < answer["by_law"])
        if law is not None:
            assert law["rate_rps"] == pytest.approx(60 / point["engines"])
            assert law["sequences"] == pytest.approx(
                law["rate_rps"] * law["residence_ns"] / 1e9, rel=1e-6
            )
            assert point["memory_bytes"] > 15 << 30
        for tier in point["tiers"]:
            assert tier["is_met"] == (
                tier["ttft_p99_ns"] <= tier["ttft_ns"] and tier["tpot_p99_ns"] <= tier["tpot_ns"]
            )


def test_higher_rate_takes_more_engines(question: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the file's own rate counts where none is given."""
    own = capacity_of(question, capsys)
    more = capacity_of(question, capsys, "--rate", str(4 * own["rate_rps"]))
    assert more["by_law"] > own["by_law"]
    assert more["mix"] == own["mix"]


def test_example_prints_the_curve(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The table, the sentence, what physics forbids, and a drawing."""
    monkeypatch.chdir(ROOT)
    drawn = tmp_path / "curve.svg"
    line = ["plan", "capacity", "examples/generation.yaml", "--rate", "30", "--plot", str(drawn)]
    assert main(line) == EXIT_OK
    captured = capsys.readouterr()
    assert "by Little's law one engine bears at most" in captured.out
    assert "engines keep every target when played" in captured.out
    assert "prompts are longer than the 5,805 tokens" in captured.out
    assert drawn.read_text("utf-8").startswith("<?xml")


def test_targets_out_of_reach_are_missed(
    question: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pace below one step cannot be had from any number of engines."""
    question.write_text(QUESTION.replace("tpot: 60ms", "tpot: 5ms"))
    line = ["plan", "capacity", str(question), "--devices-max", "2"]
    assert main(line) == EXIT_MISSED
    assert "up to 2 engines are not enough" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "change", "words"),
    [
        (["--product", "A100"], ("", ""), "`--product` is not for"),
        (["--policy", "edf"], ("", ""), "`--policy` is not for"),
        ([], ("memory: 24GiB", "memory: 16GiB"), "`engine.memory`"),
        (["--rate", "0"], ("", ""), "--rate"),
    ],
)
def test_what_makes_no_sense_is_refused(
    question: Path,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    change: tuple[str, str],
    words: str,
) -> None:
    """With the flag or the place, before anything is played."""
    question.write_text(QUESTION.replace(*change) if change[0] else QUESTION)
    assert main(["plan", "capacity", str(question), *flags]) == EXIT_USAGE
    assert words in capsys.readouterr().err


def test_flags_of_generating_models_are_not_for_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Models of a sharing file name their own rates."""
    monkeypatch.chdir(ROOT)
    line = ["plan", "capacity", "examples/plan/onprem.yaml", "--rate", "3"]
    assert main(line) == EXIT_USAGE
    assert "`--rate` is for a file with an engine" in capsys.readouterr().err
