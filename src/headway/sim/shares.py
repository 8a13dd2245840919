"""Who got how much of the devices: the time of batches, divided over tenants and over time.

Reads kernel steps like every other observer. A batch's time on its slot is divided over its members
by their rows, and lies evenly between its start and its end.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import inf

from msgspec import Struct

from headway.core import (
    BatchFailed,
    BatchFinished,
    BatchId,
    Cancel,
    Command,
    Complete,
    Dispatch,
    Event,
    Expire,
    Fail,
    Reject,
    Request,
    RequestArrived,
    RequestId,
    TenantId,
)
from headway.units import NS_PER_MS

__all__ = ["ShareFigures", "ShareMeter", "jain_index"]

_ENDS = (Cancel, Complete, Expire, Fail, Reject)
_BIN_NS = 100 * NS_PER_MS


class ShareFigures(Struct, frozen=True, kw_only=True):
    """Shares over every window of one length that begins on a bin."""

    windows: int
    shares: Mapping[TenantId, float]
    """Of all that was given in the whole time."""
    shares_min: Mapping[TenantId, float]
    """The least in any window."""
    shares_max: Mapping[TenantId, float]
    deviation_max_ratio: float
    """The most that any tenant's share was off its weight's in any window, relative to that."""
    jain_index_min: float
    """Of shares over weights: 1 where all get what they should, 1/n where one gets all."""
    jain_index_mean: float


def jain_index(parts: Sequence[float]) -> float:
    """How even parts are, 1/n to 1; 1 of nothing."""
    squares = sum(part * part for part in parts)
    return sum(parts) ** 2 / (len(parts) * squares) if squares else 1.0


class ShareMeter:
    """An observer that keeps what each tenant was given, in bins of 100 ms.

    Invariants: the bins of all tenants add up to the time of the batches that ended.
    """

    def __init__(self) -> None:
        self.given_ns: dict[TenantId, dict[int, float]] = {}
        """By tenant and bin."""
        self._requests: dict[RequestId, Request] = {}
        self._running: dict[BatchId, tuple[int, dict[TenantId, float]]] = {}
        """Start, and the part of each tenant."""

    def __call__(self, now_ns: int, event: Event, commands: list[Command]) -> None:
        """Take one kernel step."""
        if isinstance(event, RequestArrived):
            self._requests[event.request.request_id] = event.request
        elif isinstance(event, BatchFinished | BatchFailed):
            self._end(event.batch_id, now_ns)
        for command in commands:
            if isinstance(command, Dispatch):
                self._running[command.batch_id] = (now_ns, self._parts(command))
            elif isinstance(command, _ENDS):
                self._requests.pop(command.request_id, None)

    def figures(
        self, weights: Mapping[TenantId, float], window_ns: int, from_ns: int, until_ns: int
    ) -> ShareFigures:
        """Shares of the tenants in a stretch of time.

        Args:
            weights: what each should get, relative to the others; nobody else is looked at.
            window_ns: length of a window; whole bins.
            from_ns: start of the first window.
            until_ns: no window ends after it.

        Raises:
            ValueError: the stretch is shorter than a window.
        """
        first, last = from_ns // _BIN_NS, until_ns // _BIN_NS
        width = window_ns // _BIN_NS
        if last - first < width or width < 1:
            raise ValueError(f"{until_ns - from_ns} ns hold no window of {window_ns} ns")
        sums = {tenant: self._sums(tenant, first, last) for tenant in weights}
        total = sum(weights.values())
        targets = {tenant: weight / total for tenant, weight in weights.items()}
        windows = [
            _shares({tenant: own[at + width] - own[at] for tenant, own in sums.items()})
            for at in range(last - first - width + 1)
        ]
        evenness = [jain_index([w[t] / targets[t] for t in targets]) for w in windows]
        return ShareFigures(
            windows=len(windows),
            shares=_shares({tenant: own[-1] for tenant, own in sums.items()}),
            shares_min={t: min(w[t] for w in windows) for t in targets},
            shares_max={t: max(w[t] for w in windows) for t in targets},
            deviation_max_ratio=max(abs(w[t] / targets[t] - 1) for w in windows for t in targets),
            jain_index_min=min(evenness, default=inf),
            jain_index_mean=sum(evenness) / len(evenness),
        )

    def given_between_ns(self, tenant: TenantId, from_ns: int, until_ns: int) -> float:
        """What a tenant was given in a stretch of whole bins."""
        return self._sums(tenant, from_ns // _BIN_NS, until_ns // _BIN_NS)[-1]

    def _sums(self, tenant: TenantId, first: int, last: int) -> list[float]:
        """Running sums of its bins, beginning with 0."""
        bins = self.given_ns.get(tenant, {})
        return list(accumulate((bins.get(at, 0.0) for at in range(first, last)), initial=0.0))

    def _parts(self, dispatch: Dispatch) -> dict[TenantId, float]:
        parts: dict[TenantId, float] = {}
        for request_id in dispatch.request_ids:
            request = self._requests[request_id]
            part = min(1.0, request.rows / dispatch.rows)
            parts[request.tenant] = parts.get(request.tenant, 0.0) + part
        return parts

    def _end(self, batch_id: BatchId, now_ns: int) -> None:
        started_at_ns, parts = self._running.pop(batch_id, (now_ns, {}))
        at_ns = started_at_ns
        while at_ns < now_ns:
            bin_index = at_ns // _BIN_NS
            until_ns = min(now_ns, (bin_index + 1) * _BIN_NS)
            for tenant, part in parts.items():
                own = self.given_ns.setdefault(tenant, {})
                own[bin_index] = own.get(bin_index, 0.0) + part * (until_ns - at_ns)
            at_ns = until_ns


def _shares(given_ns: Mapping[TenantId, float]) -> dict[TenantId, float]:
    total_ns = sum(given_ns.values())
    return {tenant: own / total_ns if total_ns else 0.0 for tenant, own in given_ns.items()}
