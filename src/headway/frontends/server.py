"""An HTTP/1.1 server in the loop that already runs: uvicorn's protocol without uvicorn's program.

uvicorn parses HTTP and speaks ASGI; its own server object wants to own signals, logging and the
life of the process, so here the protocol class alone is used, behind sockets of our own. What it
leaves open is closed here, per connection and without cost to a request that arrives whole:

- a head that does not end: after ``head_bytes_max`` bytes the answer is 431 and the end;
- a client that says nothing, or stops halfway through a request: every ``stall_s`` a connection
  that owes us bytes must have sent at least ``stall_bytes_min``, or it is closed;
- a client that does not read its answers: the same, for the bytes that we owe;
- a head that asks for another protocol, as Java's client does with every first request: the wish is
  ignored and the request answered;
- the end: no new connections, idle ones closed, requests under way are answered with
  `connection: close`, and after the grace whatever is left is cut, which cancels its requests.

Small infer requests take the short way of `direct`: this protocol hands their bodies over when they
are whole and writes what comes back, with uvicorn's own bookkeeping of pipelines and idle times.

A response's head waits for the first piece of its body, so that both leave in one system call: a
second one wakes the client twice, which on a small machine costs as much as all of the parsing.

Run it in a uvloop loop for the speed that the documentation quotes; any asyncio loop will do.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, cast

import httptools
from uvicorn import Config
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from headway.frontends.asgi import Receive, Scope, Send
from headway.frontends.direct import DirectCall, Offer, response_bytes
from headway.frontends.rest_errors import Answer

__all__ = ["HttpServer"]

App = Callable[[Scope, Receive, Send], Awaitable[None]]

_ENDING_S: Final = 0.2
"""Several ticks of the watch that tells requests of their clients' leaving."""
_HEAD_START: Final = b"HTTP/1.1 "
_CONTINUE: Final = b"HTTP/1.1 100 "
_JOINED_BYTES_MAX: Final = 64 << 10
"""A longer body is not copied behind its head, but handed over beside it."""
_HEAD_TOO_LARGE: Final = b'{"error":"the request\'s head is too large","code":"head_too_large"}'
_NO_HTTP: Final = b'{"error":"this is no HTTP/1.1 request","code":"invalid_http"}'
_LAST_RESPONSE: Final = (
    b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
    b"connection: close\r\n\r\n%b"
)


class HttpServer:
    """One app on one address.

    Args:
        app: an ASGI app; it gets HTTP requests only.
        host: None listens on all interfaces.
        port: 0 takes a free one; see `port` once started.
        backlog: connections that the system may hold until we accept them.
        keep_alive_s: how long an idle connection stays open.
        head_bytes_max: of a request line and headers.
        stall_s: how often a slow connection is looked at.
        stall_bytes_min: what it must have moved since the last look.

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
        keep_alive_s: int = 75,
        head_bytes_max: int = 64 << 10,
        stall_s: float = 10.0,
        stall_bytes_min: int = 1 << 10,
    ) -> None:
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
            timeout_keep_alive=keep_alive_s,
        )
        self.direct: Offer | None = getattr(app, "direct", None)
        """Offers a request's head the short way; None where the app has none."""
        self.head_bytes_max = head_bytes_max
        self.stall_s = stall_s
        self.stall_bytes_min = stall_bytes_min
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
            lambda: _Connection(self, self._config, self.state),
            self._host,
            self._port,
            backlog=self._backlog,
        )

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


class _HeadHolder:
    """What a response is written to: its head is kept back until the body comes."""

    __slots__ = ("_head", "transport")

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self._head: bytes | None = None

    def write(self, data: bytes) -> None:
        """Write, or keep a head."""
        head = self._head
        if head is not None:
            self._head = None
            if len(data) < _JOINED_BYTES_MAX:
                self.transport.write(head + data)
            else:
                self.transport.writelines((head, data))
        elif data.startswith(_HEAD_START) and not data.startswith(_CONTINUE):
            self._head = data
        else:
            self.transport.write(data)

    def flush(self) -> None:
        """Write what was kept."""
        if self._head is not None:
            self.write(b"")

    def close(self) -> None:
        """Close once all is written."""
        self.flush()
        self.transport.close()

    def is_closing(self) -> bool:
        """No more can be written."""
        return self.transport.is_closing()


class _Connection(HttpToolsProtocol):
    """uvicorn's protocol with limits on size, silence and slowness.

    Invariants: `_stall` is armed only while the client owes bytes of a request, `_unread` only
    while we owe more bytes of answers than the transport likes to keep.
    """

    def __init__(self, server: HttpServer, config: Config, state: ServerState) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        self._server = server
        self._is_in_head = False
        self._is_in_message = False
        self._is_behind = False
        """What was received last began with the end of another request."""
        self._is_upgrade = False
        """The head asks for another protocol; the parser is about to stop behind it."""
        self._head_bytes = 0
        self._moved_bytes = 0
        """Received since the last look at a slow request."""
        self._stall: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._out = _HeadHolder()
        self._running: RequestResponseCycle | None = None
        """The request begun last; `cycle` is the one read last, which may wait behind it."""
        self._direct: DirectCall | None = None
        """On the short way: its body is being read, or the engine has it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Arm the idle timer at once: a client that connects and says nothing is idle, too."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._out.transport = self.transport
        self._server.idle.clear()
        if self._server.is_stopping:
            self.transport.abort()  # accepted in the loop's step in which the listener closed
            return
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers; the last one out tells the server."""
        super().connection_lost(exc)
        if self._direct is not None:
            self._direct.cancel()
            self._direct = None
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
        self._disarm()
        if self._unread is not None:
            self._unread.cancel()
        self._unset_keepalive_if_required()
        if not self._server.state.connections:
            self._server.idle.set()

    def data_received(self, data: bytes) -> None:
        """Parse; whatever leaves a request incomplete is counted and timed."""
        self._is_behind = False
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as stop:
            self._go_on(memoryview(data)[stop.args[0] :])
        except httptools.HttpParserError:
            self._refuse(b"400 Bad Request", _NO_HTTP)
        if self._is_in_message:
            self._note_incomplete(len(data))

    def on_message_begin(self) -> None:
        """The first bytes of a request."""
        self._is_in_head = self._is_in_message = True
        self._is_upgrade = False
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is whole, and the app has its task."""
        self._is_in_head = False
        self._is_upgrade = self.parser.should_upgrade()
        if self._is_upgrade:
            return
        super().on_headers_complete()
        self.cycle.transport = self._out  # type: ignore[assignment]
        if self._server.is_stopping:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self._is_upgrade:
            return
        self._is_in_message = False
        self._is_behind = True
        if self._stall is not None:
            self._disarm()
        super().on_message_complete()
        if self._direct is not None and not self.pipeline:
            self._run_direct(self.cycle)

    def on_response_complete(self) -> None:
        """A response without a body has nothing that its head could wait for."""
        self._out.flush()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Much is unread: from now on the client has to read."""
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        """Enough was read."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Begin a request, the short way if it may: now, or when its body is whole."""
        self._running = cycle
        offer = self._server.direct
        direct = None
        if offer is not None and not self.flow.write_paused:
            direct = offer(cast(Scope, cycle.scope))
        if direct is None:
            super()._start_asgi_task(cycle, app)
            return
        self._direct = direct
        if not cycle.more_body:  # it waited behind another one, whose end this is
            self.loop.call_soon(self._run_direct, cycle)

    def _run_direct(self, cycle: RequestResponseCycle) -> None:
        if self._direct is not None:
            body, cycle.body = bytes(cycle.body), bytearray()
            self._direct.run(body, partial(self._deliver, cycle))

    def _deliver(self, cycle: RequestResponseCycle, answer: Answer) -> None:
        """Write an answer of the short way, and do what uvicorn does after a response."""
        self._direct = None
        cycle.response_started = cycle.response_complete = True
        self.transport.write(response_bytes(answer, is_kept_alive=cycle.keep_alive))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def shutdown(self) -> None:
        """Close if idle; a request that has begun to arrive is still answered."""
        if not self._is_in_message:
            super().shutdown()
        elif self.cycle is not None:
            self.cycle.keep_alive = False

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, unless it only seems idle: its answer may be unread."""
        self.timeout_keep_alive_task = None
        owed_bytes = self.transport.get_write_buffer_size()
        if owed_bytes:
            self.timeout_keep_alive_task = self.loop.call_later(
                self._server.stall_s, self._look_at_idle_reader, owed_bytes
            )
        else:
            super().timeout_keep_alive_handler()

    @property
    def _stall_bytes_min(self) -> int:
        return self._server.stall_bytes_min

    def _note_incomplete(self, size_bytes: int) -> None:
        self._moved_bytes += size_bytes
        if self._is_in_head and not self._is_behind:  # else most of it may be the request before
            self._head_bytes += size_bytes
            if self._head_bytes > self._server.head_bytes_max:
                self._refuse(b"431 Request Header Fields Too Large", _HEAD_TOO_LARGE)
                return
        if self._stall is None:
            self._stall = self.loop.call_later(self._server.stall_s, self._look_at_sender)

    def _go_on(self, rest: memoryview) -> None:
        """Read on behind a head that asks for another protocol, as if it did not."""
        while self.parser.get_method() != b"CONNECT":
            try:
                self._read_head_again()
                self.parser.feed_data(rest)
            except httptools.HttpParserUpgrade as stop:
                rest = rest[stop.args[0] :]
                continue
            except httptools.HttpParserError:
                break
            return
        self._refuse(b"400 Bad Request", _NO_HTTP)

    def _read_head_again(self) -> None:
        """Without its wish: the parser takes what follows a head with one for no body."""
        method, version = self.parser.get_method(), self.parser.get_http_version()
        lines = [b"%b %b HTTP/%b" % (method, self.url, version.encode())]
        lines += [b"%b: %b" % pair for pair in self.headers if pair[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        with contextlib.suppress(AttributeError):  # as uvicorn does; httptools < 0.6.3 has it not
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.parser.feed_data(b"\r\n".join([*lines, b"", b""]))

    def _refuse(self, status: bytes, body: bytes) -> None:
        """Answer what cannot be read and close; without a word while an earlier answer is due."""
        self._is_in_message = False
        cycle = self.cycle
        is_answer_due = cycle is not None and not (cycle.response_complete or cycle.more_body)
        if not is_answer_due:
            self.transport.write(_LAST_RESPONSE % (status, len(body), body))
        self.transport.close()

    def _look_at_sender(self) -> None:
        """Nothing is held against a client while we do not read."""
        self._stall = None
        if not self.flow.read_paused and self._moved_bytes < self._stall_bytes_min:
            self.transport.abort()
            return
        self._moved_bytes = 0
        self._stall = self.loop.call_later(self._server.stall_s, self._look_at_sender)

    def _look_at_idle_reader(self, owed_bytes_before: int) -> None:
        if not self._end_if_unread(owed_bytes_before):
            self.timeout_keep_alive_handler()

    def _watch_reader(self) -> None:
        self._unread = self.loop.call_later(
            self._server.stall_s, self._look_at_reader, self.transport.get_write_buffer_size()
        )

    def _look_at_reader(self, owed_bytes_before: int) -> None:
        self._unread = None
        if not self._end_if_unread(owed_bytes_before):
            self._watch_reader()

    def _end_if_unread(self, owed_bytes_before: int) -> bool:
        owed_bytes = self.transport.get_write_buffer_size()
        if owed_bytes <= owed_bytes_before - self._stall_bytes_min:
            return False
        self.transport.abort()
        return True

    def _disarm(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
