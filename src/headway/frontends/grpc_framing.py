"""gRPC on HTTP/2 as bytes: messages in a body, headers and trailers of an answer, a call's time.

Pure: bytes in, values out, and back. Knows no service and no connection.
"""

import zlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from hpack import NeverIndexedHeaderTuple

from headway.frontends.grpc_status import StatusCode
from headway.frontends.http2_stream import Headers

__all__ = [
    "HEAD",
    "OK",
    "TEXT_BYTES_MAX",
    "Message",
    "MessageError",
    "MessageReader",
    "TooLargeError",
    "inflate",
    "message_prefix",
    "timeout_ns",
    "trailers",
]

PREFIX_BYTES: Final = 5
TEXT_BYTES_MAX: Final = 4096
"""Of an error's text, once it is quoted."""
_TIMEOUT_DIGITS_MAX: Final = 8
_UNITS_NS: Final = {
    b"H": 3_600_000_000_000,
    b"M": 60_000_000_000,
    b"S": 1_000_000_000,
    b"m": 1_000_000,
    b"u": 1_000,
    b"n": 1,
}
_WINDOW_BITS: Final = {b"gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}


class MessageError(Exception):
    """A body that is no gRPC message."""

    code = StatusCode.INTERNAL


class TooLargeError(MessageError):
    """A message of more bytes than allowed."""

    code = StatusCode.RESOURCE_EXHAUSTED


# --- bodies ---------------------------------------------------------------------------------------


class Message(NamedTuple):
    """One message of a body."""

    data: bytes | bytearray
    is_compressed: bool
    body_bytes: int
    """What it took of the body."""


class MessageReader:
    """Puts the pieces of a body together.

    Args:
        bytes_max: of a message.

    Invariants: it holds what has come of one message, and nothing that has been handed out.
    """

    __slots__ = ("_bytes_max", "_held", "_wanted")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held = bytearray()
        self._wanted = 0
        """Bytes of the message under way, its prefix included; 0 while that is not known."""

    @property
    def is_between(self) -> bool:
        """No message has begun that has not ended."""
        return not self._held

    def feed(self, data: bytes) -> list[Message]:
        """Take a piece; the messages that it completes.

        Cost: one copy of each byte.

        Raises:
            TooLargeError: a message is too large; its prefix alone says so.
            MessageError: a prefix is none.
        """
        messages: list[Message] = []
        start, stop = 0, len(data)
        while start < stop:
            if not self._held and stop - start >= PREFIX_BYTES:
                size = self._size_of(data, start)
                if stop - start >= size:
                    body = data[start + PREFIX_BYTES : start + size]
                    messages.append(Message(body, bool(data[start]), size))
                    start += size
                    continue
                self._wanted = size
            start = self._hold(data, start)
            if self._wanted and len(self._held) == self._wanted:
                held, self._held, size = self._held, bytearray(), self._wanted
                self._wanted = 0
                is_compressed = bool(held[0])
                del held[:PREFIX_BYTES]
                messages.append(Message(held, is_compressed, size))
        return messages

    def _hold(self, data: bytes, start: int) -> int:
        """Keep what belongs to the message under way; where that ends."""
        held = self._held
        wanted = self._wanted or PREFIX_BYTES
        taken = min(len(data), start + wanted - len(held))
        held += memoryview(data)[start:taken]
        if not self._wanted and len(held) == PREFIX_BYTES:
            self._wanted = self._size_of(held, 0)
        return taken

    def _size_of(self, data: bytes | bytearray, start: int) -> int:
        if data[start] > 1:
            raise MessageError(f"a message begins with {data[start]}")
        length = int.from_bytes(data[start + 1 : start + PREFIX_BYTES])
        if length > self._bytes_max:
            raise TooLargeError(
                f"a message of {length} bytes is larger than the {self._bytes_max} allowed"
            )
        return PREFIX_BYTES + length


def message_prefix(size_bytes: int) -> bytes:
    """What stands before a message that is not compressed."""
    return b"\0" + size_bytes.to_bytes(4)


def inflate(data: bytes | bytearray, coding: bytes, bytes_max: int) -> bytes:
    """Undo the compression of a message.

    Raises:
        MessageError: it is not what its headers say.
        TooLargeError: there is more in it than allowed.
    """
    bits = _WINDOW_BITS.get(coding)
    if bits is None:
        raise MessageError(f"`{coding[:40].decode('latin-1')}` is neither gzip nor deflate")
    unpacker = zlib.decompressobj(bits)
    try:
        text = unpacker.decompress(data, bytes_max + 1)
    except zlib.error as error:
        raise MessageError(f"a message is no {coding.decode()}: {error}") from None
    if len(text) > bytes_max:
        raise TooLargeError(f"a message is larger than the {bytes_max} bytes allowed")
    if not unpacker.eof or unpacker.unused_data:
        raise MessageError(f"a message is not one whole {coding.decode()} stream")
    return text


# --- headers --------------------------------------------------------------------------------------


def timeout_ns(value: bytes) -> int | None:
    """What `grpc-timeout` grants; None where it says nothing that can be understood."""
    digits, unit = value[:-1], value[-1:]
    if not digits.isdigit() or len(digits) > _TIMEOUT_DIGITS_MAX or unit not in _UNITS_NS:
        return None
    return int(digits) * _UNITS_NS[unit]


HEAD: Final[Headers] = ((b":status", b"200"), (b"content-type", b"application/grpc"))
"""The headers of every answer."""
OK: Final[Headers] = ((b"grpc-status", b"0"),)
"""The trailers of one that is whole."""


def trailers(code: int, text: str, metadata: Iterable[tuple[str, str]] = ()) -> Headers:
    """Those of a call that failed; what differs from call to call is kept out of HPACK's tables."""
    pairs = [(b"grpc-message", _quoted(text))]
    pairs += [(name.encode(), value.encode()) for name, value in metadata]
    return (
        (b"grpc-status", b"%d" % code),
        *[NeverIndexedHeaderTuple(name, value) for name, value in pairs],
    )


def _quoted(text: str) -> bytes:
    """Printable ASCII as it is, all else and `%` as `%XX`, as gRPC has it."""
    quoted = bytearray()
    for byte in text.encode():
        piece = b"%c" % byte if 0x20 <= byte <= 0x7E and byte != 0x25 else b"%%%02X" % byte
        if len(quoted) + len(piece) > TEXT_BYTES_MAX:
            break
        quoted += piece
    return bytes(quoted)
