"""Elements as JSON and as packed bytes: every datatype both ways, and what does not fit."""

import json
import struct

import numpy as np
import pytest
from msgspec import Raw

from headway.core import Datatype, Tensor, concat_bytes
from headway.errors import InvalidRequestError
from headway.frontends.oip_tensors import check_packed, pack_elements, unpack_elements

EXTREMES = {
    Datatype.BOOL: [True, False],
    Datatype.UINT8: [0, 255],
    Datatype.UINT16: [0, 65535],
    Datatype.UINT32: [0, 2**32 - 1],
    Datatype.UINT64: [2**53 + 1, 2**64 - 1],
    Datatype.INT8: [-128, 127],
    Datatype.INT16: [-(2**15), 2**15 - 1],
    Datatype.INT32: [-(2**31), 2**31 - 1],
    Datatype.INT64: [-(2**63), 2**53 + 1],
    Datatype.FP16: [0.5, -65504.0],
    Datatype.BF16: [1.5, -3.3895313892515355e38],
    Datatype.FP32: [0.25, 3.4028234663852886e38],
    Datatype.FP64: [0.1, -1.7976931348623157e308],
    Datatype.BYTES: ["héé\n\0", ""],
}
BEYOND = {
    Datatype.UINT8: 256,
    Datatype.UINT16: -1,
    Datatype.UINT32: 2**32,
    Datatype.UINT64: 2**64,
    Datatype.INT8: 128,
    Datatype.INT16: -(2**15) - 1,
    Datatype.INT32: 2**31,
    Datatype.INT64: 2**63,
    Datatype.FP16: 65520.0,
    Datatype.BF16: 3.4e38,
    Datatype.FP32: 1e39,
}


def pack(datatype, shape, values):
    return pack_elements("x", datatype, shape, Raw(json.dumps(values).encode()))


@pytest.mark.parametrize("datatype", list(Datatype))
def test_elements_come_back_as_they_went_in(datatype):
    """Packing and unpacking give the same values, the extremes of each datatype included."""
    values = EXTREMES[datatype]
    packed = pack(datatype, (2,), values)
    assert values == list(unpack_elements(Tensor("x", datatype, (2,), packed)))


@pytest.mark.parametrize("datatype", sorted(set(Datatype) - {Datatype.BF16, Datatype.BYTES}))
def test_packed_elements_are_what_numpy_has(datatype):
    """The packed form is little-endian and dense, as numpy's is here."""
    kind = {"FP16": "f2", "FP32": "f4", "FP64": "f8"}.get(datatype, datatype.lower())
    packed = pack(datatype, (2,), EXTREMES[datatype])
    assert np.array(EXTREMES[datatype], dtype=kind).tobytes() == packed


@pytest.mark.parametrize("datatype", sorted(BEYOND))
def test_a_value_out_of_range_is_named(datatype):
    """A value that its datatype cannot hold is refused with the value and with a remedy."""
    with pytest.raises(InvalidRequestError) as caught:
        pack(datatype, (3,), [0, BEYOND[datatype], 0])
    assert f"element 1 of input `x` is `{BEYOND[datatype]}`" in str(caught.value)
    assert "hint" in str(caught.value)


def test_an_integer_of_thousands_of_digits_is_refused():
    """Even an integer that Python would not print is refused in few words."""
    with pytest.raises(InvalidRequestError) as caught:
        pack_elements("x", Datatype.INT64, (1,), Raw(b"[" + b"9" * 4000 + b"]"))
    assert len(str(caught.value)) < 300


def test_bf16_rounds_to_the_nearest_even():
    """Rounding takes the nearest neighbour, and the even one of two equally near."""
    tie_down, tie_up, above = 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20
    packed = pack(Datatype.BF16, (3,), [tie_down, tie_up, above])
    assert struct.unpack("<3H", packed) == (0x3F80, 0x3F82, 0x3F81)


@pytest.mark.parametrize(
    ("shape", "values"),
    [
        ((2, 3), [[1, 2, 3], [4, 5, 6]]),
        ((2, 3), [1, 2, 3, 4, 5, 6]),
        ((1, 2, 3), [[[1, 2, 3], [4, 5, 6]]]),
        ((6,), [1, 2, 3, 4, 5, 6]),
    ],
)
def test_nested_and_flat_data_mean_the_same(shape, values):
    """Data may be flat or nested as the shape says."""
    assert struct.pack("<6i", *range(1, 7)) == pack(Datatype.INT32, shape, values)


@pytest.mark.parametrize(
    ("shape", "values"),
    [
        ((2, 2), [[1, 2, 3], [4]]),
        ((3, 2), [[1, 2, 3], [4, 5, 6]]),
        ((2, 3), [[[1, 2, 3], [4, 5, 6]]]),
        ((2, 3), [[1, 2, 3], 4]),
        ((2,), [1, 2, 3]),
        ((2,), []),
        ((1,), 1),
        ((1,), {"a": 1}),
        ((2,), [1, [2]]),
        ((2, 1), [[1], ["a"]]),
    ],
)
def test_data_that_does_not_fit_its_shape_is_refused(shape, values):
    """Nesting, lengths and counts have to agree with the shape."""
    with pytest.raises(InvalidRequestError, match="input `x`"):
        pack(Datatype.INT32, shape, values)


@pytest.mark.parametrize(
    ("datatype", "value"),
    [
        (Datatype.INT32, 1.5),
        (Datatype.INT32, True),
        (Datatype.INT32, "1"),
        (Datatype.INT32, None),
        (Datatype.FP32, "1"),
        (Datatype.FP32, True),
        (Datatype.BOOL, 2),
        (Datatype.BOOL, "true"),
        (Datatype.BYTES, 1),
    ],
)
def test_an_element_of_another_kind_is_refused(datatype, value):
    """Elements are not converted from one kind to another."""
    with pytest.raises(InvalidRequestError, match=f"no list of {datatype} elements"):
        pack(datatype, (1,), [value])


def test_zero_and_one_are_booleans():
    """Clients that have no booleans send 0 and 1."""
    assert pack(Datatype.BOOL, (4,), [1, 0, True, False]) == b"\1\0\1\0"


def test_shapes_without_elements_take_no_data():
    """A zero in the shape goes with an empty list, flat or nested."""
    assert pack(Datatype.FP32, (0, 3), []) == b""
    assert pack(Datatype.FP32, (2, 0), [[], []]) == b""
    assert pack(Datatype.FP32, (1, 0, 2), [[]]) == b""
    assert pack(Datatype.BYTES, (0,), []) == b""


def test_a_scalar_is_one_element():
    """An empty shape means one element."""
    assert struct.pack("<d", 2.5) == pack(Datatype.FP64, (), [2.5])


@pytest.mark.parametrize("datatype", [Datatype.FP16, Datatype.BF16, Datatype.FP32, Datatype.FP64])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_json_has_no_word_for_is_refused(datatype, value):
    """NaN and Infinity in an output are an error that says how to get them."""
    finite = pack(datatype, (2,), [1, 2])
    bits = np.array([value], dtype="<f4").view("<u4") >> 16
    kind = {"FP16": "<f2", "FP32": "<f4", "FP64": "<f8"}.get(datatype, "")
    bad = np.array([value], dtype=kind).tobytes() if kind else bits.astype("<u2").tobytes()
    with pytest.raises(InvalidRequestError, match=r"element 2 of output `y`.*binary_data"):
        unpack_elements(Tensor("y", datatype, (3,), finite + bad))


def test_a_sum_that_overflows_is_no_infinity():
    """Large finite values are encoded although their sum is infinite."""
    values = [1.7e308, 1.7e308]
    packed = pack(Datatype.FP64, (2,), values)
    assert values == list(unpack_elements(Tensor("y", Datatype.FP64, (2,), packed)))


def test_output_bytes_that_are_no_text_are_refused():
    """Bytes that are no UTF-8 are an error that says how to get them."""
    data = concat_bytes([b"ok", b"\xff"])
    with pytest.raises(InvalidRequestError, match=r"element 1 of output `y`.*binary_data"):
        unpack_elements(Tensor("y", Datatype.BYTES, (2,), data))


@pytest.mark.parametrize(
    ("datatype", "shape", "data"),
    [
        (Datatype.FP32, (2,), bytes(7)),
        (Datatype.FP32, (2,), bytes(12)),
        (Datatype.BOOL, (2**31 - 1,) * 8, bytes(8)),
        (Datatype.BYTES, (2,), concat_bytes([b"a"])),
        (Datatype.BYTES, (1,), concat_bytes([b"a", b"b"])),
        (Datatype.BYTES, (1,), b"\xff\xff\xff\xff"),
        (Datatype.BYTES, (2**31 - 1,), b"\0\0"),
    ],
)
def test_packed_bytes_of_another_size_are_refused(datatype, shape, data):
    """Binary data has exactly the bytes that datatype and shape ask for."""
    with pytest.raises(InvalidRequestError, match="input `x`"):
        check_packed("x", datatype, shape, data)
