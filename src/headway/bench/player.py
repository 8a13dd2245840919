"""Sends the requests of a plan when they are due, and makes the change half way.

Knows a loop and whatever takes requests. Never what is recorded of them.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from random import Random
from subprocess import DEVNULL, Popen
from typing import Final, Protocol

from headway.bench.inputs import ClassRequests
from headway.bench.orders import Progress, RunOrder
from headway.bench.plan import Arrival, Shift
from headway.bench.setups import Setup
from headway.config import usable_cores
from headway.core import Tensor
from headway.errors import HeadwayError
from headway.runtime import InferReply, OnEnd
from headway.units import NS_PER_S

__all__ = ["Player", "Sender"]

_BUSY_LOOP: Final = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
_NEWS_PER_RUN: Final = 50


class Sender(Protocol):
    """What takes requests, such as a `Rig`."""

    def now_ns(self) -> int:
        """Nanoseconds on the engine's clock."""

    def submit(self, model: str, inputs: Sequence[Tensor], on_end: OnEnd) -> None:
        """Send one request; see `Engine.submit`."""


class Player:
    """Sends a plan, whatever became of the requests before.

    With `Shift.SLOTS` at first only as many at once as there are cores; the others are held back,
    in order of their turn. With `Shift.CORE` another program runs on the last core from half of
    the time on.

    Invariants: every request of the plan is sent once; nothing that it started outlives `play`.
    """

    def __init__(
        self,
        rig: Sender,
        requests: Sequence[ClassRequests],
        run: RunOrder,
        setup: Setup,
        tell: Callable[[Progress], None],
    ) -> None:
        self._rig = rig
        self._requests = requests
        self._run = run
        self._setup = setup
        self._tell = tell
        self._chance = Random(f"{run.seed}/requests")
        self._held: deque[Arrival] = deque()
        self._running = 0
        self._limit: int | None = setup.cores_count if run.shift is Shift.SLOTS else None
        self._idle = asyncio.Event()
        self._error: HeadwayError | None = None
        self.began_at_ns = 0

    async def play(self, plan: Sequence[Arrival]) -> None:
        """Send every request when it is due, and wait until all have ended.

        Raises:
            HeadwayError: a request was refused or failed.
        """
        loop = asyncio.get_running_loop()
        self.began_at_ns, began_at_s = self._rig.now_ns(), loop.time()
        step = max(1, len(plan) // _NEWS_PER_RUN)
        with ExitStack() as at_end:
            half_at_s = began_at_s + self._run.duration_ns / 2 / NS_PER_S
            at_end.callback(loop.call_at(half_at_s, self._turn, at_end).cancel)
            for index, arrival in enumerate(plan):
                await asyncio.sleep(began_at_s + arrival.at_ns / NS_PER_S - loop.time())
                self._arrive(arrival)
                if index % step == 0:
                    self._tell(Progress(path=self._run.path, done_ratio=index / len(plan)))
            while self._running:
                self._idle.clear()
                await self._idle.wait()
        if self._error is not None:
            raise self._error

    def _turn(self, at_end: ExitStack) -> None:
        """Half of the time has passed."""
        self._limit = None
        self._send_held()
        if self._run.shift is Shift.CORE:
            core = usable_cores()[self._setup.cores_count - 1]
            command = [sys.executable, "-c", _BUSY_LOOP, str(core)]
            process = Popen(command, stdin=DEVNULL)  # noqa: S603 - our own few words
            at_end.callback(process.wait)
            at_end.callback(process.kill)

    def _arrive(self, arrival: Arrival) -> None:
        self._held.append(arrival)
        self._send_held()

    def _send_held(self) -> None:
        while self._held and (self._limit is None or self._running < self._limit):
            self._send(self._held.popleft())

    def _send(self, arrival: Arrival) -> None:
        kind = self._requests[arrival.class_index]
        self._running += 1
        self._rig.submit(kind.traffic.model, self._chance.choice(kind.inputs), self._on_end)

    def _on_end(self, end: InferReply | HeadwayError) -> None:
        self._running -= 1
        if isinstance(end, HeadwayError):
            self._error = end
        if self._limit is not None:
            self._send_held()
        if not self._running:
            self._idle.set()
