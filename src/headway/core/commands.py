"""What to do now: imperatives, the only way out of the kernel."""

from msgspec import Struct

from headway.core.forecast import UNKNOWN, Forecast
from headway.core.names import BatchId, DeviceName, ModelName, ReplicaId, RequestId, SlotIndex
from headway.core.request import ExpireReason, RejectReason, SlotClass, Stage

__all__ = [
    "Cancel",
    "CancelBatch",
    "Command",
    "Complete",
    "ConcludeLoad",
    "ConcludeUnload",
    "Dispatch",
    "Expire",
    "Fail",
    "KeepSegment",
    "LoadReplica",
    "Reject",
    "ReplaceWorker",
    "SetTimer",
    "UnloadReplica",
]


class Dispatch(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """Hand these requests, in this order, to a slot as one batch."""

    batch_id: BatchId
    replica_id: ReplicaId
    model: ModelName
    device: DeviceName
    slot: SlotIndex
    slot_class: SlotClass
    rows: int
    request_ids: tuple[RequestId, ...]
    expected_ns: int = 0
    """Predicted time to its end; 0 while nothing is known."""
    bound_ns: int = 0
    """It is expected to end within this at the predictor's confidence."""
    first_row: int = 0
    """Of a segment: the first of its request's rows that run now; 0 also starts it over."""
    is_segment: bool = False
    """The batch is `rows` of the rows of its one request, not the whole of it."""


class KeepSegment(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """Keep the outputs of a segment that has run: they are part of the request's answer."""

    request_id: RequestId
    batch_id: BatchId


class Complete(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """Answer a request with its rows of the finished batch."""

    request_id: RequestId
    batch_id: BatchId
    batch_rows: int
    queue_delay_ns: int
    service_ns: int
    """Dispatch to executor done; of a request that ran in segments, their sum."""
    foreseen: Forecast = UNKNOWN
    """What was expected of the request when it was admitted."""


class Reject(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """Answer that the request is refused: it was not queued, or gave its place there away."""

    request_id: RequestId
    reason: RejectReason
    retry_after_ns: int


class Expire(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """Answer that the request's time is up."""

    request_id: RequestId
    stage: Stage
    reason: ExpireReason
    foreseen: Forecast = UNKNOWN
    """What was expected of the request when it was admitted."""


class Cancel(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """Close a request whose client is gone."""

    request_id: RequestId
    stage: Stage


class Fail(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """Answer with an executor's error."""

    request_id: RequestId
    stage: Stage
    code: str
    message: str


class CancelBatch(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """Nobody waits for this batch any more: stop at the next safe point, then report its end."""

    batch_id: BatchId


class SetTimer(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """Send `TimerFired` at this instant; replaces the instant asked for before."""

    at_ns: int


class LoadReplica(Struct, frozen=True, kw_only=True, tag=True):
    """Load and warm a model on a device; report each step."""

    replica_id: ReplicaId
    model: ModelName
    version: str
    device: DeviceName


class UnloadReplica(Struct, frozen=True, kw_only=True, tag=True):
    """Free a replica that runs nothing; report when it is gone."""

    replica_id: ReplicaId


class ReplaceWorker(Struct, frozen=True, kw_only=True, tag=True):
    """The batch is hung: end the worker process that holds this replica and report the loss."""

    replica_id: ReplicaId
    batch_id: BatchId


class ConcludeLoad(Struct, frozen=True, kw_only=True, tag=True):
    """Tell whoever asked for the load how it ended; ``error`` is None when it serves."""

    model: ModelName
    version: str
    error: str | None


class ConcludeUnload(Struct, frozen=True, kw_only=True, tag=True):
    """Tell whoever asked that the model is gone."""

    model: ModelName


Command = (
    Dispatch
    | KeepSegment
    | Complete
    | Reject
    | Expire
    | Cancel
    | Fail
    | CancelBatch
    | SetTimer
    | LoadReplica
    | UnloadReplica
    | ReplaceWorker
    | ConcludeLoad
    | ConcludeUnload
)
