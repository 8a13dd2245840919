"""Shell scripts as emitters write them: a comment, a command, what must be true after it.

Knows what a script looks like. Refuses to know what its commands do.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from headway.rollout.emission import header

__all__ = ["Line", "script"]

_HEAD: Final = "#!/usr/bin/env bash\n"
_STRICT: Final = "set -euo pipefail\n"


class Line(NamedTuple):
    """A step of a script."""

    comment: str | None
    command: str | None = None


def script(
    subject: str, lines: Iterable[Line], *, notes: tuple[str, ...] = (), functions: str = ""
) -> str:
    """A script that stops at the first command that fails."""
    parts = [_HEAD, *(f"# {_one_line(one)}\n" for one in header(subject, notes)), _STRICT]
    if functions:
        parts += ["\n", functions]
    for line in lines:
        if line.comment is not None:
            parts.append(f"\n# {_one_line(line.comment)}\n")
        if line.command is not None:
            parts.append(line.command + "\n")
    return "".join(parts)


def _one_line(text: str) -> str:
    """A comment ends with its line, whatever a plan's words hold."""
    return " ".join(text.split())
