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
from collections.abc import Awaitable, Collection, Mapping
from functools import partial
from typing import Final, NamedTuple

from headway.core import ModelName
from headway.errors import HeadwayError
from headway.frontends.access import PAGE_HEADERS, Door, Need
from headway.frontends.asgi import (
    CODING,
    HEADERS_MAX,
    LENGTH,
    Receive,
    Scope,
    Send,
    answer_with,
    compress,
    headers_of,
    read_whole,
    wrong_method,
)
from headway.frontends.client_call import HEADER_LENGTH, HEADER_NAMES, credential_of
from headway.frontends.direct import BINARY_TYPE, DIRECT_BYTES_MAX, DirectCall
from headway.frontends.disconnect import DisconnectWatch
from headway.frontends.needs import need_of
from headway.frontends.oip_raw import decode_raw_infer
from headway.frontends.oip_reply import encode_infer
from headway.frontends.oip_request import (
    THREAD_BYTES_MIN,
    DecodedInfer,
    decode_infer,
)
from headway.frontends.oip_routes import Endpoint, OipRoutes, Target
from headway.frontends.rest_errors import JSON_TYPE, Answer, HttpError, answer_to, late_headers
from headway.frontends.shared_memory import Regions
from headway.runtime import Engine

__all__ = ["OipRest"]

_ACCEPT: Final = b"accept-encoding"
_ACCEPT_TYPE: Final = b"accept"
_STATUSES: Final = (200, 400, 401, 403, 404, 405, 413, 429, 499, 500, 501, 503, 504)
_INFER: Final = ("/v2/models/{model}/infer", "/v2/models/{model}/versions/{version}/infer")
"""What `infer_path` knows."""
_EXPECT: Final = b"expect"
_LENGTH_DIGITS_MAX: Final = 9
"""Of a length that is short; leading zeros must not make a long one look so."""
_READ_HEADERS: Final = HEADER_NAMES | PAGE_HEADERS | {LENGTH, CODING, _ACCEPT}
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
        door: who may ask for what; anyone for everything by default.
        answers: the table of answers, for several apps that are counted together.
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
        door: Door | None = None,
        answers: dict[int, int] | None = None,
        watch: DisconnectWatch | None = None,
    ) -> None:
        self._engine = engine
        self._body_bytes_max = body_bytes_max
        self.watch = watch or DisconnectWatch()
        """Cancels requests whose clients leave."""
        self._regions = regions or Regions(is_allowed=False)
        self._door = door or Door()
        self._routes = OipRoutes(
            engine,
            version,
            regions=self._regions,
            can_load=can_load,
            door=self._door,
            body_bytes_max=body_bytes_max,
        )
        self.answers = {} if answers is None else answers
        for status in _STATUSES:
            self.answers.setdefault(status, 0)
        """Answers so far by status, 499 for clients that left before theirs."""

    @property
    def routes(self) -> Mapping[str, Collection[str]]:
        """Every path and its methods."""
        infer = dict.fromkeys(_INFER, ("POST",))
        return {path: tuple(methods) for path, methods in self._routes.table} | infer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        assert scope["type"] == "http", "neither lifespan events nor websockets are served here"
        path = infer_path(scope["path"]) if scope["method"] == "POST" else None
        if path is not None:
            answering = self._infer(path, scope, receive)
        else:
            answering = self._other(scope, receive)
        await answer_with(scope, send, self.answers, answering, answer_to)

    def direct(self, scope: Scope) -> DirectCall | None:
        """Take a plain infer request the short way, small or of bytes; see `DirectCall`.

        The body's length must be declared, and nothing be compressed either way.
        """
        path = infer_path(scope["path"]) if scope["method"] == "POST" else None
        if path is None or len(scope["headers"]) > HEADERS_MAX:
            return None
        headers = {name: value for name, value in scope["headers"] if name in _DIRECT_HEADERS}
        length = _short_number(headers.get(LENGTH))
        if length is None or length > self._body_bytes_max:
            return None
        json_bytes = 0
        if length > DIRECT_BYTES_MAX:
            json_bytes = _short_number(headers.get(HEADER_LENGTH)) or 0
            if not 0 < json_bytes <= DIRECT_BYTES_MAX:
                return None
        if (
            CODING in headers
            or _EXPECT in headers
            or b"origin" in headers
            or headers.get(_ACCEPT) in _REPLY_CODINGS
        ):
            return None
        arrived_at_ns = self._engine.now_ns()

        if json_bytes or headers.get(HEADER_LENGTH) == b"0":
            # Large, or decoded by what the model is like: not for strangers. All else is small, and
            # its key is looked at when it is submitted.
            try:
                self._door.check(Need.TENANT, credential_of(headers))
            except HeadwayError:
                return None
        return DirectCall(
            self._engine,
            lambda body: self._decode(body, path, arrived_at_ns, headers),
            self._count,
            json_bytes=json_bytes,
        )

    def _count(self, status: int) -> None:
        self.answers[status] = self.answers.get(status, 0) + 1

    async def _infer(self, path: InferPath, scope: Scope, receive: Receive) -> Answer:
        engine = self._engine
        arrived_at_ns = engine.now_ns()
        headers = headers_of(scope, _READ_HEADERS)
        self._door.refuse_foreign(headers)
        self._door.check(Need.TENANT, credential_of(headers))
        body = await read_whole(receive, headers, self._body_bytes_max)
        if len(body) < THREAD_BYTES_MIN:
            decoded = self._decode(body, path, arrived_at_ns, headers)
        else:
            decoded = await asyncio.to_thread(self._decode, body, path, arrived_at_ns, headers)
        del body  # what waits is counted by its tensors, so no more than those may be kept
        with self.watch.over(receive):
            reply = await engine.infer(decoded.call)
        text, json_bytes = encode_infer(reply, decoded.form)
        wanted = headers.get(_ACCEPT)
        answer_headers = [JSON_TYPE if json_bytes is None else BINARY_TYPE]
        if json_bytes is not None:
            answer_headers.append((HEADER_LENGTH, b"%d" % json_bytes))
        answer_headers += late_headers(reply.late_ns)
        if wanted in _REPLY_CODINGS:
            text = await compress(text, wanted)
            answer_headers.append((CODING, wanted))
        return Answer(200, text, answer_headers, reply.foreseen, (), reply.request_id)

    def _decode(
        self,
        body: bytes | bytearray,
        path: InferPath,
        arrived_at_ns: int,
        headers: Mapping[bytes, bytes],
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
                raise wrong_method(scope, ["POST"])
            raise HttpError(404, "path_not_found", f"there is nothing at `{scope['path'][:200]}`")
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        endpoint: Endpoint | None = found.methods.get(method)
        if endpoint is None:
            raise wrong_method(scope, found.methods)
        arrived_at_ns = self._engine.now_ns()
        headers = headers_of(scope, _READ_HEADERS | {_ACCEPT_TYPE})
        if method != "GET":
            self._door.refuse_foreign(headers)
        need = need_of(found.pattern, method)
        self._door.check(need, credential_of(headers), headers.get(b"host", b""))
        body = b""
        if method != "GET":
            body = await read_whole(receive, headers, self._body_bytes_max)
        names = found.names
        target = Target(
            ModelName(names.get("model", "")),
            names.get("version", ""),
            names.get("region", ""),
            body,
            headers,
            arrived_at_ns,
            partial(self.watch.over, receive),
        )
        outcome = endpoint(target)
        return await outcome if isinstance(outcome, Awaitable) else outcome


def _short_number(header: bytes | None) -> int | None:
    """What a header says that holds a length, if it says one that is not absurd."""
    if header is None or not header.isdigit() or len(header) > _LENGTH_DIGITS_MAX:
        return None
    return int(header)


def infer_path(path: str) -> InferPath | None:
    """The model and version that a path asks to infer, or None if it does not."""
    match path.split("/"):
        case ["", "v2", "models", model, "infer"]:
            return InferPath(ModelName(model), "")
        case ["", "v2", "models", model, "versions", version, "infer"]:
            return InferPath(ModelName(model), version)
    return None
