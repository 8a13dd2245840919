"""A generator's process: `python -m headway.decoder.worker FD PARENT`. Started by `Generator` only.

One thread: between any two steps it reads what it is told, so that whoever left is out of the next
step, and what came is in it. When there is nothing to do it sleeps until it is told something. It
ends when its parent does.
"""

import faulthandler
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headway.decoder.wire import (
    ORDERS,
    Cancel,
    Failed,
    Frames,
    Generate,
    Ready,
    Reply,
    Start,
    Stepped,
    Stop,
    framed,
)
from headway.errors import HeadwayError
from headway.executors import die_with, end_now

if TYPE_CHECKING:
    from headway.decoder.answering import Answering

__all__ = ["main"]

_READ_BYTES: Final = 1 << 20
_IDLE_S: Final = 0.01
"""A step that could do nothing is tried again after so long, if nothing is heard before."""


def main(arguments: Sequence[str]) -> None:
    """Serve until the parent says stop or is gone. Never returns."""
    control_fd, parent_pid = (int(argument) for argument in arguments)
    die_with(parent_pid)
    # The parent ends us. A signal to the whole group must not do so before it has drained.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    faulthandler.enable(all_threads=False)
    code = 1
    try:
        _Worker(socket.socket(fileno=control_fd)).serve()
        code = 0
    except BaseException:  # noqa: BLE001 (whatever it is must be said before the process ends)
        traceback.print_exc()
    finally:
        end_now(code)


class _Worker:
    """The control side."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._frames = Frames()
        self._answering: Answering | None = None
        self._is_at_rest = True

    def serve(self) -> None:
        """Obey until the socket closes or a stop comes."""
        wait_s: float | None = None
        while self._hear(wait_s):
            answering, wait_s = self._answering, None
            if answering is None:
                continue
            if answering.engine.count == 0:
                self._rest(answering)
                continue
            self._is_at_rest = False
            stepped = answering.step()
            wait_s = _IDLE_S
            if stepped is not None:
                wait_s = 0.0
                self._say(stepped)

    def _rest(self, answering: "Answering") -> None:
        """Tell once that nothing is left, which no step tells where the last was cancelled."""
        if not self._is_at_rest:
            self._is_at_rest = True
            self._say(Stepped(said=[], figures=answering.figures()))

    def _hear(self, wait_s: float | None) -> bool:
        """Take in what was said; False where nobody will say anything any more."""
        while select.select([self._control], [], [], wait_s)[0]:
            data = self._control.recv(_READ_BYTES)
            if not data:
                return False
            for order in self._frames.feed(data, ORDERS):
                if isinstance(order, Stop):
                    return False
                if isinstance(order, Start):
                    self._start(order)
                elif self._answering is not None:
                    self._obey(self._answering, order)
            wait_s = 0.0
        return True

    def _obey(self, answering: "Answering", order: Generate | Cancel) -> None:
        if isinstance(order, Cancel):
            answering.cancel(order.request_id)
        else:
            self._say(answering.generate(order))

    def _start(self, order: Start) -> None:
        try:
            # Here, so that a package that is not installed is told as any reason not to load.
            from headway.decoder.answering import Answering
            from headway.decoder.engine import DecoderEngine
            from headway.decoder.model import DecoderModel

            os.nice(order.niceness)
            model = DecoderModel(Path(order.folder), order.limits)
            law = model.measure(time.monotonic_ns)
            engine = DecoderEngine(model, time.monotonic_ns, law, order.settings)
        except HeadwayError as error:
            self._say(Failed(message=str(error)))
            return
        self._answering = Answering(engine, time.monotonic_ns, order.seed)
        ready = Ready(
            context=model.context,
            kv_tokens=model.blocks * model.limits.block_tokens,
            is_chat=model.card.chat is not None,
        )
        self._say(ready)

    def _say(self, reply: Reply) -> None:
        self._control.sendall(framed(reply))


if __name__ == "__main__":
    main(sys.argv[1:])
