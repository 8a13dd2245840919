"""Every path of the REST interface but `infer`: health, models, repository, settings, metrics.

`ROUTES` is the whole list. Most answer at once; loading and unloading wait for the engine.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, TypeVar

from msgspec import DecodeError, Struct
from msgspec.json import Decoder, Encoder

from headway.core import ModelName
from headway.errors import InvalidRequestError, UnsupportedError
from headway.frontends.access import Door
from headway.frontends.client_call import HEADER_LENGTH, credential_of
from headway.frontends.exposition import OPENMETRICS_TYPE, TEXT_TYPE, prefers_openmetrics
from headway.frontends.oip_admin import (
    is_model_ready,
    overrides_of,
    refuse_changes,
    refuse_management,
)
from headway.frontends.oip_estimate import estimate_body
from headway.frontends.oip_generate import (
    EVENT_TYPE,
    DecodedGenerate,
    decode_generate,
    encode_generate,
    event_of,
)
from headway.frontends.oip_models import (
    LOG_SETTINGS,
    TRACE_SETTINGS,
    model_config,
    model_metadata,
    repository_index,
    server_metadata,
    statistics,
)
from headway.frontends.oip_raw import decode_raw_infer
from headway.frontends.oip_request import (
    THREAD_BYTES_MIN,
    decode_estimate,
)
from headway.frontends.openapi import openapi_text
from headway.frontends.rest_errors import JSON_TYPE, Answer, HttpError, late_headers
from headway.frontends.shared_memory import Regions
from headway.runtime import Engine, InferCall

__all__ = ["Endpoint", "OipRoutes", "Target"]

_ACCEPT: Final = b"accept"
Body = TypeVar("Body")


class Target(NamedTuple):
    """What a path names and a body says."""

    model: ModelName
    version: str
    region: str
    body: bytes
    headers: Mapping[bytes, bytes]
    """Those that an infer request may have."""
    arrived_at_ns: int
    watched: Callable[[], AbstractContextManager[object]]
    """Gives a context in which the task is cancelled when its client leaves."""


Endpoint = Callable[[Target], Answer | Awaitable[Answer]]


class Found(NamedTuple):
    """The methods that a path has, and what it names."""

    pattern: str
    methods: Mapping[str, Endpoint]
    names: Mapping[str, str]


class _IndexBody(Struct):
    ready: bool = False


class _RepositoryBody(Struct):
    parameters: dict[str, Any] | None = None


class _RegionBody(Struct):
    key: str
    byte_size: int
    offset: int = 0


_encoder: Final = Encoder()
_index_decoder: Final = Decoder(_IndexBody)
_repository_decoder: Final = Decoder(_RepositoryBody)
_region_decoder: Final = Decoder(_RegionBody)
_object_decoder: Final = Decoder(dict[str, Any])


class OipRoutes:
    """Answers from an engine."""

    def __init__(
        self,
        engine: Engine,
        version: str,
        *,
        regions: Regions,
        can_load: bool = True,
        door: Door,
        body_bytes_max: int,
    ) -> None:
        self._engine = engine
        self._regions = regions
        self._can_load = can_load
        self._door = door
        self._body_bytes_max = body_bytes_max
        self._version = version
        self._metadata = _json(server_metadata(version, has_shared_memory=regions.is_allowed))
        self.table = [(pattern, {**methods}) for pattern, methods in self._table()]
        """Every path and its methods."""
        self._routes = [(pattern.strip("/").split("/"), methods) for pattern, methods in self.table]

    def find(self, path: str) -> Found | None:
        """What a path means; None for nothing."""
        segments = path.strip("/").split("/")
        for pattern, methods in self._routes:
            if len(pattern) == len(segments):
                pairs = list(zip(pattern, segments, strict=True))
                if all(want == got or want.startswith("{") for want, got in pairs):
                    names = {want.strip("{}"): got for want, got in pairs if want.startswith("{")}
                    return Found("/" + "/".join(pattern), methods, names)
        return None

    def _table(self) -> list[tuple[str, Mapping[str, Endpoint]]]:
        """Fixed words before names, for a path is taken by the first pattern that fits."""
        model = "/v2/models/{model}"
        version = model + "/versions/{version}"
        trace = {"GET": self._trace, "POST": self._update_trace}
        return [
            ("/v2", {"GET": self._server}),
            ("/v2/health/live", {"GET": self._live}),
            ("/v2/health/ready", {"GET": self._ready}),
            ("/metrics", {"GET": self._metrics}),
            ("/openapi.json", {"GET": self._description}),
            ("/v2/models/stats", {"GET": self._all_statistics}),
            *[
                (prefix + suffix, {"GET": endpoint})
                for prefix in (model, version)
                for suffix, endpoint in (
                    ("", self._model),
                    ("/ready", self._model_ready),
                    ("/config", self._config),
                    ("/stats", self._statistics),
                )
            ],
            ("/v2/tenant", {"GET": self._tenant}),
            (model + "/estimate", {"POST": self._estimate}),
            (version + "/estimate", {"POST": self._estimate}),
            *[
                (prefix + "/generate" + suffix, {"POST": endpoint})
                for prefix in (model, version)
                for suffix, endpoint in (("", self._generate), ("_stream", self._generate_stream))
            ],
            ("/v2/repository/index", {"POST": self._index}),
            ("/v2/repository/models/{model}/load", {"POST": self._load}),
            ("/v2/repository/models/{model}/unload", {"POST": self._unload}),
            ("/v2/trace/setting", trace),
            (model + "/trace/setting", trace),
            ("/v2/logging", {"GET": self._log, "POST": self._update_log}),
            *_memory("system", self._status, self._register, self._unregister),
            *_memory("cuda", self._no_regions, self._no_cuda, self._none_unregistered),
        ]

    # --- the server ---

    def _server(self, _: Target) -> Answer:
        return self._metadata

    def _live(self, _: Target) -> Answer:
        return _json({"live": True, "ready": self._engine.is_ready})

    def _ready(self, _: Target) -> Answer:
        is_ready = self._engine.is_ready
        return _json({"live": True, "ready": is_ready}, 200 if is_ready else 503)

    async def _metrics(self, target: Target) -> Answer:
        is_open = prefers_openmetrics(target.headers.get(_ACCEPT, b""))
        pieces = []
        for piece in self._engine.metrics_text(is_openmetrics=is_open):
            pieces.append(piece)
            await asyncio.sleep(0)  # requests go first
        return Answer(200, b"".join(pieces), (OPENMETRICS_TYPE if is_open else TEXT_TYPE,))

    def _tenant(self, target: Target) -> Answer:
        if not self._door.has_tenants:
            raise HttpError(404, "path_not_found", "this server keeps no tenants")
        return _json(self._door.about(credential_of(target.headers)))

    async def _description(self, _: Target) -> Answer:
        # Built when it is first asked for, which takes long enough for others to notice.
        return Answer(200, await asyncio.to_thread(openapi_text, self._version), (JSON_TYPE,))

    # --- models ---

    def _model(self, target: Target) -> Answer:
        return _json(model_metadata(self._engine.status(target.model, target.version)))

    def _model_ready(self, target: Target) -> Answer:
        is_ready = is_model_ready(self._engine, target.model, target.version)
        return _json({"name": target.model, "ready": is_ready}, 200 if is_ready else 503)

    def _config(self, target: Target) -> Answer:
        return _json(model_config(self._engine.status(target.model, target.version)))

    def _statistics(self, target: Target) -> Answer:
        return _json(statistics(self._engine.statistics(target.model, target.version)))

    def _all_statistics(self, _: Target) -> Answer:
        return _json(statistics(self._engine.statistics()))

    async def _estimate(self, target: Target) -> Answer:
        if len(target.body) < THREAD_BYTES_MIN:
            call = self._asked(target)
        else:
            call = await asyncio.to_thread(self._asked, target)
        return _json(estimate_body(self._engine.estimate(call)))

    def _asked(self, target: Target) -> InferCall:
        """The infer request that an estimate is asked of, its inputs whole or only described."""
        if target.headers.get(HEADER_LENGTH) == b"0":
            return decode_raw_infer(
                target.body,
                status=self._engine.status(target.model, target.version),
                arrived_at_ns=target.arrived_at_ns,
                headers=target.headers,
            ).call
        return decode_estimate(
            target.body,
            model=target.model,
            version=target.version,
            arrived_at_ns=target.arrived_at_ns,
            headers=target.headers,
            bytes_max=self._body_bytes_max,
        )

    async def _generate(self, target: Target) -> Answer:
        return await self._generated(target)

    async def _generate_stream(self, target: Target) -> Answer:
        answer = await self._generated(target)
        return answer._replace(
            body=event_of(answer.body), headers=(EVENT_TYPE, *answer.headers[1:])
        )

    async def _generated(self, target: Target) -> Answer:
        if len(target.body) < THREAD_BYTES_MIN:
            decoded = self._flat(target)
        else:
            decoded = await asyncio.to_thread(self._flat, target)
        with target.watched():
            reply = await self._engine.infer(decoded.call)
        body = encode_generate(reply, decoded.request_id)
        headers = (JSON_TYPE, *late_headers(reply.late_ns))
        return Answer(200, body, headers, reply.foreseen, (), reply.request_id)

    def _flat(self, target: Target) -> DecodedGenerate:
        return decode_generate(
            target.body,
            status=self._engine.status(target.model, target.version),
            version=target.version,
            arrived_at_ns=target.arrived_at_ns,
            headers=target.headers,
        )

    # --- the repository ---

    def _index(self, target: Target) -> Answer:
        wanted = _decoded(_index_decoder, target.body)
        return _json(repository_index(self._engine.index(), only_ready=wanted.ready))

    async def _load(self, target: Target) -> Answer:
        refuse_management(can_load=self._can_load)
        parameters = _decoded(_repository_decoder, target.body).parameters or {}
        await self._engine.load(target.model, overrides_of(parameters))
        return _json({})

    async def _unload(self, target: Target) -> Answer:
        refuse_management(can_load=self._can_load)
        _decoded(_repository_decoder, target.body)
        await self._engine.unload(target.model)
        return _json({})

    # --- settings ---

    def _trace(self, target: Target) -> Answer:
        if target.model:
            self._engine.status(target.model)
        return _json(TRACE_SETTINGS)

    def _update_trace(self, target: Target) -> Answer:
        wanted = _decoded(_object_decoder, target.body)
        refuse_changes(TRACE_SETTINGS, wanted)
        return self._trace(target)

    def _log(self, _: Target) -> Answer:
        return _json(LOG_SETTINGS)

    def _update_log(self, target: Target) -> Answer:
        wanted = _decoded(_object_decoder, target.body)
        refuse_changes(LOG_SETTINGS, wanted)
        return self._log(target)

    # --- shared memory ---

    def _status(self, target: Target) -> Answer:
        return _json(
            [
                {
                    "name": region.name,
                    "key": region.key,
                    "offset": region.offset,
                    "byte_size": region.byte_size,
                }
                for region in self._regions.all(target.region)
            ]
        )

    def _register(self, target: Target) -> Answer:
        wanted = _decoded(_region_decoder, target.body)
        self._regions.register(target.region, wanted.key, wanted.offset, wanted.byte_size)
        return _json({})

    def _unregister(self, target: Target) -> Answer:
        self._regions.unregister(target.region)
        return _json({})

    def _no_regions(self, target: Target) -> Answer:
        return _json(Regions(is_allowed=False).all(target.region))

    def _none_unregistered(self, target: Target) -> Answer:
        return _json({})

    def _no_cuda(self, target: Target) -> Answer:
        raise UnsupportedError(
            f"CUDA shared memory region `{target.region}` cannot be registered",
            hint="use system shared memory, or send tensors in the request",
        )


def _memory(
    kind: str, status: Endpoint, register: Endpoint, unregister: Endpoint
) -> list[tuple[str, Mapping[str, Endpoint]]]:
    """The paths of one kind of shared memory."""
    base = f"/v2/{kind}sharedmemory"
    region = f"{base}/region/{{region}}"
    return [
        (f"{base}/status", {"GET": status}),
        (f"{region}/status", {"GET": status}),
        (f"{region}/register", {"POST": register}),
        (f"{base}/unregister", {"POST": unregister}),
        (f"{region}/unregister", {"POST": unregister}),
    ]


def _json(value: object, status: int = 200) -> Answer:
    return Answer(status, _encoder.encode(value), (JSON_TYPE,))


def _decoded(decoder: Decoder[Body], body: bytes) -> Body:
    """Decode a body; clients send nothing at all where they mean an empty object."""
    try:
        return decoder.decode(body.strip() or b"{}")
    except (DecodeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"the body is not what this path takes: {error}") from None
