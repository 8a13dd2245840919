"""A case: something that a client relies on, and how to see whether a server does it.

Knows names and outcomes. Refuses to know wires.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final, Generic, NamedTuple, TypeVar

__all__ = ["Case", "Cases", "FailedError", "Outcome", "Result", "SkippedError", "expect", "told"]

_TEXT_CHARS_MAX: Final = 300

Target = TypeVar("Target")


class FailedError(Exception):
    """The server does otherwise; the text says what was expected and what came."""


class SkippedError(Exception):
    """The case cannot be asked of this server; the text says why."""


class Outcome(StrEnum):
    """How a case ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Case(NamedTuple, Generic[Target]):
    """One thing that clients rely on."""

    area: str
    name: str
    check: Callable[[Target], None]
    """Returns if the server does it; else `FailedError` or `SkippedError`."""


class Result(NamedTuple):
    """How a server did in one case."""

    area: str
    name: str
    outcome: Outcome
    why: str
    """What came instead, or why it was skipped; empty if it passed."""


class Cases(Generic[Target]):
    """Cases of one wire, in the order in which they are written down."""

    def __init__(self) -> None:
        self.all: list[Case[Target]] = []

    def __call__(
        self, area: str, name: str
    ) -> Callable[[Callable[[Target], None]], Callable[[Target], None]]:
        """Mark a function as the check of a case."""

        def add(check: Callable[[Target], None]) -> Callable[[Target], None]:
            self.all.append(Case(area, name, check))
            return check

        return add


def expect(is_so: object, what: str, seen: object) -> None:
    """Fail the case unless something is so.

    Raises:
        FailedError: it is not.
    """
    if not is_so:
        raise FailedError(f"expected {what}; got {told(seen)}")


def told(seen: object) -> str:
    """What came, short enough for a line."""
    text = seen if isinstance(seen, str) else repr(seen)
    return text if len(text) <= _TEXT_CHARS_MAX else text[:_TEXT_CHARS_MAX] + "…"


@contextmanager
def judged(area: str, name: str, results: list[Result]) -> Iterator[None]:
    """Take down how what is done inside ends; a server that does not answer fails the case."""
    outcome, why = Outcome.PASSED, ""
    try:
        yield
    except SkippedError as reason:
        outcome, why = Outcome.SKIPPED, str(reason)
    except FailedError as reason:
        outcome, why = Outcome.FAILED, str(reason)
    except Exception as error:  # noqa: BLE001 (whatever a server makes happen, it is its answer)
        outcome, why = Outcome.FAILED, told(f"{type(error).__name__}: {error}")
    results.append(Result(area, name, outcome, why))
