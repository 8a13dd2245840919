"""OpenAI's API over HTTP, as far as there are models for it: an ASGI app for the paths under `/v1`.

Models are listed with what they can be asked for. Embeddings are computed by any model that takes
texts and gives vectors. Paths of OpenAI's that need a generating model are answered 501, so that a
client learns that it is the server and not the path which is wrong.

Knows `Engine` and its errors. Refuses to know queues, workers and policies.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.json import Encoder

from headway.core import ModelName, TierName
from headway.errors import UnsupportedError
from headway.frontends.access import PAGE_HEADERS, Door, Need
from headway.frontends.asgi import (
    CODING,
    LENGTH,
    Receive,
    Scope,
    Send,
    answer_with,
    headers_of,
    read_whole,
    wrong_method,
)
from headway.frontends.client_call import HEADER_NAMES, credential_of
from headway.frontends.disconnect import DisconnectWatch
from headway.frontends.oip_request import THREAD_BYTES_MIN
from headway.frontends.openai_embedder import embedder_of, is_embedder
from headway.frontends.openai_embeddings import call_for, decode_embeddings, encode_embeddings
from headway.frontends.openai_errors import openai_answer_to
from headway.frontends.rest_errors import JSON_TYPE, Answer, HttpError, late_headers
from headway.runtime import Engine

__all__ = ["OpenAiModel", "OpenAiModels", "OpenAiRest"]

_READ_HEADERS: Final = HEADER_NAMES | PAGE_HEADERS | {LENGTH, CODING}
_MODELS: Final = "/v1/models"
_GENERATING: Final = ("/v1/chat/completions", "/v1/completions", "/v1/responses")
_READY: Final = "READY"
_TEXT_BYTES: Final = 16
"""What a byte of a vector costs to write, in bytes that are read."""


class Capabilities(Struct):
    """What a model can be asked for here."""

    embeddings: bool


class OpenAiModel(Struct, kw_only=True):
    """A served model."""

    id: str
    object: str = "model"
    created: int
    """Seconds since the epoch: when the server was started."""
    owned_by: str = "headway"
    capabilities: Capabilities


class OpenAiModels(Struct, kw_only=True):
    """All of them."""

    object: str = "list"
    data: list[OpenAiModel]


class _Request(NamedTuple):
    """What an endpoint may look at."""

    headers: Mapping[bytes, bytes]
    scope: Scope
    receive: Receive
    name: str
    """What follows the fixed words of the path."""
    arrived_at_ns: int


Found = TypeVar("Found")
Endpoint = Callable[[_Request], Awaitable[Answer]]
_encoder: Final = Encoder()


class OpenAiRest:
    """The app.

    Args:
        engine: what answers.
        created_at_s: seconds since the epoch, the age of models that clients are told.
        door: who may ask for what; anyone for everything by default.
        service_tiers: the tiers that OpenAI's service tiers stand for; one that is not here leaves
            a request to its model's.
        body_bytes_max: a larger body is refused; it bounds what decompresses to, too.
        answers: where answers are counted by status; shared with other apps of the same server, as
            is ``watch``.
        watch: cancels requests whose clients leave.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        created_at_s: int,
        door: Door | None = None,
        service_tiers: Mapping[str, TierName] | None = None,
        body_bytes_max: int = 64 << 20,
        answers: MutableMapping[int, int] | None = None,
        watch: DisconnectWatch | None = None,
    ) -> None:
        self._engine = engine
        self._door = door or Door()
        self._created_at_s = created_at_s
        self._service_tiers = service_tiers or {}
        self._body_bytes_max = body_bytes_max
        self._answers = {} if answers is None else answers
        self._watch = watch or DisconnectWatch()
        self.routes: Mapping[str, Mapping[str, Endpoint]] = {
            _MODELS: {"GET": self._models},
            f"{_MODELS}/{{model}}": {"GET": self._model},
            "/v1/embeddings": {"POST": self._embeddings},
            **{path: {"POST": self._no_generation} for path in _GENERATING},
        }
        """Every path and its methods."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        answering = self._answer(scope, receive)
        await answer_with(scope, send, self._answers, answering, openai_answer_to)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path, name = _split(scope["path"].rstrip("/"))
        methods = self.routes.get(path)
        if methods is None:
            raise HttpError(404, "path_not_found", f"there is nothing at `{scope['path'][:200]}`")
        endpoint = methods.get("GET" if scope["method"] == "HEAD" else scope["method"])
        if endpoint is None:
            raise wrong_method(scope, methods)
        headers = headers_of(scope, _READ_HEADERS)
        if scope["method"] == "POST":
            self._door.refuse_foreign(headers)
        self._door.check(Need.TENANT, credential_of(headers))
        return await endpoint(_Request(headers, scope, receive, name, self._engine.now_ns()))

    async def _models(self, _: _Request) -> Answer:
        found = [
            self._described(state.name) for state in self._engine.index() if state.state == _READY
        ]
        return _json(OpenAiModels(data=found))

    async def _model(self, request: _Request) -> Answer:
        return _json(self._described(ModelName(request.name)))

    def _described(self, name: ModelName) -> OpenAiModel:
        status = self._engine.status(name)
        return OpenAiModel(
            id=status.name,
            created=self._created_at_s,
            capabilities=Capabilities(embeddings=is_embedder(status)),
        )

    async def _embeddings(self, request: _Request) -> Answer:
        body = await read_whole(request.receive, request.headers, self._body_bytes_max)
        wanted = await _aside(len(body), decode_embeddings, body)
        embedder = embedder_of(self._engine.status(ModelName(wanted.model)))
        called = partial(
            call_for,
            tiers=self._service_tiers,
            arrived_at_ns=request.arrived_at_ns,
            headers=request.headers,
        )
        call = await _aside(len(body), called, wanted, embedder)
        form = wanted.form
        del body, wanted  # what waits is counted by its tensors, so no more than those may be kept
        with self._watch.over(request.receive):
            reply = await self._engine.infer(call)
        size_bytes = _TEXT_BYTES * sum(tensor.size_bytes for tensor in reply.outputs)
        text = await _aside(size_bytes, encode_embeddings, reply, form, embedder)
        headers = (JSON_TYPE, *late_headers(reply.late_ns))
        return Answer(200, text, headers, reply.foreseen, (), reply.request_id)

    async def _no_generation(self, request: _Request) -> Answer:
        raise UnsupportedError(
            f"`{request.scope['path']}` needs a generating model, and headway serves none yet",
            hint="`/v1/embeddings` is served, and `GET /v1/models` says of which models",
        )


def _split(path: str) -> tuple[str, str]:
    """The pattern that a path fits, and the name in it; an id may hold slashes."""
    prefix = f"{_MODELS}/"
    if path.startswith(prefix):
        return f"{prefix}{{model}}", path.removeprefix(prefix)
    return path, ""


async def _aside(size_bytes: int, work: Callable[..., Found], *arguments: object) -> Found:
    """Do it in a thread if it is so much that others would have to wait for it."""
    if size_bytes < THREAD_BYTES_MIN:
        return work(*arguments)
    return await asyncio.to_thread(work, *arguments)


def _json(value: object) -> Answer:
    return Answer(200, _encoder.encode(value), (JSON_TYPE,))
