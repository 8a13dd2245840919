"""One timer for the earliest instant at which a running batch is taken for hung.

Knows batches and the timer queue. What comes of a hung batch is its worker's replacement.
"""

from headway.core.commands import Command, ReplaceWorker
from headway.core.fleet import Fleet
from headway.core.timers import TimerQueue
from headway.core.waiting import HangCheck, TimerItem

__all__ = ["HangWatch"]

_HANG_CHECK = HangCheck()


class HangWatch:
    """Has the workers of hung batches replaced, each once.

    Invariants: while a batch runs there is a timer at or before the instant it is hung.
    """

    __slots__ = ("_at_ns", "_fleet", "_timers")

    def __init__(self, fleet: Fleet, timers: TimerQueue[TimerItem]) -> None:
        self._fleet = fleet
        self._timers = timers
        self._at_ns: int | None = None

    def watch(self, at_ns: int) -> None:
        """Look again at this instant, if not before."""
        if self._at_ns is None or at_ns < self._at_ns:
            self._at_ns = at_ns
            self._timers.push(at_ns, _HANG_CHECK)

    def check(self, now_ns: int, out: list[Command]) -> None:
        """Give up what is hung now; a timer that an earlier one overtook finds nothing to do."""
        if self._at_ns is None or self._at_ns > now_ns:
            return
        self._at_ns = None
        for batch in self._fleet.batches.values():
            if batch.is_given_up:
                continue
            if batch.hung_at_ns > now_ns:
                self.watch(batch.hung_at_ns)
                continue
            batch.is_given_up = True
            out.append(ReplaceWorker(replica_id=batch.replica.replica_id, batch_id=batch.batch_id))
