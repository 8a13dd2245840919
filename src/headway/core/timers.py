"""Instants in order, ties by age: the one clock order that the simulator and asyncio share.

asyncio's own heap compares instants only, so ties fall as they may; here every entry ends in a
sequence number, and two drivers that push in the same order pop in the same order.
"""

from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from msgspec import Struct

__all__ = ["Timer", "TimerQueue"]

T = TypeVar("T")

_SPARE_COUNT: Final = 64
"""Cancelled entries that are never worth a sweep."""


class Timer(Struct, Generic[T], eq=False):
    """One scheduled item."""

    item: T | None
    """None once it was taken or cancelled."""


class TimerQueue(Generic[T]):
    """A heap of ``(at_ns, seq)``.

    Invariants: pops follow (instant, age); cancelled entries are never seen; the heap holds at
    most twice the live entries plus a constant.
    Cost: push and pop O(log n), cancel O(1) amortised.
    """

    __slots__ = ("_heap", "_live_count", "_seq")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer[T]]] = []
        self._seq = 0
        self._live_count = 0

    def __len__(self) -> int:
        return self._live_count

    def push(self, at_ns: int, item: T) -> Timer[T]:
        """Schedule an item; the returned timer can be cancelled."""
        self._seq = seq = self._seq + 1
        timer: Timer[T] = Timer(item)
        heappush(self._heap, (at_ns, seq, timer))
        self._live_count += 1
        return timer

    def cancel(self, timer: Timer[T]) -> None:
        """Forget a timer; a second cancel, or one after it was taken, does nothing."""
        if timer.item is None:
            return
        timer.item = None
        self._live_count = live_count = self._live_count - 1
        if len(self._heap) > 2 * live_count + _SPARE_COUNT:
            self._sweep()

    def head_at_ns(self) -> int | None:
        """Instant of the earliest live item, or None."""
        heap = self._heap
        while heap:
            if heap[0][2].item is not None:
                return heap[0][0]
            heappop(heap)
        return None

    def pop(self) -> tuple[int, T] | None:
        """Take the earliest live item with its instant, or None."""
        heap = self._heap
        while heap:
            at_ns, _, timer = heappop(heap)
            item = timer.item
            if item is not None:
                timer.item = None
                self._live_count = live_count = self._live_count - 1
                if len(heap) > 2 * live_count + _SPARE_COUNT:
                    self._sweep()
                return at_ns, item
        return None

    def pop_due(self, now_ns: int) -> T | None:
        """Take the earliest live item whose instant has come, or None."""
        at_ns = self.head_at_ns()
        if at_ns is None or at_ns > now_ns:
            return None
        popped = self.pop()
        return None if popped is None else popped[1]

    def _sweep(self) -> None:
        """Drop the dead once they outnumber the living."""
        self._heap = [entry for entry in self._heap if entry[2].item is not None]
        heapify(self._heap)
