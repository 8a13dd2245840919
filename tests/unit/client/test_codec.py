"""Arrays out and arrays in, without a socket: every datatype, both forms, and what is refused."""

import json

import httpx
import ml_dtypes
import numpy as np
import pytest
from tests.unit.client.scripted_server import ScriptedServer, a_reply, ask

from headway.client import Bf16, answers, questions
from headway.client.answers import Answer
from headway.client.connection import AnswerParts
from headway.core import Datatype
from headway.errors import HeadwayError, InvalidRequestError

ARRAYS = {
    Datatype.BOOL: np.array([[True, False]]),
    Datatype.UINT8: np.array([[0, 255]], np.uint8),
    Datatype.UINT16: np.array([[0, 2**16 - 1]], np.uint16),
    Datatype.UINT32: np.array([[0, 2**32 - 1]], np.uint32),
    Datatype.UINT64: np.array([[2**53 + 1, 2**64 - 1]], np.uint64),
    Datatype.INT8: np.array([[-128, 127]], np.int8),
    Datatype.INT16: np.array([[-(2**15), 2**15 - 1]], np.int16),
    Datatype.INT32: np.array([[-(2**31), 2**31 - 1]], np.int32),
    Datatype.INT64: np.array([[-(2**53) - 1, 2**63 - 1]], np.int64),
    Datatype.FP16: np.array([[-2.5, 65504.0]], np.float16),
    Datatype.BF16: np.array([[-2.5, 1.0]], ml_dtypes.bfloat16),
    Datatype.FP32: np.array([[-1.5, np.inf]], np.float32),
    Datatype.FP64: np.array([[1e-300, np.nan]], np.float64),
    Datatype.BYTES: np.array([[b"\xff\x00", b""]], object),
}
EVERY = pytest.mark.parametrize("datatype", Datatype)


def asked(inputs, **settings):
    """An infer request, its JSON and the bytes behind."""
    request = questions.infer("m", inputs, headers={}, **settings).request
    json_bytes = int(request.headers["inference-header-content-length"])
    return request, json.loads(request.body[:json_bytes]), request.body[json_bytes:]


def echoed(request_json, binary, name="y"):
    """The inputs of a request as the outputs of an answer."""
    outputs = [{**one, "name": name} for one in request_json["inputs"]]
    head = json.dumps({"model_name": "m", "outputs": outputs}).encode()
    headers = {"inference-header-content-length": str(len(head))}
    return Answer(200, headers, head + binary)


@EVERY
def test_every_datatype_goes_out_and_comes_back(datatype):
    """Bit for bit, in binary, with the datatype that the protocol names."""
    array = ARRAYS[datatype]
    _, head, binary = asked({"x": array})
    assert head["inputs"][0]["datatype"] == datatype
    assert head["inputs"][0]["shape"] == [1, 2]
    back = answers.read_reply(echoed(head, binary))["y"]
    assert back.dtype == array.dtype
    assert back.shape == (1, 2)
    if datatype is Datatype.BYTES:
        assert back.tolist() == array.tolist()
    else:
        assert back.tobytes() == array.tobytes()


@EVERY
def test_every_datatype_is_read_from_json(datatype):
    """A server that answers in JSON is understood, 64-bit integers to the last digit."""
    values = {
        Datatype.BOOL: [True, False],
        Datatype.BYTES: ["é", ""],
        Datatype.UINT64: [2**53 + 1, 2**64 - 1],
        Datatype.INT64: [-(2**63), 2**53 + 1],
    }.get(datatype, [1, 2])
    for data in (values, [values]):
        output = {"name": "y", "datatype": datatype, "shape": [1, 2], "data": data}
        body = json.dumps({"model_name": "m", "outputs": [output]}).encode()
        y = answers.read_reply(Answer(200, {}, body))["y"]
        expected = ["é".encode(), b""] if datatype is Datatype.BYTES else values
        assert y.tolist() == [expected]
        assert y.dtype == ARRAYS[datatype].dtype


def test_bf16_without_its_package_is_bits(monkeypatch):
    """Where `ml_dtypes` is missing, bits are sent in `Bf16` and come back as uint16."""
    monkeypatch.setattr(answers, "numpy_dtype", lambda _: np.dtype("<u2"))
    bits = np.array([[0xC020, 0x3F80]], np.uint16)
    _, head, binary = asked({"x": Bf16(bits)})
    assert head["inputs"][0]["datatype"] == "BF16"
    assert binary == bits.tobytes()
    output = {"name": "y", "datatype": "BF16", "shape": [1, 2], "data": [-2.5, 1.0]}
    body = json.dumps({"model_name": "m", "outputs": [output]}).encode()
    assert answers.read_reply(Answer(200, {}, body))["y"].tolist() == bits.tolist()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.float32).reshape(3, 4).T,
        np.arange(12, dtype=">f4").reshape(4, 3),
        np.arange(24, dtype=np.float32).reshape(4, 6)[:, ::2],
        np.float32(7),
        np.empty((0, 4), np.float32),
        [[1, 2], [3, 4]],
    ],
)
def test_any_layout_is_packed(array):
    """Transposed, big-endian, strided, scalar, empty, or no array at all: what arrives is equal."""
    _, head, binary = asked({"x": array})
    back = answers.read_reply(echoed(head, binary))["y"]
    assert back.shape == np.shape(array)
    assert np.array_equal(back, array)


def test_text_travels_as_bytes():
    """str, numpy's own strings and lists of words are BYTES, in UTF-8."""
    for value in (["é", "b"], np.array(["é", "b"]), np.array(["é", b"b"], object)):
        _, head, binary = asked({"x": value})
        assert head["inputs"][0]["datatype"] == "BYTES"
        assert binary == b"\2\0\0\0\xc3\xa9\1\0\0\0b"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.array([1j]), "complex128"),
        (np.array([1, "a"], object), "`int`"),
        ([[1, 2], [3]], "inhomogeneous"),
        (Bf16(np.array([1], np.int32)), "`int32`, not `uint16`"),
    ],
)
def test_what_the_protocol_cannot_carry_is_refused_by_name(value, says):
    """Nothing is sent of it."""
    with pytest.raises(InvalidRequestError, match=f"input `x` cannot be sent.*{says}"):
        asked({"x": value})


def test_several_tensors_follow_each_other():
    """Inputs lie behind the JSON in its order, and outputs are cut from an answer likewise."""
    inputs = {"a": np.array([1], np.uint8), "b": np.array([2.0, 3.0]), "c": ["word"]}
    _, head, binary = asked(inputs)
    answer = echoed(head, binary)
    names = [{**one, "name": one["name"]} for one in head["inputs"]]
    body = json.dumps({"model_name": "m", "outputs": names}).encode()
    headers = {"inference-header-content-length": str(len(body))}
    reply = answers.read_reply(answer._replace(headers=headers, body=body + binary))
    assert {name: y.tolist() for name, y in reply.outputs.items()} == {
        "a": [1],
        "b": [2.0, 3.0],
        "c": [b"word"],
    }


def test_request_says_what_is_wanted():
    """Path, outputs, parameters and the wish for bytes."""
    request, head, _ = asked(
        {"x": [1.0]}, version="2", outputs=["y", "z"], parameters={"scale": 2, "kind": "a"}
    )
    assert request.path == "/v2/models/m/versions/2/infer"
    assert head["outputs"] == [{"name": "y"}, {"name": "z"}]
    assert head["parameters"] == {"scale": 2, "kind": "a", "binary_data_output": True}


def test_estimate_sends_shapes_and_no_data():
    """A request that is only asked about costs a few bytes, however large it is."""
    ask_ = questions.estimate("m", {"x": np.zeros((64, 1024), np.float32)}, headers={})
    assert json.loads(ask_.request.body)["inputs"] == [
        {"name": "x", "shape": [64, 1024], "datatype": "FP32"}
    ]


def test_names_cannot_leave_their_place_in_the_path():
    """A model's name is one segment, whatever is in it."""
    assert questions.metadata("a/b c", {}).request.path == "/v2/models/a%2Fb%20c"
    with pytest.raises(InvalidRequestError, match="no model"):
        questions.metadata("", {})


@pytest.mark.parametrize("spaces", range(17))
def test_outputs_are_aligned_views_of_the_answer(spaces):
    """Wherever its JSON ends, numbers lie aligned, are writable, and nothing is copied."""
    output = {"name": "y", "datatype": "FP64", "shape": [2], "parameters": {"binary_data_size": 16}}
    head = json.dumps({"model_name": "m", "outputs": [output]}).encode() + b" " * spaces
    headers = {"inference-header-content-length": str(len(head))}
    parts = AnswerParts(httpx.Response(200, headers=headers))
    body = head + np.array([1.5, -1.0]).tobytes()
    parts.add(body[:77])
    parts.add(body[77:])
    answer = parts.whole()
    y = answers.read_reply(answer)["y"]
    assert y.tolist() == [1.5, -1.0]
    assert y.flags.aligned
    assert y.flags.writeable
    assert np.shares_memory(y, np.frombuffer(answer.body, np.uint8))


def test_tensor_behind_odd_bytes_is_still_aligned():
    """Where a view would not be aligned, it is a copy that is."""
    inputs = {"a": np.array([1], np.uint8), "b": np.array([2.0, 3.0])}
    _, head, binary = asked(inputs)
    body = json.dumps({"model_name": "m", "outputs": head["inputs"]}).encode()
    headers = {"inference-header-content-length": str(len(body))}
    b = answers.read_reply(Answer(200, headers, body + binary))["b"]
    assert b.flags.aligned
    assert b.tolist() == [2.0, 3.0]


def test_reply_says_where_its_time_went():
    """Headers and parameters of headway, in nanoseconds; what is not said is None."""
    server = ScriptedServer(
        a_reply(
            {
                "headway-expected-ms": "12.500",
                "headway-bound-ms": "20.001",
                "headway-request-id": "-412",
            },
            queue_us=1500,
            service_us=250,
            batch_rows=4,
            budget_ms=0.5,
            limit="tier",
            tier="gold",
            late_ms=1.25,
            segments=2,
            more="yes",
        )
    )
    reply = ask("sync", server, "infer", "m", {"x": [1.0]})
    assert (reply.model, reply.version, reply.tier, reply.limit) == ("m", "3", "gold", "tier")
    assert (reply.queue_delay_ns, reply.service_ns) == (1_500_000, 250_000)
    assert (reply.expected_ns, reply.bound_ns) == (12_500_000, 20_001_000)
    assert (reply.batch_rows, reply.segments, reply.tries) == (4, 2, 1)
    assert reply.request_id == -412
    assert (reply.budget_ns, reply.late_ns) == (500_000, 1_250_000)
    assert reply.parameters["more"] == "yes"


@pytest.mark.parametrize(
    ("said", "request_id"),
    [("412", 412), (" 412 ", 412), ("", None), ("x", None), ("--1", None), ("9" * 20, None)],
)
def test_id_that_is_none_is_not_there(said, request_id):
    """A proxy may say anything; an error without one has 0."""
    headers = {"headway-request-id": said}
    reply = ask("sync", ScriptedServer(a_reply(headers)), "infer", "m", {"x": [1.0]})
    assert reply.request_id == request_id
    body = {"error": "no", "code": "invalid_request"}
    refusal = httpx.Response(400, json=body, headers=headers)
    with pytest.raises(InvalidRequestError) as caught:
        ask("sync", ScriptedServer(refusal), "infer", "m", {"x": [1.0]})
    assert caught.value.request_id == (request_id or 0)


def test_reply_of_another_server_tells_less():
    """No parameters, or such of another meaning, are no error."""
    for parameters in ({}, {"tier": 5, "queue_us": "a lot"}):
        reply = ask("sync", ScriptedServer(a_reply(**parameters)), "infer", "m", {"x": [1.0]})
        assert (reply.tier, reply.queue_delay_ns, reply.expected_ns) == (None, None, None)
        assert reply["y"].tolist() == [1.0, 2.0]


def an_answer(outputs, behind=b""):
    head = json.dumps({"model_name": "m", "outputs": outputs}).encode()
    lines = {"inference-header-content-length": str(len(head))}
    return httpx.Response(200, headers=lines, content=head + behind)


Y = {"name": "y", "datatype": "FP32", "shape": [2]}


@pytest.mark.parametrize(
    ("response", "says"),
    [
        (httpx.Response(200, content=b"<html>"), "malformed"),
        (httpx.Response(200, json={"answer": 42}), "model_name"),
        (an_answer([Y]), "`y` has no data"),
        (an_answer([{**Y, "parameters": {"binary_data_size": 4}}], b"1234"), "has 4 bytes"),
        (an_answer([{**Y, "parameters": {"binary_data_size": 8}}], b"123456789"), "take 8 bytes"),
        (an_answer([{**Y, "datatype": "FP8", "data": [1, 2]}]), "FP8"),
        (an_answer([{**Y, "data": [1, 2, 3]}]), "reshape"),
        (an_answer([{**Y, "datatype": "UINT8", "data": [1, None]}]), "NoneType"),
        (an_answer([{**Y, "datatype": "UINT8", "data": [1, 300]}]), "out of bounds"),
        (an_answer([{**Y, "parameters": {"binary_data_size": "8"}}], b"12345678"), "operand"),
    ],
)
def test_answer_that_cannot_be_read_says_why(response, says):
    """Another kind of server, or a broken one, is told from an error of the request."""
    with pytest.raises(HeadwayError, match=f"cannot be read.*{says}"):
        ask("sync", ScriptedServer(response), "infer", "m", {"x": [1.0]})
