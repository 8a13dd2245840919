"""The little of ASGI that an app without a framework needs: read a body, send an answer.

Knows bodies, their limits and their codings. Refuses to know what is in them.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from headway.errors import InvalidRequestError, RequestCancelledError
from headway.frontends.rest_errors import Answer, HttpError, prediction_headers

__all__ = ["Receive", "Scope", "Send", "compress", "decompress", "read_body", "respond"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_WINDOW_BITS: Final = {b"gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}
_CLOSE: Final = ((b"connection", b"close"),)
_THREAD_BYTES_MIN: Final = 64 << 10
"""From here on zlib works in a thread, so that health checks need not wait for it."""


async def read_body(receive: Receive, bytes_max: int, declared: bytes | None) -> bytes:
    """Read a request's body.

    Args:
        receive: of the ASGI call.
        bytes_max: a larger body is refused as soon as it is known to be.
        declared: the header `content-length`, if there is one.

    Raises:
        HttpError: 413, the body is too large.
        RequestCancelledError: the client left before it was complete.
    """
    if declared is not None and declared.isdigit() and int(declared[:20]) > bytes_max:
        raise _too_large(bytes_max)
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        body: bytes = message.get("body", b"")
        if len(body) > bytes_max:
            raise _too_large(bytes_max)
        return body
    return await _read_pieces(receive, bytes_max, message)


async def _read_pieces(receive: Receive, bytes_max: int, message: Message) -> bytes:
    pieces = bytearray()
    while message["type"] == "http.request":
        pieces += message.get("body", b"")
        if len(pieces) > bytes_max:
            raise _too_large(bytes_max)
        if not message.get("more_body", False):
            return bytes(pieces)
        message = await receive()
    raise RequestCancelledError("the client left before its request was complete")


async def respond(send: Send, answer: Answer, *, is_head: bool = False) -> None:
    """Send a whole response."""
    headers = [
        *answer.headers,
        *prediction_headers(answer.foreseen),
        (b"content-length", b"%d" % len(answer.body)),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if is_head else answer.body})


async def decompress(body: bytes, coding: bytes, bytes_max: int) -> bytes:
    """Undo a request's `content-encoding`, never to more than ``bytes_max``.

    Raises:
        HttpError: 413, there is more in it; 415, a coding other than gzip, deflate, identity.
        InvalidRequestError: the body is not what the header says.
    """
    coding = coding.strip().lower()
    if coding in {b"", b"identity"}:
        return body
    if coding not in _WINDOW_BITS:
        name = coding[:80].decode("latin-1")
        raise HttpError(
            415, "unsupported_encoding", f"Content-Encoding `{name}` is not gzip, deflate, identity"
        )
    if len(body) < _THREAD_BYTES_MIN:
        return _inflate(body, coding, bytes_max)
    return await asyncio.to_thread(_inflate, body, coding, bytes_max)


async def compress(body: bytes, coding: bytes) -> bytes:
    """Apply ``gzip`` or ``deflate`` to a response, fast rather than small."""
    if len(body) < _THREAD_BYTES_MIN:
        return _deflate(body, coding)
    return await asyncio.to_thread(_deflate, body, coding)


def _inflate(body: bytes, coding: bytes, bytes_max: int) -> bytes:
    unpacker = zlib.decompressobj(_WINDOW_BITS[coding])
    try:
        text = unpacker.decompress(body, bytes_max + 1)
    except zlib.error as error:
        raise InvalidRequestError(f"the body is no {coding.decode()}: {error}") from None
    if len(text) > bytes_max:
        raise _too_large(bytes_max)
    if not unpacker.eof or unpacker.unused_data:
        raise InvalidRequestError(f"the body is not one whole {coding.decode()} stream")
    return text


def _deflate(body: bytes, coding: bytes) -> bytes:
    packer = zlib.compressobj(level=1, wbits=_WINDOW_BITS[coding])
    return packer.compress(body) + packer.flush()


def _too_large(bytes_max: int) -> HttpError:
    # Closed, because the rest of the body may be on its way and nobody will read it.
    return HttpError(
        413,
        "body_too_large",
        f"the body has more than the {bytes_max} bytes allowed (hint: send less, or raise the"
        " server's limit)",
        headers=_CLOSE,
    )
