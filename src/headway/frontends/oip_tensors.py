"""Elements of a tensor as JSON and as packed bytes, all fourteen datatypes both ways.

The packed form is the protocol's: row-major, little-endian, BOOL one byte, a BYTES element behind
its u32 length. The JSON form is a list, flat or nested as the shape says:

    BOOL              true, false; 1 and 0 are understood
    INT*, UINT*       integers, never through a float, so 2**53 + 1 survives
    FP16, BF16, FP32  numbers, rounded to the nearest the type has; too large is refused
    FP64              numbers
    BYTES             strings, as UTF-8

The protocol names no JSON form for FP16 and BF16; numbers are the obvious one. JSON has neither
NaN nor Infinity nor bytes that are no text: an output with one of those is refused with the advice
to ask for it in binary, because `null` in its place would be a wrong answer without a warning.

Knows numbers and bytes. Refuses to know requests, models or HTTP.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from math import isfinite
from struct import error as StructError  # noqa: N812 (the module gives its class a small letter)
from struct import pack, unpack
from typing import Any, Final, Literal, NamedTuple, NoReturn

import numpy as np
from msgspec import DecodeError, Raw
from msgspec.json import Decoder

from headway.core import Buffer, Datatype, Tensor, bytes_element_ends, concat_bytes, elements_of
from headway.errors import InvalidRequestError

__all__ = ["AXES_MAX", "check_packed", "pack_elements", "pack_values", "unpack_elements"]

AXES_MAX: Final = 32
"""More axes than numpy had for decades; a bound on nesting."""

_FLOAT_CODES: Final = {
    Datatype.FP16: "e",
    Datatype.BF16: "f",  # packed as FP32 first, see `_bf16_of`
    Datatype.FP32: "f",
    Datatype.FP64: "d",
}
_INTEGER_CODES: Final = {
    Datatype.UINT8: "B",
    Datatype.UINT16: "H",
    Datatype.UINT32: "I",
    Datatype.UINT64: "Q",
    Datatype.INT8: "b",
    Datatype.INT16: "h",
    Datatype.INT32: "i",
    Datatype.INT64: "q",
}


class _Wire(NamedTuple):
    """How a datatype travels; all in one place, for to look up by an enum is not free."""

    code: str
    """What `struct` calls it: that checks ranges and counts, and is the fastest for 16 floats."""
    is_float: bool
    item: Any
    flat: Decoder[list[Any]]


def _wire(code: str, item: Any, *, is_float: bool = False) -> _Wire:
    return _Wire(code, is_float, item, Decoder(list.__class_getitem__(item)))


_WIRES: Final[dict[Datatype, _Wire]] = {
    Datatype.BOOL: _wire("?", bool | Literal[0, 1]),
    Datatype.BYTES: _wire("", str),
    **{datatype: _wire(code, int) for datatype, code in _INTEGER_CODES.items()},
    **{datatype: _wire(code, float, is_float=True) for datatype, code in _FLOAT_CODES.items()},
}
_RANGES: Final[dict[Datatype, str]] = {
    Datatype.FP16: "at most 65504 in size",
    Datatype.BF16: "at most 3.39e38 in size",
    Datatype.FP32: "at most 3.40e38 in size",
} | {
    datatype: f"{np.iinfo(datatype.lower()).min} to {np.iinfo(datatype.lower()).max}"
    for datatype in _INTEGER_CODES
}
_BINARY_HINT: Final = (
    "ask for it as bytes: set `binary_data` on the output or `binary_data_output` on the request"
)


def pack_elements(name: str, datatype: Datatype, shape: Sequence[int], data: Raw) -> bytes:
    """Turn an input's JSON list into packed bytes.

    Cost: 1 us for 16 floats; 70 ms for a million, most of it to read the digits.

    Raises:
        InvalidRequestError: the list does not fit the datatype or the shape.
    """
    wire = _WIRES[datatype]
    try:
        values = wire.flat.decode(data)
    except (DecodeError, ValueError, RecursionError) as flat_error:
        values = _decode_nested(name, datatype, shape, data, flat_error)
    if datatype is Datatype.BYTES:
        values = [value.encode() for value in values]
    return pack_values(name, datatype, shape, values)


def pack_values(
    name: str, datatype: Datatype, shape: Sequence[int], values: Sequence[Any]
) -> bytes:
    """Turn an input's elements, flat and of its own type (bytes for BYTES), into packed bytes.

    Raises:
        InvalidRequestError: they are not as many as the shape says, or one does not fit.
    """
    count = elements_of(shape)
    if len(values) != count:
        raise InvalidRequestError(
            f"input `{name}` has {len(values)} elements, but its shape {list(shape)} says {count}"
        )
    if datatype is Datatype.BYTES:
        return concat_bytes(values)
    try:
        packed = pack(f"<{count}{_WIRES[datatype].code}", *values)
    except (StructError, OverflowError):
        _refuse_value(name, datatype, values)
    return _bf16_of(name, packed, values) if datatype is Datatype.BF16 else packed


def unpack_elements(tensor: Tensor) -> Sequence[Any]:
    """Turn packed bytes into what JSON can carry, flat.

    Raises:
        InvalidRequestError: an element is NaN, infinite, or no UTF-8 text.
    """
    datatype = tensor.datatype
    count = elements_of(tensor.shape)
    if datatype is Datatype.BYTES:
        return _texts_of(tensor, count)
    data = _fp32_of(tensor.data) if datatype is Datatype.BF16 else tensor.data
    wire = _WIRES[datatype]
    values = unpack(f"<{count}{wire.code}", data)
    # A sum is finite only if all its terms are; where it overflows, the terms decide.
    if wire.is_float and not isfinite(sum(values)):
        for at, value in enumerate(values):
            if not isfinite(value):
                raise InvalidRequestError(
                    f"element {at} of output `{tensor.name}` is `{value}`, which JSON has no word"
                    " for",
                    hint=_BINARY_HINT,
                )
    return values


def check_packed(name: str, datatype: Datatype, shape: Sequence[int], data: Buffer) -> None:
    """See that packed bytes are exactly what datatype and shape ask for.

    Raises:
        InvalidRequestError: they are not.
    """
    count = elements_of(shape)
    item_bytes = datatype.item_bytes
    if item_bytes is None:
        try:
            bytes_element_ends(data, count)
        except ValueError as error:
            raise InvalidRequestError(
                f"input `{name}` of shape {list(shape)}: {error}",
                hint="each element is a little-endian 32-bit length and as many bytes",
            ) from None
    elif len(data) != count * item_bytes:
        raise InvalidRequestError(
            f"input `{name}` has {len(data)} bytes, but {datatype} of shape {list(shape)} needs"
            f" {count * item_bytes}"
        )


@lru_cache(maxsize=len(Datatype) * AXES_MAX)
def _nested_decoder(datatype: Datatype, depth: int) -> Decoder[list[Any]]:
    items: Any = _WIRES[datatype].item
    for _ in range(depth):
        items = list[items]
    return Decoder(items)


def _decode_nested(
    name: str, datatype: Datatype, shape: Sequence[int], data: Raw, flat_error: Exception
) -> list[Any]:
    """Flatten a list that is nested exactly as the shape says."""
    depth = _depth_of(data)
    if 0 in shape:
        shape = shape[: shape.index(0) + 1]  # an empty list shows no axes within
    if depth < 2:
        raise InvalidRequestError(
            f"the data of input `{name}` is no list of {datatype} elements: {flat_error}"
        ) from None
    if depth != len(shape):
        raise InvalidRequestError(
            f"the data of input `{name}` is nested {depth} deep, but its shape {list(shape)} has"
            f" {len(shape)} axes",
            hint="send it flat, or nested once for each axis",
        ) from None
    try:
        level = _nested_decoder(datatype, depth).decode(data)
    except (DecodeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(
            f"the data of input `{name}` is no nested list of {datatype} elements: {error}"
        ) from None
    if len(level) != shape[0]:
        raise _not_shaped(name, shape)
    for size in shape[1:]:
        if any(len(row) != size for row in level):
            raise _not_shaped(name, shape)
        level = list(chain.from_iterable(level))
    return level


def _not_shaped(name: str, shape: Sequence[int]) -> InvalidRequestError:
    return InvalidRequestError(
        f"the nested data of input `{name}` does not have the shape {list(shape)}"
    )


def _depth_of(data: Raw) -> int:
    """How many lists the first element is in, as far as it can matter."""
    depth = 0
    for character in bytes(memoryview(data)[: 8 * AXES_MAX]):
        if character == ord("["):
            depth += 1
        elif character not in b" \t\r\n":
            break
    return depth


def _refuse_value(name: str, datatype: Datatype, values: Sequence[Any]) -> NoReturn:
    """Name the first value that does not fit."""
    for at, value in enumerate(values):
        try:
            pack(f"<{_WIRES[datatype].code}", value)
        except (StructError, OverflowError):
            raise _out_of_range(name, datatype, at, value) from None
    raise AssertionError("packing all failed, so packing one must")


def _out_of_range(name: str, datatype: Datatype, at: int, value: Any) -> InvalidRequestError:
    # Python refuses to print integers of thousands of digits.
    is_short = isinstance(value, float) or value.bit_length() <= 256
    shown = f"`{value}`" if is_short else f"an integer of {value.bit_length()} bits"
    return InvalidRequestError(
        f"element {at} of input `{name}` is {shown}, which {datatype} cannot hold:"
        f" {_RANGES[datatype]}",
        hint="send a value in that range, or use the datatype that the model declares",
    )


def _bf16_of(name: str, fp32: bytes, values: Sequence[Any]) -> bytes:
    """Round FP32 to the nearest BF16, ties to even."""
    bits = np.frombuffer(fp32, dtype="<u4").astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
    infinite = np.flatnonzero((rounded & 0x7FFF) == 0x7F80)
    if infinite.size:
        at = int(infinite[0])
        raise _out_of_range(name, Datatype.BF16, at, values[at])
    return rounded.tobytes()


def _fp32_of(bf16: Buffer) -> bytes:
    return (np.frombuffer(bf16, dtype="<u2").astype("<u4") << 16).tobytes()


def _texts_of(tensor: Tensor, count: int) -> list[str]:
    texts = []
    start = 0
    data = memoryview(tensor.data)
    for end in bytes_element_ends(data, count):
        try:
            texts.append(str(data[start + 4 : end], "utf-8"))
        except UnicodeDecodeError:
            raise InvalidRequestError(
                f"element {len(texts)} of output `{tensor.name}` is no UTF-8, which JSON needs",
                hint=_BINARY_HINT,
            ) from None
        start = end
    return texts
