"""A reply as bytes: JSON, binary, both, and what it says about itself."""

import json
import struct

import pytest
from tests.fakes import a_reply

from headway.core import Datatype, Tensor, concat_bytes
from headway.errors import InvalidRequestError
from headway.frontends import ReplyForm, encode_infer

A = Tensor("a", Datatype.FP32, (1, 2), struct.pack("<2f", 1.5, -2))
B = Tensor("b", Datatype.BYTES, (1,), concat_bytes([b"\xff"]))


def test_json_reply_has_its_data_and_says_where_the_time_went():
    """A JSON reply echoes the id and tells queue delay, service time, batch, budget and limit."""
    body, json_bytes = encode_infer(
        a_reply(A, budget_ns=50_500_000, source="timeout"), ReplyForm("7")
    )
    assert json_bytes is None
    assert json.loads(body) == {
        "model_name": "echo",
        "model_version": "1",
        "id": "7",
        "parameters": {
            "queue_us": 1500,
            "service_us": 250,
            "batch_rows": 4,
            "budget_ms": 50.5,
            "limit": "timeout",
            "tier": "normal",
        },
        "outputs": [{"name": "a", "shape": [1, 2], "datatype": "FP32", "data": [1.5, -2.0]}],
    }


def test_reply_says_if_it_is_late_or_was_computed_in_parts():
    """Only then: an answer in time, of one batch, says neither."""
    parameters = json.loads(
        encode_infer(a_reply(A, late_ns=2_500_000, segments=3), ReplyForm())[0]
    )["parameters"]
    assert (parameters["late_ms"], parameters["segments"]) == (2.5, 3)
    plain = json.loads(encode_infer(a_reply(A), ReplyForm())[0])["parameters"]
    assert plain.keys().isdisjoint({"late_ms", "segments"})


def test_no_id_no_echo():
    """Without an id in the request there is none in the reply; an empty one is echoed."""
    assert "id" not in json.loads(encode_infer(a_reply(A), ReplyForm()).body)
    assert json.loads(encode_infer(a_reply(A), ReplyForm("")).body)["id"] == ""


def test_binary_reply_has_its_bytes_behind_the_json():
    """Binary outputs follow the JSON in their order, each with its size."""
    body, json_bytes = encode_infer(a_reply(A, B), ReplyForm(is_binary=True))
    outputs = json.loads(body[:json_bytes])["outputs"]
    assert [o["parameters"] for o in outputs] == [{"binary_data_size": 8}, {"binary_data_size": 5}]
    assert all("data" not in output for output in outputs)
    assert A.data + B.data == body[json_bytes:]


def test_forms_mix():
    """An output's own form wins over the request's."""
    form = ReplyForm(is_binary=False, binary_by_name={"b": True})
    body, json_bytes = encode_infer(a_reply(A, B), form)
    outputs = json.loads(body[:json_bytes])["outputs"]
    assert outputs[0]["data"] == [1.5, -2.0]
    assert B.data == body[json_bytes:]


def test_views_of_any_item_size_are_encoded():
    """An executor may hand over a view that counts in floats, not bytes."""
    tensor = Tensor("a", Datatype.FP32, (1, 2), memoryview(A.data).cast("f"))
    assert encode_infer(a_reply(A), ReplyForm()) == encode_infer(a_reply(tensor), ReplyForm())
    binary = ReplyForm(is_binary=True)
    assert encode_infer(a_reply(A), binary) == encode_infer(a_reply(tensor), binary)


def test_the_body_keeps_nothing_of_the_reply():
    """What is encoded is the body's own: the reply's buffers may be reused at once."""
    data = bytearray(A.data)
    body, _ = encode_infer(
        a_reply(Tensor("a", Datatype.FP32, (1, 2), memoryview(data))), ReplyForm(is_binary=True)
    )
    data[:] = bytes(8)
    assert body.endswith(A.data)
    data.extend(b"resized: nobody holds a view of it")


def test_bytes_that_are_no_text_can_be_had_in_binary_only():
    """An output that JSON cannot carry is an error in JSON and no problem in binary."""
    with pytest.raises(InvalidRequestError, match="binary_data"):
        encode_infer(a_reply(B), ReplyForm())
    assert encode_infer(a_reply(B), ReplyForm(is_binary=True)).body.endswith(B.data)
