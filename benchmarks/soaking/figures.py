"""Slopes, percentiles and what may be said of them. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import combinations

__all__ = ["percentile", "slope"]

POINTS_MAX = 300
WARM_RATIO = 0.2
"""Of the readings, the first: caches fill, and whoever learns begins to."""


def percentile(values: Sequence[float], ratio: float) -> float:
    """The value that this part of them does not exceed; 0 of none."""
    in_order = sorted(values)
    return in_order[min(len(in_order) - 1, int(len(in_order) * ratio))] if in_order else 0.0


def slope(readings: Sequence[tuple[float, float]]) -> float:
    """Theil-Sen: the median of the slopes between any two readings, which single ones do not move.

    Args:
        readings: (when or which, value), in order; the first of them are left out.
    """
    late = readings[int(len(readings) * WARM_RATIO) :]
    late = late[:: max(1, len(late) // POINTS_MAX)]
    slopes = [
        (b - a) / (end - start) for (start, a), (end, b) in combinations(late, 2) if end > start
    ]
    return statistics.median(slopes) if slopes else 0.0
