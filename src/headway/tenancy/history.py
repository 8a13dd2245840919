"""What tenants had used of their quotas before this run, out of the ledger.

A burst of one period is taken off the next, also over a restart; so the periods before this one are
gone through, as far back as a debt can come from.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from headway.core import TenantId
from headway.tenancy.quotas import period_bounds
from headway.tenancy.tenants import QuotaParams, TenantParams

__all__ = ["used_before"]

_PERIODS: Final = 4


class History(Protocol):
    """Where use was written down."""

    def used_ns(self, tenant: TenantId, since_unix_ns: int, until_unix_ns: int) -> int:
        """Device time that a tenant used between two instants."""


def used_before(
    history: History | None, tenants: Sequence[TenantParams], unix_ns: int
) -> Mapping[TenantId, int]:
    """Device time that counts against each quota at an instant; none where nothing was kept."""
    if history is None:
        return {}
    return {
        params.tenant: _used(history, params.tenant, params.quota, unix_ns)
        for params in tenants
        if params.quota is not None
    }


def _used(history: History, tenant: TenantId, quota: QuotaParams, unix_ns: int) -> int:
    start_ns, end_ns = period_bounds(quota.period, unix_ns)
    periods = [(start_ns, end_ns)]
    for _ in range(_PERIODS if quota.burst_ns else 0):
        periods.append(period_bounds(quota.period, periods[-1][0] - 1))
    used_ns = 0
    for since_ns, until_ns in reversed(periods):
        debt_ns = max(0, used_ns - quota.device_ns)
        used_ns = debt_ns + history.used_ns(tenant, since_ns, until_ns)
    return used_ns
