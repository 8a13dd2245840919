"""From the section `tenancy` to what a gate and a policy are built from."""

from collections.abc import Sequence
from datetime import UTC, datetime

from headway.config.policies import HeadwayPolicyConfig, PolicyConfig
from headway.config.schema import Config
from headway.config.tenancy import KeyConfig, TenantConfig
from headway.core import ModelName, TenantId, TierName
from headway.tenancy import KeyParams, QuotaParams, TenantParams
from headway.units import NS_PER_S

__all__ = ["admin_keys", "policy_of", "tenant_params"]


def tenant_params(config: Config) -> list[TenantParams]:
    """Every tenant; none where the server keeps none."""
    if config.tenancy is None:
        return []
    return [_tenant(TenantId(name), one) for name, one in config.tenancy.tenants.items()]


def admin_keys(config: Config) -> Sequence[KeyParams]:
    """Keys for management."""
    return _keys(config.server.admin.keys)


def policy_of(config: Config) -> PolicyConfig:
    """The policy, with the shares and reserves of tenants where it knows such and names none."""
    section, tenancy = config.policy, config.tenancy
    if tenancy is None or not isinstance(section, HeadwayPolicyConfig):
        return section
    tenants = tenancy.tenants
    shares = {name: one.share for name, one in tenants.items() if one.share is not None}
    floors = {name: one.reserve for name, one in tenants.items() if one.reserve}
    update = {"shares": shares | section.shares, "floors": floors | section.floors}
    return section.model_copy(update=update)


def _tenant(name: TenantId, one: TenantConfig) -> TenantParams:
    own = () if one.tier is None else (one.tier,)
    quota = one.quota
    return TenantParams(
        tenant=name,
        keys=_keys(one.keys),
        tier=None if one.tier is None else TierName(one.tier),
        tiers=frozenset(map(TierName, (*one.tiers, *own))),
        models=frozenset(map(ModelName, one.models)),
        requests_per_s=one.rates.requests,
        rows_per_s=one.rates.rows,
        tokens_per_s=one.rates.tokens,
        burst_s=one.rates.burst / NS_PER_S,
        concurrency_max=one.concurrency,
        reserve_ratio=one.reserve,
        quota=None
        if quota is None
        else QuotaParams(device_ns=quota.device_time, period=quota.period, burst_ns=quota.burst),
    )


def _keys(keys: Sequence[KeyConfig]) -> tuple[KeyParams, ...]:
    return tuple(KeyParams(key_hash=key.hash, expires_at_unix_ns=_expiry(key)) for key in keys)


def _expiry(key: KeyConfig) -> int | None:
    if key.expires is None:
        return None
    day = key.expires
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * NS_PER_S
