"""Words of PromQL that rules and panels are written with.

Knows text. An expression is written out where it is used, as people read it; here is only what is
the same in many of them.
"""

from typing import Final

__all__ = ["number", "window"]

_UNITS: Final[tuple[tuple[str, int], ...]] = (
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
)
"""In milliseconds, which is as fine as Prometheus counts."""
_NS_PER_MS: Final = 1_000_000


def window(duration_ns: int) -> str:
    """A length of time as PromQL writes it: `5m`, `1h30m`, `500ms`.

    Raises:
        ValueError: it is shorter than a millisecond.
    """
    left_ms = duration_ns // _NS_PER_MS
    if left_ms < 1:
        raise ValueError(f"`{duration_ns}` ns is shorter than a millisecond")
    text = ""
    for unit, size_ms in _UNITS:
        count, left_ms = divmod(left_ms, size_ms)
        text += f"{count}{unit}" if count else ""
    return text


def number(value: float) -> str:
    """A number without the noise of binary fractions: `0.01`, not `0.010000000000000009`."""
    return f"{value:.10g}"
