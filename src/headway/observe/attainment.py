"""What tiers promise, and how tenants fare in them: what they were answered, and what waits now.

Knows names and numbers. The labels are bounded: tiers and tenants are configured, and of those that
are no more only some are kept in mind.

Cost: an addition for each request that ends; at a scrape a look at each that has not.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headway.core import Request, TenantId, TierName
from headway.observe.waits import TierTerms
from headway.units import NS_PER_S

if TYPE_CHECKING:
    from headway.observe.requests import Live

__all__ = ["TenantTiers", "tier_families"]

_LABELS: Final = ("tenant", "tier")
_GONE_MAX: Final = 256
"""Tenants with series that are configured no more; the first of them are forgotten."""


class _Pair:
    __slots__ = ("answers", "violations")

    def __init__(self) -> None:
        self.answers = 0
        self.violations = 0


class TenantTiers:
    """Answers and violations of each tenant in each tier.

    Args:
        tenants: those there are now; others have no series. One that goes is kept in mind for
            long, so that its counts do not begin anew when it is back.
        tiers: all there are.
    """

    def __init__(
        self, tenants: Callable[[], Collection[TenantId]], tiers: Iterable[TierName]
    ) -> None:
        self._tenants = tenants
        self._tiers = tuple(tiers)
        self._pairs: dict[tuple[str, str], _Pair] = {}
        self._known: dict[TenantId, None] = {}
        """In the order in which they were first seen."""

    def ended(self, request: Request, *, is_violation: bool) -> None:
        """A request has its answer, whatever that is."""
        pair = self._pairs.get((request.tenant, request.tier))
        if pair is None:
            self._know()
            pair = self._pairs.get((request.tenant, request.tier))
            if pair is None:
                return
        pair.answers += 1
        pair.violations += is_violation

    def families(self, live: Iterable["Live"], now_ns: int) -> Iterator[Metric]:
        """What was counted, and what waits, as metric families.

        Args:
            live: requests that have not ended.
            now_ns: for ages.
        """
        self._know()
        yield from self._answers()
        yield from self._waiting(live, now_ns)

    def _answers(self) -> Iterator[Metric]:
        answers = CounterMetricFamily(
            "headway_tenant_answers",
            "Requests of a tenant that ended with an answer, be it a refusal or an error: all but"
            " those whose client left. What the tenant's own limits refused is not among them; of a"
            " pipeline's call each step is.",
            labels=_LABELS,
        )
        violations = CounterMetricFamily(
            "headway_tenant_violations",
            "Those of `headway_tenant_answers_total` that were not completed within their budget.",
            labels=_LABELS,
        )
        for labels, pair in self._pairs.items():
            answers.add_metric(labels, pair.answers)
            violations.add_metric(labels, pair.violations)
        yield answers
        yield violations

    def _waiting(self, live: Iterable["Live"], now_ns: int) -> Iterator[Metric]:
        counts: Counter[tuple[str, str]] = Counter()
        oldest_at_ns: dict[tuple[str, str], int] = {}
        for each in live:
            if each.is_waiting:
                request = each.request
                pair, at_ns = (request.tenant, request.tier), request.arrived_at_ns
                counts[pair] += 1
                oldest_at_ns[pair] = min(at_ns, oldest_at_ns.get(pair, at_ns))
        depth = GaugeMetricFamily(
            "headway_tenant_queue_depth", "Requests of a tenant that wait now.", labels=_LABELS
        )
        age = GaugeMetricFamily(
            "headway_tenant_queue_oldest_age_seconds",
            "How long the oldest waiting request of a tenant has waited; 0 with none.",
            labels=_LABELS,
        )
        for labels in self._pairs:
            depth.add_metric(labels, counts[labels])
            age_ns = max(0, now_ns - oldest_at_ns.get(labels, now_ns))
            age.add_metric(labels, age_ns / NS_PER_S)
        yield depth
        yield age

    def _know(self) -> None:
        """Tenants may be configured anew while the server runs."""
        now = self._tenants()
        for tenant in now:
            if tenant not in self._known:
                self._known[tenant] = None
                for tier in self._tiers:
                    self._pairs[tenant, tier] = _Pair()
        gone = [tenant for tenant in self._known if tenant not in now]
        for tenant in gone[:-_GONE_MAX]:
            del self._known[tenant]
            for tier in self._tiers:
                del self._pairs[tenant, tier]


def tier_families(
    tiers: Mapping[TierName, TierTerms], targets: Mapping[TierName, float]
) -> Iterator[Metric]:
    """What each tier promises, for queries and alerts to compare with."""
    budget = GaugeMetricFamily(
        "headway_tier_budget_seconds",
        "Time that a tier grants from arrival to the last byte; a request may ask for less.",
        labels=("tier",),
    )
    for name, terms in tiers.items():
        budget.add_metric((name,), terms.budget_ns / NS_PER_S)
    yield budget
    target = GaugeMetricFamily(
        "headway_tier_attainment_target_ratio",
        "The part of a tier's requests that is to be completed within its budget, as configured.",
        labels=("tier",),
    )
    for name, ratio in targets.items():
        target.add_metric((name,), ratio)
    yield target
