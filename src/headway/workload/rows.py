"""How many rows a request brings.

Knows small distributions over whole numbers. Never what a row is.
"""

from collections.abc import Iterator
from itertools import accumulate, repeat
from random import Random
from typing import Protocol

from msgspec import Struct

__all__ = ["FixedRows", "Rows", "UniformRows", "WeightedRows"]


class Rows(Protocol):
    """A distribution of row counts."""

    def draws(self, chance: Random) -> Iterator[int]:
        """Row counts, endless."""

    def support(self) -> tuple[int, ...]:
        """Every count that can be drawn, ascending; bodies are prepared for each."""


class FixedRows(Struct, frozen=True, gc=False):
    """Always the same."""

    count: int = 1

    def __post_init__(self) -> None:
        _check(self.count)

    def draws(self, chance: Random) -> Iterator[int]:
        """See `Rows`."""
        return repeat(self.count)

    def support(self) -> tuple[int, ...]:
        """See `Rows`."""
        return (self.count,)


class UniformRows(Struct, frozen=True, gc=False):
    """Every count from the least to the most is equally likely."""

    count_min: int
    count_max: int

    def __post_init__(self) -> None:
        _check(self.count_min)
        if self.count_max < self.count_min:
            raise ValueError(f"at most {self.count_max} rows is below at least {self.count_min}")

    def draws(self, chance: Random) -> Iterator[int]:
        """See `Rows`."""
        while True:
            yield chance.randint(self.count_min, self.count_max)

    def support(self) -> tuple[int, ...]:
        """See `Rows`."""
        return tuple(range(self.count_min, self.count_max + 1))


class WeightedRows(Struct, frozen=True):
    """Each count with its own weight."""

    weights: tuple[tuple[int, float], ...]
    """(rows, weight), the rows ascending; weights need not sum to one."""

    def __post_init__(self) -> None:
        counts = [count for count, _ in self.weights]
        if not counts or counts != sorted(set(counts)):
            raise ValueError("row counts must ascend, and there must be one")
        _check(counts[0])
        if any(not weight > 0 for _, weight in self.weights):
            raise ValueError("every weight must be above 0")

    def draws(self, chance: Random) -> Iterator[int]:
        """See `Rows`."""
        counts = self.support()
        bounds = list(accumulate(weight for _, weight in self.weights))
        while True:
            yield chance.choices(counts, cum_weights=bounds)[0]

    def support(self) -> tuple[int, ...]:
        """See `Rows`."""
        return tuple(count for count, _ in self.weights)


def _check(count: int) -> None:
    if count < 1:
        raise ValueError(f"a request has at least 1 row, not {count}")
