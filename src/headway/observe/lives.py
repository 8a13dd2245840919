"""Lives of requests and batches, put together from Records: what waited, what ran, beside whom.

A Record says one step; whoever explains a run asks what led from an arrival to its answer, and what
held the slots meanwhile. That is worked out once, here, for all who read Records: reports, a
diagnosis, a story of one request.

Records may begin anywhere in a run, as the last steps of a live server do. What began before them
is told as far as it shows: a request without its arrival, a batch without its start is left out.

Knows Records. Refuses to judge: what was too long, and why, is for others to say.

Cost: a few microseconds a step. What is held is what lives, and the batches that have run since the
oldest of that began, at most `batches_max`.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from headway.core import (
    UNKNOWN,
    BatchFailed,
    BatchFinished,
    BatchId,
    Cancel,
    CancelBatch,
    Complete,
    DeviceName,
    DeviceParams,
    Dispatch,
    Expire,
    Fail,
    Forecast,
    LoadReplica,
    ModelLoadRequested,
    ModelName,
    ModelParams,
    Record,
    Reject,
    ReplicaId,
    ReplicaLoadFailed,
    ReplicasLost,
    ReplicaWarmed,
    Request,
    RequestArrived,
    RequestId,
    UnloadReplica,
)

__all__ = [
    "BatchEnding",
    "BatchLife",
    "Ended",
    "Lives",
    "Outcome",
    "RequestLife",
    "Served",
    "how_ended",
]

Outcome = Complete | Reject | Expire | Cancel | Fail
"""How a request ends."""

_SIZES_MAX: Final = 16_384
"""Sizes of batches by replica and shape of which it is remembered that they have run."""
_SERVED_MAX: Final = 4_096
"""Spans in which models were served; reloads and losses make them, and they are rare."""


def how_ended(outcome: Outcome) -> tuple[str, str]:
    """How a request ended in a word, and why where there is a reason."""
    match outcome:
        case Complete():
            return "completed", ""
        case Reject():
            return "rejected", str(outcome.reason)
        case Expire():
            return "expired", str(outcome.reason)
        case Cancel():
            return "cancelled", ""
        case Fail():
            return "failed", outcome.code


class BatchEnding(StrEnum):
    """How a batch ended."""

    RUNNING = "running"
    """It had not, when the records did."""
    FINISHED = "finished"
    FAILED = "failed"
    LOST = "lost"


class BatchLife:
    """A batch from its dispatch to its end."""

    __slots__ = (
        "bucket",
        "dispatch",
        "ended_at_ns",
        "ending",
        "error",
        "is_abandoned",
        "is_first",
        "lane",
        "members",
        "priority",
        "stages",
        "started_at_ns",
    )

    def __init__(
        self, dispatch: Dispatch, started_at_ns: int, lane: int, members: "tuple[RequestLife, ...]"
    ) -> None:
        self.dispatch = dispatch
        self.started_at_ns = started_at_ns
        self.lane = lane
        """Of its slot; -1 of a device that nobody named."""
        self.members = members
        known = [life.request for life in members if life.request is not None]
        self.bucket = str(known[0].bucket) if known else None
        """Shapes of its members; None where none of their arrivals is known."""
        self.priority = min((request.priority for request in known), default=None)
        """Of its most important member; None as above."""
        self.is_first = False
        """The first of its size and shape on a replica that was seen to load."""
        self.is_abandoned = False
        """Nobody waited for it any more when it ended."""
        self.ended_at_ns: int | None = None
        self.ending = BatchEnding.RUNNING
        self.stages: BatchFinished | None = None
        """Its end, with the times of its stages, where it has run."""
        self.error: str | None = None

    def upto_ns(self, now_ns: int) -> int:
        """Its end, or now while it runs."""
        return now_ns if self.ended_at_ns is None else self.ended_at_ns

    @property
    def has_stages(self) -> bool:
        """The executor said how long its stages took."""
        return self.stages is not None and self.stages.execution_ns > 0


class RequestLife:
    """A request from its arrival to its outcome, as much of it as the records show."""

    __slots__ = ("ended_at_ns", "outcome", "request", "request_id", "runs", "seen_at_ns")

    def __init__(self, request_id: RequestId, request: Request | None, seen_at_ns: int) -> None:
        self.request_id = request_id
        self.request = request
        """None where the records begin after its arrival."""
        self.seen_at_ns = seen_at_ns
        """The step in which it arrived, or the first that tells of it."""
        self.runs: list[BatchLife] = []
        """The batch it was in, or one for each of its segments."""
        self.outcome: Outcome | None = None
        self.ended_at_ns: int | None = None

    @property
    def arrived_at_ns(self) -> int | None:
        """When its first bytes were seen; where that was not recorded, what its answer says."""
        if self.request is not None:
            return self.request.arrived_at_ns
        if isinstance(self.outcome, Complete) and self.runs and not self.is_segmented:
            return self.runs[0].started_at_ns - self.outcome.queue_delay_ns
        return None

    @property
    def latency_ns(self) -> int | None:
        """Arrival to outcome; None where either is not known."""
        arrived_at_ns = self.arrived_at_ns
        if arrived_at_ns is None or self.ended_at_ns is None:
            return None
        return self.ended_at_ns - arrived_at_ns

    @property
    def is_segmented(self) -> bool:
        """Its rows ran apart."""
        return any(run.dispatch.is_segment for run in self.runs)

    @property
    def is_late(self) -> bool:
        """It was answered after its deadline."""
        return (
            self.request is not None
            and isinstance(self.outcome, Complete)
            and self.ended_at_ns is not None
            and self.ended_at_ns > self.request.deadline_at_ns
        )

    @property
    def is_violation(self) -> bool:
        """It ended late or without an answer; one that was taken back is none."""
        return self.is_late or isinstance(self.outcome, Reject | Expire | Fail)

    @property
    def model(self) -> ModelName | None:
        """Whose it is, as far as the records show."""
        if self.request is not None:
            return self.request.model
        return self.runs[0].dispatch.model if self.runs else None

    @property
    def foreseen(self) -> Forecast:
        """What was expected of it at its admission; the records say so when it ends."""
        return self.outcome.foreseen if isinstance(self.outcome, Complete | Expire) else UNKNOWN


class Served(NamedTuple):
    """A span in which a device had a warm replica of a model."""

    model: ModelName
    device: DeviceName
    from_ns: int
    to_ns: int | None
    """None while it still has."""

    def overlaps(self, start_ns: int, end_ns: int) -> bool:
        """Some of a span is in it."""
        return self.from_ns < end_ns and (self.to_ns is None or self.to_ns > start_ns)


class Ended(NamedTuple):
    """What a step ended."""

    requests: list[RequestLife]
    batches: list[BatchLife]


class Lives:
    """Follows a run, one Record after another.

    Args:
        devices: those of the run.
        batches_max: how many that have ended may be kept, for those that waited or ran meanwhile.

    Invariants: `ended` are in the order of their ends; whatever ended after the oldest request or
    batch that lives began is still there, unless `forgotten_until_ns` says otherwise. What a step
    returned may be looked into until the next step.
    """

    def __init__(self, devices: Iterable[DeviceParams], *, batches_max: int = 1 << 16) -> None:
        self.devices: dict[DeviceName, DeviceParams] = {each.name: each for each in devices}
        self.models: dict[ModelName, ModelParams] = {}
        """Of those whose loads were recorded, as they were asked for last."""
        self.requests: dict[RequestId, RequestLife] = {}
        """Those that live, the oldest first."""
        self.running: dict[BatchId, BatchLife] = {}
        """The oldest first."""
        self.ended: deque[BatchLife] = deque()
        self.served: list[Served] = []
        self.forgotten_until_ns: int | None = None
        """Batches that ended before this instant may be missing, for there were too many."""
        self.began_at_ns: int | None = None
        """Instant of the first step."""
        self.is_whole = False
        """The records begin where the run did."""
        self.now_ns = 0
        self._batches_max = batches_max
        self._replicas: dict[ReplicaId, tuple[ModelName, DeviceName]] = {}
        """Those that are known to be warm."""
        self._loading: dict[ReplicaId, tuple[ModelName, DeviceName]] = {}
        """Those that are on their way, or lost."""
        self._seen_to_load: set[ReplicaId] = set()
        self._sizes: set[tuple[ReplicaId, str | None, int]] = set()

    # --- looking ----------------------------------------------------------------------------------

    def batches_between(self, device: DeviceName, from_ns: int, to_ns: int) -> Iterator[BatchLife]:
        """Whatever ran on a device at some time in a span, the latest to end first."""
        for batch in reversed(self.running.values()):
            if batch.dispatch.device == device and batch.started_at_ns < to_ns:
                yield batch
        for batch in reversed(self.ended):
            assert batch.ended_at_ns is not None, "it is among those that have ended"
            if batch.ended_at_ns <= from_ns:
                return
            if batch.dispatch.device == device and batch.started_at_ns < to_ns:
                yield batch

    def served_between(self, model: ModelName, from_ns: int, to_ns: int) -> list[Served]:
        """Where a model was served in a span."""
        return [s for s in self.served if s.model == model and s.overlaps(from_ns, to_ns)]

    # --- following --------------------------------------------------------------------------------

    def step(self, record: Record) -> Ended:
        """Take one step, and say what it has ended."""
        if self.began_at_ns is None:
            self.began_at_ns = record.now_ns
            self.is_whole = record.seq == 0
        self._forget()
        self.now_ns = record.now_ns
        ended = Ended([], [])
        event = record.event
        match event:
            case RequestArrived():
                request = event.request
                life = RequestLife(request.request_id, request, record.now_ns)
                self.requests[request.request_id] = life
            case BatchFinished():
                self._end_batch(event.batch_id, BatchEnding.FINISHED, ended, stages=event)
            case BatchFailed():
                self._end_batch(event.batch_id, BatchEnding.FAILED, ended, error=event.message)
            case ReplicasLost():
                self._lose(event, ended)
            case ModelLoadRequested():
                self.models[event.model.name] = event.model
            case ReplicaWarmed():
                self._warm(event.replica_id)
            case ReplicaLoadFailed():
                self._loading.pop(event.replica_id, None)
                self._seen_to_load.discard(event.replica_id)
            case _:
                pass
        self._obey(record, ended)
        return ended

    def finish(self) -> Ended:
        """The records end: what still lives, its outcome unknown; nothing may follow."""
        return Ended(list(self.requests.values()), list(self.running.values()))

    def _obey(self, record: Record, ended: Ended) -> None:
        for command in record.commands:
            match command:
                case Complete() | Reject() | Expire() | Cancel() | Fail():
                    life = self.requests.pop(command.request_id, None)
                    if life is None:
                        life = RequestLife(command.request_id, None, record.now_ns)
                    life.outcome, life.ended_at_ns = command, record.now_ns
                    ended.requests.append(life)
                case Dispatch():
                    self._start(command)
                case CancelBatch():
                    batch = self.running.get(command.batch_id)
                    if batch is not None:
                        batch.is_abandoned = True
                case LoadReplica():
                    self._loading[command.replica_id] = (command.model, command.device)
                    self._seen_to_load.add(command.replica_id)
                case UnloadReplica():
                    self._close(command.replica_id)
                    self._loading.pop(command.replica_id, None)
                case _:
                    pass

    def _start(self, dispatch: Dispatch) -> None:
        members = tuple([self._member(request_id) for request_id in dispatch.request_ids])
        device = self.devices.get(dispatch.device)
        has_slot = device is not None and dispatch.slot < len(device.slot_lanes)
        lane = device.slot_lanes[dispatch.slot] if device is not None and has_slot else -1
        batch = BatchLife(dispatch, self.now_ns, lane, members)
        for life in members:
            life.runs.append(batch)
        self.running[dispatch.batch_id] = batch
        replica_id = dispatch.replica_id
        if replica_id not in self._replicas:  # it was warm before the records began
            self._open(replica_id, dispatch.model, dispatch.device, self.began_at_ns or 0)
        size = (replica_id, batch.bucket, dispatch.rows)
        if size not in self._sizes and len(self._sizes) < _SIZES_MAX:
            self._sizes.add(size)
            batch.is_first = replica_id in self._seen_to_load

    def _member(self, request_id: RequestId) -> RequestLife:
        life = self.requests.get(request_id)
        if life is None:
            life = self.requests[request_id] = RequestLife(request_id, None, self.now_ns)
        return life

    def _end_batch(
        self,
        batch_id: BatchId,
        ending: BatchEnding,
        ended: Ended,
        *,
        stages: BatchFinished | None = None,
        error: str | None = None,
    ) -> None:
        batch = self.running.pop(batch_id, None)
        if batch is None:
            return
        batch.ended_at_ns, batch.ending = self.now_ns, ending
        batch.stages, batch.error = stages, error
        self.ended.append(batch)
        ended.batches.append(batch)

    def _lose(self, event: ReplicasLost, ended: Ended) -> None:
        lost = set(event.replica_ids)
        for batch_id in [b for b, run in self.running.items() if run.dispatch.replica_id in lost]:
            self._end_batch(batch_id, BatchEnding.LOST, ended, error=event.message)
        for replica_id in event.replica_ids:
            self._close(replica_id)

    # --- who is served ----------------------------------------------------------------------------

    def _warm(self, replica_id: ReplicaId) -> None:
        where = self._loading.pop(replica_id, None)
        if where is not None:
            self._open(replica_id, *where, self.now_ns)

    def _open(
        self, replica_id: ReplicaId, model: ModelName, device: DeviceName, from_ns: int
    ) -> None:
        is_served = (model, device) in self._replicas.values()
        self._replicas[replica_id] = (model, device)
        if not is_served:
            self.served.append(Served(model, device, from_ns, None))

    def _close(self, replica_id: ReplicaId) -> None:
        """A replica is lost or unloaded; its sizes are cold when it comes back."""
        where = self._replicas.pop(replica_id, None)
        self._seen_to_load.discard(replica_id)
        self._sizes = {size for size in self._sizes if size[0] != replica_id}
        if where is None or where in self._replicas.values():
            return
        for index, span in enumerate(self.served):
            if (span.model, span.device) == where and span.to_ns is None:
                self.served[index] = span._replace(to_ns=self.now_ns)

    # --- forgetting -------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Let go of what ended before anything that lives began."""
        oldest_ns = self.now_ns
        if self.requests:
            oldest_ns = min(oldest_ns, next(iter(self.requests.values())).seen_at_ns)
        if self.running:
            oldest_ns = min(oldest_ns, next(iter(self.running.values())).started_at_ns)
        while self.ended:
            ended_at_ns = self.ended[0].ended_at_ns
            assert ended_at_ns is not None, "it is among those that have ended"
            if ended_at_ns >= oldest_ns:
                if len(self.ended) <= self._batches_max:
                    break
                self.forgotten_until_ns = ended_at_ns
            self.ended.popleft()
        if len(self.served) > _SERVED_MAX:
            keep = [s for s in self.served if s.to_ns is None or s.to_ns >= oldest_ns]
            self.served = keep[-_SERVED_MAX:]
