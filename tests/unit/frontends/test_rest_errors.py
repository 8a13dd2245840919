"""Errors as HTTP: numbers, bodies and headers."""

import json

import pytest

from headway import errors
from headway.errors import (
    ConfigError,
    DeadlineExceededError,
    ExecutorError,
    HeadwayError,
    InternalError,
    InvalidRequestError,
    LoadError,
    ModelNotFoundError,
    OutOfMemoryError,
    RejectedError,
    RequestCancelledError,
    UnavailableError,
    WorkerLostError,
)
from headway.frontends import HttpError, answer_to, status_of


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidRequestError("x"), 400),
        (ModelNotFoundError("x"), 404),
        (RejectedError("x", reason="model_queue_full", retry_after_ns=1), 429),
        (RequestCancelledError("x"), 499),
        (ExecutorError("x"), 500),
        (LoadError("x"), 500),
        (OutOfMemoryError("x"), 500),
        (InternalError("x"), 500),
        (UnavailableError("x"), 503),
        (WorkerLostError("x"), 503),
        (DeadlineExceededError("x", limit="tier", stage="waiting"), 504),
        (ConfigError("x"), 400),
    ],
)
def test_each_error_has_its_status(error, status):
    """One class, one number, whichever path raised it."""
    assert status == status_of(error)
    assert status == answer_to(error).status


def test_every_error_class_has_a_status():
    """No class of the tree is without a number, its own or its parent's."""
    classes = [getattr(errors, name) for name in errors.__all__]
    assert all(400 <= status_of(kind.__new__(kind)) < 600 for kind in classes)
    assert all(issubclass(kind, HeadwayError) for kind in classes)


def test_a_body_has_text_hint_and_code():
    """The text says what happened and what to do; the code is for programs."""
    answer = answer_to(ModelNotFoundError("model `m` is not served", hint="load it"))
    assert json.loads(answer.body) == {
        "error": "model `m` is not served (hint: load it)",
        "code": "model_not_found",
    }
    assert (b"content-type", b"application/json") in answer.headers


def test_a_rejection_says_when_to_come_back():
    """Whole seconds for HTTP, milliseconds beside them, both rounded up."""
    answer = answer_to(
        RejectedError("full", reason="model_queue_full", retry_after_ns=1_200_000_001)
    )
    headers = dict(answer.headers)
    assert (headers[b"retry-after"], headers[b"headway-retry-after-ms"]) == (b"2", b"1201")
    body = json.loads(answer.body)
    assert (body["reason"], body["retry_after_ms"]) == ("model_queue_full", 1201)


def test_a_missed_deadline_names_its_limit():
    """The client learns which of its limits fired, and where the request was."""
    answer = answer_to(DeadlineExceededError("late", limit="timeout", stage="running"))
    body = json.loads(answer.body)
    assert (body["limit"], body["stage"]) == ("timeout", "running")


def test_a_bug_tells_nothing_of_itself():
    """What is not one of our errors is answered without its text."""
    answer = answer_to(KeyError("secret"))
    assert answer.status == 500
    assert json.loads(answer.body)["code"] == "internal"
    assert b"secret" not in answer.body


def test_an_http_error_brings_its_own_number():
    """Errors of HTTP itself carry status, code and headers."""
    answer = answer_to(HttpError(405, "method_not_allowed", "no", headers=((b"allow", b"GET"),)))
    assert (
        answer.status,
        json.loads(answer.body),
    ) == (405, {"error": "no", "code": "method_not_allowed"})
    assert (b"allow", b"GET") in answer.headers


def test_a_long_text_keeps_both_ends():
    """A name of megabytes is not sent back whole: what happened and what to do are enough."""
    error = InvalidRequestError("input `" + "x" * 2**20 + "` is odd", hint="send another")
    text = json.loads(answer_to(error).body)["error"]
    assert len(text) < 10_000
    assert text.startswith("input `xxx")
    assert text.endswith("x` is odd (hint: send another)")
