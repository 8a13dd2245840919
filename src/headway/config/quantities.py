"""Durations and sizes as configuration fields: text outside, integers inside.

Knows how they are read, printed exactly and described in JSON Schema.
"""

from typing import Annotated, Final

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from headway.units import NS_PER_MS, NS_PER_S, NS_PER_US, parse_bytes, parse_duration_ns

__all__ = [
    "DURATION_FORMAT",
    "SIZE_FORMAT",
    "Duration",
    "PositiveDuration",
    "PositiveSize",
    "Size",
    "duration_text",
    "size_text",
]

DURATION_FORMAT: Final = "headway-duration"
SIZE_FORMAT: Final = "headway-size"

_DURATION_UNITS: Final = (("s", NS_PER_S), ("ms", NS_PER_MS), ("us", NS_PER_US))
_SIZE_UNITS: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def duration_text(duration_ns: int) -> str:
    """Print a duration so that reading it again gives the same number."""
    return _exact(duration_ns, _DURATION_UNITS, "ns")


def size_text(size_bytes: int) -> str:
    """Print a size so that reading it again gives the same number."""
    return _exact(size_bytes, _SIZE_UNITS, "B")


def _exact(amount: int, units: tuple[tuple[str, int], ...], smallest: str) -> str:
    if amount == 0:
        return "0"
    for unit, factor in units:
        if amount % factor == 0:
            return f"{amount // factor}{unit}"
    return f"{amount}{smallest}"


def _read_duration(value: object) -> int:
    return 0 if _is_zero(value) else parse_duration_ns(str(value))


def _read_size(value: object) -> int:
    return 0 if _is_zero(value) else parse_bytes(str(value))


def _is_zero(value: object) -> bool:
    """Nothing needs no unit; any other bare number could be meant in any."""
    return value == "0" or (value == 0 and not isinstance(value, bool))


Duration = Annotated[
    int,
    BeforeValidator(_read_duration),
    PlainSerializer(duration_text, return_type=str),
    WithJsonSchema(
        {
            "type": ["string", "integer"],  # of the integers only 0, which needs no unit
            "format": DURATION_FORMAT,
            "pattern": r"^0$|^\s*[0-9]+(\.[0-9]+)?\s*(ns|us|µs|ms|s|m|min|h)\s*$",
            "minimum": 0,
            "maximum": 0,
        }
    ),
]
"""Nanoseconds, written as "250ms"."""

Size = Annotated[
    int,
    BeforeValidator(_read_size),
    PlainSerializer(size_text, return_type=str),
    WithJsonSchema(
        {
            "type": ["string", "integer"],
            "format": SIZE_FORMAT,
            "minimum": 0,
            "maximum": 0,
            "pattern": r"^0$|^\s*[0-9]+(\.[0-9]+)?\s*(B|KiB|MiB|GiB|TiB|kB|KB|MB|GB|TB)\s*$",
        }
    ),
]
"""Bytes, written as "64MiB"."""

PositiveDuration = Annotated[Duration, Field(gt=0)]
PositiveSize = Annotated[Size, Field(gt=0)]
