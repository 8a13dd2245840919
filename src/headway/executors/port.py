"""The parent's end of one slot of one worker: batches out, results in. This is the hot path.

Cost: about one copy of the inputs, one `send` and one `recv` a batch, on the event loop's thread.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable

from msgspec import DecodeError

from headway.core import BatchId
from headway.executors.arena import Arena, ArenaFullError
from headway.executors.model import BatchJob, ExecutorListener, StageTimes
from headway.executors.packing import PackingError, outputs_end, pack, release, unpack
from headway.executors.wire import MESSAGE_BYTES_MAX, SLOT_REPLIES, BatchDone, BatchError

__all__ = ["SlotPort"]


class SlotPort:
    """Runs one batch at a time; the next waits here, its inputs not yet copied.

    Invariants: ``job`` is set from the moment the inputs are in the arena until the listener has
    read the outputs from it; each job given to `run` is reported once, unless the worker dies.
    """

    __slots__ = (
        "_arena",
        "_backlog",
        "_buffer",
        "_inputs_end",
        "_listener",
        "_loop",
        "_on_broken",
        "_ports",
        "_socket",
        "_view",
        "job",
    )

    def __init__(
        self,
        own_socket: socket.socket,
        arena: Arena,
        listener: ExecutorListener,
        loop: asyncio.AbstractEventLoop,
        ports: dict[BatchId, "SlotPort"],
        on_broken: Callable[[str], None],
    ) -> None:
        self._socket = own_socket
        self._arena = arena
        self._listener = listener
        self._loop = loop
        self._ports = ports
        self._on_broken = on_broken
        self._backlog: deque[BatchJob] = deque()
        self._buffer = bytearray(MESSAGE_BYTES_MAX)
        self._view = memoryview(self._buffer)
        self._inputs_end = 0
        self.job: BatchJob | None = None
        own_socket.setblocking(False)
        loop.add_reader(own_socket.fileno(), self._read)

    def run(self, job: BatchJob) -> None:
        """Send a batch now, or when the slot is free."""
        self._ports[job.batch_id] = self
        if self.job is None:
            self._begin(job)
        else:
            self._backlog.append(job)

    def cancel(self, batch_id: BatchId) -> None:
        """Take a waiting batch back; mark a sent one, which may still be ahead of its start."""
        if self.job is not None and self.job.batch_id == batch_id:
            self._arena.cancel(batch_id)
            return
        for job in self._backlog:
            if job.batch_id == batch_id:
                self._backlog.remove(job)
                self._fail_soon(job, "cancelled", "cancelled before it began")
                return

    def unfinished(self) -> list[BatchId]:
        """The batches that are here, running and waiting."""
        jobs = [*([self.job] if self.job else []), *self._backlog]
        return [job.batch_id for job in jobs]

    def drain(self) -> None:
        """Report results that a dead worker had sent before it died."""
        while self._read():
            pass

    def close(self) -> None:
        """Forget all batches and give the memory and the socket back."""
        for batch_id in self.unfinished():
            self._ports.pop(batch_id, None)
        self.job = None
        self._backlog.clear()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._arena.close()

    def _begin(self, job: BatchJob) -> None:
        try:
            packed = pack(job, self._arena)
        except ArenaFullError as error:
            self._fail_soon(job, "out_of_memory", str(error))
            return
        except PackingError as error:
            self._fail_soon(job, "executor_failed", str(error))
            return
        self.job = job
        self._inputs_end = packed.end
        try:
            self._socket.send(packed.message)
        except OSError:
            # The worker is dead or dying. Its exit is about to be noticed and covers this batch.
            return

    def _read(self) -> bool:
        """Take one message; returns whether there was one. More than one never waits."""
        try:
            size = self._socket.recv_into(self._buffer)
        except BlockingIOError:
            return False
        except OSError:
            size = 0
        if size == 0:
            self._loop.remove_reader(self._socket.fileno())
            self._on_broken("it closed the connection of a slot")
            return False
        try:
            reply = SLOT_REPLIES.decode(self._view[:size])
        except DecodeError as error:
            self._on_broken(f"it sent a message that cannot be read: {error}")
            return False
        job = self.job
        if job is not None and job.batch_id == reply.batch_id:
            self._report(job, reply)
        return True

    def _report(self, job: BatchJob, reply: BatchDone | BatchError) -> None:
        del self._ports[job.batch_id]
        arena = self._arena
        arena.follow(reply.arena_bytes)
        try:
            if isinstance(reply, BatchDone):
                self._report_done(job, reply)
            else:
                arena.settle(self._inputs_end)
                self._listener.on_failed(job.batch_id, reply.code, reply.message)
        finally:
            # Only now: a batch that the listener starts must not overwrite what it still reads.
            self.job = None
            while self._backlog and self.job is None:
                self._begin(self._backlog.popleft())

    def _report_done(self, job: BatchJob, done: BatchDone) -> None:
        replies = unpack(job, done, self._arena)
        stages = StageTimes(
            transfer_in_ns=done.transfer_in_ns,
            execution_ns=done.execution_ns,
            transfer_out_ns=done.transfer_out_ns,
        )
        self._listener.on_finished(job.batch_id, replies, stages)
        release(replies)
        self._arena.settle(outputs_end(done, self._inputs_end))

    def _fail_soon(self, job: BatchJob, code: str, message: str) -> None:
        self._ports.pop(job.batch_id, None)
        self._loop.call_soon(self._listener.on_failed, job.batch_id, code, message)
