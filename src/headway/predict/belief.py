"""A number that is believed, how firmly, and how observations of sums of such numbers move it.

Knows means and variances. Refuses to know what the numbers stand for. Diagonal Kalman filter: each
belief keeps its own variance and no covariance is kept, so that an update costs O(terms).
"""

from collections.abc import Sequence
from math import isfinite, sqrt

__all__ = ["Belief", "Term", "assimilate"]

_CLIP_SIGMAS = 3.0
"""A surprise larger than this many standard deviations counts as this many."""
_VARIANCE_MIN = 1e-9


class Belief:
    """One number: a mean, its variance, the variance that each observation adds, and limits.

    Invariants: low <= mean <= high; 0 < variance <= the first variance.
    """

    __slots__ = ("drift", "high", "low", "mean", "variance", "variance_max")

    def __init__(
        self, mean: float, sigma: float, *, drift_sigma: float, low: float, high: float
    ) -> None:
        self.mean = min(max(mean, low), high)
        self.variance = sigma * sigma
        self.variance_max = self.variance
        self.drift = drift_sigma * drift_sigma
        self.low = low
        self.high = high

    def dump(self) -> list[float]:
        """Mean and variance."""
        return [self.mean, self.variance]

    def load(self, numbers: Sequence[float]) -> None:
        """Take up what `dump` gave; out of limits is clamped, and nonsense ignored."""
        mean, variance = numbers
        if isfinite(mean) and isfinite(variance) and variance > 0.0:
            self.mean = min(max(mean, self.low), self.high)
            self.variance = min(max(variance, _VARIANCE_MIN), self.variance_max)


Term = tuple[Belief, float]
"""A belief, and the factor with which it enters the sum that was observed."""


def assimilate(surprise: float, noise_variance: float, terms: Sequence[Term]) -> None:
    """Move the beliefs so that their weighted sum explains a part of the surprise.

    Args:
        surprise: observed less expected, in the unit of the sum (here mostly a logarithm). One
            that is not finite changes nothing.
        noise_variance: of the observation itself; positive.
        terms: beliefs and factors.
    """
    if not isfinite(surprise):
        return
    total = noise_variance
    for belief, x in terms:
        belief.variance = min(belief.variance + belief.drift, belief.variance_max)
        total += belief.variance * x * x
    reach = _CLIP_SIGMAS * sqrt(total)
    clipped = min(max(surprise, -reach), reach)
    for belief, x in terms:
        gain = belief.variance * x / total
        belief.mean = min(max(belief.mean + gain * clipped, belief.low), belief.high)
        belief.variance = max(belief.variance * (1.0 - gain * x), _VARIANCE_MIN)
