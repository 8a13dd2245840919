"""Calls an ASGI app in this process, without a server: what goes in and out are plain values."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

App = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass
class Response:
    """What an app sent; ``status`` 0 for nothing at all."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        """The body, parsed as Python does, which knows integers of any size."""
        return json.loads(self.body)


@dataclass
class Exchange:
    """One request: its pieces are handed to the app one by one, then it waits for a hang-up."""

    pieces: Sequence[bytes] = (b"",)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    response: Response = field(default_factory=Response)
    receive_count: int = 0

    async def receive(self) -> dict[str, Any]:
        """The next piece of the body, or the client's leaving."""
        self.receive_count += 1
        at = self.receive_count - 1
        if at < len(self.pieces):
            more = at + 1 < len(self.pieces)
            return {"type": "http.request", "body": self.pieces[at], "more_body": more}
        await self.hung_up.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        """Keep what the app says."""
        if message["type"] == "http.response.start":
            self.response.status = message["status"]
            self.response.headers = {
                name.decode(): value.decode() for name, value in message["headers"]
            }
        else:
            self.response.body += message["body"]


def scope_of(method: str, path: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    """An ASGI scope, with as much in it as an app may rely on."""
    pairs = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": pairs,
    }


async def call(
    app: App,
    method: str,
    path: str,
    body: bytes | Sequence[bytes] = b"",
    headers: dict[str, str] | None = None,
) -> Response:
    """Send a request, whole or in pieces, and return the answer."""
    exchange = Exchange([body] if isinstance(body, bytes) else body)
    await app(scope_of(method, path, headers), exchange.receive, exchange.send)
    return exchange.response
