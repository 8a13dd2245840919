"""Runs the commands that pages show and writes what they print below them.

    python tools/doc_output.py            # rewrite the pages
    python tools/doc_output.py --check    # exit 1 where a page shows something else

A block is run that follows a line with `MARK`, in a folder with `examples/` in it; blocks of a page
run in the same folder, in order. What is shown is stdout, unless it goes to a file, and stderr.
"""

import argparse
import contextlib
import io
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from headway.cli import EXIT_OK, main

__all__ = ["MARK", "PAGES", "ROOT", "filled", "page_as_run", "run_here"]

ROOT = Path(__file__).parents[1]
PAGES = ("docs/guides/explain.md", "docs/guides/tail.md")
MARK = "<!-- run by tools/doc_output.py -->"
_FENCE = "```"


def filled(page: str, run: Callable[[str], str]) -> str:
    """The page with the output of its commands.

    Args:
        page: its text.
        run: gives what a command line, `headway ...`, prints.
    """
    done: list[str] = []
    is_marked = is_inside = False
    for line in page.split("\n"):
        if is_inside and line != _FENCE:
            if line.startswith("$ "):
                done.append(line)
                done += [shown.rstrip() for shown in run(line[2:]).splitlines()]
            continue
        if line.startswith(_FENCE):
            is_inside = is_marked and not is_inside
            is_marked = False
        elif line == MARK:
            is_marked = True
        done.append(line)
    return "\n".join(done)


@contextlib.contextmanager
def _in_a_folder() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="headway-docs-") as folder:
        shutil.copytree(ROOT / "examples", Path(folder) / "examples")
        before = Path.cwd()
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def run_here(command: str) -> str:
    """What a command prints, run in this process.

    Raises:
        RuntimeError: it failed.
    """
    line, redirection, _ = command.partition(" > ")
    program, *words = shlex.split(line)
    out, words_out = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(words_out):
        code = main(words)
    if program != "headway" or code != EXIT_OK:
        raise RuntimeError(f"`{command}` failed with {code}: {words_out.getvalue()}")
    return ("" if redirection else out.getvalue()) + words_out.getvalue()


def page_as_run(name: str) -> str:
    """A page with what its commands print now."""
    with _in_a_folder():
        return filled((ROOT / name).read_text("utf-8"), run_here)


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing")
    args = parser.parse_args()
    stale = []
    for name in PAGES:
        page = page_as_run(name)
        if page != (ROOT / name).read_text("utf-8"):
            stale.append(name)
            if not args.check:
                (ROOT / name).write_text(page, "utf-8")
    for name in stale:
        print(f"{name} {'shows something else' if args.check else 'is rewritten'}")
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    sys.exit(_main())
