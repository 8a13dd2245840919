"""A histogram of plain numbers, and what Prometheus is told of it.

Knows buckets. Never what is counted in them.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from prometheus_client.core import HistogramMetricFamily

from headway.units import NS_PER_S

__all__ = ["SECONDS", "Durations", "Histogram", "histogram_family"]

SECONDS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
"""Of what a request goes through."""


class Histogram:
    """Counts per bucket, upper bounds inclusive, and a sum. Cost: a bisection to add a value."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.total: float = 0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)

    @property
    def sum(self) -> float:
        """Of all values, in the unit that Prometheus is told."""
        return self.total

    def cumulative(self) -> list[tuple[str, float]]:
        """Upper bounds as text, each with how many values are at most that."""
        running = 0
        pairs: list[tuple[str, float]] = []
        for bound, count in zip(self.texts(), self.counts, strict=True):
            running += count
            pairs.append((bound, float(running)))
        return pairs

    def texts(self) -> tuple[str, ...]:
        """Upper bounds as Prometheus is told them."""
        return _texts(self.bounds)


class Durations(Histogram):
    """Counts lengths of time: takes whole nanoseconds, and tells seconds.

    Whole numbers, for they add up exactly and spare a division a value.
    """

    __slots__ = ()

    def __init__(self, bounds_s: Sequence[float] = SECONDS) -> None:
        super().__init__(_in_ns(tuple(bounds_s)))

    @property
    def sum(self) -> float:
        """In seconds."""
        return self.total / NS_PER_S

    def texts(self) -> tuple[str, ...]:
        """In seconds."""
        return _texts_of_ns(self.bounds)


@lru_cache(maxsize=64)
def _in_ns(bounds_s: tuple[float, ...]) -> tuple[int, ...]:
    """The same object for the same bounds, so that a thousand histograms share it."""
    return tuple(round(bound * NS_PER_S) for bound in bounds_s)


@lru_cache(maxsize=64)
def _texts(bounds: tuple[float, ...]) -> tuple[str, ...]:
    return (*(str(float(bound)) for bound in bounds), "+Inf")


@lru_cache(maxsize=64)
def _texts_of_ns(bounds: tuple[float, ...]) -> tuple[str, ...]:
    return _texts(tuple(bound / NS_PER_S for bound in bounds))


def histogram_family(
    name: str,
    text: str,
    labels: Sequence[str],
    histograms: Mapping[tuple[str, ...], Histogram],
) -> HistogramMetricFamily:
    """A metric family of one histogram for each set of label values."""
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, histogram in histograms.items():
        family.add_metric(values, histogram.cumulative(), histogram.sum)
    return family
