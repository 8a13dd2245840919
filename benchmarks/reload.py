"""Models that come and go under load, and a server that does: what fails, and what stays behind.

1. *reloads*: requests at a fixed rate while a model is reloaded again and again, each version with
   a stamp of its own; none may fail, and each answer must be of the version that it says.
2. *cycles*: a model is unloaded and loaded, over and over, and asked once each time. Resident
   memory, descriptors and threads of server and workers are read after each; their slopes are
   Theil-Sen over the cycles, the first fifth left out.
3. *restarts*: clients that retry ask for what they want until they have it, while the server is
   told to end and started again, then killed and started again, on the same port. Each request has
   its own right answer in the end, and whatever waits past the grace is answered 503.

Usage: `python benchmarks/reload.py [--quick] [--format table|json]`. `--quick` takes a fifth of
everything. With `--format json` the document goes to stdout; otherwise a table, and the document to
`benchmarks/results/reload.json`. Exits with 1 where something failed.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import harness
from harness import Row
from soaking.figures import percentile, slope
from soaking.restarts import restarted
from soaking.stamped import StampedServer, answer_of, configuration, request
from soaking.wire import HttpPool

NAME = "reload"
RATE_RPS = 50
RELOADS, RELOAD_EVERY_S = 20, 1.5
CYCLES = 100
GROWTH_MIB_MAX = 4.0
COLUMNS = (
    "part",
    "requests",
    "failed",
    "wrong",
    "reloads",
    "versions_seen",
    "p99_ms",
    "cycles",
    "mib_before",
    "mib_after",
    "kib_per_cycle",
    "fds_per_cycle",
    "restarts",
    "retries",
    "told_at_the_end",
    "holds",
)


@dataclass(slots=True)
class Seen:
    """What clients saw."""

    asked: int = 0
    failures: list[str] = field(default_factory=list)
    wrong: int = 0
    stamps: set[int] = field(default_factory=set)
    latencies_ms: list[float] = field(default_factory=list)


async def under_reloads(server: StampedServer, reloads: int) -> Row:
    """Reload so many times while requests come at their rate."""
    seen, pool = Seen(), HttpPool(server.port)
    is_over = asyncio.Event()

    async def ask(number: int) -> None:
        seen.asked += 1
        began_s = time.perf_counter()
        try:
            response = await pool.ask(request(number))
        except OSError as error:
            seen.failures.append(repr(error))
            return
        seen.latencies_ms.append((time.perf_counter() - began_s) * 1e3)
        if response.status != 200:
            seen.failures.append(f"{response.status}: {response.body[:200]!r}")
            return
        answer = answer_of(response.body)
        seen.stamps.add(answer.stamp)
        seen.wrong += not answer.is_right(number)

    async def arrive() -> None:
        number, at_s = 0, time.monotonic()
        async with asyncio.TaskGroup() as group:
            while not is_over.is_set():
                number, at_s = number + 1, at_s + 1 / RATE_RPS
                await asyncio.sleep(max(0.0, at_s - time.monotonic()))
                group.create_task(ask(number))

    async with asyncio.TaskGroup() as group:
        group.create_task(arrive())
        for stamp in range(1, reloads + 1):
            await asyncio.sleep(RELOAD_EVERY_S)
            await asyncio.to_thread(server.load, "stamped", stamp)
        await asyncio.sleep(RELOAD_EVERY_S)
        is_over.set()
    await pool.close()
    for failure in seen.failures[:10]:
        print(f"failed: {failure}", file=sys.stderr)
    return {
        "part": "reloads",
        "requests": seen.asked,
        "failed": len(seen.failures),
        "wrong": seen.wrong + pool.extra,
        "reloads": reloads,
        "versions_seen": len(seen.stamps),
        "p99_ms": round(percentile(seen.latencies_ms, 0.99), 2),
        "rate_rps": RATE_RPS,
        "holds": not seen.failures and not seen.wrong and not pool.extra,
    }


def cycled(server: StampedServer, cycles: int) -> Row:
    """Unload and load so many times."""
    readings = []
    failed = 0
    for cycle in range(cycles + 1):
        server.unload("other")
        server.load("other", cycle)
        answer = server.ask("other", cycle)
        failed += not (answer.stamp == cycle and answer.is_right(cycle))
        readings.append((float(cycle), server.held()))
    mib = [(at, one.mib) for at, one in readings]
    fds = [(at, float(one.descriptors)) for at, one in readings]
    kib_per_cycle = slope(mib) * 1024
    return {
        "part": "cycles",
        "requests": cycles + 1,
        "failed": failed,
        "cycles": cycles,
        "mib_before": readings[1][1].mib,
        "mib_after": readings[-1][1].mib,
        "kib_per_cycle": round(kib_per_cycle, 2),
        "fds_per_cycle": round(slope(fds), 3),
        "workers": readings[-1][1].workers,
        "holds": not failed
        and kib_per_cycle * cycles <= GROWTH_MIB_MAX * 1024
        and slope(fds) * cycles < 1,
    }


def measure(is_quick: bool) -> Sequence[Row]:
    """A row for each part."""
    share = 5 if is_quick else 1
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as home:
        port, path = harness.free_port(), Path(home) / "reload.yaml"
        path.write_text(configuration(port, "stamped", "other"))
        server = StampedServer(path, port)
        try:
            server.wait_ready()
            rows.append(asyncio.run(under_reloads(server, RELOADS // share)))
            rows.append(cycled(server, CYCLES // share))
        finally:
            server.kill()
        times = 1 if is_quick else 5
        rows += [
            asyncio.run(restarted(Path(home), number, times))
            for number in (signal.SIGTERM, signal.SIGKILL)
        ]
    return rows


def main() -> int:
    """Measure, and put the figures where they are asked for."""
    options = harness.quick_parser(__doc__, "a fifth of the reloads and cycles").parse_args()
    harness.adopt_orphans()
    rows = measure(options.quick)
    harness.publish(
        NAME,
        rows,
        COLUMNS,
        options,
        notes=[
            f"Requests at {RATE_RPS} a second; a reload every {RELOAD_EVERY_S} s.",
            "mib: resident memory of the server and its workers, shared pages in each.",
            "Restarts, a row for each signal, are under 24 clients that retry what is refused or"
            " cut off; told_at_the_end are requests that waited past the grace, answered 503.",
        ],
    )
    return 0 if all(row["holds"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
