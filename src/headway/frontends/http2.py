"""The server's end of an HTTP/2 connection: the `h2` package between a transport and exchanges.

h2 reads and writes frames and headers, keeps both sides' windows, and refuses what breaks the
protocol, headers that HTTP forbids among it. It bounds the bytes of a list of headers, the pieces
that it comes in, and the streams that are open. What it leaves to whoever uses it is here:

- What happens in one step of the loop leaves in one write, and large answers as there is room.
- Who does not read what we send is not read from either, and who has read or sent next to nothing
  for `stall_s` of what is due is let go, as over HTTP/1.1.
- Who says nothing is asked whether it is there; who never says what it speaks is let go.
- Streams that are taken back as soon as they are opened, pings, settings and whatever else asks for
  no answer are counted, and are too many at some point.
- An orderly end, from either side: h2 knows a goodbye only as the end of everything.

Refuses to know what is in a request: an `Exchange` does.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, Protocol, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    PingReceived,
    PriorityUpdated,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    UnknownFrameReceived,
    WindowUpdated,
)
from h2.exceptions import ProtocolError, StreamClosedError
from h2.frame_buffer import FrameBuffer
from h2.settings import SettingCodes, Settings
from hyperframe.frame import DataFrame, Frame, GoAwayFrame

from headway.frontends.http2_stream import Exchange, Headers, Stream

__all__ = ["Http2Connection", "Limits", "Open", "Owner"]

_STREAM_WINDOW_BYTES: Final = 4 << 20
"""What may be under way to us in one stream."""
_WINDOW_BYTES: Final = 64 << 20
"""And in all of them: some may hold their share for long, and the others go on."""
_WINDOW_BYTES_AT_FIRST: Final = (1 << 16) - 1
_WRITE_BYTES: Final = 64 << 10
"""Of a large answer that are handed to the transport at once, which says when it has enough."""
_UNREAD_BYTES_MAX: Final = 1 << 20
_IDLE_FRAMES_MAX: Final = 10_000
"""Between two looks, beyond the answers that were sent meanwhile."""
_CLOSED_STREAMS_MAX: Final = 1024
"""Of which it is remembered how they ended."""
_PING: Final = bytes(8)


class Limits(NamedTuple):
    """What a connection may ask of us."""

    streams_max: int = 1024
    head_bytes_max: int = 64 << 10
    keep_alive_s: float = 60.0
    """Who says nothing for so long is asked, and gone if there is no answer in as long again."""
    stall_s: float = 10.0
    """How often a slow one is looked at."""
    stall_bytes_min: int = 1 << 10
    """What it must have moved since the last look."""


Open = Callable[[Stream, Headers], Exchange | None]
"""Who answers a request with these headers; None where it has been answered already."""


class Owner(Protocol):
    """Who keeps connections. One whose handshake fails never comes."""

    def came(self, connection: "Http2Connection") -> None:
        """It is there."""

    def left(self, connection: "Http2Connection") -> None:
        """It has ended."""


class _Look(NamedTuple):
    """What was seen of a connection's pace."""

    received_bytes: int
    taken_bytes: int
    owing: frozenset[int]
    """Streams whose client has yet to send something."""
    unread: frozenset[int]
    """Streams whose answers are whole, and wait for their client; 0 for the transport itself."""


class Http2Connection(asyncio.Protocol):
    """One connection.

    Args:
        open_exchange: who answers a request.
        limits: what the other side may ask.
        owner: is told when the connection is there, and when it has ended.

    Invariants: a stream's exchange is told of its going once, unless it has finished; what has come
    of a stream is credited once, when it is used up or with the stream's end.
    """

    def __init__(self, open_exchange: Open, limits: Limits, owner: Owner) -> None:
        self._open_exchange = open_exchange
        self._limits = limits
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._h2 = _server_side(limits)
        self.streams: dict[int, Stream] = {}
        self._waiting: dict[int, Stream] = {}
        """Those that have something to send, whose turn it is first."""
        self._last_id = 0
        self._received_bytes = self._written_bytes = 0
        self._idle_frames = 0
        """Those since the last look that asked for no answer."""
        self._is_due = False
        """What there is to send will be sent at the end of this step of the loop."""
        self._is_greeted = self._is_stopping = self._is_paused = False
        self._heard_bytes = 0
        """Of what was received, at the last look."""
        self._is_asked = False
        self._look: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None

    # --- the transport's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say what may be asked of us."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_UNREAD_BYTES_MAX)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_WINDOW_BYTES - _WINDOW_BYTES_AT_FIRST)
        self._flush()
        self._look = self._loop.call_later(self._limits.keep_alive_s, self._look_after)
        self._owner.came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody waits any more."""
        for timer in (self._look, self._stall):
            if timer is not None:
                timer.cancel()
        self._let_go()
        self._owner.left(self)

    def pause_writing(self) -> None:
        """Much is unread: until it is read, nothing new is heard."""
        self._is_paused = True
        self._transport.pause_reading()
        self._watch()

    def resume_writing(self) -> None:
        """Go on."""
        self._is_paused = False
        self._transport.resume_reading()
        self._push_all()

    def data_received(self, data: bytes) -> None:
        """Take frames, whole or in pieces."""
        self._received_bytes += len(data)
        try:
            events = self._h2.receive_data(data)
        except ProtocolError:
            self._end()  # h2 has written why
            return
        for event in self._without_resets(events):
            self._act(event)
        if self._idle_frames > _IDLE_FRAMES_MAX:
            self._h2.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            self._end()
            return
        if not self._is_due:
            self._flush()
        if self._stall is None and self.streams:
            self._watch()

    # --- what streams and the server ask for ---

    def send_headers(self, stream_id: int, headers: Headers) -> None:
        """See `Wire.send_headers`."""
        self._h2.send_headers(stream_id, headers)
        self._flush_soon()

    def credit(self, stream_id: int, size_bytes: int) -> None:
        """See `Wire.credit`."""
        self._h2.acknowledge_received_data(size_bytes, stream_id)
        self._flush_soon()

    def push(self, stream: Stream) -> None:
        """See `Wire.push`."""
        stream_id = stream.stream_id
        self._waiting.pop(stream_id, None)
        if not self._send(stream):
            self._waiting[stream_id] = stream
            self._watch()
        elif stream.tail is None:
            stream.exchange.on_room()
        else:
            self._h2.send_headers(stream_id, stream.tail, end_stream=True)
            self._idle_frames -= self._idle_frames > 0
            if not stream.is_heard:
                with suppress(StreamClosedError):  # h2 may have read the end, and tells it next
                    self._h2.reset_stream(stream_id, ErrorCodes.NO_ERROR)
            self._forget(stream)
        self._flush_soon()

    def shutdown(self) -> None:
        """Take no new streams, and close once those under way have ended."""
        if not self._is_stopping:
            self._is_stopping = True
            self._flush()
            # Of its own, h2 would send nothing more (https://github.com/python-hyper/h2/issues/1181).
            self._write(GoAwayFrame(last_stream_id=self._last_id).serialize())
            self._close_if_done()

    def abort(self) -> None:
        """End it now."""
        self._transport.abort()

    # --- sending ---

    def _send(self, stream: Stream) -> bool:
        """Send data; whether all were."""
        h2, stream_id, waiting = self._h2, stream.stream_id, stream.waiting
        unwritten_bytes = 0
        while waiting:
            room = min(h2.local_flow_control_window(stream_id), h2.max_outbound_frame_size)
            if room <= 0 or self._is_paused:
                return False
            part = waiting[0]
            if len(part) > room:
                whole = memoryview(part)
                part, waiting[0] = whole[:room], whole[room:]
            else:
                waiting.popleft()
            h2.send_data(stream_id, cast(bytes, part))
            unwritten_bytes += len(part)
            if unwritten_bytes >= _WRITE_BYTES:
                self._flush()
                unwritten_bytes = 0
        return not self._is_paused

    def _push_all(self) -> None:
        for stream in list(self._waiting.values()):
            if self._is_paused:
                return
            self.push(stream)

    def _flush_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_due = False
        data = self._h2.data_to_send()
        if data:
            self._write(data)

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._written_bytes += len(data)
            self._transport.write(data)

    # --- what the client does ---

    def _without_resets(self, events: list[Event]) -> list[Event]:
        """Heed them first: h2 has, and sends nothing more for what was asked before them."""
        gone = {event.stream_id for event in events if isinstance(event, StreamReset)}
        if not gone:
            return events
        self._idle_frames += len(gone)
        for stream_id in gone & self.streams.keys():
            stream = self.streams[stream_id]
            self._forget(stream)
            stream.exchange.on_gone()
        return [event for event in events if getattr(event, "stream_id", 0) not in gone]

    def _act(self, event: Event) -> None:
        match event:
            case RequestReceived():
                self._on_request(event)
            case DataReceived():
                self._on_data(event)
            case StreamEnded():
                stream = self.streams.get(event.stream_id)
                if stream is not None:
                    stream.is_heard = True
                    stream.exchange.on_end()
            case WindowUpdated():
                waiting = self._waiting.get(event.stream_id)
                if waiting is not None:
                    self.push(waiting)
                elif event.stream_id == 0:
                    self._push_all()
            case RemoteSettingsChanged():
                self._is_greeted = True
                self._idle_frames += 1
                self._push_all()
            case PingReceived() | PriorityUpdated() | UnknownFrameReceived():
                self._idle_frames += 1
            case _:
                pass

    def _on_request(self, event: RequestReceived) -> None:
        stream_id = event.stream_id
        if self._is_stopping:
            self._h2.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        self._last_id = stream_id
        stream = Stream(self, stream_id, is_heard=event.stream_ended is not None)
        self.streams[stream_id] = stream
        exchange = self._open_exchange(stream, cast(Headers, event.headers))
        if exchange is not None:
            stream.exchange = exchange

    def _on_data(self, event: DataReceived) -> None:
        stream_id, size = event.stream_id, event.flow_controlled_length
        stream = self.streams.get(stream_id)
        if stream is None:
            self.credit(stream_id, size)
            return
        if not size and event.stream_ended is None:
            self._idle_frames += 1
        data = event.data
        stream.owed_bytes += size
        stream.credit(size - len(data))
        if data:
            stream.exchange.on_data(data)

    # --- the end ---

    def _watch(self) -> None:
        """Look again in a while at how fast the other side is."""
        if self._stall is None:
            self._stall = self._loop.call_later(
                self._limits.stall_s, self._look_at_pace, self._pace()
            )

    def _pace(self) -> _Look:
        waiting = self._waiting.items()
        unread = frozenset([stream_id for stream_id, one in waiting if one.tail is not None])
        owing: frozenset[int] = frozenset()
        if self._is_paused:
            unread |= {0}
        else:
            owing = frozenset([key for key, one in self.streams.items() if _is_owed(one)])
        taken_bytes = self._written_bytes - self._transport.get_write_buffer_size()
        return _Look(self._received_bytes, taken_bytes, owing, unread)

    def _look_at_pace(self, before: _Look) -> None:
        self._stall = None
        now, least = self._pace(), self._limits.stall_bytes_min
        is_slow_sender = now.owing & before.owing and (
            now.received_bytes - before.received_bytes < least
        )
        is_slow_reader = now.unread & before.unread and now.taken_bytes - before.taken_bytes < least
        if is_slow_sender or is_slow_reader:
            self.abort()
        elif self.streams or self._is_paused:
            self._watch()

    def _look_after(self) -> None:
        """Ask whoever has said nothing; let go of who did not answer."""
        if self._received_bytes > self._heard_bytes and self._is_greeted:
            self._is_asked = False
        elif self._is_asked or not self._is_greeted:
            self.abort()
            return
        else:
            self._is_asked = True
            self._h2.ping(_PING)
            self._flush()
        self._heard_bytes = self._received_bytes
        self._idle_frames = 0
        self._look = self._loop.call_later(self._limits.keep_alive_s, self._look_after)

    def _forget(self, stream: Stream) -> None:
        """A stream has ended."""
        stream.is_open = False
        del self.streams[stream.stream_id]
        self._waiting.pop(stream.stream_id, None)
        stream.credit(stream.owed_bytes)
        self._close_if_done()

    def _let_go(self) -> None:
        streams = list(self.streams.values())
        self.streams.clear()
        self._waiting.clear()
        for stream in streams:
            stream.is_open = False
            stream.exchange.on_gone()

    def _end(self) -> None:
        """Send what is left, and no more; who does not take it is cut off."""
        if self._transport.is_closing():
            return
        self._flush()
        self._transport.close()
        if self._stall is not None:
            self._stall.cancel()
        self._stall = self._loop.call_later(self._limits.stall_s, self.abort)
        self._let_go()

    def _close_if_done(self) -> None:
        if self._is_stopping and not self.streams:
            self._end()


class _Frames(FrameBuffer):
    """Frames as they come, but for two things that h2 makes of them.

    A client's goodbye is left out: it opens no more streams, and those that there are go on (RFC
    9113, 6.8), but h2 would neither read nor send anything more
    (https://github.com/python-hyper/h2/issues/1181). Java's client says it while it waits.

    Data are not spelt out: h2 4.4 has each frame written in hexadecimal for a log of its own, kept
    or not, and of a large message that takes longer than all else.
    """

    def __next__(self) -> Frame:
        frame = super().__next__()
        while isinstance(frame, GoAwayFrame):
            frame = super().__next__()
        if isinstance(frame, DataFrame):
            frame._body_repr = str  # type: ignore[method-assign]  # noqa: SLF001
        return frame


class _Server(H2Connection):
    """Remembers fewer streams that have ended than are usual, for there are many connections."""

    MAX_CLOSED_STREAMS = _CLOSED_STREAMS_MAX


def _server_side(limits: Limits) -> H2Connection:
    """h2, for a server of gRPC.

    What it receives is checked as the protocol has it. What it sends is not: no user has a say in
    the names of those headers, which are written in lower case here. Frames stay at 16 KiB, the
    least that there is: headers may come in 64 of them before they are looked at.
    """
    h2 = _Server(
        H2Configuration(
            client_side=False,
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    h2.local_settings = Settings(
        client=False,
        initial_values={
            SettingCodes.MAX_CONCURRENT_STREAMS: limits.streams_max,
            SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW_BYTES,
            SettingCodes.MAX_HEADER_LIST_SIZE: limits.head_bytes_max,
        },
    )
    h2.decoder.max_header_list_size = limits.head_bytes_max
    h2.incoming_buffer = _Frames(server=True)
    return h2


def _is_owed(stream: Stream) -> bool:
    return not stream.is_heard and stream.exchange.is_owed
