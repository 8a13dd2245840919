"""Calls from pages in a browser: which origins may make them, said as browsers ask.

An app around an app. Knows origins. Refuses to know what is asked.
"""

from collections.abc import Awaitable, Collection
from typing import Any, Final, Protocol

from headway.frontends.asgi import Receive, Scope, Send
from headway.frontends.direct import DirectCall

__all__ = ["Cors"]

_METHODS: Final = b"GET, HEAD, POST"
_AGE_S: Final = b"600"
_EXPOSED: Final = (b"access-control-expose-headers", b"*")
_VARY: Final = (b"vary", b"origin")
"""Also where none is allowed: a cache must not hand a page what it kept of another's call."""


class App(Protocol):
    """What is called: an ASGI app with a short way."""

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer one HTTP request."""

    def direct(self, scope: Scope) -> DirectCall | None:
        """Offer the short way."""


class Cors:
    """Answers what browsers ask before they call, and adds what they look for in an answer.

    Args:
        app: what answers.
        origins: whose pages may call; `*` is any. Others are answered without a word of this, and
            their browsers keep the answer from them.
    """

    def __init__(self, app: App, origins: Collection[str]) -> None:
        self._app = app
        self._origins = {origin.encode("latin-1") for origin in origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        headers = dict(scope["headers"])
        origin = self._allowed(headers.get(b"origin"))
        if origin is None:
            await self._app(scope, receive, _with(send, [_VARY]))
            return
        extra = [(b"access-control-allow-origin", origin), _EXPOSED, _VARY]
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            wanted = headers.get(b"access-control-request-headers", b"*")
            await _allow(send, [*extra, (b"access-control-allow-headers", wanted)])
            return
        await self._app(scope, receive, _with(send, extra))

    def direct(self, scope: Scope) -> DirectCall | None:
        """Offer the short way to whoever is no page."""
        if any(name == b"origin" for name, _ in scope["headers"]):
            return None
        return self._app.direct(scope)

    def _allowed(self, origin: bytes | None) -> bytes | None:
        if origin is None or not (origin in self._origins or b"*" in self._origins):
            return None
        return origin


async def _allow(send: Send, headers: list[tuple[bytes, bytes]]) -> None:
    headers += [
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-max-age", _AGE_S),
        (b"content-length", b"0"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _with(send: Send, extra: list[tuple[bytes, bytes]]) -> Send:
    def sent(message: Any) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *extra]}
        return send(message)

    return sent
