"""`headway serve` as a child process: started, waited for, and always ended.

Knows processes, ports and the server's health. Never what it serves.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headway.errors import HeadwayError

__all__ = ["ServerProcess", "free_port", "free_ports"]

PORT_PREFERRED: Final = 8000
_HOST: Final = "127.0.0.1"
_READY_TIMEOUT_S: Final = 120.0
_STOP_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.1
_LOG_LINES_SHOWN: Final = 5

OnWait = Callable[[int], None]
"""Told how many models are ready."""


def free_port() -> int:
    """The port that people expect, or if it is taken any other."""
    (port,) = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """As many, from the one that people expect on; any other for one that is taken."""
    found: list[int] = []
    with ExitStack() as probes:  # held until the last is found, so that none is found twice
        for preferred in range(PORT_PREFERRED, PORT_PREFERRED + count):
            for port in (preferred, 0):
                probe = probes.enter_context(socket.socket())
                with suppress(OSError):
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind((_HOST, port))
                    found.append(int(probe.getsockname()[1]))
                    break
    if len(found) < count:
        raise HeadwayError("there is no free port on this machine")
    return found


class ServerProcess:
    """A server in a process group of its own; a context manager that ends it, come what may."""

    def __init__(self, config: Path, *, policy: str, port: int, log: Path) -> None:
        self.url = f"http://{_HOST}:{port}"
        self.log = log
        command = [sys.executable, "-m", "headway", "serve", str(config)]
        command += ["--policy", policy, "--port", str(port)]
        with log.open("wb") as file:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, process_group=0
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def wait_ready(self, on_wait: OnWait) -> float:
        """Wait until every model is warm; returns the seconds it took.

        Raises:
            HeadwayError: it ended instead, or took too long.
        """
        began_at_s = time.monotonic()
        while (waited_s := time.monotonic() - began_at_s) < _READY_TIMEOUT_S:
            if self._process.poll() is not None:
                raise HeadwayError(
                    f"the server did not start: {self._last_words()}", hint=self._hint()
                )
            if _get(f"{self.url}/v2/health/ready") is not None:
                return waited_s
            on_wait(_count_ready(self.url))
            time.sleep(_POLL_S)
        raise HeadwayError(
            f"the server was not ready in {_READY_TIMEOUT_S:.0f} s", hint=self._hint()
        )

    def wait(self) -> None:
        """Until it ends of itself.

        Raises:
            HeadwayError: it failed.
        """
        if self._process.wait() not in {0, -signal.SIGTERM}:
            raise HeadwayError(f"the server ended: {self._last_words()}", hint=self._hint())

    def stop(self) -> None:
        """Ask it to end, then see to it; its workers go with it."""
        try:
            self._process.terminate()
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return " / ".join(lines[-_LOG_LINES_SHOWN:]) or "it said nothing"

    def _hint(self) -> str:
        return f"its log is `{self.log}`"


def _get(url: str, body: bytes | None = None) -> bytes | None:
    """What a GET, or with a body a POST, answers; None without a good answer."""
    try:
        with urllib.request.urlopen(url, body, timeout=1.0) as reply:  # noqa: S310 - our own server
            return bytes(reply.read())
    except (OSError, urllib.error.URLError):
        return None


def _count_ready(url: str) -> int:
    data = _get(f"{url}/v2/repository/index", b'{"ready": true}')
    return 0 if data is None else len(json.loads(data))
