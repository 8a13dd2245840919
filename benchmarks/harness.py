"""What every benchmark here shares: processes, load, memory, and the results file.

Knows how to make a virtual environment, start a server and stop all that it started, drive wrk at
it, and add up a process tree. Knows nothing of any one server.

Loads go to 127.0.0.1 only and are bounded in time. On a small machine that other programs share a
figure means little without a note of what those others used: `Interval` measures it, and
every row should carry it.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import datetime
import fcntl
import http.client
import json
import os
import platform
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self

__all__ = [
    "BENCHMARKS",
    "CACHE",
    "RESULTS",
    "EnvironmentUnavailableError",
    "Http",
    "Interval",
    "Load",
    "LoadFailedError",
    "Row",
    "ServerProcess",
    "WrkResult",
    "adopt_orphans",
    "cpu_s",
    "download",
    "free_port",
    "line_table",
    "locked",
    "machine",
    "make_environment",
    "median_row",
    "own_tree",
    "publish",
    "quick_parser",
    "results_document",
    "rss_mib",
    "run_wrk",
    "write_results",
]

BENCHMARKS = Path(__file__).resolve().parent
RESULTS = BENCHMARKS / "results"
CACHE = Path.home() / ".cache" / "headway"

Row = dict[str, str | int | float | bool | None]

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PR_SET_CHILD_SUBREAPER = 36
_PIP_FLAGS = ("--quiet", "--no-cache-dir", "--retries", "1", "--timeout", "20")


class LoadFailedError(RuntimeError):
    """A load did not end as a measurement: wrk is missing, failed, or met wrong answers."""


class EnvironmentUnavailableError(RuntimeError):
    """A server's environment cannot be made on this machine."""


# -- load --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One closed-loop load: `connections` clients, each sends its next call when answered."""

    url: str
    body: bytes
    connections: int
    seconds: float
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WrkResult:
    """What wrk saw of one load."""

    rps: float
    p50_ms: float
    p99_ms: float
    requests: int
    failures: int
    """Answers that were not 2xx or 3xx, plus socket errors and timeouts."""


_WRK_SCRIPT = """\
wrk.method = "POST"
wrk.body = {body}
{headers}
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '\\nRESULT {{"requests": %d, "duration_us": %d, "p50_us": %.1f, "p99_us": %.1f, ' ..
    '"failures": %d}}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


def run_wrk(load: Load) -> WrkResult:
    """Run `wrk -t1` once and return what it saw.

    Raises:
        LoadFailedError: wrk is not installed, or it did not report.
    """
    program = shutil.which("wrk")
    if program is None:
        raise LoadFailedError("wrk is not installed. hint: apt-get install wrk")
    if urllib.parse.urlsplit(load.url).hostname != "127.0.0.1":
        raise LoadFailedError(f"`{load.url}` is not on 127.0.0.1: no load is sent elsewhere")
    headers = "\n".join(
        f"wrk.headers[{_lua_string(name)}] = {_lua_string(value)}"
        for name, value in load.headers.items()
    )
    script = _WRK_SCRIPT.format(body=_lua_string(load.body.decode()), headers=headers)
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as lua:
        lua.write(script)
        lua.flush()
        seconds = max(1, round(load.seconds))
        command = [program, "-t1", f"-c{load.connections}", f"-d{seconds}s", "-s", lua.name]
        # S603: the program is wrk, its arguments are ours.
        done = subprocess.run(
            [*command, load.url], capture_output=True, text=True, timeout=seconds + 30, check=False
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not lines:
        raise LoadFailedError(f"wrk failed: {done.stdout[-300:]}{done.stderr[-300:]}")
    seen = json.loads(lines[-1].removeprefix("RESULT "))
    return WrkResult(
        rps=round(seen["requests"] / (seen["duration_us"] / 1e6), 1),
        p50_ms=round(seen["p50_us"] / 1e3, 3),
        p99_ms=round(seen["p99_us"] / 1e3, 3),
        requests=seen["requests"],
        failures=seen["failures"],
    )


def _lua_string(text: str) -> str:
    """JSON's escapes are Lua's for printable ASCII, which is all that these bodies hold."""
    return json.dumps(text)


class Http:
    """A single keep-alive connection, for probes and checks (never for timing)."""

    def __init__(self, port: int, *, timeout_s: float = 10.0) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body."""
        return self._call("GET", path, None, {})

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and body; the body is sent as JSON unless `headers` say otherwise."""
        return self._call("POST", path, body, headers or {"content-type": "application/json"})

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _call(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        self._connection.request(method, path, body=body, headers=dict(headers))
        answer = self._connection.getresponse()
        return answer.status, answer.read()


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# -- processes ---------------------------------------------------------------------------------


def adopt_orphans() -> None:
    """Make this process the parent of any descendant whose own parent ends.

    Servers that start daemons could otherwise outlive the benchmark, and their memory would be
    missing from the sum. Call it once, before the first server.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def own_tree() -> list[int]:
    """All living descendants of this process."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _stat(int(entry.name))) and stat.state != "Z":
            children.setdefault(stat.parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = list(children.get(os.getpid(), ()))
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting.extend(children.get(pid, ()))
    return found


def rss_mib(pids: Sequence[int]) -> float:
    """Resident memory of the processes, added up; pages that they share count in each."""
    pages = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def cpu_s(pids: Sequence[int]) -> float:
    """What the processes have used of the processors so far."""
    return sum(stat.ticks for pid in pids if (stat := _stat(pid))) / _TICKS_PER_S


@dataclass(slots=True)
class ServerProcess:
    """A server under test: started on entry; stopped with all that it started, on exit.

    Only one at a time: whatever descends from the benchmark and is not spared is taken to be the
    server's.
    """

    command: Sequence[str]
    is_ready: Callable[[], bool]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    ready_within_s: float = 120.0
    spares: frozenset[int] = frozenset()
    """Processes of the benchmark's own that are not the server's, and live on."""
    ready_s: float = 0.0
    """How long it took to become ready; set on entry."""
    _process: subprocess.Popen[bytes] | None = None
    _log: IO[bytes] | None = None

    def __enter__(self) -> Self:
        self._log = tempfile.TemporaryFile()
        started = time.monotonic()
        self._process = subprocess.Popen(
            list(self.command),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **self.env},
            cwd=self.cwd,
            start_new_session=True,
        )
        try:
            self._wait_until_ready(started + self.ready_within_s)
        except BaseException:
            self._stop()
            raise
        self.ready_s = round(time.monotonic() - started, 2)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def log_tail(self, size: int = 1500) -> str:
        """The end of what the server has printed."""
        assert self._log is not None
        end = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, end - size))
        return self._log.read().decode(errors="replace")

    def _wait_until_ready(self, give_up_at: float) -> None:
        assert self._process is not None
        while time.monotonic() < give_up_at:
            if self._process.poll() is not None:
                raise LoadFailedError(f"the server ended at start: {self.log_tail()}")
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                if self.is_ready():
                    return
            time.sleep(0.05)
        raise LoadFailedError(f"not ready in {self.ready_within_s:.0f} s: {self.log_tail()}")

    def _stop(self) -> None:
        """TERM to the first process, then KILL to whatever is left of the tree."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
        for _ in range(50):
            left = [pid for pid in own_tree() if pid not in self.spares]
            if not left:
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        _reap_adopted()
        if self._log is not None:
            self._log.close()


def _reap_adopted() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


@dataclass(frozen=True, slots=True)
class _Stat:
    state: str
    parent: int
    ticks: int


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(fields[0], int(fields[1]), int(fields[11]) + int(fields[12]))


class Interval:
    """How many cores the programs that are not ours kept busy between entry and exit."""

    others_cores: float = 0.0
    wall_s: float = 0.0

    def __enter__(self) -> Self:
        self._at = time.monotonic()
        self._busy, self._ours = _busy_ticks(), _our_ticks()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_s = time.monotonic() - self._at
        wall_ticks = self.wall_s * _TICKS_PER_S
        busy, ours = _busy_ticks() - self._busy, _our_ticks() - self._ours
        self.others_cores = round(max(0.0, (busy - ours) / wall_ticks), 2)


def _busy_ticks() -> int:
    """All cores: everything but idle and waiting for disks; time stolen by a host counts."""
    numbers = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(numbers) - numbers[3] - numbers[4]


def _our_ticks() -> float:
    living = sum(stat.ticks for pid in own_tree() if (stat := _stat(pid)))
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = resource.getrusage(resource.RUSAGE_SELF)
    seconds = ended.ru_utime + ended.ru_stime + own.ru_utime + own.ru_stime
    return living + seconds * _TICKS_PER_S


def make_environment(
    path: Path, packages: Sequence[str], *, python: str | None = None, progress: IO[str]
) -> Path:
    """The Python of a virtual environment that holds `packages`, made on first use.

    Raises:
        EnvironmentUnavailableError: pip could not install them.
    """
    program, done = path / "bin" / "python", path / ".packages"
    wanted = "\n".join(packages)
    with locked(path):
        if done.exists() and done.read_text() == wanted:
            return program
        print(f"making {path} ({', '.join(packages)})", file=progress, flush=True)
        _run([python or sys.executable, "-m", "venv", "--clear", str(path)])
        _run(["nice", str(program), "-m", "pip", "install", *_PIP_FLAGS, *packages])
        done.write_text(wanted)
    return program


def download(package: str, folder: Path, *, platforms: Sequence[str]) -> None:
    """Put a package's wheel into a folder, without those that it needs.

    Raises:
        EnvironmentUnavailableError: pip could not.
    """
    wanted = [flag for platform in platforms for flag in ("--platform", platform)]
    pip = [sys.executable, "-m", "pip", "download", *_PIP_FLAGS, "--no-deps"]
    _run([*pip, "--only-binary", ":all:", *wanted, "--dest", str(folder), package])


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold others back that would make the same folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: Sequence[str]) -> None:
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, env=_environ_for_pip()
    )
    if ran.returncode:
        raise EnvironmentUnavailableError(f"{command[-1]}: {ran.stderr.strip()[-300:]}")


def _environ_for_pip() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME"}}


# -- results -----------------------------------------------------------------------------------


def machine() -> Row:
    """What the figures were measured on."""
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line for line in lines if line.startswith("model name")).split(": ", 1)[1]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
    }


def results_document(
    name: str, rows: Sequence[Row], *, notes: Sequence[str] = (), emulated: bool = False
) -> str:
    """The JSON text of a results file.

    Args:
        name: The file's name without its ending.
        emulated: Whether any figure is of an accelerator that was not there.
        notes: What a reader must know and no row can say.
    """
    document: dict[str, object] = {
        "name": name,
        "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
        "commit": _commit(),
        "machine": machine(),
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "emulated": emulated,
        "rows": list(rows),
    }
    if notes:
        document["notes"] = list(notes)
    return json.dumps(document, indent=1) + "\n"


def write_results(name: str, text: str) -> Path:
    """Put the text where the documentation's figures are taken from."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(text)
    return path


def quick_parser(doc: str | None, quick: str) -> argparse.ArgumentParser:
    """The flags that every benchmark has; ``quick`` says what its short form leaves out."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--format", choices=("table", "json"), default="table")
    return parser


def publish(
    name: str,
    rows: Sequence[Row],
    columns: Sequence[str],
    options: argparse.Namespace,
    *,
    notes: Sequence[str] = (),
    emulated: bool = False,
) -> None:
    """Print what was measured as the flags ask; a full run also becomes the results file."""
    document = results_document(name, rows, notes=notes, emulated=emulated)
    if options.format == "json":
        sys.stdout.write(document)
    else:
        print("\n".join(line_table(rows, columns)))
    if not options.quick:
        write_results(name, document)


def median_row(rows: Sequence[Row]) -> Row:
    """One row of several rounds: medians of floats, the greatest of whole-number failures.

    Everything else must agree between the rounds and is taken from the first.
    """
    first = rows[0]
    merged: Row = dict(first)
    for key, value in first.items():
        if isinstance(value, float):
            numbers = [number for row in rows if isinstance(number := row[key], float)]
            merged[key] = round(statistics.median(numbers), 3)
        elif key == "failures":
            merged[key] = max(number for row in rows if isinstance(number := row[key], int))
    merged["rounds"] = len(rows)
    return merged


def line_table(rows: Sequence[Row], columns: Sequence[str]) -> Iterator[str]:
    """The rows as aligned text, one line each, the header first."""
    cells = [list(columns)] + [[str(row.get(column, "-")) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))


def _commit() -> str:
    git = shutil.which("git")
    if git is None:
        return "unknown"
    ran = subprocess.run(
        [git, "-C", str(BENCHMARKS), "rev-parse", "--short=12", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout.strip() or "uncommitted"
