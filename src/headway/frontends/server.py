"""An HTTP/1.1 server in the loop that already runs: uvicorn's protocol without uvicorn's program.

uvicorn's own server object wants to own signals, logging and the life of the process, so here its
protocol class alone is used, behind sockets of our own (`http_connection`). At the end there are no
new connections, idle ones are closed, requests under way are answered with `connection: close`, and
after the grace whatever is left is cut, which cancels its requests.

Run it in a uvloop loop for the speed that the documentation quotes; any asyncio loop will do.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from uvicorn import Config
from uvicorn.server import ServerState

from headway.frontends.asgi import Receive, Scope, Send
from headway.frontends.direct import Offer
from headway.frontends.http_connection import Connection, HttpLimits
from headway.frontends.tls import Tls

__all__ = ["HttpServer"]

App = Callable[[Scope, Receive, Send], Awaitable[None]]

_ENDING_S: Final = 0.2
"""Several ticks of the watch that tells requests of their clients' leaving."""


class HttpServer:
    """One app on one address.

    Args:
        app: an ASGI app; it gets HTTP requests only.
        host: None listens on all interfaces.
        port: 0 takes a free one; see `port` once started.
        backlog: connections that the system may hold until we accept them.
        limits: on connections, and on what each may cost.
        tls: encryption; None for none.

    Invariants: `start` once, then `stop` once; every connection is in ``state.connections`` from
    its first to its last event.
    """

    def __init__(
        self,
        app: App,
        *,
        host: str | None = "127.0.0.1",
        port: int = 8000,
        backlog: int = 2048,
        limits: HttpLimits | None = None,
        tls: Tls | None = None,
    ) -> None:
        limits = limits or HttpLimits()
        self._host = host
        self._port = port
        self._backlog = backlog
        self._config = Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=limits.keep_alive_s,  # type: ignore[arg-type]
        )
        self.direct: Offer | None = getattr(app, "direct", None)
        """Offers a request's head the short way; None where the app has none."""
        self.limits = limits
        self._tls = tls
        self.state = ServerState()
        self.is_stopping = False
        self.idle = asyncio.Event()
        """Set while there are no connections."""
        self.idle.set()
        self._listener: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Where it listens.

        Raises:
            RuntimeError: it does not.
        """
        if self._listener is None or not self._listener.sockets:
            raise RuntimeError("the server does not listen: start it first")
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address is taken or not ours.
        """
        self._config.load()
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self.connection,
            self._host,
            self._port,
            backlog=self._backlog,
            ssl=None if self._tls is None else self._tls.context("http/1.1"),
            ssl_handshake_timeout=None if self._tls is None else self.limits.stall_s,
        )

    def connection(self) -> asyncio.Protocol:
        """What one connection is served by, whatever carries it; once the server has started."""
        return Connection(self, self._config, self.state)

    async def stop(self, grace_s: float) -> None:
        """Answer what is under way, for ``grace_s`` at most, and close everything."""
        if self._listener is None:
            return
        self.is_stopping = True
        self._listener.close()
        for connection in list(self.state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(grace_s):
                await self.idle.wait()
        except TimeoutError:
            for connection in list(self.state.connections):
                connection.transport.abort()
            await self.idle.wait()
        await self._end_tasks()
        self._listener = None

    async def _end_tasks(self) -> None:
        """Requests whose clients are gone end by themselves; whatever does not is cancelled."""
        tasks = set(self.state.tasks)
        if tasks:
            _, tasks = await asyncio.wait(tasks, timeout=_ENDING_S)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
