"""The little of ASGI that an app without a framework needs: read a request, send an answer.

Knows heads and bodies, their limits and their codings. Refuses to know what is in them.
"""

import asyncio
import logging
import zlib
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    MutableMapping,
)
from contextlib import AbstractContextManager, aclosing
from typing import Any, Final, NamedTuple

from headway.errors import HeadwayError, InvalidRequestError, RequestCancelledError
from headway.frontends.rest_errors import Answer, Headers, HttpError, id_headers, prediction_headers

__all__ = [
    "CODING",
    "GONE",
    "HEADERS_MAX",
    "LENGTH",
    "Receive",
    "Scope",
    "Send",
    "Stream",
    "answer_with",
    "compress",
    "decompress",
    "headers_of",
    "read_body",
    "read_whole",
    "respond",
    "wrong_method",
]

HEADERS_MAX: Final = 100
"""Headers of one request."""
LENGTH: Final = b"content-length"
CODING: Final = b"content-encoding"
GONE: Final = 499
"""Counted, never sent: the client has left."""

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_WINDOW_BITS: Final = {b"gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}
_CLOSE: Final = ((b"connection", b"close"),)
_THREAD_BYTES_MIN: Final = 64 << 10
"""From here on zlib works in a thread, so that health checks need not wait for it."""
_log: Final = logging.getLogger(__name__)


class Stream(NamedTuple):
    """An answer whose body is sent as it is made; its status is 200."""

    headers: Headers
    pieces: Callable[[], AsyncGenerator[bytes, None]]
    """Called once, unless only the head is wanted."""
    watched: Callable[[], AbstractContextManager[object]]
    """Gives a context in which the task is cancelled when the client leaves."""


async def answer_with(
    scope: Scope,
    send: Send,
    counts: MutableMapping[int, int],
    answering: Awaitable[Answer | Stream],
    told: Callable[[Exception], Answer],
) -> None:
    """Send what a request comes to, be it an error, and count it.

    Args:
        scope: of the ASGI call, as is ``send``.
        counts: answers so far by status, `GONE` for clients that left before theirs.
        answering: gives the answer, or raises why there is none.
        told: how a protocol tells its clients of an error.
    """
    try:
        answer = await answering
    except RequestCancelledError as error:
        _log.debug("499: %s", error)
        counts[GONE] = counts.get(GONE, 0) + 1
        return
    except (HeadwayError, HttpError) as error:
        answer = told(error)
    except Exception as error:  # noqa: BLE001 (a bug in one request must not go unanswered)
        _log.error("a request to `%s` failed", scope["path"], exc_info=error)
        answer = told(error)
    is_head = scope["method"] == "HEAD"
    if isinstance(answer, Stream):
        counts[200] = counts.get(200, 0) + 1
        await _respond_in_pieces(send, answer, is_head=is_head)
        return
    counts[answer.status] = counts.get(answer.status, 0) + 1
    await respond(send, answer, is_head=is_head)


def headers_of(scope: Scope, wanted: frozenset[bytes]) -> dict[bytes, bytes]:
    """The few headers that an app reads.

    Raises:
        HttpError: 431, the request has too many.
    """
    headers = scope["headers"]
    if len(headers) > HEADERS_MAX:
        raise HttpError(431, "too_many_headers", f"the request has more than {HEADERS_MAX} headers")
    return {name: value for name, value in headers if name in wanted}


def wrong_method(scope: Scope, allowed: Iterable[str]) -> HttpError:
    """405, with the methods that the path has; whatever has GET has HEAD."""
    names = {*allowed}
    methods = ", ".join(sorted(names | {"HEAD"} if "GET" in names else names))
    return HttpError(
        405,
        "method_not_allowed",
        f"`{scope['path'][:200]}` takes {methods}, not {scope['method']}",
        headers=((b"allow", methods.encode()),),
    )


async def read_whole(receive: Receive, headers: Mapping[bytes, bytes], bytes_max: int) -> bytes:
    """A request's body, decompressed.

    Raises:
        HttpError: as `read_body` and `decompress` do.
        InvalidRequestError: the body is not what its header says.
        RequestCancelledError: the client left before it was complete.
    """
    body = await read_body(receive, bytes_max, headers.get(LENGTH))
    return await decompress(body, headers[CODING], bytes_max) if CODING in headers else body


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
        *id_headers(answer.request_id),
        (b"content-length", b"%d" % len(answer.body)),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if is_head else answer.body})


async def _respond_in_pieces(send: Send, stream: Stream, *, is_head: bool) -> None:
    """Send pieces as they come; to a client that has left, no more of them."""
    await send({"type": "http.response.start", "status": 200, "headers": [*stream.headers]})
    if not is_head:
        try:
            with stream.watched():
                async with aclosing(stream.pieces()) as pieces:
                    async for piece in pieces:
                        message = {"type": "http.response.body", "body": piece, "more_body": True}
                        await send(message)
        except RequestCancelledError:
            return
    await send({"type": "http.response.body", "body": b""})


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
