"""What a model is put beside to see what it takes and what it suffers: the set of stressors.

A stressor is a load of `headway.devices` on certain cores at a certain strength. Knows which there
are and where each runs. Refuses to know what follows from them: that is `probes`.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from headway.devices import Burners, Load, LoadKind, siblings_of

__all__ = ["STRESSORS", "Cores", "Place", "Stressor", "choose_cores", "open_stressor"]

_BURNERS_MAX: Final = 32
"""Of one stressor; more cores than that are left alone."""


class Place(StrEnum):
    """Where a stressor runs, seen from the model."""

    OTHER_CORES = "other_cores"
    """On every other core of the device: its other lanes are all taken."""
    OWN_CORE = "own_core"
    """On the model's core, with equal right to it: a batch on another slot of the same lane."""
    OWN_CORE_IDLE = "own_core_idle"
    """On the model's core, but only while the model does not want it."""


class Stressor(NamedTuple):
    """One of the loads that a model is put beside."""

    kind: LoadKind
    place: Place
    strength_ratio: float
    """Part of the time that it works; 1 is flat out."""


STRESSORS: Final = (
    Stressor(LoadKind.COMPUTE, Place.OTHER_CORES, 0.5),
    Stressor(LoadKind.COMPUTE, Place.OTHER_CORES, 1.0),
    Stressor(LoadKind.STREAM, Place.OTHER_CORES, 0.5),
    Stressor(LoadKind.STREAM, Place.OTHER_CORES, 1.0),
    Stressor(LoadKind.COMPUTE, Place.OWN_CORE, 1.0),
    Stressor(LoadKind.COMPUTE, Place.OWN_CORE_IDLE, 1.0),
)
"""Two kinds at two strengths from other lanes; then what sharing a lane does, and what is left of
a core that the model has to itself."""


class Cores(NamedTuple):
    """Who runs where while a model is measured."""

    own: int
    """The model's."""
    others: tuple[int, ...]
    """For stressors; empty on a machine of one core."""


def choose_cores(cores: Sequence[int]) -> Cores:
    """The last core for the model, as interrupts like the first; stressors on the others.

    Cores that share a physical one with the model's are left out as long as there are others: what
    two threads of one core do to each other is not what lanes usually do.
    """
    own = cores[-1]
    others = [core for core in cores if core != own]
    apart = [core for core in others if core not in siblings_of(own)]
    return Cores(own, tuple((apart or others)[-_BURNERS_MAX:]))


def open_stressor(stressor: Stressor, cores: Cores, array_bytes: int) -> Burners:
    """Start its processes, prepared and at rest; use it in a `with` statement.

    Raises:
        HeadwayError: a process could not be started.
    """
    is_beside = stressor.place is Place.OTHER_CORES
    burners = Burners(
        cores.others if is_beside else (cores.own,),
        is_idle=stressor.place is Place.OWN_CORE_IDLE,
    )
    try:
        burners.prepare(Load(stressor.kind, array_bytes, stressor.strength_ratio))
    except BaseException:
        burners.close()
        raise
    return burners
