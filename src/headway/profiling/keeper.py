"""Keeps what a predictor learns in its file while a server runs, and at its end.

The state is taken on the loop, where nothing can change it meanwhile, and written in a thread. Once
it is unsound, as after a crash that it may have caused, none is written: the next run would begin
with it.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from headway.profiling.learnt import Circumstances, write_learnt

__all__ = ["Keeper"]


class Keeper:
    """Writes every so often.

    Args:
        path: the file.
        predictor: who learns.
        circumstances: in which it learns.
        state: asked on the loop for what was learnt.
        is_sound: False once what was learnt is no longer to be kept.
        every_s: between two writes.
        failed: told that a write failed.

    Invariants: one write at a time; a write that fails is reported, and the next is tried anyway;
    no state is asked for or written once it is unsound.
    """

    def __init__(
        self,
        path: Path,
        predictor: str,
        circumstances: Circumstances,
        state: Callable[[], dict[str, object]],
        *,
        is_sound: Callable[[], bool],
        every_s: float,
        failed: Callable[[OSError], None],
    ) -> None:
        self._path = path
        self._predictor = predictor
        self._circumstances = circumstances
        self._state = state
        self._is_sound = is_sound
        self._every_s = every_s
        self._failed = failed
        self._next: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Write from now on, the first time after one interval. Needs a running loop."""
        self._next = asyncio.get_running_loop().call_later(self._every_s, self._begin)

    async def stop(self) -> None:
        """Write once more if what was learnt is sound, and no more after that."""
        if self._next is None:
            return
        self._next.cancel()
        self._next = None
        if self._writing is not None:
            await asyncio.wait([self._writing])
        if self._is_sound():
            self._write(self._state())

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        if self._writing is None and self._is_sound():
            self._writing = loop.run_in_executor(None, self._write, self._state())
            self._writing.add_done_callback(self._end)
        self._next = loop.call_later(self._every_s, self._begin)

    def _end(self, writing: asyncio.Future[None]) -> None:
        self._writing = None
        writing.result()  # a bug of the state's own, such as a value that JSON cannot hold

    def _write(self, state: dict[str, object]) -> None:
        try:
            write_learnt(self._path, self._predictor, self._circumstances, state)
        except OSError as error:
            self._failed(error)
