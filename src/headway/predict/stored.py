"""Reading back plain JSON values that may be anything: what does not fit is left out.

Knows lists, words and finite numbers. Refuses to know what they were stored for.
"""

from collections.abc import Iterator
from math import isfinite
from typing import Final, NamedTuple

__all__ = ["NS_MAX", "Row", "fields_of", "has_rows", "number_of", "rows_of", "time_of"]

NS_MAX: Final = 86_400 * 10**9
"""A day: a stored time that is longer counts as that."""
_BATCH_ROWS_MAX: Final = 2**31 - 1
_ROWS_MAX: Final = 8192
"""No table that was stored is longer."""


class Row(NamedTuple):
    """One line of a stored table: its words and whole numbers first, then what was measured."""

    key: tuple[str | int, ...]
    numbers: tuple[float, ...]


def fields_of(value: object) -> dict[str, object]:
    """A stored object; empty for anything else."""
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def number_of(value: object) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def time_of(number: float) -> float:
    """A stored time in nanoseconds, within 0 and a day."""
    return min(max(number, 0.0), float(NS_MAX))


def has_rows(value: str | int) -> bool:
    """Whether a stored number of rows is one that a batch can have."""
    return isinstance(value, int) and 1 <= value <= _BATCH_ROWS_MAX


def rows_of(value: object, kinds: tuple[type, ...], count: int) -> Iterator[Row]:
    """Lines of a stored table whose key has these kinds and which has this many numbers behind."""
    for line in value[:_ROWS_MAX] if isinstance(value, list) else ():
        if not isinstance(line, list) or len(line) != len(kinds) + count:
            continue
        key = line[: len(kinds)]
        numbers = [number for item in line[len(kinds) :] if (number := number_of(item)) is not None]
        is_key = all(type(item) is kind for item, kind in zip(key, kinds, strict=True))
        if is_key and len(numbers) == count:
            yield Row(tuple(key), tuple(numbers))
