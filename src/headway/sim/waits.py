"""How long requests waited for their first start, as part of their own budget.

Reads kernel steps like every other observer. A wait that ends without a start, because the request
expired, was given up or displaced, is a wait too; a request that was refused as it arrived waited
for nothing.
"""

from msgspec import Struct

from headway.core import (
    Cancel,
    Command,
    Dispatch,
    Event,
    Expire,
    Fail,
    Reject,
    Request,
    RequestArrived,
    RequestId,
    SlotClass,
)
from headway.sim.histogram import bucket_of, quantile_ns

__all__ = ["WaitFigures", "WaitMeter"]

_MILLION = 1_000_000


class WaitFigures(Struct, frozen=True, kw_only=True):
    """Waits of one class of requests, in parts of each one's own budget."""

    requests: int
    refused: int
    """As they arrived: they did not wait."""
    never_started: int
    """Waited, and ended without a start."""
    wait_p50_ratio: float | None
    wait_p99_ratio: float | None
    wait_max_ratio: float
    beyond_bound: int
    """Waited for longer than the bound."""
    longest_over_bound_ns: int
    """The most by which one did; 0 where none did."""


class WaitMeter:
    """An observer that follows the requests of one class to their first start.

    Args:
        slot_class: whose requests.
        bound_ratio: part of its budget that a request may wait at most.
    """

    def __init__(self, slot_class: SlotClass, bound_ratio: float) -> None:
        self._slot_class = slot_class
        self._bound_ratio = bound_ratio
        self._waiting: dict[RequestId, Request] = {}
        self._waits: dict[int, int] = {}
        """In millionths of the budget, by bucket."""
        self._requests = 0
        self._refused = 0
        self._never_started = 0
        self._max_ratio = 0.0
        self._beyond = 0
        self._longest_over_ns = 0

    def __call__(self, now_ns: int, event: Event, commands: list[Command]) -> None:
        """Take one kernel step."""
        arrived = None
        if isinstance(event, RequestArrived) and event.request.slot_class is self._slot_class:
            arrived = event.request.request_id
            self._waiting[arrived] = event.request
            self._requests += 1
        for command in commands:
            if isinstance(command, Dispatch):
                for request_id in command.request_ids:
                    self._note(self._waiting.pop(request_id, None), now_ns)
            elif isinstance(command, Reject) and command.request_id == arrived:
                del self._waiting[arrived]
                self._refused += 1
            elif isinstance(command, Reject | Expire | Cancel | Fail):
                request = self._waiting.pop(command.request_id, None)
                self._never_started += request is not None
                self._note(request, now_ns)

    def figures(self) -> WaitFigures:
        """What was seen so far."""
        median, p99 = quantile_ns(self._waits, 0.5), quantile_ns(self._waits, 0.99)
        return WaitFigures(
            requests=self._requests,
            refused=self._refused,
            never_started=self._never_started,
            wait_p50_ratio=None if median is None else median / _MILLION,
            wait_p99_ratio=None if p99 is None else p99 / _MILLION,
            wait_max_ratio=self._max_ratio,
            beyond_bound=self._beyond,
            longest_over_bound_ns=self._longest_over_ns,
        )

    def _note(self, request: Request | None, now_ns: int) -> None:
        if request is None:
            return
        wait_ns = now_ns - request.arrived_at_ns
        ratio = wait_ns / max(1, request.budget_ns)
        bucket = bucket_of(round(ratio * _MILLION))
        self._waits[bucket] = self._waits.get(bucket, 0) + 1
        self._max_ratio = max(self._max_ratio, ratio)
        over_ns = wait_ns - round(request.budget_ns * self._bound_ratio)
        if over_ns > 0:
            self._beyond += 1
            self._longest_over_ns = max(self._longest_over_ns, over_ns)
