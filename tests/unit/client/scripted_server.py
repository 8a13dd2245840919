"""A server that says what a test wrote down, and a clock that only a test moves.

Knows httpx's mock transport. Both clients meet it: `ask` runs the same call on either.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from headway.client import AsyncClient, Client

URL = "http://server:8000"
Script = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


@dataclass
class VirtualClock:
    """Time that passes only in `sleep`, and as fast as one likes."""

    at_ns: int = 5_000_000_000
    slept_ns: list[int] = field(default_factory=list)

    def now_ns(self) -> int:
        return self.at_ns

    def sleep(self, duration_ns: int) -> None:
        self.slept_ns.append(duration_ns)
        self.at_ns += duration_ns


class AwaitedClock(VirtualClock):
    """The same, for the client of asyncio."""

    async def sleep(self, duration_ns: int) -> None:
        super().sleep(duration_ns)


class ScriptedServer:
    """Answers with its script, one line a request, and the last line for ever.

    Args:
        takes_ns: how long each answer takes, on the client's clock.
    """

    def __init__(self, *script: Script, takes_ns: int = 0) -> None:
        self.script = list(script)
        self.seen: list[httpx.Request] = []
        self.takes_ns = takes_ns
        self.clock = VirtualClock()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        self.clock.at_ns += self.takes_ns
        said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, httpx.Response) else said(request)

    def header(self, name: str) -> list[str | None]:
        """What each request said under this name."""
        return [request.headers.get(name) for request in self.seen]


def ask(kind: str, server: ScriptedServer, verb: str, *args: Any, **settings: Any) -> Any:
    """One call on a client of this kind, `sync` or `async`; `settings` are of client and call.

    Those that begin with `client_` are the client's.
    """
    ours = {k.removeprefix("client_"): v for k, v in settings.items() if k.startswith("client_")}
    call = {k: v for k, v in settings.items() if not k.startswith("client_")}
    url = ours.pop("url", URL)
    transport = httpx.MockTransport(server)
    if kind == "sync":
        with Client(url, transport=transport, clock=server.clock, **ours) as client:
            return getattr(client, verb)(*args, **call)
    clock = AwaitedClock(server.clock.at_ns, server.clock.slept_ns)
    server.clock = clock

    async def asked() -> Any:
        async with AsyncClient(url, transport=transport, clock=clock, **ours) as client:
            return await getattr(client, verb)(*args, **call)

    return asyncio.run(asked())


def a_reply(headers: Mapping[str, str] | None = None, **parameters: object) -> httpx.Response:
    """An answer with one output of two FP32, binary."""
    said = {"binary_data_size": 8}
    head = json.dumps(
        {
            "model_name": "m",
            "model_version": "3",
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [2], "parameters": said}],
            "parameters": parameters,
        }
    ).encode()
    lines = {"inference-header-content-length": str(len(head)), **(headers or {})}
    return httpx.Response(200, headers=lines, content=head + b"\0\0\x80?\0\0\0@")


def an_error(status: int, code: str = "", headers: Mapping[str, str] | None = None, **keys: object):
    """An error in the server's own words."""
    body = {"error": f"it is {code}", "code": code, **keys}
    return httpx.Response(status, headers=headers, json=body)


def refused(after_ms: int) -> httpx.Response:
    """429 and when to come back, as headway says it."""
    lines = {"retry-after": str(-(-after_ms // 1000)), "headway-retry-after-ms": str(after_ms)}
    return an_error(429, "rejected", lines, reason="model_queue_full", retry_after_ms=after_ms)
