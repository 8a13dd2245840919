"""Steps in, what they come to out: who waits, what runs, what ended how, second by second.

Knows steps. Never who looks at it, nor a clock: time is that of the steps.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from headway.core import (
    BatchFailed,
    BatchFinished,
    BatchId,
    Cancel,
    Command,
    Complete,
    DeviceName,
    Dispatch,
    Event,
    Expire,
    Fail,
    KeepSegment,
    Kernel,
    Reject,
    ReplicaId,
    ReplicasLost,
    Request,
    RequestArrived,
    RequestId,
    RequestState,
    Stage,
)
from headway.observe.glance import BatchFate, EndedBatch, Refusal
from headway.observe.seconds import Second, Seconds
from headway.units import NS_PER_MS

__all__ = ["ENDED_MAX", "REFUSALS_MAX", "Batch", "Follower", "ms"]

ENDED_MAX: Final = 2_000
"""Batches that have ended and are kept to be shown."""
REFUSALS_MAX: Final = 50
_CANCELLED: Final = "cancelled"

Queue = tuple[str, str]
"""Model and tier."""


class _Live:
    """A request that waits or runs."""

    __slots__ = ("admitted_at_ns", "batch_id", "request")

    def __init__(self, request: Request, admitted_at_ns: int) -> None:
        self.request = request
        self.admitted_at_ns = admitted_at_ns
        self.batch_id: BatchId | None = None


class Batch(Struct, kw_only=True, gc=False):
    """A batch that runs."""

    replica_id: ReplicaId
    device: DeviceName
    slot: int
    model: str
    tier: str
    """Of its first request."""
    rows: int
    started_at_ns: int
    expected_ns: int
    bound_ns: int
    is_late: bool = False
    is_wanted: bool = False
    """It had an answer to give, or a part of one."""
    tenants: dict[str, int] = {}
    """Whose rows are in it."""


class Follower:
    """What steps come to.

    Args:
        devices: by their names, in the order of the configuration.

    Invariants: what is held are live requests and running batches, which the kernel bounds, and
    bounded pieces of the past.
    Cost: a few microseconds a step.
    """

    def __init__(self, devices: Iterable[DeviceName]) -> None:
        self._devices = {name: index for index, name in enumerate(devices)}
        self._live: dict[RequestId, _Live] = {}
        self.batches: dict[BatchId, Batch] = {}
        self.waiting: dict[Queue, dict[RequestId, int]] = {}
        """Arrival instants of what waits, by model and tier."""
        self.last: dict[Queue, Request] = {}
        """The request of each that arrived last."""
        self.seconds = Seconds()
        self.ended: deque[EndedBatch] = deque(maxlen=ENDED_MAX)
        self.refusals: deque[Refusal] = deque(maxlen=REFUSALS_MAX)
        self.refusals_count = 0
        self.ended_count = 0
        self._second = Second(0)
        self._seq = self._now_ns = 0
        """Of the step that is taken."""
        # Looked up by type, which is cheaper than asking for one type after another.
        self._on_command: dict[type[Command], Callable[[Any], None]] = {
            Dispatch: self._dispatched,
            KeepSegment: self._waits_again,
            Complete: self._completed,
            Reject: self._rejected,
            Expire: self._expired,
            Fail: self._failed,
            Cancel: self._cancelled,
        }
        self._on_event: dict[type[Event], Callable[[Any], None]] = {
            RequestArrived: self._arrived,
        }
        self._after: dict[type[Event], Callable[[Any], None]] = {
            BatchFinished: self._batch_finished,
            BatchFailed: self._batch_failed,
            ReplicasLost: self._replicas_lost,
        }
        """Told once the commands have said what became of a batch's requests."""

    def forget(self) -> None:
        """Begin anew: steps were missed."""
        for each in (self._live, self.batches, self.waiting, self.last, self.ended, self.refusals):
            each.clear()
        self.seconds.clear()

    def take(self, seq: int, now_ns: int, event: Event, commands: Sequence[Command]) -> None:
        """Take one step; they come in order, and none is left out but after `forget`."""
        self._seq, self._now_ns = seq, now_ns
        self._second = self.seconds.at(now_ns)
        kind = type(event)
        if kind in self._on_event:
            self._on_event[kind](event)
        for command in commands:
            on_command = self._on_command.get(type(command))
            if on_command is not None:
                on_command(command)
        if kind in self._after:
            self._after[kind](event)

    def agree(self, kernel: Kernel, now_ns: int) -> None:
        """Know all that lives in the kernel, which must have made no step since the last one taken.

        After `forget`, for what began before the first step that was taken.
        """
        for request_id, entry in kernel.ledger.live.items():
            if request_id not in self._live:
                self._live[request_id] = live = _Live(entry.request, now_ns)
                if entry.state is RequestState.WAITING:
                    self._line(entry.request)[request_id] = entry.request.arrived_at_ns
                elif entry.batch is not None:
                    live.batch_id = entry.batch.batch_id
        for batch_id, batch in kernel.fleet.batches.items():
            if batch_id not in self.batches and batch.members:
                self.batches[batch_id] = Batch(
                    replica_id=batch.replica.replica_id,
                    device=batch.replica.device.name,
                    slot=batch.slot,
                    model=batch.model,
                    tier=batch.members[0].request.tier,
                    rows=batch.rows,
                    started_at_ns=batch.started_at_ns,
                    expected_ns=0,
                    bound_ns=0,
                )

    def _line(self, request: Request) -> dict[RequestId, int]:
        queue = (request.model, request.tier)
        line = self.waiting.get(queue)
        if line is None:
            line = self.waiting[queue] = {}
        return line

    def _arrived(self, event: RequestArrived) -> None:
        request = event.request
        self._live[request.request_id] = _Live(request, self._now_ns)
        self._line(request)[request.request_id] = request.arrived_at_ns
        self.last[request.model, request.tier] = request

    def _dispatched(self, command: Dispatch) -> None:
        tier, tenants = "", dict[str, int]()
        for request_id in command.request_ids:
            live = self._live.get(request_id)
            if live is not None:
                request = live.request
                tier = tier or request.tier
                rows = command.rows if command.is_segment else request.rows
                tenants[request.tenant] = tenants.get(request.tenant, 0) + rows
                live.batch_id = command.batch_id
                self._line(live.request).pop(request_id, None)
        self.batches[command.batch_id] = Batch(
            replica_id=command.replica_id,
            device=command.device,
            slot=command.slot,
            model=command.model,
            tier=tier,
            rows=command.rows,
            started_at_ns=self._now_ns,
            expected_ns=command.expected_ns,
            bound_ns=command.bound_ns,
            tenants=tenants,
        )

    def _waits_again(self, command: KeepSegment) -> None:
        live = self._live.get(command.request_id)
        if live is not None:
            live.batch_id = None
            self._line(live.request)[command.request_id] = live.request.arrived_at_ns
        batch = self.batches.get(command.batch_id)
        if batch is not None:
            batch.is_wanted = True

    def _completed(self, command: Complete) -> None:
        batch = self.batches.get(command.batch_id)
        if batch is not None:
            batch.is_wanted = True
        live = self._gone(command.request_id)
        if live is None:
            return
        request, now_ns = live.request, self._now_ns
        is_in_time = now_ns <= request.deadline_at_ns
        self._second.end(request.tier, request.tenant, is_in_time=is_in_time)
        if batch is not None and not is_in_time:
            batch.is_late = True
        foreseen = command.foreseen
        if foreseen.bound_ns:
            took_ns = now_ns - live.admitted_at_ns
            self._second.latency.add(foreseen.mean_ns, foreseen.bound_ns, took_ns)

    def _rejected(self, command: Reject) -> None:
        self._refused(command.request_id, "rejected", command.reason, command.retry_after_ns)

    def _expired(self, command: Expire) -> None:
        live = self._refused(command.request_id, "expired", command.reason)
        if live is None:
            return
        if 0 < command.foreseen.bound_ns < self._now_ns - live.admitted_at_ns:
            self._second.latency.miss()
        batch = None if live.batch_id is None else self.batches.get(live.batch_id)
        if batch is not None and command.stage is Stage.RUNNING:
            batch.is_late = True

    def _failed(self, command: Fail) -> None:
        self._refused(command.request_id, "failed", command.code)

    def _cancelled(self, command: Cancel) -> None:
        self._gone(command.request_id)

    def _refused(
        self, request_id: RequestId, outcome: str, reason: str, retry_after_ns: int = 0
    ) -> _Live | None:
        live = self._gone(request_id)
        if live is None:
            return None
        request, second = live.request, self._second
        second.end(request.tier, request.tenant, is_in_time=False)
        second.reasons[outcome, reason] = second.reasons.get((outcome, reason), 0) + 1
        self.refusals_count += 1
        self.refusals.append(
            Refusal(
                step=self._seq,
                at_ms=ms(self._now_ns),
                request=request_id,
                model=request.model,
                tier=request.tier,
                tenant=request.tenant,
                outcome=outcome,
                reason=reason,
                after_ms=ms(self._now_ns - request.arrived_at_ns),
                budget_ms=ms(request.budget_ns),
                retry_ms=ms(retry_after_ns) if retry_after_ns else None,
            )
        )
        return live

    def _gone(self, request_id: RequestId) -> _Live | None:
        """A request that has ended; None for one that arrived before the first step taken."""
        live = self._live.pop(request_id, None)
        if live is not None:
            self._line(live.request).pop(request_id, None)
        return live

    def _batch_finished(self, event: BatchFinished) -> None:
        self._end_batch(event.batch_id, None)

    def _batch_failed(self, event: BatchFailed) -> None:
        was_taken_back = event.code == _CANCELLED
        self._end_batch(event.batch_id, BatchFate.UNWANTED if was_taken_back else BatchFate.FAILED)

    def _replicas_lost(self, event: ReplicasLost) -> None:
        lost = [
            batch_id
            for batch_id, batch in self.batches.items()
            if batch.replica_id in event.replica_ids
        ]
        for batch_id in lost:
            self._end_batch(batch_id, BatchFate.FAILED)

    def _end_batch(self, batch_id: BatchId, fate: BatchFate | None) -> None:
        batch = self.batches.pop(batch_id, None)
        if batch is None:
            return
        took_ns = self._now_ns - batch.started_at_ns
        if fate is None:
            fate = BatchFate.LATE if batch.is_late else BatchFate.IN_TIME
            if not batch.is_wanted:
                fate = BatchFate.UNWANTED
            if batch.bound_ns:
                self._second.service.add(batch.expected_ns, batch.bound_ns, took_ns)
        for tenant, rows in batch.tenants.items():
            self._second.tenant(tenant).device_ns += took_ns * rows // batch.rows
        self.ended_count += 1
        self.ended.append(
            EndedBatch(
                step=self._seq,
                device=self._devices.get(batch.device, 0),
                slot=batch.slot,
                model=batch.model,
                tier=batch.tier,
                rows=batch.rows,
                started_ms=ms(batch.started_at_ns),
                took_ms=ms(took_ns),
                expected_ms=ms(batch.expected_ns),
                bound_ms=ms(batch.bound_ns),
                fate=fate,
            )
        )


def ms(duration_ns: int) -> float:
    """Milliseconds, to the microsecond."""
    return round(duration_ns / NS_PER_MS, 3)
