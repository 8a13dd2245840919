"""The server that is soaked, in a process of its own: its disk is full, its wall clock steps.

The journal and what the predictor has learnt go to a file system of two megabytes, which the
journal soon fills; where none may be mounted, to `/dev/full`. The wall clock is the machine's own
plus the seconds of a shared file, for this server and its workers alone: a library that is compiled
here stands before their C library (`stepped_clock.c`). Without a compiler it does not step.

Knows processes and files. Refuses to know requests.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

import harness
from prometheus_client.parser import text_string_to_metric_families

from soaking.asks import FICKLE, HIGH, LOW
from soaking.models import MODELS, write_identity
from soaking.process import Process, count_of

__all__ = ["Clock", "Disk", "Reading", "Subject", "soaked"]

SLOTS = 2
DISK_BYTES = 2 << 20
CLOCK_SOURCE = Path(__file__).with_name("stepped_clock.c")
TIERS = {
    HIGH: {"priority": 1, "budget": "2s"},
    LOW: {"priority": 10, "budget": "4s", "slot_class": "low"},
    FICKLE: {"priority": 5, "budget": "4s"},
}
LISTENS = "0A"
"""What the system's table of connections calls a socket that listens."""


class Reading(NamedTuple):
    """What the server's processes hold, at an instant."""

    at_s: float
    server_mib: float
    workers_mib: float
    server_fds: int
    """Without those of clients' connections, which are the clients' doing."""
    connections: int
    server_threads: int
    workers: int
    workers_fds: int


class Clock:
    """The wall clock of the server."""

    def __init__(self, home: Path) -> None:
        self._path, self._library = home / "clock", home / "stepped_clock.so"
        self._path.write_bytes(struct.pack("<q", 0))
        compiler = shutil.which("cc") or shutil.which("gcc")
        self.can_step = compiler is not None and self._is_built(compiler)
        self.steps: list[int] = []
        """Seconds off the machine's clock, one after another."""

    def _is_built(self, compiler: str) -> bool:
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(self._library), str(CLOCK_SOURCE)]
        return subprocess.run([*command, "-ldl"], check=False).returncode == 0

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to live by it."""
        if not self.can_step:
            return {}
        return {"LD_PRELOAD": str(self._library), "STEPPED_CLOCK": str(self._path)}

    def step_to(self, offset_s: int) -> None:
        """From now on the wall clock is so many seconds off."""
        if self.can_step:
            with self._path.open("r+b") as file, mmap.mmap(file.fileno(), 8) as shared:
                shared[:8] = struct.pack("<q", offset_s)
            self.steps.append(offset_s)


class Disk:
    """A small file system, as long as the context lasts; or what is full from the start."""

    def __init__(self, home: Path) -> None:
        self._path = home / "disk"
        self.is_mounted = False

    def __enter__(self) -> Self:
        self._path.mkdir()
        options = f"size={DISK_BYTES}"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self._path)]
        done = subprocess.run(command, check=False, capture_output=True)
        self.is_mounted = done.returncode == 0
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_mounted:
            subprocess.run(["umount", "-l", str(self._path)], check=False, capture_output=True)

    @property
    def journal(self) -> Path:
        """Where the journal goes."""
        return self._path / "journal" if self.is_mounted else Path("/dev/full")

    @property
    def state(self) -> Path:
        """Where goes what was learnt."""
        return self._path / "learnt"


def configuration(home: Path, port: int, grpc_port: int, disk: Disk) -> str:
    """Three models in a worker each, both interfaces."""
    write_identity(home / "identity.onnx")
    batch = {"rows_max": 4, "linger": "1ms"}
    models = [
        {"name": "tripled", "path": f"{MODELS}:Tripled", "batch": batch},
        {"name": "turned", "path": f"{MODELS}:Turned", "batch": batch},
        {"name": "identity", "path": str(home / "identity.onnx"), "batch": batch},
    ]
    for model in models:
        model["queue"] = {"requests_max": 48}
    return json.dumps(
        {
            "server": {"port": port, "grpc": {"port": grpc_port}, "grace": "20s"},
            "models": models,
            "tiers": TIERS,
            "policy": {"kind": "headway"},
            "predictor": {"kind": "headway", "state": str(disk.state), "save_every": "5s"},
            "journal": {"path": str(disk.journal)},
            "devices": [
                {
                    "cores": [min(os.sched_getaffinity(0))],
                    "slots_per_core": SLOTS,
                    "pin": False,
                    "isolation": "per_model",
                    "niceness": {"high": 0, "low": 0},
                }
            ],
            "limits": {"restart_delay_min": "50ms", "restart_delay_max": "200ms"},
        }
    )


class Subject(Process):
    """A running server; made by `soaked`."""

    def __init__(self, home: Path, clock: Clock, disk: Disk) -> None:
        self.grpc_port, port = harness.free_port(), harness.free_port()
        self.clock, self.disk = clock, disk
        path = home / "soak.yaml"
        path.write_text(configuration(home, port, self.grpc_port, disk))
        super().__init__(path, port, clock.environment)

    def read(self, at_s: float) -> Reading:
        """What its processes hold now."""
        workers = self.workers()
        connections = self._connections()
        return Reading(
            at_s,
            harness.rss_mib([self.pid]),
            harness.rss_mib(workers),
            count_of(f"/proc/{self.pid}/fd") - connections,
            connections,
            count_of(f"/proc/{self.pid}/task"),
            len(workers),
            sum(count_of(f"/proc/{pid}/fd") for pid in workers),
        )

    def _connections(self) -> int:
        """Connections that its clients have with it."""
        own = set()
        for descriptor in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                own.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
        ports = {f"{port:04X}" for port in (self.port, self.grpc_port)}
        count = 0
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                words = line.split()
                is_client = words[1].rpartition(":")[2] in ports and words[3] != LISTENS
                count += is_client and words[9] in own
        return count

    def counters(self) -> tuple[dict[tuple[str, str], int], int]:
        """(tier, outcome) -> requests that ended so, as clients call it; and how many have not."""
        _, text = harness.Http(self.port).get("/metrics")
        ended: Counter[tuple[str, str]] = Counter()
        left = 0
        for family in text_string_to_metric_families(text.decode()):
            for sample in family.samples:
                if sample.name == "headway_requests_total" and sample.value:
                    ended[sample.labels["tier"], _outcome(sample.labels)] += int(sample.value)
                elif sample.name in {"headway_queue_depth", "headway_slots_busy"}:
                    left += int(sample.value)
        return dict(ended), left


def _outcome(labels: Mapping[str, str]) -> str:
    """What a client calls how a request ended."""
    outcome, reason = labels["outcome"], labels["reason"]
    if outcome == "rejected" and reason == "deadline_past":
        return "expired"
    if outcome == "rejected" and reason in {"draining", "model_unavailable"}:
        return "unavailable"
    return outcome


@contextmanager
def soaked(home: Path) -> Iterator[Subject]:
    """A server, ready; gone with its processes and its disk in the end."""
    with Disk(home) as disk:
        subject = Subject(home, Clock(home), disk)
        try:
            subject.wait_ready()
            yield subject
        finally:
            subject.kill()
