"""What happened: past-tense facts, the only way in to the kernel."""

from msgspec import Struct

from headway.core.names import BatchId, ModelName, ReplicaId, RequestId
from headway.core.params import ModelParams
from headway.core.request import Request

__all__ = [
    "BatchFailed",
    "BatchFinished",
    "DrainStarted",
    "Event",
    "ModelEvent",
    "ModelLoadRequested",
    "ModelUnloadRequested",
    "PredictorTrained",
    "ReplicaLoadFailed",
    "ReplicaLoaded",
    "ReplicaStopped",
    "ReplicaWarmed",
    "ReplicasLost",
    "RequestArrived",
    "RequestCancelled",
    "TimerFired",
]


class RequestArrived(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """A client's call was decoded."""

    request: Request


class RequestCancelled(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """The client went away, or took the request back. Unknown or ended ids are ignored."""

    request_id: RequestId


class BatchFinished(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """The executor has run a batch; each stage was timed where it happened."""

    batch_id: BatchId
    transfer_in_ns: int = 0
    execution_ns: int = 0
    transfer_out_ns: int = 0


class BatchFailed(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """The executor raised on a batch; the worker lives."""

    batch_id: BatchId
    code: str
    """Stable code of the error, as in `headway.errors`."""
    message: str


class TimerFired(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """The instant last asked for with `SetTimer` has come."""


class PredictorTrained(Struct, frozen=True, kw_only=True, tag=True, gc=False):
    """What the predictor asked to have fitted in the background is ready to answer."""

    count: int
    """Observations that the fit was made of: with them a replay makes the same."""


class ModelLoadRequested(Struct, frozen=True, kw_only=True, tag=True):
    """Someone wants this model served; an older load of the same name is replaced by it."""

    model: ModelParams


class ModelUnloadRequested(Struct, frozen=True, kw_only=True, tag=True):
    """Someone wants this model gone; what it holds is finished first."""

    model: ModelName


class ReplicaLoaded(Struct, frozen=True, kw_only=True, tag=True):
    """A replica is in memory; its warm-up runs."""

    replica_id: ReplicaId
    can_batch: bool = True
    """What the loaded model says of its batch axis; overrules what was asked for."""


class ReplicaWarmed(Struct, frozen=True, kw_only=True, tag=True):
    """A replica may take batches."""

    replica_id: ReplicaId


class ReplicaLoadFailed(Struct, frozen=True, kw_only=True, tag=True):
    """Loading or warming raised; nothing of it is left in memory."""

    replica_id: ReplicaId
    message: str


class ReplicaStopped(Struct, frozen=True, kw_only=True, tag=True):
    """An unloaded replica has left the worker's memory."""

    replica_id: ReplicaId


class ReplicasLost(Struct, frozen=True, kw_only=True, tag=True):
    """A worker process died, and these replicas and whatever ran on them with it."""

    replica_ids: tuple[ReplicaId, ...]
    message: str


class DrainStarted(Struct, frozen=True, kw_only=True, tag=True):
    """The server is going away: admitted work is finished, new work refused."""


ModelEvent = (
    ModelLoadRequested
    | ModelUnloadRequested
    | ReplicaLoaded
    | ReplicaWarmed
    | ReplicaLoadFailed
    | ReplicaStopped
    | ReplicasLost
    | DrainStarted
)
"""What changes who serves; rare beside the others."""

Event = (
    RequestArrived
    | RequestCancelled
    | BatchFinished
    | BatchFailed
    | TimerFired
    | PredictorTrained
    | ModelEvent
)
