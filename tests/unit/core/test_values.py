"""Values are valid by construction, and say what is wrong with them."""

import pytest

from headway.core import (
    Datatype,
    DeviceParams,
    ModelParams,
    Record,
    Request,
    RequestArrived,
    Tensor,
    bytes_element_ends,
    concat_bytes,
    elements_of,
)
from headway.testing import a_model, a_request


def test_deadline_is_arrival_plus_budget():
    """A client states a budget; the instant follows from it once."""
    assert a_request(at="3ms", budget="2ms").deadline_at_ns == 5_000_000


@pytest.mark.parametrize(("field", "value"), [("rows", 0), ("payload_bytes", -1), ("priority", -1)])
def test_request_refuses_values_without_meaning(field, value):
    """What cannot be counted or ordered is no request."""
    fields = {name: getattr(a_request(), name) for name in Request.__struct_fields__}
    with pytest.raises(ValueError, match=field):
        Request(**(fields | {field: value}))


@pytest.mark.parametrize(
    "what", [{"batch_rows_max": 0}, {"devices": ()}, {"linger": -1}, {"queue_requests_max": -1}]
)
def test_model_refuses_limits_without_meaning(what):
    """A model needs a device, room for a row, and limits that are none below nothing."""
    with pytest.raises(ValueError, match="model `m`"):
        a_model(**what)


def test_device_needs_a_slot():
    """A device that can run nothing is none."""
    with pytest.raises(ValueError, match="at least one slot"):
        DeviceParams(name="cpu:0", slot_lanes=())


def test_values_do_not_change():
    """Events, commands and parameters are facts."""
    with pytest.raises(AttributeError):
        a_request().rows = 2
    with pytest.raises(AttributeError):
        ModelParams(name="m", devices=("cpu:0",)).version = "2"
    with pytest.raises(AttributeError):
        Record(seq=0, now_ns=0, event=RequestArrived(request=a_request()), commands=[]).seq = 1


def test_tensor_knows_its_size():
    """Bytes are counted as packed; a scalar has one element."""
    assert Tensor("x", Datatype.FP32, (2,), b"\0" * 8).size_bytes == 8
    assert (elements_of(()), elements_of((2, 3))) == (1, 6)
    assert (Datatype.BF16.item_bytes, Datatype.BYTES.item_bytes) == (2, None)


def test_bytes_elements_are_found_where_they_were_put():
    """Length-prefixed elements are packed and found again, the empty ones too."""
    packed = concat_bytes([b"ab", b"", b"c"])
    assert bytes_element_ends(packed, 3) == [6, 10, 15]


@pytest.mark.parametrize(
    ("data", "count", "why"),
    [
        (b"\1\0\0", 1, "ends before element 0"),
        (b"\5\0\0\0a", 1, "reaches past"),
        (b"\0\0\0\0\0", 1, "1 bytes after"),
    ],
)
def test_bytes_buffer_that_does_not_add_up_is_refused(data, count, why):
    """Fewer or more elements than said is an error, never a guess."""
    with pytest.raises(ValueError, match=why):
        bytes_element_ends(data, count)
