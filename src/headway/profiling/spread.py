"""When enough has been measured: order statistics of repeated runs, and the rule that ends them.

Pure: numbers in, numbers out.
"""

from collections.abc import Sequence
from math import ceil, floor, sqrt
from statistics import median_high
from typing import Final, NamedTuple

__all__ = ["Spread", "StopRule", "is_enough", "spread_of"]

_Z_95: Final = 1.959964
"""Two-sided 95 % quantile of the standard normal distribution."""


class Spread(NamedTuple):
    """What repeated runs say of one execution time."""

    median_ns: int
    p95_ns: int
    low_ns: int
    high_ns: int
    """The median's 95 % interval."""
    runs: int

    @property
    def doubt_ratio(self) -> float:
        """Half the interval's width over the median: what ± of the median is in doubt."""
        return (self.high_ns - self.low_ns) / 2 / self.median_ns if self.median_ns else 0.0


class StopRule(NamedTuple):
    """How long one size is measured."""

    doubt_ratio_max: float = 0.02
    """Enough when the median is known this well, ..."""
    runs_min: int = 20
    """... from at least so many runs, of which p95 is then the last but one, ..."""
    busy_ns_min: int = 0
    """... that took at least this long together: what comes and goes must have a chance to."""
    busy_ns_max: int = 2_000_000_000
    """Enough in any case after this, ..."""
    runs_floor: int = 5
    """... but never with fewer runs, ..."""
    runs_max: int = 20_000
    """... nor with more."""


def spread_of(times_ns: Sequence[int]) -> Spread:
    """Median, 95th percentile (nearest rank) and the median's 95 % interval.

    The interval lies between two order statistics, whatever the distribution: of n runs as many as
    lie below the median are binomial (n, 1/2), so the ranks n/2 ± 1.96 √n/2 enclose it, rounded
    outwards (Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2).

    Raises:
        ValueError: no runs.
    """
    if not times_ns:
        raise ValueError("a spread needs at least one run")
    ordered = sorted(times_ns)
    runs = len(ordered)
    half = _Z_95 * sqrt(runs) / 2
    low = max(0, floor(runs / 2 - half) - 1)
    high = min(runs - 1, ceil(runs / 2 + half))
    return Spread(
        median_ns=median_high(ordered),
        p95_ns=ordered[ceil(0.95 * runs) - 1],
        low_ns=ordered[low],
        high_ns=ordered[high],
        runs=runs,
    )


def is_enough(times_ns: Sequence[int], rule: StopRule) -> bool:
    """Whether these runs of one size will do.

    Cost: sorts the runs; ask seldom, for instance each time that their number has grown by a tenth.
    """
    runs = len(times_ns)
    if runs < rule.runs_floor:
        return False
    busy_ns = sum(times_ns)
    if runs >= rule.runs_max or busy_ns >= rule.busy_ns_max:
        return True
    if runs < rule.runs_min or busy_ns < rule.busy_ns_min:
        return False
    return spread_of(times_ns).doubt_ratio <= rule.doubt_ratio_max
