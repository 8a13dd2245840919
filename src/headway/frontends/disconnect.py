"""Notice that a client has gone while its request waits or runs, and cancel the request.

ASGI tells an app of a disconnect only when it asks, with `receive()`, and to ask while the engine
works takes a second task. A task for each request would cost more than many requests do. But most
requests are over before anyone could hang up; only the ones that last are worth a look. So:

- a request under way is an entry in a dict, put in and taken out, nothing more;
- one timer for all, armed only while there are entries, ticks every 25 ms. At a tick, each entry
  that was already there at the tick before gets its watcher, a task that waits in `receive()`;
- when the watcher hears `http.disconnect`, it cancels the request's own task, which is at that
  moment inside `Engine.infer`; the engine then frees whatever the request holds.

A request of less than 25 ms therefore never has a watcher, one of more than 50 ms always has, and
a client that leaves is noticed within two ticks: 50 ms.

An entry owns its watcher and cancels it when the request is over; a watcher never outlives it.
"""

import asyncio
from types import TracebackType
from typing import Final, Self

from headway.errors import RequestCancelledError
from headway.frontends.asgi import Receive

__all__ = ["DisconnectWatch", "Watched"]

TICK_S: Final = 0.025


class DisconnectWatch:
    """All requests of one app that are under way.

    Invariants: an entry is in exactly one of the two generations; a timer is armed if either
    generation has entries.
    """

    def __init__(self, *, tick_s: float = TICK_S) -> None:
        self._tick_s = tick_s
        self._young: dict[Watched, None] = {}
        """Came since the last tick."""
        self._old: dict[Watched, None] = {}
        """Were there at the last tick; those that are still there at the next are watched."""
        self._timer: asyncio.TimerHandle | None = None

    def over(self, receive: Receive) -> "Watched":
        """A context in which the current task is cancelled when the client leaves.

        On leaving by that cancellation it raises `RequestCancelledError` instead.
        """
        return Watched(self, receive)

    def enter(self, entry: "Watched") -> None:
        """Count a request in."""
        entry.generation = self._young
        self._young[entry] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._tick_s, self._tick)

    def _tick(self) -> None:
        for entry in self._old:
            entry.watch()
        self._old = self._young
        self._young = {}
        self._timer = None
        if self._old:
            self._timer = asyncio.get_running_loop().call_later(self._tick_s, self._tick)


class Watched:
    """One request under way: its task, and its watcher once it has one."""

    __slots__ = ("_is_gone", "_receive", "_task", "_watch", "_watcher", "generation")

    def __init__(self, watch: DisconnectWatch, receive: Receive) -> None:
        self._watch = watch
        self._receive = receive
        self._task: asyncio.Task[object] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._is_gone = False
        self.generation: dict[Watched, None] = {}

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        self._watch.enter(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.generation.pop(self, None)
        if self._watcher is not None:
            self._watcher.cancel()
        # If someone else cancels the task as well, that one has to win.
        if self._is_gone and self._task is not None and self._task.uncancel() == 0:
            raise RequestCancelledError("the client left before the answer was ready") from error

    def watch(self) -> None:
        """Listen for the client's leaving from now on."""
        self._watcher = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass  # a server may still hand out what is left of the body
        self._is_gone = True
        assert self._task is not None, "an entry is watched only after it was entered"
        self._task.cancel()
