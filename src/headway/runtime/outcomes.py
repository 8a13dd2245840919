"""From a kernel's outcome to the error its caller gets: inside there are fates, outside errors.

Knows outcomes and the error tree. Never a status number of a protocol.
"""

from collections.abc import Callable
from typing import Final

from headway.core import (
    UNKNOWN,
    Expire,
    ExpireReason,
    Fail,
    Forecast,
    ModelName,
    Reject,
    RejectReason,
    Stage,
)
from headway.errors import (
    DeadlineExceededError,
    ExecutorError,
    HeadwayError,
    InvalidRequestError,
    LoadError,
    ModelNotFoundError,
    OutOfMemoryError,
    RejectedError,
    RequestCancelledError,
    UnavailableError,
    WorkerLostError,
)
from headway.runtime.engine import InferReply
from headway.units import format_duration

__all__ = ["ExpiredError", "error_of", "outcome_of"]


def outcome_of(end: InferReply | HeadwayError) -> str:
    """How a request ended, as metrics and traces call it."""
    match end:
        case InferReply():
            return "completed"
        case RejectedError():
            return "rejected"
        case DeadlineExceededError():
            return "expired"
        case RequestCancelledError():
            return "cancelled"
        case _:
            return "failed"


class ExpiredError(DeadlineExceededError):
    """An admitted request was not in time; beside it stands what was expected of it."""

    foreseen: Forecast = UNKNOWN
    """What was foreseen when it was admitted; all 0 while nothing was known."""


_R = RejectReason

_FULL: Final[dict[RejectReason, str]] = {
    _R.MODEL_QUEUE_FULL: "the model's queue holds as many requests as it may",
    _R.MODEL_BYTES_FULL: "the model's queue holds as many bytes as it may",
    _R.SERVER_QUEUE_FULL: "the server holds as many waiting requests as it may",
    _R.SERVER_BYTES_FULL: "the server holds as many waiting bytes as it may",
    _R.DISPLACED: "the queue is full, and a more important request took this one's place",
    _R.PREDICTED_LATE: "the request is predicted to miss its deadline",
}

_FAILURES: Final[dict[str, Callable[[str], HeadwayError]]] = {
    "executor_failed": ExecutorError,
    "out_of_memory": OutOfMemoryError,
    "load_failed": LoadError,
    "worker_lost": WorkerLostError,
    "model_not_found": ModelNotFoundError,
}


def error_of(outcome: Reject | Expire | Fail, model: ModelName, limit: str) -> HeadwayError:
    """The error that a caller of `Engine.infer` gets.

    Args:
        outcome: what the kernel decided.
        model: for the message.
        limit: what set the request's budget.
    """
    if isinstance(outcome, Reject):
        return _rejected(outcome, model, limit)
    if isinstance(outcome, Expire):
        return _expired(outcome, limit)
    return _FAILURES.get(outcome.code, ExecutorError)(outcome.message)


def _rejected(outcome: Reject, model: ModelName, limit: str) -> HeadwayError:
    match outcome.reason:
        case RejectReason.MODEL_NOT_FOUND:
            return ModelNotFoundError(f"model `{model}` is not served, or not in this version")
        case RejectReason.MODEL_UNAVAILABLE:
            return UnavailableError(f"model `{model}` has no replica that could take the request")
        case RejectReason.DRAINING:
            return UnavailableError("the server is shutting down", hint="send it to another one")
        case RejectReason.DEADLINE_PAST:
            return DeadlineExceededError(
                "the deadline had passed when the request arrived",
                limit=limit,
                stage=Stage.ARRIVING,
                hint=f"grant more time: the limit was `{limit}`",
            )
        case RejectReason.TOO_MANY_ROWS:
            return InvalidRequestError(
                f"the request has more rows than model `{model}` takes in one batch",
                hint="send fewer rows, raise the model's batch.rows_max, or set its batch.oversize"
                " to `split`",
            )
        case _:
            return RejectedError(
                f"refused: {_FULL[outcome.reason]}",
                reason=outcome.reason,
                retry_after_ns=outcome.retry_after_ns,
                hint=f"try again in {format_duration(outcome.retry_after_ns)}",
            )


def _expired(outcome: Expire, limit: str) -> HeadwayError:
    match outcome.reason:
        case ExpireReason.HOPELESS:
            message = "given up: it could no longer have been in time"
        case ExpireReason.PREDICTED_LATE:
            message = "given up: it was predicted to be late, or to make more important requests so"
        case ExpireReason.DEADLINE_PAST:
            message = f"the deadline passed while the request was {outcome.stage}"
    error = ExpiredError(message, limit=limit, stage=outcome.stage, hint=f"the limit was `{limit}`")
    error.foreseen = outcome.foreseen
    return error
