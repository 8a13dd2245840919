"""How much of its share a copy engine makes use of, given who else is at work.

Knows the tree, and weights that somebody else fits. Refuses to know sizes and times. Dividing rated
capacities evenly is what links do at best: each further copy and traffic the other way cost some.

    rate = max-min share * exp(-(w . crowd)),   w >= 0, crowd >= 0

so that no link ever carries more than its capacity, and company never makes a copy faster.
"""

from collections.abc import Sequence
from math import exp
from typing import Final

from headway.predict.links import LinkShares

__all__ = ["CROWD_COUNT", "Pace"]

CROWD_COUNT: Final = 4
"""Engines of its direction that share more than host memory with it, by four; those that share
only that, by four; whether any goes the other way on its links; whether any elsewhere does."""
_GRID: Final = 128
"""Weights are rounded to this part, or every observation would empty the cache of rates."""
_CACHED_MAX: Final = 4096


class Pace:
    """The rates of busy engines, company included.

    Cost: a look-up for a set of busy engines seen before, else some 2 us an engine.
    """

    __slots__ = ("_masks", "_rates", "_steps", "shares")

    def __init__(self, shares: LinkShares) -> None:
        self.shares = shares
        self._masks = [_masks(shares, engine) for engine in range(shares.engine_count)]
        self._steps: tuple[int, ...] = (0,) * CROWD_COUNT
        self._rates: dict[int, tuple[float, ...]] = {}

    def weigh(self, weights: Sequence[float]) -> None:
        """Take up fitted weights; negative ones count as 0."""
        assert len(weights) == CROWD_COUNT, f"{CROWD_COUNT} weights, not {len(weights)}"
        steps = tuple(round(max(0.0, weight) * _GRID) for weight in weights)
        if steps != self._steps:
            self._steps = steps
            self._rates.clear()

    def crowd(self, engine: int, busy: int) -> tuple[float, float, float, float]:
        """Who is at work beside an engine; see `CROWD_COUNT`."""
        near, far, against, elsewhere = self._masks[engine]
        return (
            (busy & near).bit_count() / 4,
            (busy & far).bit_count() / 4,
            float(busy & against != 0),
            float(busy & elsewhere != 0),
        )

    def rates(self, busy: int) -> tuple[float, ...]:
        """Bytes per nanosecond of each busy engine, in the order of their numbers."""
        rates = self._rates.get(busy)
        if rates is None:
            if len(self._rates) >= _CACHED_MAX:
                self._rates.clear()
            engines = [e for e in range(self.shares.engine_count) if busy >> e & 1]
            shares = self.shares.rates(busy)
            rates = tuple(r * self._ratio(e, busy) for e, r in zip(engines, shares, strict=True))
            self._rates[busy] = rates
        return rates

    def _ratio(self, engine: int, busy: int) -> float:
        crowd = self.crowd(engine, busy)
        return exp(-sum(s * c for s, c in zip(self._steps, crowd, strict=True)) / _GRID)


def _masks(shares: LinkShares, engine: int) -> tuple[int, int, int, int]:
    """Bits of the engines that are near, far, against and elsewhere."""
    near = far = against = elsewhere = 0
    links = shares.links(engine)
    for other in range(shares.engine_count):
        if other == engine:
            continue
        is_near = bool(set(links[:-1]) & set(shares.links(other)[:-1]))
        if (other ^ engine) & 1 == 0:
            near, far = near | is_near << other, far | (not is_near) << other
        else:
            against, elsewhere = against | is_near << other, elsewhere | (not is_near) << other
    return near, far, against, elsewhere
