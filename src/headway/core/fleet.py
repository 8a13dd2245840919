"""Devices, slots, replicas and running batches: what there is to run on, and what runs.

A replica's life is the table `REPLICA_TRANSITIONS`; this file knows no request.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from headway.core.names import BatchId, DeviceName, ModelName, ReplicaId, SlotIndex
from headway.core.params import DeviceParams
from headway.core.ports import SlotOption
from headway.core.request import SlotClass
from headway.core.waiting import Entry, ModelQueue
from headway.errors import InvalidTransitionError

__all__ = [
    "REPLICA_TRANSITIONS",
    "Batch",
    "Device",
    "Fleet",
    "Replica",
    "ReplicaState",
    "ReplicaStep",
]


class ReplicaState(StrEnum):
    """Where a loaded copy of a model stands. LOST waits for its worker to come back."""

    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    DRAINING = "draining"
    LOST = "lost"
    STOPPED = "stopped"


class ReplicaStep(StrEnum):
    """What may happen to a replica."""

    LOAD = "load"
    WARM = "warm"
    FAIL = "fail"
    DRAIN = "drain"
    STOP = "stop"
    LOSE = "lose"
    RESTART = "restart"


_S = ReplicaState
_E = ReplicaStep

_TAKING: Final = (_S.READY, _S.DRAINING)
"""States in which a replica may be given a batch; see `can_take` for the rest of it."""

REPLICA_TRANSITIONS: Final[dict[tuple[ReplicaState, ReplicaStep], ReplicaState]] = {
    (_S.LOADING, _E.LOAD): _S.WARMING,
    (_S.LOADING, _E.FAIL): _S.STOPPED,
    (_S.LOADING, _E.DRAIN): _S.DRAINING,
    (_S.LOADING, _E.LOSE): _S.LOST,
    (_S.WARMING, _E.WARM): _S.READY,
    (_S.WARMING, _E.FAIL): _S.STOPPED,
    (_S.WARMING, _E.DRAIN): _S.DRAINING,
    (_S.WARMING, _E.LOSE): _S.LOST,
    (_S.READY, _E.DRAIN): _S.DRAINING,
    (_S.READY, _E.LOSE): _S.LOST,
    (_S.DRAINING, _E.STOP): _S.STOPPED,
    (_S.DRAINING, _E.LOSE): _S.STOPPED,
    (_S.LOST, _E.RESTART): _S.LOADING,
    (_S.LOST, _E.DRAIN): _S.STOPPED,
}


class Replica:
    """One loaded copy of a model on one device."""

    __slots__ = (
        "blame_count",
        "device",
        "generation",
        "has_served",
        "is_current",
        "is_last_of_version",
        "is_unloading",
        "load_seq",
        "loss_count",
        "model",
        "replica_id",
        "running",
        "state",
        "version",
    )

    def __init__(
        self, replica_id: ReplicaId, model: ModelName, version: str, device: "Device"
    ) -> None:
        self.replica_id = replica_id
        self.model = model
        self.version = version
        self.device = device
        self.state = ReplicaState.LOADING
        self.running = 0
        self.generation = 0
        """Of the load that it belongs to: replicas of one load compute the same."""
        self.loss_count = 0
        """Losses since a batch last finished here; sets the restart delay."""
        self.load_seq = 0
        """Order of its last load; a worker loads one after another, in this order."""
        self.blame_count = 0
        """Losses of its worker while it was the one being loaded, since it was ready."""
        self.has_served = False
        """It was ready once, so a failure to come back is retried."""
        self.is_current = False
        """It belongs to the load that serves now; a reload's replicas join all at once."""
        self.is_last_of_version = False
        """It drains, but serves those who asked for its version, which its successor is not."""
        self.is_unloading = False

    def step(self, step: ReplicaStep) -> None:
        """Move along the table.

        Raises:
            InvalidTransitionError: the table has no such entry; nothing was changed.
        """
        after = REPLICA_TRANSITIONS.get((self.state, step))
        if after is None:
            raise InvalidTransitionError(
                f"replica {self.replica_id} of `{self.model}` cannot {step} while {self.state}",
                story=(
                    f"version `{self.version}` on `{self.device.name}`",
                    f"runs {self.running} batches, lost {self.loss_count} times in a row",
                ),
            )
        self.state = after


class Batch(Struct, eq=False):
    """Requests that run together. Members that ended early stay, so that rows keep their place."""

    batch_id: BatchId
    model: ModelName
    replica: Replica
    slot: SlotIndex
    queue: ModelQueue
    """Where its members waited."""
    slot_class: SlotClass = SlotClass.HIGH
    """`low` if all members are."""
    told_class: SlotClass = SlotClass.HIGH
    """What its slot is told, and so what weight it has: a policy may run all as `high`."""
    members: list[Entry] = []
    rows: int = 0
    live_count: int = 0
    started_at_ns: int = 0
    hung_at_ns: int = 0
    """From then on it is taken for hung."""
    is_given_up: bool = False
    """Its worker was to be replaced."""
    first_row: int = 0
    """Of a segment: the first of its request's rows in it."""
    is_segment: bool = False
    """It is a part of one request's rows."""
    priority: int = 0
    """Of its most important member."""
    deadline_at_ns: int = 0
    """The tightest of its members."""

    @property
    def lane(self) -> int:
        """Of its slot."""
        return self.replica.device.slot_lanes[self.slot]

    def add(self, entry: Entry, rows: int) -> None:
        """Take one more member, behind the others, with so many of its rows."""
        request = entry.request
        if not self.members:
            self.priority = request.priority
            self.slot_class = request.slot_class
            self.deadline_at_ns = entry.deadline_at_ns
            self.first_row = entry.rows_done
            self.is_segment = rows < request.rows
        else:
            self.priority = min(self.priority, request.priority)
            if request.slot_class is SlotClass.HIGH:
                self.slot_class = SlotClass.HIGH
            self.deadline_at_ns = min(self.deadline_at_ns, entry.deadline_at_ns)
        self.members.append(entry)
        self.rows += rows
        self.live_count += 1
        entry.batch = self

    def rows_of(self, entry: Entry) -> int:
        """How many of a member's rows are in it."""
        return self.rows if self.is_segment else entry.request.rows


class Device:
    """Slots in lanes. Invariants: a slot holds one batch or none; counts match the slots."""

    __slots__ = (
        "free",
        "lane_running",
        "low_weight_ratio",
        "name",
        "shares_all",
        "slot_lanes",
        "slots",
    )

    def __init__(self, params: DeviceParams, *, has_classes: bool = True) -> None:
        self.name = params.name
        self.slot_lanes = params.slot_lanes
        self.slots: list[Batch | None] = [None] * len(params.slot_lanes)
        self.lane_running: dict[int, int] = dict.fromkeys(params.slot_lanes, 0)
        self.free = len(params.slot_lanes)
        self.shares_all = params.shares_all
        self.low_weight_ratio = params.weight_low / params.weight_high if has_classes else 1.0
        """Share of a lane that a batch of class `low` gets beside one of class `high`."""

    def running(self) -> list[Batch]:
        """What runs here, in order of slots."""
        return [batch for batch in self.slots if batch is not None]

    def occupy(self, batch: Batch) -> None:
        """Give the batch its slot."""
        assert self.slots[batch.slot] is None, "a slot runs one batch at a time"
        self.slots[batch.slot] = batch
        self.lane_running[self.slot_lanes[batch.slot]] += 1
        self.free -= 1

    def release(self, batch: Batch) -> None:
        """Take the slot back."""
        assert self.slots[batch.slot] is batch, "only the batch that holds a slot gives it back"
        self.slots[batch.slot] = None
        self.lane_running[self.slot_lanes[batch.slot]] -= 1
        self.free += 1


class Fleet:
    """All devices, replicas and running batches."""

    __slots__ = ("batches", "by_model", "devices", "free_slots", "replicas", "slots")

    def __init__(self, devices: tuple[DeviceParams, ...], *, has_classes: bool = True) -> None:
        self.devices: dict[DeviceName, Device] = {
            params.name: Device(params, has_classes=has_classes) for params in devices
        }
        self.replicas: dict[ReplicaId, Replica] = {}
        self.by_model: dict[ModelName, list[Replica]] = {}
        self.batches: dict[BatchId, Batch] = {}
        self.slots = sum(len(d.slot_lanes) for d in devices)
        self.free_slots = self.slots
        """Slots that run nothing, over all devices."""

    def device(self, name: DeviceName) -> Device:
        """A device by its name."""
        return self.devices[name]

    def all_devices(self) -> list[Device]:
        """In the order of the configuration."""
        return list(self.devices.values())

    def add(self, replica: Replica) -> None:
        """Know a new replica."""
        self.replicas[replica.replica_id] = replica
        self.by_model.setdefault(replica.model, []).append(replica)

    def forget(self, replica: Replica) -> None:
        """Drop a stopped replica."""
        del self.replicas[replica.replica_id]
        siblings = self.by_model[replica.model]
        siblings.remove(replica)
        if not siblings:
            del self.by_model[replica.model]

    def find_batch(self, batch_id: BatchId) -> Batch | None:
        """A running batch; None when its worker was lost and it has been failed already."""
        return self.batches.get(batch_id)

    def of(self, model: ModelName) -> list[Replica]:
        """A copy of a model's replicas, oldest first."""
        return list(self.by_model.get(model, ()))

    def is_served(self, model: ModelName) -> bool:
        """Some replica of the model is on a device with a free slot.

        Cost: O(replicas of the model), to spare whoever asks a look at each of its buckets.
        """
        for replica in self.by_model.get(model, ()):
            if replica.device.free and replica.state in _TAKING:
                return True
        return False

    def options(self, model: ModelName, version: str) -> list[SlotOption]:
        """Free slots for a batch of a model; a version that is asked for may be draining."""
        options: list[SlotOption] = []
        for replica in self.by_model.get(model, ()):
            device = replica.device
            if not device.free or not can_take(replica, version):
                continue
            for slot, lane in enumerate(device.slot_lanes):
                if device.slots[slot] is None:
                    options.append(
                        SlotOption(
                            replica.replica_id,
                            device.name,
                            SlotIndex(slot),
                            lane,
                            device.lane_running[lane],
                        )
                    )
        return options

    def start(self, batch: Batch, now_ns: int) -> None:
        """A batch takes its slot."""
        batch.started_at_ns = now_ns
        batch.replica.device.occupy(batch)
        batch.replica.running += 1
        self.free_slots -= 1
        self.batches[batch.batch_id] = batch

    def finish(self, batch: Batch) -> None:
        """A batch gives its slot back."""
        batch.replica.device.release(batch)
        batch.replica.running -= 1
        self.free_slots += 1
        del self.batches[batch.batch_id]


def can_take(replica: Replica, version: str) -> bool:
    """Current, ready, of the version asked for; the last of a version serves who asked for it."""
    if replica.state is ReplicaState.READY:
        return replica.is_current and (not version or replica.version == version)
    return replica.is_last_of_version and replica.version == version and not replica.is_unloading
