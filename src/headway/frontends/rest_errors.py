"""What an error is called in HTTP: the one table from error classes to status numbers.

The body is the Open Inference Protocol's `{"error": "text"}`, plus keys that programs can rely on:
`code` (as in `headway.errors`), and where there is one `reason`, `limit`, `stage`,
`retry_after_ms`, `remaining`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import UNSET, Struct, UnsetType
from msgspec.json import Encoder

from headway.core import UNKNOWN, Buffer, Forecast
from headway.errors import (
    ConfigError,
    DeadlineExceededError,
    ExecutorError,
    HeadwayError,
    InternalError,
    InvalidRequestError,
    ModelNotFoundError,
    NotAllowedError,
    NotAuthenticatedError,
    RejectedError,
    RequestCancelledError,
    RequestError,
    UnavailableError,
    UnsupportedError,
    WorkerLostError,
)
from headway.runtime import ExpiredError
from headway.units import NS_PER_MS, NS_PER_S

__all__ = [
    "Answer",
    "ErrorBody",
    "Explanation",
    "Headers",
    "HttpError",
    "answer_to",
    "explain",
    "id_headers",
    "late_headers",
    "prediction_headers",
    "shortened",
    "status_of",
]

Headers = Sequence[tuple[bytes, bytes]]

BUG_TEXT: Final = "the server failed; this is a bug in headway, and its log says more"
"""All that a client is told of what is not an error of ours."""
_TEXT_CHARS_MAX: Final = 8 << 10
"""Of an error's text: names that a client sent are in it, however long they were."""
JSON_TYPE: Final = (b"content-type", b"application/json")
_CHALLENGE: Final = (b"www-authenticate", b"Bearer")

_STATUSES: Final[dict[type[HeadwayError], int]] = {
    InvalidRequestError: 400,
    ModelNotFoundError: 404,
    RejectedError: 429,
    UnavailableError: 503,
    DeadlineExceededError: 504,
    RequestCancelledError: 499,  # nobody is left to read it; for the log
    NotAuthenticatedError: 401,
    NotAllowedError: 403,
    UnsupportedError: 501,
    RequestError: 400,
    WorkerLostError: 503,
    ExecutorError: 500,
    ConfigError: 400,  # a client's overrides of a model it loads
    InternalError: 500,
    HeadwayError: 500,
}


class HttpError(Exception):
    """A request that went wrong before it meant anything: the path, the method, the size."""

    def __init__(self, status: int, code: str, message: str, *, headers: Headers = ()) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers


class Answer(NamedTuple):
    """A whole HTTP response."""

    status: int
    body: bytes
    headers: Headers = (JSON_TYPE,)
    foreseen: Forecast = UNKNOWN
    """What was expected of the request when it was admitted; two more headers, where known."""
    tail: Sequence[Buffer] = ()
    """What follows the body: tensors that need not be copied to be sent."""
    request_id: int = 0
    """By which records know the request; one more header, unless it is 0."""


class ErrorBody(Struct, omit_defaults=True):
    """What a client is told of an error, in the protocol's form."""

    error: str
    code: str
    reason: str | UnsetType = UNSET
    limit: str | UnsetType = UNSET
    stage: str | UnsetType = UNSET
    retry_after_ms: int | UnsetType = UNSET
    remaining: float | UnsetType = UNSET


class Explanation(NamedTuple):
    """What an error is to a client, whatever form its protocol gives that."""

    status: int
    body: ErrorBody
    headers: Headers = ()
    foreseen: Forecast = UNKNOWN
    request_id: int = 0


_encoder: Final = Encoder()


def prediction_headers(foreseen: Forecast) -> Headers:
    """The mean and the bound of a known prediction, in milliseconds; nothing of an unknown one."""
    if not foreseen.bound_ns:
        return ()
    return (
        (b"headway-expected-ms", b"%.3f" % (foreseen.mean_ns / NS_PER_MS)),
        (b"headway-bound-ms", b"%.3f" % (foreseen.bound_ns / NS_PER_MS)),
    )


def id_headers(request_id: int) -> Headers:
    """By what `headway explain` finds the request; nothing where it was never one."""
    return ((b"headway-request-id", b"%d" % request_id),) if request_id else ()


def late_headers(late_ns: int) -> Headers:
    """How late an answer is, in milliseconds; nothing where it is in time."""
    return ((b"headway-late-ms", b"%.3f" % (late_ns / NS_PER_MS)),) if late_ns else ()


def shortened(text: str, chars_max: int) -> str:
    """Both ends of a text that is too long: what happened stands in front, what to do behind."""
    if len(text) <= chars_max:
        return text
    half = chars_max // 2 - 1
    return f"{text[:half]}…{text[-half:]}"


def status_of(error: HeadwayError) -> int:
    """The status number of an error; a class that the table lacks has its parent's."""
    return next(_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES)


def answer_to(error: Exception) -> Answer:
    """The response that tells a client of an error."""
    told = explain(error)
    return Answer(
        told.status,
        _encoder.encode(told.body),
        [JSON_TYPE, *told.headers],
        told.foreseen,
        (),
        told.request_id,
    )


def explain(error: Exception) -> Explanation:
    """What a client is told of an error. What is not ours tells nothing of itself."""
    headers: Headers = ()
    match error:
        case HttpError():
            return Explanation(
                error.status, ErrorBody(error=_told(error), code=error.code), error.headers
            )
        case RejectedError():
            body = _rejection(error)
            headers = _retry_headers(error.retry_after_ns)
            if error.limit:
                headers = (*headers, _limit_header(error))
        case NotAuthenticatedError():
            body = ErrorBody(error=_told(error), code=error.code)
            headers = (_CHALLENGE,)
        case DeadlineExceededError():
            body = ErrorBody(
                error=_told(error), code=error.code, limit=error.limit, stage=error.stage
            )
        case HeadwayError():
            body = ErrorBody(error=_told(error), code=error.code)
        case _:
            return Explanation(500, ErrorBody(error=BUG_TEXT, code=InternalError.code))
    foreseen = error.foreseen if isinstance(error, ExpiredError) else UNKNOWN
    return Explanation(status_of(error), body, headers, foreseen, error.request_id)


def _told(error: Exception) -> str:
    return shortened(str(error), _TEXT_CHARS_MAX)


def _rejection(error: RejectedError) -> ErrorBody:
    return ErrorBody(
        error=_told(error),
        code=error.code,
        reason=error.reason,
        limit=error.limit or UNSET,
        retry_after_ms=_ceil(error.retry_after_ns, NS_PER_MS),
        remaining=UNSET if error.remaining is None else error.remaining,
    )


def _retry_headers(retry_after_ns: int) -> Headers:
    """HTTP knows whole seconds only; the exact time is beside it. Both are rounded up."""
    return (
        (b"retry-after", b"%d" % _ceil(retry_after_ns, NS_PER_S)),
        (b"headway-retry-after-ms", b"%d" % _ceil(retry_after_ns, NS_PER_MS)),
    )


def _limit_header(error: RejectedError) -> tuple[bytes, bytes]:
    """The limit as the draft `draft-ietf-httpapi-ratelimit-headers` has it: what is left, until."""
    left, reset_s = int(error.remaining or 0), _ceil(error.retry_after_ns, NS_PER_S)
    return (b"ratelimit", b'"%b";r=%d;t=%d' % (error.limit.encode(), max(0, left), reset_s))


def _ceil(duration_ns: int, unit_ns: int) -> int:
    return -(-duration_ns // unit_ns)
