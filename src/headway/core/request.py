"""A request as the kernel sees it: who asks, how much, until when; never the tensors.

Rule 1: everything that decides what may happen to a request next stands in `TRANSITIONS`.
Rule 2: this file does not know why it happens.
"""

from enum import StrEnum
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from headway.core.names import BucketKey, ModelName, RequestId, TenantId, TierName

__all__ = [
    "TRANSITIONS",
    "ExpireReason",
    "RejectReason",
    "Request",
    "RequestState",
    "RequestStep",
    "SlotClass",
    "Stage",
]


class SlotClass(StrEnum):
    """What the slot that runs a batch is told: on a CPU its niceness, on CUDA its stream."""

    HIGH = "high"
    LOW = "low"
    __hash__ = str.__hash__


class Stage(StrEnum):
    """Where a request was when it ended."""

    ARRIVING = "arriving"
    WAITING = "waiting"
    RUNNING = "running"


class RejectReason(StrEnum):
    """Why a request was refused: at the door, or, displaced, while it waited."""

    MODEL_NOT_FOUND = "model_not_found"
    MODEL_UNAVAILABLE = "model_unavailable"
    DRAINING = "draining"
    DEADLINE_PAST = "deadline_past"
    TOO_MANY_ROWS = "too_many_rows"
    MODEL_QUEUE_FULL = "model_queue_full"
    MODEL_BYTES_FULL = "model_bytes_full"
    SERVER_QUEUE_FULL = "server_queue_full"
    SERVER_BYTES_FULL = "server_bytes_full"
    PREDICTED_LATE = "predicted_late"
    DISPLACED = "displaced"
    """It waited in a full queue, and gave its place to a more important arrival."""


class ExpireReason(StrEnum):
    """Why an admitted request was given up."""

    DEADLINE_PAST = "deadline_past"
    HOPELESS = "hopeless"
    """Even alone on an idle device it would have been late, so it was not started."""
    PREDICTED_LATE = "predicted_late"
    """The policy foresaw that it would be late, or that others would be for its sake."""


class RequestState(StrEnum):
    """Where a request stands. The last five are ends; a request has exactly one."""

    ARRIVING = "arriving"
    WAITING = "waiting"
    RUNNING = "running"
    COMPLETED = "completed"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    FAILED = "failed"
    # Members key tables on the hot path, and Enum's own hash is a call into Python.
    __hash__ = str.__hash__


class RequestStep(StrEnum):
    """What may be done to a request."""

    ADMIT = "admit"
    REJECT = "reject"
    DISPLACE = "displace"
    DISPATCH = "dispatch"
    CONTINUE = "continue"
    """Some of its rows have run; the others wait for their turn."""
    COMPLETE = "complete"
    EXPIRE = "expire"
    CANCEL = "cancel"
    FAIL = "fail"
    __hash__ = str.__hash__


_S = RequestState
_E = RequestStep

TRANSITIONS: Final[dict[tuple[RequestState, RequestStep], RequestState]] = {
    (_S.ARRIVING, _E.ADMIT): _S.WAITING,
    (_S.ARRIVING, _E.REJECT): _S.REJECTED,
    (_S.WAITING, _E.DISPATCH): _S.RUNNING,
    (_S.WAITING, _E.DISPLACE): _S.REJECTED,
    (_S.WAITING, _E.EXPIRE): _S.EXPIRED,
    (_S.WAITING, _E.CANCEL): _S.CANCELLED,
    (_S.WAITING, _E.FAIL): _S.FAILED,
    (_S.RUNNING, _E.CONTINUE): _S.WAITING,
    (_S.RUNNING, _E.COMPLETE): _S.COMPLETED,
    (_S.RUNNING, _E.EXPIRE): _S.EXPIRED,
    (_S.RUNNING, _E.CANCEL): _S.CANCELLED,
    (_S.RUNNING, _E.FAIL): _S.FAILED,
}


class Request(Struct, frozen=True, kw_only=True, gc=False):
    """One client call, reduced to what decisions need.

    Raises:
        ValueError: rows below 1, negative bytes or lateness, or a negative priority.
    """

    request_id: RequestId
    model: ModelName
    bucket: BucketKey
    """Requests of one model with equal buckets may share a batch."""
    version: str = ""
    """The version asked for; empty for whichever is current."""
    rows: int = 1
    payload_bytes: int = 0
    padding_bytes: int = 0
    """Of the payload, what was added so that its shape is that of its bucket."""
    priority: int
    """Lower is served first."""
    tier: TierName
    tenant: TenantId
    slot_class: SlotClass = SlotClass.HIGH
    arrived_at_ns: int
    budget_ns: int
    """Time granted at arrival. Zero or less means the deadline had passed before it arrived."""
    late_ns: int = 0
    """How long after its deadline an answer is still wanted; 0 where late is as bad as none."""
    origin: RequestId | UnsetType = UNSET
    """The client's call that it is a step of; left out of journals where it is a call itself."""

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError(f"rows must be at least 1, not {self.rows}")
        if self.payload_bytes < 0:
            raise ValueError(f"payload_bytes must not be negative, not {self.payload_bytes}")
        if self.late_ns < 0:
            raise ValueError(f"late_ns must not be negative, not {self.late_ns}")
        if self.priority < 0:
            raise ValueError(f"priority must not be negative, not {self.priority}")

    @property
    def deadline_at_ns(self) -> int:
        """Instant at which the last byte is due."""
        return self.arrived_at_ns + self.budget_ns

    @property
    def expires_at_ns(self) -> int:
        """Instant from which no answer is wanted any more; the deadline or later."""
        return self.arrived_at_ns + self.budget_ns + self.late_ns
