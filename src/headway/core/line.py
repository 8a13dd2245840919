"""Everyone who waits, over all models, in the order of service.

A list of sorted chunks: what a newcomer finds ahead of it can be read off from the front, which a
heap cannot tell. Knows keys and entries; who goes first is in the key.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from headway.core.waiting import Entry

__all__ = ["Line"]

_CHUNK_MAX: Final = 512

_Key = tuple[int, ...]


class Line:
    """Waiting entries sorted by key. Keys are unique, so entries are never compared.

    Invariants: no chunk is empty or longer than `_CHUNK_MAX`; ``_lasts`` holds each chunk's
    greatest key; ``count`` is the sum of the chunks' lengths; entries stand as their keys do.
    Cost: push, leave O(log n + chunk); ahead O(1) an entry, counting O(n / chunk).
    """

    __slots__ = ("_entries", "_keys", "_lasts", "count")

    def __init__(self) -> None:
        # Chunks side by side: to compare keys alone is faster than pairs with them.
        self._keys: list[list[_Key]] = []
        self._entries: list[list[Entry]] = []
        self._lasts: list[_Key] = []
        self.count = 0

    def push(self, entry: Entry) -> None:
        """Add an entry where its key belongs."""
        key, lasts = entry.key, self._lasts
        self.count += 1
        if not lasts:
            self._keys.append([key])
            self._entries.append([entry])
            lasts.append(key)
            return
        at = bisect_left(lasts, key)
        if at == len(lasts):
            at -= 1
            lasts[at] = key
        keys = self._keys[at]
        place = bisect_left(keys, key)
        keys.insert(place, key)
        self._entries[at].insert(place, entry)
        if len(keys) > _CHUNK_MAX:
            self._halve(at)

    def _halve(self, at: int) -> None:
        keys, entries = self._keys[at], self._entries[at]
        half = len(keys) // 2
        self._keys.insert(at + 1, keys[half:])
        self._entries.insert(at + 1, entries[half:])
        del keys[half:], entries[half:]
        self._lasts.insert(at, keys[-1])

    def leave(self, entry: Entry) -> None:
        """Take an entry out; it must be in the line."""
        key = entry.key
        at = bisect_left(self._lasts, key)
        keys, entries = self._keys[at], self._entries[at]
        place = bisect_left(keys, key)
        assert entries[place] is entry, "only who waits can leave the line"
        del keys[place], entries[place]
        self.count -= 1
        if keys:
            self._lasts[at] = keys[-1]
        else:
            del self._keys[at], self._entries[at], self._lasts[at]

    def count_before(self, key: _Key) -> int:
        """How many are served before a key."""
        at = bisect_left(self._lasts, key)
        before = sum([len(keys) for keys in self._keys[:at]]) if at else 0
        if at == len(self._keys):
            return before
        return before + bisect_left(self._keys[at], key)

    def entries(self) -> Iterator[Entry]:
        """All of them, the first to be served first."""
        for entries in self._entries:
            yield from entries
