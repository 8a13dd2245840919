"""What tenants, keys and ports say of each other: contradictions, and doubts worth a word.

Knows the whole configuration, as `checks` does, which asks here.
"""

from collections.abc import Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING

from headway.config.problem import Keys, Problem
from headway.tenancy import places_of

if TYPE_CHECKING:
    from headway.config.schema import Config
    from headway.config.tenancy import TenancyConfig, TenantConfig

__all__ = ["tenancy_doubts", "tenancy_problems"]


def tenancy_problems(config: "Config") -> Iterator[Problem]:
    """Everything about tenants, keys and ports that cannot be meant."""
    admin, server = config.server.admin, config.server
    if admin.port is not None and admin.port == server.port and admin.port:
        hint = "choose another, or leave it out for management on the server's port"
        message = f"`{admin.port}` is the server's own port"
        yield Problem(("server", "admin", "port"), admin.port, message, hint)
    yield from _key_problems(config)
    if config.tenancy is not None:
        yield from _tenant_problems(config, config.tenancy)


def tenancy_doubts(config: "Config") -> Iterator[str]:
    """What is allowed and probably not meant."""
    yield from _door_doubts(config)
    tenancy = config.tenancy
    if tenancy is None:
        return
    if not config.server.admin.keys and config.server.admin.port is None:
        yield (
            "there are tenants, and management has neither a port nor keys of its own: it is "
            "refused, /metrics included; set server.admin.keys or server.admin.port"
        )
    for name, tenant in tenancy.tenants.items():
        if tenant.share is not None and config.policy.kind != "headway":
            yield f"tenant `{name}` has a share, which policy `{config.policy.kind}` does not know"
        places = places_of(tenant.reserve, tenancy.places)
        if tenant.reserve and tenancy.places is not None and not places:
            yield (
                f"tenant `{name}` has a reserve of {tenant.reserve:g} of {tenancy.places} places, "
                "which is none"
            )
        if not tenant.keys and name != tenancy.anonymous:
            yield f"tenant `{name}` has no keys, so nobody can be it; `headway key` makes one"
        if tenant.reserve and tenancy.places is None and config.policy.kind != "headway":
            yield (
                f"tenant `{name}` has a reserve, which nothing keeps: set tenancy.places, or "
                "policy `headway`"
            )


def _door_doubts(config: "Config") -> Iterator[str]:
    """Ports that others can reach, and what they find there."""
    server, admin = config.server, config.server.admin
    doors = [("server.host", server.host)]
    if admin.port is not None:
        doors.append(("server.admin.host", admin.host))
    reachable = [(name, host) for name, host in doors if not _is_loopback(host)]
    has_keys = bool(config.tenancy) or bool(admin.keys)
    if reachable and has_keys and server.tls is None:
        name, host = reachable[0]
        yield (
            f"{name} is `{host}` and there is no server.tls: keys are sent so that whoever is on "
            "the way can read them"
        )
    manages = doors[-1]
    is_keyless = not admin.keys and (config.tenancy is None or admin.port is not None)
    if manages in reachable and is_keyless:
        also = " and unload its models" if admin.can_load else ""
        yield (
            f"{manages[0]} is `{manages[1]}` and management asks for no key: whoever can reach the "
            f"server can see who asks it for what{also}; set server.admin.keys"
        )


def _key_problems(config: "Config") -> Iterator[Problem]:
    """A key that is there twice would be one of two, and nobody could say which."""
    seen: dict[str, str] = {}
    lists: list[tuple[Keys, str, list[str]]] = [
        (("server", "admin", "keys"), "management", [key.hash for key in config.server.admin.keys])
    ]
    tenants = {} if config.tenancy is None else config.tenancy.tenants
    for name, tenant in tenants.items():
        where: Keys = ("tenancy", "tenants", name, "keys")
        lists.append((where, f"tenant `{name}`", [key.hash for key in tenant.keys]))
    for keys, whose, hashes in lists:
        for index, key_hash in enumerate(hashes):
            if key_hash in seen:
                message = f"the key is one of {seen[key_hash]} already"
                hint = "make another with `headway key`"
                yield Problem((*keys, index, "hash"), key_hash, message, hint)
            seen[key_hash] = whose


def _tenant_problems(config: "Config", tenancy: "TenancyConfig") -> Iterator[Problem]:
    if tenancy.anonymous is not None and tenancy.anonymous not in tenancy.tenants:
        message = f"there is no tenant `{tenancy.anonymous}`"
        hint = f"tenants: {', '.join(tenancy.tenants)}"
        yield Problem(("tenancy", "anonymous"), tenancy.anonymous, message, hint)
    if config.server.shared_memory:
        message = "tenants share nothing, and shared memory is everybody's"
        yield Problem(("server", "shared_memory"), True, message, "set it to false")
    reserved = sum(tenant.reserve for tenant in tenancy.tenants.values())
    if reserved > 1.0 + 1e-9:
        message = f"reserves add up to {reserved:g} of the capacity"
        yield Problem(("tenancy", "tenants"), reserved, message, "keep 1 or less for all together")
    for name, tenant in tenancy.tenants.items():
        yield from _names_in(config, tenant, ("tenancy", "tenants", name))


def _names_in(config: "Config", tenant: "TenantConfig", where: Keys) -> Iterator[Problem]:
    named: list[tuple[Keys, str]]
    named = [(("tier",), tenant.tier)] if tenant.tier is not None else []
    named += [(("tiers", index), tier) for index, tier in enumerate(tenant.tiers)]
    for keys, tier in named:
        if tier not in config.tiers:
            hint = f"tiers: {', '.join(config.tiers)}"
            yield Problem((*where, *keys), tier, f"there is no tier `{tier}`", hint)
    models = [model.name for model in config.models]
    models += [generator.name for generator in config.generators]
    for index, model in enumerate(tenant.models):
        if model not in models:
            hint = f"models: {', '.join(models)}"
            yield Problem((*where, "models", index), model, f"there is no model `{model}`", hint)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
