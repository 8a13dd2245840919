"""What the formula of a copy does not know, learnt: a factor linear in the log of a few features.

Recursive least squares on the log residual with forgetting (Ljung, System Identification, 11.2),
from a prior at 0: with nothing learnt the formula stands. Surprises are weighed by their relative
error, which is the yardstick. Everything is bounded: one observation
moves it by a limited step, a weight and the factor stay in a range, whatever it is told.
"""

from collections.abc import Sequence
from math import exp, isfinite
from operator import mul
from typing import Final

__all__ = ["LogResidual"]

_WEIGHT_MAX: Final = 1.0
_LOG_MAX: Final = 1.0
"""The factor stays within e and 1 / e."""
_VARIANCE_MAX: Final = 4.0


class LogResidual:
    """``factor = exp(w . x)``, ``w`` fitted to the observed logs of actual over predicted.

    Args:
        size: of a feature vector; each feature is about 0 to 1, and 1 for the constant.
        load_from: from this index on features say how much is going on, and their weights are
            never negative: more load never makes an answer smaller.
        surprise_max: a log further off counts as one that is off by this; the smaller it is, the
            nearer the fit is to a median, which is what a relative error asks for.
        forgetting: weight of an observation after the next one, over its weight before.
        prior_variance: of a weight, over the variance of an observation.

    Cost: `factor` O(size), `learn` O(size^2).
    """

    def __init__(
        self,
        size: int,
        *,
        load_from: int,
        surprise_max: float = 0.7,
        forgetting: float = 0.998,
        prior_variance: float = 1.0,
    ) -> None:
        self._size = size
        self._load_from = load_from
        self._surprise_max = surprise_max
        self._forgetting = forgetting
        self._weights = [0.0] * size
        self._covariance = [
            [prior_variance if row == column else 0.0 for column in range(size)]
            for row in range(size)
        ]

    @property
    def weights(self) -> tuple[float, ...]:
        """``w``; none of load is negative."""
        return tuple(self._weights)

    def log_factor(self, features: Sequence[float]) -> float:
        """The log of what to multiply the formula's answer with, within 1 of 0."""
        total = sum(map(mul, self._weights, features))
        return float(max(-_LOG_MAX, min(_LOG_MAX, total)))

    def factor(self, features: Sequence[float]) -> float:
        """What to multiply the formula's answer with."""
        return exp(self.log_factor(features))

    def learn(self, features: Sequence[float], log_ratio: float) -> None:
        """The formula alone was off by the factor of this log."""
        error = log_ratio - sum(map(mul, self._weights, features))
        if not isfinite(error):
            return
        error = _relative(max(-self._surprise_max, min(self._surprise_max, error)))
        gains = [sum(map(mul, row, features)) for row in self._covariance]
        scale = self._forgetting + sum(map(mul, gains, features))
        self._weights = [
            self._bounded(index, weight + gain / scale * error)
            for index, (weight, gain) in enumerate(zip(self._weights, gains, strict=True))
        ]
        self._covariance = [
            [
                (value - gains[row] * gains[column] / scale) / self._forgetting
                for column, value in enumerate(values)
            ]
            for row, values in enumerate(self._covariance)
        ]
        self._bound()

    def _bounded(self, index: int, weight: float) -> float:
        """Projected at once: a hidden negative weight would have to be unlearnt first."""
        low = 0.0 if index >= self._load_from else -_WEIGHT_MAX
        return max(low, min(_WEIGHT_MAX, weight))

    def _bound(self) -> None:
        """Without excitation forgetting would let the covariance grow for ever."""
        worst = max(self._covariance[index][index] for index in range(self._size))
        if worst > _VARIANCE_MAX:
            shrink = _VARIANCE_MAX / worst
            self._covariance = [[value * shrink for value in row] for row in self._covariance]

    def state(self) -> dict[str, object]:
        """All that was learnt, as plain JSON values."""
        return {"weights": list(self._weights), "covariance": [list(r) for r in self._covariance]}

    def restore(self, state: dict[str, object]) -> None:
        """Take up what `state` gave; what does not fit is ignored."""
        weights, covariance = state.get("weights"), state.get("covariance")
        if not isinstance(covariance, list) or len(covariance) != self._size:
            return
        rows = [row for values in covariance if (row := _numbers(values, self._size)) is not None]
        first = _numbers(weights, self._size)
        if first is None or len(rows) != self._size:
            return
        if min(rows[index][index] for index in range(self._size)) < 0:
            return
        self._weights = [self._bounded(index, weight) for index, weight in enumerate(first)]
        self._covariance = rows
        self._bound()


def _relative(log_error: float) -> float:
    """A surprise as relative errors weigh it: late by a factor less than early by the same."""
    return log_error * min(2.0, exp(-log_error))


def _numbers(values: object, size: int) -> list[float] | None:
    """A list of so many finite numbers, or None."""
    if not isinstance(values, list) or len(values) != size:
        return None
    if not all(isinstance(value, int | float) and isfinite(value) for value in values):
        return None
    return [float(value) for value in values]
