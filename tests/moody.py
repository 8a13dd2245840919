"""A policy that does all that a policy may: starts parts, holds, gives up, promotes.

What it does with a request follows from the request alone and from what runs, so two runs of the
same traffic meet the same moods. Not a good policy: a thorough one.
"""

from collections.abc import Callable, Sequence
from zlib import crc32

from headway.core import (
    BucketView,
    FleetView,
    GiveUp,
    Hold,
    ModelParams,
    Placing,
    Policy,
    Predictor,
    Request,
    SlotOption,
    Start,
)
from headway.policy import AdmitAll, Linger, PriorityOrder
from headway.units import NS_PER_MS

OFF_GRID_NS = 137
"""Nothing else happens at such instants: a hold ends by its timer, as the kernel was promised."""


class InParts:
    """Starts at most so many rows of whatever is first."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def place(
        self,
        bucket: BucketView,
        model: ModelParams,
        options: Sequence[SlotOption],
        fleet: FleetView,
        now_ns: int,
    ) -> Placing:
        """The first free slot."""
        return Start(options[0], self.rows)


class Moody:
    """Holds some until an instant or until the device is idle, gives some up, splits others."""

    def place(
        self,
        bucket: BucketView,
        model: ModelParams,
        options: Sequence[SlotOption],
        fleet: FleetView,
        now_ns: int,
    ) -> Placing:
        """What the head's mood says."""
        (head,) = bucket.front(1)
        mood = mood_of(head)
        if mood % 13 == 0:
            return GiveUp()
        until_ns = head.arrived_at_ns + mood % 7 * NS_PER_MS + OFF_GRID_NS
        if mood % 5 == 0 and now_ns < until_ns:
            return Hold(until_ns)
        if mood % 5 == 1:
            options = [o for o in options if not fleet.device(o.device).running()]
            if not options:
                return Hold()
        return Start(options[-1], (None, 1, 2, 3)[mood % 4])


class Impatient:
    """Whoever is not urgent goes before everyone after some milliseconds."""

    def promotes_at_ns(self, request: Request) -> int | None:
        """Never for what is first already."""
        if request.priority <= 1:
            return None
        return request.arrived_at_ns + (1 + mood_of(request) % 4) * NS_PER_MS

    def promoted_key(self, request: Request) -> tuple[int, ...]:
        """Before all classes."""
        return (0,)


def mood_of(request: Request) -> int:
    """A number without a pattern, the same in every run."""
    return crc32(request.request_id.to_bytes(8, "little"))


def moody(predictor: Predictor) -> Policy:
    """All of it."""
    return _policy("moody", predictor, Moody(), Impatient())


def in_parts(rows: int) -> Callable[[Predictor], Policy]:
    """Every request in segments of so many rows, where its model allows."""
    return lambda predictor: _policy("in-parts", predictor, InParts(rows), None)


def _policy(
    name: str, predictor: Predictor, placement: InParts | Moody, aging: Impatient | None
) -> Policy:
    return Policy(
        name=name,
        ordering=PriorityOrder(),
        admission=AdmitAll(),
        batching=Linger(predictor),
        placement=placement,
        predictor=predictor,
        aging=aging,
    )
