"""The one entry to all checks of this repository.

Usage: `python tools/check.py [fast|types|test|sim|docs|all]`. Runs its steps in turn, prints how
long each took, and stops at the first that fails with what to run to mend it. A step whose subject
does not exist yet is passed over, and says so.

Knows which tools there are and in which order they help most; the rules are in `pyproject.toml`.
"""

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PYTHON = sys.executable
LINT_IMPORTS = str(Path(sysconfig.get_path("scripts")) / "lint-imports")
COVERAGE_JSON = ROOT / "coverage-report.json"

# The quickest answers first; folders not named here run last, so that none is forgotten.
TEST_FOLDERS = ("unit", "property", "parity", "conformance", "sim", "e2e", "gpu")

# These run in an environment of their own, with a command of their own.
ELSEWHERE = ("vllm",)

# Tests of these start no server and have no clock but a virtual one, so several run at a time.
SIDE_BY_SIDE = ("unit", "property", "parity", "sim")

SOME_TESTS_FAILED = 1
"""How pytest ends when tests failed, and nothing worse happened.

Some tests start processes and wait for them, on a machine that may stand still for seconds at any
time. What failed is therefore run once more, by itself: only what fails twice is broken. The first
failure stays in what is printed.
"""


class CoverageFloor(NamedTuple):
    """The least share of a folder's branches, or lines, that the tests must reach."""

    folder: str
    """Below src/headway; empty for the whole."""
    kind: str
    """`branches` or `lines`, as coverage counts them."""
    ratio_min: float


# The folders that decide answer for their lines too: a function without a branch has no branch to
# miss. Programs started by tests are not counted, hence no floor under the lines of the whole.
COVERAGE_FLOORS = (
    CoverageFloor("", "branches", 0.90),
    *(
        CoverageFloor(folder, kind, 0.97)
        for folder in ("core", "policy", "predict")
        for kind in ("branches", "lines")
    ),
)


@dataclass(frozen=True)
class Step:
    """One command, what it is about and how to mend what it finds."""

    name: str
    command: Sequence[str]
    mend: str
    subject: str = "."
    """A path that must exist for the step to make sense."""
    is_pytest: bool = False
    again: Sequence[str] = ()
    """What to run where tests failed, to see which of them fail twice; empty: nothing."""


FORMAT = Step("format", (PYTHON, "-m", "ruff", "format", "--check", "."), "make fmt")
LINT = Step(
    "lint",
    (PYTHON, "-m", "ruff", "check", "."),
    "make fmt; a rule that fights the house style gets an ignore with its reason in pyproject.toml",
)
IMPORTS = Step(
    "imports",
    (LINT_IMPORTS, "--no-cache", "--no-logo"),
    "move the import down a layer or into its home; the contracts are in pyproject.toml",
    subject="src/headway/__init__.py",
)
TYPES = Step("types", (PYTHON, "-m", "mypy"), "python -m mypy", subject="src/headway/__init__.py")
TIDY = Step("tidy", (PYTHON, "tools/tidy.py"), "each line above says what to do")
GENERATED = Step(
    "generated pages",
    (PYTHON, "tools/gen_docs.py", "--check"),
    "python tools/gen_docs.py",
    subject="tools/gen_docs.py",
)
STATIC = (FORMAT, LINT, TIDY, IMPORTS, TYPES)


def pytest_step(folder: str, *, is_covered: bool = False) -> Step:
    """The step that runs one folder of tests."""
    path = f"tests/{folder}"
    coverage = ("--cov=headway", "--cov-append", "--cov-report=") if is_covered else ()
    workers = ("-n", "auto", "--dist", "worksteal") if folder in SIDE_BY_SIDE else ()
    command = (PYTHON, "-m", "pytest", *workers, *coverage, path)
    again = (*command, "--last-failed", "--last-failed-no-failures=none")
    mend = f"python -m pytest {path} --last-failed --randomly-seed=last"
    return Step(f"tests: {folder}", command, mend, subject=path, is_pytest=True, again=again)


def steps_of(group: str) -> list[Step]:
    """The steps of a group, in order."""
    match group:
        case "fast":
            return [*STATIC, pytest_step("unit")]
        case "types":
            return [IMPORTS, TYPES]
        case "test":
            return [pytest_step(folder) for folder in folders_with_tests() if folder != "sim"]
        case "sim":
            return [pytest_step("sim")]
        case "docs":
            return [TIDY, GENERATED, pytest_step("docs")]
        case _:
            covered = [pytest_step(folder, is_covered=True) for folder in folders_with_tests()]
            return [*STATIC, GENERATED, *covered]


def folders_with_tests() -> list[str]:
    """The known folders in their order, then any other that holds tests."""
    found = {
        path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("test_*.py")
    }
    return [*TEST_FOLDERS, *sorted(found.difference(TEST_FOLDERS, ELSEWHERE))]


# --- running --------------------------------------------------------------------------------------


def run(step: Step) -> bool:
    """Run a step and print how it went; True if nothing stands against going on."""
    if not is_there(step):
        say(f"-- {step.name}: passed over, there is nothing in {step.subject} yet")
        return True
    say(f"== {step.name}")
    started_at_s = time.perf_counter()
    status = status_of(step.command)
    if status == SOME_TESTS_FAILED and step.again:
        say(f"-- {step.name}: once more what failed; it is broken if it fails twice")
        status = status_of(step.again)
    elapsed_s = time.perf_counter() - started_at_s
    is_good = status == 0
    say(f"{'ok' if is_good else 'FAILED'} {step.name} {elapsed_s:.1f} s")
    if not is_good:
        say(f"to mend: {step.mend}")
    return is_good


def status_of(command: Sequence[str]) -> int:
    """Run a command to its end, its output among ours; how it ended."""
    return subprocess.run(command, cwd=ROOT, env=_environment(), check=False).returncode


def is_there(step: Step) -> bool:
    """Whether there is something to check."""
    subject = ROOT / step.subject
    if step.is_pytest and subject.is_dir():
        return any(subject.rglob("test_*.py"))
    return subject.exists()


def _environment() -> dict[str, str]:
    """Ours, with the sources in reach even where headway is not installed."""
    reach = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": reach}


def say(text: str) -> None:
    """Print at once, so that the order with the tools' own output is right."""
    print(text, flush=True)


# --- coverage -------------------------------------------------------------------------------------


class Cover(NamedTuple):
    """How much there is to reach and how much of it the tests reached."""

    reached_count: int
    total_count: int

    @property
    def ratio(self) -> float:
        """The share reached; where there is nothing to reach, all of it."""
        return self.reached_count / self.total_count if self.total_count else 1.0


Report = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Coverage's report: path -> "summary" -> counts."""


def cover_of(report: Report, folder: str, kind: str) -> Cover:
    """Add up one folder of the package, or the whole for an empty name."""
    prefix = f"src/headway/{folder}/" if folder else "src/headway/"
    total_key = {"branches": "num_branches", "lines": "num_statements"}[kind]
    counts = [report[path]["summary"] for path in report if path.startswith(prefix)]
    reached_count = sum(count[f"covered_{kind}"] for count in counts)
    return Cover(reached_count, sum(count[total_key] for count in counts))


def shortfalls(report: Report) -> Iterator[str]:
    """Say where the tests reach less than they must."""
    for floor in COVERAGE_FLOORS:
        cover = cover_of(report, floor.folder, floor.kind)
        if cover.ratio < floor.ratio_min:
            place = floor.folder or "the whole"
            missing_count = cover.total_count - cover.reached_count
            yield (
                f"{place}: {cover.ratio:.1%} of the {floor.kind}, {floor.ratio_min:.0%} are needed"
                f" ({missing_count} of {cover.total_count} missing)"
            )


def check_coverage() -> bool:
    """Compare what the tests reached with what they must; True if it is enough."""
    say("== coverage")
    command = (PYTHON, "-m", "coverage", "json", "--quiet", "-o", str(COVERAGE_JSON))
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        say("FAILED coverage: no data was written; to mend: python tools/check.py all")
        return False
    report = json.loads(COVERAGE_JSON.read_text())["files"]
    missing = list(shortfalls(report))
    reached = cover_of(report, "", "branches").ratio
    say(f"{'FAILED' if missing else 'ok'} coverage {reached:.1%} of all branches")
    if missing:
        say("\n".join(missing))
        say("to mend: python -m coverage report -m --sort=cover; then test what is missing")
    return not missing


def main() -> int:
    """Run the group named on the command line."""
    parser = argparse.ArgumentParser(description="Check the repository.")
    groups = ("fast", "types", "test", "sim", "docs", "all")
    parser.add_argument("group", nargs="?", default="fast", choices=groups)
    group = parser.parse_args().group
    started_at_s = time.perf_counter()
    if group == "all":  # its pytest steps add to one file, which starts empty
        (ROOT / ".coverage").unlink(missing_ok=True)
    is_good = all(run(step) for step in steps_of(group)) and (group != "all" or check_coverage())
    say(f"{'passed' if is_good else 'failed'}: {group} {time.perf_counter() - started_at_s:.1f} s")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
