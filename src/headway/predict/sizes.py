"""Sizes that ran, what is believed of each, and the nearest of them to one that did not.

Knows devices, models, buckets and rows. Refuses to know what a belief is about.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from math import log
from typing import Final, NamedTuple

from headway.core import BucketKey, DeviceName, ModelName
from headway.predict.belief import Belief

__all__ = ["Seen", "Size", "Sizes"]

_SIZES_MAX: Final = 4096
"""Distinct (device, model, bucket, rows) that are remembered."""
_SIZES_MODEL_MAX: Final = 512
"""Of one model: clients choose shapes, and one who tries them all drives out no other model."""

Size = tuple[DeviceName, ModelName, BucketKey, int]


class Seen(NamedTuple):
    """What is known of a size that ran."""

    belief: Belief
    payload_bytes: int
    serial: int
    """In the order in which sizes were first met."""


_Shelf = tuple[ModelName, BucketKey | None, DeviceName | None]
"""None stands for all of them."""


class Sizes:
    """Beliefs by size; what was learnt of longest ago gives way to what is new.

    Each size stands on four shelves (of its model; there, of its bucket, its device, or both),
    ordered by rows, so that the nearest is found without looking at the others.

    Invariants: at most `_SIZES_MAX` sizes are kept, and `_SIZES_MODEL_MAX` of a model.
    Cost: four look-ups and O(log sizes) comparisons to find the nearest.
    """

    def __init__(self) -> None:
        self.seen: dict[Size, Seen] = {}
        """From that learnt of longest ago to the latest. To be read; changed only by methods."""
        self._by_model: dict[ModelName, dict[Size, None]] = {}
        """In the same order."""
        self._shelves: dict[_Shelf, list[tuple[int, int, Size]]] = {}
        """Rows, serial and size."""
        self._serial = 0

    def touch(self, size: Size) -> None:
        """A size that is known was learnt of: others give way before it."""
        self.seen[size] = self.seen.pop(size)
        mates = self._by_model[size[1]]
        mates[size] = mates.pop(size)

    def add(self, size: Size, belief: Belief, payload_bytes: int) -> None:
        """A size, new or again; where there is no room another one gives way."""
        known = self.seen.get(size)
        if known is not None:
            self.seen[size] = Seen(belief, payload_bytes, known.serial)
            self.touch(size)
            return
        mates = self._by_model.get(size[1], {})
        if len(mates) >= _SIZES_MODEL_MAX:
            self._drop(next(iter(mates)))
        elif len(self.seen) >= _SIZES_MAX:
            self._drop(next(iter(self.seen)))
        self._serial += 1
        self.seen[size] = Seen(belief, payload_bytes, self._serial)
        self._by_model.setdefault(size[1], {})[size] = None
        for shelf in _shelves_of(size):
            insort(self._shelves.setdefault(shelf, []), (size[3], self._serial, size))

    def nearest(self, size: Size) -> Size | None:
        """Of the same bucket if there is one, then of the same device, then nearest in rows."""
        for shelf in _shelves_of(size):
            sizes = self._shelves.get(shelf)
            if sizes:
                return _nearest(sizes, size)
        return None

    def nearest_rows(self, model: ModelName, rows: int) -> Size | None:
        """Of a model, in any bucket and on any device; None if none of it ran."""
        sizes = self._shelves.get((model, None, None))
        return _nearest(sizes, (DeviceName(""), model, BucketKey(""), rows)) if sizes else None

    def _drop(self, size: Size) -> None:
        serial = self.seen.pop(size).serial
        mates = self._by_model[size[1]]
        del mates[size]
        if not mates:
            del self._by_model[size[1]]
        for shelf in _shelves_of(size):
            sizes = self._shelves[shelf]
            del sizes[bisect_left(sizes, (size[3], serial, size))]
            if not sizes:
                del self._shelves[shelf]


def _shelves_of(size: Size) -> Iterator[_Shelf]:
    """From the nearest company to the farthest."""
    device, model, bucket, _ = size
    yield (model, bucket, device)
    yield (model, bucket, None)
    yield (model, None, device)
    yield (model, None, None)


def _nearest(sizes: list[tuple[int, int, Size]], size: Size) -> Size:
    """By the ratio of rows, then the one that was met first."""
    rows = size[3]
    at = bisect_left(sizes, (rows, 0, size))
    found = [] if at == len(sizes) else [sizes[at]]
    if at > 0:
        below = sizes[at - 1][0]
        found.append(sizes[bisect_left(sizes, (below, 0, size))])
    return min(found, key=lambda each: (abs(log(each[0] / rows)), each[1]))[2]
