"""The simulator's driver: carries the kernel's commands out in virtual time.

Same order as the live driver: everything that will happen stands in one `TimerQueue`, so ties
fall by the order in which they were scheduled, in both worlds.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from headway.core import (
    BatchFailed,
    BatchFinished,
    BatchId,
    Command,
    Complete,
    DeviceName,
    Dispatch,
    Event,
    Kernel,
    LoadReplica,
    ModelLoadRequested,
    ModelParams,
    Record,
    ReplaceWorker,
    ReplicaId,
    ReplicaLoaded,
    ReplicasLost,
    ReplicaStopped,
    ReplicaWarmed,
    Request,
    RequestArrived,
    SetTimer,
    Timer,
    TimerFired,
    TimerQueue,
    UnloadReplica,
)
from headway.sim.devices import Finish, SimulatedExecutor

__all__ = ["Fault", "HostPause", "World", "record_into"]

_WAKE = TimerFired()


class Fault(NamedTuple):
    """The device's worker dies at this instant, with every replica and batch on it."""

    at_ns: int
    device: DeviceName


class HostPause(NamedTuple):
    """The scheduler stands still: what happens meanwhile is handled, in order, at the end of it.

    Batches go on; but that one has ended is only then told to the others of its lane, too.
    """

    at_ns: int
    for_ns: int


class _Running:
    """A batch that runs: where, since when, and the timer of its end."""

    __slots__ = ("batch_id", "end", "finish", "replica_id", "started_at_ns")

    def __init__(self, batch_id: BatchId, replica_id: ReplicaId, started_at_ns: int) -> None:
        self.batch_id = batch_id
        self.replica_id = replica_id
        self.started_at_ns = started_at_ns
        self.end: Timer[_Item] | None = None
        self.finish: Finish | None = None


_Item = Event | Request | Fault | HostPause | _Running
"""What stands in the queue: facts to post, arrivals, faults, and batches at their end."""


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
        self._queue: TimerQueue[_Item] = TimerQueue()
        self._loads: dict[ReplicaId, tuple[Timer[_Item], ...]] = {}
        self._replica_device: dict[ReplicaId, DeviceName] = {}
        """Replicas that a worker holds."""
        self._running: dict[BatchId, _Running] = {}
        self._wake: Timer[_Item] | None = None
        self._awake_at_ns = 0
        """End of the last pause of the host."""
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
        faults: Iterable[Fault | HostPause] = (),
        until_ns: int | None = None,
    ) -> None:
        """Play arrivals, in order of time, until nothing is left or an instant is passed."""
        self._arrivals = iter(arrivals)
        for fault in faults:
            self._queue.push(fault.at_ns, fault)
        self._pull()
        queue = self._queue
        while (at_ns := queue.head_at_ns()) is not None:
            if until_ns is not None and at_ns > until_ns:
                break
            popped = queue.pop()
            assert popped is not None, "a queue with a head has something to pop"
            at_ns, item = popped
            self.now_ns = max(at_ns, self._awake_at_ns)
            if isinstance(item, Request):
                self._pull()
                self._post(RequestArrived(request=item))
            elif isinstance(item, _Running):
                self._end(item)
            elif isinstance(item, Fault):
                self._lose(item.device, "simulated worker loss")
            elif isinstance(item, HostPause):
                self._awake_at_ns = self.now_ns + item.for_ns
            else:
                self._post(item)

    def _pull(self) -> None:
        """Have the next arrival in the queue, and only that one."""
        request = next(self._arrivals, None)
        if request is not None:
            self._queue.push(max(self.now_ns, request.arrived_at_ns), request)

    def _start(self, dispatch: Dispatch) -> None:
        """Run a batch; where the replica's worker is gone it fails, as it would in the pool."""
        batch_id, replica_id = dispatch.batch_id, dispatch.replica_id
        if replica_id not in self._replica_device:
            message = f"replica {replica_id} has no worker"
            failure = BatchFailed(batch_id=batch_id, code="worker_lost", message=message)
            self._queue.push(self.now_ns, failure)
            return
        self._running[batch_id] = _Running(batch_id, replica_id, self.now_ns)
        self._move_ends(self._executor.start(dispatch, self.now_ns))

    def _end(self, running: _Running) -> None:
        batch_id = running.batch_id
        self._forget(batch_id)
        finish = running.finish
        assert finish is not None, "a batch ends when it was said to"
        in_ns, out_ns = finish.transfer_in_ns, finish.transfer_out_ns
        took_ns = finish.at_ns - running.started_at_ns  # a host that pauses hears of it later
        self._post(
            BatchFinished(
                batch_id=batch_id,
                transfer_in_ns=in_ns,
                execution_ns=max(0, took_ns - in_ns - out_ns),
                transfer_out_ns=out_ns,
            )
        )

    def _forget(self, batch_id: BatchId) -> None:
        del self._running[batch_id]
        self._move_ends(self._executor.end(batch_id, self.now_ns))

    def _post(self, event: Event) -> None:
        commands = self.kernel.handle(event, self.now_ns)
        if self._observe is not None:
            self._observe(self.now_ns, event, commands)
        self.event_count += 1
        for command in commands:
            if isinstance(command, Complete):
                continue  # nobody waits for an answer here; the most frequent goes first
            if isinstance(command, Dispatch):
                self._start(command)
            elif isinstance(command, SetTimer):
                if self._wake is not None:
                    self._queue.cancel(self._wake)
                self._wake = self._queue.push(max(self.now_ns, command.at_ns), _WAKE)
            elif isinstance(command, LoadReplica):
                self._load(command)
            elif isinstance(command, UnloadReplica):
                self._leave(command.replica_id)
                self._queue.push(self.now_ns, ReplicaStopped(replica_id=command.replica_id))
            elif isinstance(command, ReplaceWorker):
                device = self._replica_device.get(command.replica_id)
                if device is not None:
                    self._lose(device, "hung batch")

    def _move_ends(self, finishes: Iterable[Finish]) -> None:
        for finish in finishes:
            running = self._running[finish.batch_id]
            if running.end is not None:
                self._queue.cancel(running.end)
            running.finish = finish
            running.end = self._queue.push(finish.at_ns, running)

    def _load(self, command: LoadReplica) -> None:
        replica_id = command.replica_id
        self._replica_device[replica_id] = command.device
        at_ns = self.now_ns + self._load_ns
        self._loads[replica_id] = (
            self._queue.push(at_ns, ReplicaLoaded(replica_id=replica_id)),
            self._queue.push(at_ns, ReplicaWarmed(replica_id=replica_id)),
        )

    def _leave(self, replica_id: ReplicaId) -> None:
        """A replica is in no worker any more; a load that had not ended never will."""
        self._replica_device.pop(replica_id, None)
        for timer in self._loads.pop(replica_id, ()):
            self._queue.cancel(timer)

    def _lose(self, device: DeviceName, message: str) -> None:
        """The device's worker is gone: its batches never end, its replicas are lost."""
        replicas = tuple(r for r, d in self._replica_device.items() if d == device)
        for running in [r for r in self._running.values() if r.replica_id in replicas]:
            if running.end is not None:
                self._queue.cancel(running.end)
            self._forget(running.batch_id)
        for replica_id in replicas:
            self._leave(replica_id)
        self._queue.push(self.now_ns, ReplicasLost(replica_ids=replicas, message=message))


def record_into(records: list[Record]) -> Callable[[int, Event, list[Command]], None]:
    """An observer that keeps every step."""

    def observe(now_ns: int, event: Event, commands: list[Command]) -> None:
        records.append(Record(seq=len(records), now_ns=now_ns, event=event, commands=commands))

    return observe
