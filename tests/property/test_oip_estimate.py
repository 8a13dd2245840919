"""Laws of the estimate codec: no input is more than wrong, and nothing is larger than allowed."""

import json

from hypothesis import example, given
from hypothesis import strategies as st
from tests.property.test_oip_codec import LENGTH, MODEL, binary_body, odd_requests, tensors

from headway.core import UNKNOWN, Datatype, Forecast, RejectReason, TierName, elements_of
from headway.errors import InvalidRequestError
from headway.frontends import HttpError, decode_estimate, decode_infer
from headway.frontends.oip_estimate import estimate_body
from headway.runtime import InferEstimate

BYTES_MAX = 4_096


def decode(body, headers, bytes_max=BYTES_MAX):
    """Decode what an estimate is asked of."""
    return decode_estimate(body, model=MODEL, arrived_at_ns=0, headers=headers, bytes_max=bytes_max)


def decode_or_refuse(body, headers, bytes_max=BYTES_MAX):
    """Decode; None for what is refused in one of the two ways that are permitted."""
    try:
        call = decode(body, headers, bytes_max)
    except InvalidRequestError:
        return None
    except HttpError as error:
        if error.status != 413:
            raise
        return None
    assert sum(tensor.size_bytes for tensor in call.inputs) <= max(bytes_max, len(body))
    return call


@given(st.binary(max_size=200), st.one_of(st.none(), st.binary(max_size=6), st.integers(0, 200)))
def test_any_bytes_are_an_estimate_or_an_error(body, length):
    """Random bytes raise nothing but a refusal."""
    text = str(length).encode() if isinstance(length, int) else length
    decode_or_refuse(body, {} if text is None else {LENGTH: text})


@given(odd_requests(), st.binary(max_size=8), st.booleans())
def test_odd_values_are_an_estimate_or_an_error(request, binary, is_split):
    """No value anywhere in a request raises anything but a refusal, and none is too large."""
    text = json.dumps(request).encode()
    decode_or_refuse(text + binary, {LENGTH: str(len(text)).encode()} if is_split else {})


SIZES = st.one_of(st.integers(0, 3), st.integers(0, 2**31 - 1))


@given(
    st.lists(st.tuples(st.sampled_from(Datatype), st.lists(SIZES, max_size=6)), max_size=4),
)
@example([(Datatype.BYTES, [2**31 - 1] * 6)])
@example([(Datatype.UINT8, [2**31 - 1, 0])])
def test_left_out_data_never_exceeds_the_limit(inputs):
    """Whatever shapes say, zeros stand for the data as far as the limit goes, and no further."""
    head = [
        {"name": f"x{at}", "datatype": datatype, "shape": shape}
        for at, (datatype, shape) in enumerate(inputs)
    ]
    body = json.dumps({"inputs": head}).encode()
    sizes_bytes = [elements_of(shape) * (datatype.item_bytes or 4) for datatype, shape in inputs]
    call = decode_or_refuse(body, {}, BYTES_MAX + len(body))
    assert (call is None) is (sum(sizes_bytes) > BYTES_MAX)
    assert call is None or [tensor.size_bytes for tensor in call.inputs] == sizes_bytes


@given(st.integers(0, 3).flatmap(lambda n: st.tuples(*(tensors(f"t{at}") for at in range(n)))))
def test_whole_request_is_estimated_as_it_would_be_run(inputs):
    """A body that `infer` takes gives the very same call here."""
    body, headers = binary_body(inputs, parameters={"timeout": 7, "priority": 2, "beams": 3})
    run = decode_infer(body, model=MODEL, arrived_at_ns=0, headers=headers).call
    assert decode(body, headers, bytes_max=1 << 20) == run


@given(st.data())
def test_left_out_data_is_as_large_as_what_would_be_sent(data):
    """For all datatypes of a fixed size, leaving the data out changes no size."""
    tensor = data.draw(tensors("x").filter(lambda tensor: tensor.datatype is not Datatype.BYTES))
    head = {"name": "x", "datatype": tensor.datatype, "shape": tensor.shape}
    call = decode(json.dumps({"inputs": [head]}).encode(), {}, bytes_max=1 << 20)
    assert call.inputs[0].size_bytes == tensor.size_bytes


@st.composite
def forecasts(draw):
    """A prediction whose parts add up to its mean, or none."""
    parts = [draw(st.integers(0, 10**12)) for _ in range(5)]
    mean_ns = sum(parts)
    queue_ns, overhead_ns, base_ns, transfer_ns, interference_ns = parts
    return Forecast(
        mean_ns=mean_ns,
        bound_ns=mean_ns + draw(st.integers(0, 10**12)),
        queue_ns=queue_ns,
        overhead_ns=overhead_ns,
        base_ns=base_ns,
        transfer_ns=transfer_ns,
        interference_ns=interference_ns,
    )


@given(
    st.one_of(st.just(UNKNOWN), forecasts()),
    st.sampled_from([None, *RejectReason]),
    st.integers(-(10**12), 10**12),
)
def test_answer_agrees_with_itself(foreseen, reason, left_ns):
    """A bound that holds implies an expectation that does, and a refusal implies neither."""
    body = estimate_body(
        InferEstimate(
            model=MODEL,
            version="1",
            reason=reason,
            retry_after_ns=0,
            foreseen=foreseen,
            left_ns=left_ns,
            tier=TierName("t"),
            budget_ns=5,
            budget_source="tier",
        )
    )
    meets = body.will_meet_deadline
    assert body.admitted is (reason is None)
    assert not meets.bound or meets.expected
    assert body.admitted or meets.expected is meets.bound is False
    assert (body.expected_ms is None) is (body.parts_ms is None) is (not body.is_known)
    if body.is_known and body.admitted:
        assert meets.bound is (foreseen.bound_ns <= left_ns)
