"""What a verb prints: data on stdout, words on stderr, readable without colour.

Knows streams. Refuses to know what is printed.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from headway.errors import HeadwayError

__all__ = ["print_error", "print_json", "print_note", "print_table", "say"]

_RED: Final = "\x1b[1;31m"
_YELLOW: Final = "\x1b[1;33m"
_RESET: Final = "\x1b[0m"


def print_json(data: object) -> None:
    """Data for programs; keys keep their order, which is part of what is stable."""
    print(json.dumps(data, indent=2, ensure_ascii=False, default=str))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Data for people: left-aligned columns, two spaces between them, nothing else."""
    lines = [tuple(columns), *(tuple(_cell(value) for value in row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


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
