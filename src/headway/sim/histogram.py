"""Counts of lengths of time in buckets two per cent wide: percentiles in constant memory."""

from collections.abc import Mapping
from math import exp, log
from typing import Final

__all__ = ["bucket_of", "quantile_ns"]

_STEP: Final = log(1.02)


def bucket_of(length_ns: int) -> int:
    """The bucket of a length; what took no time shares the first."""
    return int(log(length_ns) / _STEP) if length_ns > 0 else 0


def quantile_ns(histogram: Mapping[int, int], quantile: float) -> float | None:
    """The length at a quantile in 0..1 of counts by bucket, within 1 %; None of nothing."""
    left = quantile * sum(histogram.values())
    for bucket, count in sorted(histogram.items()):
        left -= count
        if left <= 0:
            return exp((bucket + 0.5) * _STEP)
    return None
