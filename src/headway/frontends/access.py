"""Who may ask for what, and at which door: the same for every protocol.

| what                                  | asks for                                                 |
| ------------------------------------- | -------------------------------------------------------- |
| health of the server                  | nothing                                                  |
| requests, estimates, metadata         | a tenant's key, where there are tenants                  |
| loading and unloading, metrics        | the admin door, where there is one; a key for            |
|                                       | management, where there are such or there are tenants    |
| the files of the web page             | the admin door, where there is one: a browser has no key |
|                                       | before its user has typed it                             |

Requests themselves pass `GatedEngine`, which also counts them; here is what the engine does not
see. Knows keys. Refuses to know paths and methods: whoever owns those says what they need.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from ipaddress import ip_address
from typing import Any, Final

from headway.errors import NotAllowedError, NotAuthenticatedError
from headway.tenancy import Gate, KeyParams, KeyRing
from headway.units import NS_PER_MS

__all__ = ["PAGE_HEADERS", "Access", "Door", "Need"]

PAGE_HEADERS: Final = frozenset({b"origin", b"host"})
"""That tell whose page a request comes from."""


class Need(StrEnum):
    """What a call asks for before it is answered."""

    NOTHING = "nothing"
    TENANT = "tenant"
    ADMIN = "admin"
    PAGE = "page"
    """The admin door, and no key: what is on the page says nothing of this server."""


_MANAGEMENT: Final = frozenset({Need.ADMIN, Need.PAGE})


class Access:
    """Keys and doors of one server.

    Args:
        gate: the tenants; None where the server keeps none.
        admin_keys: for management; none asks for no key.
        has_admin_door: management is answered at a port of its own, and nowhere else.
        now_ns: the engine's clock.
        started_at_unix_ns: the wall clock at its instant 0.
    """

    def __init__(
        self,
        gate: Gate | None = None,
        admin_keys: Sequence[KeyParams] = (),
        *,
        has_admin_door: bool = False,
        now_ns: Callable[[], int] = lambda: 0,
        started_at_unix_ns: int = 0,
    ) -> None:
        self._gate = gate
        self._admins = KeyRing([(None, admin_keys)])
        # Keys that go while the server runs leave management closed, not open.
        self._needs_key = bool(admin_keys) or (gate is not None and not has_admin_door)
        self._has_admin_door = has_admin_door
        self._now_ns = now_ns
        self._started_at_unix_ns = started_at_unix_ns

    @property
    def has_tenants(self) -> bool:
        """Whether there are any."""
        return self._gate is not None

    @property
    def is_open(self) -> bool:
        """Management asks for no key."""
        return not self._needs_key

    def replace(self, admin_keys: Sequence[KeyParams]) -> None:
        """Take other keys for management; where a key was needed, one goes on being needed."""
        self._admins = KeyRing([(None, admin_keys)])
        self._needs_key = self._needs_key or bool(admin_keys)

    def check(self, need: Need, credential: str, *, is_admin_door: bool) -> None:
        """See that a client may have what it asks for; raises what `Door.check` does."""
        if need is Need.PAGE:
            self._check_door(is_admin_door=is_admin_door)
        elif need is Need.ADMIN:
            self._check_admin(credential, is_admin_door=is_admin_door)
        elif need is Need.TENANT and self._gate is not None and not self._is_admin(credential):
            self._gate.identify(credential, self._now_ns())

    def about(self, credential: str) -> dict[str, Any]:
        """What a tenant may use, and what is left of it.

        Raises:
            NotAuthenticatedError: the key is nobody's.
        """
        assert self._gate is not None, "asked only where there are tenants"
        now_ns = self._now_ns()
        account = self._gate.identify(credential, now_ns)
        params = account.params
        return {
            "tenant": params.tenant,
            "tier": params.tier,
            "tiers": sorted(params.tiers),
            "models": sorted(params.models),
            "in_flight": account.in_flight,
            "limits": [
                {
                    "name": state.name,
                    "limit": round(state.limit, 3),
                    "remaining": round(state.remaining, 3),
                    "resets_ms": -(-state.resets_ns // NS_PER_MS),
                }
                for state in self._gate.limits(account, now_ns)
            ],
        }

    def _check_door(self, *, is_admin_door: bool) -> None:
        if self._has_admin_door and not is_admin_door:
            raise NotAllowedError(
                "this is not answered here", hint="ask at the port of server.admin.port"
            )

    def _check_admin(self, credential: str, *, is_admin_door: bool) -> None:
        self._check_door(is_admin_door=is_admin_door)
        if not self._needs_key or self._is_admin(credential):
            return
        if self._gate is not None and credential:
            self._gate.identify(credential, self._now_ns())
            raise NotAllowedError(
                "a tenant's key does not manage the server", hint="send a key of server.admin.keys"
            )
        raise NotAuthenticatedError(
            "this needs a key for management", hint="send a key of server.admin.keys"
        )

    def _is_admin(self, credential: str) -> bool:
        if credential and len(self._admins):
            with suppress(NotAuthenticatedError):
                self._admins.owner_of(credential, self._started_at_unix_ns + self._now_ns())
                return True
        return False


class Door:
    """Where clients come in, as a frontend knows it.

    Args:
        access: who may ask for what; anyone for everything by default.
        is_admin: those who come in here may ask for management.
        origins: whose pages in a browser may call; `*` is any.
        names: the server's own, by which management without a key is asked for; None for any, as
            behind TLS, where a certificate says whose name it is.
    """

    def __init__(
        self,
        access: Access | None = None,
        *,
        is_admin: bool = False,
        origins: Collection[str] = (),
        names: Collection[str] | None = None,
    ) -> None:
        self._access = access or Access()
        self._is_admin = is_admin
        self._origins = {origin.encode("latin-1") for origin in origins}
        self._names = None if names is None else frozenset(names)

    @property
    def has_tenants(self) -> bool:
        """Whether there are any."""
        return self._access.has_tenants

    def check(self, need: Need, credential: str, host: bytes = b"") -> None:
        """See that a client may have what it asks for.

        Args:
            need: what that asks for.
            credential: the key that it shows; empty for none.
            host: by which name it calls the server, as every browser says.

        Raises:
            NotAuthenticatedError: it must show a key, and has none that is known.
            NotAllowedError: not at this door, not with this key, or not by this name.
        """
        self._access.check(need, credential, is_admin_door=self._is_admin)
        if need in _MANAGEMENT and self._access.is_open:
            self._refuse_renamed(host)

    def _refuse_renamed(self, host: bytes) -> None:
        """See that no page has its own name lead to this server, to be taken for one of its pages.

        Whoever owns a name may have it lead to any address, also to one that only its visitor's
        browser can reach. To that browser all is then of one origin, and nothing is kept from the
        page; the name alone tells. A key would too: such a page has none.
        """
        if self._names is None or _is_own(host, self._names):
            return
        shown = host[:200].decode("latin-1")
        raise NotAllowedError(
            f"without a key this is not answered by the name `{shown}`",
            hint="ask by address, or name it in server.admin.hosts",
        )

    def refuse_foreign(self, headers: Mapping[bytes, bytes]) -> None:
        """See that a request does not come from a page of somebody else's.

        A browser sends what any page asks it to, without a question first where it looks like a
        form; only the answer is kept from the page. So what changes something is refused.

        Raises:
            NotAllowedError: its page is neither of this server nor of an allowed origin.
        """
        origin = headers.get(b"origin")
        if origin is None or origin in self._origins or b"*" in self._origins:
            return
        if origin.partition(b"://")[2].lower() != headers.get(b"host", b"").lower():
            shown = origin[:200].decode("latin-1")
            raise NotAllowedError(
                f"a page of `{shown}` may not call this server",
                hint="name its origin in server.cors_origins",
            )

    def about(self, credential: str) -> dict[str, Any]:
        """What a tenant may use; see `Access.about`."""
        return self._access.about(credential)


def _is_own(host: bytes, names: Collection[str]) -> bool:
    """Whether a name, as a header has it, can be none that a stranger has lead here.

    An address is no name; `localhost` is the browser's own machine; one without a dot, as in a
    network of containers, is of the network that the browser is in. No header: no browser.
    """
    text = host.decode("latin-1").lower()
    if text.startswith("["):
        name = text[1:].partition("]")[0]
    else:
        name = text.partition(":")[0].removesuffix(".")
    if not text or name in names or name.endswith(".localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return bool(name) and "." not in name and ":" not in name
    return True
