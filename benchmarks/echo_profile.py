"""Where the time of an echo goes: the server's main thread, sampled under load, by part.

The echo of `http_echo.py` at 32 connections, py-spy sampling the parent process. A sample counts
for the part whose code was on top of the stack; system calls count for whoever made them. What one
request costs in all is the time of the thread over the requests answered, since it is saturated.

Usage: `python benchmarks/echo_profile.py [--quick] [--format table|json]`. Needs wrk and py-spy.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import harness
import http_echo
from harness import Row

NAME = "echo_profile"
COLUMNS = ("part", "share_percent", "us_per_request")
CONNECTIONS = 32
PARTS = {
    "headway/core/": "kernel",
    "headway/policy/": "kernel",
    "headway/predict/": "kernel",
    "headway/runtime/": "engine and driver",
    "headway/observe/": "metrics",
    "headway/executors/": "batch to the worker and back, its send and recv",
    "headway/frontends/http_connection": "HTTP protocol and the write of the answer",
    "headway/frontends/direct": "HTTP protocol and the write of the answer",
    "headway/frontends/": "JSON to tensors and back",
    "uvicorn/": "uvicorn: request heads",
    "asyncio/runners": "event loop: polling, reading sockets, parsing HTTP",
}


def part_of(stack: str) -> str:
    """The part of the innermost frame that belongs to one."""
    for frame in reversed(stack.split(";")):
        for prefix, part in PARTS.items():
            if prefix in frame:
                return part
    return "other"


def sample(seconds: int) -> list[Row]:
    """Load the server and sample it meanwhile."""
    spy = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if spy is None:
        raise harness.LoadFailedError("py-spy is not installed (hint: pip install py-spy)")
    port = harness.free_port()
    with tempfile.TemporaryDirectory() as folder:
        launch = http_echo.launch_headway(Path(folder), port)
        out = Path(folder) / "samples.txt"

        def is_ready() -> bool:
            return harness.Http(port).get(launch.ready)[0] == 200

        with harness.ServerProcess(launch.command, is_ready):
            parent = min(harness.own_tree())
            command = [spy, "record", "-d", str(seconds), "-r", "200", "-f", "raw"]
            command += ["-o", str(out), "-p", str(parent)]
            with subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ) as spying:
                seen = harness.run_wrk(
                    harness.Load(
                        url=f"http://127.0.0.1:{port}{launch.path}",
                        body=launch.body,
                        connections=CONNECTIONS,
                        seconds=seconds,
                    )
                )
                spying.wait(timeout=60)
        counts: Counter[str] = Counter()
        for line in out.read_text().splitlines():
            stack, _, count = line.rpartition(" ")
            counts[part_of(stack)] += int(count)
    total = counts.total()
    return [
        {
            "part": part,
            "share_percent": round(100 * count / total, 1),
            "us_per_request": round(1e6 / seen.rps * count / total, 1),
        }
        for part, count in counts.most_common()
    ]


def main() -> int:
    """Sample, and put the figures where they are asked for."""
    arguments = harness.quick_parser(__doc__, "5 s instead of 20").parse_args()
    harness.adopt_orphans()
    try:
        rows = sample(5 if arguments.quick else 20)
    except harness.LoadFailedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    note = f"wrk -t1 -c{CONNECTIONS} on the same machine; sampling itself takes a few per cent."
    harness.publish(NAME, rows, COLUMNS, arguments, notes=[note])
    return 0


if __name__ == "__main__":
    sys.exit(main())
