"""Just enough of the protobuf wire format to write ONNX graphs and to alter existing ones.

Knows field numbers of `onnx.proto`. Never what a graph computes.

Why not the `onnx` package: with what it requires it weighs 55 MiB installed, a fifth of what the
whole demo may take, and is needed for two dozen messages. The format is frozen by its own
compatibility rules, and ONNX Runtime checks every graph when it loads it.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

__all__ = [
    "FLOAT",
    "INT64",
    "Attribute",
    "Field",
    "blob",
    "external_tensor",
    "fields",
    "first",
    "integer",
    "model",
    "node",
    "raw_tensor",
    "text",
    "value_info",
]

FLOAT = 1
INT64 = 7

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}

Attribute = int | float | Sequence[int]


class Field(NamedTuple):
    """One field of a message."""

    number: int
    value: int | bytes
    """Integers decoded; everything else as its payload."""
    raw: bytes
    """Tag, length and payload as they stand in the message."""


def fields(message: bytes) -> Iterator[Field]:
    """The fields of a message, in order."""
    at = 0
    while at < len(message):
        start = at
        tag, at = _read_varint(message, at)
        number, wire = tag >> 3, tag & 7
        value: int | bytes
        if wire == _VARINT:
            value, at = _read_varint(message, at)
        else:
            size, at = _read_varint(message, at) if wire == _BYTES else (_FIXED_BYTES[wire], at)
            value, at = message[at : at + size], at + size
        yield Field(number, value, message[start:at])


def first(message: bytes, number: int) -> bytes:
    """The payload of the first field with this number; empty if there is none."""
    for field in fields(message):
        if field.number == number and isinstance(field.value, bytes):
            return field.value
    return b""


def integer(number: int, value: int) -> bytes:
    """An integer field."""
    return _varint(number << 3 | _VARINT) + _varint(value)


def blob(number: int, payload: bytes) -> bytes:
    """A field of bytes, or of an embedded message."""
    return _varint(number << 3 | _BYTES) + _varint(len(payload)) + payload


def text(number: int, value: str) -> bytes:
    """A field of text."""
    return blob(number, value.encode())


def node(
    op_type: str,
    inputs: Iterable[str],
    outputs: Iterable[str],
    attributes: Mapping[str, Attribute] | None = None,
) -> bytes:
    """A NodeProto; an attribute is a number or a list of integers."""
    return b"".join(
        [
            *(text(1, name) for name in inputs),
            *(text(2, name) for name in outputs),
            text(4, op_type),
            *(blob(5, _attribute(*item)) for item in (attributes or {}).items()),
        ]
    )


def raw_tensor(name: str, data_type: int, shape: Sequence[int], data: bytes) -> bytes:
    """A TensorProto that holds its data, little endian, in row order."""
    return _tensor_head(name, data_type, shape) + blob(9, data)


def external_tensor(
    name: str, data_type: int, shape: Sequence[int], *, file: str, offset: int, length: int
) -> bytes:
    """A TensorProto whose data lies in a stretch of another file in the model's folder."""
    entries = {"location": file, "offset": str(offset), "length": str(length)}
    stored = (blob(13, text(1, key) + text(2, value)) for key, value in entries.items())
    return _tensor_head(name, data_type, shape) + b"".join(stored) + integer(14, 1)


def value_info(name: str, data_type: int, shape: Sequence[int | str]) -> bytes:
    """A ValueInfoProto; a dimension given as text is a symbol."""
    dimensions = (
        blob(1, integer(1, size) if isinstance(size, int) else text(2, size)) for size in shape
    )
    tensor_type = integer(1, data_type) + blob(2, b"".join(dimensions))
    return text(1, name) + blob(2, blob(1, tensor_type))


def model(graph: bytes, *, opset: int, ir_version: int = 8) -> bytes:
    """A ModelProto around a GraphProto."""
    return (
        integer(1, ir_version)
        + text(2, "headway")
        + blob(7, graph)
        + blob(8, text(1, "") + integer(2, opset))
    )


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        return text(1, name) + integer(3, value) + integer(20, 2)
    if isinstance(value, float):
        return (
            text(1, name) + _varint(2 << 3 | _FIXED32) + struct.pack("<f", value) + integer(20, 1)
        )
    return text(1, name) + b"".join(integer(8, each) for each in value) + integer(20, 7)


def _tensor_head(name: str, data_type: int, shape: Sequence[int]) -> bytes:
    return b"".join(integer(1, size) for size in shape) + integer(2, data_type) + text(8, name)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # Negative integers are written as 64-bit two's complement.
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
