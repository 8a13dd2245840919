"""Recursive least squares that cannot be broken: bounded, robust, and forgetting by direction.

Knows rows and targets. Refuses to know what either means.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from headway.predict.stored import number_of

__all__ = ["LeastSquares"]

_FORGETTING: Final = 0.993
"""An observation weighs half as much after a hundred more."""
_VARIANCE_MAX: Final = 10.0
_WEIGHT_MAX: Final = 100.0
_SURPRISE_MAX: Final = 0.15
"""An error beyond this pulls no harder than one of this size: Huber's loss."""
_ABOVE_RATIO: Final = 0.8
"""Weight of a target above the guess against one below it: an expectile below the mean, since a
relative error punishes the guess that is too high more."""


class LeastSquares:
    """Weights w with w·x ≈ y, learnt one (x, y) at a time.

    With covariance P and forgetting λ: surprise s = y - w·x, Huber's weight h = min(1, 0.15 / |s|),
    gain k = P·x / (λ/h + x·P·x); w += k·s; P -= k·(P·x)'; P /= λ. That is the textbook form but
    for four things. Where s > 0, h is smaller by a fifth. Only the rows and columns of P that x
    speaks of are inflated, so that what is never observed does not forget its prior. No variance
    grows beyond a bound, so that a constant history cannot wind P up. Weights are clipped.

    Args:
        weights: The first guess, (width,) float64.
        variances: How far the truth may be from it, squared, (width,) float64.

    Invariants: given finite rows and targets, w and P are finite, w within ±100, P symmetric.
    Cost: O(width²) to learn.
    """

    __slots__ = ("_covariance", "weights")

    def __init__(self, weights: NDArray[np.float64], variances: NDArray[np.float64]) -> None:
        self.weights = weights
        self._covariance = np.diag(variances)  # (width, width) float64

    def learn(self, row: NDArray[np.float64], target: float) -> None:
        """One observation; the row is (width,) float64."""
        surprise = target - float(row @ self.weights)
        trust = min(1.0, _SURPRISE_MAX / max(abs(surprise), 1e-12))
        if surprise > 0.0:
            trust *= _ABOVE_RATIO
        reach = self._covariance @ row
        gain = reach / (_FORGETTING / trust + max(0.0, float(row @ reach)))
        covariance = self._covariance - np.outer(gain, reach)
        # Rows and columns are scaled alike, which keeps the matrix positive semidefinite.
        growth = np.where(row != 0.0, _FORGETTING**-0.5, 1.0)
        variances = np.maximum(covariance.diagonal(), 0.0) * growth * growth
        growth *= np.sqrt(_VARIANCE_MAX / np.maximum(variances, _VARIANCE_MAX))
        covariance *= np.outer(growth, growth)
        # Rounding would make it lopsided, and in the end indefinite.
        self._covariance = (covariance + covariance.T) / 2.0
        self.weights = np.clip(self.weights + gain * surprise, -_WEIGHT_MAX, _WEIGHT_MAX)

    def state(self) -> dict[str, object]:
        """Weights and covariance as plain JSON values."""
        return {
            "weights": self.weights.tolist(),
            "covariance": self._covariance.ravel().tolist(),
        }

    def restore(self, state: object) -> bool:
        """Take up what `state` gave, all of it or nothing; False for nothing."""
        if not isinstance(state, dict):
            return False
        width = self.weights.size
        weights = _numbers(state.get("weights"), width)
        covariance = _numbers(state.get("covariance"), width * width)
        if weights is None or covariance is None:
            return False
        matrix = covariance.reshape(width, width)
        if not _is_covariance(matrix):
            return False
        self.weights = np.clip(weights, -_WEIGHT_MAX, _WEIGHT_MAX)
        self._covariance = matrix
        return True


def _is_covariance(matrix: NDArray[np.float64]) -> bool:  # (width, width)
    """Symmetric, bounded, and no direction in which a variance is negative."""
    if float(np.abs(matrix).max()) > 2.0 * _VARIANCE_MAX:
        return False
    if not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-9):
        return False
    return float(np.linalg.eigvalsh(matrix).min()) >= -1e-9


def _numbers(values: object, count: int) -> NDArray[np.float64] | None:
    """Exactly `count` finite numbers."""
    if not isinstance(values, list) or len(values) != count:
        return None
    numbers = [number for value in values if (number := number_of(value)) is not None]
    return np.array(numbers, dtype=np.float64) if len(numbers) == count else None
