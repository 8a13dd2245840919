"""The course of a run: what became of its batches, requests, loads and slots.

Knows what checks ask about. Refuses to judge, and to know Records, of which `follow.py` makes it.
"""

from collections import deque
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from headway.core import (
    BatchId,
    DeviceName,
    DeviceParams,
    ModelName,
    ReplicaId,
    Request,
    SlotClass,
)

__all__ = [
    "BatchEnd",
    "BatchPast",
    "Course",
    "DeviceUse",
    "Loss",
    "ReplicaPast",
    "RequestPast",
]


class BatchEnd(StrEnum):
    """How a batch ended."""

    FINISHED = "finished"
    FAILED = "failed"
    LOST = "lost"


class BatchPast(Struct, frozen=True, kw_only=True):
    """A batch that has ended."""

    model: ModelName
    device: DeviceName
    slot_class: SlotClass
    rows: int
    payload_bytes: int
    padding_bytes: int
    started_at_ns: int
    ended_at_ns: int
    end: BatchEnd
    error: str = ""
    """Code of the error, where it failed."""
    transfer_in_ns: int = 0
    execution_ns: int = 0
    transfer_out_ns: int = 0
    expected_ns: int = 0
    bound_ns: int = 0
    """0 where nothing was predicted."""
    company: float = 0.0
    """How many others ran beside it on other lanes of its device, on average over its time."""
    crowd: float = 0.0
    """The same of others on its own lane."""
    left_rows: int = 0
    """Of its model, that waited when it started and were not in it."""
    left_because: tuple[str, ...] = ()
    """What kept them out, where they would have fitted by number."""
    held_ns: int = 0
    """How long its first request had waited although a slot was free all the while."""
    order: int | None = None
    """0 for the first of its replica that was seen to be warmed, and so on; None for others."""
    late: int = 0
    """Members that were answered too late or not at all."""

    @property
    def service_ns(self) -> int:
        """Dispatch to done."""
        return self.ended_at_ns - self.started_at_ns

    @property
    def stages_ns(self) -> int:
        """What the executor timed; 0 where it did not."""
        return self.transfer_in_ns + self.execution_ns + self.transfer_out_ns


class RequestPast(Struct, frozen=True, kw_only=True):
    """A request that has ended and whose arrival was seen."""

    request: Request
    ended_at_ns: int
    end: str
    """`completed`, `rejected`, `expired`, `failed` or `cancelled`."""
    reason: str = ""
    queue_delay_ns: int | None = None
    """None where it never started."""
    batch_id: BatchId | None = None

    @property
    def is_violation(self) -> bool:
        """Not answered within its budget; one that was taken back is none."""
        is_late = self.ended_at_ns > self.request.deadline_at_ns
        return self.end in {"rejected", "expired", "failed"} or (
            self.end == "completed" and is_late
        )


class ReplicaPast(Struct, kw_only=True):
    """A load of a replica, as far as it was seen."""

    replica_id: ReplicaId
    model: ModelName
    asked_at_ns: int
    warmed_at_ns: int | None = None
    leaves_at_ns: int | None = None
    """When its unload began; None where it was lost."""
    stopped_at_ns: int | None = None


class Loss(Struct, frozen=True, kw_only=True):
    """A worker process died."""

    at_ns: int
    models: tuple[ModelName, ...]
    message: str


class DeviceUse(Struct, kw_only=True):
    """What the slots of a device did between the first and the last arrival.

    What was before, a start, and what came after, an end, say nothing of a load.
    """

    slots: int
    busy_ns: int = 0
    """Of all its slots, added up."""
    starved_ns: int = 0
    """Free slots' time while nothing waited anywhere."""


class Course(Struct, kw_only=True):
    """What happened."""

    devices: Mapping[DeviceName, DeviceParams]
    from_ns: int = 0
    to_ns: int = 0
    asked_ns: int = 0
    """From the first arrival to the last."""
    is_whole: bool = False
    """It begins where the server did."""
    batches: deque[BatchPast]
    requests: deque[RequestPast]
    replicas: list[ReplicaPast]
    losses: list[Loss]
    use: dict[DeviceName, DeviceUse]
    rows_max: dict[ModelName, int]
    """Rows that a batch may have, of models whose loads were seen or whose settings are known."""

    @property
    def span_ns(self) -> int:
        """How long it is."""
        return self.to_ns - self.from_ns
