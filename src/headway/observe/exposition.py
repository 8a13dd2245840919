"""Metric families as text, in pieces none of which takes long to write.

A server's loop writes them between two requests: a thousand series are some milliseconds, ten
thousand are a tenth of a second, and nobody is to wait for that. The families are all of one
instant; only the writing is spread.

Knows two formats, through prometheus_client. Refuses to know what is measured.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import ALLOWUTF8
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

__all__ = ["exposition"]

_SAMPLES: Final = 200
"""Of a piece, unless one family has more: a millisecond or two."""
_END: Final = b"# EOF\n"


class _Piece:
    """Some families, as the library takes them."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def exposition(families: Iterable[Metric], *, is_openmetrics: bool = False) -> Iterator[bytes]:
    """Pieces of the text, to be put end to end: Prometheus' own format, or OpenMetrics 1.0."""
    for piece in _pieces(families):
        if is_openmetrics:
            # Its other way of writing names makes `vllm_x` of the samples of `vllm:x`.
            text = generate_openmetrics(piece, escaping=ALLOWUTF8)  # type: ignore[no-untyped-call]
            yield text.removesuffix(_END)
        else:
            yield generate_latest(piece)
    if is_openmetrics:
        yield _END


def _pieces(families: Iterable[Metric]) -> Iterator[_Piece]:
    waiting: list[Metric] = []
    count = 0
    for family in families:
        waiting.append(family)
        count += len(family.samples)
        if count >= _SAMPLES:
            yield _Piece(waiting)
            waiting, count = [], 0
    if waiting:
        yield _Piece(waiting)
