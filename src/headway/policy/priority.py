"""`priority`: strict classes, arrival order inside one. Low classes may starve; see `headway`."""

from headway.core import Policy, Predictor, Request
from headway.policy.admission import AdmitAll
from headway.policy.batching import Linger
from headway.policy.placement import EmptiestLane

__all__ = ["PriorityOrder", "priority"]


class PriorityOrder:
    """The smaller number first."""

    def key(self, request: Request) -> tuple[int, ...]:
        """The priority; the kernel breaks ties by arrival."""
        return (request.priority,)


def priority(predictor: Predictor) -> Policy:
    """Strict priority over all models; a slot is told the class of its batch."""
    return Policy(
        name="priority",
        ordering=PriorityOrder(),
        admission=AdmitAll(),
        batching=Linger(predictor),
        placement=EmptiestLane(),
        predictor=predictor,
    )
