"""What an error is called in gRPC: the one table from error classes to status codes.

Beside the code and the text, trailing metadata carry what programs can rely on: `headway-code` (as
in `headway.errors`), and where there is one `headway-reason`, `headway-limit`, `headway-stage`,
`retry-after` in whole seconds, `headway-retry-after-ms`, `headway-remaining` and, by which
`headway explain` finds the request, `headway-request-id`.
"""

import logging
from typing import Final, NamedTuple

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
from headway.frontends.grpc_status import StatusCode
from headway.frontends.rest_errors import BUG_TEXT, shortened
from headway.units import NS_PER_MS, NS_PER_S

__all__ = ["CODES", "TRAILER_BYTES_MAX", "Failure", "code_of", "failure_of"]

TRAILER_BYTES_MAX: Final = 4096
"""Of an error's text as it is sent. It travels as a header, of which clients of gRPC take 8 KiB, or
else they see another error than the one that happened."""
_BYTES_A_CHARACTER: Final = 12
"""At most: four of UTF-8, each of which is sent as three."""
_log: Final = logging.getLogger(__name__)

CODES: Final[dict[type[HeadwayError], StatusCode]] = {
    InvalidRequestError: StatusCode.INVALID_ARGUMENT,
    ModelNotFoundError: StatusCode.NOT_FOUND,
    RejectedError: StatusCode.RESOURCE_EXHAUSTED,
    UnavailableError: StatusCode.UNAVAILABLE,
    DeadlineExceededError: StatusCode.DEADLINE_EXCEEDED,
    RequestCancelledError: StatusCode.CANCELLED,
    NotAuthenticatedError: StatusCode.UNAUTHENTICATED,
    NotAllowedError: StatusCode.PERMISSION_DENIED,
    UnsupportedError: StatusCode.UNIMPLEMENTED,
    RequestError: StatusCode.INVALID_ARGUMENT,
    WorkerLostError: StatusCode.UNAVAILABLE,
    ExecutorError: StatusCode.INTERNAL,
    ConfigError: StatusCode.INVALID_ARGUMENT,
    InternalError: StatusCode.INTERNAL,
    HeadwayError: StatusCode.INTERNAL,
}


class Failure(NamedTuple):
    """How a call ends that has no answer."""

    code: StatusCode
    text: str
    metadata: tuple[tuple[str, str], ...]


def code_of(error: HeadwayError) -> StatusCode:
    """The status code of an error; a class that the table lacks has its parent's."""
    return next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)


def failure_of(error: Exception) -> Failure:
    """What tells a client of an error. What is not ours tells it nothing, but the log."""
    if not isinstance(error, HeadwayError):
        _log.error("a call failed", exc_info=error)
        return Failure(StatusCode.INTERNAL, BUG_TEXT, (("headway-code", InternalError.code),))
    metadata = [("headway-code", error.code)]
    if error.request_id:
        metadata.append(("headway-request-id", str(error.request_id)))
    match error:
        case RejectedError():
            metadata += [
                ("headway-reason", error.reason),
                ("retry-after", str(-(-error.retry_after_ns // NS_PER_S))),
                ("headway-retry-after-ms", str(-(-error.retry_after_ns // NS_PER_MS))),
            ]
            if error.limit:
                metadata.append(("headway-limit", error.limit))
            if error.remaining is not None:
                metadata.append(("headway-remaining", f"{error.remaining:g}"))
        case DeadlineExceededError():
            metadata += [("headway-limit", error.limit), ("headway-stage", error.stage)]
        case _:
            pass
    return Failure(code_of(error), _fitting(str(error)), tuple(metadata))


def _fitting(text: str) -> str:
    """As much of a text as a trailer holds."""
    chars_max = TRAILER_BYTES_MAX
    fitting = shortened(text, chars_max)
    while len(fitting) * _BYTES_A_CHARACTER > TRAILER_BYTES_MAX < _sent_bytes(fitting):
        chars_max //= 2
        fitting = shortened(text, chars_max)
    return fitting


def _sent_bytes(text: str) -> int:
    """All but printable ASCII is sent as `%` and two digits."""
    return sum(1 if 0x20 <= byte < 0x7F and byte != 0x25 else 3 for byte in text.encode())
