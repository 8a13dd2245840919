"""Better layouts by ruin and recreation: some devices are emptied, and filled in another order.

The fast path's own placing does the filling, so a round takes milliseconds where the solver's takes
seconds, and hundreds of rounds find out which models go well together. A round is kept where it
loses nothing: no requests, no cost, and little of how unevenly the devices are filled, for a device
that is nearly empty is one that can be given up. After Schrimpf and others, "Record breaking
optimization results using the ruin and recreate principle", 2000.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from math import exp
from random import Random
from typing import Final, NamedTuple

from headway.core import ModelName
from headway.plan.drafts import DeviceDraft
from headway.plan.greedy import Layout, Placer, Strategy, rank_of
from headway.plan.terms import Terms

__all__ = ["costs_of", "recreated"]

_EMPTIED_MAX: Final = 4
_LOSS: Final = 0.3
"""Of unevenness, what a round may lose in the beginning; towards the end it may lose nothing."""
_DIGITS: Final = 6
_MIG_RATIO: Final = 0.5
"""Of rounds, how many cut a device where they can."""
_LEFT_LOSS: Final = 0.04
"""Of cost, what a round may lose of what is placed while not everything is; it falls likewise."""
_NOISE: Final = 0.5
"""How far the order of models strays from the largest first, as the sigma of a factor."""


class _Standing(NamedTuple):
    """How good a layout is."""

    rank: tuple[float, float]
    """What counts, small is good."""
    unevenness: float
    """Of what devices carry, the sum of squares, by cost: promising."""

    def is_better_than(self, other: "_Standing", *, loss: float = 0.0, ease: float = 0.0) -> bool:
        """Whether it counts for more, or for as much and at no greater loss of unevenness.

        Args:
            other: what it is held against.
            loss: of unevenness, what is borne.
            ease: of what counts first, what is borne.
        """
        if self.rank != other.rank:
            return self.rank < (other.rank[0] + ease, other.rank[1])
        return self.unevenness > other.unevenness - loss


def recreated(
    terms: Terms,
    layout: Layout,
    *,
    rounds: int,
    seed: int,
    is_enough: Callable[[Layout], bool],
    weights: Mapping[ModelName, float] | None = None,
) -> Layout:
    """The best layout of so many rounds; never a worse one than it began with.

    Args:
        terms: of the question.
        layout: to begin with.
        rounds: how often devices are emptied.
        seed: of what is drawn.
        is_enough: whether a layout need not be bettered, or there is no more time.
        weights: of a portion of each model. If they are given, what counts is how much of them
            finds no place, and a round may lose a little of that.
    """
    chance = Random(f"{seed}/recreated")
    taken = costs_of(terms)
    at, best = layout, layout
    at_standing = best_standing = _standing(layout, terms, weights)
    for number in range(rounds):
        if is_enough(best):
            break
        tried = _round(terms, at, taken, chance)
        if tried is None:
            break
        standing = _standing(tried, terms, weights)
        allowed = (1.0 - number / rounds) * chance.random()
        ease = _LEFT_LOSS * allowed if weights is not None else 0.0
        if standing.is_better_than(at_standing, loss=_LOSS * allowed, ease=ease):
            at, at_standing = tried, standing
            if standing.is_better_than(best_standing):
                best, best_standing = tried, standing
    return best


def _standing(layout: Layout, terms: Terms, weights: Mapping[ModelName, float] | None) -> _Standing:
    carried = [(draft.device.cost, _filled(draft)) for draft in layout.drafts if draft.is_used]
    unevenness = sum(cost * part * part for cost, part in carried)
    if weights is None:
        return _Standing(rank_of(layout, terms), unevenness)
    left = sum(weights[name] * count for name, count in layout.left.items())
    return _Standing((round(left, _DIGITS), 0.0), unevenness)


def _filled(draft: DeviceDraft) -> float:
    """The part of a device that is taken, by time or by memory."""
    memory = sum(into.memory_bytes for into in draft.slices) / draft.device.memory_bytes
    return max(draft.load_ratio, memory)


def costs_of(terms: Terms) -> dict[ModelName, float]:
    """Of each model, the least part of a device's cost that all of its portions take."""
    placer = Placer(terms, Strategy(is_best_fit=True))
    return {name: placer.weight(model) for name, model in terms.models.items()}


def _round(
    terms: Terms, layout: Layout, taken: Mapping[ModelName, float], chance: Random
) -> Layout | None:
    """Some devices emptied, and what sat there placed anew; None where nothing can be moved."""
    drafts = [draft.copied() for draft in layout.drafts]
    movable = [draft for draft in drafts if draft.is_used and draft.gang is None]
    if not movable and not any(layout.left.values()):
        return None
    count = min(len(movable), chance.randint(1, _EMPTIED_MAX))
    moved: Counter[ModelName] = Counter(
        {name: n for name, n in layout.left.items() if n and terms.models[name].gang_devices == 1}
    )
    for draft in _drawn(movable, count, chance):
        for name, portions in draft.empty():
            moved[name] += portions
    placer = Placer(
        terms, Strategy(is_best_fit=True, prefers_mig=chance.random() < _MIG_RATIO), drafts
    )
    left = {name: n for name, n in layout.left.items() if name not in moved}
    order = sorted(moved, key=lambda name: -taken[name] * exp(_NOISE * chance.gauss(0.0, 1.0)))
    for name in order:
        missing = placer.spread_out(terms.models[name], moved[name])
        if missing:
            left[name] = missing
    return Layout(drafts, left)


def _drawn(movable: list[DeviceDraft], count: int, chance: Random) -> list[DeviceDraft]:
    """So many devices, those that carry little for their cost more often."""
    pool, drawn = list(movable), list[DeviceDraft]()
    for _ in range(count):
        weights = [draft.device.cost / (0.1 + _filled(draft)) for draft in pool]
        drawn.append(pool.pop(chance.choices(range(len(pool)), weights)[0]))
    return drawn
