"""Those who watch the server: one digest, made twice a second, is sent to all of them.

Each gets a whole glance first and then what is new, as server-sent events. Nothing is made while
nobody watches. A viewer that does not take its events is let go, and its page comes back for a
whole one.

Knows the board. Refuses to know what is on it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

from msgspec.json import Encoder

from headway.frontends.rest_errors import HttpError
from headway.observe import Board

__all__ = ["Viewers"]

_PERIOD_S: Final = 0.5
_STEPS_AT_ONCE: Final = 500
"""Taken before others have their turn: less than a millisecond."""
_BEHIND_MAX: Final = 8
"""Events that may wait for one viewer: four seconds of them."""
_RETRY: Final = b"retry: 2000\n\n"
_encoder: Final = Encoder()
_log: Final = logging.getLogger(__name__)


class _Viewer:
    """One that watches, and the events that it has not taken yet."""

    __slots__ = ("is_let_go", "pieces", "woken")

    def __init__(self) -> None:
        self.pieces: deque[bytes] = deque()
        self.woken = asyncio.Event()
        self.is_let_go = False

    def put(self, piece: bytes) -> None:
        """Hand it an event, or let it go where it has too many."""
        if len(self.pieces) >= _BEHIND_MAX:
            self.let_go()
            return
        self.pieces.append(piece)
        self.woken.set()

    def let_go(self) -> None:
        """It gets no more."""
        self.pieces.clear()
        self.is_let_go = True
        self.woken.set()


class Viewers:
    """All of them.

    Args:
        board: what they look at.
        viewers_max: further ones are refused.
        period_s: between two events.

    Invariants: the pump runs if, and only if, somebody has been shown a whole glance and is there
    still; nothing happens between that glance and the first event that follows it which is in
    neither; `close` ends all for good.
    """

    def __init__(self, board: Board, *, viewers_max: int, period_s: float = _PERIOD_S) -> None:
        self._board = board
        self._viewers_max = viewers_max
        self._period_s = period_s
        self._viewers: dict[_Viewer, None] = {}
        self._pump: asyncio.Task[None] | None = None
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._viewers)

    def refuse_more(self) -> None:
        """See that there is room for one more.

        Raises:
            HttpError: 503, there is not, or the server ends.
        """
        if self._is_closed or len(self._viewers) >= self._viewers_max:
            raise HttpError(
                503,
                "unavailable",
                f"{len(self._viewers)} are watching already (hint: close a page, or raise "
                "observe.viewers_max)",
            )

    async def look(self) -> bytes:
        """A whole glance, as JSON."""
        await self._catch_up()
        return _encoder.encode(self._board.first())

    async def watch(self) -> AsyncGenerator[bytes, None]:
        """Events for one viewer, until it leaves or is let go."""
        self.refuse_more()
        viewer = _Viewer()
        self._viewers[viewer] = None
        try:
            whole = await self.look()
            viewer.pieces.clear()  # made meanwhile, and in the whole already
            if self._pump is None:
                self._board.mark()
                self._pump = asyncio.get_running_loop().create_task(self._run())
            yield _RETRY + _event(b"whole", whole)
            while not viewer.is_let_go:
                if viewer.pieces:
                    yield viewer.pieces.popleft()
                else:
                    viewer.woken.clear()
                    await viewer.woken.wait()
        finally:
            self._viewers.pop(viewer, None)
            if not self._viewers and self._pump is not None:
                self._pump.cancel()
                self._pump = None

    def close(self) -> None:
        """Let all go, and take no more: the server ends."""
        self._is_closed = True
        self._let_all_go()

    def _let_all_go(self) -> None:
        for viewer in self._viewers:
            viewer.let_go()

    async def _run(self) -> None:
        try:
            while True:
                await asyncio.sleep(self._period_s)
                await self._catch_up()
                piece = _event(b"next", _encoder.encode(self._board.next()))
                for viewer in self._viewers:
                    viewer.put(piece)
        except Exception as error:  # noqa: BLE001 (a bug of the page must not harm the server)
            _log.error("the page cannot be shown", exc_info=error)
            self._let_all_go()
            self._pump = None  # whoever comes next has it tried anew

    async def _catch_up(self) -> None:
        while not self._board.catch_up(_STEPS_AT_ONCE):  # noqa: ASYNC110 (others have their turn)
            await asyncio.sleep(0)


def _event(name: bytes, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name, data)
