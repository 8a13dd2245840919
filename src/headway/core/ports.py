"""What a policy must decide: five small protocols, and the views they may read.

A policy is five objects, and two more where it wants them: one that promotes who has waited long,
and one that is told of the fate of requests. The kernel asks; it never hands out anything that can
be changed. Decisions are functions of what they are given and of what `Feedback` and the predictor
were told, in order: no clock, no chance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from msgspec import Struct

from headway.core.forecast import Forecast, QueueView, Run, Stages
from headway.core.names import BatchId, DeviceName, ModelName, ReplicaId, SlotIndex
from headway.core.params import ModelParams
from headway.core.request import Request, SlotClass

__all__ = [
    "Admission",
    "Aging",
    "BatchView",
    "Batching",
    "BucketView",
    "DeviceView",
    "Feedback",
    "FleetView",
    "GiveUp",
    "Hold",
    "LoadView",
    "Ordering",
    "Placement",
    "Placing",
    "Policy",
    "Predictor",
    "Refusal",
    "SlotOption",
    "Start",
]


class BucketView(Protocol):
    """Requests of one model that may share a batch."""

    @property
    def count(self) -> int:
        """Requests waiting."""

    @property
    def rows(self) -> int:
        """Rows waiting."""

    @property
    def head_rows_left(self) -> int:
        """Rows of the first that have not run yet: a request may run in segments."""

    def front(self, count: int) -> Sequence[Request]:
        """The first that wait, in order of service, as many as there are."""

    @property
    def oldest_arrived_at_ns(self) -> int:
        """Arrival of the request that has waited longest."""

    @property
    def tightest_deadline_at_ns(self) -> int:
        """No waiting request has an earlier deadline than this."""


class BatchView(Protocol):
    """A batch that runs."""

    @property
    def batch_id(self) -> BatchId:
        """By which forecasts name it."""

    @property
    def model(self) -> ModelName:
        """Whose it is."""

    @property
    def slot(self) -> SlotIndex:
        """Where it runs."""

    @property
    def lane(self) -> int:
        """Of its slot."""

    @property
    def rows(self) -> int:
        """Rows of all members."""

    @property
    def slot_class(self) -> SlotClass:
        """`low` if all members are."""

    @property
    def priority(self) -> int:
        """Of its most important member."""

    @property
    def started_at_ns(self) -> int:
        """Since when it runs."""

    @property
    def deadline_at_ns(self) -> int:
        """The tightest of its members."""


class DeviceView(Protocol):
    """A device, and what it runs."""

    @property
    def name(self) -> DeviceName:
        """By which options name it."""

    @property
    def slot_lanes(self) -> tuple[int, ...]:
        """Lane of each slot."""

    @property
    def shares_all(self) -> bool:
        """Whether its slots share all of it, so that lanes divide nothing."""

    @property
    def lane_running(self) -> Mapping[int, int]:
        """Batches on each lane."""

    @property
    def low_weight_ratio(self) -> float:
        """Share of a lane that a `low` batch gets beside a `high` one, relative to it."""

    def running(self) -> Sequence[BatchView]:
        """Its batches, in order of slots."""


class FleetView(Protocol):
    """All devices."""

    @property
    def slots(self) -> int:
        """Over all devices."""

    @property
    def free_slots(self) -> int:
        """Those that run nothing."""

    def device(self, name: DeviceName) -> DeviceView:
        """One by its name."""

    def all_devices(self) -> Sequence[DeviceView]:
        """In the order of the configuration."""


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


class Start(NamedTuple):
    """Placement's yes."""

    option: SlotOption
    rows: int | None = None
    """Rows of the batch at most; None for as many as `Batching.rows_max` says. Where the head alone
    has more left and its model can split, so many of its rows run, and the rest waits again at its
    old place."""


class Hold(NamedTuple):
    """Placement's not now."""

    until_ns: int | None = None
    """Ask again at this instant at the latest. In any case when a batch has started or ended, and
    when others have joined or left those who wait in the bucket; what comes for others is none of
    its business."""


class GiveUp(NamedTuple):
    """Placement's never: the head ends now, as predicted to be late."""


Placing = Start | Hold | GiveUp


class Ordering(Protocol):
    """Who goes first."""

    def key(self, request: Request) -> tuple[int, ...]:
        """Smaller is served first; the kernel breaks ties by arrival. Changes nothing."""


class Admission(Protocol):
    """Yes or no at the door, after the hard limits have been checked."""

    def refuse(
        self, request: Request, foreseen: Forecast, load: LoadView, now_ns: int
    ) -> Refusal | None:
        """None admits. Changes nothing.

        Args:
            request: asks to be let in.
            foreseen: what the predictor expects of it; all 0 while nothing is known.
            load: how full things are.
            now_ns: when.
        """


class Batching(Protocol):
    """When a bucket's batch should start, and how large it may be."""

    def due_at_ns(self, bucket: BucketView, model: ModelParams, now_ns: int) -> int:
        """Instant from which a free slot may take the bucket's head."""

    def rows_max(self, bucket: BucketView, model: ModelParams) -> int:
        """Largest batch to form now, in rows."""


class Placement(Protocol):
    """Which free slot a batch gets, if any now."""

    def place(
        self,
        bucket: BucketView,
        model: ModelParams,
        options: Sequence[SlotOption],
        fleet: FleetView,
        now_ns: int,
    ) -> Placing:
        """What becomes of the head of a bucket; buckets are asked for in the order of their heads.

        Args:
            bucket: not empty.
            model: of the bucket.
            options: free slots that it may have, at least one.
            fleet: what runs where.
            now_ns: when.
        """


class Aging(Protocol):
    """When who waits long gets a better place."""

    def promotes_at_ns(self, request: Request) -> int | None:
        """Instant from which its key is `promoted_key`; None for never."""

    def promoted_key(self, request: Request) -> tuple[int, ...]:
        """Its place in the order of service from then on."""


class Feedback(Protocol):
    """Is told of the fate of requests, each once, in the order in which things happen."""

    def admitted(self, request: Request, now_ns: int) -> None:
        """It was let in, and its key was taken."""

    def started(self, request: Request, rows: int, now_ns: int) -> None:
        """So many of its rows are being run: all, or a segment."""

    def ran(self, request: Request, device_ns: int, now_ns: int) -> None:
        """A batch with rows of it has ended; its part, by rows, of the batch's service time.

        Comes after `ended` where the request ended before its batch.
        """

    def ended(self, request: Request, is_met: bool, now_ns: int) -> None:
        """Its one outcome: answered in time, or anything else, a refusal included."""


class Predictor(Protocol):
    """How long things take, learnt from what it is told. Never NaN, never negative.

    The kernel tells it every start and every end, in order, and asks. It keeps what runs itself,
    so that asking costs no more than the answer.
    """

    def service_ns(self, model: ModelName, rows: int) -> int:
        """Expected dispatch-to-done time among today's neighbours; 0 while nothing is known."""

    def solo_ns(self, model: ModelName, rows: int) -> int:
        """Expected dispatch-to-done time without neighbours; 0 while nothing is known."""

    def floor_ns(self, model: ModelName, rows: int) -> int:
        """No batch of this many rows was ever faster; 0 while nothing is known."""

    def forecast(
        self, candidate: Run | None, device: DeviceName, queue: QueueView, now_ns: int
    ) -> Sequence[Forecast]:
        """Were the candidate started now: its own, then that of each batch on the device.

        Without a candidate, those that run as things stand. Changes nothing.
        """

    def beside(self, candidate: Run | None, device: DeviceName, now_ns: int) -> Sequence[Forecast]:
        """As `forecast`, if nothing that waits or may yet arrive were ever started.

        Changes nothing. Made to be asked several times a decision.
        """

    def foresee(self, request: Request, queue: QueueView, now_ns: int) -> Forecast:
        """What a request would take that arrived now. The queue is what is served before it.

        Changes nothing.
        """

    def admitted(self, request: Request, queue: QueueView, now_ns: int) -> Forecast:
        """A request that the limits have let in; what is foreseen of it.

        The policy may refuse it still; its work counts in the rates of arrivals all the same. The
        queue is what is served before it.
        """

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
    """Five decisions and a name, and who else is to be asked or told."""

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
    aging: Aging | None = None
    feedback: Feedback | None = None
