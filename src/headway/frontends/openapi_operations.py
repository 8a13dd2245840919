"""Every operation of the HTTP interface, for its description: path, bodies, and how it may end.

A test holds this list to the routes that are served, and schemathesis the served to this list.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final, NamedTuple

from headway.frontends import openapi_bodies as bodies
from headway.frontends.oip_estimate import EstimateBody
from headway.frontends.openai_answers import ChatAnswer, CompletionAnswer
from headway.frontends.openai_embeddings import EmbeddingsAnswer
from headway.frontends.openai_generation import ChatRequest, CompletionRequest
from headway.frontends.openai_rest import OpenAiModel, OpenAiModels
from headway.observe import Glance

__all__ = ["OPERATIONS", "Form", "Operation", "Tag"]


class Form(StrEnum):
    """How a body is written that is no JSON alone."""

    BINARY = "application/octet-stream"
    """JSON with tensors behind it; the header `Inference-Header-Content-Length` says where."""
    EVENTS = "text/event-stream"
    TEXT = "text/plain"
    OPENMETRICS = "application/openmetrics-text"
    LINES = "application/x-ndjson"
    """A JSON value a line."""
    PAGE = "text/html"
    FILE = "*/*"
    """Of the page: styles, scripts, pictures."""


class Tag(StrEnum):
    """What an operation is about."""

    SERVER = "server"
    MODELS = "models"
    INFERENCE = "inference"
    REPOSITORY = "repository"
    SETTINGS = "settings"
    MEMORY = "shared memory"
    OPENAI = "openai"
    OPERATION = "operation"


class Operation(NamedTuple):
    """One method of one path."""

    path: str
    method: str
    name: str
    tag: Tag
    summary: str
    answer: Any
    """The type of the body of a 200; a `Form` for one that is no JSON."""
    errors: tuple[int, ...]
    """Statuses that it may end with, besides those that every operation may."""
    body: Any = None
    """The type of the request's body."""
    example: Any = None
    """Of the request's body; it suits the examples that come with headway."""
    needs_body: bool = False
    """An empty body is no empty object."""
    forms: tuple[Form, ...] = ()
    """Those that body and answer may have besides JSON."""
    not_ready: Any = None
    """The type of the body of a 503 that is no error but the answer `no`."""
    is_call: bool = False
    """It takes the headers of a call: who asks, and how urgently."""
    query: tuple[str, ...] = ()
    """What may stand behind the path."""


_MODEL: Final = "/v2/models/{model}"
_VERSION: Final = _MODEL + "/versions/{version}"
_BODY: Final = (400, 413, 415)
_CALL: Final = (400, 401, 403, 404, 413, 415, 429, 503, 504)
_ESTIMATE: Final = (400, 401, 403, 404, 413, 415, 503)


_ROWS: Final = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1.5, -2]}
"""An input of the models in `examples/echo_model.py`."""


def _of_models() -> Iterator[Operation]:
    """Those that describe one model, each for its current version and for a named one."""
    for prefix, name in ((_MODEL, "model"), (_VERSION, "model_version")):
        for suffix, what, summary, answer in (
            ("", "metadata", "Inputs and outputs", bodies.ModelMetadata),
            ("/config", "config", "As Triton's configuration would have it", bodies.ModelConfig),
            ("/stats", "statistics", "Counters", bodies.ModelStatisticsList),
        ):
            yield Operation(
                prefix + suffix,
                "GET",
                f"{name}_{what}",
                Tag.MODELS,
                summary,
                answer,
                (404, 503),
            )
        yield Operation(
            f"{prefix}/ready",
            "GET",
            f"{name}_ready",
            Tag.MODELS,
            "Whether it takes requests",
            bodies.ModelReady,
            (404,),
            not_ready=bodies.ModelReady,
        )


def _of_inference() -> Iterator[Operation]:
    """Those that run one model, or ask what it would take."""
    for prefix, name in ((_MODEL, "model"), (_VERSION, "model_version")):
        infer = Operation(
            f"{prefix}/infer",
            "POST",
            f"{name}_infer",
            Tag.INFERENCE,
            "Run the model",
            bodies.InferAnswer,
            _CALL,
            body=bodies.InferRequest,
            example={"inputs": [_ROWS]},
            needs_body=True,
            forms=(Form.BINARY,),
            is_call=True,
        )
        yield infer
        yield infer._replace(
            path=f"{prefix}/estimate",
            name=f"{name}_estimate",
            summary="What would become of such a request now",
            answer=EstimateBody,
            errors=_ESTIMATE,
            body=bodies.EstimateRequest,
            example={"inputs": [_ROWS | {"data": None}]},
        )
        generate = infer._replace(
            path=f"{prefix}/generate",
            name=f"{name}_generate",
            summary="Run the model on one flat object",
            answer=bodies.FlatAnswer,
            body=bodies.FlatRequest,
            example={_ROWS["name"]: _ROWS["data"]},
            forms=(),
        )
        yield generate
        yield generate._replace(
            path=f"{prefix}/generate_stream",
            name=f"{name}_generate_stream",
            summary="The same, answered with server-sent events",
            answer=Form.EVENTS,
        )


def _of_settings() -> Iterator[Operation]:
    """Triton's settings, which are told and not changed."""
    trace = (bodies.TraceSettings, bodies.TraceSettingsRequest)
    for path, name, (answer, body), errors in (
        ("/v2/trace/setting", "trace", trace, ()),
        (f"{_MODEL}/trace/setting", "model_trace", trace, (404, 503)),
        ("/v2/logging", "log", (bodies.LogSettings, bodies.LogSettingsRequest), ()),
    ):
        yield Operation(
            path, "GET", f"{name}_settings", Tag.SETTINGS, "Triton's settings", answer, errors
        )
        yield Operation(
            path,
            "POST",
            f"{name}_settings_update",
            Tag.SETTINGS,
            "Confirm settings; what would change one is refused",
            answer,
            (*_BODY, *errors, 501),
            body=body,
        )


def _of_memory(kind: str, register_errors: tuple[int, ...]) -> list[Operation]:
    """One kind of shared memory."""
    base = f"/v2/{kind}sharedmemory"
    region = f"{base}/region/{{region}}"
    regions = list[bodies.Region]
    words = (Tag.MEMORY, "Registered regions")
    has_body = kind == "system"
    return [
        Operation(f"{base}/status", "GET", f"{kind}_memory_status", *words, regions, ()),
        Operation(f"{region}/status", "GET", f"{kind}_region_status", *words, regions, (400,)),
        Operation(
            f"{region}/register",
            "POST",
            f"{kind}_region_register",
            Tag.MEMORY,
            "Register a region",
            bodies.Empty,
            register_errors,
            body=bodies.RegionRequest if has_body else None,
            needs_body=has_body,
        ),
        Operation(
            f"{base}/unregister",
            "POST",
            f"{kind}_memory_unregister",
            Tag.MEMORY,
            "Forget all regions",
            bodies.Empty,
            (413, 415, 400),
        ),
        Operation(
            f"{region}/unregister",
            "POST",
            f"{kind}_region_unregister",
            Tag.MEMORY,
            "Forget a region; one that is not there is no error",
            bodies.Empty,
            (413, 415, 400),
        ),
    ]


def _of_repository() -> list[Operation]:
    """Models that there are, and which of them serve."""
    model = "/v2/repository/models/{model}"
    return [
        Operation(
            "/v2/repository/index",
            "POST",
            "repository_index",
            Tag.REPOSITORY,
            "Every model that is configured, served, or failed to load",
            list[bodies.IndexLine],
            _BODY,
            body=bodies.IndexRequest,
        ),
        Operation(
            f"{model}/load",
            "POST",
            "repository_load",
            Tag.REPOSITORY,
            "Load or reload; the old version serves until the new one does",
            bodies.Empty,
            (*_BODY, 401, 403, 404, 501, 503),
            body=bodies.LoadRequest,
        ),
        Operation(
            f"{model}/unload",
            "POST",
            "repository_unload",
            Tag.REPOSITORY,
            "Finish what the model holds, then free it",
            bodies.Empty,
            (*_BODY, 401, 403, 404, 503),
            body=bodies.UnloadRequest,
        ),
    ]


def _of_generation() -> Iterator[Operation]:
    """Those of OpenAI's that write text."""
    prompt = {"model": "tiny", "prompt": "Once upon", "max_tokens": 4}
    message = {"role": "user", "content": "Hello"}
    chat = {"model": "tiny", "messages": [message], "max_completion_tokens": 4}
    for path, name, what, body, answer, example in (
        ("chat/completions", "chat_completions", "conversation", ChatRequest, ChatAnswer, chat),
        ("completions", "completions", "text", CompletionRequest, CompletionAnswer, prompt),
    ):
        yield Operation(
            f"/v1/{path}",
            "POST",
            f"openai_{name}",
            Tag.OPENAI,
            f"Continue a {what}, whole or as events",
            answer,
            _CALL,
            body=body,
            example=example,
            needs_body=True,
            forms=(Form.EVENTS,),
            is_call=True,
        )
    yield Operation(
        "/v1/responses", "POST", "openai_responses", Tag.OPENAI, "Answered 501", None, (501,)
    )


def _of_openai() -> list[Operation]:
    """OpenAI's API."""
    return [
        Operation(
            "/v1/models", "GET", "openai_models", Tag.OPENAI, "Models that serve", OpenAiModels, ()
        ),
        Operation(
            "/v1/models/{model}",
            "GET",
            "openai_model",
            Tag.OPENAI,
            "A model that serves",
            OpenAiModel,
            (404, 503),
        ),
        Operation(
            "/v1/embeddings",
            "POST",
            "openai_embeddings",
            Tag.OPENAI,
            "Vectors of texts",
            EmbeddingsAnswer,
            _CALL,
            body=bodies.EmbeddingsBody,
            example={"model": "embedder", "input": ["a text", "another"]},
            needs_body=True,
            is_call=True,
        ),
        *_of_generation(),
    ]


def _of_operation() -> list[Operation]:
    """What operators look at."""
    tag = Tag.OPERATION
    return [
        Operation(
            "/admin/board", "GET", "admin_board", tag, "What the page shows, once", Glance, ()
        ),
        Operation(
            "/admin/events",
            "GET",
            "admin_events",
            tag,
            "The same over and over: `whole` first, then what is `next`, twice a second",
            Form.EVENTS,
            (503,),
        ),
        Operation(
            "/admin/records",
            "GET",
            "admin_records",
            tag,
            "The last seconds as a journal: a header, then a step of the scheduler a line",
            Form.LINES,
            (400,),
            query=("seconds",),
        ),
        Operation(
            "/admin/timeline",
            "GET",
            "admin_timeline",
            tag,
            "The last seconds as a timeline for Perfetto",
            dict[str, Any],
            (400, 503),
            query=("seconds",),
        ),
        Operation("/ui", "GET", "ui", tag, "The page", Form.PAGE, ()),
        Operation("/ui/{file}", "GET", "ui_file", tag, "A file of the page", Form.FILE, (404,)),
    ]


OPERATIONS: Final = (
    Operation(
        "/v2", "GET", "server_metadata", Tag.SERVER, "Who answers", bodies.ServerMetadata, ()
    ),
    Operation("/v2/health/live", "GET", "server_live", Tag.SERVER, "It lives", bodies.Health, ()),
    Operation(
        "/v2/health/ready",
        "GET",
        "server_ready",
        Tag.SERVER,
        "It takes requests",
        bodies.Health,
        (),
        not_ready=bodies.Health,
    ),
    Operation(
        "/v2/tenant",
        "GET",
        "tenant",
        Tag.SERVER,
        "What the client's tenant may use, and what is left of it; 404 where there are no tenants",
        bodies.TenantAbout,
        (404,),
    ),
    Operation(
        "/metrics",
        "GET",
        "metrics",
        Tag.SERVER,
        "Prometheus' text format, or OpenMetrics by `Accept`",
        Form.TEXT,
        (),
        forms=(Form.OPENMETRICS,),
    ),
    Operation(
        "/openapi.json", "GET", "openapi", Tag.SERVER, "This description", dict[str, Any], ()
    ),
    Operation(
        "/v2/models/stats",
        "GET",
        "statistics",
        Tag.MODELS,
        "Counters of all models",
        bodies.ModelStatisticsList,
        (),
    ),
    *_of_models(),
    *_of_inference(),
    *_of_repository(),
    *_of_settings(),
    *_of_memory("system", (*_BODY, 401, 403)),
    *_of_memory("cuda", (413, 415, 400, 501)),
    *_of_openai(),
    *_of_operation(),
)
"""In the order in which they are described."""
