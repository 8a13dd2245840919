"""A scene as a row of numbers, for models that learn from rows.

Knows counts, and times as logarithms over the own solo time, so that a law learnt of short batches
holds for long ones. Refuses to know who learns from it.
"""

from math import log
from typing import Final

from headway.core import SlotClass
from headway.predict.scene import Neighbour, Scene

__all__ = ["KIND_COLUMN", "WIDTH", "features_of", "log_of"]

WIDTH: Final = 20
KIND_COLUMN: Final = WIDTH - 1
_NONE: Final = (0.0, 0.0, -10.0, -10.0, -10.0, -10.0, -10.0)
"""Nobody: the times are shorter than any that matters."""
_NS_MAX: Final = 1e300


def features_of(scene: Scene, *, kind: int, guide_ns: float | None = None) -> list[float]:
    """The row: own time; lane mates' seven; others' seven; load; class; guide; kind.

    Args:
        scene: Its batch and its neighbours.
        kind: Number of its (model, bucket, rows), from 0: a name, not a size.
        guide_ns: Another model's answer; what is not known is the solo time.
    """
    run = scene.run
    lane = run.lane
    own = log_of(scene.base_ns)
    mates: list[Neighbour] = []
    others: list[Neighbour] = []
    for neighbour in scene.neighbours:
        (mates if neighbour.run.lane == lane else others).append(neighbour)
    slots = len(scene.slot_lanes)
    return [
        own,
        *(_side(mates, own) if mates else _NONE),
        *(_side(others, own) if others else _NONE),
        # A longer queue than can start within a run says nothing of that run.
        min(scene.waiting_count, 2 * slots),
        max(0, slots - 1 - len(scene.neighbours)),
        1.0 if run.slot_class is SlotClass.LOW else 0.0,
        0.0 if guide_ns is None else log_of(guide_ns) - own,
        kind,
    ]


def log_of(time_ns: float) -> float:
    """The natural logarithm, 0 to 691; what is no time counts as 1 ns."""
    # What is not a number fails both comparisons.
    if 1.0 < time_ns < _NS_MAX:
        return log(time_ns)
    return log(_NS_MAX) if time_ns >= _NS_MAX else 0.0


def _side(neighbours: list[Neighbour], own: float) -> tuple[float, ...]:
    """Count, low ones, sum, least and most of what is left, least and most solo time."""
    run, solo_ns, left_ns = neighbours[0]
    low = 1.0 if run.slot_class is SlotClass.LOW else 0.0
    if len(neighbours) == 1:
        left = log_of(left_ns) - own
        solo = log_of(solo_ns) - own
        return (1.0, low, left, left, left, solo, solo)
    sum_ns = least_left_ns = most_left_ns = left_ns
    least_solo_ns = most_solo_ns = solo_ns
    for run, solo_ns, left_ns in neighbours[1:]:
        low += run.slot_class is SlotClass.LOW
        sum_ns += left_ns
        least_left_ns = min(least_left_ns, left_ns)
        most_left_ns = max(most_left_ns, left_ns)
        least_solo_ns = min(least_solo_ns, solo_ns)
        most_solo_ns = max(most_solo_ns, solo_ns)
    return (
        len(neighbours),
        low,
        log_of(sum_ns) - own,
        log_of(least_left_ns) - own,
        log_of(most_left_ns) - own,
        log_of(least_solo_ns) - own,
        log_of(most_solo_ns) - own,
    )
