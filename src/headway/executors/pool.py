"""The pool of worker processes, as the runtime sees it: load, run, cancel, unload; reports follow.

One worker a device holds all the device's models, or one a model where isolation is asked for. It
starts with its first load, and again with the next load after a death. Nothing here blocks: what
happens is told to the listener, from the event loop and never from within a call. Never a queue of
requests, a policy or a deadline: whoever calls decides what runs, where, and when.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from headway.core import BatchId, DeviceName, ReplicaId
from headway.executors.link import WorkerLink
from headway.executors.model import BatchJob, ExecutorListener, ModelSpec, WorkerGroup
from headway.executors.port import SlotPort
from headway.units import NS_PER_S

__all__ = ["WorkerPool"]

LOGGER: Final = logging.getLogger(__name__)
_WORKERS_MAX: Final = 512
"""Workers that are counted by name, over the life of the server."""
_OTHER_WORKERS: Final = "other"


class WorkerPool:
    """All workers of one server.

    Invariants: a replica is known from its load until it was reported unloaded, failed or lost; a
    batch of a known replica is reported once, by itself or with the loss of its worker.
    """

    def __init__(
        self,
        groups: Sequence[WorkerGroup],
        listener: ExecutorListener,
        *,
        load_ns_max: int = 300 * NS_PER_S,
        stop_grace_ns: int = 5 * NS_PER_S,
    ) -> None:
        self._groups = {group.device: group for group in groups}
        self._listener = listener
        self._load_ns_max = load_ns_max
        self._stop_grace_ns = stop_grace_ns
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False
        self._links: list[WorkerLink] = []
        """Every worker whose process lives, those on their way out included."""
        self._shared: dict[DeviceName, WorkerLink] = {}
        self._by_replica: dict[ReplicaId, WorkerLink] = {}
        self._by_batch: dict[BatchId, SlotPort] = {}
        self._names: dict[int, str] = {}
        """Process id of a living worker -> what it is called, whichever process it is."""
        self.starts: dict[str, int] = {}
        """Processes started so far for each worker: a device, or a model of it that is isolated."""

    async def start(self) -> None:
        """Bind to the running loop. Workers start with their first load."""
        self._loop = asyncio.get_running_loop()

    async def stop(self) -> None:
        """End every worker, gracefully while the grace lasts; nothing is left afterwards."""
        self._is_stopping = True
        links = list(self._links)
        for link in links:
            link.begin_stop(self._stop_grace_ns)
        for link in links:
            await link.exited

    def load(self, replica_id: ReplicaId, spec: ModelSpec, device: DeviceName) -> None:
        """Load and warm a model; `on_loaded`, `on_warmed` or `on_load_failed` follow."""
        assert replica_id not in self._by_replica, f"replica {replica_id} is loaded already"
        group = self._groups.get(device)
        if self._is_stopping:
            self._load_fails(replica_id, "the server is stopping")
        elif group is None:
            self._load_fails(replica_id, f"there is no device `{device}`")
        else:
            try:
                link = self._link_for(replica_id, spec, group)
            except OSError as error:
                self._load_fails(replica_id, f"the worker of `{device}` cannot start: {error}")
                return
            self._by_replica[replica_id] = link
            link.load(replica_id, spec)

    def unload(self, replica_id: ReplicaId) -> None:
        """Free a replica that runs nothing; `on_unloaded` follows, also if it is gone already."""
        link = self._by_replica.get(replica_id)
        if link is None:
            self._running_loop.call_soon(self._listener.on_unloaded, replica_id)
        else:
            link.unload(replica_id)

    def run(self, job: BatchJob) -> None:
        """Run a batch in a slot; `on_finished`, `on_failed` or the replica's loss follows.

        A slot runs one batch at a time; a further one waits in the pool.
        """
        link = self._by_replica.get(job.replica_id)
        if link is None:
            message = f"replica {job.replica_id} has no worker"
            self._running_loop.call_soon(
                self._listener.on_failed, job.batch_id, "worker_lost", message
            )
        else:
            link.ports[job.slot].run(job)

    def cancel(self, batch_id: BatchId) -> None:
        """Skip a batch if it has not begun. Its end is reported either way."""
        port = self._by_batch.get(batch_id)
        if port is not None:
            port.cancel(batch_id)

    def replace(self, replica_id: ReplicaId) -> None:
        """Kill the worker that holds this replica; `on_lost` follows with all its replicas."""
        link = self._by_replica.get(replica_id)
        if link is not None:
            link.kill("it did not answer in time and is replaced")

    def worker_pids(self) -> dict[str, int]:
        """Process ids of the living workers by label."""
        return {link.label: link.pid for link in self._links}

    def workers(self) -> dict[int, str]:
        """What each living worker process works for, by its id. Any thread may ask."""
        return dict(self._names)

    def replica_left(self, link: WorkerLink, replica_id: ReplicaId) -> None:
        """For the link: the replica is not there any more."""
        self._by_replica.pop(replica_id, None)
        if link.group.is_isolated and not link.replica_ids:
            link.begin_stop(self._stop_grace_ns)

    def link_ended(self, link: WorkerLink, message: str) -> None:
        """For the link: its process is gone."""
        self._links.remove(link)
        self._names.pop(link.pid, None)
        if self._shared.get(link.group.device) is link:
            del self._shared[link.group.device]
        replica_ids = tuple(link.replica_ids)
        for replica_id in replica_ids:
            self._by_replica.pop(replica_id, None)
        if link.is_stopping:
            return
        LOGGER.error("%s", message)
        if replica_ids:
            self._listener.on_lost(replica_ids, message)

    @property
    def _running_loop(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "start the pool first"
        return self._loop

    def _load_fails(self, replica_id: ReplicaId, message: str) -> None:
        self._running_loop.call_soon(self._listener.on_load_failed, replica_id, message)

    def _link_for(self, replica_id: ReplicaId, spec: ModelSpec, group: WorkerGroup) -> WorkerLink:
        link = None if group.is_isolated else self._shared.get(group.device)
        if link is None:
            name = label = str(group.device)
            if group.is_isolated:
                name = f"{group.device}/{spec.name}"
                label = f"{name}-{replica_id}"
            link = WorkerLink(
                label,
                group,
                self,
                self._listener,
                self._running_loop,
                self._by_batch,
                load_ns_max=self._load_ns_max,
            )
            self._links.append(link)
            self._count_start(link, name)
            if not group.is_isolated:
                self._shared[group.device] = link
        return link

    def _count_start(self, link: WorkerLink, name: str) -> None:
        if name not in self.starts and len(self.starts) >= _WORKERS_MAX:
            name = _OTHER_WORKERS
        self._names[link.pid] = name
        self.starts[name] = self.starts.get(name, 0) + 1
