"""Examples of how the checks are run: what is tried again, and what is not."""

import sys
from pathlib import Path

import pytest

from check import Step, pytest_step, run

FLAKY = """
from pathlib import Path

def test_that_fails_once():
    ran = Path(__file__).with_name("ran")
    try:
        assert ran.exists()
    finally:
        ran.touch()
"""
BROKEN = "def test_that_fails(): raise ValueError"


def a_step(folder: Path, test: str, *, tries: int) -> Step:
    """A step that runs one file of tests in a folder of its own, once or twice."""
    (folder / "test_it.py").write_text(test)
    command = (sys.executable, "-m", "pytest", "-q", "--rootdir", str(folder), str(folder))
    again = (*command, "--last-failed", "--last-failed-no-failures=none")
    return Step("it", command, "", str(folder), is_pytest=True, again=again if tries > 1 else ())


@pytest.mark.parametrize(
    ("test", "tries", "is_good"),
    [(FLAKY, 1, False), (FLAKY, 2, True), (BROKEN, 2, False)],
)
def test_run_takes_what_passes_at_the_second_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: str, tries: int, is_good: bool
) -> None:
    """A test that fails once is told and passed over where there is a second try; twice fails."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    assert run(a_step(tmp_path, test, tries=tries)) is is_good


def test_second_try_is_of_what_failed_alone() -> None:
    """Nobody waits for a whole folder twice."""
    assert "--last-failed" in pytest_step("e2e").again
    assert "--last-failed-no-failures=none" in pytest_step("e2e").again
