"""Which free slot a batch gets."""

from collections.abc import Sequence

from headway.core import BucketView, FleetView, ModelParams, SlotOption, Start

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
        best = options[0]
        for option in options:
            if option.lane_running < best.lane_running:
                best = option
        return Start(best)
