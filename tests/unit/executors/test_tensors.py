"""Numpy arrays over an arena and back: every datatype, every shape of string."""

import sys

import ml_dtypes
import numpy as np
import pytest

from headway.core import Datatype, concat_bytes
from headway.executors import tensors
from headway.executors.arena import HEADER_BYTES, Arena
from headway.executors.tensors import (
    bytes_of,
    datatype_of,
    numpy_dtype,
    read_arrays,
    write_arrays,
    zeros_of,
)
from headway.executors.wire import TensorRef

DTYPES = {
    Datatype.BOOL: "bool",
    Datatype.UINT8: "uint8",
    Datatype.UINT16: "uint16",
    Datatype.UINT32: "uint32",
    Datatype.UINT64: "uint64",
    Datatype.INT8: "int8",
    Datatype.INT16: "int16",
    Datatype.INT32: "int32",
    Datatype.INT64: "int64",
    Datatype.FP16: "float16",
    Datatype.BF16: "bfloat16",
    Datatype.FP32: "float32",
    Datatype.FP64: "float64",
    Datatype.BYTES: "object",
}


@pytest.fixture
def arena():
    made = Arena.create("test", 1 << 20)
    yield made
    made.close()


def test_every_datatype_has_its_dtype():
    """The map is complete and has an inverse."""
    assert {datatype: numpy_dtype(datatype).name for datatype in Datatype} == DTYPES
    assert {datatype_of(numpy_dtype(datatype)) for datatype in Datatype} == set(Datatype)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (">i4", Datatype.INT32),
        ("q", Datatype.INT64),
        ("U3", Datatype.BYTES),
        ("S3", Datatype.BYTES),
        ("c8", None),
        ("M8[s]", None),
        ("g", None),
    ],
)
def test_datatype_of_less_usual_dtypes(dtype, expected):
    """Other spellings are known; what the protocol cannot carry is None."""
    assert datatype_of(np.dtype(dtype)) == expected


def test_bfloat16_is_bits_without_its_package(monkeypatch):
    """Where `ml_dtypes` is missing, BF16 is uint16 with the same bits."""
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "ml_dtypes", None)
        tensors._bfloat16.cache_clear()
        assert numpy_dtype(Datatype.BF16) == np.uint16
    tensors._bfloat16.cache_clear()
    assert numpy_dtype(Datatype.BF16) == ml_dtypes.bfloat16


@pytest.mark.parametrize("datatype", Datatype)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)])
def test_array_written_and_read_is_the_same(arena, datatype, shape):
    """An array goes into the arena and comes out equal, whatever its shape."""
    array = zeros_of(datatype, shape)
    if array.size and datatype is Datatype.BYTES:
        array[...] = b"word"
    elif array.size:
        array[...] = 1
    (ref,) = write_arrays(arena, HEADER_BYTES, {"y": (datatype, array)}, ())
    back = read_arrays(arena, [ref])["y"]
    assert (back.dtype, back.shape) == (array.dtype, shape)
    assert np.array_equal(back, array)
    assert ref.offset % 64 == 0


def test_numbers_are_views_not_copies(arena):
    """What is written to the arena later shows in an array read before."""
    ref = TensorRef("x", Datatype.UINT8, (4,), 64, 4)
    x = read_arrays(arena, [ref])["x"]
    arena.map[64:68] = b"\1\2\3\4"
    assert x.tolist() == [1, 2, 3, 4]


def test_tensors_do_not_overlap(arena):
    """Several outputs lie behind the inputs and behind each other, each on its own cache line."""
    arrays = {
        name: (Datatype.UINT8, np.full(size, size, np.uint8))
        for name, size in (("a", 1), ("b", 65), ("c", 64))
    }
    refs = write_arrays(arena, 100, arrays, ())
    assert [ref.offset for ref in refs] == [128, 192, 320]
    assert {n: a.tolist() for n, a in read_arrays(arena, refs).items()} == {
        n: a.tolist() for n, (_, a) in arrays.items()
    }


def test_strings_know_where_each_member_ends(arena):
    """Bytes of several members are cut at their rows, columns counted."""
    array = np.array([[b"a", b""], [b"bb", b"c"], [b"", b""]], object)
    (ref,) = write_arrays(arena, 64, {"y": (Datatype.BYTES, array)}, (1, 0, 2))
    first = len(concat_bytes([b"a", b""]))
    assert ref.member_ends == (first, first, ref.size_bytes)


def test_text_becomes_utf8():
    """str, numpy's own string types and bytes are all packed as bytes."""
    assert bytes_of(np.array(["é", b"\xff", bytearray(b"x")], object)) == [
        b"\xc3\xa9",
        b"\xff",
        b"x",
    ]
    assert bytes_of(np.array(["ab", "c"])) == [b"ab", b"c"]
    assert bytes_of(np.array([b"ab", b"c"])) == [b"ab", b"c"]
    with pytest.raises(TypeError, match="`int`"):
        bytes_of(np.array([1], object))


def test_size_must_fit_the_shape(arena):
    """A tensor with too few or too many bytes is refused by name."""
    ref = TensorRef("x", Datatype.FP32, (2,), 64, 4)
    with pytest.raises(ValueError, match=r"`x` has 4 bytes.*takes 8"):
        read_arrays(arena, [ref])
    arena.map[64:69] = b"\1\0\0\0a"
    strings = TensorRef("x", Datatype.BYTES, (2,), 64, 5)
    with pytest.raises(ValueError, match="ends before element 1"):
        read_arrays(arena, [strings])
