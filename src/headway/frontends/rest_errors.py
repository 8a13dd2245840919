"""What an error is called in HTTP: the one table from error classes to status numbers.

The body is the Open Inference Protocol's `{"error": "text"}`, plus keys that programs can rely on:
`code` (as in `headway.errors`), and where there is one `reason`, `limit`, `stage`,
`retry_after_ms`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import UNSET, Struct, UnsetType
from msgspec.json import Encoder

from headway.core import UNKNOWN, Forecast
from headway.errors import (
    ConfigError,
    DeadlineExceededError,
    ExecutorError,
    HeadwayError,
    InternalError,
    InvalidRequestError,
    ModelNotFoundError,
    NotAllowedError,
    RejectedError,
    RequestCancelledError,
    RequestError,
    UnavailableError,
    UnsupportedError,
    WorkerLostError,
)
from headway.runtime import ExpiredError
from headway.units import NS_PER_MS, NS_PER_S

__all__ = ["Answer", "HttpError", "answer_to", "late_headers", "prediction_headers", "status_of"]

Headers = Sequence[tuple[bytes, bytes]]

BUG_TEXT: Final = "the server failed; this is a bug in headway, and its log says more"
"""All that a client is told of what is not an error of ours."""
JSON_TYPE: Final = (b"content-type", b"application/json")

_STATUSES: Final[dict[type[HeadwayError], int]] = {
    InvalidRequestError: 400,
    ModelNotFoundError: 404,
    RejectedError: 429,
    UnavailableError: 503,
    DeadlineExceededError: 504,
    RequestCancelledError: 499,  # nobody is left to read it; for the log
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


class _Body(Struct, omit_defaults=True):
    error: str
    code: str
    reason: str | UnsetType = UNSET
    limit: str | UnsetType = UNSET
    stage: str | UnsetType = UNSET
    retry_after_ms: int | UnsetType = UNSET


_encoder: Final = Encoder()


def prediction_headers(foreseen: Forecast) -> Headers:
    """The mean and the bound of a known prediction, in milliseconds; nothing of an unknown one."""
    if not foreseen.bound_ns:
        return ()
    return (
        (b"headway-expected-ms", b"%.3f" % (foreseen.mean_ns / NS_PER_MS)),
        (b"headway-bound-ms", b"%.3f" % (foreseen.bound_ns / NS_PER_MS)),
    )


def late_headers(late_ns: int) -> Headers:
    """How late an answer is, in milliseconds; nothing where it is in time."""
    return ((b"headway-late-ms", b"%.3f" % (late_ns / NS_PER_MS)),) if late_ns else ()


def status_of(error: HeadwayError) -> int:
    """The status number of an error; a class that the table lacks has its parent's."""
    return next(_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES)


def answer_to(error: Exception) -> Answer:
    """The response that tells a client of an error. What is not ours tells nothing of itself."""
    headers: list[tuple[bytes, bytes]] = [JSON_TYPE]
    foreseen = error.foreseen if isinstance(error, ExpiredError) else UNKNOWN
    match error:
        case HttpError():
            headers += error.headers
            return Answer(
                error.status, _encoder.encode(_Body(error=str(error), code=error.code)), headers
            )
        case RejectedError():
            body = _rejection(error)
            headers += _retry_headers(error.retry_after_ns)
        case DeadlineExceededError():
            body = _Body(error=str(error), code=error.code, limit=error.limit, stage=error.stage)
        case HeadwayError():
            body = _Body(error=str(error), code=error.code)
        case _:
            body = _Body(error=BUG_TEXT, code=InternalError.code)
            return Answer(500, _encoder.encode(body), headers)
    return Answer(status_of(error), _encoder.encode(body), headers, foreseen)


def _rejection(error: RejectedError) -> _Body:
    return _Body(
        error=str(error),
        code=error.code,
        reason=error.reason,
        retry_after_ms=_ceil(error.retry_after_ns, NS_PER_MS),
    )


def _retry_headers(retry_after_ns: int) -> Headers:
    """HTTP knows whole seconds only; the exact time is beside it. Both are rounded up."""
    return (
        (b"retry-after", b"%d" % _ceil(retry_after_ns, NS_PER_S)),
        (b"headway-retry-after-ms", b"%d" % _ceil(retry_after_ns, NS_PER_MS)),
    )


def _ceil(duration_ns: int, unit_ns: int) -> int:
    return -(-duration_ns // unit_ns)
