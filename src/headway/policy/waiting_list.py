"""Who waits, by class and deadline, and how fast important work has been arriving.

Kept by a policy from what it is told of requests (`Feedback`), so that a decision about one bucket
can weigh all that waits. Knows requests and what the predictor says they take alone. Decides
nothing.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from math import exp
from typing import Final

from headway.core import ModelName, Predictor, Request, RequestId, SlotClass
from headway.policy.accounts import Accounts
from headway.policy.hopefuls import Wish
from headway.units import NS_PER_S

__all__ = ["Stream", "WaitingList"]

_MEMORY_NS: Final = 1.5 * NS_PER_S
"""Over which arrivals are averaged."""
_SPAN_MIN_NS: Final = 0.05 * NS_PER_S
_STREAMS_MAX: Final = 256
"""Distinct kinds of work whose arrivals are told apart; further ones are not foreseen."""

_Kind = tuple[ModelName, int, SlotClass]


class Stream:
    """Arrivals of one kind: model, rows and class."""

    __slots__ = ("_at_ns", "_began_at_ns", "_count", "last", "work_ns")

    def __init__(self, first: Request, now_ns: int) -> None:
        self.last = first
        self.work_ns = 0.0
        """Of the last one."""
        self._count = 0.0
        self._at_ns = self._began_at_ns = now_ns

    @property
    def slot_class(self) -> SlotClass:
        """Of all."""
        return self.last.slot_class

    @property
    def budget_ns(self) -> int:
        """Of the last one."""
        return self.last.budget_ns

    def arrive(self, request: Request, work_ns: float, now_ns: int) -> None:
        """One more."""
        self.last = request
        self._count = self._faded(now_ns) + 1.0
        self._at_ns = now_ns
        self.work_ns = work_ns

    def rate(self, now_ns: int) -> float:
        """Arrivals per nanosecond."""
        known_ns = max(_SPAN_MIN_NS, now_ns - self._began_at_ns)
        return self._faded(now_ns) / min(_MEMORY_NS, known_ns)

    def _faded(self, now_ns: int) -> float:
        return self._count * exp((self._at_ns - now_ns) / _MEMORY_NS)


class _Kept:
    """A request that was admitted and has not ended."""

    __slots__ = ("is_waiting", "request", "round_index", "rows_left", "wish", "work_ns")

    def __init__(self, request: Request, work_ns: float, round_index: int) -> None:
        self.request = request
        self.round_index = round_index
        self.rows_left = request.rows
        self.work_ns = work_ns
        self.is_waiting = True
        self.wish = self.fresh_wish()

    def fresh_wish(self) -> Wish:
        request = self.request
        work_ns = self.work_ns * self.rows_left / request.rows
        return Wish(
            request.deadline_at_ns,
            request.request_id,
            work_ns,
            request.priority,
            self.round_index,
        )


class WaitingList:
    """Everyone who waits, as schedules see them.

    Args:
        predictor: says what requests take alone.
        accounts: of tenants, which are told of requests before this is.

    Invariants: it holds the requests that were admitted, have not ended and do not run.
    Cost: O(log n) and a move of memory a change.
    """

    def __init__(self, predictor: Predictor, accounts: Accounts) -> None:
        self._predictor = predictor
        self.accounts = accounts
        self._kept: dict[RequestId, _Kept] = {}
        self._lines: Mapping[SlotClass, list[Wish]] = {each: [] for each in SlotClass}
        self._streams: dict[_Kind, Stream] = {}
        self.changes = 0
        """Counts whatever alters the list, so that what was made of it can be kept."""

    def front(self, slot_class: SlotClass, count: int) -> Sequence[Wish]:
        """The first of a class, by deadline."""
        return self._lines[slot_class][:count]

    def last(self, slot_class: SlotClass) -> Wish | None:
        """Whoever of a class is due last; None where nobody waits."""
        line = self._lines[slot_class]
        return line[-1] if line else None

    def count(self, slot_class: SlotClass) -> int:
        """How many of a class wait."""
        return len(self._lines[slot_class])

    def streams(self, slot_class: SlotClass) -> Iterator[Stream]:
        """Kinds of work of a class that have been arriving."""
        return (each for each in self._streams.values() if each.slot_class is slot_class)

    def work_rate(self, slot_class: SlotClass, now_ns: int) -> float:
        """Work of a class that arrives per elapsed time: 1 would keep a lane busy."""
        return sum([each.rate(now_ns) * each.work_ns for each in self.streams(slot_class)])

    def left_ns(self, request: Request) -> float:
        """What is left of a request that waits, with a lane to itself; 0 while nothing is known."""
        kept = self._kept.get(request.request_id)
        if kept is None or kept.work_ns <= 0.0:
            return self.work_ns(request)
        return kept.wish.work_ns

    def wish_of(self, request: Request) -> Wish:
        """As a schedule would see a request that arrives now."""
        return Wish(
            request.deadline_at_ns,
            request.request_id,
            self.work_ns(request),
            request.priority,
            self.accounts.round_index(request),
        )

    def work_ns(self, request: Request) -> float:
        """What a request takes with a lane to itself; 0 while nothing is known."""
        return float(self._predictor.solo_ns(request.model, request.rows))

    def admitted(self, request: Request, now_ns: int) -> None:
        """One more waits."""
        work_ns = self.work_ns(request)
        round_index = self.accounts.round_index(request)
        kept = self._kept[request.request_id] = _Kept(request, work_ns, round_index)
        insort(self._lines[request.slot_class], kept.wish)
        self.changes += 1
        kind = (request.model, request.rows, request.slot_class)
        stream = self._streams.get(kind)
        if stream is None:
            if len(self._streams) >= _STREAMS_MAX:
                return
            stream = self._streams[kind] = Stream(request, now_ns)
        stream.arrive(request, work_ns, now_ns)

    def started(self, request: Request, rows: int, now_ns: int) -> None:
        """Some of its rows run, and the others will wait again."""
        kept = self._kept.get(request.request_id)
        if kept is not None:
            self._take_out(kept)
            kept.rows_left -= rows

    def ran(self, request: Request, device_ns: int, now_ns: int) -> None:
        """What is left of it waits again."""
        kept = self._kept.get(request.request_id)
        if kept is not None and kept.rows_left > 0 and not kept.is_waiting:
            kept.wish = kept.fresh_wish()
            kept.is_waiting = True
            insort(self._lines[request.slot_class], kept.wish)
            self.changes += 1

    def ended(self, request: Request, is_met: bool, now_ns: int) -> None:
        """It is gone."""
        kept = self._kept.pop(request.request_id, None)
        if kept is not None:
            self._take_out(kept)

    def _take_out(self, kept: _Kept) -> None:
        if kept.is_waiting:
            line = self._lines[kept.request.slot_class]
            del line[bisect_left(line, kept.wish)]
            kept.is_waiting = False
            self.changes += 1
