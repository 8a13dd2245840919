"""Laws of the gRPC codec: round trips, and no message that is more than wrong."""

import struct

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.fakes import a_reply

from headway.core import Datatype, Forecast, Tensor, bytes_element_ends, concat_bytes, elements_of
from headway.errors import InvalidRequestError
from headway.frontends import Regions
from headway.frontends.oip_grpc_infer import decode_call, encode_reply
from headway.frontends.oip_grpc_raw import RawReader, encode_answer
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


def both_ways(body, **how):
    """What the two readers make of a message: a call, or None for an error."""
    given = {"arrived_at_ns": 7, "metadata": {}, "left_ns": None} | how
    try:
        slow = decode_call(REQUEST.FromString(body), regions=NO_REGIONS, **given)
    except (DecodeError, InvalidRequestError):
        slow = None
    reader = RawReader()
    try:
        fast = [reader.read(kind(body), **given) for kind in (bytes, bytearray, bytes)]
    except InvalidRequestError:
        fast = [None]
        assert slow is None
    return slow, fast


def assert_alike(slow, fast):
    """The quick reader leaves it to the other, or says the same, also when it remembers."""
    if fast[0] is None:
        assert fast[1:] in ([], [None, None])
        return
    for one in fast:
        assert slow is not None
        assert one.request_id == slow.request_id
        assert not (one.is_typed)
        assert not (slow.is_typed)
        assert not (one.places)
        assert not (slow.places)
        assert [bytes(t.data) for t in one.call.inputs] == [bytes(t.data) for t in slow.call.inputs]
        alike = replace(one.call, inputs=list(slow.call.inputs))
        assert alike == replace(slow.call, inputs=list(slow.call.inputs))
        assert [(t.name, t.datatype, t.shape) for t in one.call.inputs] == [
            (t.name, t.datatype, t.shape) for t in slow.call.inputs
        ]


def raw_request(drawn, **fields):
    """A request with these tensors."""
    request = REQUEST(model_name="m", **fields)
    for at, tensor in enumerate(drawn):
        request.inputs.add(name=f"t{at}", datatype=tensor.datatype, shape=tensor.shape)
        request.raw_input_contents.append(tensor.data)
    return request


@given(st.lists(tensors(), max_size=3), st.text(max_size=4), st.none() | st.integers(0, 2**62))
def test_quick_reader_reads_every_raw_request(drawn, request_id, left_ns):
    """It takes them itself, and says what the other says."""
    body = raw_request(drawn, id=request_id, model_version="2").SerializeToString()
    slow, fast = both_ways(body, left_ns=left_ns)
    assert fast[0] is not None
    assert_alike(slow, fast)


@given(st.binary(max_size=200))
def test_quick_reader_is_never_quicker_than_right(body):
    """On any bytes at all."""
    assert_alike(*both_ways(body))


@given(
    st.lists(tensors(), max_size=3),
    st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=3), st.integers(0, 3)), max_size=3),
)
def test_quick_reader_of_damaged_requests(drawn, damages):
    """Bytes put in, taken out and changed anywhere in a request."""
    body = raw_request(drawn, id="abc").SerializeToString()
    for at, put, cut in damages:
        body = body[:at] + put + body[at + cut :]
    assert_alike(*both_ways(body))


@given(st.lists(tensors(), max_size=2), st.integers(0, 40), st.integers(0, 40))
def test_quick_reader_of_fields_in_any_order(drawn, first, second):
    """Two messages of one wire, cut where fields end: the last id counts, tensors add up."""
    one = raw_request(drawn, id="1").SerializeToString()
    other = raw_request(drawn[:1], id="2").SerializeToString()
    assert_alike(*both_ways(one[:first] + other + one[first:]))
    assert_alike(*both_ways(other + one[second:]))


@given(
    st.lists(tensors(), max_size=3),
    st.text(max_size=4),
    st.booleans(),
    st.integers(0, 2**40),
    st.integers(0, 3),
    st.integers(0, 2**40),
    st.integers(-(2**62), 2**62),
)
def test_quick_reply_is_the_other_reply(
    drawn, request_id, is_final, late_ns, segments, bound_ns, known_as
):
    """Field for field, as protobuf reads it; in a stream, too."""
    outputs = [replace(tensor, name=f"t{at}") for at, tensor in enumerate(drawn)]
    reply = a_reply(
        *outputs,
        late_ns=late_ns,
        segments=segments,
        request_id=known_as,
        foreseen=Forecast(mean_ns=bound_ns // 2, bound_ns=bound_ns),
        budget_ns=late_ns + 1,
        source="headway-budget-ms",
    )
    decoded = RawReader().read(
        raw_request([], id=request_id).SerializeToString(),
        arrived_at_ns=0,
        metadata={},
        left_ns=None,
    )
    wanted = encode_reply(reply, decoded)
    written = b"".join(encode_answer(reply, decoded, is_final=is_final))
    if is_final:
        wanted.parameters["triton_final_response"].bool_param = True
        found = INFERENCE["ModelStreamInferResponse"].FromString(written)
        assert found == INFERENCE["ModelStreamInferResponse"](infer_response=wanted)
    else:
        assert INFERENCE["ModelInferResponse"].FromString(written) == wanted


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


@given(odd_requests())
def test_quick_reader_of_odd_requests(request):
    """What it takes itself of them, it reads as the other does."""
    assert_alike(*both_ways(request.SerializeToString()))


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
