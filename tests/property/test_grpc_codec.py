"""Laws of the gRPC codec: round trips, and no message that is more than wrong."""

import struct

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes import a_reply

from headway.core import Datatype, Tensor, bytes_element_ends, concat_bytes, elements_of
from headway.errors import InvalidRequestError
from headway.frontends import Regions
from headway.frontends.oip_grpc_infer import decode_call, encode_reply
from headway.frontends.oip_messages import INFERENCE

REQUEST = INFERENCE["ModelInferRequest"]
NO_REGIONS = Regions(is_allowed=False)
TYPED = {
    Datatype.BOOL: ("bool_contents", "?", st.booleans()),
    Datatype.INT8: ("int_contents", "b", st.integers(-(2**7), 2**7 - 1)),
    Datatype.INT16: ("int_contents", "h", st.integers(-(2**15), 2**15 - 1)),
    Datatype.INT32: ("int_contents", "i", st.integers(-(2**31), 2**31 - 1)),
    Datatype.INT64: ("int64_contents", "q", st.integers(-(2**63), 2**63 - 1)),
    Datatype.UINT8: ("uint_contents", "B", st.integers(0, 2**8 - 1)),
    Datatype.UINT16: ("uint_contents", "H", st.integers(0, 2**16 - 1)),
    Datatype.UINT32: ("uint_contents", "I", st.integers(0, 2**32 - 1)),
    Datatype.UINT64: ("uint64_contents", "Q", st.integers(0, 2**64 - 1)),
    Datatype.FP32: ("fp32_contents", "f", st.floats(width=32, allow_nan=False)),
    Datatype.FP64: ("fp64_contents", "d", st.floats(allow_nan=False)),
    Datatype.BYTES: ("bytes_contents", "", st.binary(max_size=6)),
}


def decode(message, **how):
    """As a server does."""
    given = {"arrived_at_ns": 0, "metadata": {}, "left_ns": None, "regions": NO_REGIONS} | how
    return decode_call(message, **given)


@st.composite
def shapes(draw):
    """Of few elements."""
    return tuple(draw(st.lists(st.integers(0, 3), max_size=3)))


@st.composite
def tensors(draw, name="x"):
    """Packed, of any datatype and any bytes."""
    datatype, shape = draw(st.sampled_from(sorted(Datatype))), draw(shapes())
    count = elements_of(shape)
    if datatype is Datatype.BYTES:
        data = concat_bytes(draw(st.lists(st.binary(max_size=5), min_size=count, max_size=count)))
    else:
        size = count * datatype.item_bytes
        data = draw(st.binary(min_size=size, max_size=size))
    return Tensor(name, datatype, shape, data)


@given(st.lists(tensors(), max_size=3))
def test_raw_tensors_survive_the_round_trip(drawn):
    """Any bytes go in and come out as they are, whatever the datatype."""
    request = REQUEST(model_name="m", id="7")
    for at, tensor in enumerate(drawn):
        request.inputs.add(name=f"t{at}", datatype=tensor.datatype, shape=tensor.shape)
        request.raw_input_contents.append(tensor.data)
    decoded = decode(REQUEST.FromString(request.SerializeToString()))
    assert [tensor.data for tensor in decoded.call.inputs] == [tensor.data for tensor in drawn]
    response = encode_reply(a_reply(*decoded.call.inputs), decoded)
    assert response.id == "7"
    assert list(response.raw_output_contents) == [tensor.data for tensor in drawn]
    assert [tuple(output.shape) for output in response.outputs] == [t.shape for t in drawn]


@given(st.data(), st.sampled_from(sorted(TYPED)), shapes())
def test_typed_tensors_survive_the_round_trip(data, datatype, shape):
    """What comes typed is answered typed, each value as it was."""
    field, code, values = TYPED[datatype]
    count = elements_of(shape)
    drawn = data.draw(st.lists(values, min_size=count, max_size=count))
    request = REQUEST(model_name="m")
    tensor = request.inputs.add(name="x", datatype=datatype, shape=shape)
    getattr(tensor.contents, field).extend(drawn)
    tensor.contents.SetInParent()
    decoded = decode(request)
    (packed,) = [each.data for each in decoded.call.inputs]
    if datatype is Datatype.BYTES:
        ends = bytes_element_ends(packed, count)
        starts = [0, *ends][:count]
        assert [packed[a + 4 : b] for a, b in zip(starts, ends, strict=True)] == drawn
    else:
        assert list(struct.unpack(f"<{count}{code}", packed)) == drawn
    response = encode_reply(a_reply(*decoded.call.inputs), decoded)
    assert list(getattr(response.outputs[0].contents, field)) == drawn
    assert not response.raw_output_contents


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_or_an_error(body):
    """Nothing but the protocol's own two errors."""
    try:
        decode(REQUEST.FromString(body))
    except (DecodeError, InvalidRequestError):
        return


PARAMETER = st.one_of(
    st.tuples(st.just("bool_param"), st.booleans()),
    st.tuples(st.just("int64_param"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("uint64_param"), st.integers(0, 2**64 - 1)),
    st.tuples(st.just("double_param"), st.floats()),
    st.tuples(st.just("string_param"), st.text(max_size=8)),
    st.none(),
)
NAMES = st.sampled_from(
    [
        *("priority", "timeout", "binary_data_output", "sequence_id", "headers", "own"),
        *("shared_memory_region", "shared_memory_byte_size", "shared_memory_offset"),
        *("classification", "headway_x", "triton_enable_empty_final_response"),
    ]
)


@st.composite
def odd_requests(draw):
    """Messages whose parts need not fit one another."""
    request = REQUEST(
        model_name=draw(st.text(max_size=4)), id=draw(st.text(max_size=4)), model_version="1"
    )

    def put(parameters):
        for name, value in draw(st.dictionaries(NAMES, PARAMETER, max_size=3)).items():
            if value is None:
                parameters[name].SetInParent()
            else:
                setattr(parameters[name], value[0], value[1])

    put(request.parameters)
    for at in range(draw(st.integers(0, 3))):
        one = request.inputs.add(
            name=draw(st.sampled_from(["x", f"x{at}"])),
            datatype=draw(st.sampled_from([*sorted(Datatype), "", "FP8"])),
            shape=draw(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3), max_size=3)),
        )
        put(one.parameters)
        if draw(st.booleans()):
            field, _, values = TYPED[draw(st.sampled_from(sorted(TYPED)))]
            getattr(one.contents, field).extend(draw(st.lists(values, max_size=4)))
    for _ in range(draw(st.integers(0, 2))):
        put(request.outputs.add(name=draw(st.sampled_from(["y", "z"]))).parameters)
    request.raw_input_contents.extend(draw(st.lists(st.binary(max_size=8), max_size=3)))
    return request


@given(odd_requests(), st.none() | st.integers(0, 2**62))
def test_odd_messages_are_requests_or_errors(request, left_ns):
    """No value anywhere raises anything but `InvalidRequestError`."""
    try:
        decoded = decode(request, left_ns=left_ns)
    except InvalidRequestError:
        return
    if left_ns is not None:
        assert decoded.call.budget_ns <= left_ns


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r.inputs[0].contents.fp32_contents.append(1), "beside `raw_input_contents`"),
        (lambda r: r.raw_input_contents.append(b""), "2 entries"),
        (lambda r: r.inputs.add(name="z", datatype="FP32", shape=[1]), "nothing for input `z`"),
        (lambda r: setattr(r.inputs[0], "datatype", "FP8"), "`FP8`"),
        (lambda r: r.inputs[0].shape.append(-1), "-1"),
        (lambda r: r.inputs[0].shape.extend([1] * 32), "at most 32 axes"),
        (lambda r: setattr(r, "id", "x" * 5000), "4096"),
        (lambda r: [r.outputs.add(name="y"), r.outputs.add(name="y")], "`y` is there more than"),
        (
            lambda r: setattr(r.inputs[0].parameters["shared_memory_region"], "string_param", "q"),
            "no shared memory region `q`",
        ),
    ],
)
def test_what_is_wrong_is_said(change, said):
    """With the value, and where it stands."""
    request = REQUEST(model_name="m")
    request.inputs.add(name="x", datatype="FP32", shape=[1])
    request.raw_input_contents.append(bytes(4))
    decode(request)
    change(request)
    with pytest.raises(InvalidRequestError) as error:
        decode(request)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("datatype", "field", "values", "said"),
    [
        ("INT8", "int_contents", [1, 200], "element 1 of input `x` is `200`"),
        ("UINT16", "uint_contents", [70_000, 1], "element 0 of input `x` is `70000`"),
        ("FP16", "fp32_contents", [1, 1], "no place for"),
        ("FP32", "int_contents", [1, 1], "use `fp32_contents`"),
        ("FP32", "fp32_contents", [1], "has 1 elements"),
    ],
)
def test_typed_values_must_fit(datatype, field, values, said):
    """Their datatype, their field and their number."""
    request = REQUEST(model_name="m")
    tensor = request.inputs.add(name="x", datatype=datatype, shape=[2])
    getattr(tensor.contents, field).extend(values)
    with pytest.raises(InvalidRequestError) as error:
        decode(request)
    assert said in str(error.value)


def test_half_precision_makes_a_typed_reply_raw():
    """There is no field for it, and a reply is one or the other."""
    request = REQUEST(model_name="m")
    tensor = request.inputs.add(name="x", datatype="FP32", shape=[1])
    tensor.contents.fp32_contents.append(1.0)
    decoded = decode(request)
    assert decoded.is_typed
    reply = a_reply(
        Tensor("a", Datatype.FP16, (1,), bytes(2)), Tensor("b", Datatype.FP32, (1,), bytes(4))
    )
    assert list(encode_reply(reply, decoded).raw_output_contents) == [bytes(2), bytes(4)]
