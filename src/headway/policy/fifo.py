"""`fifo`: arrival order, no classes. The baseline that every other policy is measured against."""

from headway.core import Policy, Predictor, Request
from headway.policy.admission import AdmitAll
from headway.policy.batching import Linger
from headway.policy.placement import EmptiestLane

__all__ = ["ArrivalOrder", "fifo"]


class ArrivalOrder:
    """First come, first served."""

    def key(self, request: Request) -> tuple[int, ...]:
        """Nothing but the kernel's own tie-break by arrival."""
        return ()


def fifo(predictor: Predictor) -> Policy:
    """Arrival order over all models and classes; slots are not told a class."""
    return Policy(
        name="fifo",
        ordering=ArrivalOrder(),
        admission=AdmitAll(),
        batching=Linger(predictor),
        placement=EmptiestLane(),
        predictor=predictor,
        class_slots=False,
        displaces=False,
    )
