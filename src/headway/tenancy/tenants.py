"""A tenant as plain values: who it is, what it may ask for and how much it may use."""

from msgspec import Struct

from headway.core import ModelName, TenantId, TierName
from headway.tenancy.keys import KeyParams
from headway.tenancy.quotas import Period

__all__ = ["QuotaParams", "TenantParams"]


class QuotaParams(Struct, frozen=True, kw_only=True):
    """Device time in a period of the calendar, in UTC."""

    device_ns: int
    """What may be used in each period."""
    period: Period
    burst_ns: int = 0
    """What may be used beyond it, and is taken off the next period."""


class TenantParams(Struct, frozen=True, kw_only=True):
    """Whoever is accounted for. A limit of None is no limit."""

    tenant: TenantId
    keys: tuple[KeyParams, ...] = ()
    tier: TierName | None = None
    """Of requests that name none; None leaves it to the model."""
    tiers: frozenset[TierName] = frozenset()
    """What its requests may name; empty for all."""
    models: frozenset[ModelName] = frozenset()
    """What it may use; empty for all."""
    requests_per_s: float | None = None
    rows_per_s: float | None = None
    tokens_per_s: float | None = None
    burst_s: float = 1.0
    """A rate may be saved up for so long, and then be used at once."""
    concurrency_max: int | None = None
    """Requests under way."""
    reserve_ratio: float = 0.0
    """Part of the server's places that others leave free for it."""
    quota: QuotaParams | None = None
