"""How long a request of each kind would wait if it came now: asked of the scheduler at a scrape.

The question is the one that `/estimate` asks, of one row and otherwise like the request of its
model and tier that came last, so what is exported is what a client would be told.

Knows the kernel. Alters nothing: an estimate changes neither the kernel nor what was learnt.

Cost: a forecast for each model that is ready and tier, at most `_LOOKS_MAX` a scrape, and none that
would begin later than `_LOOK_NS_MAX` after the first; they take turns. None while nothing waits or
runs.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace
from prometheus_client.core import GaugeMetricFamily, Metric

from headway.core import (
    BucketKey,
    Kernel,
    ModelName,
    ReplicaState,
    Request,
    RequestId,
    SlotClass,
    TenantId,
    TierName,
)
from headway.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from headway.observe.requests import SeriesTable

__all__ = ["EstimatedWaits", "TierTerms"]

_LOOKS_MAX: Final = 32
_LOOK_NS_MAX: Final = 5 * NS_PER_MS
"""The scheduler itself is asked, and decides nothing meanwhile."""
_NOBODY: Final = TenantId("")


class TierTerms(Protocol):
    """What a request of a tier is given."""

    @property
    def priority(self) -> int:
        """Lower is served first."""

    @property
    def budget_ns(self) -> int:
        """From arrival to the last byte."""

    @property
    def slot_class(self) -> SlotClass:
        """What its slot is told."""

    @property
    def late_ns(self) -> int:
        """How long after its deadline it is still served."""


class EstimatedWaits:
    """Asks the kernel. Invariants: at most one answer is kept for each model and tier."""

    def __init__(
        self, kernel: Kernel, now_ns: Callable[[], int], tiers: Mapping[TierName, TierTerms]
    ) -> None:
        self._kernel = kernel
        self._now_ns = now_ns
        self._tiers = tiers
        self._said_ns: dict[tuple[str, str], int | None] = {}
        self._turn = 0

    def families(self, table: "SeriesTable") -> Iterator[Metric]:
        """The waits, as a metric family."""
        family = GaugeMetricFamily(
            "headway_estimated_wait_seconds",
            "How long a request of one row that came now is expected to wait for its dispatch;"
            " absent while that is not known, and for models without a ready replica. Under load"
            f" {_LOOKS_MAX} at most are asked for at a scrape, in turns: of more, some are older.",
            labels=("model", "tier"),
        )
        self._ask(table)
        for labels in table:
            wait_ns = self._said_ns.get(labels)
            if wait_ns is not None:
                family.add_metric(labels, wait_ns / NS_PER_S)
        yield family

    def _ask(self, table: "SeriesTable") -> None:
        """Anew for as many as may be asked for, beginning where it ended last time."""
        kernel = self._kernel
        ready = {
            model
            for model, replicas in kernel.fleet.by_model.items()
            if any(replica.state is ReplicaState.READY for replica in replicas)
        }
        ready &= kernel.queues.keys()
        served = [labels for labels in table if labels[0] in ready]
        self._said_ns = {labels: self._said_ns.get(labels) for labels in served}
        if not kernel.room.count and kernel.fleet.free_slots == kernel.fleet.slots:
            self._said_ns = dict.fromkeys(served, 0)
            return
        first = self._turn = self._turn if self._turn < len(served) else 0
        until_ns = self._now_ns() + _LOOK_NS_MAX
        for labels in [*served[first:], *served[:first]][:_LOOKS_MAX]:
            now_ns = self._now_ns()
            if now_ns >= until_ns:
                break
            self._turn = (self._turn + 1) % len(served)
            request = self._request(ModelName(labels[0]), TierName(labels[1]), table, now_ns)
            foreseen = kernel.estimate(request, now_ns).foreseen
            self._said_ns[labels] = foreseen.queue_ns if foreseen.bound_ns else None

    def _request(
        self, model: ModelName, tier: TierName, table: "SeriesTable", now_ns: int
    ) -> Request:
        terms = self._tiers[tier]
        last = table[model, tier].last
        plain = Request(
            request_id=RequestId(0),
            model=model,
            bucket=BucketKey(""),
            priority=terms.priority,
            tier=tier,
            tenant=_NOBODY,
            slot_class=terms.slot_class,
            arrived_at_ns=now_ns,
            budget_ns=terms.budget_ns,
            late_ns=terms.late_ns,
        )
        if last is None:
            return plain
        return replace(
            plain,
            bucket=last.bucket,
            tenant=last.tenant,
            payload_bytes=last.payload_bytes // last.rows,
            padding_bytes=last.padding_bytes // last.rows,
        )
