"""From what went wrong to the error that a caller gets: the classes that the server itself raises.

The `code` in the body decides, and where there is none the status number. Pure.
"""

from typing import Final

import msgspec
from msgspec import Struct

from headway import errors
from headway.client.answers import Answer, request_id_of
from headway.errors import (
    DeadlineExceededError,
    ExecutorError,
    HeadwayError,
    InvalidRequestError,
    ModelNotFoundError,
    NotAllowedError,
    NotAuthenticatedError,
    RejectedError,
    RequestCancelledError,
    RequestError,
    UnavailableError,
    UnsupportedError,
)
from headway.units import NS_PER_MS, NS_PER_S, format_duration

__all__ = ["Lost", "failure_of", "retry_after_ns"]

_TEXT_CHARS_MAX: Final = 2_000
"""Of what a server says that speaks another language."""

_BY_CODE: Final[dict[str, type[HeadwayError]]] = {
    kind.code: kind
    for kind in (getattr(errors, name) for name in errors.__all__)
    if issubclass(kind, HeadwayError)
} | {
    "path_not_found": UnsupportedError,
    "method_not_allowed": UnsupportedError,
}
_BY_STATUS: Final[dict[int, type[HeadwayError]]] = {
    400: InvalidRequestError,
    401: NotAuthenticatedError,
    403: NotAllowedError,
    404: ModelNotFoundError,
    413: InvalidRequestError,
    415: InvalidRequestError,
    422: InvalidRequestError,
    429: RejectedError,
    431: InvalidRequestError,
    499: RequestCancelledError,
    500: ExecutorError,
    501: UnsupportedError,
    503: UnavailableError,
    504: DeadlineExceededError,
}


class Lost(Struct, frozen=True):
    """No answer came: the connection was refused, broke, or nothing came in time."""

    error: Exception
    timed_out_ns: int | None = None
    """How long was waited; None where something else ended it."""


class _Body(Struct):
    error: str = ""
    code: str = ""
    reason: str = ""
    limit: str = ""
    stage: str = ""
    retry_after_ms: float | None = None


def failure_of(end: Answer | Lost) -> HeadwayError:
    """The error that an end without a result is."""
    if isinstance(end, Lost):
        return _loss(end)
    body = _body_of(end)
    error = _error_of(end, body)
    error.request_id = request_id_of(end) or 0
    return error


def _error_of(end: Answer, body: _Body) -> HeadwayError:
    kind = _BY_CODE.get(body.code) or _BY_STATUS.get(end.status)
    if kind is None:
        kind = RequestError if end.status < 500 else HeadwayError
    text = body.error or f"the server answered {end.status} and did not say why"
    if issubclass(kind, RejectedError):
        return kind(text, reason=body.reason, retry_after_ns=retry_after_ns(end) or 0)
    if issubclass(kind, DeadlineExceededError):
        return kind(text, limit=body.limit, stage=body.stage)
    return kind(text)


def retry_after_ns(answer: Answer) -> int | None:
    """When a server says to come back: to the millisecond where it can, else in whole seconds.

    `Retry-After` may also hold a date; that asks for a clock and is taken for unsaid.
    """
    for name, unit_ns in (("headway-retry-after-ms", NS_PER_MS), ("retry-after", NS_PER_S)):
        text = answer.headers.get(name, "").strip()
        if text.isascii() and text.isdigit() and len(text) <= 12:
            return int(text) * unit_ns
    return None


def _loss(lost: Lost) -> HeadwayError:
    if lost.timed_out_ns is not None:
        return DeadlineExceededError(
            f"no answer came within {format_duration(lost.timed_out_ns)}",
            limit="client",
            stage="unanswered",
            hint="grant a larger budget, or a longer timeout where there is none",
        )
    return UnavailableError(
        f"the connection gave no answer: {str(lost.error) or type(lost.error).__name__}",
        hint="does the server run at this address?",
    )


def _body_of(answer: Answer) -> _Body:
    """What is in the body; some servers send text, or JSON of their own."""
    try:
        return msgspec.json.decode(answer.body, type=_Body)
    except msgspec.MsgspecError:
        text = bytes(answer.body[:_TEXT_CHARS_MAX]).decode(errors="replace").strip()
        return _Body(error=text and f"the server answered {answer.status}: {text}")
