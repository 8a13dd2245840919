"""One HTTP/1.1 connection: uvicorn's protocol, with limits on size, silence and slowness.

uvicorn parses HTTP and speaks ASGI. What it leaves open is closed here, without cost to a request
that arrives whole:

- a head that does not end, or a trailer: after ``head_bytes_max`` bytes the answer is 431 and the
  end; a trailer is read over, and none of its fields is a header;
- a client that says nothing, or stops halfway through a request: every ``stall_s`` a connection
  that owes us bytes must have sent at least ``stall_bytes_min``, or it is closed;
- a client that does not read its answers: the same, for the bytes that we owe;
- a client that sends on and on behind a request that is not answered: after some of them nothing
  more is read until they are begun, so that the rest fills the system's buffers and not ours;
- a head that asks for another protocol, as Java's client does with every first request: the wish is
  ignored and the request answered.

Small infer requests take the short way of `direct`: their bodies are handed over when they are
whole, and what comes back is written with uvicorn's own bookkeeping of pipelines and idle times.

A response's head waits for the first piece of its body, so that both leave in one system call: a
second one wakes the client twice, which on a small machine costs as much as all of the parsing.
"""

import asyncio
import contextlib
from collections.abc import Collection
from functools import partial
from typing import Final, NamedTuple, Protocol, cast

import httptools
from uvicorn import Config
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from headway.frontends.asgi import Scope
from headway.frontends.direct import DIRECT_BYTES_MAX, DirectCall, Offer, response_bytes
from headway.frontends.rest_errors import Answer

__all__ = ["Connection", "HttpLimits"]

_HEAD_START: Final = b"HTTP/1.1 "
_CONTINUE: Final = b"HTTP/1.1 100 "
_JOINED_BYTES_MAX: Final = 64 << 10
"""A longer body is not copied behind its head, but handed over beside it."""
_AHEAD_MAX: Final = 16
"""Requests that a client may have sent ahead while we read on, to notice when it leaves."""
_AHEAD_BYTES_MAX: Final = 256 << 10
"""Of their bodies."""
_HEAD_TOO_LARGE: Final = b'{"error":"the request\'s head is too large","code":"head_too_large"}'
_NO_HTTP: Final = b'{"error":"this is no HTTP/1.1 request","code":"invalid_http"}'
_LAST_RESPONSE: Final = (
    b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
    b"connection: close\r\n\r\n%b"
)


class HttpLimits(NamedTuple):
    """What connections may cost."""

    keep_alive_s: float = 75
    """How long an idle one stays open."""
    head_bytes_max: int = 64 << 10
    """Of a request line and headers."""
    stall_s: float = 10.0
    """How often a slow one is looked at."""
    stall_bytes_min: int = 1 << 10
    """What it must have moved since the last look."""
    connections_max: int = 16384
    """Open at once; further ones are closed as they come."""


class Owner(Protocol):
    """The server of a connection, as far as it looks at it."""

    limits: HttpLimits
    state: ServerState
    direct: Offer | None
    is_stopping: bool
    idle: asyncio.Event


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


class _Nowhere:
    """In place of a request's headers once its head is whole: what stands behind a chunked body.

    uvicorn adds it to the headers, which an app may not have read yet. A proxy that checks or sets
    a header does not look there.
    """

    def append(self, _: tuple[bytes, bytes]) -> None:
        """Drop it."""


class _Flow(FlowControl):
    """Reads on only while few requests wait behind another.

    uvicorn pauses at each that does, but whoever listens for a client's leaving has it read on, and
    so has every answer: a client that sends faster than it is served would fill our memory.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        waiting: Collection[tuple[RequestResponseCycle, ASGI3Application]],
    ) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        """Read on, or not yet."""
        waiting = self._waiting
        if len(waiting) > _AHEAD_MAX:
            return
        if waiting and sum(len(cycle.body) for cycle, _ in waiting) > _AHEAD_BYTES_MAX:
            return
        super().resume_reading()


class Connection(HttpToolsProtocol):
    """uvicorn's protocol with limits on size, silence and slowness.

    Invariants: `_stall` is armed only while the client owes bytes of a request, `_unread` only
    while we owe more bytes of answers than the transport likes to keep.
    """

    def __init__(self, server: Owner, config: Config, state: ServerState) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        self._server = server
        self._is_in_head = False
        self._is_in_message = False
        self._is_behind = False
        """What was received last began with the end of another request, or with some of a body."""
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
        self.flow = _Flow(self.transport, self.pipeline)
        if len(self._server.state.connections) > self._server.limits.connections_max:
            self.transport.abort()
            return
        self._server.idle.clear()
        if self._server.is_stopping:
            self.transport.abort()  # accepted in the loop's step in which the listener closed
            return
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers and what waited; the last one out tells the server."""
        super().connection_lost(exc)
        self.pipeline.clear()  # this connection lives on until the collector finds it
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
        self.headers = _Nowhere()  # type: ignore[assignment]  # a trailer replaces no header
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

    def on_body(self, body: bytes) -> None:
        """On the short way a body is put together here; its length was declared and allowed."""
        self._is_behind = True
        self._head_bytes = 0
        if self._direct is not None and self.cycle is self._running:
            self.cycle.body += body
        else:
            super().on_body(body)

    def on_response_complete(self) -> None:
        """A response without a body has nothing that its head could wait for."""
        self._out.flush()
        super().on_response_complete()
        if not self.transport.is_closing():
            self.flow.resume_reading()  # one fewer waits

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
            whole, cycle.body = cycle.body, bytearray()
            body = whole if len(whole) > DIRECT_BYTES_MAX else bytes(whole)
            self._direct.run(body, partial(self._deliver, cycle))

    def _deliver(self, cycle: RequestResponseCycle, answer: Answer) -> None:
        """Write an answer of the short way, and do what uvicorn does after a response."""
        self._direct = None
        cycle.response_started = cycle.response_complete = True
        response = response_bytes(answer, is_kept_alive=cycle.keep_alive)
        if answer.tail:
            self.transport.writelines((response, *answer.tail))
        else:
            self.transport.write(response)
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
                self._server.limits.stall_s, self._look_at_idle_reader, owed_bytes
            )
        else:
            super().timeout_keep_alive_handler()

    @property
    def _stall_bytes_min(self) -> int:
        return self._server.limits.stall_bytes_min

    def _note_incomplete(self, size_bytes: int) -> None:
        self._moved_bytes += size_bytes
        if not self._is_behind:  # it is of a head, or of a trailer
            self._head_bytes += size_bytes
            if self._head_bytes > self._server.limits.head_bytes_max:
                self._refuse(b"431 Request Header Fields Too Large", _HEAD_TOO_LARGE)
                return
        if self._stall is None:
            self._stall = self.loop.call_later(self._server.limits.stall_s, self._look_at_sender)

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
        running = self._running
        is_begun = running is not None and not running.response_complete
        is_answer_due = is_begun and not (running is self.cycle and running.more_body)
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
        self._stall = self.loop.call_later(self._server.limits.stall_s, self._look_at_sender)

    def _look_at_idle_reader(self, owed_bytes_before: int) -> None:
        if not self._end_if_unread(owed_bytes_before):
            self.timeout_keep_alive_handler()

    def _watch_reader(self) -> None:
        self._unread = self.loop.call_later(
            self._server.limits.stall_s,
            self._look_at_reader,
            self.transport.get_write_buffer_size(),
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
