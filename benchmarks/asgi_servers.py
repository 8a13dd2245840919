"""Which HTTP server may carry headway: the same small ASGI app on each candidate, under wrk.

The scheduler lives on an asyncio loop, and a server that shares this loop hands it a request
without crossing a thread. So each candidate runs embedded in one process with one loop where it
can, and the row says so. `bare` is no candidate but the floor: the same loop and HTTP parser with
no ASGI between them. The app suspends once a request, as one that waits for a worker does.

Run it with `python benchmarks/asgi_servers.py`; the candidates' environment is made on first use.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import harness

__all__ = ["main"]

PACKAGES = (
    "uvicorn==0.54.0",
    "uvloop==0.23.0",
    "httptools==0.9.0",
    "hypercorn==0.18.0",
    "granian==2.8.9",
    "fastpysgi==0.6",
    "msgspec==0.23.0",
)
VERSION_OF = {
    "uvicorn": "0.54.0",
    "hypercorn": "0.18.0",
    "granian-embedded": "2.8.9",
    "granian": "2.8.9",
    "fastpysgi": "0.6",
    "bare": "httptools 0.9.0",
}
CONNECTIONS = (1, 8, 32)
VALUES = [float(i) for i in range(16)]
BODY = json.dumps(
    {"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": VALUES}]}
).encode()
INFER = "/v2/models/echo/infer"
COLUMNS = (
    "server",
    "connections",
    "rps",
    "p50_ms",
    "p99_ms",
    "rss_mib",
    "failures",
    "shares_loop",
    "disconnect_ms",
    "others_cores",
)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


# -- the app, in the server's process ------------------------------------------------------------


class App:
    """Echoes an infer body; two more paths tell what the benchmark asks about the server."""

    def __init__(self) -> None:
        import msgspec

        self.embedding_loop: asyncio.AbstractEventLoop | None = None
        self._decode = msgspec.json.Decoder().decode
        self._encode = msgspec.json.Encoder().encode
        self.hung_up_at_ns = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", scope["type"]
        path = scope["path"]
        if path == INFER:
            await self._infer(receive, send)
        elif path == "/hang":
            await self._hang(receive)
        elif path == "/hung":
            await _answer(send, str(self.hung_up_at_ns).encode())
        else:
            same = asyncio.get_running_loop() is self.embedding_loop
            await _answer(send, b"true" if same else b"false")

    def echo(self, body: bytes) -> bytes:
        request = self._decode(body)
        return self._encode({"model_name": "echo", "outputs": request["inputs"]})

    async def _infer(self, receive: Receive, send: Send) -> None:
        message = await receive()
        body = message.get("body", b"")
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        await _suspend_once()
        await _answer(send, self.echo(body))

    async def _hang(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.hung_up_at_ns = time.monotonic_ns()


async def _suspend_once() -> None:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(future.set_result, None)
    await future


async def _answer(send: Send, body: bytes) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def serve(name: str, port: int) -> None:
    """Be the server `name`, until killed."""
    app = App()
    if name == "fastpysgi":
        import fastpysgi

        fastpysgi.run(app, host="127.0.0.1", port=port)
        return
    import uvloop

    embed = {
        "uvicorn": _uvicorn,
        "hypercorn": _hypercorn,
        "granian-embedded": _granian,
        "bare": _bare,
    }[name]

    async def embedded() -> None:
        app.embedding_loop = asyncio.get_running_loop()
        await embed(app, port)

    uvloop.run(embedded())


async def _uvicorn(app: App, port: int) -> None:
    import uvicorn

    config = uvicorn.Config(
        app,
        port=port,
        http="httptools",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
    )
    await uvicorn.Server(config).serve()


async def _hypercorn(app: App, port: int) -> None:
    from hypercorn.asyncio import serve as hypercorn_serve
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.accesslog = None
    config.include_server_header = False
    await hypercorn_serve(app, config)


async def _granian(app: App, port: int) -> None:
    from granian.constants import Interfaces
    from granian.server.embed import Server

    server = Server(app, port=port, interface=Interfaces.ASGINL, websockets=False, log_access=False)
    await server.serve()


async def _bare(app: App, port: int) -> None:
    import httptools

    class Connection(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport: Any = transport
            self._parser = httptools.HttpRequestParser(self)

        def connection_lost(self, exc: Exception | None) -> None:
            if getattr(self, "_path", b"") == b"/hang":
                app.hung_up_at_ns = time.monotonic_ns()

        def data_received(self, data: bytes) -> None:
            self._parser.feed_data(data)

        def on_message_begin(self) -> None:
            self._path = self._body = b""

        def on_url(self, url: bytes) -> None:
            self._path = url

        def on_body(self, body: bytes) -> None:
            self._body += body

        def on_message_complete(self) -> None:
            if self._path != b"/hang":
                asyncio.get_running_loop().call_soon(self._answer, self._path, self._body)

        def _answer(self, path: bytes, body: bytes) -> None:
            if path == INFER.encode():
                text = app.echo(body)
            else:
                text = str(app.hung_up_at_ns).encode() if path == b"/hung" else b"true"
            head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
            self._transport.write(f"{head}{len(text)}\r\n\r\n".encode() + text)

    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port)
    await server.serve_forever()


# -- the measurement -----------------------------------------------------------------------------


def command_of(name: str, python: Path, port: int) -> list[str]:
    this = Path(__file__).resolve()
    if name != "granian":
        return [str(python), str(this), "--serve", name, "--port", str(port)]
    options = "--interface asginl --workers 1 --loop uvloop --no-ws --log-level warning"
    where = f"--host 127.0.0.1 --port {port}"
    return [str(python), "-m", "granian", *options.split(), *where.split(), "asgi_servers:app"]


def measure(name: str, python: Path, *, seconds: float, warm_s: float) -> list[harness.Row]:
    """One round: start, check, warm, load at each number of connections, stop."""
    port = harness.free_port()
    url = f"http://127.0.0.1:{port}{INFER}"

    def is_ready() -> bool:
        status, _ = harness.Http(port).get("/same-loop")
        return status == 200

    command = command_of(name, python, port)
    rows: list[harness.Row] = []
    with harness.ServerProcess(command, is_ready, cwd=harness.BENCHMARKS):
        status, answer = harness.Http(port).post(INFER, BODY)
        if status != 200 or json.loads(answer)["outputs"][0]["data"] != VALUES:
            raise harness.LoadFailedError(f"{name} does not echo: {status} {answer[:200]!r}")
        shares_loop = json.loads(harness.Http(port).get("/same-loop")[1])
        disconnect_ms = disconnect_delay_ms(port)
        harness.run_wrk(harness.Load(url=url, body=BODY, connections=8, seconds=warm_s))
        for connections in CONNECTIONS:
            load = harness.Load(url=url, body=BODY, connections=connections, seconds=seconds)
            with harness.Interval() as interval:
                seen = harness.run_wrk(load)
            rows.append(
                {
                    "server": name,
                    "version": VERSION_OF[name],
                    "connections": connections,
                    "rps": seen.rps,
                    "p50_ms": seen.p50_ms,
                    "p99_ms": seen.p99_ms,
                    "rss_mib": harness.rss_mib(harness.own_tree()),
                    "failures": seen.failures,
                    "shares_loop": shares_loop,
                    "disconnect_ms": disconnect_ms,
                    "others_cores": interval.others_cores,
                }
            )
    return rows


def disconnect_delay_ms(port: int) -> float | None:
    """From a client's close until the app is told, or `None` if not within a second."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /hang HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        time.sleep(0.2)
        closed_at_ns = time.monotonic_ns()
    time.sleep(1.0)
    seen_at_ns = int(harness.Http(port).get("/hung")[1])
    return round((seen_at_ns - closed_at_ns) / 1e6, 3) if seen_at_ns else None


def run(options: argparse.Namespace) -> list[harness.Row]:
    python = harness.make_environment(harness.CACHE / "asgi", PACKAGES, progress=sys.stderr)
    names: Sequence[str] = options.only or list(VERSION_OF)
    seen: dict[tuple[str, int], list[harness.Row]] = {
        (name, connections): [] for name in names for connections in CONNECTIONS
    }
    for round_index in range(options.rounds):
        for name in names if round_index % 2 == 0 else reversed(names):
            for row in measure(name, python, seconds=options.seconds, warm_s=options.warm):
                seen[name, int(row["connections"] or 0)].append(row)
                print(
                    f"round {round_index + 1}: {row['server']} at {row['connections']}: "
                    f"{row['rps']} req/s, p50 {row['p50_ms']} ms",
                    file=sys.stderr,
                    flush=True,
                )
    return [harness.median_row(rows) for rows in seen.values()]


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", action="append", choices=list(VERSION_OF))
    parser.add_argument("--seconds", type=float, help="a load's length")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true", help="unless told, one round of 1 s a load")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--serve", choices=list(VERSION_OF), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    options.warm = 1.0 if options.quick else 2.0
    options.seconds = options.seconds or (1.0 if options.quick else 5.0)
    options.rounds = options.rounds or (1 if options.quick else 2)
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """The command; also the server itself, when called with `--serve`."""
    options = parse(argv)
    if options.serve:
        serve(options.serve, options.port)
        return 0
    harness.adopt_orphans()
    rows = run(options)
    text = harness.results_document("asgi_servers", rows)
    if not options.quick and not options.only:
        harness.write_results("asgi_servers", text)
    print(text if options.format == "json" else "\n".join(harness.line_table(rows, COLUMNS)))
    return 0


def __getattr__(name: str) -> App:
    """`asgi_servers:app`, for the candidate that imports its target in a process of its own."""
    if name == "app":
        application = App()
        globals()["app"] = application
        return application
    raise AttributeError(name)


if __name__ == "__main__":
    sys.exit(main())
