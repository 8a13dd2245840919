"""What a server holds: resident memory at rest and after many requests, and how soon it is ready.

`headway serve` with an echo model in one worker process. wrk sends in equal parts until the wanted
number of requests is reached; after each part the memory of parent and worker is read. The slope is
a least-squares line through those readings, the first part left out, in which caches fill.

Usage: `python benchmarks/memory.py [--quick] [--format table|json]`. With `--format json` the
document goes to stdout; otherwise a table, and a full run puts the document into
`benchmarks/results/memory.json`. Needs wrk.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import harness
from harness import Row

NAME = "memory"
COLUMNS = (
    "moment",
    "requests",
    "parent_mib",
    "workers_mib",
    "total_mib",
    "ready_s",
    "mib_per_100k_requests",
    "others_cores",
)
BODY = json.dumps(
    {
        "inputs": [
            {
                "name": "x",
                "datatype": "FP32",
                "shape": [1, 16],
                "data": [float(n) for n in range(16)],
            }
        ]
    }
).encode()
CONNECTIONS = 8
PARTS_MAX = 60


def configuration(port: int) -> str:
    """An echo model, and queues that the load does not fill."""
    echo = harness.BENCHMARKS.parent / "examples" / "echo_model.py"
    return f"""\
server: {{host: 127.0.0.1, port: {port}}}
models:
  - {{name: echo, path: "{echo}:Echo"}}
"""


def readings() -> Row:
    """Resident memory of the server's processes, the first of which is the parent."""
    tree = harness.own_tree()
    # The server was started first, and whatever it started has a greater number.
    parent, *workers = sorted(tree)
    return {
        "parent_mib": harness.rss_mib([parent]),
        "workers_mib": harness.rss_mib(workers),
        "total_mib": harness.rss_mib(tree),
    }


def measure(requests: int, seconds: float) -> list[Row]:
    """One server: at rest, after each part of the load, and the slope."""
    port = harness.free_port()

    def is_ready() -> bool:
        return harness.Http(port).get("/v2/health/ready")[0] == 200

    with tempfile.TemporaryDirectory() as home:
        config = Path(home) / "echo.yaml"
        config.write_text(configuration(port))
        command = [sys.executable, "-m", "headway", "serve", str(config)]
        with harness.ServerProcess(command, is_ready) as server:
            rows: list[Row] = [
                {"moment": "ready", "requests": 0, **readings(), "ready_s": server.ready_s}
            ]
            load = harness.Load(
                url=f"http://127.0.0.1:{port}/v2/models/echo/infer",
                body=BODY,
                connections=CONNECTIONS,
                seconds=seconds,
            )
            sent = 0
            while sent < requests and len(rows) <= PARTS_MAX:
                with harness.Interval() as interval:
                    seen = harness.run_wrk(load)
                if seen.failures:
                    raise harness.LoadFailedError(f"{seen.failures} answers were no echo")
                sent += seen.requests
                rows.append(
                    {
                        "moment": "loaded",
                        "requests": sent,
                        **readings(),
                        "rps": seen.rps,
                        "others_cores": interval.others_cores,
                    }
                )
                print(f"{sent} requests", file=sys.stderr, flush=True)
    rows[-1]["mib_per_100k_requests"] = slope(rows[2:])
    return rows


def slope(rows: Sequence[Row]) -> float | None:
    """MiB for each 100,000 requests; None with fewer than two readings."""
    if len(rows) < 2:
        return None
    requests = [float(row["requests"] or 0) for row in rows]
    total_mib = [float(row["total_mib"] or 0) for row in rows]
    return round(statistics.linear_regression(requests, total_mib).slope * 100_000, 3)


def ready_times(count: int) -> list[float]:
    """Start a server some times more, for its time to be ready alone."""
    return [float(measure(0, 1)[0]["ready_s"] or 0) for _ in range(count)]


def main() -> int:
    """Measure, and put the figures where they are asked for."""
    arguments = harness.quick_parser(__doc__, "20,000 requests instead of 100,000").parse_args()
    harness.adopt_orphans()
    try:
        rows = measure(20_000, 2) if arguments.quick else measure(100_000, 5)
        times = [float(rows[0]["ready_s"] or 0), *ready_times(1 if arguments.quick else 4)]
    except harness.LoadFailedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    rows[0]["ready_s"] = round(statistics.median(times), 2)
    harness.publish(
        NAME,
        rows,
        COLUMNS,
        arguments,
        notes=[
            f"wrk -t1 -c{CONNECTIONS} on the same machine, 16 floats a request, one worker.",
            "Pages that parent and worker share count in each; the shared tensor arena counts as "
            "far as it was touched.",
            f"ready_s: process start to /v2/health/ready, the median of {len(times)} starts, "
            "asked for every 50 ms.",
        ],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
