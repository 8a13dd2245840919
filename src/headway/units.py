"""Durations and sizes: parse what people write, print what they can read.

Knows text and integers. Imports nothing of headway and reads no clock.
"""

import re
from typing import Final

__all__ = [
    "NS_PER_MS",
    "NS_PER_S",
    "NS_PER_US",
    "format_bytes",
    "format_duration",
    "parse_bytes",
    "parse_duration_ns",
]

NS_PER_US: Final = 1_000
NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000

_DURATIONS: Final[dict[str, int]] = {
    "ns": 1,
    "us": NS_PER_US,
    "µs": NS_PER_US,
    "ms": NS_PER_MS,
    "s": NS_PER_S,
    "m": 60 * NS_PER_S,
    "min": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
}
_SIZES: Final[dict[str, int]] = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
_QUANTITY: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ]+)\s*")


def parse_duration_ns(text: str) -> int:
    """Turn ``"250ms"`` into nanoseconds, rounded to the nearest.

    Raises:
        ValueError: the text is not a number followed by ns, us, ms, s, m or h.
    """
    return _parse(text, _DURATIONS, 'a duration such as "250ms", "1.5s" or "2m"')


def parse_bytes(text: str) -> int:
    """Turn ``"4GiB"`` into bytes, rounded to the nearest.

    Raises:
        ValueError: the text is not a number followed by B, KiB, MiB, GiB, kB, MB or GB.
    """
    return _parse(text, _SIZES, 'a size such as "64MiB" or "4GiB"')


def format_duration(duration_ns: int) -> str:
    """Print a length of time with the largest unit that keeps it readable."""
    for unit, size in (("s", NS_PER_S), ("ms", NS_PER_MS), ("us", NS_PER_US)):
        if abs(duration_ns) >= size:
            return f"{duration_ns / size:.4g}{unit}"
    return f"{duration_ns}ns"


def format_bytes(size_bytes: int) -> str:
    """Print a size with the largest binary unit that keeps it readable."""
    for unit in ("GiB", "MiB", "KiB"):
        if size_bytes >= _SIZES[unit]:
            return f"{size_bytes / _SIZES[unit]:.4g}{unit}"
    return f"{size_bytes}B"


def _parse(text: str, units: dict[str, int], wanted: str) -> int:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in units:
        raise ValueError(f"`{text}` is not {wanted}")
    return round(float(match[1]) * units[match[2]])
