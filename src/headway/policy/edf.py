"""`edf`: earliest deadline first, whatever the class.

Optimal on one machine while every deadline can be met; under overload it serves the most hopeless
first, which the kernel's refusal to start what cannot make it softens but does not cure.
"""

from headway.core import Policy, Predictor, Request
from headway.policy.admission import AdmitAll
from headway.policy.batching import Linger
from headway.policy.placement import EmptiestLane

__all__ = ["EarliestDeadline", "edf"]


class EarliestDeadline:
    """The nearest deadline first."""

    def key(self, request: Request) -> tuple[int, ...]:
        """The deadline; the kernel breaks ties by arrival."""
        return (request.deadline_at_ns,)


def edf(predictor: Predictor) -> Policy:
    """Earliest deadline first over all models; a slot is told the class of its batch."""
    return Policy(
        name="edf",
        ordering=EarliestDeadline(),
        admission=AdmitAll(),
        batching=Linger(predictor),
        placement=EmptiestLane(),
        predictor=predictor,
        displaces=False,
    )
