"""The other end of an HTTP/2 connection, in this process and without sockets: frames in and out.

Frames are laid out here, for a test sends what no library would; headers are read by `hpack`.
"""

import asyncio
from enum import IntEnum
from typing import Any, NamedTuple

from hpack import Decoder

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
FRAME_BYTES_MAX = 1 << 14


class Kind(IntEnum):
    """What a frame is."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


def frame(kind, flags, stream_id, payload=b""):
    """A whole frame, right or wrong."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream_id.to_bytes(4) + payload


def settings_frame(**settings):
    """Settings by their names: those of windows, frames, push."""
    keys = {"enable_push": 2, "initial_window_size": 4, "max_frame_size": 5}
    pairs = [keys[name].to_bytes(2) + value.to_bytes(4) for name, value in settings.items()]
    return frame(Kind.SETTINGS, 0, 0, b"".join(pairs))


def settings_of(payload):
    """What a settings frame says, by number."""
    pairs = [payload[at : at + 6] for at in range(0, len(payload), 6)]
    return {int.from_bytes(pair[:2]): int.from_bytes(pair[2:]) for pair in pairs}


def window_frame(stream_id, step):
    """So many bytes more may be sent."""
    return frame(Kind.WINDOW_UPDATE, 0, stream_id, step.to_bytes(4))


GREETING = PREFACE + settings_frame()
"""What every client begins with."""


class Frame(NamedTuple):
    """One that was sent to the client."""

    kind: int
    flags: int
    stream_id: int
    payload: bytes
    headers: dict[bytes, bytes] | None
    """Of a frame of headers."""

    @property
    def is_last(self) -> bool:
        """It ends its stream."""
        return bool(self.flags & END_STREAM) and self.kind in {Kind.DATA, Kind.HEADERS}


class Transport:
    """What a connection writes to."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.unread_bytes = 0
        self.is_over = self.is_aborted = self.is_reading_paused = False

    def write(self, data):
        """Keep it."""
        assert not self.is_over, "nothing is written to a closed transport"
        self.sent += data

    def writelines(self, parts):
        """Keep them."""
        for part in parts:
            self.write(part)

    def is_closing(self):
        """It was closed."""
        return self.is_over

    def close(self):
        """End it."""
        self.is_over = True

    def abort(self):
        """End it at once."""
        self.is_over = self.is_aborted = True

    def pause_reading(self):
        """Hear nothing for a while."""
        self.is_reading_paused = True

    def resume_reading(self):
        """Hear again."""
        self.is_reading_paused = False

    def set_write_buffer_limits(self, *, high):
        """Nothing is buffered here."""

    def get_write_buffer_size(self):
        """But what a test says."""
        return self.unread_bytes


def block(*pairs):
    """A header block of literals that change no table."""
    parts = []
    for text in (text for pair in pairs for text in pair):
        encoded = text.encode() if isinstance(text, str) else text
        assert len(encoded) < 127, "a longer one needs a longer length"
        parts.append(bytes((len(encoded),)) + encoded)
    return b"".join(b"\0" + parts[at] + parts[at + 1] for at in range(0, len(parts), 2))


def call_block(path, *more):
    """The headers of a gRPC call."""
    return block(
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "here"),
        (":path", path),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        *more,
    )


def headers(stream_id, head, *, is_last=False):
    """Headers, in as many frames as they need."""
    pieces = _pieces(head)
    kinds = [Kind.HEADERS] + [Kind.CONTINUATION] * (len(pieces) - 1)
    flags = [END_STREAM if is_last else 0] + [0] * (len(pieces) - 1)
    flags[-1] |= END_HEADERS
    return b"".join(map(frame, kinds, flags, [stream_id] * len(pieces), pieces))


def _pieces(body):
    """None longer than a server has to take, and one at least."""
    return [body[at : at + FRAME_BYTES_MAX] for at in range(0, len(body) or 1, FRAME_BYTES_MAX)]


def data(stream_id, body, *, is_last=False):
    """Frames of data, none longer than a server has to take."""
    pieces = _pieces(body)
    frames = [frame(Kind.DATA, 0, stream_id, piece) for piece in pieces[:-1]]
    return b"".join(
        [*frames, frame(Kind.DATA, END_STREAM if is_last else 0, stream_id, pieces[-1])]
    )


def message(body):
    """A gRPC message."""
    return b"\0" + len(body).to_bytes(4) + body


class Keeper:
    """Who keeps connections: those that came, and those that left."""

    def __init__(self):
        self.there, self.gone = [], []

    def came(self, connection):
        """It is there."""
        self.there.append(connection)

    def left(self, connection):
        """It has ended."""
        self.gone.append(connection)


class Client:
    """A client of a connection.

    Args:
        connection: the server's end.
        greeting: what it begins with.
    """

    def __init__(self, connection, greeting=GREETING):
        self.connection = connection
        self.transport = Transport()
        self._read = 0
        self._reader: Any = Decoder()
        connection.connection_made(self.transport)
        connection.data_received(greeting)

    async def say(self, *frames):
        """Send, let the server work, and return what it sent."""
        for one in frames:
            self.connection.data_received(one)
        return await self.hear()

    async def hear(self):
        """What the server has sent since the last time."""
        for _ in range(5):
            await asyncio.sleep(0)
        found = []
        sent = bytes(self.transport.sent)
        while self._read < len(sent):
            length = int.from_bytes(sent[self._read : self._read + 3])
            kind, flags = sent[self._read + 3 : self._read + 5]
            stream_id = int.from_bytes(sent[self._read + 5 : self._read + 9])
            start = self._read + 9
            self._read = start + length
            assert self._read <= len(sent), "only whole frames are written"
            payload = sent[start : self._read]
            said = dict(self._reader.decode(payload, raw=True)) if kind == Kind.HEADERS else None
            found.append(Frame(kind, flags, stream_id, payload, said))
        return found

    def leave(self):
        """Hang up."""
        self.connection.connection_lost(None)


def of(frames, kind):
    """Those of a kind."""
    return [one for one in frames if one.kind == kind]
