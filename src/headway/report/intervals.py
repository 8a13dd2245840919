"""Means over runs with how far they can be trusted: Student's t, at 95 %.

Knows numbers. A single number has a mean and no interval.
"""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import Final, NamedTuple

__all__ = ["Estimated", "Paired", "estimate", "estimate_paired"]

_T_975: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Quantiles of Student's t at 0.975 for 1, 2, ... degrees of freedom."""


class Estimated(NamedTuple):
    """A mean and its 95 % interval; None for a single number, of which nobody knows the scatter."""

    mean: float
    low: float | None
    high: float | None

    @property
    def excludes_zero(self) -> bool:
        """Whether the sign of the mean is known at 95 %."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


class Paired(NamedTuple):
    """How one thing differs from another that met the same circumstances."""

    difference: Estimated
    relative: Estimated | None
    """Over the mean of the other; None where that is 0."""


def estimate(numbers: Sequence[float]) -> Estimated:
    """The mean of what each run gave.

    Raises:
        ValueError: there are no numbers.
    """
    if not numbers:
        raise ValueError("a mean of nothing")
    return _around(fmean(numbers), numbers)


def estimate_paired(numbers: Sequence[float], others: Sequence[float]) -> Paired:
    """The mean of the differences, pair by pair, as such and over the others' mean.

    The relative one is a ratio of two means; its interval is that of the differences from what the
    ratio says of each pair, so that the scatter of the others' mean counts too.

    Raises:
        ValueError: there are none, or not as many of both.
    """
    differences = [number - other for number, other in zip(numbers, others, strict=True)]
    difference = estimate(differences)
    base = fmean(others)
    if base == 0:
        return Paired(difference, None)
    ratio = difference.mean / base
    residuals = [(d - ratio * other) / base for d, other in zip(differences, others, strict=True)]
    return Paired(difference, _around(ratio, residuals))


def _around(mean: float, numbers: Sequence[float]) -> Estimated:
    """A mean with the interval that the scatter of some numbers gives it."""
    if len(numbers) == 1:
        return Estimated(mean, None, None)
    half = _t_975(len(numbers) - 1) * stdev(numbers) / sqrt(len(numbers))
    return Estimated(mean, mean - half, mean + half)


def _t_975(freedom: int) -> float:
    """Beyond the table an expansion that is right to a thousandth."""
    return _T_975[freedom - 1] if freedom <= len(_T_975) else 1.96 + 2.4 / freedom
