"""What became of each request, as its client saw it.

Written by whatever plays a workload, live or simulated, and read by reports. Knows no server.

Latency counts from the instant at which the workload wanted the request sent, not from the one at
which it left. A client that waits for a slow answer before it sends the next request would measure
the slowness once and hide it from everything it delayed; counted from the intended instant, every
delayed request shows it. What the sender itself adds is visible as `send_delay_ns`.
"""

from enum import StrEnum

from msgspec import Struct

from headway.core import ModelName, TenantId, TierName

__all__ = ["Outcome", "Sample"]


class Outcome(StrEnum):
    """How a request ended. Whether it ended in time is `Sample.is_violation`."""

    COMPLETED = "completed"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    """The client left of itself."""
    FAILED = "failed"
    UNANSWERED = "unanswered"
    """The run ended first."""
    UNSENT = "unsent"
    """The sender was at its limit of requests in flight."""


class Sample(Struct, frozen=True, kw_only=True, gc=False):
    """One request of a run; instants count from the run's start."""

    stream: int | None = None
    """Index of its stream in the workload; None where only the server's journal is known."""
    model: ModelName
    tier: TierName
    tenant: TenantId
    rows: int = 1
    intended_at_ns: int
    sent_at_ns: int
    done_at_ns: int
    outcome: Outcome
    status: int | None = None
    """Status number of the reply; None without one."""
    budget_ns: int | None = None
    """None where neither the workload nor the server named one: then any completion is in time."""
    queue_delay_ns: int | None = None
    """Arrival to dispatch, as the server measured it."""
    service_ns: int | None = None
    """Dispatch to executor done, as the server measured it."""
    batch_rows: int | None = None
    """Rows of the batch that it ran in."""
    expected_ns: int | None = None
    """Arrival to executor done, as the server predicted it at admission; None where it did not."""
    bound_ns: int | None = None
    """What the server predicted that this would not exceed."""

    @property
    def latency_ns(self) -> int:
        """Intended instant to last byte."""
        return self.done_at_ns - self.intended_at_ns

    @property
    def queue_and_service_ns(self) -> int | None:
        """Arrival to executor done, which is what a server predicts; None if it did not say."""
        if self.queue_delay_ns is None or self.service_ns is None:
            return None
        return self.queue_delay_ns + self.service_ns

    @property
    def is_within_bound(self) -> bool | None:
        """Whether the predicted bound held; None where there was none, or nobody can tell.

        A request that expired has no end to compare with. Its bound did not hold if its client
        waited for longer than that; if not, its end might have come within the bound, or not.
        """
        if self.bound_ns is None:
            return None
        if self.outcome is Outcome.COMPLETED:
            actual_ns = self.queue_and_service_ns
            return None if actual_ns is None else actual_ns <= self.bound_ns
        is_late = self.done_at_ns - self.sent_at_ns > self.bound_ns
        return False if self.outcome is Outcome.EXPIRED and is_late else None

    @property
    def send_delay_ns(self) -> int:
        """How late the sender was; part of the latency."""
        return self.sent_at_ns - self.intended_at_ns

    @property
    def is_violation(self) -> bool:
        """Not completed within its budget: late, refused, given up, failed or never sent.

        A client that left of itself was not let down.
        """
        if self.outcome is not Outcome.COMPLETED:
            return self.outcome is not Outcome.CANCELLED
        return self.budget_ns is not None and self.latency_ns > self.budget_ns
