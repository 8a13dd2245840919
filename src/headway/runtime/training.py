"""Fits what a predictor asks to have fitted, in a thread, while the server runs.

A fit takes tenths of a second, which the loop does not have. Knows when to ask and where the fit
runs. Refuses to know what is fitted, and to hand it over itself: that is an event, so that a replay
hands it over at the same step.
"""

import asyncio
from collections.abc import Callable

from headway.predict import Trainable

__all__ = ["Trainer"]


class Trainer:
    """Asks every so often.

    Args:
        trainable: is asked on the loop, and trained off it, while it goes on learning.
        install: told on the loop which fit is ready.
        every_s: between two questions.
        failed: told that a fit could not be made; it is tried again when the next one is due.

    Invariants: one fit at a time; nothing is installed after `stop`.
    """

    def __init__(
        self,
        trainable: Trainable,
        install: Callable[[int], None],
        *,
        every_s: float = 1.0,
        failed: Callable[[Exception], None],
    ) -> None:
        self._trainable = trainable
        self._install = install
        self._every_s = every_s
        self._failed = failed
        self._next: asyncio.TimerHandle | None = None
        self._fitting: asyncio.Future[None] | None = None
        self._failed_count = 0

    def start(self) -> None:
        """Ask from now on, the first time after one interval. Needs a running loop."""
        self._next = asyncio.get_running_loop().call_later(self._every_s, self._ask)

    async def stop(self) -> None:
        """Ask no more; what is being fitted is waited for, for a thread cannot be ended."""
        if self._next is None:
            return
        self._next.cancel()
        self._next = None
        if self._fitting is not None:
            await asyncio.wait([self._fitting])

    def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        self._next = loop.call_later(self._every_s, self._ask)
        count = self._trainable.due()
        if self._fitting is not None or count is None or count <= self._failed_count:
            return
        self._fitting = loop.run_in_executor(None, self._trainable.train, count)
        self._fitting.add_done_callback(lambda fitting: self._end(count, fitting))

    def _end(self, count: int, fitting: "asyncio.Future[None]") -> None:
        self._fitting = None
        error = fitting.exception()
        if isinstance(error, Exception):
            self._failed_count = count
            self._failed(error)
        elif self._next is not None:
            self._install(count)
