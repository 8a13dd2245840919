"""OpenAI's API over HTTP, as far as there are models for it: an ASGI app for the paths under `/v1`.

Models are listed with what they can be asked for. Embeddings are computed by any model that takes
texts and gives vectors, completions by generators. `/v1/responses` is answered 501, so that a
client learns that it is the server and not the path which is wrong.

Knows `Engine`, `Generating` and their errors. Refuses to know queues, workers and policies.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from functools import partial
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.json import Encoder

from headway.core import ModelName, TierName
from headway.decoder import Generation
from headway.errors import HeadwayError, RequestCancelledError, UnsupportedError
from headway.frontends.access import PAGE_HEADERS, Door, Need
from headway.frontends.asgi import (
    CODING,
    LENGTH,
    Receive,
    Scope,
    Send,
    Stream,
    answer_with,
    headers_of,
    read_whole,
    wrong_method,
)
from headway.frontends.client_call import HEADER_NAMES, credential_of
from headway.frontends.disconnect import DisconnectWatch
from headway.frontends.generating import Capabilities, Generating
from headway.frontends.oip_generate import EVENT_TYPE
from headway.frontends.oip_request import THREAD_BYTES_MIN
from headway.frontends.openai_answers import GenerationAnswer, error_event
from headway.frontends.openai_embedder import embedder_of, is_embedder
from headway.frontends.openai_embeddings import call_for, decode_embeddings, encode_embeddings
from headway.frontends.openai_errors import ParameterError, openai_answer_to
from headway.frontends.openai_generation import (
    GenerationForm,
    GenerationRequest,
    choices_of,
    decode_chat,
    decode_completion,
    form_of,
    generation_call,
    order_of,
)
from headway.frontends.openai_limits import limit_headers
from headway.frontends.rest_errors import JSON_TYPE, Answer, HttpError, late_headers
from headway.runtime import Engine
from headway.units import NS_PER_S

__all__ = ["OpenAiModel", "OpenAiModels", "OpenAiRest"]

_READ_HEADERS: Final = HEADER_NAMES | PAGE_HEADERS | {LENGTH, CODING}
_MODELS: Final = "/v1/models"
_RESPONSES: Final = "/v1/responses"
_STREAM_HEADERS: Final = (EVENT_TYPE, (b"cache-control", b"no-cache"))
_READY: Final = "READY"
_TEXT_BYTES: Final = 16
"""What a byte of a vector costs to write, in bytes that are read."""


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
Endpoint = Callable[[_Request], Awaitable[Answer | Stream]]
_encoder: Final = Encoder()


class OpenAiRest:
    """The app.

    Args:
        engine: what answers.
        created_at_s: seconds since the epoch, the age of models that clients are told.
        door: who may ask for what; anyone for everything by default.
        service_tiers: the tiers that OpenAI's service tiers stand for; one that is not here leaves
            a request to its model's.
        generating: the door to generators; without it there are none.
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
        generating: Generating | None = None,
        body_bytes_max: int = 64 << 20,
        answers: MutableMapping[int, int] | None = None,
        watch: DisconnectWatch | None = None,
    ) -> None:
        self._engine = engine
        self._door = door or Door()
        self._created_at_s = created_at_s
        self._service_tiers = service_tiers or {}
        self._generating = generating or Generating({}, engine.now_ns)
        self._answer_count = 0
        self._body_bytes_max = body_bytes_max
        self._answers = {} if answers is None else answers
        self._watch = watch or DisconnectWatch()
        self.routes: Mapping[str, Mapping[str, Endpoint]] = {
            _MODELS: {"GET": self._models},
            f"{_MODELS}/{{model}}": {"GET": self._model},
            "/v1/embeddings": {"POST": self._embeddings},
            "/v1/chat/completions": {"POST": self._chat},
            "/v1/completions": {"POST": self._completion},
            _RESPONSES: {"POST": self._no_responses},
        }
        """Every path and its methods."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        answering = self._answer(scope, receive)
        await answer_with(scope, send, self._answers, answering, openai_answer_to)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer | Stream:
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
        names = [state.name for state in self._engine.index() if state.state == _READY]
        found = [self._described(name) for name in (*names, *self._generating.names())]
        return _json(OpenAiModels(data=found))

    async def _model(self, request: _Request) -> Answer:
        return _json(self._described(ModelName(request.name)))

    def _described(self, name: ModelName) -> OpenAiModel:
        capabilities = self._generating.capabilities_of(name)
        if capabilities is None:
            status = self._engine.status(name)
            name, has_vectors = status.name, is_embedder(status)
            capabilities = Capabilities(embeddings=has_vectors, completions=False, chat=False)
        return OpenAiModel(id=name, created=self._created_at_s, capabilities=capabilities)

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

    async def _chat(self, request: _Request) -> Answer | Stream:
        return await self._generate(request, decode_chat)

    async def _completion(self, request: _Request) -> Answer | Stream:
        return await self._generate(request, decode_completion)

    async def _generate(
        self, request: _Request, decode: Callable[[bytes], GenerationRequest]
    ) -> Answer | Stream:
        body = await read_whole(request.receive, request.headers, self._body_bytes_max)
        wanted = await _aside(len(body), decode, body)
        form = form_of(wanted)
        self._demand_generator(wanted.model)
        call = generation_call(
            wanted,
            form,
            tiers=self._service_tiers,
            arrived_at_ns=request.arrived_at_ns,
            headers=request.headers,
        )
        with self._watch.over(request.receive):
            generation = await self._generating.begin(
                call, choices_of(wanted), len(body), partial(order_of, wanted)
            )
            del body, wanted
            limits = limit_headers(self._generating.limits(call))
            answer = self._new_answer(form, generation)
            if not form.is_stream:
                async with aclosing(generation.said()) as batches:
                    async for batch in batches:
                        answer.add(batch)
                return Answer(200, answer.whole(), (JSON_TYPE, *limits))
        return Stream(
            (*_STREAM_HEADERS, *limits),
            partial(_pieces, generation, answer),
            partial(self._watch.over, request.receive),
        )

    def _demand_generator(self, name: str) -> None:
        if self._generating.find(ModelName(name)) is not None:
            return
        model = self._engine.status(ModelName(name)).name
        names = ", ".join(self._generating.names()) or "none"
        raise ParameterError(
            f"model `{model}` generates no text", param="model", hint=f"those that do: {names}"
        )

    def _new_answer(self, form: GenerationForm, generation: Generation) -> GenerationAnswer:
        self._answer_count += 1
        kind = "chatcmpl" if form.is_chat else "cmpl"
        return GenerationAnswer(
            form,
            f"{kind}-{self._created_at_s:x}-{self._answer_count:x}",
            self._created_at_s + self._engine.now_ns() // NS_PER_S,
            generation.prompt_tokens,
            generation.choices,
        )

    async def _no_responses(self, request: _Request) -> Answer:
        raise UnsupportedError(
            f"`{request.scope['path']}` is not served",
            hint="`/v1/chat/completions` and `/v1/completions` are, by generating models",
        )


async def _pieces(generation: Generation, answer: GenerationAnswer) -> AsyncGenerator[bytes, None]:
    """The events of a stream; an error in the middle is the last of them."""
    try:
        async with aclosing(generation.said()) as batches:
            if first := answer.first():
                yield first
            async for batch in batches:
                if events := answer.events(batch):
                    yield events
    except RequestCancelledError:
        raise
    except HeadwayError as error:
        yield error_event(error)
        return
    finally:
        generation.close()  # a client that leaves at the first event has begun to read nothing
    yield answer.last()


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
