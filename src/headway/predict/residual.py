"""What predictions at the start were still wrong by, learnt as they come true.

The physical model is corrected where it can be seen to be wrong, from the end of an execution; what
then remains is what could not be known at the start: arrivals, departures, the scheduler's slices.
Its logarithm is followed by recursive least squares with forgetting (diagonal), on a constant, a
constant of each size, and the logarithm of the predicted slowdown, with a strong prior at no
correction at all.

The yardstick is relative error, whose best point is near a median, so each surprise is clipped at
little more than what is usual: far ones pull hardly more than near ones.

Knows logarithms and names. Refuses to know loads: what it multiplies by depends on load through the
predicted slowdown alone, and never so much that a heavier load comes out shorter.
"""

from math import exp, log
from typing import Final

from headway.predict.belief import Belief, Term, assimilate
from headway.predict.stored import fields_of, number_of, rows_of

__all__ = ["Residual", "SlowBias"]

_SIZES_MAX: Final = 4096
_LIMIT: Final = log(4.0)
Key = tuple[str, str, int]
"""Model, bucket and rows; or whatever else tells predictions apart."""

_SLOPE_MIN: Final = -0.5
_SLOPE_MAX: Final = 0.5
_NOISE_START: Final = 0.1**2
_NOISE_MIN: Final = 0.02**2
_NOISE_MAX: Final = 0.6**2
_NOISE_WEIGHT: Final = 0.02
_CLIP_SIGMAS: Final = 0.5
_WEIGHT_MAX: Final = 2.0
_SLOW_WEIGHT: Final = 0.01
_SLOW_REACH: Final = 0.15
_SLOW_LIMIT: Final = log(2.0)


class Residual:
    """A factor on a predicted time: exp(a + a_size + k·log s), s >= 1 the predicted slowdown.

    Invariants: the factor is finite, within 16 and its inverse times s to the power `_SLOPE_MAX`;
    factor · s never falls with s.
    """

    def __init__(self) -> None:
        self._all = Belief(0.0, 0.05, drift_sigma=0.004, low=-_LIMIT, high=_LIMIT)
        self._slope = Belief(0.0, 0.05, drift_sigma=0.002, low=_SLOPE_MIN, high=_SLOPE_MAX)
        self._sizes: dict[Key, Belief] = {}
        self._noise = _NOISE_START

    def factor(self, size: Key, slowdown: float) -> float:
        """What to multiply a prediction by."""
        own = self._sizes.get(size)
        correction = self._all.mean + (0.0 if own is None else own.mean)
        return exp(correction + self._slope.mean * log(max(slowdown, 1.0)))

    def learn(self, size: Key, slowdown: float, predicted_ns: float, actual_ns: float) -> None:
        """A prediction, factor included, came true."""
        if predicted_ns <= 0.0 or actual_ns <= 0.0:
            return
        own = self._own(size)
        surprise = log(actual_ns / predicted_ns)
        reach = _CLIP_SIGMAS * self._noise**0.5
        observed = min(surprise * surprise, 9.0 * self._noise)
        self._noise += _NOISE_WEIGHT * (observed - self._noise)
        self._noise = min(max(self._noise, _NOISE_MIN), _NOISE_MAX)
        terms: list[Term] = [(self._all, 1.0), (own, 1.0)]
        terms.append((self._slope, log(max(slowdown, 1.0))))
        # Relative error counts by the actual time, so what came out long counts for less.
        counts = min(exp(-surprise), _WEIGHT_MAX)
        assimilate(counts * min(max(surprise, -reach), reach), self._noise, terms)

    def state(self) -> dict[str, object]:
        """All beliefs."""
        return {
            "all": [self._all.dump()],
            "slope": [self._slope.dump()],
            "sizes": [[*size, *belief.dump()] for size, belief in self._sizes.items()],
            "noise": self._noise,
        }

    def restore(self, state: object) -> None:
        """Take up what `state` gave; what does not fit is ignored."""
        fields = fields_of(state)
        for name, belief in (("all", self._all), ("slope", self._slope)):
            for _, numbers in rows_of(fields.get(name), (), 2):
                belief.load(numbers)
        for (model, bucket, rows), numbers in rows_of(fields.get("sizes"), (str, str, int), 2):
            self._own((str(model), str(bucket), int(rows))).load(numbers)
        noise = number_of(fields.get("noise"))
        if noise is not None:
            self._noise = min(max(noise, _NOISE_MIN), _NOISE_MAX)

    def _own(self, size: Key) -> Belief:
        own = self._sizes.get(size)
        if own is None:
            own = Belief(0.0, 0.05, drift_sigma=0.004, low=-_LIMIT, high=_LIMIT)
            if len(self._sizes) < _SIZES_MAX:
                self._sizes[size] = own
        return own


class SlowBias:
    """A factor that takes the relative error of predictions to its least, slowly.

    What is foreseen at arrival comes true only after everything that waits has run: whoever
    corrected by the latest outcomes would go on correcting what has been corrected already, and
    swing. So each outcome moves the factor by little, and by no more for being far off.

    Invariants: the factor stays within 2 and its inverse.
    """

    def __init__(self) -> None:
        self._log = 0.0

    @property
    def factor(self) -> float:
        """What to multiply a prediction by."""
        return exp(self._log)

    def learn(self, predicted_ns: float, actual_ns: float) -> None:
        """A prediction, factor included, came true."""
        if predicted_ns > 0.0 and actual_ns > 0.0:
            surprise = log(actual_ns / predicted_ns)
            counts = min(exp(-surprise), _WEIGHT_MAX)
            step = _SLOW_WEIGHT * counts * min(max(surprise, -_SLOW_REACH), _SLOW_REACH)
            self._log = min(max(self._log + step, -_SLOW_LIMIT), _SLOW_LIMIT)

    def state(self) -> float:
        """Its logarithm."""
        return self._log

    def restore(self, state: object) -> None:
        """Take up what `state` gave; nonsense is ignored."""
        number = number_of(state)
        if number is not None:
            self._log = min(max(number, -_SLOW_LIMIT), _SLOW_LIMIT)
