"""The suite's tensors: one of each datatype, as JSON and as bytes.

Knows values. Refuses to know wires.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["JSON_KINDS", "KINDS", "Kind", "model_of", "packed_texts"]


class Kind(NamedTuple):
    """Four elements of a datatype, the awkward ones among them."""

    datatype: str
    values: Sequence[Any]
    """As JSON; empty for what has no agreed form there."""
    packed: bytes


def packed_texts(texts: Sequence[bytes]) -> bytes:
    """Elements of BYTES, each behind its length."""
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def _kind(datatype: str, code: str, values: Sequence[Any]) -> Kind:
    return Kind(datatype, values, struct.pack(f"<{len(values)}{code}", *values))


_TEXTS: Final = ("one", "", "zwölf", "a\nb")

KINDS: Final[Mapping[str, Kind]] = {
    kind.datatype: kind
    for kind in (
        _kind("BOOL", "?", (True, False, False, True)),
        _kind("UINT8", "B", (0, 1, 127, 255)),
        _kind("UINT16", "H", (0, 1, 256, 2**16 - 1)),
        _kind("UINT32", "I", (0, 1, 2**16, 2**32 - 1)),
        _kind("UINT64", "Q", (0, 1, 2**53 + 1, 2**64 - 1)),
        _kind("INT8", "b", (-128, -1, 0, 127)),
        _kind("INT16", "h", (-(2**15), -1, 0, 2**15 - 1)),
        _kind("INT32", "i", (-(2**31), -1, 0, 2**31 - 1)),
        _kind("INT64", "q", (-(2**63), -1, 2**53 + 1, 2**63 - 1)),
        Kind("FP16", (), struct.pack("<4e", -2.5, 0.0, 1.0, 65504.0)),
        _kind("FP32", "f", (-1.5, 0.0, 0.25, 16777216.0)),
        _kind("FP64", "d", (-1e300, 0.0, 0.1, 1e-300)),
        Kind("BYTES", _TEXTS, packed_texts([text.encode() for text in _TEXTS])),
    )
}
JSON_KINDS: Final = tuple(kind for kind in KINDS.values() if kind.values)


def model_of(datatype: str) -> str:
    """The model that gives back a tensor of a datatype."""
    return f"identity_{datatype.lower()}"
