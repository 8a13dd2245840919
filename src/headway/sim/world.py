"""The simulator's driver: carries the kernel's commands out in virtual time.

Same order as the live driver: everything that will happen stands in one `TimerQueue`, so ties
fall by the order in which they were scheduled, in both worlds.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from headway.core import (
    BatchFinished,
    BatchId,
    Command,
    DeviceName,
    Dispatch,
    Event,
    Kernel,
    LoadReplica,
    ModelLoadRequested,
    ModelParams,
    Record,
    ReplicaId,
    ReplicaLoaded,
    ReplicasLost,
    ReplicaStopped,
    ReplicaWarmed,
    ReplaceWorker,
    Request,
    RequestArrived,
    SetTimer,
    Timer,
    TimerFired,
    TimerQueue,
    UnloadReplica,
)
from headway.sim.devices import SimulatedExecutor

__all__ = ["Fault", "World"]

_WAKE = TimerFired()


class Fault(NamedTuple):
    """The device's worker dies at this instant, with every replica and batch on it."""

    at_ns: int
    device: DeviceName


class World:
    """One kernel, one executor, virtual time.

    Args:
        observe: called with every step; Records are built only when it is given, so a run that
            needs none pays for none.
        load_ns: virtual time from `LoadReplica` to a warm replica.

    Invariants: time never goes back; memory does not grow with the number of arrivals.
    """

    def __init__(
        self,
        kernel: Kernel,
        executor: SimulatedExecutor,
        *,
        observe: Callable[[int, Event, list[Command]], None] | None = None,
        load_ns: int = 0,
    ) -> None:
        self.kernel = kernel
        self.now_ns = 0
        self.event_count = 0
        self._executor = executor
        self._observe = observe
        self._load_ns = load_ns
        self._queue: TimerQueue[Event | Request | Fault] = TimerQueue()
        self._ends: dict[BatchId, Timer[Event | Request | Fault]] = {}
        self._replica_device: dict[ReplicaId, DeviceName] = {}
        self._batch_replica: dict[BatchId, ReplicaId] = {}
        self._wake: Timer[Event | Request | Fault] | None = None
        self._arrivals: Iterator[Request] = iter(())

    def load(self, models: Iterable[ModelParams]) -> None:
        """Ask for models now, in order."""
        for model in models:
            self._post(ModelLoadRequested(model=model))

    def schedule(self, at_ns: int, event: Event) -> None:
        """Let something happen at an instant."""
        self._queue.push(at_ns, event)

    def run(
        self,
        arrivals: Iterable[Request],
        *,
        faults: Iterable[Fault] = (),
        until_ns: int | None = None,
    ) -> None:
        """Play arrivals, in order of time, until nothing is left or an instant is passed."""
        self._arrivals = iter(arrivals)
        for fault in faults:
            self._queue.push(fault.at_ns, fault)
        self._pull()
        queue = self._queue
        while (popped := queue.pop()) is not None:
            at_ns, item = popped
            if until_ns is not None and at_ns > until_ns:
                break
            self.now_ns = at_ns
            if isinstance(item, Request):
                self._pull()
                self._post(RequestArrived(request=item))
            elif isinstance(item, BatchFinished):
                self._end(item)
            elif isinstance(item, Fault):
                self._lose(item.device, "simulated worker loss")
            else:
                self._post(item)

    def _pull(self) -> None:
        """Have the next arrival in the queue, and only that one."""
        request = next(self._arrivals, None)
        if request is not None:
            self._queue.push(max(self.now_ns, request.arrived_at_ns), request)

    def _end(self, event: BatchFinished) -> None:
        self._forget(event.batch_id)
        self._post(event)

    def _forget(self, batch_id: BatchId) -> None:
        del self._ends[batch_id]
        del self._batch_replica[batch_id]
        self._move_ends(self._executor.end(batch_id, self.now_ns))

    def _post(self, event: Event) -> None:
        commands = self.kernel.handle(event, self.now_ns)
        if self._observe is not None:
            self._observe(self.now_ns, event, commands)
        self.event_count += 1
        for command in commands:
            if isinstance(command, Dispatch):
                self._batch_replica[command.batch_id] = command.replica_id
                self._move_ends(self._executor.start(command, self.now_ns))
            elif isinstance(command, SetTimer):
                if self._wake is not None:
                    self._queue.cancel(self._wake)
                self._wake = self._queue.push(max(self.now_ns, command.at_ns), _WAKE)
            elif isinstance(command, LoadReplica):
                self._load(command)
            elif isinstance(command, UnloadReplica):
                self._queue.push(self.now_ns, ReplicaStopped(replica_id=command.replica_id))
            elif isinstance(command, ReplaceWorker):
                self._lose(self._replica_device[command.replica_id], "hung batch")

    def _move_ends(self, finishes: Iterable[tuple[BatchId, int]]) -> None:
        for batch_id, at_ns in finishes:
            earlier = self._ends.get(batch_id)
            if earlier is not None:
                event = earlier.item
                self._queue.cancel(earlier)
            else:
                event = None
            self._ends[batch_id] = self._queue.push(
                at_ns, BatchFinished(batch_id=batch_id) if event is None else event
            )

    def _load(self, command: LoadReplica) -> None:
        self._replica_device[command.replica_id] = command.device
        at_ns = self.now_ns + self._load_ns
        self._queue.push(at_ns, ReplicaLoaded(replica_id=command.replica_id))
        self._queue.push(at_ns, ReplicaWarmed(replica_id=command.replica_id))

    def _lose(self, device: DeviceName, message: str) -> None:
        """The device's worker is gone: its batches never end, its replicas are lost."""
        replicas = tuple(r for r, d in self._replica_device.items() if d == device)
        for batch_id in [b for b, r in self._batch_replica.items() if r in replicas]:
            self._queue.cancel(self._ends[batch_id])
            self._forget(batch_id)
        self._queue.push(self.now_ns, ReplicasLost(replica_ids=replicas, message=message))


def record_into(records: list[Record]) -> Callable[[int, Event, list[Command]], None]:
    """An observer that keeps every step."""

    def observe(now_ns: int, event: Event, commands: list[Command]) -> None:
        records.append(Record(seq=len(records), now_ns=now_ns, event=event, commands=commands))

    return observe
