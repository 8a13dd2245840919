"""A client of HTTP that notices what it did not ask for: one answer a request, and not a byte more.

Knows sockets. Refuses to know what is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import NamedTuple, cast

__all__ = ["HttpPool", "Response"]

CONNECTIONS_MAX = 2048
IDLE_S_MAX = 30.0
"""A connection that nobody used for so long is closed, before the server does it."""


class Response(NamedTuple):
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpPool:
    """As many connections as there are requests under way."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: list[_Connection] = []
        self.extra = 0
        """Answers, or parts of them, that nobody waited for."""

    async def ask(self, request: bytes) -> Response:
        """Send a request and read its answer.

        Raises:
            OSError: the connection ended before there was one.
        """
        connection = self._take() or await self._open()
        response = await connection.ask(request)
        if response.headers.get("connection") == "close":
            connection.close()
        elif len(self._free) < CONNECTIONS_MAX:
            connection.free_at_s = asyncio.get_running_loop().time()
            self._free.append(connection)
        return response

    async def close(self) -> None:
        """End every connection; what still comes meanwhile is an answer too many."""
        for connection in self._free:
            connection.close()
        self._free.clear()
        await asyncio.sleep(0.05)

    def _take(self) -> _Connection | None:
        now_s = asyncio.get_running_loop().time()
        while self._free and now_s - self._free[0].free_at_s > IDLE_S_MAX:
            self._free.pop(0).close()
        while self._free:
            connection = self._free.pop()
            if not connection.is_lost:
                return connection
        return None

    async def _open(self) -> _Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: _Connection(self), "127.0.0.1", self._port
        )
        return connection


class _Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, pool: HttpPool) -> None:
        self._pool = pool
        self._got = bytearray()
        self._waiting: asyncio.Future[Response] | None = None
        self._transport: asyncio.Transport | None = None
        self.is_lost = False
        self.free_at_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    async def ask(self, request: bytes) -> Response:
        """Send, and wait for the answer."""
        assert self._waiting is None, "one at a time"
        assert self._transport is not None, "a connection is asked once it is made"
        waiting = self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await waiting

    def close(self) -> None:
        """End it."""
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self._waiting is None:
            self._pool.extra += 1
            return
        self._got += data
        head, end, rest = self._got.partition(b"\r\n\r\n")
        if not end:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (x.partition(": ") for x in lines)}
        size = int(headers["content-length"])
        if len(rest) < size:
            return
        self._pool.extra += len(rest) > size
        waiting, self._waiting = self._waiting, None
        self._got.clear()
        with contextlib.suppress(asyncio.InvalidStateError):
            waiting.set_result(Response(int(first.split()[1]), headers, bytes(rest[:size])))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionResetError("closed before its answer"))
