"""Simulated executors: how long batches take, alone or sharing a lane.

`SoloTimes` knows no neighbours. `SharedLanes` is processor sharing: the batches of one lane divide
it by the weight of their slot class, which is how pinned threads share a core.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from headway.core import BatchId, DeviceName, DeviceParams, Dispatch, SlotClass

__all__ = ["Finish", "ServiceTimes", "SharedLanes", "SimulatedExecutor", "SoloTimes"]


class Finish(NamedTuple):
    """A batch is now expected to end at this instant; replaces what was expected before."""

    batch_id: BatchId
    at_ns: int
    transfer_in_ns: int = 0
    transfer_out_ns: int = 0
    """What is neither transfer is execution."""


class SimulatedExecutor(Protocol):
    """What runs batches in virtual time."""

    def start(self, dispatch: Dispatch, now_ns: int) -> Sequence[Finish]:
        """A batch starts; every batch whose end moved, itself included."""

    def end(self, batch_id: BatchId, now_ns: int) -> Sequence[Finish]:
        """A batch has ended, or was lost; every other batch whose end moved."""


class ServiceTimes(Protocol):
    """How long batches take alone; a function will do where nobody looks ahead."""

    def __call__(self, dispatch: Dispatch) -> int:
        """Nanoseconds of one batch, drawn now."""

    def fork(self) -> "ServiceTimes":
        """The same, chance included, to be drawn from apart."""


class SoloTimes:
    """Service time depends on the batch alone."""

    def __init__(self, service_ns: Callable[[Dispatch], int]) -> None:
        self._service_ns = service_ns

    def fork(self, service_ns: Callable[[Dispatch], int]) -> "SoloTimes":
        """The same executor on its own, with times of its own."""
        return SoloTimes(service_ns)

    def start(self, dispatch: Dispatch, now_ns: int) -> Sequence[Finish]:
        """The batch's own end."""
        return (Finish(dispatch.batch_id, now_ns + self._service_ns(dispatch)),)

    def end(self, batch_id: BatchId, now_ns: int) -> Sequence[Finish]:
        """Nobody is affected."""
        return ()


class _Running:
    """One batch on a lane."""

    __slots__ = ("batch_id", "remaining_ns", "weight")

    def __init__(self, batch_id: BatchId, remaining_ns: float, weight: float) -> None:
        self.batch_id = batch_id
        self.remaining_ns = remaining_ns
        self.weight = weight


class _Lane:
    """Batches that share one core; rates are constant between starts and ends."""

    __slots__ = ("running", "since_ns")

    def __init__(self) -> None:
        self.running: list[_Running] = []
        self.since_ns = 0

    def fork(self) -> "_Lane":
        """The same, to be moved on its own."""
        lane = _Lane()
        lane.running = [_Running(r.batch_id, r.remaining_ns, r.weight) for r in self.running]
        lane.since_ns = self.since_ns
        return lane

    def advance(self, now_ns: int) -> None:
        """Take off the work done since the last change."""
        total = sum(r.weight for r in self.running)
        for running in self.running:
            running.remaining_ns -= (now_ns - self.since_ns) * running.weight / total
        self.since_ns = now_ns

    def finishes(self, now_ns: int) -> list[Finish]:
        """When each batch ends if nothing else changes: an instant per batch, rounded up."""
        total = sum(r.weight for r in self.running)
        return [
            Finish(r.batch_id, now_ns + -int(-(max(0.0, r.remaining_ns) * total / r.weight) // 1))
            for r in self.running
        ]


class SharedLanes:
    """Processor sharing in each lane, by class weight.

    Args:
        service_ns: solo service time of a batch.
        devices: which lane each slot is on.
        weights: share of a lane per slot class. Linux gives nice 0 about 68 times the share of
            nice 19 (kernel/sched: weights 1024 and 15).
    """

    def __init__(
        self,
        service_ns: Callable[[Dispatch], int],
        devices: Sequence[DeviceParams],
        weights: Mapping[SlotClass, float],
    ) -> None:
        self._service_ns = service_ns
        self._slot_lanes = {d.name: d.slot_lanes for d in devices}
        self._weights = dict(weights)
        self._lanes: dict[tuple[DeviceName, int], _Lane] = {}
        self._lane_of: dict[BatchId, _Lane] = {}

    def fork(self, service_ns: Callable[[Dispatch], int]) -> "SharedLanes":
        """The same lanes on their own, with times of their own for what starts on them."""
        fork = object.__new__(SharedLanes)
        fork._service_ns = service_ns
        fork._slot_lanes, fork._weights = self._slot_lanes, self._weights
        fork._lanes = {key: lane.fork() for key, lane in self._lanes.items()}
        fork._lane_of = {r.batch_id: lane for lane in fork._lanes.values() for r in lane.running}
        return fork

    def start(self, dispatch: Dispatch, now_ns: int) -> Sequence[Finish]:
        """Everyone on the lane slows down."""
        lane_index = self._slot_lanes[dispatch.device][dispatch.slot]
        lane = self._lanes.setdefault((dispatch.device, lane_index), _Lane())
        lane.advance(now_ns)
        weight = self._weights[dispatch.slot_class]
        lane.running.append(_Running(dispatch.batch_id, float(self._service_ns(dispatch)), weight))
        self._lane_of[dispatch.batch_id] = lane
        return lane.finishes(now_ns)

    def end(self, batch_id: BatchId, now_ns: int) -> Sequence[Finish]:
        """Everyone left on the lane speeds up."""
        lane = self._lane_of.pop(batch_id)
        lane.advance(now_ns)
        lane.running = [r for r in lane.running if r.batch_id != batch_id]
        return lane.finishes(now_ns)
