"""What a plan makes and takes away of a GPU's MIG instances.

Knows plans. Refuses to know what is there today.
"""

from typing import NamedTuple

from headway.plan import DeviceShare, PlacedSlice

__all__ = ["MigChange", "leaving_of", "made_of"]


class MigChange(NamedTuple):
    """An instance that a plan takes away."""

    profile: str
    start: int


def leaving_of(share: DeviceShare) -> list[MigChange]:
    """Instances of today that make room."""
    found = []
    for text in share.must_be_idle:
        profile, at, start = text.rpartition("@")
        if at and start.isdigit():
            found.append(MigChange(profile, int(start)))
    return found


def made_of(share: DeviceShare) -> list[PlacedSlice]:
    """Instances of the plan, the largest first, as older drivers want it."""
    cut = [piece for piece in share.slices if piece.profile is not None]
    return sorted(cut, key=lambda piece: (-(piece.size or 0), piece.start or 0))
