"""Laws of the Open Inference Protocol codec: round trips, and no input that is more than wrong."""

import json
import math
import struct
from contextlib import suppress

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw
from tests.fakes import a_reply

from headway.core import Datatype, ModelName, Tensor, concat_bytes, elements_of
from headway.errors import InvalidRequestError
from headway.frontends import ReplyForm, decode_infer, encode_infer
from headway.frontends.oip_tensors import pack_elements, unpack_elements

MODEL = ModelName("m")
LENGTH = b"inference-header-content-length"

INTEGERS = {
    Datatype.UINT8: (0, 2**8 - 1),
    Datatype.UINT16: (0, 2**16 - 1),
    Datatype.UINT32: (0, 2**32 - 1),
    Datatype.UINT64: (0, 2**64 - 1),
    Datatype.INT8: (-(2**7), 2**7 - 1),
    Datatype.INT16: (-(2**15), 2**15 - 1),
    Datatype.INT32: (-(2**31), 2**31 - 1),
    Datatype.INT64: (-(2**63), 2**63 - 1),
}


def _bf16(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


ELEMENTS = {
    Datatype.BOOL: st.booleans(),
    Datatype.FP16: st.floats(width=16, allow_nan=False, allow_infinity=False),
    Datatype.BF16: st.integers(0, 2**16 - 1).map(_bf16).filter(math.isfinite),
    Datatype.FP32: st.floats(width=32, allow_nan=False, allow_infinity=False),
    Datatype.FP64: st.floats(allow_nan=False, allow_infinity=False),
    Datatype.BYTES: st.text(max_size=8),
} | {datatype: st.integers(low, high) for datatype, (low, high) in INTEGERS.items()}


@st.composite
def elements(draw):
    """A datatype, a shape and as many values as it has room for."""
    datatype = draw(st.sampled_from(sorted(Datatype)))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    count = elements_of(shape)
    values = draw(st.lists(ELEMENTS[datatype], min_size=count, max_size=count))
    return datatype, tuple(shape), values


def nested(values, shape):
    """Values in lists within lists, as the shape says."""
    if len(shape) <= 1:
        return list(values)
    step = elements_of(shape[1:])
    return [nested(values[at * step : (at + 1) * step], shape[1:]) for at in range(shape[0])]


@st.composite
def tensors(draw, name):
    """A packed tensor of any bytes, such that binary must carry what JSON cannot."""
    datatype = draw(st.sampled_from(sorted(Datatype)))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    count = elements_of(shape)
    if datatype is Datatype.BYTES:
        data = concat_bytes(draw(st.lists(st.binary(max_size=5), min_size=count, max_size=count)))
    else:
        size = count * datatype.item_bytes
        data = draw(st.binary(min_size=size, max_size=size))
    return Tensor(name, datatype, shape, data)


def binary_body(inputs, **more):
    """A request whose inputs are all binary, and its headers."""
    head = [
        {
            "name": tensor.name,
            "shape": tensor.shape,
            "datatype": tensor.datatype,
            "parameters": {"binary_data_size": len(tensor.data)},
        }
        for tensor in inputs
    ]
    text = json.dumps({"inputs": head, **more}).encode()
    body = b"".join([text, *(tensor.data for tensor in inputs)])
    return body, {LENGTH: str(len(text)).encode()}


@given(elements())
def test_json_elements_survive_the_round_trip(drawn):
    """Any values of any datatype, flat or nested, come back exactly."""
    datatype, shape, values = drawn
    for data in (values, nested(values, shape)):
        packed = pack_elements("x", datatype, shape, Raw(json.dumps(data).encode()))
        assert values == list(unpack_elements(Tensor("x", datatype, shape, packed)))


@given(
    st.lists(st.integers(0, 3), max_size=3).flatmap(
        lambda names: st.tuples(*(tensors(f"t{at}") for at in range(len(names))))
    )
)
def test_binary_tensors_survive_the_round_trip(inputs):
    """Any bytes go in and come out as they are, whatever the datatype."""
    body, headers = binary_body(inputs)
    decoded = decode_infer(body, model=MODEL, arrived_at_ns=0, headers=headers)
    assert list(inputs) == decoded.call.inputs
    answer, json_bytes = encode_infer(a_reply(*decoded.call.inputs), ReplyForm(is_binary=True))
    if inputs:
        assert b"".join(tensor.data for tensor in inputs) == answer[json_bytes:]


@given(tensors("t"))
def test_a_json_reply_is_json_or_an_error(tensor):
    """What JSON cannot carry is refused; what it can is JSON by anyone's standard."""
    try:
        body, _ = encode_infer(a_reply(tensor), ReplyForm())
    except InvalidRequestError:
        return
    (output,) = json.loads(body, parse_constant=_no_such_word)["outputs"]
    assert elements_of(tensor.shape) == len(output["data"])


def _no_such_word(word):
    raise AssertionError(f"`{word}` is no JSON")


def decode_or_refuse(body, headers):
    """Decode; the one permitted error is permitted."""
    with suppress(InvalidRequestError):
        decode_infer(body, model=MODEL, arrived_at_ns=0, headers=headers)


@given(st.binary(max_size=200), st.one_of(st.none(), st.binary(max_size=6), st.integers(0, 200)))
def test_any_bytes_are_a_request_or_an_error(body, length):
    """Random bytes raise nothing but `InvalidRequestError`."""
    text = str(length).encode() if isinstance(length, int) else length
    decode_or_refuse(body, {} if text is None else {LENGTH: text})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
ODD = st.one_of(
    JSON,
    st.integers(-(2**70), 2**70),
    st.sampled_from(["FP32", "INT8", "BYTES", "BOOL", "BF16", "1", ""]),
    st.lists(st.integers(-1, 3), max_size=3),
)


@st.composite
def odd_requests(draw):
    """A valid request with some of its values replaced by anything."""
    one = {"name": "x", "shape": [1], "datatype": "INT8", "data": [1], "parameters": {"a": 1}}
    parameters = {"priority": 1, "timeout": 1, "binary_data_output": True}
    request = {
        "id": "1",
        "inputs": [one],
        "outputs": [{"name": "y", "parameters": {"binary_data": True}}],
        "parameters": parameters,
    }
    for place in (one, one["parameters"], parameters, request["outputs"][0], request):
        for key in [*place, "binary_data_size", "shared_memory_region"]:
            if draw(st.integers(0, 5)) == 0:
                place[key] = draw(ODD)
    return request


@given(odd_requests(), st.binary(max_size=8), st.booleans())
def test_a_request_with_odd_values_is_a_request_or_an_error(request, binary, is_split):
    """No value anywhere in a request raises anything but `InvalidRequestError`."""
    text = json.dumps(request).encode()
    decode_or_refuse(text + binary, {LENGTH: str(len(text)).encode()} if is_split else {})


@given(
    st.integers(0, 400),
    st.binary(max_size=4),
    st.integers(0, 8),
)
@example(0, b"", 0)
def test_a_damaged_request_is_a_request_or_an_error(at, patch, cut):
    """Bytes cut out of a valid body and others put in raise nothing but `InvalidRequestError`."""
    tensor = Tensor("é", Datatype.FP32, (2,), bytes(8))
    body, headers = binary_body([tensor], id="7", parameters={"timeout": 10, "priority": "2"})
    decode_or_refuse(body[:at] + patch + body[at + cut :], headers)


@given(st.sampled_from([b"headway-priority", b"headway-budget-ms", b"headway-tenant"]), st.binary())
def test_any_header_is_a_value_or_an_error(name, value):
    """Headers of ours may hold any bytes at all."""
    decode_or_refuse(b'{"inputs":[]}', {name: value})
