"""What a policy must decide: five small protocols, and the views they may read.

A policy is five objects. The kernel asks; it never hands out anything that can be changed.
Decisions are functions of what they are given: no clock, no chance, no memory but a predictor's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from msgspec import Struct

from headway.core.forecast import Forecast, QueueView, Run, Stages
from headway.core.names import BatchId, DeviceName, ModelName, ReplicaId, SlotIndex
from headway.core.params import ModelParams
from headway.core.request import Request

__all__ = [
    "Admission",
    "Batching",
    "BucketView",
    "LoadView",
    "Ordering",
    "Placement",
    "Policy",
    "Predictor",
    "Refusal",
    "SlotOption",
]


class BucketView(Protocol):
    """Requests of one model that may share a batch."""

    @property
    def rows(self) -> int:
        """Rows waiting."""

    @property
    def oldest_arrived_at_ns(self) -> int:
        """Arrival of the request that has waited longest."""

    @property
    def tightest_deadline_at_ns(self) -> int:
        """No waiting request has an earlier deadline than this."""


class LoadView(Struct, frozen=True, gc=False):
    """How full things are when a request arrives."""

    waiting_requests: int
    waiting_rows: int
    slots: int
    free_slots: int


class SlotOption(Struct, frozen=True, gc=False):
    """One free slot that a replica of the model may use now."""

    replica_id: ReplicaId
    device: DeviceName
    slot: SlotIndex
    lane: int
    lane_running: int
    """Batches that run on the slot's lane now."""


class Refusal(NamedTuple):
    """A policy's no, with the time after which another try makes sense."""

    retry_after_ns: int


class Ordering(Protocol):
    """Who goes first."""

    def key(self, request: Request) -> tuple[int, ...]:
        """Smaller is served first; the kernel breaks ties by arrival."""


class Admission(Protocol):
    """Yes or no at the door, after the hard limits have been checked."""

    def refuse(self, request: Request, load: LoadView, now_ns: int) -> Refusal | None:
        """None admits."""


class Batching(Protocol):
    """When a bucket's batch should start, and how large it may be."""

    def due_at_ns(self, bucket: BucketView, model: ModelParams) -> int:
        """Instant from which a free slot may take the bucket's head."""

    def rows_max(self, bucket: BucketView, model: ModelParams) -> int:
        """Largest batch to form now, in rows."""


class Placement(Protocol):
    """Which free slot a batch gets."""

    def place(self, head: Request, options: Sequence[SlotOption], now_ns: int) -> SlotOption | None:
        """One of the options, or None to hold the batch back until something changes."""


class Predictor(Protocol):
    """How long things take, learnt from what it is told. Never NaN, never negative.

    The kernel tells it every start and every end, in order, and asks. It keeps what runs itself,
    so that asking costs no more than the answer.
    """

    def service_ns(self, model: ModelName, rows: int) -> int:
        """Expected dispatch-to-done time among today's neighbours; 0 while nothing is known."""

    def floor_ns(self, model: ModelName, rows: int) -> int:
        """No batch of this many rows was ever faster; 0 while nothing is known."""

    def forecast(
        self, candidate: Run | None, device: DeviceName, queue: QueueView, now_ns: int
    ) -> Sequence[Forecast]:
        """Were the candidate started now: its own, then that of each batch on the device.

        Without a candidate, those that run as things stand. Changes nothing.
        """

    def foresee(self, request: Request, queue: QueueView, now_ns: int) -> Forecast:
        """What a request would take that arrived now. The queue is what is served before it.

        Changes nothing.
        """

    def admitted(self, request: Request, queue: QueueView, now_ns: int) -> Forecast:
        """A request is let in; what is foreseen of it. The queue is what is served before it."""

    def started(self, run: Run, queue: QueueView, now_ns: int) -> Forecast:
        """A batch starts; what is expected of it. The queue is what still waits."""

    def finished(self, batch_id: BatchId, stages: Stages, now_ns: int) -> None:
        """A batch that was started has run."""

    def dropped(self, batch_id: BatchId, now_ns: int) -> None:
        """A batch that was started failed or was lost: its slot is free, its time says nothing."""

    def answered(self, request: Request, foreseen: Forecast, now_ns: int) -> None:
        """A request has its answer; this is what was foreseen of it when it was admitted."""

    def install(self, count: int) -> None:
        """Answer from now on by what was fitted to its first `count` observations.

        Nothing to do where nothing is fitted in the background.
        """

    def state(self) -> dict[str, object]:
        """All that was learnt, as plain JSON values."""

    def restore(self, state: object) -> bool:
        """Take up what `state` gave; what does not fit is ignored. True if anything was taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Five decisions and a name."""

    name: str
    ordering: Ordering
    admission: Admission
    batching: Batching
    placement: Placement
    predictor: Predictor
    class_slots: bool = True
    """Tell a slot the class of its batch; False runs every batch as high."""
    displaces: bool = True
    """Where a queue is full, a more important arrival takes the place of the newest of the least
    important that wait; False refuses it."""
