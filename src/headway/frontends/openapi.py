"""The description of the HTTP interface, OpenAPI 3.1: built from the operations and their bodies.

Served as `/openapi.json`, and committed as `docs/reference/openapi.json`.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Final

import msgspec

from headway.frontends import (
    generating,
    oip_estimate,
    openai_answers,
    openai_embeddings,
    openai_errors,
    openai_generation,
    openai_rest,
)
from headway.frontends import openapi_bodies as bodies
from headway.frontends.access import Need
from headway.frontends.admin_rest import SECONDS_MAX
from headway.frontends.client_call import PRIORITY_MAX
from headway.frontends.needs import need_of
from headway.frontends.openai_errors import OpenAiErrorBody
from headway.frontends.openapi_operations import OPERATIONS, Form, Operation, Tag
from headway.frontends.rest_errors import ErrorBody
from headway.observe import Glance

__all__ = ["openapi_document", "openapi_text"]

_INTRODUCTION: Final = """\
The Open Inference Protocol, version 2, with Triton's extensions, and OpenAI's API for embeddings, \
chats and completions.

Every GET may be a HEAD, a slash at the end of a path makes no difference, and a method that a \
path does not have is answered 405 with `Allow`. Bodies of requests need no `Content-Type`, and \
may be compressed (`gzip`, `deflate`). What is no HTTP at all is answered 400, a head of more than \
64 KiB 431, both in the form of `ErrorBody` whatever the path."""

_STATUS_WORDS: Final[Mapping[int, str]] = {
    400: "It cannot be computed; sending it again will not help.",
    401: "The server asks for a key here, and the request brings none that it knows.",
    403: "The server is set up not to do this for a client.",
    404: "No such model or version.",
    413: "The body is larger than the server takes.",
    415: "The body is compressed in a way that the server does not know.",
    429: "No room: the headers and the body say when to come back, the body why.",
    431: "The request has more than 100 headers.",
    500: "The model raised, or the server has a bug.",
    501: "The protocol knows this, headway does not do it.",
    503: "Loading, shutting down, or a worker died: it may be sent again.",
    504: "The budget ran out, or the request was given up because it would.",
}
_ALWAYS: Final = (431, 500)
_SUCCESS: Final = "Done."
_TAGS: Final[Mapping[Tag, str]] = {
    Tag.SERVER: "Who answers, and how it is.",
    Tag.MODELS: "What is served.",
    Tag.INFERENCE: "Run a model, or ask what it would take.",
    Tag.REPOSITORY: "Load and unload models.",
    Tag.SETTINGS: "Triton's settings, which can be read and confirmed.",
    Tag.MEMORY: "Tensors in memory that client and server share.",
    Tag.OPENAI: "OpenAI's API; its errors have OpenAI's form.",
    Tag.OPERATION: "What the server did and does, and the page of it.",
}
_WHOLE: Final = {"type": "string", "pattern": "^[0-9]+$"}
_DECIMAL: Final = {"type": "string", "pattern": r"^[0-9]+\.[0-9]{3}$"}
_ID: Final = {"type": "string", "pattern": r"^-?[0-9]+$"}
_ANSWER_HEADERS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "headway-expected-ms": ("Expected at its admission, where anything was known.", _DECIMAL),
    "headway-bound-ms": ("What that should not exceed.", _DECIMAL),
    "headway-late-ms": ("How late the answer is, where it is.", _DECIMAL),
    "headway-request-id": ("By which `headway explain` finds the request.", _ID),
}
_ERROR_HEADERS: Final[Mapping[int, Mapping[str, tuple[str, Mapping[str, Any]]]]] = {
    401: {"WWW-Authenticate": ("How to bring a key.", {"type": "string"})},
    429: {
        "Retry-After": ("When to come back: whole seconds, rounded up.", _WHOLE),
        "headway-retry-after-ms": ("The same in milliseconds.", _WHOLE),
        "RateLimit": (
            "Where it is a tenant's limit: its name, what is left (`r`), and seconds (`t`).",
            {"type": "string", "pattern": '^"[a-z_]+";r=[0-9]+;t=[0-9]+$'},
        ),
    },
}
_MAY_HAVE_BEEN_A_REQUEST: Final = frozenset({400, 404, 429, 500, 503, 504})
"""Errors that may end a request which the scheduler has seen."""
_CALL_HEADERS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "headway-priority": (
        "Lower is served first, 1 before all; 0 leaves it to the tier.",
        {"type": "integer", "minimum": 0, "maximum": PRIORITY_MAX},
    ),
    "headway-budget-ms": (
        "The longest that the answer may take; the smallest budget holds.",
        {"type": "number", "minimum": 0},
    ),
    "headway-tier": ("A tier of the server.", {"type": "string"}),
    "headway-tenant": ("Whoever is accounted for.", {"type": "string"}),
    "traceparent": ("W3C trace context, passed on.", {"type": "string"}),
}
_BINARY_HEADER: Final = {
    "name": "Inference-Header-Content-Length",
    "in": "header",
    "description": "Bytes of JSON in front of tensors; 0 for the one input of the model alone.",
    "schema": {"type": "integer", "minimum": 0},
}
_PATH_EXAMPLES: Final = {"model": "echo", "version": "1", "region": "mine", "file": "index.html"}
_QUERIES: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "seconds": (
        "How far to look back; what is kept may be less.",
        {"type": "number", "exclusiveMinimum": 0, "maximum": SECONDS_MAX},
    ),
}
_KEYS: Final[list[dict[str, list[str]]]] = [{}, {"bearer": []}, {"key": []}]
_MODULES: Final = (
    bodies,
    oip_estimate,
    openai_answers,
    openai_embeddings,
    openai_errors,
    openai_generation,
    openai_rest,
    generating,
    sys.modules[Glance.__module__],
)
"""Where bodies are described."""
_REF: Final = "#/components/schemas/{name}"


@cache
def openapi_text(version: str) -> bytes:
    """The description as it is sent."""
    return msgspec.json.encode(openapi_document(version))


def openapi_document(version: str) -> dict[str, Any]:
    """The description of the interface.

    Args:
        version: of the server.
    """
    types = _types()
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    _describe(components)
    schema_of = {repr(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        path = paths.setdefault(operation.path, _path_parameters(operation.path))
        path[operation.method.lower()] = _operation(operation, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "headway",
            "version": version,
            "description": _INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": str(tag), "description": words} for tag, words in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": dict(_error_responses()),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "headway-key"},
            },
        },
    }


def _types() -> list[Any]:
    """Every type of a body, each once."""
    found = [ErrorBody, OpenAiErrorBody]
    for operation in OPERATIONS:
        found += [operation.body, operation.answer, operation.not_ready]
    return [*{repr(kind): kind for kind in found if _is_type(kind)}.values()]


def _is_type(kind: Any) -> bool:
    return kind is not None and not isinstance(kind, Form)


def _path_parameters(path: str) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)\}", path)
    return {"parameters": [_path_parameter(name) for name in names]} if names else {}


def _path_parameter(name: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1}
    example = _PATH_EXAMPLES[name]
    return {"name": name, "in": "path", "required": True, "schema": schema, "example": example}


def _operation(operation: Operation, schema_of: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [str(operation.tag)],
        "summary": operation.summary,
    }
    parameters = list(_parameters(operation))
    if parameters:
        found["parameters"] = parameters
    if operation.body is not None:
        content: dict[str, Any] = {"application/json": {"schema": schema_of[repr(operation.body)]}}
        if operation.example is not None:
            content["application/json"]["example"] = operation.example
        content |= {str(form): {} for form in operation.forms if form is not Form.EVENTS}
        found["requestBody"] = {"required": operation.needs_body, "content": content}
    found["responses"] = _responses(operation, schema_of)
    if need_of(operation.path, operation.method) in (Need.TENANT, Need.ADMIN):
        found["security"] = _KEYS
    return found


def _parameters(operation: Operation) -> Iterator[Mapping[str, Any]]:
    if operation.is_call:
        for name, (words, schema) in _CALL_HEADERS.items():
            yield {"name": name, "in": "header", "description": words, "schema": schema}
    if Form.BINARY in operation.forms:
        yield _BINARY_HEADER
    for name in operation.query:
        words, schema = _QUERIES[name]
        yield {"name": name, "in": "query", "description": words, "schema": schema}


def _responses(operation: Operation, schema_of: Mapping[str, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    if isinstance(operation.answer, Form):
        forms = (operation.answer, *operation.forms)
        responses["200"] = {"description": _SUCCESS, "content": {str(form): {} for form in forms}}
    elif operation.answer is not None:
        content: dict[str, Any] = {
            "application/json": {"schema": schema_of[repr(operation.answer)]}
        }
        if operation.answer is bodies.InferAnswer or Form.EVENTS in operation.forms:
            content |= {str(form): {} for form in operation.forms}
        responses["200"] = {"description": _SUCCESS, "content": content}
    if operation.is_call and 504 in operation.errors:
        responses["200"]["headers"] = _headers(_ANSWER_HEADERS)
    refusals = _REFUSALS[need_of(operation.path, operation.method)]
    for status in sorted({*operation.errors, *refusals, *_ALWAYS}):
        ref = f"#/components/responses/{_response_name(operation.tag, status)}"
        responses[str(status)] = {"$ref": ref}
    if operation.not_ready is not None:
        schema = schema_of[repr(operation.not_ready)]
        responses["503"] = {
            "description": "It does not.",
            "content": {"application/json": {"schema": schema}},
        }
    return responses


_REFUSALS: Final[Mapping[Need, tuple[int, ...]]] = {
    Need.NOTHING: (),
    Need.TENANT: (401,),
    Need.ADMIN: (401, 403),
    Need.PAGE: (403,),
}
"""What a path is answered with that asks for so much."""


def _response_name(tag: Tag, status: int) -> str:
    return f"{'OpenAiError' if tag is Tag.OPENAI else 'Error'}{status}"


def _error_responses() -> Iterator[tuple[str, Any]]:
    for tag, body in ((Tag.SERVER, ErrorBody), (Tag.OPENAI, OpenAiErrorBody)):
        schema = {"$ref": _REF.format(name=body.__name__)}
        for status, words in _STATUS_WORDS.items():
            found: dict[str, Any] = {
                "description": words,
                "content": {"application/json": {"schema": schema}},
            }
            headers = _ERROR_HEADERS.get(status, {})
            if status == 429 and tag is Tag.OPENAI:
                headers = {**headers, "retry-after-ms": headers["headway-retry-after-ms"]}
            if status in _MAY_HAVE_BEEN_A_REQUEST:
                headers = {**headers, "headway-request-id": _ANSWER_HEADERS["headway-request-id"]}
            if headers:
                found["headers"] = _headers(headers)
            yield _response_name(tag, status), found


def _headers(headers: Mapping[str, tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    return {
        name: {"description": words, "schema": schema} for name, (words, schema) in headers.items()
    }


def _describe(components: Mapping[str, Any]) -> None:
    """Add what stands under the fields of the classes to the properties that they are."""
    for kind, fields in _field_words():
        properties = components.get(kind, {}).get("properties", {})
        for name, words in fields.items():
            properties.get(name, {}).setdefault("description", words)


def _field_words() -> Iterator[tuple[str, dict[str, str]]]:
    """Every class, and the string under each of its fields; none where sources are missing."""
    for module in _MODULES:
        try:
            tree = ast.parse(inspect.getsource(module))
        except OSError:
            continue
        for kind in tree.body:
            if isinstance(kind, ast.ClassDef):
                yield kind.name, dict(_words_under(kind.body))


def _words_under(statements: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, words in pairwise(statements):
        match field, words:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, " ".join(text.split())
