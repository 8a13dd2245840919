"""A `headway serve` in a process group of its own: started, read, told to end, killed.

Knows processes. Refuses to know requests.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import harness

__all__ = ["Process", "count_of"]

READY_S, END_S = 60.0, 40.0
POLL_S = 0.02


class Process:
    """A server of a configuration.

    Args:
        path: the configuration; the log is written beside it.
        port: where it listens, as the configuration says.
        environment: added to this process's own.
    """

    def __init__(self, path: Path, port: int, environment: Mapping[str, str] | None = None) -> None:
        self.port = port
        self._log = path.with_suffix(".log")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headway", "serve", str(path)],
                cwd=path.parent,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def is_ready(self) -> bool:
        """Whether every model is warm."""
        with contextlib.suppress(OSError), contextlib.closing(harness.Http(self.port)) as client:
            return client.get("/v2/health/ready")[0] == 200
        return False

    def wait_ready(self) -> None:
        """Until every model is warm.

        Raises:
            LoadFailedError: it ended, or is not ready in time.
        """
        give_up_at_s = time.monotonic() + READY_S
        while time.monotonic() < give_up_at_s and self._process.poll() is None:
            if self.is_ready():
                return
            time.sleep(POLL_S)
        raise harness.LoadFailedError(f"the server is not ready: {self.log()[-2000:]}")

    def workers(self) -> list[int]:
        """Its worker processes."""
        found: set[int] = set()
        for listing in Path(f"/proc/{self.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found.update(map(int, listing.read_text().split()))
        return sorted(found)

    def log(self) -> str:
        """All that it has said."""
        return self._log.read_text(errors="replace")

    def tell(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def wait_ended(self) -> int | None:
        """Its exit code, or None if it does not end."""
        try:
            return self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End whatever is left of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(END_S)


def count_of(folder: str) -> int:
    """Entries of a folder of the system's; 0 where it is gone."""
    try:
        return len(os.listdir(folder))  # noqa: PTH208 (a Path would cost a stat each)
    except OSError:
        return 0
