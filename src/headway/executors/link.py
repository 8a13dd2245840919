"""The parent's end of one worker: its process, its control connection, its slots' ports.

Loads and unloads go to the worker one after another; the next is sent when the last has ended, so
that one which hangs can be told from one which waits. Knows nothing of other workers.
"""

import asyncio
import contextlib
import socket
from collections import deque
from typing import Final, Protocol

from msgspec import DecodeError

from headway.core import BatchId, ReplicaId
from headway.executors.arena import Arena
from headway.executors.model import ExecutorListener, ModelSpec, WorkerGroup
from headway.executors.port import SlotPort
from headway.executors.process import WorkerProcess
from headway.executors.wire import (
    CONTROL_REPLIES,
    ENCODER,
    MESSAGE_BYTES_MAX,
    GiveUp,
    Hello,
    Load,
    Loaded,
    LoadError,
    SlotSetup,
    Stop,
    Unload,
    Unloaded,
    Warmed,
)
from headway.units import NS_PER_S, format_duration

__all__ = ["LinkOwner", "WorkerLink"]

SOCKET_BUFFER_BYTES: Final = 2 * MESSAGE_BYTES_MAX
CLOSED_GRACE_NS: Final = 500_000_000
"""A worker's sockets close a moment before it can be waited for; one that lives on is killed."""


class LinkOwner(Protocol):
    """Who keeps the links: told when a replica leaves one, and when one ends."""

    def replica_left(self, link: "WorkerLink", replica_id: ReplicaId) -> None:
        """The replica failed to load, or was unloaded."""

    def link_ended(self, link: "WorkerLink", message: str) -> None:
        """The process is gone and everything it held has been given back."""


class WorkerLink:
    """One worker process, from its start to its end.

    Invariants: at most one order is with the worker; ``replica_ids`` holds every replica whose load
    was asked for and which has neither failed nor been unloaded.
    """

    def __init__(
        self,
        label: str,
        group: WorkerGroup,
        owner: LinkOwner,
        listener: ExecutorListener,
        loop: asyncio.AbstractEventLoop,
        ports_by_batch: dict[BatchId, SlotPort],
        *,
        load_ns_max: int,
    ) -> None:
        self.label = label
        self.group = group
        self.replica_ids: dict[ReplicaId, None] = {}
        self.ports: list[SlotPort] = []
        self.exited: asyncio.Future[None] = loop.create_future()
        self.is_stopping = False
        self._owner = owner
        self._listener = listener
        self._loop = loop
        self._load_ns_max = load_ns_max
        self._orders: deque[Load | Unload] = deque()
        self._current: Load | Unload | None = None
        self._is_purging = False
        self._load_timer: asyncio.TimerHandle | None = None
        self._kill_timer: asyncio.TimerHandle | None = None
        self._start(ports_by_batch)

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    def load(self, replica_id: ReplicaId, spec: ModelSpec) -> None:
        """Load a model once the orders before have ended."""
        self.replica_ids[replica_id] = None
        self._orders.append(Load(replica_id=replica_id, spec=spec))
        self._send_next()

    def unload(self, replica_id: ReplicaId) -> None:
        """Unload a model; one whose load was not sent yet never gets there."""
        for order in self._orders:
            if isinstance(order, Load) and order.replica_id == replica_id:
                self._orders.remove(order)
                self._loop.call_soon(self._unloaded, replica_id)
                return
        self._orders.append(Unload(replica_id=replica_id))
        self._send_next()

    def kill(self, because: str) -> None:
        """End the process with SIGKILL; the owner hears of it once it is gone."""
        self._process.kill(because)

    def begin_stop(self, grace_ns: int) -> None:
        """Ask the worker to unload and exit, and kill it if it does not; ``exited`` follows."""
        if not self.is_stopping:
            self.is_stopping = True
            if isinstance(self._current, Load):
                self._send(GiveUp())  # the stop must not queue up behind a load nobody wants
            self._send(Stop())
            self._kill_after(grace_ns, "it did not stop when asked to")

    def _start(self, ports_by_batch: dict[BatchId, SlotPort]) -> None:
        group = self.group
        with contextlib.ExitStack() as on_error, contextlib.ExitStack() as child_ends:
            control, child_control = _socket_pair(on_error, child_ends)
            sockets: list[socket.socket] = []
            arenas: list[Arena] = []
            setups: list[SlotSetup] = []
            for lane in group.slots:
                own, child = _socket_pair(on_error, child_ends)
                arena = Arena.create(self.label, group.arena_bytes_max)
                on_error.callback(arena.close)
                sockets.append(own)
                arenas.append(arena)
                setups.append(
                    SlotSetup(
                        socket_fd=child.fileno(),
                        arena_fd=arena.fd,
                        cores=lane.cores,
                        niceness_high=lane.niceness_high,
                        niceness_low=lane.niceness_low,
                    )
                )
            fds = [fd for setup in setups for fd in (setup.socket_fd, setup.arena_fd)]
            self._process = WorkerProcess(
                self.label, child_control.fileno(), fds, self._loop, self._ended
            )
            on_error.pop_all()
        for own, arena in zip(sockets, arenas, strict=True):
            self.ports.append(
                SlotPort(own, arena, self._listener, self._loop, ports_by_batch, self._slot_broken)
            )
        self._control = control
        self._loop.add_reader(control.fileno(), self._read)
        self._send(Hello(slots=tuple(setups), arena_bytes_max=group.arena_bytes_max))

    def _send(self, order: Hello | Load | Unload | GiveUp | Stop) -> None:
        # A worker that is dying cannot be written to; its exit is about to be noticed.
        with contextlib.suppress(OSError):
            self._control.send(ENCODER.encode(order))

    def _send_next(self) -> None:
        if self._current is None and self._orders:
            self._current = self._orders.popleft()
            self._send(self._current)
            if isinstance(self._current, Load):
                self._load_timer = self._loop.call_later(
                    self._load_ns_max / NS_PER_S, self._give_up, self._current
                )

    def _give_up(self, load: Load) -> None:
        """A load hangs. The worker's other models go on; what this one still does is ignored."""
        self._load_timer = None
        self._is_purging = True
        self._current = Unload(replica_id=load.replica_id)
        self._send(GiveUp())
        self._send(self._current)
        limit = format_duration(self._load_ns_max)
        message = f"loading `{load.spec.name}` took longer than the limit of {limit}"
        self._load_failed(ReplicaId(load.replica_id), message)

    def _read(self) -> None:
        try:
            packet = self._control.recv(MESSAGE_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self._loop.remove_reader(self._control.fileno())
            self._slot_broken("it closed its connection")
            return
        try:
            self._hear(CONTROL_REPLIES.decode(packet))
        except DecodeError as error:
            self.kill(f"it sent a message that cannot be read: {error}")

    def _hear(self, reply: Loaded | Warmed | LoadError | Unloaded) -> None:
        replica_id = ReplicaId(reply.replica_id)
        if self._current is None or self._current.replica_id != replica_id:
            return
        if isinstance(reply, Unloaded):
            is_purging, self._is_purging = self._is_purging, False
            self._conclude()
            if not is_purging:
                self._unloaded(replica_id)
        elif self._is_purging:
            return
        elif isinstance(reply, Loaded):
            self._listener.on_loaded(replica_id, reply.signature)
        elif isinstance(reply, Warmed):
            self._conclude()
            self._listener.on_warmed(replica_id)
        else:
            self._conclude()
            self._load_failed(replica_id, reply.message)

    def _conclude(self) -> None:
        if self._load_timer is not None:
            self._load_timer.cancel()
            self._load_timer = None
        self._current = None
        self._send_next()

    def _load_failed(self, replica_id: ReplicaId, message: str) -> None:
        self._leave(replica_id)
        self._listener.on_load_failed(replica_id, message)

    def _unloaded(self, replica_id: ReplicaId) -> None:
        self._leave(replica_id)
        self._listener.on_unloaded(replica_id)

    def _leave(self, replica_id: ReplicaId) -> None:
        self.replica_ids.pop(replica_id, None)
        self._owner.replica_left(self, replica_id)

    def _slot_broken(self, how: str) -> None:
        self._kill_after(CLOSED_GRACE_NS, how)

    def _kill_after(self, grace_ns: int, because: str) -> None:
        if self._kill_timer is None:
            self._kill_timer = self._loop.call_later(grace_ns / NS_PER_S, self.kill, because)

    def _ended(self, message: str) -> None:
        """The process has been waited for: take what it had sent, then let go of everything."""
        try:
            for port in self.ports:
                port.drain()
        finally:
            unfinished = [batch_id for port in self.ports for batch_id in port.unfinished()]
            self._close()
            self._owner.link_ended(self, message)
        if self.is_stopping:
            for batch_id in unfinished:
                self._listener.on_failed(batch_id, "worker_lost", "the worker was stopped")

    def _close(self) -> None:
        for timer in (self._load_timer, self._kill_timer):
            if timer is not None:
                timer.cancel()
        for port in self.ports:
            port.close()
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        self.exited.set_result(None)


def _socket_pair(
    on_error: contextlib.ExitStack, child_ends: contextlib.ExitStack
) -> tuple[socket.socket, socket.socket]:
    """Our end, which does not block, and the child's, which is ours only until it has started."""
    own, child = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    on_error.callback(own.close)
    child_ends.callback(child.close)
    for end in (own, child):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
    own.setblocking(False)
    return own, child
