"""Tenants as the configuration has them: their gate, their ledger, and both anew when it changes.

Knows which class stands behind which section. Decides nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headway.config import Config, admin_keys, tenant_params, tiers, warnings_of
from headway.core import ModelName, TenantId
from headway.errors import ConfigError
from headway.frontends import Access, GatedEngine
from headway.runtime import Engine
from headway.tenancy import Gate, Ledger, open_ledger, used_before

__all__ = ["Tenants"]

_log = logging.getLogger("headway")


@dataclass(slots=True)
class Tenants:
    """Who may use a server, and the book that is kept of it."""

    config: Config
    """As the server started with it."""
    gate: Gate | None
    ledger: Ledger | None
    access: Access
    _now_unix_ns: Callable[[], int]

    @classmethod
    def build(cls, config: Config, now_ns: Callable[[], int], started_at_unix_ns: int) -> "Tenants":
        """Wire them; the ledger is opened.

        Raises:
            ConfigError: the ledger cannot be opened or read.
        """
        gate, ledger = None, None
        if config.tenancy is not None:
            if config.tenancy.ledger is not None:
                ledger = open_ledger(config.tenancy.ledger)
            params = tenant_params(config)
            gate = Gate(
                params,
                anonymous=_anonymous(config),
                places_max=config.tenancy.places,
                models=frozenset(_names(config)),
                started_at_unix_ns=started_at_unix_ns,
                used=used_before(ledger, params, started_at_unix_ns),
                book=ledger,
            )
        access = Access(
            gate,
            admin_keys(config),
            has_admin_door=config.server.admin.port is not None,
            now_ns=now_ns,
            started_at_unix_ns=started_at_unix_ns,
        )
        return cls(config, gate, ledger, access, lambda: started_at_unix_ns + now_ns())

    def before(self, engine: Engine, config: Config) -> Engine:
        """The engine as frontends see it: behind the gate, where there is one."""
        if self.gate is None:
            return engine
        priorities = {name: tier.priority for name, tier in tiers(config).items()}
        return GatedEngine(engine, self.gate, priorities)

    def start(self) -> None:
        """Begin to write the ledger."""
        if self.ledger is not None:
            self.ledger.start()

    async def stop(self) -> None:
        """Write the rest of it; a database that does not answer is not waited for long."""
        if self.ledger is not None:
            await asyncio.to_thread(self.ledger.close)

    def changed(self, config: Config) -> Callable[[], None]:
        """What is to be done where a configuration that was read again has other tenants or keys.

        Raises:
            ConfigError: it has tiers that the server does not know yet, or the ledger is silent.
        """
        _refuse_new_tiers(self.config, config)
        params = tenant_params(config)
        used = used_before(self.ledger, params, self._now_unix_ns())
        doubts = warnings_of(config)
        needs_restart = _without_tenants(config) != _without_tenants(self.config)

        def use() -> None:
            for doubt in doubts:
                _log.warning("%s", doubt)
            if needs_restart:
                _log.warning(
                    "the configuration has changed; of it tenants and keys are used now, the rest"
                    " after a restart"
                )
            self.access.replace(admin_keys(config))
            if self.gate is not None and config.tenancy is not None:
                self.gate.replace(params, _anonymous(config), self._now_unix_ns(), used)
                _log.info("tenants were read again: %s", ", ".join(config.tenancy.tenants))

        return use


def _refuse_new_tiers(before: Config, config: Config) -> None:
    tenants = {} if config.tenancy is None else config.tenancy.tenants
    for name, tenant in tenants.items():
        unknown = [
            tier for tier in (tenant.tier, *tenant.tiers) if tier and tier not in before.tiers
        ]
        if unknown:
            raise ConfigError(
                f"tenant `{name}` has tier `{unknown[0]}`, which is there only after a restart",
                path=f"tenancy.tenants.{name}",
                value=unknown[0],
            )


def _without_tenants(config: Config) -> Config:
    """A configuration without what can be changed while a server runs."""
    admin = config.server.admin.model_copy(update={"keys": ()})
    server = config.server.model_copy(update={"admin": admin})
    tenancy = config.tenancy
    if tenancy is not None:
        tenancy = tenancy.model_copy(update={"tenants": {}, "anonymous": None})
    return config.model_copy(update={"server": server, "tenancy": tenancy})


def _names(config: Config) -> Iterator[ModelName]:
    """Of all that a tenant may ask for."""
    for model in config.models:
        yield ModelName(model.name)
    for generator in config.generators:
        yield ModelName(generator.name)


def _anonymous(config: Config) -> TenantId | None:
    name = None if config.tenancy is None else config.tenancy.anonymous
    return None if name is None else TenantId(name)
