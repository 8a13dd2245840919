"""Models come, are replaced, crash, return and go, while requests wait and run.

Owns the loads in progress and the replicas' steps. It never answers a request: where requests
are touched it hands them to the kernel.

A reload loads and warms its replicas beside the old ones; once every new one is ready they take
over in one step, and the old ones drain. A lost replica is loaded again after a pause that
doubles with each loss in a row, so that a model that always crashes does not keep a core busy.
"""

from dataclasses import dataclass

from msgspec.structs import replace

from headway.core.commands import (
    Command,
    ConcludeLoad,
    ConcludeUnload,
    LoadReplica,
    UnloadReplica,
)
from headway.core.events import ReplicaLoaded
from headway.core.fleet import Batch, Fleet, Replica, ReplicaState, ReplicaStep
from headway.core.names import ModelName, ReplicaId
from headway.core.params import KernelParams, ModelParams
from headway.core.timers import TimerQueue
from headway.core.waiting import Bucket, Entry, ModelQueue, TimerItem

__all__ = ["Lifecycle"]

_LOSSES_BEFORE_READY_MAX = 3
"""A replica that never served and on whose load its worker dies this often is given up."""

_STARTING = (ReplicaState.LOADING, ReplicaState.WARMING)
_HOPEFUL = (ReplicaState.READY, *_STARTING, ReplicaState.LOST)


@dataclass(slots=True)
class _Load:
    """A load in progress: what was asked for and the replicas that must become ready."""

    params: ModelParams
    replicas: list[Replica]


class Lifecycle:
    """Loads, unloads, losses and restarts.

    Invariants: a model has at most one load in progress; a replica with ``is_unloading`` takes no
    batch; a model that is closing admits nothing. A load that overtakes an unload suspends it: the
    unload ends when the load takes over, and goes on when the load fails.
    """

    __slots__ = (
        "_closing",
        "_draining",
        "_fleet",
        "_generation_seq",
        "_load_seq",
        "_loads",
        "_params",
        "_replica_seq",
        "_timers",
    )

    def __init__(self, params: KernelParams, fleet: Fleet, timers: TimerQueue[TimerItem]) -> None:
        self._params = params
        self._fleet = fleet
        self._timers = timers
        self._loads: dict[ModelName, _Load] = {}
        self._draining: dict[ReplicaId, Replica] = {}
        self._closing: dict[ModelName, ModelQueue] = {}
        self._replica_seq = 0
        self._load_seq = 0
        self._generation_seq = 0

    def is_closing(self, model: ModelName) -> bool:
        """An unload was asked for, has not ended, and no later load has overtaken it."""
        return model in self._closing and model not in self._loads

    def has_hope(self, model: ModelName) -> bool:
        """Some replica serves, will serve, or is on its way back."""
        replicas = self._fleet.by_model.get(model, ())
        # Asked at every arrival, and nearly always the first is ready.
        if replicas and replicas[0].state is ReplicaState.READY:
            return True
        return any(r.state in _HOPEFUL for r in replicas)

    def takes(self, model: ModelName, version: str) -> bool:
        """New work may come: it is not closing, and has or will have the version asked for."""
        if self._closing and self.is_closing(model):
            return False
        return not version or any(
            r.version == version and r.state in _HOPEFUL
            for r in self._fleet.by_model.get(model, ())
        )

    def strands(self, bucket: Bucket) -> bool:
        """Its requests asked for a version that no replica has or will have."""
        return bool(bucket.version) and not any(
            r.version == bucket.version and (r.state in _HOPEFUL or r.is_last_of_version)
            for r in self._fleet.by_model.get(bucket.model.params.name, ())
        )

    def load(self, params: ModelParams, out: list[Command]) -> None:
        """Start a load; one in progress for the same model is superseded.

        Raises:
            KeyError: there is no such device; nothing was changed.
        """
        devices = [self._fleet.devices[name] for name in params.devices]
        older = self._loads.get(params.name)
        if older is not None:
            self._abandon(older, "superseded by a newer load of the same model", out)
        load = _Load(params, [])
        self._loads[params.name] = load
        self._generation_seq += 1
        for device in devices:
            self._replica_seq += 1
            replica = Replica(ReplicaId(self._replica_seq), params.name, params.version, device)
            replica.generation = self._generation_seq
            self._fleet.add(replica)
            load.replicas.append(replica)
            self._begin_load(replica, out)

    def unload(self, queue: ModelQueue, out: list[Command]) -> None:
        """Close a model; `settle` drains its replicas once nothing waits for it."""
        load = self._loads.get(queue.params.name)
        if load is not None:
            self._abandon(load, "the model was unloaded while it was loading", out)
        self._closing[queue.params.name] = queue

    def loaded(self, event: ReplicaLoaded) -> None:
        """A replica is in memory. One that drains already is left to its unload."""
        replica = self._fleet.replicas.get(event.replica_id)
        if replica is None or replica.state is not ReplicaState.LOADING:
            return
        replica.step(ReplicaStep.LOAD)
        load = self._loads.get(replica.model)
        if load is not None and replica in load.replicas and not event.can_batch:
            load.params = replace(load.params, can_batch=False, can_split=False)

    def warmed(self, replica_id: ReplicaId, out: list[Command]) -> ModelParams | None:
        """A replica is ready; returns the model's new parameters when that completes a load."""
        replica = self._fleet.replicas.get(replica_id)
        if replica is None or replica.state is not ReplicaState.WARMING:
            return None
        replica.step(ReplicaStep.WARM)
        replica.has_served = True
        replica.blame_count = 0
        load = self._loads.get(replica.model)
        if load is None or replica not in load.replicas:
            return None
        if any(r.state is not ReplicaState.READY for r in load.replicas):
            return None
        self._switch(load, out)
        return load.params

    def load_failed(
        self, replica_id: ReplicaId, message: str, now_ns: int, out: list[Command]
    ) -> ModelName | None:
        """A load raised; returns the model's name when it is left with nothing to serve it."""
        replica = self._fleet.replicas.get(replica_id)
        if replica is None or replica.state not in _STARTING:
            return None
        if replica.has_served:
            self._retry_later(replica, now_ns)
            return None
        replica.step(ReplicaStep.FAIL)
        self._fleet.forget(replica)
        return self._load_lost(replica, message, out)

    def lose(
        self, replica_ids: tuple[ReplicaId, ...], message: str, now_ns: int, out: list[Command]
    ) -> tuple[list[Batch], list[ModelName]]:
        """A worker died: its batches, to be failed, and the models left with nothing."""
        lost = [self._fleet.replicas[i] for i in replica_ids if i in self._fleet.replicas]
        ids = {replica.replica_id for replica in lost}
        batches = [b for b in self._fleet.batches.values() if b.replica.replica_id in ids]
        hopeless: list[ModelName] = []
        starting = [r for r in lost if r.state in _STARTING]
        # The others only wait for their turn to load, and have done nothing.
        being_loaded = min(starting, key=lambda r: r.load_seq, default=None)
        for replica in lost:
            if replica.state in (ReplicaState.LOST, ReplicaState.STOPPED):
                continue
            if replica.state is ReplicaState.DRAINING:
                self._stop(replica, ReplicaStep.LOSE)
                continue
            self._retry_later(replica, now_ns)
            if replica is being_loaded:
                replica.blame_count += 1
            if not replica.has_served and replica.blame_count >= _LOSSES_BEFORE_READY_MAX:
                replica.step(ReplicaStep.DRAIN)
                self._fleet.forget(replica)
                model = self._load_lost(replica, message, out)
                if model is not None:
                    hopeless.append(model)
        return batches, hopeless

    def restart(self, replica_id: ReplicaId, out: list[Command]) -> None:
        """The pause after a loss is over."""
        replica = self._fleet.replicas.get(replica_id)
        if replica is not None and replica.state is ReplicaState.LOST:
            replica.step(ReplicaStep.RESTART)
            self._begin_load(replica, out)

    def stopped(self, replica_id: ReplicaId) -> None:
        """A drained replica is out of memory."""
        replica = self._fleet.replicas.get(replica_id)
        if replica is not None and replica.is_unloading:
            self._stop(replica, ReplicaStep.STOP)

    def settle(self, queues: dict[ModelName, ModelQueue], out: list[Command]) -> None:
        """Unload what has drained, and end the unloads that are complete.

        Cost: O(1) while nothing drains.
        """
        if not self._draining and not self._closing:
            return
        for replica in list(self._draining.values()):
            queue = queues.get(replica.model)
            if not replica.is_unloading and not _is_wanted(replica, queue):
                replica.is_unloading = True
                out.append(UnloadReplica(replica_id=replica.replica_id))
        for model, queue in list(self._closing.items()):
            if queue.count + queue.away_count == 0 and model not in self._loads:
                for replica in self._fleet.of(model):
                    self._drain(replica)
                if model not in self._fleet.by_model:
                    del self._closing[model], queues[model]
                    out.append(ConcludeUnload(model=model))
                elif any(not r.is_unloading and not r.running for r in self._fleet.of(model)):
                    self.settle(queues, out)

    def _begin_load(self, replica: Replica, out: list[Command]) -> None:
        self._load_seq += 1
        replica.load_seq = self._load_seq
        out.append(
            LoadReplica(
                replica_id=replica.replica_id,
                model=replica.model,
                version=replica.version,
                device=replica.device.name,
            )
        )

    def _switch(self, load: _Load, out: list[Command]) -> None:
        del self._loads[load.params.name]
        for replica in self._fleet.of(load.params.name):
            if replica in load.replicas:
                replica.is_current = True
                continue
            serves_on = replica.is_last_of_version or (
                replica.is_current and replica.state is ReplicaState.READY
            )
            self._drain(replica)
            replica.is_last_of_version = serves_on and replica.version != load.params.version
        if self._closing.pop(load.params.name, None) is not None:
            out.append(ConcludeUnload(model=load.params.name))
        out.append(ConcludeLoad(model=load.params.name, version=load.params.version, error=None))

    def _drain(self, replica: Replica) -> None:
        if replica.state is ReplicaState.DRAINING:
            return
        replica.step(ReplicaStep.DRAIN)
        if replica.state is ReplicaState.STOPPED:
            self._fleet.forget(replica)
        else:
            self._draining[replica.replica_id] = replica

    def _stop(self, replica: Replica, step: ReplicaStep) -> None:
        replica.step(step)
        self._draining.pop(replica.replica_id, None)
        self._fleet.forget(replica)

    def _abandon(self, load: _Load, why: str, out: list[Command]) -> None:
        del self._loads[load.params.name]
        for replica in load.replicas:
            if replica.replica_id in self._fleet.replicas:
                self._drain(replica)
        out.append(ConcludeLoad(model=load.params.name, version=load.params.version, error=why))

    def _load_lost(self, replica: Replica, message: str, out: list[Command]) -> ModelName | None:
        load = self._loads.get(replica.model)
        if load is not None and replica in load.replicas:
            self._abandon(load, message, out)
        return None if self.has_hope(replica.model) else replica.model

    def _retry_later(self, replica: Replica, now_ns: int) -> None:
        replica.step(ReplicaStep.LOSE)
        delay_ns = min(
            self._params.restart_delay_ns_max,
            self._params.restart_delay_ns_min << min(replica.loss_count, 30),
        )
        replica.loss_count += 1
        self._timers.push(now_ns + delay_ns, replica.replica_id)


def _is_wanted(replica: Replica, queue: ModelQueue | None) -> bool:
    """It runs something, or requests wait that asked for its very version."""
    if replica.running:
        return True
    if queue is None or not replica.is_last_of_version:
        return False
    return any(b.version == replica.version for b in queue.buckets.values())


def members_alive(batch: Batch) -> list[Entry]:
    """Members of a batch that have not ended."""
    return [entry for entry in batch.members if entry.batch is batch]
