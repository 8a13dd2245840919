"""Bodies as the protocol wants them, and what replies are understood to say."""

import json
from random import Random

import numpy as np
import pytest

from headway.core import Datatype, Tensor, bytes_element_ends
from headway.errors import ConfigError
from headway.loadgen import (
    InputSpec,
    ModelMetadata,
    encode_body,
    parse_answer,
    prepare_bodies,
    random_inputs,
    stacked,
    tensors_of,
)
from headway.loadgen.wire import request_headers
from headway.workload import (
    Arrival,
    Outcome,
    Stream,
    Uniform,
    UniformRows,
    Workload,
)


def an_arrival(**fields):
    """A request of one row for the model `m`."""
    given = {"model": "m", "tier": "live", "tenant": "acme", "rows": 1}
    return Arrival(
        **{"at_ns": 0, "stream": 0, "budget_ns": None, "priority": None} | given | fields
    )


def test_a_body_is_json_and_then_the_tensors():
    """Each input says how long it is, and its bytes follow in order."""
    inputs = [
        Tensor("a", Datatype.FP32, (1, 2), b"\0" * 8),
        Tensor("b", Datatype.UINT8, (1,), b"\7"),
    ]
    body = encode_body(inputs)
    head = json.loads(body.data[: body.json_bytes])
    assert [i["parameters"]["binary_data_size"] for i in head["inputs"]] == [8, 1]
    assert head["inputs"][0]["shape"] == [1, 2]
    assert head["parameters"] == {"binary_data_output": True}
    assert body.data[body.json_bytes :] == b"\0" * 8 + b"\7"


def test_headers_say_who_asks_and_until_when():
    """Budgets travel in milliseconds without losing a nanosecond, and only where there are any."""
    assert request_headers(an_arrival()) == {"headway-tier": "live", "headway-tenant": "acme"}
    headers = request_headers(an_arrival(budget_ns=1_500_001, priority=2))
    assert headers["headway-budget-ms"] == "1.500001"
    assert headers["headway-priority"] == "2"


def test_arrays_become_tensors():
    """Numbers, booleans and text find their datatypes; big-endian is turned round."""
    tensors = tensors_of(
        {
            "x": np.array([[1.5]], ">f4"),
            "ok": np.array([True]),
            "text": np.array(["ab", "c"], object),
        }
    )
    assert [t.datatype for t in tensors] == [Datatype.FP32, Datatype.BOOL, Datatype.BYTES]
    assert tensors[0].data == np.array([1.5], "<f4").tobytes()
    assert tensors[2].data == b"\2\0\0\0ab\1\0\0\0c"


def test_an_array_of_no_datatype_is_refused():
    """The protocol has no complex numbers."""
    with pytest.raises(ValueError, match="complex128"):
        tensors_of({"z": np.array([1j])})


@pytest.mark.parametrize("datatype", list(Datatype))
def test_noise_fills_every_datatype(datatype):
    """Random inputs have the declared type, the rows asked for, and the right number of bytes."""
    metadata = ModelMetadata("m", (InputSpec("x", datatype, (-1, 3, -1)),))
    (tensor,) = random_inputs(metadata, free_axis_size=2)(Random(1), 4)
    assert tensor.shape == (4, 3, 2)
    if datatype.item_bytes is None:
        assert bytes_element_ends(tensor.data, 24)
    else:
        assert tensor.size_bytes == 24 * datatype.item_bytes


def test_noise_without_a_batch_axis_has_one_row():
    """A model of fixed shape cannot be asked for two rows."""
    make = random_inputs(ModelMetadata("m", (InputSpec("x", Datatype.FP32, (3,)),)))
    assert make(Random(1), 1)[0].shape == (3,)
    with pytest.raises(ConfigError, match="no batch axis"):
        make(Random(1), 2)


def test_rows_are_stacked_from_samples():
    """A maker of one row serves requests of many."""
    make = stacked(lambda chance: {"x": np.full((1, 2), chance.random())})
    (tensor,) = make(Random(1), 3)
    assert tensor.shape == (3, 2)


def test_bodies_are_prepared_for_all_rows_and_taken_in_turn():
    """Each number of rows that can be drawn has its pool, which goes round."""
    stream = Stream(model="m", tier="t", arrivals=Uniform(1.0), rows=UniformRows(1, 2))
    workload = Workload(streams=(stream,), duration_ns=1)
    make = stacked(lambda chance: {"x": np.array([[chance.random()]])})
    bodies = prepare_bodies(workload, {"m": make}, chance=Random(1), count=2)
    taken = [bodies.body(an_arrival(rows=2)) for _ in range(3)]
    assert taken[0] != taken[1]
    assert taken[0] is taken[2]
    assert json.loads(taken[0].data[: taken[0].json_bytes])["inputs"][0]["shape"] == [2, 1]


def test_a_model_without_a_maker_is_refused():
    """What cannot be asked for is said before the run."""
    workload = Workload(
        streams=(Stream(model="m", tier="t", arrivals=Uniform(1.0)),), duration_ns=1
    )
    with pytest.raises(ConfigError, match="`m`"):
        prepare_bodies(workload, {}, chance=Random(1))


def test_a_reply_says_where_its_time_went():
    """Parameters of the reply become nanoseconds."""
    told = {"queue_us": 5, "service_us": 7, "batch_rows": 4, "budget_ms": 0.5, "tier": "live"}
    answer = parse_answer(200, json.dumps({"outputs": [], "parameters": told}).encode())
    assert answer == (Outcome.COMPLETED, 200, "live", 500_000, 5_000, 7_000, 4, None, None)


def test_a_reply_of_another_server_only_says_less():
    """Without headway's parameters a completed request is still completed."""
    assert parse_answer(200, b'{"outputs": []}') == (Outcome.COMPLETED, 200, *[None] * 7)
    assert parse_answer(200, b"<html>").outcome is Outcome.FAILED
    assert parse_answer(200, b'{"x": ' + b"[" * 5000).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (429, b'{"error": "full"}', Outcome.REJECTED),
        (503, b"", Outcome.REJECTED),
        (503, b'{"error": "gone", "code": "worker_lost"}', Outcome.FAILED),
        (504, b'{"error": "late"}', Outcome.EXPIRED),
        (400, b'{"error": "late", "code": "deadline_exceeded"}', Outcome.EXPIRED),
        (499, b"", Outcome.CANCELLED),
        (500, b'{"error": "boom", "code": "executor_failed"}', Outcome.FAILED),
        (404, b"not found", Outcome.FAILED),
        (504, b'{"error": ' + b"[" * 5000 + b"]" * 5000 + b"}", Outcome.EXPIRED),
    ],
)
def test_an_error_is_sorted_by_code_then_status(status, body, outcome):
    """The code is believed where there is one, else the status."""
    assert parse_answer(status, body).outcome is outcome


@pytest.mark.parametrize(("status", "body"), [(200, b"{}"), (504, b'{"error": "late"}')])
def test_a_reply_may_say_what_was_predicted(status, body):
    """Completed or expired, the prediction that it was admitted with is read to the nanosecond."""
    headers = {"headway-expected-ms": "12.346", "headway-bound-ms": "1234.567"}
    answer = parse_answer(status, body, headers)
    assert (answer.expected_ns, answer.bound_ns) == (12_346_000, 1_234_567_000)


@pytest.mark.parametrize("header", ["", "soon", "nan", "inf", "1,5"])
def test_a_prediction_that_is_no_number_was_not_made(header):
    """Whatever another server puts there fails no request."""
    answer = parse_answer(200, b"{}", {"headway-expected-ms": header, "headway-bound-ms": "2"})
    assert (answer.outcome, answer.expected_ns) == (Outcome.COMPLETED, None)
    assert answer.bound_ns == 2_000_000
