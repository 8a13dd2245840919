"""A histogram of plain numbers, and what Prometheus is told of it.

Knows buckets. Never what is counted in them.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from prometheus_client.core import HistogramMetricFamily

__all__ = ["Histogram", "histogram_family"]


class Histogram:
    """Counts per bucket, upper bounds inclusive, and a sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Upper bounds as text, each with how many values are at most that."""
        running = 0
        pairs: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            running += count
            pairs.append((bound, float(running)))
        return pairs


def histogram_family(
    name: str,
    text: str,
    labels: Sequence[str],
    histograms: Mapping[tuple[str, ...], Histogram],
) -> HistogramMetricFamily:
    """A metric family of one histogram for each set of label values."""
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, histogram in histograms.items():
        family.add_metric(values, histogram.cumulative(), histogram.total)
    return family
