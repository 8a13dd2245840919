"""One batch at a time through a pool, and what is taken out of its time; the pool is a fake."""

import asyncio
from collections.abc import Callable

import pytest

from headway.core import Datatype, DeviceName, Tensor
from headway.devices import ThreadTimes
from headway.errors import ExecutorError, LoadError, WorkerLostError
from headway.executors import ModelSpec, Signature, StageTimes
from headway.profiling import Bench, BenchLimits, Timed
from headway.profiling.bench import _without_waits

SPEC = ModelSpec(name="m", backend="onnx", path="m.onnx")
SIGNATURE = Signature(platform="test", inputs=(), outputs=(), can_batch=True)
STAGES = StageTimes(transfer_in_ns=1, execution_ns=100, transfer_out_ns=2)
CPU = DeviceName("cpu:0")


class FakePool:
    """Does as a test says when something is loaded or run."""

    def __init__(self) -> None:
        self.on_load: Callable[[], None] = lambda: None
        self.on_run: Callable[[int], None] = lambda batch_id: None
        self.jobs: list[object] = []

    def load(self, replica_id, spec, device) -> None:
        asyncio.get_running_loop().call_soon(self.on_load)

    def run(self, job) -> None:
        self.jobs.append(job)
        asyncio.get_running_loop().call_soon(self.on_run, job.batch_id)

    def worker_pids(self) -> dict[str, int]:
        return {}


def play(scenario, *, batch_ns_max: int = 10**10) -> None:
    """Run a scenario with a bench whose clock counts its readings."""

    async def whole() -> None:
        readings = iter(range(0, 10**9, 1000))
        limits = BenchLimits(batch_ns_max=batch_ns_max)
        bench = Bench(SPEC, 0, limits, lambda: next(readings))
        pool = FakePool()

        def loaded() -> None:
            bench.on_loaded(1, SIGNATURE)
            bench.on_warmed(1)

        pool.on_load = loaded
        await scenario(bench, pool)

    asyncio.run(whole())


def test_batch_is_timed() -> None:
    """The worker's execution, the way there and back by our clock, and the bytes that came back."""

    async def scenario(bench: Bench, pool: FakePool) -> None:
        await bench.load(pool, SPEC, CPU)
        await bench.warm()
        reply = [[Tensor("y", Datatype.UINT8, (2, 3), b"123456")]]
        pool.on_run = lambda batch_id: bench.on_finished(batch_id, reply, STAGES)
        timed = [await bench.run((), 2) for _ in range(2)]
        assert timed == [Timed(100, 0, 1000, 6, 3)] * 2
        assert timed[0].overhead_ns == 897
        assert [job.batch_id for job in pool.jobs] == [1, 2]
        assert pool.jobs[0].member_rows == [2]

    play(scenario)


def test_failed_load_is_a_load_error() -> None:
    """Whoever waits for the signature or the warm-up hears why."""

    async def scenario(bench: Bench, pool: FakePool) -> None:
        pool.on_load = lambda: bench.on_load_failed(1, "no such file")
        with pytest.raises(LoadError, match="model `m` could not be loaded: no such file"):
            await bench.load(pool, SPEC, CPU)

    play(scenario)


def test_failed_warm_up_is_a_load_error() -> None:
    """The signature is known by then."""

    async def scenario(bench: Bench, pool: FakePool) -> None:
        pool.on_load = lambda: bench.on_loaded(1, SIGNATURE)
        await bench.load(pool, SPEC, CPU)
        assert bench.signature == SIGNATURE
        bench.on_load_failed(1, "it raised")
        with pytest.raises(LoadError, match="it raised"):
            await bench.warm()

    play(scenario)


def test_failed_batch_is_an_executor_error() -> None:
    """With the code and the words that the worker sent; the next batch may succeed."""

    async def scenario(bench: Bench, pool: FakePool) -> None:
        await bench.load(pool, SPEC, CPU)
        pool.on_run = lambda batch_id: bench.on_failed(batch_id, "out_of_memory", "too large")
        with pytest.raises(ExecutorError, match=r"model `m` failed \(out_of_memory\): too large"):
            await bench.run((), 1)
        pool.on_run = lambda batch_id: bench.on_finished(batch_id, [], STAGES)
        assert (await bench.run((), 1)).execution_ns == 100

    play(scenario)


def test_lost_worker_ends_the_measurement() -> None:
    """The batch that ran fails, and so does every later one, at once."""

    async def scenario(bench: Bench, pool: FakePool) -> None:
        await bench.load(pool, SPEC, CPU)
        pool.on_run = lambda _: bench.on_lost((1,), "it died")
        for _ in range(2):
            with pytest.raises(WorkerLostError, match="model `m`: it died"):
                await bench.run((), 1)
        assert len(pool.jobs) == 1

    play(scenario)


def test_worker_lost_while_it_loads() -> None:
    """That is told to whoever waits for the load."""

    async def scenario(bench: Bench, pool: FakePool) -> None:
        pool.on_load = lambda: bench.on_lost((1,), "it died")
        with pytest.raises(WorkerLostError, match="it died"):
            await bench.load(pool, SPEC, CPU)

    play(scenario)


def test_batch_that_takes_too_long_is_given_up() -> None:
    """With what to do about it."""

    async def scenario(bench: Bench, pool: FakePool) -> None:
        await bench.load(pool, SPEC, CPU)
        with pytest.raises(ExecutorError, match="took longer than 1ms") as caught:
            await bench.run((), 64)
        assert caught.value.hint == "measure fewer rows, or smaller shapes"

    play(scenario, batch_ns_max=1_000_000)


@pytest.mark.parametrize(
    ("what", "ran_ns", "waited_ns", "taken_out_ns"),
    [
        ("undisturbed: the thread ran all of it and the messages besides", 110, 3, 0),
        ("preempted: it ran 60 of 100 and waited for the rest", 60, 45, 40),
        ("picked up late: the wait was before the execution began", 110, 50, 0),
        ("the model sleeps by itself: nobody took anything", 5, 1, 1),
        ("the scheduler's counters ran backwards", -5, -5, 0),
    ],
)
def test_waits_for_the_core_are_taken_out(
    what: str, ran_ns: int, waited_ns: int, taken_out_ns: int
) -> None:
    """Only what the thread both waited and did not run is others' doing."""
    before = ThreadTimes(1000, 1000)
    after = ThreadTimes(1000 + ran_ns, 1000 + waited_ns)
    timed = _without_waits(Timed(100, 0, 120, 0), before, after)
    assert timed.waited_ns == taken_out_ns
    assert timed.solo_ns == 100 - taken_out_ns


def test_unknown_waits_change_nothing() -> None:
    """Where the system does not count, the clock holds."""
    timed = Timed(100, 0, 120, 0)
    assert _without_waits(timed, None, ThreadTimes(0, 0)) == timed
    assert timed.solo_ns == 100
