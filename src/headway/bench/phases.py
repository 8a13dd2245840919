"""When the requests of a mix arrive: phases of a load and a share each, and bursts inside them.

Pure: a mix, times alone and chance in, instants out. Knows work; never a clock or a policy.

A phase holds as many requests of each class as make up its part of the work, so that two seeds
differ in when requests come and not in how much they ask for; the gaps between them are drawn, and
then stretched together until they fill the phase.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from math import sqrt
from random import Random
from typing import Final, NamedTuple

from headway.bench.mixes import Mix, MixClass
from headway.bench.plan import Arrival
from headway.units import NS_PER_S

__all__ = ["LoadPhase", "offered_work", "phases_of", "plan_mix", "usual_share"]

PHASE_NS: Final = 3 * NS_PER_S
"""How long a load and a share last, about."""


class LoadPhase(NamedTuple):
    """A stretch of time with one load and one share."""

    from_ns: int
    to_ns: int
    load: float
    """Offered work over what the cores can do."""
    high_share: float
    """Part of the work that is high."""


def phases_of(
    mix: Mix,
    solo_ns: Mapping[str, int],
    *,
    duration_ns: int,
    seed: int,
    load: float | None = None,
) -> list[LoadPhase]:
    """What a mix offers when.

    One that moves goes through as many loads and shares as there are phases, evenly from the least
    to the most, in an order of its own for each and for every seed.

    Args:
        mix: what is offered.
        solo_ns: execution alone, by class.
        duration_ns: of all phases together.
        seed: of the order.
        load: instead of the mix's own.
    """
    if mix.high_share is None:
        load = mix.load_min if load is None else load
        return [LoadPhase(0, duration_ns, load, usual_share(mix, solo_ns))]
    count = max(2, round(duration_ns / PHASE_NS))
    chance = Random(f"{seed}/{mix.name}/phases")
    loads = _spread(mix.load_min, mix.load_max, count) if load is None else [load] * count
    shares = _spread(*mix.high_share, count)
    chance.shuffle(loads)
    chance.shuffle(shares)
    edges = [duration_ns * index // count for index in range(count + 1)]
    return [LoadPhase(*where) for where in zip(edges[:-1], edges[1:], loads, shares, strict=True)]


def plan_mix(
    mix: Mix,
    solo_ns: Mapping[str, int],
    phases: Sequence[LoadPhase],
    *,
    capacity_cores: float,
    seed: int,
) -> list[Arrival]:
    """Every request of a run, in order; classes by their index in the mix.

    Args:
        mix: what is offered.
        solo_ns: execution alone, by class.
        phases: how much of it, when.
        capacity_cores: work, in times alone, that the cores do in their time.
        seed: of all chance.
    """
    plan: list[Arrival] = []
    for index, one in enumerate(mix.classes):
        side = mix.high if index < len(mix.high) else mix.low
        chance = Random(f"{seed}/{mix.name}/{one.name}/arrivals")
        part = _work_part(one, side, solo_ns)
        for phase in phases:
            share = phase.high_share if side is mix.high else 1.0 - phase.high_share
            work_ns = phase.load * share * part * capacity_cores * (phase.to_ns - phase.from_ns)
            count = _whole(work_ns / solo_ns[one.name], chance)
            plan += (Arrival(at, index) for at in _instants(phase, count, mix.gap_cv, chance))
    plan.sort()
    return plan


def offered_work(mix: Mix, solo_ns: Mapping[str, int], plan: Sequence[Arrival]) -> int:
    """What the requests take alone, all together, in nanoseconds."""
    return sum(solo_ns[mix.classes[arrival.class_index].name] for arrival in plan)


def usual_share(mix: Mix, solo_ns: Mapping[str, int]) -> float:
    """The high part of the work on the whole."""
    if mix.high_share is not None:
        return sum(mix.high_share) / 2
    # As many high requests come as low ones.
    high_ns, low_ns = (_mean_ns(side, solo_ns) for side in (mix.high, mix.low))
    return high_ns / (high_ns + low_ns)


def _mean_ns(side: Sequence[MixClass], solo_ns: Mapping[str, int]) -> float:
    weight = sum(one.weight for one in side)
    return sum(one.weight * solo_ns[one.name] for one in side) / weight


def _work_part(one: MixClass, side: Sequence[MixClass], solo_ns: Mapping[str, int]) -> float:
    """A class's part of its side's work."""
    return one.weight * solo_ns[one.name] / sum(o.weight * solo_ns[o.name] for o in side)


def _spread(least: float, most: float, count: int) -> list[float]:
    return [least + (most - least) * index / (count - 1) for index in range(count)]


def _whole(expected: float, chance: Random) -> int:
    """A whole number whose mean is the one that was wanted."""
    return int(expected) + (chance.random() < expected % 1.0)


def _instants(phase: LoadPhase, count: int, cv: float, chance: Random) -> Iterator[int]:
    """So many instants with gaps of this scatter, which fill the phase together."""
    if not count:
        return
    ends = list(accumulate(_gap(cv, chance) for _ in range(count + 1)))
    length_ns = phase.to_ns - phase.from_ns
    for end in ends[:-1]:
        # All before the phase is over, whatever rounding makes of the last.
        yield phase.from_ns + min(length_ns - 1, int(length_ns * end / ends[-1]))


def _gap(cv: float, chance: Random) -> float:
    """A gap of mean one: exponential, or for a greater scatter one of two exponentials.

    Most gaps are then somewhat shorter than half of the mean and a few much longer: bursts at about
    twice the mean rate, and pauses. (Of gamma gaps with such a scatter most are next to nothing, so
    that a burst would come all at once.)
    """
    rare = (1.0 - sqrt((cv * cv - 1.0) / (cv * cv + 1.0))) / 2.0
    rate = 2.0 * rare if chance.random() < rare else 2.0 * (1.0 - rare)
    return chance.expovariate(rate)
