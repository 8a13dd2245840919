"""`lane-edf`: a lane runs one high and one low batch at most; the earliest deadline goes first.

A static rule that is hard to beat where slots of a lane have unequal weights: the high batch has
its core nearly to itself, the low one takes what it leaves, and nothing ever shares with its equal.
High work goes before low, and in a class the earliest deadline first, which no order beats on one
machine as long as all deadlines can be met. When they cannot, that order is the worst one, so
a request that could not make it even alone is given up before it is started.

No system in particular. It predicts one thing: how long work takes alone. Of requests of one model
that may share a batch only the first is ever asked for, so a high one that waits holds back the low
ones behind it.
"""

from collections.abc import Sequence

from headway.core import (
    BucketView,
    DeviceView,
    FleetView,
    GiveUp,
    Hold,
    ModelParams,
    Placing,
    Policy,
    Predictor,
    Request,
    SlotClass,
    SlotOption,
    Start,
)
from headway.policy.admission import AdmitAll
from headway.policy.batching import Linger
from headway.policy.hopeless import Hopeless
from headway.policy.running import by_device, emptiest, running_of_class

__all__ = ["ClassThenDeadline", "OneOfEachClass", "lane_edf"]


class ClassThenDeadline:
    """High before low, the nearest deadline first in each."""

    def key(self, request: Request) -> tuple[int, ...]:
        """The class, then the deadline; the kernel breaks ties by arrival."""
        return (int(request.slot_class is SlotClass.LOW), request.deadline_at_ns)


class OneOfEachClass:
    """A lane without a batch of the same class, one that runs nothing if there is one.

    Where every slot has a lane of its own a lane has no second place. There high work may have any
    slot, and low work at most half of a device's, rounded up.
    """

    def __init__(self, predictor: Predictor, hopeless: Hopeless) -> None:
        self._predictor = predictor
        self._hopeless = hopeless

    def place(
        self,
        bucket: BucketView,
        model: ModelParams,
        options: Sequence[SlotOption],
        fleet: FleetView,
        now_ns: int,
    ) -> Placing:
        """Give up what is hopeless; else start it where its class has a place."""
        (head,) = bucket.front(1)
        alone_ns = self._predictor.solo_ns(model.name, bucket.head_rows_left)
        if self._hopeless.gives_up(head, alone_ns, now_ns):
            return GiveUp()
        best = emptiest(
            option
            for name, group in by_device(options)
            for option in _free_for(head.slot_class, fleet.device(name), group)
        )
        return Hold() if best is None else Start(best)


def _free_for(
    slot_class: SlotClass, device: DeviceView, options: list[SlotOption]
) -> list[SlotOption]:
    """Those of a device's free slots that one more batch of a class may have."""
    same = running_of_class(device, slot_class)
    if not device.shares_all:
        return [option for option in options if not same[option.lane]]
    low_max = (len(device.slot_lanes) + 1) // 2
    is_open = slot_class is SlotClass.HIGH or same.total() < low_max
    return options if is_open else []


def lane_edf(predictor: Predictor) -> Policy:
    """Per lane one high and one low batch, earliest deadline first, the hopeless given up."""
    hopeless = Hopeless()
    return Policy(
        name="lane-edf",
        ordering=ClassThenDeadline(),
        admission=AdmitAll(),
        batching=Linger(predictor),
        placement=OneOfEachClass(predictor, hopeless),
        predictor=predictor,
        feedback=hopeless,
    )
