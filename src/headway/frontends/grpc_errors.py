"""What an error is called in gRPC: the one table from error classes to status codes.

Beside the code and the text, trailing metadata carry what programs can rely on: `headway-code` (as
in `headway.errors`), and where there is one `headway-reason`, `headway-limit`, `headway-stage`,
`retry-after` in whole seconds and `headway-retry-after-ms`.
"""

from typing import Final, NamedTuple

import grpc

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
from headway.frontends.rest_errors import BUG_TEXT
from headway.units import NS_PER_MS, NS_PER_S

__all__ = ["Failure", "code_of", "failure_of"]

_CODES: Final[dict[type[HeadwayError], grpc.StatusCode]] = {
    InvalidRequestError: grpc.StatusCode.INVALID_ARGUMENT,
    ModelNotFoundError: grpc.StatusCode.NOT_FOUND,
    RejectedError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    UnavailableError: grpc.StatusCode.UNAVAILABLE,
    DeadlineExceededError: grpc.StatusCode.DEADLINE_EXCEEDED,
    RequestCancelledError: grpc.StatusCode.CANCELLED,
    NotAllowedError: grpc.StatusCode.PERMISSION_DENIED,
    UnsupportedError: grpc.StatusCode.UNIMPLEMENTED,
    RequestError: grpc.StatusCode.INVALID_ARGUMENT,
    WorkerLostError: grpc.StatusCode.UNAVAILABLE,
    ExecutorError: grpc.StatusCode.INTERNAL,
    ConfigError: grpc.StatusCode.INVALID_ARGUMENT,
    InternalError: grpc.StatusCode.INTERNAL,
    HeadwayError: grpc.StatusCode.INTERNAL,
}


class Failure(NamedTuple):
    """How a call ends that has no answer."""

    code: grpc.StatusCode
    text: str
    metadata: tuple[tuple[str, str], ...]


def code_of(error: HeadwayError) -> grpc.StatusCode:
    """The status code of an error; a class that the table lacks has its parent's."""
    return next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)


def failure_of(error: Exception) -> Failure:
    """What tells a client of an error. What is not ours tells nothing of itself."""
    if not isinstance(error, HeadwayError):
        return Failure(grpc.StatusCode.INTERNAL, BUG_TEXT, (("headway-code", InternalError.code),))
    metadata = [("headway-code", error.code)]
    match error:
        case RejectedError():
            metadata += [
                ("headway-reason", error.reason),
                ("retry-after", str(-(-error.retry_after_ns // NS_PER_S))),
                ("headway-retry-after-ms", str(-(-error.retry_after_ns // NS_PER_MS))),
            ]
        case DeadlineExceededError():
            metadata += [("headway-limit", error.limit), ("headway-stage", error.stage)]
        case _:
            pass
    return Failure(code_of(error), str(error), tuple(metadata))
