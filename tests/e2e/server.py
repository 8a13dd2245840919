"""A real `headway serve` in a process of its own, and all that a test may ask of it.

Knows processes, HTTP on loopback and the exposition of metrics. Refuses to know headway's objects:
what these tests see is what a user sees. Whatever happens, the whole process group is gone when
`serving` ends.
"""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from tests.e2e.answers import Answer, Samples

__all__ = [
    "MODELS",
    "Server",
    "a_config",
    "free_port",
    "infer_body",
    "running",
    "serving",
    "wait_ready",
    "wait_until",
]

MODELS: Final = Path(__file__).parent / "models"
WAIT_S: Final = 20.0
"""How long anything may take that takes a moment: long, as it costs only when a test fails."""
POLL_S: Final = 0.005
READY: Final = re.compile(r"ready on https?://[^:]+:(\d+)(?: and grpcs?://[^:]+:(\d+))?")
ADMIN: Final = re.compile(r"management on https?://[^:]+:(\d+)")


class Server:
    """A running `headway serve`; made by `serving`."""

    def __init__(self, process: "subprocess.Popen[bytes]", log_path: Path, port: int) -> None:
        self.process = process
        self.port = port
        self.grpc_port = 0
        """0 where it serves no gRPC."""
        self.admin_port = 0
        """0 where management has no port of its own."""
        self.tls: ssl.SSLContext | None = None
        """How to speak to it where it is encrypted."""
        self._log_path = log_path

    # What clients do.

    def get(self, path: str) -> Answer:
        """GET, on a connection of its own."""
        return self.call("GET", path)

    def post(self, path: str, body: object = None) -> Answer:
        """POST a value as JSON, on a connection of its own."""
        return self.call("POST", path, b"" if body is None else json.dumps(body).encode())

    def infer(
        self,
        model: str,
        rows: Sequence[Sequence[float]],
        *,
        parameters: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Run rows through a model."""
        path = f"/v2/models/{model}/infer"
        return self.call("POST", path, infer_body(rows, parameters), headers or {})

    def call(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        port: int = 0,
    ) -> Answer:
        """Send a request and read its answer; to the usual port, if no other is named."""
        started_at_s = time.monotonic()
        where, patience_s = ("127.0.0.1", port or self.port), 2 * WAIT_S
        connection = (
            http.client.HTTPConnection(*where, timeout=patience_s)
            if self.tls is None
            else http.client.HTTPSConnection(*where, timeout=patience_s, context=self.tls)
        )
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, body, time.monotonic() - started_at_s)

    def open_infer(
        self, model: str, rows: Sequence[Sequence[float]], *, is_chunked: bool = False
    ) -> socket.socket:
        """Send a request and leave its answer unread: whoever closes the socket hangs up.

        The server reads small whole bodies on a way of its own; chunked ones take the general one.
        """
        body = infer_body(rows)
        how = f"content-length: {len(body)}"
        if is_chunked:
            how = "transfer-encoding: chunked"
            body = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
        head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nhost: x\r\n{how}\r\n\r\n"
        client = socket.create_connection(("127.0.0.1", self.port), timeout=2 * WAIT_S)
        client.sendall(head.encode() + body)
        return client

    def load(self, model: str, config: Mapping[str, object] | None = None) -> Answer:
        """Load or reload a model, perhaps with other settings."""
        body = {} if config is None else {"parameters": {"config": json.dumps(config)}}
        return self.post(f"/v2/repository/models/{model}/load", body)

    def unload(self, model: str) -> Answer:
        """Unload a model."""
        return self.post(f"/v2/repository/models/{model}/unload", {})

    def state_of(self, model: str) -> str:
        """What the repository index says of a model; nothing where it has no line."""
        found = {line["name"]: line["state"] for line in self.post("/v2/repository/index").json}
        return str(found.get(model, ""))

    # What an operator sees.

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples with these labels, now."""
        return self.metrics().total(name, **labels)

    def metrics(self) -> Samples:
        """All samples, now."""
        return Samples.read(self.get("/metrics").body.decode())

    def log(self) -> str:
        """What it has said so far."""
        return self._log_path.read_text(errors="replace")

    def worker_pids(self) -> list[int]:
        """Its child processes."""
        found: set[int] = set()
        for listing in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found.update(map(int, listing.read_text().split()))
        return sorted(found)

    def fd_count(self) -> int:
        """Descriptors that it holds open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def thread_count(self) -> int:
        """Threads that it runs."""
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))

    def rss_mib(self) -> float:
        """Resident memory of its process."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    # Its end.

    def signal(self, number: int) -> None:
        """Send its first process a signal."""
        self.process.send_signal(number)

    def exit_code(self, within_s: float = WAIT_S) -> int:
        """Wait for its end; negative for a signal."""
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the server still runs after {within_s} s; it said:\n{self.log()}")

    def left(self) -> list[int]:
        """Living processes of its group, itself included."""
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if self._has(pid)]

    def _has(self, pid: int) -> bool:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        state, _, group = stat[stat.rindex(")") + 2 :].split()[:3]
        return int(group) == self.process.pid and state != "Z"


@contextlib.contextmanager
def serving(
    home: Path,
    config: Mapping[str, object],
    *,
    port: int | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Server]:
    """A server for a configuration, ready; gone with all of its processes afterwards.

    Args:
        home: for the configuration and the log.
        config: as in the file.
        port: set, the server is given back at once, as it starts, and listens there.
        tls: how to speak to it where it is encrypted.
    """
    path = home / "serve.yaml"
    path.write_text(json.dumps(config))
    arguments = ["serve", str(path)] + ([] if port is None else ["--port", str(port)])
    with running(home, arguments) as server:
        server.tls = tls
        if port is None:
            wait_ready(server)
        else:
            server.port = port
        yield server


@contextlib.contextmanager
def running(home: Path, arguments: Sequence[str]) -> Iterator[Server]:
    """`headway ARGUMENTS`, in a process group of its own that is gone afterwards."""
    log_path = home / "server.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "headway", *arguments],
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    server = Server(process, log_path, 0)
    try:
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT_S)
        wait_until(lambda: not server.left(), "its processes are gone")


def wait_ready(server: Server) -> None:
    """Wait for the line that tells the port, then for the answer that says it is ready."""

    def has_said_so() -> bool:
        found = READY.search(server.log())
        if found is None and server.process.poll() is not None:
            pytest.fail(f"the server ended at its start:\n{server.log()}")
        server.port = int(found[1]) if found else 0
        server.grpc_port = int(found[2] or 0) if found else 0
        admin = ADMIN.search(server.log())
        server.admin_port = int(admin[1]) if admin else 0
        return found is not None

    wait_until(has_said_so, "the server says that it is ready")
    assert server.get("/v2/health/ready").status == 200


def wait_until(is_so: Callable[[], object], what: str, within_s: float = WAIT_S) -> float:
    """Look again and again until something is so; returns how long it took."""
    started_at_s = time.monotonic()
    while not is_so():
        if time.monotonic() - started_at_s > within_s:
            pytest.fail(f"waited {within_s} s in vain until {what}")
        time.sleep(POLL_S)
    return time.monotonic() - started_at_s


def a_config(
    *models: Mapping[str, object], slots: int = 1, isolation: str = "shared", **sections: object
) -> dict[str, object]:
    """A configuration with these models on so many slots; sections replace the rest."""
    device = {
        "name": "cpu:0",
        # One core, so that the slots are as many on every machine; not pinned, and as important
        # as the test itself, so that a busy machine cannot starve it.
        "cores": [min(os.sched_getaffinity(0))],
        "slots_per_core": slots,
        "pin": False,
        "niceness": {"high": 0, "low": 0},
        "isolation": isolation,
    }
    return {"server": {"port": 0}, "models": list(models), "devices": [device], **sections}


def infer_body(
    rows: Sequence[Sequence[float]], parameters: Mapping[str, object] | None = None
) -> bytes:
    """A request for rows of the one input `x`."""
    data = [value for row in rows for value in row]
    tensor = {"name": "x", "shape": [len(rows), len(rows[0])], "datatype": "FP32", "data": data}
    return json.dumps({"inputs": [tensor], "parameters": parameters or {}}).encode()


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
