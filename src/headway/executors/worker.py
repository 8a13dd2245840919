"""The worker process: `python -m headway.executors.worker FD PARENT`. Started by the pool only.

The main thread reads the control socket and does nothing else, so that it notices at once when the
parent is gone, and then ends the process however busy the others are. A loader thread loads and
unloads, one model after another, while each slot's thread runs batches. Imports as little as
possible: numpy always, a back end's library with its first model.
"""

import ctypes
import faulthandler
import gc
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from msgspec.structs import replace

from headway.errors import HeadwayError
from headway.executors.backend import LoadedModel, open_model, warm_up
from headway.executors.lifeline import die_with, end_now
from headway.executors.model import Signature
from headway.executors.slot import SlotThread, explain
from headway.executors.wire import (
    CONTROL_REQUESTS,
    ENCODER,
    MESSAGE_BYTES_MAX,
    GiveUp,
    Hello,
    Load,
    Loaded,
    LoadError,
    Stop,
    Unload,
    Unloaded,
    Warmed,
    shorten,
)

__all__ = ["main"]

_SWITCH_INTERVAL_S: Final = 0.001
"""A slot's thread that comes back from native code waits this long for one that holds the GIL."""

LoaderOrder = Load | Unload | Stop


def main(arguments: Sequence[str]) -> None:
    """Serve until the parent says stop or is gone. Never returns."""
    control_fd, parent_pid = (int(argument) for argument in arguments)
    die_with(parent_pid)
    # The pool ends its workers. A signal to the whole group must not do so before it has drained.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    faulthandler.enable(all_threads=False)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    code = 1
    try:
        _Worker(socket.socket(fileno=control_fd)).serve()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        end_now(code)


class _Worker:
    """The control side: what is loaded, and who loads it.

    Invariants: only the loader that is current changes ``models`` or speaks.
    """

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.models: dict[int, LoadedModel] = {}
        self._loader = _Loader(self)

    def serve(self) -> None:
        """Obey the control socket until it closes."""
        while packet := self.control.recv(MESSAGE_BYTES_MAX):
            order = CONTROL_REQUESTS.decode(packet)
            if isinstance(order, Hello):
                for index, setup in enumerate(order.slots):
                    SlotThread(index, setup, self.models, order.arena_bytes_max).start()
            elif isinstance(order, GiveUp):
                self._loader.abandon()
                self._loader = _Loader(self)
            else:
                self._loader.orders.put(order)


class _Loader:
    """A thread that loads and unloads. One whose load hangs is left behind and another made."""

    def __init__(self, worker: _Worker) -> None:
        self.orders: SimpleQueue[LoaderOrder] = SimpleQueue()
        self._lock = threading.Lock()
        self._is_abandoned = False
        self._worker = worker
        threading.Thread(target=self._serve, name="loader", daemon=True).start()

    def abandon(self) -> None:
        """What it is doing no longer counts: it keeps no model and says nothing more."""
        with self._lock:
            self._is_abandoned = True

    def _serve(self) -> None:
        try:
            while not self._is_abandoned:
                order = self.orders.get()
                if isinstance(order, Stop):
                    self._stop()
                    return
                self._obey(order)
        except BaseException:
            traceback.print_exc()
            end_now(1)

    def _obey(self, order: Load | Unload) -> None:
        if isinstance(order, Load):
            self._load(order)
        else:
            _close(self._worker.models.pop(order.replica_id, None))
            _give_memory_back()
            self._say(Unloaded(replica_id=order.replica_id))

    def _stop(self) -> None:
        for model in list(self._worker.models.values()):
            _close(model)
        end_now(0)

    def _load(self, order: Load) -> None:
        message = self._try_load(order)
        if message is not None:
            _give_memory_back()
            self._say(LoadError(replica_id=order.replica_id, message=shorten(message)))

    def _try_load(self, order: Load) -> str | None:
        """Load and warm; returns what went wrong. Nothing of a failed model outlives this call."""
        model: LoadedModel | None = None
        try:
            _import_library(order.spec.backend)
            before_bytes = _resident_bytes()
            model = open_model(order.spec)
            memory_bytes = max(0, _resident_bytes() - before_bytes)
            signature: Signature = replace(model.signature, memory_bytes=memory_bytes)
            self._say(Loaded(replica_id=order.replica_id, signature=signature))
            warm_up(model, order.spec)
        except HeadwayError as error:
            _close(model)
            return str(error)
        except BaseException as error:
            traceback.print_exc()
            _close(model)
            return explain(error)
        with self._lock:
            if not self._is_abandoned:
                self._worker.models[order.replica_id] = model
                self._send(Warmed(replica_id=order.replica_id))
                return None
        _close(model)
        return None

    def _say(self, reply: Loaded | LoadError | Unloaded) -> None:
        with self._lock:
            if not self._is_abandoned:
                self._send(reply)

    def _send(self, reply: Loaded | Warmed | LoadError | Unloaded) -> None:
        self._worker.control.send(ENCODER.encode(reply))


def _close(model: LoadedModel | None) -> None:
    """Let a model end; it may complain, and is dropped all the same."""
    if model is not None:
        try:
            model.close()
        except BaseException:
            traceback.print_exc()


def _import_library(backend: str) -> None:
    """What a library itself takes is not the memory of the first model that needs it."""
    if backend == "onnx":
        import headway.executors.onnx_backend  # noqa: F401


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _give_memory_back() -> None:
    """Collect, then let the allocator return what it keeps; only glibc can be asked to."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


if __name__ == "__main__":
    main(sys.argv[1:])
