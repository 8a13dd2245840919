"""The live clock: integer nanoseconds since the engine started, and one loop timer for all waits.

Everything that is to happen later stands in one `TimerQueue`, and the loop is asked to wake for
its head only. The loop's own heap would order ties as it likes; ours orders them by age, which is
what makes a live run and a simulated one take the same decisions.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from headway.core import Timer, TimerQueue
from headway.units import NS_PER_S

__all__ = ["Clock", "LoopClock"]

Callback = Callable[[], None]


class Clock(Protocol):
    """What a driver may know of time."""

    def now_ns(self) -> int:
        """Nanoseconds since the engine started."""

    def call_at(self, at_ns: int, callback: Callback) -> Timer[Callback]:
        """Call back at an instant, after everything scheduled earlier for the same one."""

    def cancel(self, timer: Timer[Callback]) -> None:
        """Forget a call; one that was made already is ignored."""


class LoopClock:
    """A `Clock` on a running asyncio loop.

    Args:
        monotonic_ns: reads the machine's monotonic clock; a virtual loop brings its own.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._loop = loop
        self._monotonic_ns = monotonic_ns
        self._origin_ns = monotonic_ns()
        self.started_at_unix_ns = time.time_ns()
        """The wall clock at the instant 0, read once, for those who tell others when things were:
        it may be set meanwhile, and this clock goes on."""
        self._queue: TimerQueue[Callback] = TimerQueue()
        self._armed: asyncio.TimerHandle | None = None
        self._armed_at_ns = 0
        self._is_firing = False
        self._is_closed = False

    def now_ns(self) -> int:
        """Nanoseconds since this clock was made."""
        return self._monotonic_ns() - self._origin_ns

    def call_at(self, at_ns: int, callback: Callback) -> Timer[Callback]:
        """Schedule a call; the loop is asked again only when the head moved forward."""
        timer = self._queue.push(at_ns, callback)
        if self._is_firing or self._is_closed:
            return timer  # firing ends by arming for whatever is the head then
        if self._armed is None or at_ns < self._armed_at_ns:
            self._arm(at_ns)
        return timer

    def cancel(self, timer: Timer[Callback]) -> None:
        """Forget a call."""
        self._queue.cancel(timer)

    def close(self) -> None:
        """Never call anything again, not even what is scheduled after this."""
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
        self._queue = TimerQueue()
        self._is_closed = True

    def _arm(self, at_ns: int) -> None:
        if self._armed is not None:
            self._armed.cancel()
        delay_ns = max(0, at_ns - self.now_ns())
        self._armed = self._loop.call_later(delay_ns / NS_PER_S, self._fire)
        self._armed_at_ns = at_ns

    def _fire(self) -> None:
        """Make every call that is due; loops round to their own ticks, so look again.

        A call may raise: the loop reports it, and the calls after it are made all the same.
        """
        self._armed = None
        self._is_firing = True
        try:
            while (callback := self._queue.pop_due(self.now_ns())) is not None:
                callback()
        finally:
            self._is_firing = False
            head_at_ns = self._queue.head_at_ns()
            if head_at_ns is not None and not self._is_closed:
                self._arm(head_at_ns)
