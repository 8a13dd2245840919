"""Rows of numbers, kept in the order they came, for a model that is fitted now and then.

Knows how many there were and the latest of them. Refuses to know what a column means.
"""

from array import array
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Observations"]

_WINDOW: Final = 4000
"""Rows that a fit uses at most."""
_LATE_MAX: Final = 1000
"""Rows that may come between a fit's last one and its use."""
_SPARE_MAX: Final = 200
"""Further ones that are cut away together, for each cut copies what stays."""
_FIRST_MAX: Final = 2**53
"""More rows than this were never added."""


class _Kept(NamedTuple):
    first: int
    """Rows before those that are kept."""
    numbers: "array[float]"
    """The rows, one behind the other, float32. Only ever added to."""


class Observations:
    """Counts rows from 0 and keeps the latest: a window for a fit, and some for its being late.

    One thread adds while another reads what came before: rows that are kept never move, and what
    takes the place of a store that was cut is a new store.

    Invariants: at most `_WINDOW + _LATE_MAX + _SPARE_MAX` rows are kept.
    """

    __slots__ = ("_kept", "_width")

    def __init__(self, width: int) -> None:
        self._width = width
        self._kept = _Kept(0, array("f"))

    @property
    def count(self) -> int:
        """Rows that were ever added."""
        return self._kept.first + len(self._kept.numbers) // self._width

    def add(self, row: Sequence[float]) -> None:
        """One more row of `width` finite numbers."""
        assert len(row) == self._width
        self._kept.numbers.extend(row)
        first, numbers = self._kept
        spare = len(numbers) // self._width - (_WINDOW + _LATE_MAX)
        if spare >= _SPARE_MAX:
            self._kept = _Kept(first + spare, numbers[spare * self._width :])

    def before(self, count: int) -> NDArray[np.float32] | None:
        """The window that ends before the `count`-th row, (rows, width); None if some are gone.

        The same count gives the same rows whenever it is asked.
        """
        first, numbers = self._kept
        since = max(0, count - _WINDOW) - first
        until = count - first
        if count < 1 or since < 0 or until * self._width > len(numbers):
            return None
        window = numbers[since * self._width : until * self._width]
        return np.array(window, dtype=np.float32).reshape(-1, self._width)

    def state(self) -> dict[str, object]:
        """Plain JSON values; the rows as base64 of little-endian float32."""
        first, numbers = self._kept
        rows = np.array(numbers, dtype="<f4").tobytes()
        return {"first": first, "width": self._width, "rows": b64encode(rows).decode()}

    def restore(self, state: object) -> bool:
        """Take up what `state` gave, all of it or nothing; False for nothing."""
        match state:
            case {"first": int() as first, "width": self._width, "rows": str() as text} if (
                0 <= first <= _FIRST_MAX
            ):
                pass
            case _:
                return False
        try:
            rows = np.frombuffer(b64decode(text, validate=True), dtype="<f4")
        except ValueError:
            return False
        if rows.size % self._width or not np.isfinite(rows).all():
            return False
        spare = max(0, rows.size // self._width - (_WINDOW + _LATE_MAX + _SPARE_MAX))
        kept = rows[spare * self._width :]
        self._kept = _Kept(first + spare, array("f", kept.tolist()))
        return True
