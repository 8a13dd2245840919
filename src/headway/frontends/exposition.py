"""In which of two text formats a scrape is answered: the one that it prefers, by `Accept`.

Prometheus asks for OpenMetrics first; whoever asks for nothing gets the older format, which all
read. Pure: a header in, a choice out.
"""

from typing import Final, NamedTuple

__all__ = ["OPENMETRICS_TYPE", "TEXT_TYPE", "prefers_openmetrics"]

TEXT_TYPE: Final = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
OPENMETRICS_TYPE: Final = (
    b"content-type",
    b"application/openmetrics-text; version=1.0.0; charset=utf-8",
)
_VERSIONS: Final = frozenset({b"1.0.0", b"1"})
_RANGES_MAX: Final = 32
"""Of a header; what stands behind them is not read."""


class _Range(NamedTuple):
    """A kind of text that a client takes, and how gladly."""

    kind: bytes
    version: bytes
    quality: float


def prefers_openmetrics(accept: bytes) -> bool:
    """Whether a client names OpenMetrics 1.0 and likes nothing better that we have."""
    ranges = [_range(text) for text in accept.lower().split(b",")[:_RANGES_MAX]]
    open_quality = max(
        (
            each.quality
            for each in ranges
            if each.kind == b"application/openmetrics-text" and each.version in _VERSIONS
        ),
        default=0.0,
    )
    text_quality = max(
        (each.quality for each in ranges if each.kind in {b"text/plain", b"text/*"}), default=0.0
    )
    return open_quality > 0 and open_quality >= text_quality


def _range(text: bytes) -> _Range:
    kind, *parameters = text.split(b";")
    words = {
        name.strip(): value.strip().strip(b'"')
        for name, _, value in (parameter.partition(b"=") for parameter in parameters)
    }
    try:
        quality = float(words.get(b"q", b"1"))
    except ValueError:
        quality = 0.0
    return _Range(kind.strip(), words.get(b"version", b"1.0.0"), quality)
