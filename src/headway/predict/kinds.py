"""Kinds of batches: a number for each (model, bucket, rows), in the order they were first seen.

Knows names. Refuses to know times.
"""

from headway.core import Run

__all__ = ["Kinds"]


class Kinds:
    """Numbers from 0 to `kinds_max` - 1; kinds that find no room share the last.

    Invariants: a kind that has a number of its own keeps it.
    """

    __slots__ = ("_kinds_max", "_numbers")

    def __init__(self, kinds_max: int) -> None:
        assert kinds_max > 0
        self._kinds_max = kinds_max
        self._numbers: dict[tuple[str, str, int], int] = {}

    def find(self, run: Run) -> int | None:
        """The batch's number; None while it may still get one of its own."""
        number = self._numbers.get((run.model, run.bucket, run.rows))
        if number is None and len(self._numbers) >= self._kinds_max:
            return self._kinds_max - 1
        return number

    def add(self, run: Run) -> int:
        """The batch's number, given now if it is new."""
        number = self.find(run)
        if number is None:
            number = self._numbers[run.model, run.bucket, run.rows] = len(self._numbers)
        return number

    def state(self) -> list[object]:
        """Plain JSON values, by number."""
        return [list(kind) for kind in self._numbers]

    def restore(self, state: object) -> bool:
        """Take up what `state` gave, all of it or nothing; False for nothing."""
        if not isinstance(state, list) or len(state) > self._kinds_max:
            return False
        numbers: dict[tuple[str, str, int], int] = {}
        for kind in state:
            match kind:
                case [str() as model, str() as bucket, int() as rows]:
                    numbers[model, bucket, rows] = len(numbers)
                case _:
                    return False
        if len(numbers) < len(state):
            return False
        self._numbers = numbers
        return True
