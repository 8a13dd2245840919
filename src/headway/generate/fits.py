"""A small linear law that is fitted while it is used: least squares with forgetting, and a prior.

The law is y = sum of coefficient times feature. Each observation counts `forgetting` times as much
as the one after it, so the fit follows a machine that changes; the prior is held in the same
matrix, so with no observation the law is the prior, and what no observation varies stays there.

Coefficients are times of work and are never taken as negative. Pure Python: three to five features.
"""

from collections.abc import Sequence

__all__ = ["LinearFit"]


class LinearFit:
    """Recursive least squares.

    Args:
        prior: the coefficients to begin with.
        scales: of each feature, what is usual; a prior counts as one observation of that size.
        forgetting: 0 to 1; 0.999 remembers about a thousand observations.
    """

    def __init__(
        self, prior: Sequence[float], scales: Sequence[float], forgetting: float = 0.999
    ) -> None:
        self._theta = list(prior)
        self._forgetting = forgetting
        self._unsure_max = [1.0 / scale**2 for scale in scales]
        size = len(self._theta)
        self._p = [
            [self._unsure_max[i] if i == j else 0.0 for j in range(size)] for i in range(size)
        ]
        self.count = 0

    @property
    def coefficients(self) -> tuple[float, ...]:
        """As they stand, none below 0."""
        return tuple([max(0.0, each) for each in self._theta])

    def learn(self, features: Sequence[float], value: float) -> None:
        """One more observation."""
        size = len(self._theta)
        p, theta = self._p, self._theta
        gain = [sum([p[i][j] * features[j] for j in range(size)]) for i in range(size)]
        weight = self._forgetting + sum([features[i] * gain[i] for i in range(size)])
        error = value - sum([theta[i] * features[i] for i in range(size)])
        for i in range(size):
            theta[i] += gain[i] / weight * error
        for i in range(size):
            for j in range(size):
                p[i][j] -= gain[i] * gain[j] / weight
        # What no observation varies would be forgotten without end, the prior with it.
        if all(p[i][i] < self._forgetting * self._unsure_max[i] for i in range(size)):
            for i in range(size):
                p[i] = [each / self._forgetting for each in p[i]]
        self.count += 1
