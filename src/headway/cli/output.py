"""What a verb prints: data on stdout, words on stderr, readable without colour.

Knows streams. Refuses to know what is printed.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from headway.errors import HeadwayError

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

__all__ = [
    "drawing",
    "print_error",
    "print_json",
    "print_note",
    "print_rich",
    "print_table",
    "progress_bar",
    "say",
]

_RED: Final = "\x1b[1;31m"
_YELLOW: Final = "\x1b[1;33m"
_RESET: Final = "\x1b[0m"
_FILE_WIDTH: Final = 200
"""Columns of a table that goes to a file or a pipe, where nothing should be folded."""
_COLUMNS_MIN: Final = 3


def print_json(data: object) -> None:
    """Data for programs; keys keep their order, which is part of what is stable."""
    print(json.dumps(data, indent=2, ensure_ascii=False, default=str))


@contextmanager
def drawing(path: str) -> Iterator[None]:
    """Around what draws a plot into a file, which is named when it is there.

    Raises:
        HeadwayError: matplotlib is not installed, or the file cannot be written.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise HeadwayError(
            "`matplotlib` is not installed, which draws plots", hint="pip install headway[report]"
        ) from error
    except OSError as error:
        raise HeadwayError(f"cannot write `{path}`: {error.strerror}") from error
    say(f"plot: {path}")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Data for people: left-aligned columns, two spaces between them, nothing else."""
    lines = [tuple(columns), *(tuple(_cell(value) for value in row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


def print_rich(table: "Table", *, can_drop_columns: bool = False) -> None:
    """Data for people, with rules between its sections.

    Args:
        table: what to print.
        can_drop_columns: on a narrow terminal leave out columns, from the right, instead of folding
            every cell; words on stderr say which.
    """
    from rich.console import Console  # here, for most verbs print nothing of the kind

    console = Console(width=None if sys.stdout.isatty() else _FILE_WIDTH)
    dropped: list[str] = []
    while (
        can_drop_columns
        and len(table.columns) > _COLUMNS_MIN
        and console.measure(table, options=console.options.update(width=_FILE_WIDTH)).maximum
        > console.width
    ):
        dropped.insert(0, str(table.columns.pop().header).replace("\n", " "))
    console.print(table)
    if dropped:
        say(f"too narrow for {', '.join(dropped)}; --format json has them")


def progress_bar(unit: str) -> "Progress":
    """A bar on stderr that is gone when it ends, and is never there without a terminal.

    Its tasks have a field `words`, shown at the end. Whoever updates it refreshes it: a thread that
    does so by itself would get in the way of what is timed.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn(unit),
        TextColumn("{task.fields[words]}"),
        console=Console(stderr=True),
        auto_refresh=False,
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def say(text: str) -> None:
    """Words for the person who waits."""
    print(text, file=sys.stderr, flush=True)


def print_error(error: HeadwayError) -> None:
    """What went wrong and how to mend it; a note is one more problem of the same kind."""
    say(f"{_painted('error:', _RED)} {error.message}")
    if error.hint:
        say(f"hint: {error.hint}")
    for note in getattr(error, "__notes__", ()):
        say(f"{_painted('error:', _RED)} {note}")


def print_note(kind: str, text: str) -> None:
    """Something that is no error and should be seen, such as a `warning`."""
    say(f"{_painted(kind + ':', _YELLOW)} {text}")


def _painted(word: str, colour: str) -> str:
    if not sys.stderr.isatty():
        return word
    # Here, for else `headway version` would pay for all that a configuration needs.
    from headway.config import wants_colour

    return f"{colour}{word}{_RESET}" if wants_colour(is_terminal=True) else word


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool | list | tuple | Mapping):
        return json.dumps(value, default=str)
    return str(value)
