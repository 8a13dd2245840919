"""Devices as they are at one instant, to be moved on by themselves: what would happen if.

Knows executors of this folder. Refuses to know a policy: whoever asks says what is started.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from headway.core import BatchId, Dispatch
from headway.devices import EmulatedBatch, EmulatedMachine
from headway.sim.devices import (
    Finish,
    ServiceTimes,
    SharedLanes,
    SimulatedExecutor,
    SoloTimes,
)

__all__ = ["EmulatedFuture", "ExecutorFuture", "Foreseeable", "Future", "FutureEnd", "Watched"]


class FutureEnd(NamedTuple):
    """A batch that ends."""

    batch_id: BatchId
    at_ns: int


class Future(Protocol):
    """Devices that are moved on from event to event; nothing of it happens."""

    def start(self, dispatch: Dispatch, now_ns: int) -> None:
        """Let a batch start."""

    def next_end(self, until_ns: int) -> FutureEnd | None:
        """Move on to the next end; None, having moved on to that instant, if none comes by then."""


class Foreseeable(SimulatedExecutor, Protocol):
    """An executor whose future can be looked at."""

    def future(self) -> Future:
        """Its devices as they are now, all chance included."""


class Watched:
    """An executor of lanes that keeps in mind when what runs on it ends.

    Args:
        executor: what runs the batches.
        times: what that executor draws its times from.
    """

    def __init__(self, executor: SoloTimes | SharedLanes, times: ServiceTimes) -> None:
        self._executor = executor
        self._times = times
        self._ends_ns: dict[BatchId, int] = {}

    def start(self, dispatch: Dispatch, now_ns: int) -> Sequence[Finish]:
        """As the executor does."""
        return self._noted(self._executor.start(dispatch, now_ns))

    def end(self, batch_id: BatchId, now_ns: int) -> Sequence[Finish]:
        """As the executor does."""
        self._ends_ns.pop(batch_id, None)
        return self._noted(self._executor.end(batch_id, now_ns))

    def future(self) -> "ExecutorFuture":
        """See `Foreseeable`."""
        return ExecutorFuture(self._executor.fork(self._times.fork()), self._ends_ns)

    def _noted(self, finishes: Sequence[Finish]) -> Sequence[Finish]:
        for finish in finishes:
            self._ends_ns[finish.batch_id] = finish.at_ns
        return finishes


class ExecutorFuture:
    """Of executors that say at once when each batch ends.

    Args:
        executor: a copy of its own.
        ends_ns: when each batch that runs on it ends, if nothing starts.
    """

    def __init__(self, executor: SimulatedExecutor, ends_ns: Mapping[BatchId, int]) -> None:
        self._executor = executor
        self._ends_ns = dict(ends_ns)

    def start(self, dispatch: Dispatch, now_ns: int) -> None:
        """See `Future`."""
        self._move(self._executor.start(dispatch, now_ns))

    def next_end(self, until_ns: int) -> FutureEnd | None:
        """See `Future`; of those that end together the one that started first."""
        if not self._ends_ns:
            return None
        batch_id = min(self._ends_ns, key=self._ends_ns.__getitem__)
        at_ns = self._ends_ns[batch_id]
        if at_ns > until_ns:
            return None
        del self._ends_ns[batch_id]
        self._move(self._executor.end(batch_id, at_ns))
        return FutureEnd(batch_id, at_ns)

    def _move(self, finishes: Sequence[Finish]) -> None:
        for finish in finishes:
            self._ends_ns[finish.batch_id] = finish.at_ns


class EmulatedFuture:
    """Of an emulated machine; a copy of its own."""

    def __init__(self, machine: EmulatedMachine) -> None:
        self._machine = machine

    def start(self, dispatch: Dispatch, now_ns: int) -> None:
        """See `Future`."""
        self._machine.start(
            EmulatedBatch(
                dispatch.batch_id,
                dispatch.model,
                dispatch.rows,
                dispatch.device,
                dispatch.slot_class,
            ),
            now_ns,
        )

    def next_end(self, until_ns: int) -> FutureEnd | None:
        """See `Future`."""
        end = self._machine.pass_to_end(until_ns)
        return None if end is None else FutureEnd(end.batch_id, end.at_ns)
