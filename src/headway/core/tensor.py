"""Tensors as bytes: a datatype of the Open Inference Protocol, a shape and a buffer.

Knows sizes and row boundaries. Never numpy: the parent process moves tensors it does not read.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from math import prod
from struct import Struct as Layout
from typing import Final

from msgspec import Struct

__all__ = ["Buffer", "Datatype", "Tensor", "bytes_element_ends", "concat_bytes", "elements_of"]

Buffer = bytes | bytearray | memoryview

_U32: Final = Layout("<I")


class Datatype(StrEnum):
    """The fourteen datatypes of the protocol, BF16 included."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    BF16 = "BF16"
    FP32 = "FP32"
    FP64 = "FP64"
    BYTES = "BYTES"
    __hash__ = str.__hash__  # members key tables on the hot path; Enum's own is a call into Python

    @property
    def item_bytes(self) -> int | None:
        """Size of one element; None for BYTES, whose elements carry their own length."""
        return _ITEM_BYTES[self]


_ITEM_BYTES: Final[dict[Datatype, int | None]] = {
    Datatype.BOOL: 1,
    Datatype.UINT8: 1,
    Datatype.UINT16: 2,
    Datatype.UINT32: 4,
    Datatype.UINT64: 8,
    Datatype.INT8: 1,
    Datatype.INT16: 2,
    Datatype.INT32: 4,
    Datatype.INT64: 8,
    Datatype.FP16: 2,
    Datatype.BF16: 2,
    Datatype.FP32: 4,
    Datatype.FP64: 8,
    Datatype.BYTES: None,
}


class Tensor(Struct, frozen=True, gc=False):
    """One named array, row-major, little-endian, packed.

    A BYTES element is a little-endian u32 length followed by that many bytes; BOOL is one byte.
    """

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    data: Buffer

    @property
    def size_bytes(self) -> int:
        """Bytes of the packed buffer."""
        return len(self.data)


def elements_of(shape: Sequence[int]) -> int:
    """Number of elements; 1 for a scalar's empty shape."""
    return prod(shape)


def bytes_element_ends(data: Buffer, count: int) -> list[int]:
    """Offsets just past each of ``count`` length-prefixed elements.

    Raises:
        ValueError: the buffer holds fewer or more elements than ``count``.
    """
    ends: list[int] = []
    at = 0
    size = len(data)
    for _ in range(count):
        if at + 4 > size:
            raise ValueError(f"BYTES buffer of {size} bytes ends before element {len(ends)}")
        at += 4 + _U32.unpack_from(data, at)[0]
        if at > size:
            raise ValueError(f"BYTES element {len(ends)} reaches past the buffer's {size} bytes")
        ends.append(at)
    if at != size:
        raise ValueError(f"BYTES buffer has {size - at} bytes after its {count} elements")
    return ends


def concat_bytes(elements: Iterable[bytes]) -> bytes:
    """Pack byte strings as a BYTES buffer."""
    return b"".join(part for element in elements for part in (_U32.pack(len(element)), element))
