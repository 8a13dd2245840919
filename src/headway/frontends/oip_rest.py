"""The Open Inference Protocol over HTTP: an ASGI app without a framework.

The path of nearly every request, `POST /v2/models/M/infer`, is looked at first and costs the least:
no routing table, no task of its own, one pass over the headers. All else is in `oip_routes`.

Whatever goes wrong is answered with `{"error": "text", "code": "..."}`; the status numbers are in
`rest_errors`. Compressed requests are understood. A reply is compressed only when the client's
`Accept-Encoding` names `gzip` or `deflate` and nothing else: a list of all that a library can
decode is a habit, not a wish, and compressing tensors nobody asked to have compressed is time taken
from other requests.

Knows `Engine` and its errors. Refuses to know queues, workers and policies.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import Final, NamedTuple

from headway.core import ModelName
from headway.errors import HeadwayError, RequestCancelledError
from headway.frontends.asgi import (
    Receive,
    Scope,
    Send,
    compress,
    decompress,
    read_body,
    respond,
)
from headway.frontends.direct import BINARY_TYPE, DIRECT_BYTES_MAX, GONE, DirectCall
from headway.frontends.disconnect import DisconnectWatch
from headway.frontends.oip_raw import decode_raw_infer
from headway.frontends.oip_reply import encode_infer
from headway.frontends.oip_request import (
    HEADER_LENGTH,
    HEADER_NAMES,
    THREAD_BYTES_MIN,
    DecodedInfer,
    decode_infer,
)
from headway.frontends.oip_routes import Endpoint, OipRoutes, Target
from headway.frontends.rest_errors import JSON_TYPE, Answer, HttpError, answer_to, late_headers
from headway.frontends.shared_memory import Regions
from headway.runtime import Engine

__all__ = ["OipRest"]

HEADERS_MAX: Final = 100
"""Headers of one request."""

_log: Final = logging.getLogger(__name__)

_LENGTH: Final = b"content-length"
_CODING: Final = b"content-encoding"
_ACCEPT: Final = b"accept-encoding"
_STATUSES: Final = (200, 400, 403, 404, 405, 413, 429, 499, 500, 501, 503, 504)
_EXPECT: Final = b"expect"
_LENGTH_DIGITS_MAX: Final = 9
"""Of a length that is short; leading zeros must not make a long one look so."""
_READ_HEADERS: Final = HEADER_NAMES | {_LENGTH, _CODING, _ACCEPT}
_DIRECT_HEADERS: Final = _READ_HEADERS | {_EXPECT}
_REPLY_CODINGS: Final = frozenset({b"gzip", b"deflate"})


class InferPath(NamedTuple):
    """Whom an infer request is for."""

    model: ModelName
    version: str


class OipRest:
    """The protocol's REST side as an ASGI app.

    Args:
        engine: what answers.
        version: of the server, as its metadata says.
        regions: shared memory of clients; none may be registered by default.
        body_bytes_max: a larger body is refused; it bounds what decompresses to, too.
        can_load: whether clients may load and unload models.
        watch: shared with other apps of the same server.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        version: str,
        regions: Regions | None = None,
        body_bytes_max: int = 64 << 20,
        can_load: bool = True,
        watch: DisconnectWatch | None = None,
    ) -> None:
        self._engine = engine
        self._body_bytes_max = body_bytes_max
        self._watch = watch or DisconnectWatch()
        self._regions = regions or Regions(is_allowed=False)
        self._routes = OipRoutes(
            engine,
            version,
            regions=self._regions,
            can_load=can_load,
            body_bytes_max=body_bytes_max,
        )
        self.answers: dict[int, int] = dict.fromkeys(_STATUSES, 0)
        """Answers so far by status, 499 for clients that left before theirs."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        assert scope["type"] == "http", "neither lifespan events nor websockets are served here"
        path = infer_path(scope["path"]) if scope["method"] == "POST" else None
        try:
            if path is not None:
                answer = await self._infer(path, scope, receive)
            else:
                answer = await self._other(scope, receive)
        except RequestCancelledError as error:
            _log.debug("499: %s", error)
            self._count(GONE)
            return
        except (HeadwayError, HttpError) as error:
            answer = answer_to(error)
        except Exception as error:  # noqa: BLE001 (a bug in one request must not go unanswered)
            _log.error("a request to `%s` failed", scope["path"], exc_info=error)
            answer = answer_to(error)
        self._count(answer.status)
        await respond(send, answer, is_head=scope["method"] == "HEAD")

    def direct(self, scope: Scope) -> DirectCall | None:
        """Take a small, plain infer request the short way; see `DirectCall`.

        The body's length must be declared, and nothing be compressed either way.
        """
        path = infer_path(scope["path"]) if scope["method"] == "POST" else None
        if path is None or len(scope["headers"]) > HEADERS_MAX:
            return None
        headers = {name: value for name, value in scope["headers"] if name in _DIRECT_HEADERS}
        declared = headers.get(_LENGTH, b"")
        if not declared.isdigit() or len(declared) > _LENGTH_DIGITS_MAX:
            return None
        if int(declared) > min(DIRECT_BYTES_MAX, self._body_bytes_max):
            return None
        if _CODING in headers or _EXPECT in headers or headers.get(_ACCEPT) in _REPLY_CODINGS:
            return None
        arrived_at_ns = self._engine.now_ns()
        return DirectCall(
            self._engine,
            lambda body: self._decode(body, path, arrived_at_ns, headers),
            self._count,
        )

    def _count(self, status: int) -> None:
        self.answers[status] = self.answers.get(status, 0) + 1

    async def _infer(self, path: InferPath, scope: Scope, receive: Receive) -> Answer:
        engine = self._engine
        arrived_at_ns = engine.now_ns()
        headers = _headers_of(scope)
        body = await read_body(receive, self._body_bytes_max, headers.get(_LENGTH))
        if _CODING in headers:
            body = await decompress(body, headers[_CODING], self._body_bytes_max)
        if len(body) < THREAD_BYTES_MIN:
            decoded = self._decode(body, path, arrived_at_ns, headers)
        else:
            decoded = await asyncio.to_thread(self._decode, body, path, arrived_at_ns, headers)
        del body  # what waits is counted by its tensors, so no more than those may be kept
        with self._watch.over(receive):
            reply = await engine.infer(decoded.call)
        text, json_bytes = encode_infer(reply, decoded.form)
        wanted = headers.get(_ACCEPT)
        answer_headers = [JSON_TYPE if json_bytes is None else BINARY_TYPE]
        if json_bytes is not None:
            answer_headers.append((HEADER_LENGTH, b"%d" % json_bytes))
        answer_headers += late_headers(reply.late_ns)
        if wanted in _REPLY_CODINGS:
            text = await compress(text, wanted)
            answer_headers.append((_CODING, wanted))
        return Answer(200, text, answer_headers, reply.foreseen)

    def _decode(
        self, body: bytes, path: InferPath, arrived_at_ns: int, headers: Mapping[bytes, bytes]
    ) -> DecodedInfer:
        if headers.get(HEADER_LENGTH) == b"0":
            status = self._engine.status(path.model, path.version)
            return decode_raw_infer(
                body, status=status, arrived_at_ns=arrived_at_ns, headers=headers
            )
        return decode_infer(
            body,
            model=path.model,
            version=path.version,
            arrived_at_ns=arrived_at_ns,
            headers=headers,
            regions=self._regions,
        )

    async def _other(self, scope: Scope, receive: Receive) -> Answer:
        found = self._routes.find(scope["path"])
        if found is None:
            if infer_path(scope["path"]) is not None:
                raise _wrong_method(scope, ["POST"])
            raise HttpError(404, "path_not_found", f"there is nothing at `{scope['path'][:200]}`")
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        endpoint: Endpoint | None = found.methods.get(method)
        if endpoint is None:
            raise _wrong_method(scope, found.methods)
        arrived_at_ns = self._engine.now_ns()
        headers = _headers_of(scope)
        body = b""
        if method != "GET":
            body = await read_body(receive, self._body_bytes_max, headers.get(_LENGTH))
            body = await decompress(body, headers.get(_CODING, b""), self._body_bytes_max)
        names = found.names
        target = Target(
            ModelName(names.get("model", "")),
            names.get("version", ""),
            names.get("region", ""),
            body,
            headers,
            arrived_at_ns,
        )
        outcome = endpoint(target)
        return await outcome if isinstance(outcome, Awaitable) else outcome


def infer_path(path: str) -> InferPath | None:
    """The model and version that a path asks to infer, or None if it does not."""
    match path.split("/"):
        case ["", "v2", "models", model, "infer"]:
            return InferPath(ModelName(model), "")
        case ["", "v2", "models", model, "versions", version, "infer"]:
            return InferPath(ModelName(model), version)
    return None


def _headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The few headers that anything here reads."""
    headers = scope["headers"]
    if len(headers) > HEADERS_MAX:
        raise HttpError(431, "too_many_headers", f"the request has more than {HEADERS_MAX} headers")
    return {name: value for name, value in headers if name in _READ_HEADERS}


def _wrong_method(scope: Scope, allowed: Mapping[str, object] | list[str]) -> HttpError:
    methods = ", ".join(sorted([*allowed, "HEAD"] if "GET" in allowed else allowed))
    return HttpError(
        405,
        "method_not_allowed",
        f"`{scope['path'][:200]}` takes {methods}, not {scope['method']}",
        headers=((b"allow", methods.encode()),),
    )
