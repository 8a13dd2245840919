"""A slot inside the worker: one thread that takes a batch, runs it and answers, one at a time.

The thread reads the slot's own socket, so between the parent's `send` and the model there is no
other thread. Knows the arena and the back end's contract. Never which request goes first.
"""

import os
import socket
import threading
import traceback
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from time import perf_counter_ns
from typing import Final

from headway.core import Datatype
from headway.errors import ExecutorError, WorkerLostError
from headway.executors.arena import HEADER_BYTES, Arena, ArenaFullError
from headway.executors.backend import LoadedModel, check_rows
from headway.executors.lane import Lane, pin
from headway.executors.tensors import Array, datatype_of, read_arrays, write_arrays
from headway.executors.wire import (
    ENCODER,
    MESSAGE_BYTES_MAX,
    SLOT_REQUESTS,
    BatchDone,
    BatchError,
    RunBatch,
    SlotSetup,
    shorten,
)

__all__ = ["SlotThread", "explain"]

BUG_EXIT_CODE: Final = 70
"""The slot's own code raised: the worker cannot be trusted and ends. EX_SOFTWARE of sysexits."""


class SlotThread:
    """Serves one slot until its socket closes.

    Invariants: at most one batch is between its arrival and its answer; the thread waits for the
    next one at the niceness of the high class, so that a high batch is never picked up slowly.
    """

    def __init__(
        self, index: int, setup: SlotSetup, models: Mapping[int, LoadedModel], arena_bytes_max: int
    ) -> None:
        self._name = f"slot-{index}"
        self._cores = setup.cores
        self._models = models
        self._socket = socket.socket(fileno=setup.socket_fd)
        self._arena = Arena(setup.arena_fd, arena_bytes_max)
        self._lane = Lane(self._name, setup)
        self._low_batches: SimpleQueue[RunBatch | None] | None = None

    def start(self) -> None:
        """Begin to serve. The thread is a daemon: it ends with the process."""
        threading.Thread(
            target=self._guarded, args=(self._serve,), name=self._name, daemon=True
        ).start()

    def _guarded(self, serve: Callable[[], None]) -> None:
        try:
            serve()
        except BaseException:
            traceback.print_exc()
            os._exit(BUG_EXIT_CODE)

    def _serve(self) -> None:
        try:
            self._serve_socket()
        finally:
            if self._low_batches is not None:
                self._low_batches.put(None)
            self._socket.close()
            self._arena.close()

    def _serve_socket(self) -> None:
        pin(self._cores, self._name)
        lane = self._lane
        lane.renice(lane.high)
        buffer = bytearray(MESSAGE_BYTES_MAX)
        view = memoryview(buffer)
        while size := self._socket.recv_into(buffer):
            batch = SLOT_REQUESTS.decode(view[:size])
            if not batch.is_low:
                answer = self._answer(batch)
            elif lane.can_renice:
                lane.renice(lane.low)
                answer = self._answer(batch)
                lane.renice(lane.high)
            else:
                self._hand_over(batch)
                continue
            self._socket.send(answer)

    def _hand_over(self, batch: RunBatch) -> None:
        """Give a low batch to the thread that is low for good, made when it is first needed."""
        if self._low_batches is None:
            self._low_batches = SimpleQueue()
            threading.Thread(
                target=self._guarded, args=(self._serve_low,), name=f"{self._name}-low", daemon=True
            ).start()
        self._low_batches.put(batch)

    def _serve_low(self) -> None:
        pin(self._cores, self._name)
        assert self._low_batches is not None
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._lane.low)
        while batch := self._low_batches.get():
            self._socket.send(self._answer(batch))

    def _answer(self, batch: RunBatch) -> bytes:
        """Run a batch; whatever comes of it is a message."""
        arena = self._arena
        arena.follow(batch.arena_bytes)
        if arena.is_cancelled(batch.batch_id):
            return self._error(batch, "cancelled", "cancelled before it began")
        try:
            done = self._run(batch)
        except ArenaFullError as error:
            return self._error(batch, "out_of_memory", str(error))
        except MemoryError as error:
            return self._error(batch, "out_of_memory", explain(error))
        except WorkerLostError as error:
            return self._error(batch, error.code, str(error))
        except ExecutorError as error:
            return self._error(batch, ExecutorError.code, str(error))
        except BaseException as error:
            # SystemExit too: a model that calls sys.exit() must not take its neighbours along.
            traceback.print_exc()
            return self._error(batch, ExecutorError.code, explain(error))
        message = ENCODER.encode(done)
        if len(message) > MESSAGE_BYTES_MAX:
            text = f"the outputs' description takes {len(message)} bytes, over {MESSAGE_BYTES_MAX}"
            return self._error(batch, ExecutorError.code, text)
        return message

    def _run(self, batch: RunBatch) -> BatchDone:
        model = self._models.get(batch.replica_id)
        if model is None:
            raise WorkerLostError(f"replica {batch.replica_id} is not in this worker")
        started_at_ns = perf_counter_ns()
        inputs = read_arrays(self._arena, batch.inputs)
        ready_at_ns = perf_counter_ns()
        results = model.infer(inputs, batch.outputs, batch.parameters)
        done_at_ns = perf_counter_ns()
        if batch.can_batch:
            check_rows(results, sum(batch.member_rows))
        last = batch.inputs[-1] if batch.inputs else None
        end = last.offset + last.size_bytes if last else HEADER_BYTES
        rows = batch.member_rows if batch.can_batch else ()
        outputs = write_arrays(self._arena, end, _with_datatypes(model, results), rows)
        return BatchDone(
            batch.batch_id,
            self._arena.size_bytes,
            outputs,
            ready_at_ns - started_at_ns,
            done_at_ns - ready_at_ns,
            perf_counter_ns() - done_at_ns,
        )

    def _error(self, batch: RunBatch, code: str, message: str) -> bytes:
        return ENCODER.encode(
            BatchError(batch.batch_id, self._arena.size_bytes, code, shorten(message))
        )


def explain(error: BaseException) -> str:
    """A library's or user's exception for someone who does not see its traceback."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _with_datatypes(
    model: LoadedModel, results: Mapping[str, Array]
) -> dict[str, tuple[Datatype, Array]]:
    """What is declared goes first: BF16 may come as bits, which the dtype alone does not show."""
    declared = {tensor.name: tensor.datatype for tensor in model.signature.outputs}
    typed: dict[str, tuple[Datatype, Array]] = {}
    for name, array in results.items():
        datatype = declared.get(name) or datatype_of(array.dtype)
        assert datatype is not None, f"the back end let `{name}` through"
        typed[name] = (datatype, array)
    return typed
