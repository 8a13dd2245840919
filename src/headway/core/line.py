"""Everyone who waits, over all models, in the order of service.

A list of sorted chunks: what a newcomer finds ahead of it can be read off from the front, which a
heap cannot tell. Knows keys and entries; who goes first is in the key.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final

from headway.core.waiting import Entry

__all__ = ["Line"]

_CHUNK_MAX: Final = 512

_Pair = tuple[tuple[int, ...], Entry]


class Line:
    """Waiting entries sorted by key. Keys are unique, so entries are never compared.

    Invariants: no chunk is empty or longer than `_CHUNK_MAX`; ``_lasts`` holds each chunk's
    greatest key; ``count`` is the sum of the chunks' lengths.
    Cost: push, leave O(log n + chunk); ahead O(1) an entry, counting O(n / chunk).
    """

    __slots__ = ("_chunks", "_lasts", "count")

    def __init__(self) -> None:
        self._chunks: list[list[_Pair]] = []
        self._lasts: list[tuple[int, ...]] = []
        self.count = 0

    def push(self, entry: Entry) -> None:
        """Add an entry where its key belongs."""
        key = entry.key
        self.count += 1
        if not self._chunks:
            self._chunks.append([(key, entry)])
            self._lasts.append(key)
            return
        at = min(bisect_left(self._lasts, key), len(self._lasts) - 1)
        chunk = self._chunks[at]
        insort(chunk, (key, entry))
        if len(chunk) > _CHUNK_MAX:
            half = len(chunk) // 2
            self._chunks.insert(at + 1, chunk[half:])
            del chunk[half:]
            self._lasts.insert(at, chunk[-1][0])
            at += 1
        self._lasts[at] = self._chunks[at][-1][0]

    def leave(self, entry: Entry) -> None:
        """Take an entry out; it must be in the line."""
        key = entry.key
        at = bisect_left(self._lasts, key)
        chunk = self._chunks[at]
        place = bisect_left(chunk, (key,))
        assert chunk[place][1] is entry, "only who waits can leave the line"
        del chunk[place]
        self.count -= 1
        if chunk:
            self._lasts[at] = chunk[-1][0]
        else:
            del self._chunks[at]
            del self._lasts[at]

    def count_before(self, key: tuple[int, ...]) -> int:
        """How many are served before a key."""
        at = bisect_left(self._lasts, key)
        before = sum(len(chunk) for chunk in self._chunks[:at])
        if at == len(self._chunks):
            return before
        return before + bisect_left(self._chunks[at], (key,))

    def entries(self) -> Iterator[Entry]:
        """All of them, the first to be served first."""
        for chunk in self._chunks:
            for _, entry in chunk:
                yield entry
