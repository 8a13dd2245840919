"""What became of requests, per tier, in constant memory: counts and a histogram of latency.

Reads kernel steps like every other observer. Latencies fall into buckets a few per cent wide, so
a percentile is exact to that width however long the run.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from headway.core import (
    Cancel,
    Command,
    Complete,
    Event,
    Expire,
    ExpireReason,
    Fail,
    Reject,
    Request,
    RequestArrived,
    RequestId,
    TierName,
)
from headway.sim.histogram import bucket_of, quantile_ns

__all__ = ["Tally", "TierTally"]

_COUNTS = ("arrived", "completed", "rejected", "expired", "given_up", "cancelled", "failed", "late")


class TierTally(Struct, kw_only=True):
    """Counts of one tier. A request not completed within its budget is a violation."""

    arrived: int = 0
    completed: int = 0
    rejected: int = 0
    expired: int = 0
    given_up: int = 0
    """Of the expired: ended before a start, for they would have been late."""
    cancelled: int = 0
    failed: int = 0
    late: int = 0
    """Completed past the deadline, which only a tier that serves late requests has many of."""
    histogram: dict[int, int] = {}

    @property
    def violations(self) -> int:
        """Requests that did not get what they asked for in time; a client that left is none."""
        return self.rejected + self.expired + self.failed + self.late

    @property
    def violation_ratio(self) -> float:
        """Violations over requests that had a client to the end; 0 with none."""
        asked = self.arrived - self.cancelled
        return self.violations / asked if asked else 0.0

    @classmethod
    def merged(cls, tallies: Iterable["TierTally"]) -> "TierTally":
        """The counts of several tiers, or runs, together."""
        total = cls()
        for tally in tallies:
            for name in _COUNTS:
                setattr(total, name, getattr(total, name) + getattr(tally, name))
            for bucket, count in tally.histogram.items():
                total.histogram[bucket] = total.histogram.get(bucket, 0) + count
        return total

    def latency_ns(self, quantile: float) -> float | None:
        """Latency of completed requests at a quantile in 0..1, within 1 %; None with none."""
        return quantile_ns(self.histogram, quantile)


class Tally:
    """An observer that keeps one `TierTally` a tier."""

    def __init__(self) -> None:
        self.tiers: dict[TierName, TierTally] = {}
        self._live: dict[RequestId, Request] = {}

    def __iter__(self) -> Iterator[tuple[TierName, TierTally]]:
        return iter(self.tiers.items())

    def __call__(self, now_ns: int, event: Event, commands: list[Command]) -> None:
        """Take one kernel step."""
        if isinstance(event, RequestArrived):
            request = event.request
            self._live[request.request_id] = request
            tier = self.tiers.get(request.tier)
            if tier is None:
                tier = self.tiers[request.tier] = TierTally()
            tier.arrived += 1
        for command in commands:
            if isinstance(command, Complete):
                request = self._live.pop(command.request_id)
                tier = self.tiers[request.tier]
                tier.completed += 1
                latency_ns = now_ns - request.arrived_at_ns
                tier.late += latency_ns > request.budget_ns
                bucket = bucket_of(latency_ns)
                tier.histogram[bucket] = tier.histogram.get(bucket, 0) + 1
            elif isinstance(command, Reject):
                self.tiers[self._live.pop(command.request_id).tier].rejected += 1
            elif isinstance(command, Expire):
                tier = self.tiers[self._live.pop(command.request_id).tier]
                tier.expired += 1
                tier.given_up += command.reason is not ExpireReason.DEADLINE_PAST
            elif isinstance(command, Cancel):
                self.tiers[self._live.pop(command.request_id).tier].cancelled += 1
            elif isinstance(command, Fail):
                self.tiers[self._live.pop(command.request_id).tier].failed += 1
