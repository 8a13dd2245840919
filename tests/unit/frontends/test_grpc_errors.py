"""Errors as gRPC: codes, texts and trailing metadata; and the messages that are committed."""

import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import grpc
import pytest
from google.protobuf import descriptor_pool

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
from headway.frontends.grpc_errors import TRAILER_BYTES_MAX, code_of, failure_of
from headway.frontends.grpc_status import StatusCode
from headway.frontends.oip_messages import INFERENCE

GEN_PROTO = Path(__file__).parents[3] / "tools" / "gen_proto.py"

PAIRS = {
    401: StatusCode.UNAUTHENTICATED,
    400: StatusCode.INVALID_ARGUMENT,
    403: StatusCode.PERMISSION_DENIED,
    404: StatusCode.NOT_FOUND,
    429: StatusCode.RESOURCE_EXHAUSTED,
    499: StatusCode.CANCELLED,
    500: StatusCode.INTERNAL,
    501: StatusCode.UNIMPLEMENTED,
    503: StatusCode.UNAVAILABLE,
    504: StatusCode.DEADLINE_EXCEEDED,
}


def test_codes_are_those_of_the_specification():
    """By name and number, as the gRPC library has them."""
    assert {one.name: int(one) for one in StatusCode} == {
        one.name: one.value[0] for one in grpc.StatusCode
    }


def test_both_interfaces_mean_the_same_by_an_error():
    """Every class of the tree has the code that goes with its number."""
    kinds = [getattr(errors, name) for name in errors.__all__]
    instances = [kind.__new__(kind) for kind in kinds]
    assert all(code_of(error) is PAIRS[status_of(error)] for error in instances)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidRequestError("x"), StatusCode.INVALID_ARGUMENT),
        (ModelNotFoundError("x"), StatusCode.NOT_FOUND),
        (NotAllowedError("x"), StatusCode.PERMISSION_DENIED),
        (UnsupportedError("x"), StatusCode.UNIMPLEMENTED),
        (UnavailableError("x"), StatusCode.UNAVAILABLE),
        (WorkerLostError("x"), StatusCode.UNAVAILABLE),
    ],
)
def test_error_is_told_with_its_code_and_hint(error, code):
    """The text for people, the code for programs."""
    error.hint = "do so"
    failure = failure_of(error)
    assert (failure.code, failure.text) == (code, "x (hint: do so)")
    assert dict(failure.metadata) == {"headway-code": error.code}


def test_error_says_which_request_it_ended():
    """By what records know it; one that was never a request has no id."""
    error = UnavailableError("x")
    error.request_id = -7
    told = {"headway-code": error.code, "headway-request-id": "-7"}
    assert dict(failure_of(error).metadata) == told


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


@pytest.mark.parametrize("name", ["n" * 100_000, "\u00e9" * 4000, "\U0001f600" * 999, "%" * 4096])
def test_long_text_fits_the_trailers(name):
    """Sent with its escapes it stays within what clients take, and both of its ends are there."""
    text = failure_of(InvalidRequestError(f"`{name}` is odd", hint="send another")).text
    plain = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
    assert len(quote(text, safe=plain)) <= TRAILER_BYTES_MAX
    assert text.startswith(f"`{name[0]}")
    assert text.endswith("is odd (hint: send another)")


def test_text_that_fits_is_sent_whole():
    """Nothing is cut without need."""
    text = "x" * TRAILER_BYTES_MAX
    assert failure_of(InvalidRequestError(text)).text == text


def test_bug_tells_nothing_of_itself():
    """The log says more; a client has no use for it."""
    failure = failure_of(ZeroDivisionError("secret"))
    assert failure.code is StatusCode.INTERNAL
    assert "secret" not in failure.text
    assert not issubclass(ZeroDivisionError, HeadwayError)


def test_messages_are_kept_out_of_the_common_pool():
    """There a client's file of the same package would clash with them."""
    assert INFERENCE["ModelInferRequest"].DESCRIPTOR.full_name == "inference.ModelInferRequest"
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindFileByName("inference.proto")


def test_committed_descriptors_say_what_their_sources_say():
    """`tools/gen_proto.py` has been run.

    In a process of its own, for its compiler ends one that OR-Tools was loaded in before.
    """
    checked = subprocess.run(
        [sys.executable, GEN_PROTO, "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
