"""What one decision costs: `Kernel.handle` for each kind of event, and how that grows with waiting.

A device of eight slots is kept busy and a queue over eight models full: every finished batch is
followed by as many arrivals as it let out of the queue, some of which give up or run out of time.
Only the call of `handle` is timed. Python's garbage collector runs as it does in a server.

With the predictor `mean`, which only keeps running means, that is the kernel's own cost; with
`headway`, which foresees every request and batch among its neighbours, it is a server's.

Usage: `python benchmarks/kernel.py [--quick] [--format table|json]`. With `--format json` the
document goes to stdout; otherwise a table, and a full run puts the document into
`benchmarks/results/kernel.json`.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random
from time import perf_counter_ns

from harness import Interval, Row, publish, quick_parser

from headway.core import (
    BatchFinished,
    BucketKey,
    Command,
    DeviceName,
    DeviceParams,
    Dispatch,
    Event,
    Kernel,
    KernelParams,
    LoadReplica,
    ModelLoadRequested,
    ModelName,
    ModelParams,
    Policy,
    Predictor,
    ReplicaId,
    ReplicaLoaded,
    ReplicaWarmed,
    Request,
    RequestArrived,
    RequestCancelled,
    RequestId,
    SetTimer,
    SlotClass,
    TenantId,
    TierName,
    TimerFired,
)
from headway.policy import edf, fifo, priority
from headway.predict import Recipe, build_predictor
from headway.testing import MeanPredictor

NAME = "kernel"
PREDICTORS: dict[str, Callable[[Sequence[DeviceParams]], Predictor]] = {
    "mean": lambda devices: MeanPredictor(),  # noqa: ARG005 - as its sibling
    "headway": lambda devices: build_predictor(Recipe(kind="headway"), devices),
}
POLICIES: dict[str, Callable[[Predictor], Policy]] = {
    "fifo": fifo,
    "priority": priority,
    "edf": edf,
}
DEVICE = DeviceName("cpu:0")
MODELS = tuple(ModelName(f"model-{index}") for index in range(8))
SLOTS = 8
BATCH_ROWS_MAX = 4
TIERS = ((0, SlotClass.HIGH), (1, SlotClass.HIGH), (2, SlotClass.LOW))
STEP_NS = 1_000_000
"""Virtual time from one finished batch to the next."""
CANCEL_RATIO = 0.05
SIZES = (100, 1_000, 10_000, 100_000)
EVENTS = 100_000
EVENTS_QUICK = 10_000
COLUMNS = (
    "policy",
    "predictor",
    "waiting",
    "event",
    "count",
    "median_us",
    "p99_us",
    "max_us",
    "others_cores",
)


@dataclass(slots=True)
class Driver:
    """Feeds one kernel and notes what each call took."""

    kernel: Kernel
    waiting: int
    chance: Random
    now_ns: int = 0
    wake_at_ns: int | None = None
    taken_ns: dict[str, list[int]] = field(default_factory=dict)
    _requests: int = 0
    _running: list[tuple[Dispatch, int]] = field(default_factory=list)
    """With the instants of their starts."""

    def load(self) -> None:
        """One ready replica of each model."""
        for model in MODELS:
            params = ModelParams(
                name=model,
                devices=(DEVICE,),
                batch_rows_max=BATCH_ROWS_MAX,
                queue_requests_max=1 << 20,
            )
            for command in self.kernel.handle(ModelLoadRequested(model=params), self.now_ns):
                if isinstance(command, LoadReplica):
                    self._warm(command.replica_id)

    def _warm(self, replica_id: ReplicaId) -> None:
        self.kernel.handle(ReplicaLoaded(replica_id=replica_id), self.now_ns)
        self.kernel.handle(ReplicaWarmed(replica_id=replica_id), self.now_ns)

    def run(self, events: int) -> None:
        """So many timed calls with the queue as full as it should be."""
        self._fill()
        self.taken_ns.clear()
        while sum(map(len, self.taken_ns.values())) < events:
            self.now_ns += STEP_NS
            if self.wake_at_ns is not None and self.wake_at_ns <= self.now_ns:
                self.wake_at_ns = None
                self._post("expire", TimerFired())
            oldest, started_at_ns = self._running.pop(0)
            execution_ns = self.now_ns - started_at_ns
            finished = BatchFinished(batch_id=oldest.batch_id, execution_ns=execution_ns)
            self._post("finish", finished)
            self._fill()

    def _fill(self) -> None:
        while self.kernel.room.count < self.waiting:
            request = self._request()
            self._post("arrive", RequestArrived(request=request))
            if self.chance.random() < CANCEL_RATIO:
                # Of the last thousand one that may have ended already, as happens to clients.
                back = self.chance.randrange(min(1_000, self._requests))
                target = RequestId(self._requests - back)
                self._post("cancel", RequestCancelled(request_id=target))

    def _request(self) -> Request:
        self._requests += 1
        rank, slot_class = self.chance.choice(TIERS)
        # The mean wait in a fifo is the queue over what leaves it; a few run out of time there.
        wait_ns = self.waiting * STEP_NS // BATCH_ROWS_MAX
        return Request(
            request_id=RequestId(self._requests),
            model=self.chance.choice(MODELS),
            bucket=BucketKey("row"),
            priority=rank,
            tier=TierName("tier"),
            tenant=TenantId("default"),
            slot_class=slot_class,
            arrived_at_ns=self.now_ns,
            budget_ns=round(wait_ns * self.chance.uniform(0.5, 10)) + 100 * STEP_NS,
        )

    def _post(self, kind: str, event: Event) -> None:
        handle = self.kernel.handle
        started_ns = perf_counter_ns()
        commands = handle(event, self.now_ns)
        taken_ns = perf_counter_ns() - started_ns
        self.taken_ns.setdefault(kind, []).append(taken_ns)
        self._carry_out(commands)

    def _carry_out(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, Dispatch):
                self._running.append((command, self.now_ns))
            elif isinstance(command, SetTimer):
                self.wake_at_ns = command.at_ns


def measure(policy: str, predictor: str, waiting: int, events: int) -> list[Row]:
    """A row for each kind of event, and one for all."""
    device = DeviceParams(name=DEVICE, slot_lanes=tuple(range(SLOTS)))
    params = KernelParams(devices=(device,), requests_max=1 << 20, bytes_max=1 << 40)
    kernel = Kernel(params, POLICIES[policy](PREDICTORS[predictor](params.devices)))
    driver = Driver(kernel, waiting, Random(f"1/kernel/{policy}"))
    driver.load()
    driver.run(events // 10)  # warm: caches, and the queue in its steady shape
    with Interval() as interval:
        driver.run(events)
    every = [taken_ns for taken in driver.taken_ns.values() for taken_ns in taken]
    kinds = {**dict(sorted(driver.taken_ns.items())), "all": every}
    return [
        {
            "policy": policy,
            "predictor": predictor,
            "waiting": waiting,
            "running": SLOTS,
            "event": kind,
            "count": len(taken),
            **figures(taken),
            "others_cores": interval.others_cores,
        }
        for kind, taken in kinds.items()
    ]


def figures(taken_ns: Sequence[int]) -> Row:
    """Median, 99th percentile and worst."""
    ascending = sorted(taken_ns)
    return {
        "median_us": round(statistics.median(ascending) / 1e3, 2),
        "p99_us": round(ascending[int(len(ascending) * 0.99)] / 1e3, 2),
        "max_us": round(ascending[-1] / 1e3, 1),
    }


def main() -> int:
    """Measure policies and predictors at one size, and one kind of row at every size."""
    arguments = quick_parser(__doc__, "a tenth of the events").parse_args()
    events = EVENTS_QUICK if arguments.quick else EVENTS
    rows: list[Row] = []
    for policy, predictor, waiting in product(POLICIES, PREDICTORS, SIZES):
        found = measure(policy, predictor, waiting, events)
        # Every kind of event where a server is busy; elsewhere what they cost together.
        rows += found if waiting == 1_000 else found[-1:]
        words = f"{policy}, {predictor}, {waiting} waiting: measured"
        print(words, file=sys.stderr, flush=True)
    publish(
        NAME,
        rows,
        COLUMNS,
        arguments,
        notes=[
            "Only Kernel.handle is timed, the reading of the clock included (0.05 us).",
            "finish includes the choice and start of the next batch of up to "
            f"{BATCH_ROWS_MAX} requests; {len(MODELS)} models share {SLOTS} slots.",
            "max_us holds the garbage collector's pauses and whatever else ran on the machine.",
        ],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
