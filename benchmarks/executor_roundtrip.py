"""What it costs to send a batch to a worker process and get its result: the executors alone.

An echo model in one worker, driven through `WorkerPool` on uvloop as the server does it, without
HTTP and without a scheduler. Three figures a row: the round trip with one batch at a time, the
batches a second with every slot busy, and what the parent's thread spends on each.

Usage: `python benchmarks/executor_roundtrip.py [--quick] [--format table|json]`. With `--format
json` the document goes to stdout; otherwise a table, and the document to
`benchmarks/results/executor_roundtrip.json`.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from harness import Interval, Row, publish, quick_parser, rss_mib

from headway.core import (
    BatchId,
    Datatype,
    DeviceName,
    ReplicaId,
    SlotClass,
    SlotIndex,
    Tensor,
)
from headway.executors import (
    BatchJob,
    LaneSpec,
    ModelSpec,
    Signature,
    StageTimes,
    WorkerGroup,
    WorkerPool,
)

NAME = "executor_roundtrip"
ECHO = Path(__file__).resolve().parent.parent / "examples" / "echo_model.py"
DEVICE = DeviceName("cpu")
REPLICA = ReplicaId(1)
COLUMNS = ("tensor_bytes", "members", "slots", "p50_us", "batches_per_s", "mb_per_s", "parent_us")
WARM_UP_BATCHES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Batches of `members` equal requests."""

    tensor_bytes: int
    members: int
    slots: int
    batches: int


CASES = (
    Case(tensor_bytes=64, members=1, slots=1, batches=20_000),
    Case(tensor_bytes=64, members=8, slots=1, batches=20_000),
    Case(tensor_bytes=64, members=1, slots=4, batches=40_000),
    Case(tensor_bytes=1 << 20, members=1, slots=1, batches=2_000),
    Case(tensor_bytes=1 << 20, members=8, slots=1, batches=300),
)


@dataclass(slots=True)
class Driver:
    """Keeps so many slots busy until all batches are done; the pool's listener."""

    case: Case
    pool: WorkerPool | None = None
    warmed: asyncio.Future[None] = field(default_factory=lambda: _future())
    finished: asyncio.Future[None] = field(default_factory=lambda: _future())
    round_trips_ns: list[int] = field(default_factory=list)
    _sent_at_ns: dict[BatchId, int] = field(default_factory=dict)
    _next: int = 0
    _left: int = 0

    def drive(self, batches: int) -> asyncio.Future[None]:
        """Start one batch in each slot; each end starts the next."""
        self.finished, self._left = _future(), batches
        self.round_trips_ns.clear()
        self._to_send = batches
        for slot in range(self.case.slots):
            self._send(SlotIndex(slot))
        return self.finished

    _to_send: int = 0

    def _send(self, slot: SlotIndex) -> None:
        if self._to_send == 0:
            return
        self._to_send -= 1
        assert self.pool is not None
        # Batch numbers carry their slot, so that its end says where the next one may go.
        self._next += self.case.slots
        batch_id = BatchId(self._next + slot)
        job = BatchJob(
            batch_id=batch_id,
            replica_id=REPLICA,
            slot=slot,
            slot_class=SlotClass.HIGH,
            members=[[self._tensor()]] * self.case.members,
            member_rows=[1] * self.case.members,
        )
        self._sent_at_ns[batch_id] = time.perf_counter_ns()
        self.pool.run(job)

    def _tensor(self) -> Tensor:
        size = self.case.tensor_bytes
        return Tensor("x", Datatype.FP32, (1, size // 4), _payload(size))

    def on_loaded(self, replica_id: ReplicaId, signature: Signature) -> None:
        """Nothing to do before it is warm."""

    def on_warmed(self, replica_id: ReplicaId) -> None:
        """Ready to be measured."""
        self.warmed.set_result(None)

    def on_load_failed(self, replica_id: ReplicaId, message: str) -> None:
        """There is nothing to measure then."""
        self.warmed.set_exception(RuntimeError(message))

    def on_unloaded(self, replica_id: ReplicaId) -> None:
        """Never asked for here."""

    def on_finished(
        self, batch_id: BatchId, replies: Sequence[Sequence[Tensor]], stages: StageTimes
    ) -> None:
        """Note the time, and keep the slot busy."""
        self.round_trips_ns.append(time.perf_counter_ns() - self._sent_at_ns.pop(batch_id))
        self._left -= 1
        if self._left == 0:
            self.finished.set_result(None)
        else:
            self._send(SlotIndex(batch_id % self.case.slots))

    def on_failed(self, batch_id: BatchId, code: str, message: str) -> None:
        """No batch may fail."""
        self.finished.set_exception(RuntimeError(f"{code}: {message}"))

    def on_lost(self, replica_ids: tuple[ReplicaId, ...], message: str) -> None:
        """Nor a worker die."""
        self.finished.set_exception(RuntimeError(message))


_PAYLOADS: dict[int, bytes] = {}


def _payload(size: int) -> bytes:
    return _PAYLOADS.setdefault(size, bytes(size))


def _future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


async def measure(case: Case, batches: int) -> Row:
    """Load the model in a fresh worker and drive it."""
    driver = Driver(case)
    lanes = tuple(LaneSpec() for _ in range(case.slots))
    group = WorkerGroup(device=DEVICE, slots=lanes, arena_bytes_max=64 << 20)
    driver.pool = WorkerPool([group], driver)
    await driver.pool.start()
    options = {"columns": case.tensor_bytes // 4}
    spec = ModelSpec(name="echo", backend="python", path=f"{ECHO}:Echo", options=options)
    try:
        driver.pool.load(REPLICA, spec, DEVICE)
        await driver.warmed
        await driver.drive(WARM_UP_BATCHES)
        with Interval() as interval:
            cpu_ns, wall_ns = time.thread_time_ns(), time.perf_counter_ns()
            await driver.drive(batches)
            cpu_ns, wall_ns = time.thread_time_ns() - cpu_ns, time.perf_counter_ns() - wall_ns
        worker_mib = rss_mib(list(driver.pool.worker_pids().values()))
    finally:
        await driver.pool.stop()
    trips = driver.round_trips_ns
    return {
        "tensor_bytes": case.tensor_bytes,
        "members": case.members,
        "slots": case.slots,
        "batches": batches,
        "p50_us": round(statistics.median(trips) / 1e3, 1),
        "p99_us": round(sorted(trips)[int(len(trips) * 0.99)] / 1e3, 1),
        "batches_per_s": round(batches / wall_ns * 1e9, 1),
        "mb_per_s": round(batches * case.members * case.tensor_bytes / wall_ns * 1e3, 2),
        "parent_us": round(cpu_ns / batches / 1e3, 2),
        "worker_rss_mib": worker_mib,
        "others_cores": interval.others_cores,
    }


def main() -> int:
    """Run the cases and put the figures where they are asked for."""
    arguments = quick_parser(__doc__, "a tenth of the batches").parse_args()
    rows = [
        uvloop.run(measure(case, case.batches // 10 if arguments.quick else case.batches))
        for case in CASES
    ]
    publish(
        NAME,
        rows,
        COLUMNS,
        arguments,
        notes=[
            "p50_us is the round trip, run() to on_finished, with every slot busy.",
            "mb_per_s counts the input once; the same number of bytes comes back.",
            "parent_us is the CPU time of the event loop's thread for each batch, the driver's "
            "own included.",
        ],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
