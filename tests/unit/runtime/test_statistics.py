"""Counters per model: what counts, what does not, and that nothing is kept of what ended."""

import asyncio

import pytest
from tests.engine_rig import CPU, ECHO, Rig, a_plan

from headway.core import ModelName
from headway.errors import ModelNotFoundError, RejectedError, WorkerLostError
from headway.runtime import StageStatistics
from headway.runtime.statistics import Statistics
from headway.testing import ScriptedError, run_virtual
from headway.units import NS_PER_MS

MS = NS_PER_MS


def play(scenario, **setup):
    """Run a scenario on a loaded engine, then see that nothing was kept."""

    async def main():
        rig = Rig(**setup)
        await rig.load_all()
        await scenario(rig)
        await rig.until_ms(rig.loop.time() * 1_000 + 60_000)
        rig.close()

    run_virtual(main())


def counted(rig, model=ECHO):
    [statistics] = rig.engine.statistics(model)
    return statistics


def test_everything_is_0_before_the_first_request():
    """A loaded model has all its counters."""

    async def scenario(rig):
        nothing = StageStatistics()
        found = counted(rig)
        assert (found.inference_count, found.execution_count, found.last_inference_ms) == (0, 0, 0)
        assert [found.success, found.fail, found.queue, found.compute_infer] == [nothing] * 4
        assert found.batch_stats == {}

    play(scenario)


def test_rows_requests_and_batches_are_told_apart():
    """Rows are inferences, batches executions; times are summed over whom they concern."""

    async def scenario(rig):
        first = rig.infer(rows=1)
        await asyncio.sleep(0)
        await asyncio.gather(first, rig.infer(rows=2), rig.infer(rows=2))
        found = counted(rig)
        assert found.inference_count == 5
        assert found.execution_count == 2
        assert found.success == StageStatistics(count=3, total_ns=(10 + 20 + 20) * MS)
        assert found.queue == StageStatistics(count=3, total_ns=2 * 10 * MS)
        assert found.compute_infer == StageStatistics(count=2, total_ns=20 * MS)
        assert found.compute_input == StageStatistics(count=2, total_ns=0)
        assert found.last_inference_ms > 0
        once = (
            StageStatistics(count=1, total_ns=0),
            StageStatistics(count=1, total_ns=10 * MS),
            StageStatistics(count=1, total_ns=0),
        )
        assert found.batch_stats == {1: once, 4: once}

    play(scenario)


def test_refused_expired_and_failed_requests_count_as_failures():
    """What was not answered with a result failed, after its time; a cancelled one did not."""

    def service_ns(job):
        if job.parameters:
            raise ScriptedError("no")
        return 10 * MS

    async def scenario(rig):
        cancelled = rig.infer()
        await asyncio.sleep(0)
        expired = rig.infer(budget_ns=4 * MS)
        failed = rig.infer(parameters={"x": 1})
        refused = rig.infer()
        await rig.until_ms(2)
        cancelled.cancel()
        ends = await asyncio.gather(cancelled, expired, failed, refused, return_exceptions=True)
        assert [type(end).__name__ for end in ends] == [
            "CancelledError",
            "ExpiredError",
            "ExecutorError",
            "RejectedError",
        ]
        assert counted(rig).fail == StageStatistics(count=3, total_ns=(4 + 10 + 0) * MS)
        assert counted(rig).success == StageStatistics()

    play(scenario, service_ns=service_ns, plans=[a_plan(queue_requests_max=2)])


def test_lost_and_failed_batches_are_no_executions_and_leak_nothing():
    """A batch that never ended was not run."""

    async def scenario(rig):
        running = rig.infer()
        await asyncio.sleep(0)
        assert len(rig.engine._statistics._batches) == 1
        rig.executor.lose(CPU)
        with pytest.raises(WorkerLostError):
            await running
        assert rig.engine._statistics._batches == {}
        found = counted(rig)
        assert (found.execution_count, found.fail.count) == (0, 1)

    play(scenario)


def test_batch_sizes_that_are_told_apart_are_bounded():
    """Beyond so many sizes the totals still count."""

    async def scenario(rig):
        for rows in range(1, 301):
            await rig.infer(rows=rows)
        found = counted(rig)
        assert found.execution_count == 300
        assert len(found.batch_stats) == 256

    play(scenario, plans=[a_plan(batch_rows_max=300)])


def test_statistics_of_all_or_of_one_version():
    """Without a name there is a line for each served model; an unknown one is refused."""

    async def scenario(rig):
        assert [s.name for s in rig.engine.statistics()] == ["echo", "other"]
        assert [s.version for s in rig.engine.statistics(ECHO, "1")] == ["1"]
        with pytest.raises(ModelNotFoundError):
            rig.engine.statistics(ModelName("nobody"))
        with pytest.raises(ModelNotFoundError):
            rig.engine.statistics(ECHO, "2")

    play(scenario, plans=[a_plan(), a_plan("other")])


def test_model_that_was_never_loaded_is_not_counted():
    """Requests for names that nobody loaded take no memory."""
    statistics = Statistics()

    async def scenario(rig):
        for record in rig.records:
            statistics(record.now_ns, record.event, record.commands)
        with pytest.raises(RejectedError):
            await rig.infer()
        for record in rig.records:
            statistics(record.now_ns, record.event, record.commands)
        assert statistics._live == {}
        assert statistics._batches == {}
        assert statistics.of(ECHO, "1", 0).fail == StageStatistics()

    play(scenario, plans=[a_plan(queue_requests_max=0)])
