"""The generated pages are those of the code, and the tables behind them are complete."""

import argparse
from pathlib import Path

import pytest

import gen_docs
from headway import errors
from headway.cli import VERBS
from headway.core import REPLICA_TRANSITIONS, TRANSITIONS, ReplicaState, RequestState

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", list(gen_docs.pages()))
def test_page_in_the_repository_is_fresh(path: str) -> None:
    """A page that differs from the code is written anew with `python tools/gen_docs.py`."""
    assert (ROOT / path).read_text(encoding="utf-8") == gen_docs.pages()[path]


def test_check_fails_on_a_stale_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--check` names what differs and writes nothing; without it all is written."""
    monkeypatch.setattr(gen_docs, "ROOT", tmp_path)
    monkeypatch.setattr(gen_docs, "pages", lambda: {"docs/a.md": "# A\n"})
    monkeypatch.setattr("sys.argv", ["gen_docs.py", "--check"])
    assert gen_docs.main() == 1
    assert "docs/a.md differs from the code" in capsys.readouterr().out
    assert not (tmp_path / "docs").exists()
    monkeypatch.setattr("sys.argv", ["gen_docs.py"])
    assert gen_docs.main() == 0
    assert (tmp_path / "docs/a.md").read_text() == "# A\n"
    monkeypatch.setattr("sys.argv", ["gen_docs.py", "--check"])
    assert gen_docs.main() == 0


def test_diagrams_show_every_transition_and_end() -> None:
    """Each line of a table is an arrow, and each state that nothing leaves is an end."""
    text = gen_docs.states_page()
    for table in (TRANSITIONS, REPLICA_TRANSITIONS):
        for (state, step), result in table.items():
            assert f"    {state} --> {result}: {step}\n" in text
    ends = [state for state in RequestState if all(state is not left for left, _ in TRANSITIONS)]
    for end in (*ends, ReplicaState.STOPPED):
        assert f"    {end} --> [*]\n" in text


def test_pages_name_every_error_and_verb() -> None:
    """Nothing that users meet is missing from the reference."""
    page = gen_docs.errors_page()
    assert all(f"`{name}`" in page for name in errors.__all__)
    assert all(f"## `headway {verb}`" in gen_docs.cli_page() for verb in VERBS)


def test_arguments_are_described_as_the_help_prints_them() -> None:
    """A per cent sign, which a parser wants twice, is one; what a help fills in is filled in."""
    parser = argparse.ArgumentParser()
    action = parser.add_argument("--part", default=7, metavar="X", help="30 %% or %(default)s")
    assert gen_docs.argument_row(action) == ("`--part X`", "30 % or 7")


def test_cells_cannot_break_a_table() -> None:
    """A bar or a line break in a text stays inside its cell."""
    assert gen_docs.table(("a",), [("x|y\nz",)]) == "| a |\n| --- |\n| x\\|y z |"
