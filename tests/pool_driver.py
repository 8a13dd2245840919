"""A worker pool with its reports turned into things to await: for tests that use real workers.

Every wait has a limit, and every report that nobody expected fails the test.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import uvloop

from headway.core import (
    BatchId,
    Buffer,
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
    ParameterValue,
    Signature,
    StageTimes,
    WorkerGroup,
    WorkerPool,
)

PYTHON_MODELS = str(Path(__file__).with_name("python_models.py"))
CPU = DeviceName("cpu")
WAIT_S = 30


class BatchFailedError(Exception):
    """A batch was reported failed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class LoadFailedError(Exception):
    """A load was reported failed, or its worker lost."""


class LostError(Exception):
    """A batch went down with its worker."""


@dataclass
class Loaded:
    """A model that takes batches."""

    replica_id: ReplicaId
    signature: Signature


@dataclass
class Driver:
    """The pool's listener, and the calls that wait for its reports."""

    pool: WorkerPool = field(init=False)
    losses: list[tuple[tuple[ReplicaId, ...], str]] = field(default_factory=list)
    finished_count: int = 0
    last_reply: Sequence[Sequence[Tensor]] = ()
    """As it was handed over, no copy."""
    stages: StageTimes | None = None
    _ids: "count[int]" = field(default_factory=lambda: count(1))
    _signatures: dict[ReplicaId, Signature] = field(default_factory=dict)
    _loads: dict[ReplicaId, asyncio.Future[None]] = field(default_factory=dict)
    _unloads: dict[ReplicaId, asyncio.Future[None]] = field(default_factory=dict)
    _batches: dict[BatchId, asyncio.Future[list[list[Tensor]]]] = field(default_factory=dict)
    _replica_of: dict[BatchId, ReplicaId] = field(default_factory=dict)
    _lost: asyncio.Event = field(default_factory=asyncio.Event)

    # -- calls

    def begin_load(self, spec: ModelSpec, device: DeviceName = CPU) -> ReplicaId:
        """Ask for a load; `loaded` waits for its end."""
        replica_id = ReplicaId(next(self._ids))
        self._loads[replica_id] = asyncio.get_running_loop().create_future()
        self.pool.load(replica_id, spec, device)
        return replica_id

    async def loaded(self, replica_id: ReplicaId) -> Loaded:
        """Wait until the replica is warm."""
        async with asyncio.timeout(WAIT_S):
            await self._loads[replica_id]
        return Loaded(replica_id, self._signatures[replica_id])

    async def load(self, spec: ModelSpec, device: DeviceName = CPU) -> Loaded:
        """Load, warm, done."""
        return await self.loaded(self.begin_load(spec, device))

    async def load_python(self, name: str, **options: ParameterValue) -> Loaded:
        """Load a class of `python_models.py`."""
        return await self.load(python_spec(name, **options))

    async def unload(self, replica_id: ReplicaId) -> None:
        """Unload and wait."""
        self._unloads[replica_id] = asyncio.get_running_loop().create_future()
        self.pool.unload(replica_id)
        async with asyncio.timeout(WAIT_S):
            await self._unloads[replica_id]

    def begin(
        self,
        replica_id: ReplicaId,
        *members: Sequence[Tensor],
        slot: int = 0,
        slot_class: SlotClass = SlotClass.HIGH,
        can_batch: bool = True,
        outputs: tuple[str, ...] = (),
        parameters: dict[str, ParameterValue] | None = None,
    ) -> BatchId:
        """Send a batch; `result` waits for its end."""
        batch_id = BatchId(next(self._ids))
        self._batches[batch_id] = asyncio.get_running_loop().create_future()
        self._replica_of[batch_id] = replica_id
        job = BatchJob(
            batch_id=batch_id,
            replica_id=replica_id,
            slot=SlotIndex(slot),
            slot_class=slot_class,
            members=members,
            member_rows=[member[0].shape[0] if can_batch else 1 for member in members],
            can_batch=can_batch,
            outputs=outputs,
            parameters=parameters or {},
        )
        self.pool.run(job)
        return batch_id

    async def result(self, batch_id: BatchId) -> list[list[Tensor]]:
        """Wait for a batch's outputs, copied."""
        async with asyncio.timeout(WAIT_S):
            return await self._batches[batch_id]

    async def infer(self, replica_id: ReplicaId, *members: Sequence[Tensor], **how) -> list:
        """Run one batch."""
        return await self.result(self.begin(replica_id, *members, **how))

    async def lost(self) -> tuple[tuple[ReplicaId, ...], str]:
        """Wait for the next loss."""
        async with asyncio.timeout(WAIT_S):
            await self._lost.wait()
        self._lost.clear()
        return self.losses[-1]

    # -- reports

    def on_loaded(self, replica_id: ReplicaId, signature: Signature) -> None:
        self._signatures[replica_id] = signature

    def on_warmed(self, replica_id: ReplicaId) -> None:
        self._loads[replica_id].set_result(None)

    def on_load_failed(self, replica_id: ReplicaId, message: str) -> None:
        self._loads[replica_id].set_exception(LoadFailedError(message))

    def on_unloaded(self, replica_id: ReplicaId) -> None:
        self._unloads[replica_id].set_result(None)

    def on_finished(
        self, batch_id: BatchId, replies: Sequence[Sequence[Tensor]], stages: StageTimes
    ) -> None:
        self.last_reply, self.stages = replies, stages
        self.finished_count += 1
        copies = [
            [Tensor(t.name, t.datatype, t.shape, bytes(t.data)) for t in reply] for reply in replies
        ]
        self._batches[batch_id].set_result(copies)

    def on_failed(self, batch_id: BatchId, code: str, message: str) -> None:
        self._batches[batch_id].set_exception(BatchFailedError(code, message))

    def on_lost(self, replica_ids: tuple[ReplicaId, ...], message: str) -> None:
        self.losses.append((replica_ids, message))
        for batch_id, future in self._batches.items():
            if not future.done() and self._replica_of[batch_id] in replica_ids:
                future.set_exception(LostError(message))
        for replica_id in replica_ids:
            if not self._loads[replica_id].done():
                self._loads[replica_id].set_exception(LoadFailedError(message))
        self._lost.set()


class Fifo:
    """A named pipe by which a model in another process wakes a test, or a test wakes it."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        # Open for both ways: then neither side waits for the other to open it.
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    async def heard(self) -> None:
        """Wait for a byte."""
        loop = asyncio.get_running_loop()
        told = loop.create_future()
        loop.add_reader(self._fd, lambda: told.done() or told.set_result(None))
        try:
            async with asyncio.timeout(WAIT_S):
                await told
        finally:
            loop.remove_reader(self._fd)
        os.read(self._fd, 1)

    def tell(self) -> None:
        """Send a byte."""
        os.write(self._fd, b".")

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)


@asynccontextmanager
async def running_pool(*groups: WorkerGroup, **limits: int) -> AsyncIterator[Driver]:
    """A pool, by default of one device with two slots, stopped at the end."""
    driver = Driver()
    driver.pool = WorkerPool(groups or (a_group(),), driver, **limits)
    await driver.pool.start()
    try:
        yield driver
    finally:
        async with asyncio.timeout(WAIT_S):
            await driver.pool.stop()


async def _nothing() -> None:
    pass


def open_loop_library() -> None:
    """Make libuv open the pipe that it keeps for the life of the process: it is nobody's leak."""
    uvloop.run(_nothing())


def run(scenario) -> None:
    """Play a scenario on the event loop that the server uses."""
    uvloop.run(scenario)


def a_group(
    device: DeviceName = CPU,
    *,
    slots: Sequence[LaneSpec] = (LaneSpec(), LaneSpec()),
    is_isolated: bool = False,
    arena_bytes_max: int = 8 << 20,
) -> WorkerGroup:
    """A device as the tests like it."""
    return WorkerGroup(
        device=device,
        slots=tuple(slots),
        is_isolated=is_isolated,
        arena_bytes_max=arena_bytes_max,
    )


def python_spec(name: str, **options: ParameterValue) -> ModelSpec:
    """A class of `python_models.py`."""
    path = f"{PYTHON_MODELS}:{name}"
    return ModelSpec(name=name.lower(), backend="python", path=path, options=options)


def fp32(name: str, rows: Sequence[Sequence[float]]) -> Tensor:
    """A matrix."""
    import numpy as np

    array = np.array(rows, np.float32)
    return Tensor(name, Datatype.FP32, array.shape, array.tobytes())


def row(first: float, name: str = "x") -> list[Tensor]:
    """One request of one row of four numbers."""
    return [fp32(name, [[first, 1, 2, 3]])]


def data_of(replies: Sequence[Sequence[Tensor]], index: int = 0) -> list[Buffer]:
    """One output's bytes, member by member."""
    return [reply[index].data for reply in replies]
