"""Ten times more requests than a server can serve: is each answered once, and does memory stay?

A model that takes a fixed time for a batch makes the capacity known. Requests come at a fixed rate
whatever becomes of the earlier ones, every fourth with a short budget of its own. Each second of
the run is a row: what was sent, how it was answered, the memory of the server's processes. The last
row is the whole: the server's own counts stand there beside those of the clients.

Usage: `python benchmarks/overload.py [--seconds 30] [--quick] [--format table|json]`. `--quick` is
a run of 8 s. With `--format json` the document goes to stdout; otherwise a table, and the document
to `benchmarks/results/overload.json`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import harness
from prometheus_client.parser import text_string_to_metric_families

__all__ = ["Slow", "main"]

NAME = "overload"
SLOTS = 2
ROWS_MAX = 2
BATCH_S = 0.04
WAITING_MAX = 32
CAPACITY_RPS = SLOTS * ROWS_MAX / BATCH_S
OVERLOAD = 10
SHORT_BUDGET_MS = 150
CONNECTIONS_MAX = 512
TICK_S = 0.01
PATH = "/v2/models/slow/infer"
OUTCOMES = {200: "completed", 429: "rejected", 504: "expired"}
COLUMNS = (
    "part",
    "sent",
    "answered",
    "completed",
    "rejected",
    "expired",
    "other",
    "lost",
    "wrong",
    "rejected_p99_ms",
    "rss_mib",
)
NOTES = (
    f"Capacity is {CAPACITY_RPS:.0f} requests a second by construction; {OVERLOAD} times that is"
    f" sent, open loop; {WAITING_MAX} may wait.",
    f"Every fourth request has {SHORT_BUDGET_MS} ms, the others 10 s. Clients do not heed"
    " Retry-After.",
    "wrong: an answer with another request's data, or a 429 without Retry-After.",
    "rss_mib adds up the server's processes at the end of each second, shared pages in each.",
)


class Slow:
    """The model that the server runs: gives back what it gets, after a while."""

    inputs = ({"name": "x", "datatype": "FP32", "shape": [-1, 4]},)
    outputs = ({"name": "y", "datatype": "FP32", "shape": [-1, 4]},)

    def infer(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """One batch."""
        time.sleep(BATCH_S)
        return {"y": batch["x"]}


def config(port: int) -> str:
    """What the server is to do; JSON is YAML, too."""
    return json.dumps(
        {
            "server": {"port": port},
            "tiers": {"standard": {"budget": "10s"}},
            "models": [
                {
                    "name": "slow",
                    "path": f"{Path(__file__).resolve()}:Slow",
                    "batch": {"rows_max": ROWS_MAX},
                    "queue": {"requests_max": WAITING_MAX},
                }
            ],
            "devices": [
                {"cores": [min(os.sched_getaffinity(0))], "slots_per_core": SLOTS, "pin": False}
            ],
        }
    )


@dataclass(slots=True)
class Tally:
    """What clients saw in some part of the run."""

    sent: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    """Requests without an answer, by what happened to their connection."""
    wrong: int = 0
    rejected_ms: list[float] = field(default_factory=list)
    rss_mib: float = 0.0

    def add(self, other: Tally) -> None:
        """Count another part in."""
        self.sent += other.sent
        self.answers += other.answers
        self.lost += other.lost
        self.wrong += other.wrong
        self.rejected_ms += other.rejected_ms
        self.rss_mib = max(self.rss_mib, other.rss_mib)

    def row(self, part: str) -> harness.Row:
        """As a row of the results."""
        in_order = sorted(self.rejected_ms)
        p99_ms = in_order[int(len(in_order) * 0.99)] if in_order else 0.0
        known = {outcome: self.answers[outcome] for outcome in OUTCOMES.values()}
        return {
            "part": part,
            "sent": self.sent,
            "answered": self.answers.total(),
            **known,
            "other": self.answers.total() - sum(known.values()),
            "lost": self.lost.total(),
            "wrong": self.wrong,
            "rejected_p99_ms": round(p99_ms, 2),
            "rss_mib": self.rss_mib,
        }


class Crowd:
    """Clients without mercy: a request every so often, each on a connection that is free."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._open_count = 0
        self.now = Tally()
        self.parts: list[Tally] = []

    async def play(self, seconds: float) -> None:
        """Send for so long, then wait for what is still to be answered."""
        loop = asyncio.get_running_loop()
        started_at_s = loop.time()
        sent = 0
        async with asyncio.TaskGroup() as group:
            while (elapsed_s := loop.time() - started_at_s) < seconds:
                due = int(elapsed_s * CAPACITY_RPS * OVERLOAD)
                for number in range(sent, due):
                    group.create_task(self._ask(number))
                sent = due
                if elapsed_s >= len(self.parts) + 1:
                    self._end_part()
                await asyncio.sleep(TICK_S)
        self._end_part()
        for _, writer in self._free:
            writer.close()
            await writer.wait_closed()

    def _end_part(self) -> None:
        self.now.rss_mib = harness.rss_mib(harness.own_tree())
        self.parts.append(self.now)
        self.now = Tally()

    async def _ask(self, number: int) -> None:
        """One request, and its answer."""
        if not self._free and self._open_count >= CONNECTIONS_MAX:
            return  # never sent: every client there is still waits for its answer
        self.now.sent += 1
        started_at_s = time.perf_counter()
        try:
            if self._free:
                reader, writer = self._free.pop()
            else:
                self._open_count += 1
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(request(number))
            head = await reader.readuntil(b"\r\n\r\n")
            status, headers = parse_head(head)
            body = await reader.readexactly(int(headers["content-length"]))
        except (OSError, asyncio.IncompleteReadError) as error:
            self._open_count -= 1
            self.now.lost[repr(error)] += 1
            return
        self._free.append((reader, writer))
        outcome = OUTCOMES.get(status, str(status))
        self.now.answers[outcome] += 1
        self.now.wrong += not is_right(number, status, headers, body)
        if outcome == "rejected":
            self.now.rejected_ms.append((time.perf_counter() - started_at_s) * 1e3)


def data_of(number: int) -> list[float]:
    """What a request carries; float32 holds these exactly."""
    return [float(number), float(number % 7), 1.0, 2.0]


def request(number: int) -> bytes:
    """A whole HTTP request."""
    tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": data_of(number)}
    body = json.dumps({"inputs": [tensor]}).encode()
    budget = "" if number % 4 else f"headway-budget-ms: {SHORT_BUDGET_MS}\r\n"
    head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\n{budget}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    """Status and headers."""
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}


def is_right(number: int, status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """A reply has the request's own data, a refusal says when to come back."""
    if status == 200:
        return bool(json.loads(body)["outputs"][0]["data"] == data_of(number))
    return status != 429 or "retry-after" in headers


def counts_of(port: int) -> dict[str, int]:
    """What the server counted, by outcome, and how many still wait."""
    _, text = harness.Http(port).get("/metrics")
    found: Counter[str] = Counter()
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            if sample.name == "headway_requests_total":
                found[sample.labels["outcome"]] += int(sample.value)
            elif sample.name in {"headway_queue_depth", "headway_slots_busy"}:
                found[sample.name] += int(sample.value)
    return dict(found)


def run(seconds: float) -> list[harness.Row]:
    """Start a server, flood it, and count.

    Raises:
        LoadFailedError: the server did not start.
    """
    harness.adopt_orphans()
    port = harness.free_port()
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "overload.yaml"
        path.write_text(config(port))
        command = [sys.executable, "-m", "headway", "serve", str(path)]

        def is_ready() -> bool:
            return harness.Http(port).get("/v2/health/ready")[0] == 200

        with harness.ServerProcess(command, is_ready) as server, harness.Interval() as interval:
            crowd = Crowd(port)
            asyncio.run(crowd.play(seconds))
            counts = counts_of(port)
            still_mib = harness.rss_mib(harness.own_tree())
            log = server.log_tail()
    whole = Tally()
    for part in crowd.parts:
        whole.add(part)
    rows = [part.row(f"second {index + 1}") for index, part in enumerate(crowd.parts)]
    # Answers are counted where they come, which may be a second after they were asked for.
    total: harness.Row = {
        **whole.row("all"),
        "rss_mib_first": crowd.parts[0].rss_mib,
        "rss_mib_after": still_mib,
        "offered_rps": CAPACITY_RPS * OVERLOAD,
        "counted": sum(counts.get(o, 0) for o in ("completed", "rejected", "expired", "failed")),
        "counted_cancelled": counts.get("cancelled", 0),
        "left_waiting": counts["headway_queue_depth"] + counts["headway_slots_busy"],
        "others_cores": interval.others_cores,
    }
    if whole.lost or '"level":"error"' in log:
        sys.stderr.write(f"{dict(whole.lost)}\n{log}")
    return [*rows, total]


def main() -> int:
    """Run once and put the figures where they are asked for."""
    parser = harness.quick_parser(__doc__, "unless told, a flood of 8 s")
    parser.add_argument("--seconds", type=float, help="how long the flood lasts (30)")
    arguments = parser.parse_args()
    rows = run(arguments.seconds or (8.0 if arguments.quick else 30.0))
    # A flood of another length is no results file, or every test would replace the measured one.
    arguments.quick = arguments.quick or arguments.seconds is not None
    harness.publish(NAME, rows, COLUMNS, arguments, notes=NOTES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
