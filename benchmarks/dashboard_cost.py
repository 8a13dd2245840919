"""What it costs a server to be watched: its processor time with no page, with one, and with ten.

A server with emulated devices gets a steady load while so many viewers read its stream of events,
as pages do. `cpu_percent` is what the server's process used of one core, `added_percent` how much
more that is than with nobody watching; the median over rounds in which the numbers of viewers take
turns. Emulated, because a batch then costs no processor time that would hide what is looked for.

Usage: `python benchmarks/dashboard_cost.py [--quick] [--format table|json]`. A full run puts the
document into `benchmarks/results/dashboard_cost.json`; the guide on the page quotes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NamedTuple

import harness
from harness import Row

NAME = "dashboard_cost"
COLUMNS = (
    "load_rps",
    "viewers",
    "cpu_percent",
    "added_percent",
    "event_kib",
    "sent_rps",
    "others_cores",
)
VIEWERS = (0, 1, 10)
CONNECTIONS = 20
"""That share the load; each request of one is sent when the one before is answered."""
SETTLE_S = 2.0
"""After viewers came and before it is measured: the first glance is a large one."""
HOST = "127.0.0.1"
TENSOR = {"name": "x", "datatype": "FP32", "shape": [1, 16], "data": [1.0] * 16}
BODY = json.dumps({"inputs": [TENSOR]}).encode()


class Plan(NamedTuple):
    """How much is measured."""

    loads_rps: Sequence[int]
    rounds: int
    seconds: float


FULL = Plan((0, 100, 500), rounds=3, seconds=8.0)
QUICK = Plan((0, 200), rounds=1, seconds=4.0)


def config(port: int) -> str:
    """Two tiers and eight models on the slots of two cards."""
    names = [f"model-{index}" for index in range(8)]
    return json.dumps(
        {
            "server": {"port": port},
            "devices": [
                {"name": f"gpu:{index}", "kind": "emulated", "accelerator": "a100-pcie4"}
                for index in range(2)
            ],
            "tiers": {
                "live": {"priority": 0, "budget": "200ms"},
                "bulk": {"priority": 5, "budget": "5s", "slot_class": "low"},
            },
            "models": [
                {
                    "name": name,
                    "tier": "bulk" if index % 2 else "live",
                    "devices": ["gpu:0", "gpu:1"],
                    "batch": {"rows_max": 8},
                    "options": {"solo": "4ms", "row": "1ms", "occupancy": 0.2},
                    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 16]}],
                    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}],
                }
                for index, name in enumerate(names)
            ],
            "policy": {"kind": "headway"},
        }
    )


class Server(NamedTuple):
    """The one that is measured."""

    port: int
    pid: int

    def cpu_ns(self) -> int:
        """What its threads have used of the processors so far."""
        paths = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(path.read_text().split()[0]) for path in paths)


class Seen:
    """What came back."""

    def __init__(self) -> None:
        self.answers = 0
        self.events = 0
        self.event_bytes = 0


async def watch(server: Server, seen: Seen) -> None:
    """A viewer: reads events for ever, as a page does."""
    reader, writer = await asyncio.open_connection(HOST, server.port, limit=4 << 20)
    try:
        writer.write(f"GET /admin/events HTTP/1.1\r\nhost: {HOST}\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        while line := await reader.readline():
            if line.startswith(b"data:"):
                seen.events += 1
                seen.event_bytes += len(line)
    finally:
        writer.close()


async def ask(server: Server, index: int, gap_s: float, seen: Seen) -> None:
    """A connection that asks at its instants, one after another."""
    path = f"/v2/models/model-{index % 8}/infer"
    head = f"POST {path} HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: {len(BODY)}\r\n\r\n"
    reader, writer = await asyncio.open_connection(HOST, server.port)
    loop = asyncio.get_running_loop()
    at_s = loop.time() + gap_s * index / CONNECTIONS
    try:
        while True:
            await asyncio.sleep(at_s - loop.time())
            at_s = max(at_s + gap_s, loop.time() - gap_s)
            writer.write(head.encode() + BODY)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = answer.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
            if not answer.startswith(b"http/1.1 200"):
                raise harness.LoadFailedError(answer.decode().splitlines()[0])
            seen.answers += 1
    finally:
        writer.close()


@contextlib.asynccontextmanager
async def going_on(server: Server, load_rps: int, viewers: int, seen: Seen) -> AsyncIterator[None]:
    """Load and viewers, ended in the end."""
    async with asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(watch(server, seen)) for _ in range(viewers)]
        if load_rps:
            gap_s = CONNECTIONS / load_rps
            begun += [
                tasks.create_task(ask(server, index, gap_s, seen)) for index in range(CONNECTIONS)
            ]
        yield
        for each in begun:
            each.cancel()


async def one(server: Server, load_rps: int, viewers: int, seconds: float) -> Row:
    """One measurement."""
    seen = Seen()
    async with going_on(server, load_rps, viewers, seen):
        await asyncio.sleep(SETTLE_S)
        seen.answers = seen.events = seen.event_bytes = 0
        with harness.Interval() as interval:
            before_ns = server.cpu_ns()
            await asyncio.sleep(seconds)
            used_ns = server.cpu_ns() - before_ns
    assert bool(seen.events) == bool(viewers), "viewers are sent events, and only they"
    return {
        "load_rps": load_rps,
        "viewers": viewers,
        "cpu_percent": used_ns / 1e7 / interval.wall_s,
        "event_kib": seen.event_bytes / seen.events / 1024 if seen.events else 0.0,
        "sent_rps": seen.answers / interval.wall_s,
        "others_cores": interval.others_cores,
    }


def merged(rounds: Sequence[Sequence[Row]]) -> list[Row]:
    """A row for each load and number of viewers; what is added is added within a round."""
    rows = []
    for index, first in enumerate(rounds[0]):
        alike = [played[index] for played in rounds]
        alone = [
            next(
                row
                for row in played
                if row["load_rps"] == first["load_rps"] and row["viewers"] == 0
            )
            for played in rounds
        ]
        added = [
            float(row["cpu_percent"] or 0) - float(without["cpu_percent"] or 0)
            for row, without in zip(alike, alone, strict=True)
        ]
        row = harness.median_row(alike)
        rows.append(row | {"added_percent": round(statistics.median(added), 3)})
    return rows


def measure(plan: Plan) -> list[Row]:
    """All of it, on one server."""
    port = harness.free_port()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "serve.yaml"
        path.write_text(config(port))

        def is_ready() -> bool:
            return harness.Http(port).get("/v2/health/ready")[0] == 200

        command = [sys.executable, "-m", "headway", "serve", str(path)]
        with harness.ServerProcess(command, is_ready):
            (pid,) = harness.own_tree()
            server = Server(port, pid)
            rounds = [
                [
                    asyncio.run(one(server, load_rps, viewers, plan.seconds))
                    for load_rps in plan.loads_rps
                    for viewers in VIEWERS
                ]
                for _ in range(plan.rounds)
            ]
    return merged(rounds)


def main() -> int:
    """Measure, and put the figures where they are asked for."""
    parser = harness.quick_parser(__doc__, "one short round")
    arguments = parser.parse_args()
    rows = measure(QUICK if arguments.quick else FULL)
    notes = [
        "cpu_percent is of one core, of the server's process; added_percent is what viewers add.",
        "event_kib is the size of one event; each viewer is sent two a second.",
    ]
    harness.publish(NAME, rows, COLUMNS, arguments, notes=notes, emulated=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
