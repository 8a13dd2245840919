"""Whether what was seen is more than chance: trends that hold, and shares beyond a threshold.

Numbers in, numbers out. Everything here is robust to a few wild values: medians, ranks and counts,
never means and least squares, for memory jumps and times have long tails.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import comb, exp, lgamma, log, sqrt
from statistics import NormalDist, median
from typing import Final, NamedTuple

__all__ = ["Point", "Trend", "confidence_above", "is_staircase", "quantile", "trend_of"]

_POINTS_MAX: Final = 400
"""Beyond, neighbours are merged: pairs grow with the square."""
_INTERVAL_Z: Final = NormalDist().inv_cdf(0.995)
"""Of a two-sided interval of 99 %."""
_EXACT_MAX: Final = 1_000
"""Beyond so many observations the binomial is taken for normal."""


class Point(NamedTuple):
    """A value at an instant."""

    at_s: float
    value: float


class Trend(NamedTuple):
    """How a value moves with time, by Theil and Sen: the median of the slopes of all pairs."""

    per_s: float
    low_per_s: float
    """The true slope lies between these with 99 %, if the values are independent of each other."""
    high_per_s: float
    tau: float
    """Kendall's: 1 where every later value is higher, 0 without a trend; ties allowed for."""
    rising_ratio: float
    """How sure it is that the value rises at all."""


def trend_of(points: Sequence[Point]) -> Trend | None:
    """The trend of a series; None with fewer than three points or no time between them."""
    points = _merged(points)
    count = len(points)
    if count < 3 or points[0].at_s == points[-1].at_s:
        return None
    slopes, score = [], 0
    for index, first in enumerate(points):
        for second in points[index + 1 :]:
            score += (second.value > first.value) - (second.value < first.value)
            if second.at_s > first.at_s:
                slopes.append((second.value - first.value) / (second.at_s - first.at_s))
    slopes.sort()
    deviation = sqrt(_variance([point.value for point in points]))
    reach = _INTERVAL_Z * deviation
    low = max(0, int((len(slopes) - reach) / 2))
    high = min(len(slopes) - 1, int((len(slopes) + reach) / 2) + 1)
    pairs = count * (count - 1) / 2
    different = pairs - _tied_pairs([point.value for point in points])
    z = (score - (score > 0) + (score < 0)) / deviation if deviation else 0.0
    return Trend(
        per_s=median(slopes),
        low_per_s=slopes[low],
        high_per_s=slopes[high],
        tau=score / sqrt(pairs * different) if different else 0.0,
        rising_ratio=NormalDist().cdf(z),
    )


def is_staircase(points: Sequence[Point], *, steps: int, rise: float) -> bool:
    """Whether the medians of so many equal parts each lie above the last by a part of the rise.

    What has settled jumps once, or bends to a plateau, and fails in its last parts; what leaks goes
    on to the end.

    Args:
        points: the series.
        steps: parts, by the number of points.
        rise: the least that each must lie above the last.
    """
    size = len(points) // steps
    if size < 1:
        return False
    parts = [points[i * size : (i + 1) * size] for i in range(steps - 1)]
    parts.append(points[(steps - 1) * size :])
    medians = [median(point.value for point in part) for part in parts]
    return all(later - earlier >= rise for earlier, later in pairwise(medians))


def confidence_above(count: int, total: int, threshold: float) -> float:
    """How sure it is that more than this part of all observations there could be are like `count`.

    The chance that the true share lies above the threshold, seen `count` of `total`, when before
    any share was as likely as another. So one observation of one, at a half, is 0.75, and thirty of
    thirty are as good as certain.
    """
    assert 0 <= count <= total
    trials = total + 1
    if trials > _EXACT_MAX:
        mean, deviation = trials * threshold, sqrt(trials * threshold * (1 - threshold))
        return NormalDist().cdf((count + 0.5 - mean) / deviation)
    if trials < 50:
        return min(
            1.0,
            sum(
                comb(trials, i) * threshold**i * (1 - threshold) ** (trials - i)
                for i in range(count + 1)
            ),
        )
    chances = (
        lgamma(trials + 1)
        - lgamma(i + 1)
        - lgamma(trials - i + 1)
        + i * log(threshold)
        + (trials - i) * log(1 - threshold)
        for i in range(count + 1)
    )
    return min(1.0, sum(map(exp, chances)))


def quantile(values: Sequence[float], ratio: float) -> float:
    """The value below which this part of all lies, one of them; the values need no order."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(ratio * len(ordered)))]


def _merged(points: Sequence[Point]) -> list[Point]:
    """At most so many: runs of neighbours become their medians."""
    size = -(-len(points) // _POINTS_MAX)
    if size <= 1:
        return list(points)
    runs = [points[i : i + size] for i in range(0, len(points), size)]
    return [Point(median(p.at_s for p in run), median(p.value for p in run)) for run in runs]


def _variance(values: Sequence[float]) -> float:
    """Of Kendall's score under no trend, with ties."""
    count = len(values)
    total = count * (count - 1) * (2 * count + 5)
    tied = sum(size * (size - 1) * (2 * size + 5) for size in _tie_sizes(values))
    return (total - tied) / 18


def _tied_pairs(values: Sequence[float]) -> float:
    return sum(size * (size - 1) / 2 for size in _tie_sizes(values))


def _tie_sizes(values: Sequence[float]) -> list[int]:
    sizes: dict[float, int] = {}
    for value in values:
        sizes[value] = sizes.get(value, 0) + 1
    return [size for size in sizes.values() if size > 1]
