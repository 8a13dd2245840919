"""`static-cap`: strict priority, with a fixed limit on the low batches that run at once.

What an operator sets by hand: background work may hold so many slots of a device and no more, so
that urgent work finds a free one. No system in particular; concurrency limits of this kind are in
most servers. It predicts nothing: the same limit holds whether the low batch takes 2 ms or 500,
and whether anything urgent comes. High work is never held back.
"""

from collections.abc import Sequence

from headway.core import (
    BucketView,
    DeviceView,
    FleetView,
    Hold,
    ModelParams,
    Placing,
    Policy,
    Predictor,
    SlotClass,
    SlotOption,
    Start,
)
from headway.policy.admission import AdmitAll
from headway.policy.batching import Linger
from headway.policy.priority import PriorityOrder
from headway.policy.running import by_device, emptiest, running_of_class

__all__ = ["CappedLow", "static_cap"]


class CappedLow:
    """The emptiest lane; for low work among the places that the limit leaves it.

    Args:
        low_max: low batches at once on a device. 0 is one a lane, which is no limit where every
            slot has a lane of its own.
    """

    def __init__(self, low_max: int) -> None:
        self._low_max = low_max

    def place(
        self,
        bucket: BucketView,
        model: ModelParams,
        options: Sequence[SlotOption],
        fleet: FleetView,
        now_ns: int,
    ) -> Placing:
        """High work starts; low work waits until a low batch ends where there are enough."""
        (head,) = bucket.front(1)
        allowed = list(options)
        if head.slot_class is SlotClass.LOW:
            allowed = [
                option
                for name, group in by_device(options)
                for option in self._allowed(fleet.device(name), group)
            ]
        best = emptiest(allowed)
        return Hold() if best is None else Start(best)

    def _allowed(self, device: DeviceView, options: list[SlotOption]) -> list[SlotOption]:
        low = running_of_class(device, SlotClass.LOW)
        if self._low_max:
            return options if low.total() < self._low_max else []
        return [option for option in options if not low[option.lane]]


def static_cap(predictor: Predictor, *, low_max: int = 0) -> Policy:
    """Strict priority; at most so many low batches at once on a device, 0 for one a lane."""
    return Policy(
        name="static-cap",
        ordering=PriorityOrder(),
        admission=AdmitAll(),
        batching=Linger(predictor),
        placement=CappedLow(low_max),
        predictor=predictor,
    )
