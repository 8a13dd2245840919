"""Which free slot a batch gets."""

from collections.abc import Sequence

from headway.core import Request, SlotOption

__all__ = ["EmptiestLane"]


class EmptiestLane:
    """The free slot whose lane runs least; never holds work back while a slot is free."""

    def place(
        self,
        head: Request,
        options: Sequence[SlotOption],
        now_ns: int,
    ) -> SlotOption | None:
        """The first of the emptiest, in the order of replicas and slots."""
        best = options[0]
        for option in options:
            if option.lane_running < best.lane_running:
                best = option
        return best
