"""Which free slot a batch gets."""

from collections.abc import Sequence

from headway.core import BucketView, FleetView, ModelParams, SlotOption, Start
from headway.policy.running import emptiest_of

__all__ = ["EmptiestLane"]


class EmptiestLane:
    """The free slot whose lane runs least; never holds work back while a slot is free."""

    def place(
        self,
        bucket: BucketView,
        model: ModelParams,
        options: Sequence[SlotOption],
        fleet: FleetView,
        now_ns: int,
    ) -> Start:
        """The first of the emptiest, in the order of replicas and slots."""
        return Start(emptiest_of(options))
