"""All that one HTTP port serves, as one ASGI app: each path goes to the protocol it is of."""

from collections.abc import Collection, Mapping
from typing import Final

from headway.frontends.admin_rest import AdminRest
from headway.frontends.asgi import Receive, Scope, Send
from headway.frontends.direct import Offer
from headway.frontends.oip_rest import OipRest
from headway.frontends.openai_rest import OpenAiRest

__all__ = ["HttpApp"]

_OPENAI: Final = "v1"
_ADMIN: Final = frozenset({"admin", "ui"})


class HttpApp:
    """OpenAI's API under `/v1`, what operators see under `/admin` and `/ui`, the rest elsewhere.

    Args:
        oip: the last.
        openai: the first.
        admin: None for a server that nobody looks at.
    """

    def __init__(self, oip: OipRest, openai: OpenAiRest, admin: AdminRest | None = None) -> None:
        self._oip = oip
        self._openai = openai
        self._admin = admin
        self.direct: Offer = oip.direct
        """The short way is that of infer requests, and costs them no look at other protocols."""

    @property
    def routes(self) -> Mapping[str, Collection[str]]:
        """Every path and its methods."""
        admin = {} if self._admin is None else self._admin.routes
        return {**self._oip.routes, **self._openai.routes, **admin}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        first = scope["path"][1:].partition("/")[0]
        if first == _OPENAI:
            await self._openai(scope, receive, send)
        elif first in _ADMIN and self._admin is not None:
            await self._admin(scope, receive, send)
        else:
            await self._oip(scope, receive, send)
