"""How gaps between arrivals scatter around their mean.

Knows distributions of mean one. Never a rate, an instant or a clock: whoever asks stretches the
gaps to a rate.

Arrivals of one source are a renewal process, and a run cuts a window out of it that begins at no
particular moment. The wait for the first arrival is then not an ordinary gap: a long gap is more
likely to be cut than a short one. Were the first gap drawn like the others, a bursty source would
send too many requests at the start of each run: at a CV of 8 more than thirty, whatever the rate.
So each shape has a second draw for the first gap, a uniform part of a gap chosen in proportion to
its length. With it the expected count is rate times time, from the first instant on.
"""

from collections.abc import Callable
from enum import StrEnum
from math import gamma, log
from random import Random
from typing import Final

from msgspec import Struct

__all__ = ["GapFamily", "GapShape"]


_CV_VISIBLE: Final = 1e-3
"""Gaps that scatter less are even: nobody could tell, and a gamma's exponent would be huge."""
_CV_MAX: Final = 100.0
"""Beyond this a gamma draws little but zeros."""


class GapFamily(StrEnum):
    """Which distribution."""

    CONSTANT = "constant"
    EXPONENTIAL = "exponential"
    GAMMA = "gamma"
    WEIBULL = "weibull"


class GapShape(Struct, frozen=True, gc=False):
    """A distribution of gaps with mean one.

    Raises:
        ValueError: the exponent is not positive.
    """

    family: GapFamily = GapFamily.EXPONENTIAL
    exponent: float = 1.0
    """The k of a gamma or Weibull distribution; below 1 is burstier than chance."""

    def __post_init__(self) -> None:
        if not self.exponent > 0:
            raise ValueError(f"the exponent must be above 0, not {self.exponent}")

    @classmethod
    def of_cv(cls, cv: float) -> "GapShape":
        """The shape with this coefficient of variation: 0 is even, 1 is Poisson, else gamma."""
        if not 0 <= cv <= _CV_MAX:
            raise ValueError(f"cv must be between 0 and {_CV_MAX:g}, not {cv}")
        if cv < _CV_VISIBLE:
            return cls(GapFamily.CONSTANT)
        if cv == 1:
            return cls(GapFamily.EXPONENTIAL)
        return cls(GapFamily.GAMMA, cv**-2)

    def sampler(self, chance: Random) -> Callable[[], float]:
        """Draws ordinary gaps, of mean one."""
        k = self.exponent
        match self.family:
            case GapFamily.CONSTANT:
                return lambda: 1.0
            case GapFamily.EXPONENTIAL:
                random = chance.random
                return lambda: -log(1.0 - random())
            case GapFamily.GAMMA:
                scale = 1.0 / k
                return lambda: chance.gammavariate(k, scale)
            case GapFamily.WEIBULL:
                scale = 1.0 / gamma(1.0 + 1.0 / k)
                return lambda: chance.weibullvariate(scale, k)

    def draw_first(self, chance: Random) -> float:
        """The wait from an arbitrary instant to the first arrival."""
        k = self.exponent
        match self.family:
            case GapFamily.CONSTANT:
                return chance.random()
            case GapFamily.EXPONENTIAL:
                return -log(1.0 - chance.random())
            case GapFamily.GAMMA:
                return chance.random() * chance.gammavariate(k + 1.0, 1.0 / k)
            case GapFamily.WEIBULL:
                long_gap: float = chance.gammavariate(1.0 + 1.0 / k, 1.0) ** (1.0 / k)
                return chance.random() * long_gap / gamma(1.0 + 1.0 / k)
