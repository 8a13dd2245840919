"""The books: every live request, where it stands, and how many came and went.

Moves requests along `TRANSITIONS` and keeps what hangs on their state in step: the room they wait
in, the timer at their deadline, the count of a batch's live members. It never decides a move.
"""

from headway.core.forecast import Forecast
from headway.core.names import RequestId
from headway.core.request import Request, RequestState, RequestStep, Stage
from headway.core.room import WaitingRoom
from headway.core.timers import TimerQueue
from headway.core.waiting import Bucket, Entry, ModelQueue, TimerItem

__all__ = ["Ledger"]


class Ledger:
    """Live requests by id.

    Invariants: arrived = live + ended; a live request waits in the room or is in one batch; it
    has its expiry timer until it ends.
    """

    __slots__ = ("_room", "_timers", "arrived_count", "ended_count", "live")

    def __init__(self, room: WaitingRoom, timers: TimerQueue[TimerItem]) -> None:
        self.live: dict[RequestId, Entry] = {}
        self.arrived_count = 0
        self.ended_count = 0
        self._room = room
        self._timers = timers

    def arrive(self, request: Request) -> None:
        """Count a request in."""
        assert request.request_id not in self.live, "request ids are never used again"
        self.arrived_count += 1

    def refuse(self) -> None:
        """The request that arrived last was not let in."""
        self.ended_count += 1

    def admit(
        self, request: Request, key: tuple[int, ...], foreseen: Forecast, queue: ModelQueue
    ) -> Bucket:
        """Let the request that arrived last wait, where its key says."""
        deadline_at_ns = request.deadline_at_ns
        expires_at_ns = deadline_at_ns + request.late_ns
        entry = Entry(request, key, deadline_at_ns, expires_at_ns, foreseen=foreseen)
        entry.step(RequestStep.ADMIT)
        self.live[request.request_id] = entry
        entry.expiry = self._timers.push(expires_at_ns, entry)
        return self._room.push(entry, queue)

    def dispatch(self, entry: Entry) -> None:
        """A waiting request is taken into a batch."""
        entry.step(RequestStep.DISPATCH)
        self._leave_room(entry)

    def send_away(self, entry: Entry, queue: ModelQueue) -> None:
        """Only some rows of the request that was just taken are in its batch; it will be back."""
        self._room.send_away(entry, queue)
        entry.is_away = True

    def take_back(self, entry: Entry, queue: ModelQueue) -> Bucket:
        """A segment has run, and the rest waits at its old place."""
        entry.step(RequestStep.CONTINUE)
        self._expect_no_more(entry, queue)
        entry.batch = None
        return self._room.push(entry, queue)

    def _expect_no_more(self, entry: Entry, queue: ModelQueue) -> None:
        entry.is_away = False
        self._room.expect_no_more(entry, queue)

    def end(self, entry: Entry, step: RequestStep) -> Stage:
        """Take a request to one of its ends, from wherever it is, and say where that was."""
        was_running = entry.state is RequestState.RUNNING
        entry.step(step)
        del self.live[entry.request.request_id]
        self.ended_count += 1
        if entry.expiry is not None:
            self._timers.cancel(entry.expiry)
            entry.expiry = None
        if entry.aging is not None:
            self._timers.cancel(entry.aging)
            entry.aging = None
        if not was_running:
            self._leave_room(entry)
            return Stage.WAITING
        batch = entry.batch
        assert batch is not None, "a running request has a batch"
        if entry.is_away:
            self._expect_no_more(entry, batch.queue)
        entry.batch = None
        batch.live_count -= 1
        return Stage.RUNNING

    def _leave_room(self, entry: Entry) -> None:
        bucket = entry.bucket
        assert bucket is not None, "what waits is in a bucket"
        self._room.leave(entry, bucket.model)
        if bucket.count == 0:
            for timer in (bucket.linger, bucket.recheck):
                if timer is not None:
                    self._timers.cancel(timer)
            bucket.linger = bucket.recheck = None
