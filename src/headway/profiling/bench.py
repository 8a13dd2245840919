"""One model in one worker with one slot, and batches run through it one at a time.

The way is that of serving: the same pool, worker and back end, the batch in the slot's arena, the
stages timed where they happen. Knows the pool's reports. Refuses to know what is done with times.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from headway.core import BatchId, DeviceName, ReplicaId, SlotClass, SlotIndex, Tensor
from headway.devices import ThreadTimes, pinned_threads, thread_times
from headway.errors import ExecutorError, HeadwayError, LoadError, WorkerLostError
from headway.executors import (
    BatchJob,
    LaneSpec,
    ModelSpec,
    Signature,
    StageTimes,
    WorkerGroup,
    WorkerPool,
)
from headway.units import NS_PER_S, format_duration

__all__ = ["Bench", "BenchLimits", "Timed", "benched"]

_REPLICA: Final = ReplicaId(1)
_SLOT: Final = SlotIndex(0)


class Timed(NamedTuple):
    """One batch, run."""

    execution_ns: int
    """On the clock, as the worker timed it."""
    waited_ns: int
    """Of that, how long the slot's thread was ready but others had its core; 0 where the system
    does not say."""
    service_ns: int
    """From the call of the pool to its report."""
    output_bytes: int
    transfer_ns: int = 0
    """Both copies, as the worker timed them."""

    @property
    def solo_ns(self) -> int:
        """Execution as if nobody else had wanted the core; at least 1."""
        return max(1, self.execution_ns - self.waited_ns)

    @property
    def overhead_ns(self) -> int:
        """What the service took beside its stages: the way to the worker and back."""
        return max(0, self.service_ns - self.execution_ns - self.transfer_ns)


class BenchLimits(NamedTuple):
    """What the worker may take."""

    arena_bytes_max: int = 256 << 20
    load_ns_max: int = 300 * NS_PER_S
    batch_ns_max: int = 60 * NS_PER_S


class Bench:
    """A loaded model. Made by `benched`; the pool's listener at the same time.

    Invariants: one batch runs at a time; after a loss every call fails.
    """

    def __init__(
        self, spec: ModelSpec, core: int, limits: BenchLimits, now_ns: Callable[[], int]
    ) -> None:
        loop = asyncio.get_running_loop()
        self._signature: asyncio.Future[Signature] = loop.create_future()
        self._name = spec.name
        self._core = core
        self._limits = limits
        self._now_ns = now_ns
        self._pool: WorkerPool | None = None
        self._thread_id: int | None = None
        self._next_id = 1
        self._warmed: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[Timed] | None = None
        self._lost: WorkerLostError | None = None
        self._started_at_ns = 0
        # Whoever gave up waiting need not be told how it ended.
        self._warmed.add_done_callback(_look_at)

    @property
    def signature(self) -> Signature:
        """What the model declares."""
        return self._signature.result()

    async def load(self, pool: WorkerPool, spec: ModelSpec, device: DeviceName) -> None:
        """Load; the warm-up runs on.

        Raises:
            LoadError: it could not be loaded, and why.
            WorkerLostError: the worker died of it.
        """
        self._pool = pool
        pool.load(_REPLICA, spec, device)
        await self._signature

    async def warm(self) -> None:
        """Wait until it takes batches.

        Raises:
            LoadError: the warm-up failed, and how.
            WorkerLostError: the worker died of it.
        """
        await self._warmed
        pinned = pinned_threads(self._worker_pid, self._core)
        # On a machine of one core every thread looks pinned, and nobody knows which is the slot's.
        self._thread_id = pinned[0] if len(pinned) == 1 else None

    async def run(self, inputs: Sequence[Tensor], rows: int) -> Timed:
        """Run one batch.

        Raises:
            ExecutorError: the model raised; the message says what.
            WorkerLostError: its worker died.
        """
        if self._lost is not None:
            raise self._lost
        assert self._pool is not None, "load first"
        ended = self._ended = asyncio.get_running_loop().create_future()
        job = BatchJob(
            batch_id=BatchId(self._next_id),
            replica_id=_REPLICA,
            slot=_SLOT,
            slot_class=SlotClass.HIGH,
            members=[inputs],
            member_rows=[rows],
            can_batch=self.signature.can_batch,
        )
        self._next_id += 1
        before = self._thread_times()
        self._started_at_ns = self._now_ns()
        self._pool.run(job)
        try:
            async with asyncio.timeout(self._limits.batch_ns_max / NS_PER_S):
                timed = await ended
            return _without_waits(timed, before, self._thread_times())
        except TimeoutError:
            limit = format_duration(self._limits.batch_ns_max)
            raise ExecutorError(
                f"a batch of `{rows}` rows of model `{self._name}` took longer than {limit}",
                hint="measure fewer rows, or smaller shapes",
            ) from None

    def on_loaded(self, replica_id: ReplicaId, signature: Signature) -> None:
        """As a listener: what the model declares."""
        self._signature.set_result(signature)

    def on_warmed(self, replica_id: ReplicaId) -> None:
        """As a listener: it takes batches."""
        self._warmed.set_result(None)

    def on_load_failed(self, replica_id: ReplicaId, message: str) -> None:
        """As a listener: it cannot be measured."""
        self._not_loaded(LoadError(f"model `{self._name}` could not be loaded: {message}"))

    def on_unloaded(self, replica_id: ReplicaId) -> None:
        """As a listener: nothing asks for this; the pool's stop unloads silently."""

    def on_finished(
        self, batch_id: BatchId, replies: Sequence[Sequence[Tensor]], stages: StageTimes
    ) -> None:
        """As a listener: a batch ran."""
        service_ns = self._now_ns() - self._started_at_ns
        output_bytes = sum(tensor.size_bytes for reply in replies for tensor in reply)
        transfer_ns = stages.transfer_in_ns + stages.transfer_out_ns
        self._settle(Timed(stages.execution_ns, 0, service_ns, output_bytes, transfer_ns))

    def on_failed(self, batch_id: BatchId, code: str, message: str) -> None:
        """As a listener: a batch raised."""
        self._settle(ExecutorError(f"model `{self._name}` failed ({code}): {message}"))

    def on_lost(self, replica_ids: tuple[ReplicaId, ...], message: str) -> None:
        """As a listener: the worker is gone, and the model with it."""
        self._lost = WorkerLostError(f"model `{self._name}`: {message}")
        self._not_loaded(self._lost)
        self._settle(self._lost)

    @property
    def _worker_pid(self) -> int:
        assert self._pool is not None, "load first"
        return next(iter(self._pool.worker_pids().values()), 0)

    def _thread_times(self) -> ThreadTimes | None:
        if self._thread_id is None:
            return None
        return thread_times(self._worker_pid, self._thread_id)

    def _not_loaded(self, error: HeadwayError) -> None:
        for future in (self._signature, self._warmed):
            if not future.done():
                future.set_exception(error)

    def _settle(self, end: Timed | HeadwayError) -> None:
        """A batch that nobody waits for any more has no end worth telling."""
        if self._ended is None or self._ended.done():
            return
        if isinstance(end, Timed):
            self._ended.set_result(end)
        else:
            self._ended.set_exception(end)


@asynccontextmanager
async def benched(
    spec: ModelSpec,
    device: DeviceName,
    core: int,
    now_ns: Callable[[], int],
    *,
    limits: BenchLimits,
) -> AsyncIterator[Bench]:
    """A model on one core, loaded, its warm-up under way.

    Its worker ends with the `async with` statement.
    The slot's thread is not niced: nobody else should be there, and whoever is shall show.

    Raises:
        LoadError: it could not be loaded, and why.
        WorkerLostError: the worker died of it.
    """
    bench = Bench(spec, core, limits, now_ns)
    group = WorkerGroup(
        device=device,
        slots=(LaneSpec(cores=(core,)),),
        arena_bytes_max=limits.arena_bytes_max,
    )
    pool = WorkerPool([group], bench, load_ns_max=limits.load_ns_max)
    await pool.start()
    try:
        await bench.load(pool, spec, device)
        yield bench
    finally:
        await pool.stop()


def _without_waits(timed: Timed, before: ThreadTimes | None, after: ThreadTimes | None) -> Timed:
    """Find out how long the execution waited for its core.

    The scheduler counts waits from the message's arrival to the answer. What the execution took
    beyond the thread's time on the core can only be waiting, for the core or on the model's own
    account, so the smaller of the two is what others took of it.
    """
    if before is None or after is None:
        return timed
    off_core_ns = max(0, timed.execution_ns - (after.ran_ns - before.ran_ns))
    return timed._replace(waited_ns=min(max(0, after.waited_ns - before.waited_ns), off_core_ns))


def _look_at(future: "asyncio.Future[None]") -> None:
    if not future.cancelled():
        future.exception()
