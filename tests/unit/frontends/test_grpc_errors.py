"""Errors as gRPC: codes, texts and trailing metadata; and the messages that are committed."""

import grpc
import pytest
from google.protobuf import descriptor_pool

import gen_proto
from headway import errors
from headway.errors import (
    DeadlineExceededError,
    HeadwayError,
    InvalidRequestError,
    ModelNotFoundError,
    NotAllowedError,
    RejectedError,
    UnavailableError,
    UnsupportedError,
    WorkerLostError,
)
from headway.frontends import status_of
from headway.frontends.grpc_errors import code_of, failure_of
from headway.frontends.oip_messages import INFERENCE

PAIRS = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    499: grpc.StatusCode.CANCELLED,
    500: grpc.StatusCode.INTERNAL,
    501: grpc.StatusCode.UNIMPLEMENTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


def test_both_interfaces_mean_the_same_by_an_error():
    """Every class of the tree has the code that goes with its number."""
    kinds = [getattr(errors, name) for name in errors.__all__]
    instances = [kind.__new__(kind) for kind in kinds]
    assert all(code_of(error) is PAIRS[status_of(error)] for error in instances)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidRequestError("x"), grpc.StatusCode.INVALID_ARGUMENT),
        (ModelNotFoundError("x"), grpc.StatusCode.NOT_FOUND),
        (NotAllowedError("x"), grpc.StatusCode.PERMISSION_DENIED),
        (UnsupportedError("x"), grpc.StatusCode.UNIMPLEMENTED),
        (UnavailableError("x"), grpc.StatusCode.UNAVAILABLE),
        (WorkerLostError("x"), grpc.StatusCode.UNAVAILABLE),
    ],
)
def test_error_is_told_with_its_code_and_hint(error, code):
    """The text for people, the code for programs."""
    error.hint = "do so"
    failure = failure_of(error)
    assert (failure.code, failure.text) == (code, "x (hint: do so)")
    assert dict(failure.metadata) == {"headway-code": error.code}


def test_refusal_says_when_to_come_again():
    """In milliseconds, and in whole seconds for those who know no better; both rounded up."""
    failure = failure_of(RejectedError("x", reason="model_queue_full", retry_after_ns=1_000_001))
    assert dict(failure.metadata) == {
        "headway-code": "rejected",
        "headway-reason": "model_queue_full",
        "retry-after": "1",
        "headway-retry-after-ms": "2",
    }


def test_expiry_says_which_limit_fired():
    """And where the request was then."""
    failure = failure_of(DeadlineExceededError("x", limit="grpc-timeout", stage="waiting"))
    assert dict(failure.metadata)["headway-limit"] == "grpc-timeout"
    assert dict(failure.metadata)["headway-stage"] == "waiting"


def test_bug_tells_nothing_of_itself():
    """The log says more; a client has no use for it."""
    failure = failure_of(ZeroDivisionError("secret"))
    assert failure.code is grpc.StatusCode.INTERNAL
    assert "secret" not in failure.text
    assert not issubclass(ZeroDivisionError, HeadwayError)


def test_messages_are_kept_out_of_the_common_pool():
    """There a client's file of the same package would clash with them."""
    assert INFERENCE["ModelInferRequest"].DESCRIPTOR.full_name == "inference.ModelInferRequest"
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindFileByName("inference.proto")


def test_committed_descriptors_say_what_their_sources_say():
    """`tools/gen_proto.py` has been run."""
    assert gen_proto.main(["--check"]) == 0
