"""Numpy arrays from and to the bytes of tensors, those of an arena and those of a client.

The sole map between the protocol's datatypes and numpy's. BF16 is `ml_dtypes.bfloat16` where that
package can be imported, and otherwise `uint16` with the same bits: the upper half of a float32.
BYTES are object arrays of `bytes`.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from math import prod
from mmap import mmap
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headway.core import Buffer, Datatype, Tensor, bytes_element_ends, concat_bytes
from headway.executors.arena import Arena, align
from headway.executors.wire import TensorRef

__all__ = [
    "Array",
    "array_of",
    "bytes_of",
    "datatype_of",
    "numpy_dtype",
    "read_arrays",
    "tensor_of",
    "write_arrays",
    "zeros_of",
]

Array = NDArray[Any]

_DTYPES: Final[dict[Datatype, np.dtype[Any]]] = {
    Datatype.BOOL: np.dtype(np.bool_),
    Datatype.UINT8: np.dtype("<u1"),
    Datatype.UINT16: np.dtype("<u2"),
    Datatype.UINT32: np.dtype("<u4"),
    Datatype.UINT64: np.dtype("<u8"),
    Datatype.INT8: np.dtype("<i1"),
    Datatype.INT16: np.dtype("<i2"),
    Datatype.INT32: np.dtype("<i4"),
    Datatype.INT64: np.dtype("<i8"),
    Datatype.FP16: np.dtype("<f2"),
    Datatype.FP32: np.dtype("<f4"),
    Datatype.FP64: np.dtype("<f8"),
    Datatype.BYTES: np.dtype(np.object_),
}
_DATATYPES: Final = {dtype: datatype for datatype, dtype in _DTYPES.items()}
_TEXT_KINDS: Final = frozenset("OSUT")


def numpy_dtype(datatype: Datatype) -> np.dtype[Any]:
    """The dtype in which a model meets this datatype."""
    dtype = _DTYPES.get(datatype)
    return _bfloat16() if dtype is None else dtype


def datatype_of(dtype: np.dtype[Any]) -> Datatype | None:
    """The datatype of an array's elements in either byte order; None if the protocol has none."""
    if dtype.kind in _TEXT_KINDS:
        return Datatype.BYTES
    found = _DATATYPES.get(dtype)
    if found is None and dtype.name == "bfloat16":
        return Datatype.BF16
    return found or _DATATYPES.get(dtype.newbyteorder("<"))


def tensor_of(name: str, array: Array) -> Tensor:
    """An array as a tensor; numbers that are packed and little-endian already are not copied.

    Raises:
        ValueError: the protocol has no datatype for its elements.
        TypeError: an element among objects is neither text nor bytes.
    """
    datatype = datatype_of(array.dtype)
    if datatype is None:
        raise ValueError(f"`{name}`: the protocol has no datatype for `{array.dtype}`")
    if datatype is Datatype.BYTES:
        return Tensor(name, datatype, array.shape, concat_bytes(bytes_of(array)))
    packed = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1)
    return Tensor(name, datatype, array.shape, packed.view(np.uint8).data)


def array_of(tensor: Tensor) -> Array:
    """A tensor as an array: a view of its bytes, or a copy where they are not aligned, or BYTES.

    Raises:
        ValueError: its size and shape disagree.
    """
    name, datatype, data = tensor.name, tensor.datatype, tensor.data
    if datatype is Datatype.BYTES:
        return _texts_of(data, tensor.shape)
    return np.require(_numbers_of(name, datatype, tensor.shape, data, 0, len(data)), None, "A")


def read_arrays(arena: Arena, refs: Iterable[TensorRef]) -> dict[str, Array]:
    """A batch's inputs: views of the arena, which the next batch overwrites; BYTES are copies.

    Raises:
        ValueError: a tensor's size and shape disagree.
    """
    return {ref.name: _read(arena, ref) for ref in refs}


def write_arrays(
    arena: Arena, at: int, arrays: Mapping[str, tuple[Datatype, Array]], member_rows: Sequence[int]
) -> tuple[TensorRef, ...]:
    """Lay a batch's outputs behind ``at``, each copied once.

    Args:
        arena: grown if need be.
        at: where the inputs end.
        arrays: with the datatype that the client is told.
        member_rows: rows per member, to say where each member's BYTES end; one or none for a
            batch that is not split.

    Raises:
        ArenaFullError: they do not fit.
    """
    refs: list[TensorRef] = []
    sources: list[Array | bytes] = []
    for name, (datatype, array) in arrays.items():
        at = align(at)
        ends: tuple[int, ...] = ()
        source: Array | bytes = array
        if datatype is Datatype.BYTES:
            elements = bytes_of(array)
            source = concat_bytes(elements)
            size_bytes = len(source)
            if len(member_rows) > 1:
                ends = _member_ends(elements, member_rows, array.shape)
        else:
            size_bytes = array.nbytes
        refs.append(TensorRef(name, datatype, array.shape, at, size_bytes, ends))
        sources.append(source)
        at += size_bytes
    arena.reserve(at)
    for ref, source in zip(refs, sources, strict=True):
        _write(arena, ref, source)
    return tuple(refs)


def zeros_of(datatype: Datatype, shape: Sequence[int]) -> Array:
    """An array for a warm-up: zeros, or empty strings."""
    if datatype is Datatype.BYTES:
        return np.full(shape, b"", np.object_)
    return np.zeros(shape, numpy_dtype(datatype))


def bytes_of(array: Array) -> list[bytes]:
    """The elements of an array of strings or bytes; text becomes UTF-8.

    Raises:
        TypeError: an element is neither.
    """
    return [_as_bytes(element) for element in array.ravel().tolist()]


def _as_bytes(element: object) -> bytes:
    if isinstance(element, bytes):
        return element
    if isinstance(element, str):
        return element.encode()
    if isinstance(element, bytearray | memoryview):
        return bytes(element)
    raise TypeError(f"an element of a BYTES tensor is a `{type(element).__name__}`, not bytes")


def _read(arena: Arena, ref: TensorRef) -> Array:
    if ref.datatype is Datatype.BYTES:
        return _texts_of(arena.map[ref.offset : ref.offset + ref.size_bytes], ref.shape)
    where = (arena.map, ref.offset, ref.size_bytes)
    return _numbers_of(ref.name, ref.datatype, ref.shape, *where)


def _numbers_of(
    name: str,
    datatype: Datatype,
    shape: Sequence[int],
    buffer: Buffer | mmap,
    offset: int,
    size_bytes: int,
) -> Array:
    dtype = numpy_dtype(datatype)
    count = prod(shape)
    if count * dtype.itemsize != size_bytes:
        raise ValueError(
            f"`{name}` has {size_bytes} bytes, its shape {list(shape)} of {datatype} takes "
            f"{count * dtype.itemsize}"
        )
    return np.frombuffer(buffer, dtype, count, offset).reshape(shape)


def _texts_of(packed: Buffer, shape: Sequence[int]) -> Array:
    count = prod(shape)
    array = np.empty(count, np.object_)
    start = 0
    for index, end in enumerate(bytes_element_ends(packed, count)):
        array[index] = bytes(packed[start + 4 : end])
        start = end
    return array.reshape(shape)


def _write(arena: Arena, ref: TensorRef, source: Array | bytes) -> None:
    if isinstance(source, bytes):
        arena.map[ref.offset : ref.offset + ref.size_bytes] = source
    elif ref.size_bytes:
        dtype = source.dtype.newbyteorder("<")
        target = np.frombuffer(arena.map, dtype, source.size, ref.offset).reshape(ref.shape)
        np.copyto(target, source)


def _member_ends(
    elements: Sequence[bytes], member_rows: Sequence[int], shape: Sequence[int]
) -> tuple[int, ...]:
    row_elements = prod(shape[1:])
    ends = [0, *accumulate(4 + len(element) for element in elements)]
    return tuple(ends[rows * row_elements] for rows in accumulate(member_rows))


@cache
def _bfloat16() -> np.dtype[Any]:
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        return np.dtype("<u2")
    dtype: np.dtype[Any] = np.dtype(bfloat16)
    return dtype
