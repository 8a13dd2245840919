"""The gRPC server: HTTP/2, by h2, in the loop that already runs, without the gRPC library.

That library's server, in its Python form, spends most of a call in threads, tasks and system calls
of its own (`docs/internals/adr/0020`). Here the call's frames are read and written by the loop that
schedules it, an infer request takes the short way of `OipGrpc.submit`, and answers that are ready
together leave together.

Knows ports, limits and which methods there are. Refuses to know models.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from headway.core import Buffer
from headway.frontends.grpc_calls import (
    Calls,
    Start,
    StreamExchange,
    Tasks,
    UnaryExchange,
    run_method,
    start_of,
)
from headway.frontends.grpc_errors import Failure
from headway.frontends.grpc_framing import HEAD, trailers
from headway.frontends.grpc_health import Health
from headway.frontends.grpc_service import Method, MethodKind, Methods
from headway.frontends.grpc_status import StatusCode
from headway.frontends.http2 import Http2Connection, Limits
from headway.frontends.http2_stream import Exchange, Headers, Stream
from headway.frontends.oip_grpc import OipGrpc
from headway.frontends.oip_messages import HEALTH, INFERENCE
from headway.frontends.tls import Tls
from headway.runtime import Engine

__all__ = ["GrpcServer"]

_INFER: Final = f"/{INFERENCE.service}/ModelInfer"
_HANDSHAKE_S: Final = 10.0
_BACKLOG: Final = 2048
"""Connections that the system may hold until we accept them."""


class GrpcServer:
    """Listens, serves and stops.

    Args:
        service: the protocol.
        engine: whose health is told.
        host: address to listen on.
        port: to listen on; 0 lets the system choose.
        message_bytes_max: of one message, either way.
        keep_alive_s: a client that says nothing for so long is asked whether it is there.
        connections_max: open at once; further ones are closed as they come.
        tls: encryption; None for none.
    """

    def __init__(
        self,
        service: OipGrpc,
        engine: Engine,
        *,
        host: str,
        port: int,
        message_bytes_max: int,
        keep_alive_s: float,
        connections_max: int = 16384,
        tls: Tls | None = None,
    ) -> None:
        self._service = service
        self._health = Health(engine)
        self._host = host
        self.port = port
        """Where it listens, once it does."""
        self._calls = Calls(message_bytes_max, Tasks(), service.count)
        self._limits = Limits(keep_alive_s=keep_alive_s)
        self._connections_max = connections_max
        self._tls = tls
        self._connections: set[Http2Connection] = set()
        self._is_stopping = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._listener: asyncio.Server | None = None
        self._methods: Methods = {
            **_paths(INFERENCE.service, service.methods()),
            **_paths(HEALTH.service, self._health.methods()),
        }

    @property
    def answers(self) -> Mapping[str, int]:
        """See `Listener.answers`."""
        return self._service.answers

    def streamed(self) -> int:
        """See `Listener.streamed`."""
        return self._service.streamed

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address is taken.
        """
        self._listener = await asyncio.get_running_loop().create_server(
            self._connection,
            self._host,
            self.port,
            backlog=_BACKLOG,
            ssl=None if self._tls is None else self._tls.context("h2"),
            ssl_handshake_timeout=None if self._tls is None else _HANDSHAKE_S,
        )
        self.port = int(self._listener.sockets[0].getsockname()[1])

    async def stop(self, grace_s: float) -> None:
        """Take no new calls, and give those under way so long to end."""
        if self._listener is None:
            return
        self._is_stopping = True
        self._listener.close()
        self._health.stop()
        for connection in list(self._connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(grace_s):
                await self._idle.wait()
        except TimeoutError:
            for connection in list(self._connections):
                connection.abort()
            await self._idle.wait()
        await self._calls.tasks.stop()
        self._listener = None

    def _connection(self) -> Http2Connection:
        last: list[tuple[Headers, Start | int]] = []

        def open_exchange(stream: Stream, headers: Headers) -> Exchange | None:
            # A client that calls again mostly sends the same headers.
            if not last or last[0][0] != headers:
                last[:] = [(headers, start_of(headers))]
            return self._open(stream, last[0][1])

        return Http2Connection(open_exchange, self._limits, self)

    def came(self, connection: Http2Connection) -> None:
        """See `http2.Owner`."""
        self._connections.add(connection)
        self._idle.clear()
        is_late = self._is_stopping  # accepted in the loop's step in which the listener closed
        if is_late or len(self._connections) > self._connections_max:
            connection.abort()

    def left(self, connection: Http2Connection) -> None:
        """See `http2.Owner`."""
        self._connections.discard(connection)
        if not self._connections:
            self._idle.set()

    def _open(self, stream: Stream, start: Start | int) -> Exchange | None:
        """Who answers a call."""
        if isinstance(start, int):
            stream.finish(((b":status", b"%d" % start), (b"content-length", b"0")))
            return None
        method = self._methods.get(start.path)
        if method is None:
            code, text = StatusCode.UNIMPLEMENTED, f"there is no `{start.path[:200]}`"
            self._calls.ended(code.name)
            stream.finish((*HEAD, *trailers(code, text)))
            return None
        if method.kind is not MethodKind.UNARY:
            return StreamExchange(stream, start, method, self._calls)
        begin = partial(run_method, method=method, tasks=self._calls.tasks)
        if start.path == _INFER:
            begin = partial(self._infer, long_way=begin)
        return UnaryExchange(stream, start, begin, self._calls)

    def _infer(
        self, call: UnaryExchange, message: bytes | bytearray, *, long_way: partial[None]
    ) -> None:
        """Have the engine answer."""

        def tell(end: Sequence[Buffer] | Failure) -> None:
            if isinstance(end, Failure):
                call.fail(end)
            else:
                call.respond(end)

        start = call.start
        cancel = self._service.submit(message, start.metadata, start.left_ns, tell)
        if cancel is None:
            long_way(call, message)
        else:
            call.cancel = cancel


def _paths(service: str, methods: Methods) -> dict[str, Method]:
    return {f"/{service}/{name}": method for name, method in methods.items()}
