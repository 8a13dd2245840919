"""The waiting room: every model's queue under the server's own limits.

Says which limit a newcomer would break, and who would have to go for it to be let in. Whether
anyone goes is decided by the kernel and its policy.
"""

from collections.abc import Iterable
from heapq import merge
from typing import Final

from headway.core.line import Line
from headway.core.names import ModelName
from headway.core.params import KernelParams
from headway.core.request import RejectReason, Request
from headway.core.waiting import Bucket, Entry, ModelQueue

__all__ = ["FULL", "WaitingRoom"]

_R = RejectReason
FULL: Final = frozenset(
    {_R.MODEL_QUEUE_FULL, _R.MODEL_BYTES_FULL, _R.SERVER_QUEUE_FULL, _R.SERVER_BYTES_FULL}
)
"""Reasons that would not hold if others had not come before."""

_VICTIMS_MAX: Final = 16
"""More would have to go only for the sake of bytes; then the newcomer is refused."""


class WaitingRoom:
    """All queues.

    Invariants: ``count`` and ``payload_bytes`` are sums over the queues, within the limits; the
    line holds every waiting entry.
    """

    __slots__ = (
        "_bytes_max",
        "_requests_max",
        "away_bytes",
        "away_count",
        "count",
        "line",
        "payload_bytes",
        "queues",
    )

    def __init__(self, params: KernelParams) -> None:
        self.queues: dict[ModelName, ModelQueue] = {}
        self.count = 0
        self.line = Line()
        self.payload_bytes = 0
        self.away_count = 0
        """Requests of which a segment runs: they come back, so their places are kept."""
        self.away_bytes = 0
        self._requests_max = params.requests_max
        self._bytes_max = params.bytes_max

    def refusal(self, request: Request, queue: ModelQueue) -> RejectReason | None:
        """The limit that one more request would break."""
        reason = queue.refusal(request)
        if reason is not None:
            return reason
        if self.count + self.away_count >= self._requests_max:
            return RejectReason.SERVER_QUEUE_FULL
        payload_bytes = self.payload_bytes + self.away_bytes + request.payload_bytes
        if payload_bytes > self._bytes_max:
            return RejectReason.SERVER_BYTES_FULL
        return None

    def push(self, entry: Entry, queue: ModelQueue) -> Bucket:
        """Let an entry in."""
        self.count += 1
        self.payload_bytes += entry.request.payload_bytes
        self.line.push(entry)
        return queue.push(entry)

    def leave(self, entry: Entry, queue: ModelQueue) -> None:
        """Account for an entry whose state is no longer WAITING."""
        self.count -= 1
        self.payload_bytes -= entry.request.payload_bytes
        self.line.leave(entry)
        queue.leave(entry)

    def send_away(self, entry: Entry, queue: ModelQueue) -> None:
        """A segment of an entry that has just left runs, and the entry will be back."""
        self._keep_place(queue, 1, entry.request.payload_bytes)

    def expect_no_more(self, entry: Entry, queue: ModelQueue) -> None:
        """An entry that was away is back, or will never be."""
        self._keep_place(queue, -1, -entry.request.payload_bytes)

    def _keep_place(self, queue: ModelQueue, count: int, size_bytes: int) -> None:
        queue.away_count += count
        queue.away_bytes += size_bytes
        self.away_count += count
        self.away_bytes += size_bytes

    def rekey(self, entry: Entry, key: tuple[int, ...]) -> None:
        """Give a waiting entry another place in the order of service."""
        bucket = entry.bucket
        assert bucket is not None, "what waits is in a bucket"
        self.line.leave(entry)
        bucket.model.rekey(entry, key)
        self.line.push(entry)

    def victims(self, request: Request, queue: ModelQueue) -> list[Entry]:
        """Those who would have to go to let a request in, all less important; none if in vain.

        The least important goes first, among equals the newest, which has waited least.
        """
        victims: list[Entry] = []
        short = _Shortage(self, request, queue)
        for entry in self._candidates(request, queue, short):
            victims.append(entry)
            short.without(entry, queue)
            if not short.lasts:
                return victims
            if len(victims) == _VICTIMS_MAX:
                break
        return []

    def _candidates(
        self, request: Request, queue: ModelQueue, short: "_Shortage"
    ) -> Iterable[Entry]:
        """Of the model alone while its own limit is what is short, else of all."""
        if short.is_of_model:
            return queue.less_important_than(request.priority)
        return merge(
            *(q.less_important_than(request.priority) for q in self.queues.values() if q.count),
            key=lambda entry: (-entry.request.priority, -entry.key[-1]),
        )


class _Shortage:
    """By how much each limit would be broken; negative where there is room."""

    __slots__ = ("_all", "_model")

    def __init__(self, room: WaitingRoom, request: Request, queue: ModelQueue) -> None:
        params = queue.params
        self._model = [
            queue.count + queue.away_count + 1 - params.queue_requests_max,
            queue.payload_bytes + queue.away_bytes + request.payload_bytes - params.queue_bytes_max,
        ]
        self._all = [
            room.count + room.away_count + 1 - room._requests_max,  # noqa: SLF001 - same file
            room.payload_bytes + room.away_bytes + request.payload_bytes - room._bytes_max,  # noqa: SLF001
        ]

    @property
    def is_of_model(self) -> bool:
        return max(self._model) > 0

    @property
    def lasts(self) -> bool:
        return max(*self._model, *self._all) > 0

    def without(self, entry: Entry, queue: ModelQueue) -> None:
        """As if an entry had left."""
        bucket = entry.bucket
        size_bytes = entry.request.payload_bytes
        self._all = [self._all[0] - 1, self._all[1] - size_bytes]
        if bucket is not None and bucket.model is queue:
            self._model = [self._model[0] - 1, self._model[1] - size_bytes]
