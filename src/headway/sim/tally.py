"""What became of requests, per tier, in constant memory: counts and a histogram of latency.

Reads kernel steps like every other observer. Latencies fall into buckets a few per cent wide, so
a percentile is exact to that width however long the run.
"""

from collections.abc import Iterator
from math import exp, log

from msgspec import Struct

from headway.core import (
    Cancel,
    Command,
    Complete,
    Event,
    Expire,
    Fail,
    Reject,
    Request,
    RequestArrived,
    RequestId,
    TierName,
)

__all__ = ["Tally", "TierTally"]

_STEP = log(1.02)


class TierTally(Struct, kw_only=True):
    """Counts of one tier. A request not completed within its budget is a violation."""

    arrived: int = 0
    completed: int = 0
    rejected: int = 0
    expired: int = 0
    cancelled: int = 0
    failed: int = 0
    late: int = 0
    """Completed past the deadline; the kernel's expiry leaves none."""
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

    def latency_ns(self, quantile: float) -> float | None:
        """Latency of completed requests at a quantile in 0..1, within 1 %; None with none."""
        left = quantile * self.completed
        for bucket, count in sorted(self.histogram.items()):
            left -= count
            if left <= 0:
                return exp((bucket + 0.5) * _STEP)
        return None


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
                bucket = int(log(latency_ns) / _STEP) if latency_ns > 0 else 0
                tier.histogram[bucket] = tier.histogram.get(bucket, 0) + 1
            elif isinstance(command, Reject):
                self.tiers[self._live.pop(command.request_id).tier].rejected += 1
            elif isinstance(command, Expire):
                self.tiers[self._live.pop(command.request_id).tier].expired += 1
            elif isinstance(command, Cancel):
                self.tiers[self._live.pop(command.request_id).tier].cancelled += 1
            elif isinstance(command, Fail):
                self.tiers[self._live.pop(command.request_id).tier].failed += 1
