"""What each path asks for before it is answered, by its pattern; `access` says what that means."""

from typing import Final

from headway.frontends.access import Need

__all__ = ["need_of"]

_NO_KEY: Final = frozenset({"/v2/health/live", "/v2/health/ready", "/openapi.json"})
_ADMIN: Final = frozenset(
    {
        ("/metrics", "GET"),
        ("/admin/board", "GET"),
        ("/admin/events", "GET"),
        ("/admin/records", "GET"),
        ("/admin/timeline", "GET"),
        ("/v2/repository/models/{model}/load", "POST"),
        ("/v2/repository/models/{model}/unload", "POST"),
    }
)
_PAGES: Final = frozenset({"/ui", "/ui/{file}"})


def need_of(pattern: str, method: str) -> Need:
    """What a path asks for; any that is not named, for a tenant's key."""
    if (pattern, method) in _ADMIN:
        return Need.ADMIN
    if pattern in _PAGES:
        return Need.PAGE
    return Need.NOTHING if pattern in _NO_KEY else Need.TENANT
