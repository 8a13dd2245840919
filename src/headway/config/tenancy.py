"""Who may use the server, and how much: the section `tenancy`.

Knows keys by their hashes only. Refuses to know what becomes of a request that is over a limit.
"""

from datetime import date
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from headway.config.quantities import Duration, PositiveDuration
from headway.config.section import Count, Name, PathName, Section
from headway.tenancy import Period, is_key_hash
from headway.units import NS_PER_S

__all__ = ["KeyConfig", "QuotaConfig", "RatesConfig", "TenancyConfig", "TenantConfig"]

Rate = Annotated[float, Field(gt=0.0, le=1e9)]
Ratio = Annotated[float, Field(ge=0.0, le=1.0)]
Weight = Annotated[float, Field(gt=0.0, le=1e6)]


def _read_hash(value: object) -> str:
    """What is wrong is not repeated: it may be the key itself, and errors go to logs."""
    if not isinstance(value, str) or not is_key_hash(value):
        raise ValueError("this is not the hash of a key")
    return value


KeyHash = Annotated[
    str,
    BeforeValidator(_read_hash),
    WithJsonSchema({"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}),
]


class KeyConfig(Section):
    """A key, as `headway key` prints it: only its hash, from which nobody finds the key."""

    hash: KeyHash
    """Of the key: `sha256:` and 64 hexadecimal digits."""
    note: str = Field(default="", max_length=200)
    """By which people tell keys apart."""
    expires: date | None = None
    """First day, in UTC, on which it is refused; without it, it does not expire."""


class RatesConfig(Section):
    """What a tenant may ask for in a second. Without a rate there is no such limit."""

    requests: Rate | None = None
    """Requests a second."""
    rows: Rate | None = None
    """Rows a second, of the inputs of its requests."""
    tokens: Rate | None = None
    """Tokens a second, as models count them; paid for afterwards, as they are not known before."""
    burst: PositiveDuration = 1 * NS_PER_S
    """For so long a rate may be saved up, and then be used at once."""


class QuotaConfig(Section):
    """Device time in a period of the calendar, in UTC.

    What a request is expected to take is held while it is under way. Work that is cancelled or
    fails is not paid for; a generator's answer that its client broke off is, as far as it had come.
    """

    device_time: PositiveDuration
    """What may be used in a period: `2h` is two hours of one slot of a device."""
    period: Period = Period.DAY
    """When it begins anew."""
    burst: Duration = 0
    """Device time that may be used beyond it; it is taken off the next period."""


class TenantConfig(Section):
    """Whoever is accounted for."""

    keys: tuple[KeyConfig, ...] = ()
    """By which it is known; several, so that a new one can be handed out before an old one goes."""
    tier: Name | None = None
    """Tier of its requests that name none; without it that of the model."""
    tiers: tuple[Name, ...] = ()
    """Tiers that its requests may name; empty is `tier` alone, or all where there is no `tier`."""
    models: tuple[PathName, ...] = ()
    """Models that it may use; empty for all."""
    share: Weight | None = None
    """Weight of its share of a class's device time, for policies that share it; see
    policy.shares, which wins over it."""
    reserve: Ratio = 0.0
    """Part of the capacity that is kept for it: of `places`, and as the floor of its share of
    device time for policies that have floors."""
    rates: RatesConfig = RatesConfig()
    """What it may ask for in a second."""
    concurrency: Count | None = None
    """Requests that it may have under way; without it no limit."""
    quota: QuotaConfig | None = None
    """Device time that it may use; without it no limit."""


class TenancyConfig(Section):
    """Who may use the server, and how much.

    Where this section is written, every request but those about health needs a key. Tenants and
    keys are read again when the file changes, without a restart.
    """

    tenants: dict[Name, TenantConfig] = Field(min_length=1)
    """Whoever is accounted for, by name."""
    anonymous: Name | None = None
    """The tenant of requests without a key; without it they are refused."""
    places: Count | None = None
    """Requests under way over all tenants; without it no limit, and nothing for a reserve to keep
    free."""
    ledger: str | None = "sqlite:///headway-usage.db"
    """Database of what was used, as an SQLAlchemy URL; null keeps none. A relative path of SQLite
    starts at this file's folder. Needs the extra `tenants`."""
