"""The estimate path and the prediction headers in this process, against a scripted engine."""

import asyncio
import gzip
import json
import struct

import pytest
from tests.asgi_client import call
from tests.fakes import FakeEngine
from tests.predictors import a_forecast

from headway.core import Forecast, RejectReason
from headway.frontends import OipRest
from headway.runtime import ExpiredError

ESTIMATE = "/v2/models/echo/estimate"
INFER = "/v2/models/echo/infer"
BARE = {"name": "INPUT", "shape": [2, 16], "datatype": "FP32"}
BODY = json.dumps({"inputs": [BARE]}).encode()
WHOLE = json.dumps({"inputs": [BARE | {"data": [0.5] * 32}]}).encode()
FORESEEN = Forecast(
    mean_ns=12_345_678,
    bound_ns=23_456_789,
    queue_ns=1_000_000,
    overhead_ns=345_678,
    base_ns=8_000_000,
    transfer_ns=2_000_000,
    interference_ns=1_000_000,
)
HEADERS = {"headway-expected-ms": "12.346", "headway-bound-ms": "23.457"}


@pytest.fixture
def engine():
    return FakeEngine(foreseen=FORESEEN)


def ask(engine, path=ESTIMATE, body=BODY, headers=None, method="POST", **options):
    """One request to an app around this engine."""
    app = OipRest(engine, version="0", **options)
    return asyncio.run(call(app, method, path, body, headers))


def test_estimate_says_what_would_become_of_a_request(engine):
    """Every field of the answer, with parts that add up, and nothing was run."""
    response = ask(engine)
    assert (response.status, response.headers["content-type"]) == (200, "application/json")
    answer = response.json
    parts_ms = answer.pop("parts_ms")
    assert answer == {
        "model_name": "echo",
        "model_version": "1",
        "admitted": True,
        "reason": None,
        "retry_after_ms": None,
        "is_known": True,
        "expected_ms": 12.345678,
        "bound_ms": 23.456789,
        "will_meet_deadline": {"expected": True, "bound": True},
        "deadline_ms": 1_000.0,
        "limit": "tier",
        "tier": "normal",
    }
    assert set(parts_ms) == {"queue", "overhead", "base", "transfer", "interference"}
    assert sum(parts_ms.values()) == pytest.approx(answer["expected_ms"])
    assert engine.calls == []


def test_estimate_needs_no_data(engine):
    """Shape and datatype are enough: an input without data counts as large as it would be."""
    assert ask(engine).status == 200
    (asked,) = engine.asked
    (tensor,) = asked.inputs
    assert (tensor.name, tensor.shape, tensor.size_bytes) == ("INPUT", (2, 16), 128)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (WHOLE, {}),
        (gzip.compress(WHOLE), {"Content-Encoding": "gzip"}),
        (struct.pack("<16f", *range(16)), {"Inference-Header-Content-Length": "0"}),
        (
            (text := json.dumps({"inputs": [BARE | {"parameters": {"binary_data_size": 128}}]}))
            .encode() + bytes(128),
            {"Inference-Header-Content-Length": str(len(text))},
        ),
    ],
)  # fmt: skip
def test_estimate_takes_the_body_of_an_infer_request(engine, body, headers):
    """The bytes that would be sent to `infer`, in any of its forms, may be sent here."""
    assert ask(engine, body=body, headers=headers).status == 200
    assert ask(engine, path=INFER, body=body, headers=headers).status == 200
    (asked,), (run,) = engine.asked, engine.calls
    assert [(t.name, t.shape, t.size_bytes) for t in asked.inputs] == [
        (t.name, t.shape, t.size_bytes) for t in run.inputs
    ]


def test_estimate_passes_on_who_asks_and_how(engine):
    """Headers and parameters mean what they mean to `infer`, the budget above all."""
    headers = {"headway-priority": "3", "headway-tenant": "acme", "headway-tier": "gold"}
    body = json.dumps({"inputs": [BARE], "parameters": {"timeout": 20_000, "beams": 4}}).encode()
    answer = ask(engine, body=body, headers=headers).json
    (asked,) = engine.asked
    assert (asked.priority, asked.tenant, asked.tier) == (3, "acme", "gold")
    assert asked.parameters == {"beams": 4}
    assert asked.arrived_at_ns == engine.now_ns()
    assert (answer["deadline_ms"], answer["limit"], answer["tier"]) == (20.0, "timeout", "gold")
    assert answer["will_meet_deadline"] == {"expected": True, "bound": False}


def test_estimate_of_a_refused_request_says_why(engine):
    """A refusal is an answer like another, with the reason and when to come back."""
    engine.refusal = RejectReason.MODEL_QUEUE_FULL
    answer = ask(engine).json
    assert (answer["admitted"], answer["reason"]) == (False, "model_queue_full")
    assert answer["retry_after_ms"] == 3
    assert answer["will_meet_deadline"] == {"expected": False, "bound": False}
    assert answer["expected_ms"] == 12.345678


def test_estimate_of_the_unknown_is_null():
    """Where nothing is known no number pretends to be one."""
    answer = ask(FakeEngine()).json
    assert (answer["admitted"], answer["is_known"]) == (True, False)
    assert [answer[key] for key in ("expected_ms", "bound_ms", "parts_ms")] == [None] * 3
    assert answer["will_meet_deadline"] == {"expected": None, "bound": None}


def test_estimate_takes_a_version(engine):
    """A version in the path is asked for; one that is not there is not found."""
    assert ask(engine, path="/v2/models/echo/versions/1/estimate").status == 200
    assert engine.asked[0].version == "1"
    missing = ask(engine, path="/v2/models/echo/versions/9/estimate")
    assert (missing.status, missing.json["code"]) == (404, "model_not_found")


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "code"),
    [
        ("/v2/models/nobody/estimate", WHOLE, {}, 404, "model_not_found"),
        (ESTIMATE, b"{", {}, 400, "invalid_request"),
        (ESTIMATE, WHOLE, {"headway-budget-ms": "soon"}, 400, "invalid_request"),
        (ESTIMATE, b"1234", {"Inference-Header-Content-Length": "0"}, 400, "invalid_request"),
        (ESTIMATE, WHOLE, {"Inference-Header-Content-Length": "90000"}, 400, "invalid_request"),
        (ESTIMATE, WHOLE, {"Content-Encoding": "br"}, 415, "unsupported_encoding"),
    ],
)
def test_estimate_refuses_what_infer_refuses(engine, path, body, headers, status, code):
    """A request that could not be understood is answered as `infer` answers it."""
    told = ask(engine, path=path, body=body, headers=headers)
    run = ask(engine, path=path.replace("estimate", "infer"), body=body, headers=headers)
    assert (told.status, told.json["code"]) == (status, code)
    assert (told.status, told.json) == (run.status, run.json)


@pytest.mark.parametrize("shape", [[3, 16], [2**31 - 1, 2**31 - 1], [2**31 - 1] * 32])
def test_estimate_of_more_than_may_be_sent_is_refused(engine, shape):
    """Data that is left out counts as if it were there, whatever a shape says."""
    body = json.dumps({"inputs": [BARE | {"shape": shape}]}).encode()
    response = ask(engine, body=body, body_bytes_max=128 + len(BODY))
    assert (response.status, response.json["code"]) == (413, "body_too_large")
    assert ask(engine, body_bytes_max=128 + len(BODY)).status == 200


def test_data_left_out_of_several_inputs_is_added_up(engine):
    """The limit is on the whole request, so two inputs may not each use all of it."""
    inputs = [BARE, BARE | {"name": "MORE"}]
    body = json.dumps({"inputs": inputs}).encode()
    assert ask(engine, body=body, body_bytes_max=256 + len(body)).status == 200
    assert ask(engine, body=body, body_bytes_max=255 + len(body)).status == 413


def test_large_estimate_is_decoded_too(engine):
    """A body that is decoded in a thread gives the same answer."""
    body = json.dumps({"inputs": [BARE], "parameters": {"note": "x" * (1 << 20)}}).encode()
    assert ask(engine, body=body).json == ask(engine).json


def test_estimate_is_asked_for_by_post(engine):
    """The path exists, and takes one method."""
    response = ask(engine, method="GET", body=b"")
    assert (response.status, response.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("parameters", "headers"),
    [({}, {}), ({"binary_data_output": True}, {}), ({}, {"Accept-Encoding": "gzip"})],
)
def test_every_form_of_reply_carries_the_prediction(engine, parameters, headers):
    """JSON, binary and compressed replies say what was foreseen, in milliseconds."""
    body = json.dumps({"inputs": [BARE | {"data": [0.5] * 32}], "parameters": parameters}).encode()
    response = ask(engine, path=INFER, body=body, headers=headers)
    assert response.status == 200
    assert HEADERS.items() <= response.headers.items()


def test_reply_without_a_prediction_has_no_headers():
    """What is not known is not there, rather than 0."""
    response = ask(FakeEngine(), path=INFER, body=WHOLE)
    assert response.status == 200
    assert not HEADERS.keys() & response.headers.keys()


def test_expired_request_tells_what_was_promised(engine):
    """A 504 carries the prediction too: it is where a client wants to check it."""
    error = ExpiredError("late", limit="tier", stage="running")
    error.foreseen = a_forecast(1_500_000)
    engine.outcome = error
    response = ask(engine, path=INFER, body=WHOLE)
    assert (response.status, response.json["stage"]) == (504, "running")
    assert response.headers["headway-expected-ms"] == "1.500"
    assert response.headers["headway-bound-ms"] == "3.000"
