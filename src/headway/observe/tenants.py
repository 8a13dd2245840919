"""What is counted for tenants, as Prometheus sees it. The label is bounded: tenants are configured.

Knows numbers by name. Refuses to know who counted them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headway.core import TenantId
from headway.units import NS_PER_S

__all__ = ["TenantCounts", "TenantFamilies"]


class TenantCounts(Protocol):
    """Sums of one tenant since the server started."""

    @property
    def endings(self) -> Mapping[str, int]:
        """Requests that were let in, by how they ended."""

    @property
    def refused(self) -> Mapping[str, int]:
        """Requests that were not, by the limit that stood against them."""

    @property
    def rows(self) -> int:
        """Of requests that were answered or tried."""

    @property
    def tokens(self) -> int:
        """As models counted them."""

    @property
    def device_ns(self) -> int:
        """Of completed requests."""


class TenantFamilies:
    """Makes the metric families when they are asked for."""

    def __init__(
        self,
        counts: Callable[[], Mapping[TenantId, TenantCounts]],
        in_flight: Callable[[], Mapping[TenantId, int]],
    ) -> None:
        self._counts = counts
        self._in_flight = in_flight

    def __call__(self) -> Iterator[Metric]:
        """Every family."""
        counts = self._counts()
        requests = CounterMetricFamily(
            "headway_tenant_requests",
            "Requests that a tenant's limits let in, by how they ended.",
            labels=("tenant", "outcome"),
        )
        refused = CounterMetricFamily(
            "headway_tenant_refused",
            "Requests that one of a tenant's limits refused.",
            labels=("tenant", "limit"),
        )
        sums = {
            "rows": CounterMetricFamily("headway_tenant_rows", "Rows.", labels=("tenant",)),
            "tokens": CounterMetricFamily(
                "headway_tenant_tokens", "Tokens, as models count them.", labels=("tenant",)
            ),
            "device": CounterMetricFamily(
                "headway_tenant_device_seconds",
                "Time of device slots, of completed requests.",
                labels=("tenant",),
            ),
        }
        for tenant, of in counts.items():
            for outcome, count in of.endings.items():
                requests.add_metric((tenant, outcome), count)
            for limit, count in of.refused.items():
                refused.add_metric((tenant, limit), count)
            sums["rows"].add_metric((tenant,), of.rows)
            sums["tokens"].add_metric((tenant,), of.tokens)
            sums["device"].add_metric((tenant,), of.device_ns / NS_PER_S)
        in_flight = GaugeMetricFamily(
            "headway_tenant_in_flight", "Requests of a tenant under way.", labels=("tenant",)
        )
        for tenant, count in self._in_flight().items():
            in_flight.add_metric((tenant,), count)
        yield requests
        yield refused
        yield from sums.values()
        yield in_flight
