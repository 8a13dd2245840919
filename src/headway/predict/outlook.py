"""What waits, as batches to come; and when a batch behind them would start and end.

Knows the queue as the kernel shows it, and works. Refuses to know who goes first: the order is the
queue's.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from headway.core import (
    BucketKey,
    DeviceName,
    ModelName,
    ModelParams,
    QueueView,
    Request,
    SlotClass,
)
from headway.predict.lanes import Load, Rolling

__all__ = ["Backlog", "Piece", "Through", "backlog_of", "roll_queue"]

_REQUESTS_MAX: Final = 8
"""Waiting requests that are looked at for what runs; the rest count as average."""
_REQUESTS_BEFORE_MAX: Final = 48
"""And for a request that arrives."""
_STEPS_MAX: Final = 120
_AHEAD_RATIO_MAX: Final = 0.9
"""More important arrivals are taken to leave lanes the rest: an overload is not for ever, and a few
dozen arrivals in a row, over which rates are measured, often look like one. So a wait is at most
ten times what it would be without them."""

WorkOf = Callable[[ModelName, BucketKey, int, int], float]
"""Solo work of (model, bucket, rows, payload bytes), in nanoseconds; 0 while unknown."""


class Piece(NamedTuple):
    """A batch that is to come."""

    slot_class: SlotClass
    work_ns: float


class Backlog(NamedTuple):
    """What waits for one device."""

    pieces: tuple[Piece, ...]
    """Those served first, in order."""
    beyond_ns: float
    """Solo work behind them, taken to be like theirs a request."""
    last: Piece | None = None
    """The batch that a certain request would be in, behind all of these."""


class _Forming:
    """A batch while requests are put into it."""

    __slots__ = ("limit", "payload_bytes", "rows", "share_ratio", "slot_class", "work_ns")

    def __init__(self, slot_class: SlotClass, limit: int, share_ratio: float) -> None:
        self.slot_class = slot_class
        self.limit = limit
        self.share_ratio = share_ratio
        self.rows = 0
        self.payload_bytes = 0
        self.work_ns = 0.0

    @property
    def piece(self) -> Piece:
        return Piece(self.slot_class, self.work_ns * self.share_ratio)


def backlog_of(
    queue: QueueView, device: DeviceName, work_of: WorkOf, last: Request | None = None
) -> Backlog:
    """Group what waits into batches by model and bucket, as far as rows allow.

    A request whose model is on k devices counts for a k-th on each. A batch's work never shrinks
    with another row, whatever was learnt of larger batches. Only the first few are looked at.

    Args:
        queue: what waits.
        device: where.
        work_of: solo work.
        last: a request that is to be served on this device behind all of them; it joins the batch
            of its kind that has room, and then goes when that goes.
    """
    groups = _Groups(device, work_of)
    seen = 0
    requests_max = _REQUESTS_MAX if last is None else _REQUESTS_BEFORE_MAX
    for request in islice(queue.requests(), requests_max):
        seen += 1
        groups.add(request, queue.params(request.model))
    pieces = tuple([batch.piece for batch in groups.forming])
    # A request brings its part of a batch, and nothing where it runs elsewhere.
    beyond_ratio = max(0, queue.count - seen) / max(1, seen)
    beyond_ns = beyond_ratio * sum([piece.work_ns for piece in pieces])
    if last is None:
        return Backlog(pieces, beyond_ns)
    batch = groups.add(last, queue.params(last.model))
    before = groups.forming
    if batch is not None:
        batch.share_ratio = 1.0
        before = before[: before.index(batch)]
    pieces = tuple([each.piece for each in before])
    return Backlog(pieces, beyond_ns, None if batch is None else batch.piece)


class _Groups:
    """Requests of a queue in the batches that they will form on one device."""

    def __init__(self, device: DeviceName, work_of: WorkOf) -> None:
        self.forming: list[_Forming] = []
        self._unfilled: dict[tuple[ModelName, BucketKey], _Forming] = {}
        self._device = device
        self._work_of = work_of

    def add(self, request: Request, params: ModelParams | None) -> _Forming | None:
        """The batch that a request ends up in; None if it cannot run here."""
        if params is None or self._device not in params.devices:
            return None
        key = (request.model, request.bucket)
        batch = self._unfilled.get(key)
        if batch is None or batch.rows + request.rows > batch.limit:
            limit = params.batch_rows_max if params.can_batch else 1
            batch = _Forming(request.slot_class, limit, 1.0 / len(params.devices))
            self.forming.append(batch)
            self._unfilled[key] = batch
        batch.rows += request.rows
        batch.payload_bytes += request.payload_bytes
        work_ns = self._work_of(request.model, request.bucket, batch.rows, batch.payload_bytes)
        batch.work_ns = max(batch.work_ns, work_ns)
        return batch


class Through(NamedTuple):
    """How the last of a queue gets through, in elapsed time."""

    start_ns: float
    """Until it has a slot."""
    run_ns: float
    """From then to its end."""


def roll_queue(rolling: Rolling, queue: Sequence[Load]) -> Through:
    """Roll a device forward until the last of its queue has run.

    Args:
        rolling: the device, with what runs on it. Its first pot goes before the last of the queue
            though it is not in it (more important arrivals, and what waits beyond those followed
            one by one); the others take free slots once the last of the queue has its own.
            What the first gains is held to what lanes can bear, so that the way has an end.
        queue: batches in order of service, their lanes ignored; the last is asked about.
    """
    rolling.hold_first(_AHEAD_RATIO_MAX)
    waiting = list(reversed(queue))
    last = queue[-1]
    index, start_ns = -1, 0.0
    for _ in range(_STEPS_MAX):
        while waiting:
            lane = _free_lane(rolling, len(waiting) == 1)
            if lane is None:
                break
            rolling.join(lane, waiting.pop())
        if not waiting and index < 0:
            index, start_ns = len(rolling.ends) - 1, rolling.at_ns
        rolling.step(1 if waiting else None)
        if index >= 0 and rolling.ends[index] > 0.0:
            return Through(start_ns, rolling.ends[index] - start_ns)
    return _extrapolated(rolling, waiting, last, start_ns)


def _free_lane(rolling: Rolling, is_last: bool) -> int | None:
    """The emptiest lane with a free slot; the last of a queue leaves as many as the pot holds."""
    free, best = 0, -1
    for lane, (count, slots) in enumerate(zip(rolling.counts, rolling.slots, strict=True)):
        if count < slots:
            free += slots - count
            if best < 0 or count < rolling.counts[best]:
                best = lane
    if is_last and free:
        held = rolling.levels[0] / rolling.pots[0].piece_ns
        # A slot that a steady stream fills part of the time is free for the rest of it.
        free -= int(held) if rolling.is_settled else round(held)
    return best if free > 0 else None


def _extrapolated(
    rolling: Rolling, waiting: Sequence[Load], last: Load, start_ns: float
) -> Through:
    """Whoever waits behind too much to be followed gets what full lanes would give."""
    lanes = len(rolling.slots)
    crowd = max(sum(rolling.slots) / lanes, 1.0)
    if waiting:
        work_ns = rolling.levels[0] + sum([load.work_ns for load in waiting[1:]])
        spare_rate = rolling.full_rate - rolling.pots[0].work_rate
        return Through(rolling.at_ns + work_ns / spare_rate, last.work_ns * crowd)
    return Through(start_ns, max(rolling.at_ns - start_ns, last.work_ns))
