"""The short way of an infer request: no task, no ASGI messages, one write.

Measured, uvicorn's task, scope and messages cost an echo of sixteen floats more than decoding,
scheduling and encoding together (`docs/internals/adr/0006`). So a small infer request whose body is
whole is answered from the protocol's own callbacks: decode, `Engine.submit`, and, when the engine
calls back, encode and write. So is a large one whose tensors are bytes, of which the way through
ASGI makes four more copies (`docs/internals/copies.md`). Everything else, large JSON and whatever
is compressed or chunked, takes the ASGI app. Both ways share the codec, the errors and the engine,
so they answer alike; a test sends the same requests through both.

A client that leaves is noticed by its connection at once, and its request cancelled. Only where it
had sent a further request behind, reading is held back until the first is answered, and so is this.
"""

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from headway.core import RequestId
from headway.errors import HeadwayError
from headway.frontends.asgi import GONE, Scope
from headway.frontends.client_call import HEADER_LENGTH
from headway.frontends.oip_reply import encode_parts
from headway.frontends.oip_request import DecodedInfer, ReplyForm
from headway.frontends.rest_errors import (
    JSON_TYPE,
    Answer,
    Headers,
    HttpError,
    answer_to,
    id_headers,
    late_headers,
    prediction_headers,
)
from headway.runtime import Engine, InferReply
from headway.units import NS_PER_MS

__all__ = ["DIRECT_BYTES_MAX", "DirectCall", "Offer", "response_bytes"]

DIRECT_BYTES_MAX: Final = 48 << 10
"""Longer JSON is read by the ASGI app, which holds its sender back and has a thread parse it."""
_JOINED_BYTES_MAX: Final = 64 << 10
"""Longer tensors are not copied behind the JSON, but handed over beside it."""

BINARY_TYPE: Final = (b"content-type", b"application/octet-stream")
_JSON_HEADERS: Final[Headers] = (JSON_TYPE,)
_JSON_HEAD: Final = b"HTTP/1.1 200 OK\r\n%b: %b\r\n" % JSON_TYPE
_NAMED: Final = _JSON_HEAD + b"headway-request-id: %d\r\ncontent-length: %d\r\n\r\n%b"
_FORESEEN: Final = (
    _JSON_HEAD
    + b"headway-expected-ms: %.3f\r\nheadway-bound-ms: %.3f\r\nheadway-request-id: %d\r\n"
    + b"content-length: %d\r\n\r\n%b"
)
_log: Final = logging.getLogger(__name__)

Decode = Callable[[bytes | bytearray], DecodedInfer]
Deliver = Callable[[Answer], None]


class DirectCall:
    """One request on the short way.

    Args:
        engine: what answers.
        decode: what the body asks.
        count: is told the status of the answer.
        json_bytes: how much of a large body is JSON; 0 for a small one.

    Invariants: ``deliver`` is called once after `run`, unless `cancel` came first.
    """

    __slots__ = (
        "_count",
        "_decode",
        "_deliver",
        "_engine",
        "_form",
        "_json_bytes",
        "_request_id",
    )

    def __init__(
        self,
        engine: Engine,
        decode: Decode,
        count: Callable[[int], None],
        *,
        json_bytes: int = 0,
    ) -> None:
        self._engine = engine
        self._count = count
        self._decode = decode
        self._json_bytes = json_bytes
        self._deliver: Deliver | None = None
        self._form: ReplyForm | None = None
        self._request_id: RequestId | None = None

    def run(self, body: bytes | bytearray, deliver: Deliver) -> None:
        """Decode and submit; the answer may be delivered before this returns. Never raises."""
        self._deliver = deliver
        if _must_be_looked_through(body[: self._json_bytes]):
            loop = asyncio.get_running_loop()
            loop.run_in_executor(None, self._decode, body).add_done_callback(self._decoded)
            return
        try:
            self._submit(self._decode(body))
        except Exception as error:  # noqa: BLE001 (as in OipRest: nothing may go unanswered)
            self._fail(error)

    def _decoded(self, done: asyncio.Future[DecodedInfer]) -> None:
        """A thread has decoded the body."""
        if self._deliver is None:
            self._count(GONE)
            return
        try:
            self._submit(done.result())
        except Exception as error:  # noqa: BLE001 (as above)
            self._fail(error)

    def _submit(self, decoded: DecodedInfer) -> None:
        self._form = decoded.form
        self._request_id = self._engine.submit(decoded.call, self._on_end)

    def cancel(self) -> None:
        """The client has gone: nothing is delivered any more."""
        self._deliver = None
        if self._request_id is not None:
            self._engine.cancel(self._request_id)

    def _on_end(self, end: InferReply | HeadwayError) -> None:
        if not isinstance(end, InferReply):
            self._fail(end)
            return
        try:
            assert self._form is not None, "a call that was submitted was decoded"
            text, binary = encode_parts(end, self._form)
        except Exception as error:  # noqa: BLE001 (as above)
            self._fail(error)
            return
        headers = _JSON_HEADERS
        if binary:
            headers = (BINARY_TYPE, (HEADER_LENGTH, b"%d" % len(text)))
            if sum([len(part) for part in binary]) <= _JOINED_BYTES_MAX:
                text, binary = b"".join([text, *binary]), ()
        if end.late_ns:
            headers = (*headers, *late_headers(end.late_ns))
        self._answer(Answer(200, text, headers, end.foreseen, binary, end.request_id))

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, HeadwayError | HttpError):
            _log.error("an infer request failed", exc_info=error)
        self._answer(answer_to(error))

    def _answer(self, answer: Answer) -> None:
        deliver, self._deliver = self._deliver, None
        if deliver is None:
            self._count(GONE)
            return
        self._count(answer.status)
        deliver(answer)


Offer = Callable[[Scope], DirectCall | None]
"""Has an app look at a request whose head has been read: a call, or None for the ASGI way."""


def _must_be_looked_through(json: bytes | bytearray) -> bool:
    """Whether a large body has elements of sizes of their own, which takes a look at each."""
    return b"BYTES" in json or b"\\" in json  # or says so in a roundabout way


def response_bytes(answer: Answer, *, is_kept_alive: bool) -> bytes:
    """An HTTP/1.1 response, whole but for the answer's tail."""
    headers, body, foreseen = answer.headers, answer.body, answer.foreseen
    request_id = answer.request_id
    is_plain = len(headers) == 1 and headers[0] is JSON_TYPE and answer.status == 200
    if is_plain and is_kept_alive and request_id:
        if not foreseen.bound_ns:
            return _NAMED % (request_id, len(body), body)
        expected_ms, bound_ms = foreseen.mean_ns / NS_PER_MS, foreseen.bound_ns / NS_PER_MS
        return _FORESEEN % (expected_ms, bound_ms, request_id, len(body), body)
    lines = [_status_line(answer.status)]
    told = (*headers, *prediction_headers(foreseen), *id_headers(request_id))
    lines += [b"%b: %b\r\n" % pair for pair in told]
    if not is_kept_alive and b"connection" not in {name for name, _ in headers}:
        lines.append(b"connection: close\r\n")
    length = len(body) + sum([len(part) for part in answer.tail])
    lines.append(b"content-length: %d\r\n\r\n" % length)
    return b"".join(lines) + body


def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase.encode()
    except ValueError:
        phrase = b""
    return b"HTTP/1.1 %d %b\r\n" % (status, phrase)
