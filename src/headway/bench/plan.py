"""When the requests of a recording arrive, and how the load changes half way.

Pure: numbers and chance in, instants out. Knows shares of work and solo times; never a clock.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from random import Random
from typing import NamedTuple

from headway.bench.mix import TrafficClass

__all__ = ["Arrival", "Shift", "plan_arrivals"]


class Shift(StrEnum):
    """What changes in the middle of a recording."""

    NONE = "none"
    NEW_MODEL = "new_model"
    """A model is asked for that was not before; the others make room for its work."""
    RATE = "rate"
    """Twice as many requests."""
    SLOTS = "slots"
    """At first so many batches at once as there are cores, then all slots."""
    CORE = "core"
    """Another program takes a core."""


class Arrival(NamedTuple):
    """A request to be sent."""

    at_ns: int
    """From the start of the load."""
    class_index: int
    """In the mix."""


def plan_arrivals(
    mix: Sequence[TrafficClass],
    solo_ns: Mapping[str, int],
    *,
    work_ratios: tuple[float, float],
    cores_count: int,
    duration_ns: int,
    seed: int,
    late_model: str | None = None,
) -> list[Arrival]:
    """Poisson arrivals whose work is a part of what the cores can do.

    Each half holds as many requests as make up its work, at independent instants: a Poisson
    process of which the count is known. So two seeds differ in when requests come, not in how
    much work they bring.

    Args:
        mix: classes and their weights.
        solo_ns: execution alone, by class.
        work_ratios: offered work over the cores' time, in the first half and in the second.
        cores_count: cores that serve.
        duration_ns: of both halves.
        seed: of all chance.
        late_model: its classes arrive in the second half only.
    """
    chance = Random(f"{seed}/arrivals")
    half_ns = duration_ns // 2
    weights = [traffic.weight for traffic in mix]
    early = [0.0 if traffic.model == late_model else traffic.weight for traffic in mix]
    costs_ns = [solo_ns[traffic.name] for traffic in mix]
    plan: list[Arrival] = []
    for start_ns, ratio, half in ((0, work_ratios[0], early), (half_ns, work_ratios[1], weights)):
        work_ns = ratio * cores_count * half_ns
        classes = list(_classes(half, costs_ns, work_ns, chance))
        instants = sorted(start_ns + chance.randrange(half_ns) for _ in classes)
        plan += map(Arrival, instants, classes)
    return plan


def _classes(
    weights: Sequence[float], costs_ns: Sequence[int], work_ns: float, chance: Random
) -> Iterator[int]:
    """Classes drawn by weight until they make up the work; the last one makes it full."""
    indices = range(len(weights))
    while work_ns > 0:
        (index,) = chance.choices(indices, weights)
        work_ns -= costs_ns[index]
        yield index
