"""The latest few values of each key, bounded both ways: what simple predictors remember.

Knows numbers under keys of plain values. Refuses to know what they measure.
"""

from collections import deque
from collections.abc import Sequence
from math import isfinite

from headway.predict.stored import number_of

__all__ = ["Key", "Recent"]

Key = tuple[str | int, ...]
_KEYS_MAX = 4096


class Recent:
    """The last `window` values of each key, oldest first.

    Invariants: every value is finite and not negative; at most `_KEYS_MAX` keys, and a new key
    beyond them is not remembered.
    """

    __slots__ = ("_values", "_window")

    def __init__(self, window: int) -> None:
        assert window > 0
        self._window = window
        self._values: dict[Key, deque[float]] = {}

    def add(self, key: Key, value: float) -> None:
        """Remember one value; what is not finite or is negative is not one."""
        if not (isfinite(value) and value >= 0.0):
            return
        values = self._values.get(key)
        if values is None:
            if len(self._values) >= _KEYS_MAX:
                return
            values = self._values[key] = deque(maxlen=self._window)
        values.append(value)

    def of(self, key: Key) -> Sequence[float]:
        """What is remembered, oldest first; empty for an unknown key."""
        return self._values.get(key, ())

    def mean(self, key: Key, count_min: int) -> float | None:
        """Mean of what is remembered; None while there is less than `count_min` of it."""
        values = self._values.get(key)
        if values is None or len(values) < count_min:
            return None
        # Each is divided first: the sum of a few huge values would not be finite.
        count = len(values)
        return sum(values) / count if max(values) < 1e300 else sum(v / count for v in values)

    def state(self) -> list[object]:
        """Plain JSON values: a pair of key and values each."""
        return [[list(key), list(values)] for key, values in self._values.items()]

    def restore(self, state: object) -> None:
        """Take up what `state` gave; what does not fit is ignored."""
        for entry in state if isinstance(state, list) else []:
            match entry:
                case [[*key], [*values]] if all(isinstance(part, str | int) for part in key):
                    for value in values:
                        if (number := number_of(value)) is not None:
                            self.add(tuple(key), number)
