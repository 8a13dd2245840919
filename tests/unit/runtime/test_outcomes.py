"""Every end that the kernel knows, as the error that a caller gets."""

from typing import get_args

import pytest

from headway import errors
from headway.core import (
    Expire,
    ExpireReason,
    Fail,
    ModelName,
    Reject,
    RejectReason,
    RequestId,
    Stage,
)
from headway.errors import (
    DeadlineExceededError,
    ExecutorError,
    InvalidRequestError,
    LoadError,
    ModelNotFoundError,
    OutOfMemoryError,
    RejectedError,
    UnavailableError,
    WorkerLostError,
)
from headway.runtime.outcomes import error_of

ECHO = ModelName("echo")
ID = RequestId(1)

REJECTIONS = {
    RejectReason.MODEL_NOT_FOUND: (ModelNotFoundError, "`echo` is not served"),
    RejectReason.MODEL_UNAVAILABLE: (UnavailableError, "`echo` has no replica"),
    RejectReason.DRAINING: (UnavailableError, "shutting down"),
    RejectReason.DEADLINE_PAST: (DeadlineExceededError, "had passed when the request arrived"),
    RejectReason.TOO_MANY_ROWS: (InvalidRequestError, "more rows than model `echo` takes"),
    RejectReason.MODEL_QUEUE_FULL: (RejectedError, "the model's queue holds as many requests"),
    RejectReason.MODEL_BYTES_FULL: (RejectedError, "the model's queue holds as many bytes"),
    RejectReason.SERVER_QUEUE_FULL: (RejectedError, "the server holds as many waiting requests"),
    RejectReason.SERVER_BYTES_FULL: (RejectedError, "the server holds as many waiting bytes"),
    RejectReason.DISPLACED: (RejectedError, "a more important request took this one's place"),
    RejectReason.PREDICTED_LATE: (RejectedError, "predicted to miss its deadline"),
}
FAILURES = {
    "executor_failed": ExecutorError,
    "out_of_memory": OutOfMemoryError,
    "load_failed": LoadError,
    "worker_lost": WorkerLostError,
    "model_not_found": ModelNotFoundError,
    "never heard of": ExecutorError,
}


@pytest.mark.parametrize("reason", RejectReason)
def test_rejection_becomes_its_error(reason):
    """Each reason has a class and words of its own."""
    kind, words = REJECTIONS[reason]
    error = error_of(Reject(request_id=ID, reason=reason, retry_after_ns=0), ECHO, "tier")
    assert type(error) is kind
    assert words in error.message


@pytest.mark.parametrize(
    "reason", [reason for reason, (kind, _) in REJECTIONS.items() if kind is RejectedError]
)
def test_refusal_for_want_of_room_says_when_to_try_again(reason):
    """The reason and the time are there for machines, the time also in words."""
    outcome = Reject(request_id=ID, reason=reason, retry_after_ns=250_000_000)
    error = error_of(outcome, ECHO, "tier")
    assert isinstance(error, RejectedError)
    assert (error.reason, error.retry_after_ns) == (reason, 250_000_000)
    assert error.hint == "try again in 250ms"


@pytest.mark.parametrize("stage", [Stage.WAITING, Stage.RUNNING])
def test_expiry_names_stage_and_limit(stage):
    """A caller learns where the time went and which setting granted it."""
    outcome = Expire(request_id=ID, stage=stage, reason=ExpireReason.DEADLINE_PAST)
    error = error_of(outcome, ECHO, "timeout")
    assert isinstance(error, DeadlineExceededError)
    assert error.message == f"the deadline passed while the request was {stage}"
    assert (error.limit, error.stage) == ("timeout", stage)
    assert error.hint == "the limit was `timeout`"


GIVEN_UP = {
    ExpireReason.HOPELESS: "given up: it could no longer have been in time",
    ExpireReason.PREDICTED_LATE: (
        "given up: it was predicted to be late, or to make more important requests so"
    ),
}


@pytest.mark.parametrize("reason", GIVEN_UP)
def test_request_that_is_given_up_is_told_so(reason):
    """Giving up early is another thing than running out of time, and has the same code."""
    outcome = Expire(request_id=ID, stage=Stage.WAITING, reason=reason)
    error = error_of(outcome, ECHO, "tier")
    assert isinstance(error, DeadlineExceededError)
    assert error.message == GIVEN_UP[reason]
    assert (error.limit, error.stage, error.hint) == ("tier", "waiting", "the limit was `tier`")


def test_request_that_arrived_late_is_told_so():
    """A budget of nothing is a deadline that passed at the door."""
    outcome = Reject(request_id=ID, reason=RejectReason.DEADLINE_PAST, retry_after_ns=0)
    error = error_of(outcome, ECHO, "headway-budget-ms")
    assert isinstance(error, DeadlineExceededError)
    assert (error.limit, error.stage) == ("headway-budget-ms", Stage.ARRIVING)


@pytest.mark.parametrize("code", FAILURES)
def test_failure_becomes_the_class_of_its_code(code):
    """The message is the executor's; a code that nobody knows is an executor's error."""
    outcome = Fail(request_id=ID, stage=Stage.RUNNING, code=code, message="why")
    error = error_of(outcome, ECHO, "tier")
    assert (type(error), error.message) == (FAILURES[code], "why")


def test_every_executor_error_has_its_code_here():
    """A new class of executor error must be told apart here too."""
    codes = {
        kind.code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, ExecutorError)
    }
    assert codes - set(FAILURES) == set()
    assert get_args(Reject | Expire | Fail) == (Reject, Expire, Fail)
