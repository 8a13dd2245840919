"""Pipelines on the real kernel, in virtual time: queues, deadlines, batches and lost workers."""

from tests.engine_rig import (
    BULK,
    CPU,
    NORMAL,
    TIERS,
    URGENT,
    Rig,
    a_call,
    a_plan,
    floats,
    values_of,
)
from tests.pipeline_rig import MS, PIPE, Tally, a_pipeline, a_step

from headway.core import DeviceParams, Dispatch, Kernel, KernelParams, RequestArrived
from headway.errors import DeadlineExceededError, WorkerLostError
from headway.observe import JournalHeader, JournalObserver, read_journal, replay
from headway.policy import fifo, priority
from headway.runtime import Pipelines
from headway.testing import MeanPredictor, run_virtual

FIRST = a_step("first", model="first", INPUT="input.x")
SECOND = a_step("second", model="second", INPUT="first.OUTPUT")
PLAN = a_pipeline(FIRST, SECOND, out_y="second.OUTPUT")


def play(scenario, *, plan=PLAN, **setup):
    """Run a scenario on a loaded engine with a pipeline of two echoes before it."""

    async def main():
        setup.setdefault("plans", [a_plan("first"), a_plan("second")])
        rig = Rig(**setup)
        tally = Tally()
        pipes = Pipelines(rig.engine, [plan], TIERS, observer=tally)
        await rig.load_all()
        await scenario(rig, pipes)
        await rig.until_ms(rig.loop.time() * 1_000 + 60_000)
        rig.close()
        assert pipes._runs == {}
        assert not +tally.now
        assert not -tally.now

    run_virtual(main())


def call_of(rig, value, **fields):
    """A call of the pipeline, arriving now."""
    inputs = (floats("x", [[value]]),)
    return a_call(PIPE, inputs=inputs, arrived_at_ns=rig.clock.now_ns(), **fields)


def started(rig, model):
    """When each batch of a model was dispatched, and the calls that its members are steps of."""
    requests = {
        record.event.request.request_id: record.event.request
        for record in rig.records
        if isinstance(record.event, RequestArrived)
    }
    return [
        (record.now_ns, [requests[i].origin for i in command.request_ids])
        for record in rig.records
        for command in record.commands
        if isinstance(command, Dispatch) and command.model == model
    ]


def batches_of(rig, model):
    """The calls in each batch of a model."""
    return [origins for _, origins in started(rig, model)]


def test_steps_of_several_calls_share_batches():
    """Requests of a step are requests like any: what waits together runs together."""

    async def scenario(rig, pipes):
        ends = []
        for value in range(4):
            pipes.submit(call_of(rig, float(value)), ends.append)
        await rig.until_ms(500)
        assert [values_of(end.outputs[0]) for end in ends] == [[0.0], [1.0], [2.0], [3.0]]
        assert batches_of(rig, "first") == [[-1], [-2, -3, -4]]
        assert batches_of(rig, "second") == [[-1], [-2, -3, -4]]

    play(scenario)


def test_one_urgent_call_overtakes_a_flood_in_each_inner_queue():
    """The priority of the call holds in the queue of every step, not only at the first."""

    async def scenario(rig, pipes):
        ends = []
        for value in range(12):
            pipes.submit(call_of(rig, float(value), tier=BULK), lambda end: ends.append("bulk"))
        await rig.until_ms(35)
        pipes.submit(call_of(rig, 99.0, tier=URGENT), lambda end: ends.append("urgent"))
        await rig.until_ms(1_000)
        urgent = -13
        for model in ("first", "second"):
            arrived_at_ns = next(
                record.now_ns
                for record in rig.records
                if isinstance(record.event, RequestArrived)
                and (record.event.request.model, record.event.request.origin) == (model, urgent)
            )
            later = [origins for at_ns, origins in started(rig, model) if at_ns >= arrived_at_ns]
            assert later[0] == [urgent]
            assert len(later) > 3
        assert ends.index("urgent") < 5

    plans = [a_plan(name, batch_rows_max=1) for name in ("first", "second")]
    play(scenario, plans=plans, policy=priority)


def test_deadline_of_a_call_ends_it_where_it_is():
    """504 names the limit that the client set and the step; what ran is taken back."""

    async def scenario(rig, pipes):
        ends = []
        call = call_of(rig, 1.0, budget_ns=15 * MS, budget_source="timeout")
        pipes.submit(call, ends.append)
        await rig.until_ms(16)
        (end,) = ends
        assert isinstance(end, DeadlineExceededError)
        assert (end.limit, end.stage) == ("timeout", "running")
        assert end.message.startswith("step `second` of pipeline `pipe`: the deadline passed")

    play(scenario)


def test_step_may_take_more_than_its_part():
    """A slow first step eats into the part of the second, and the call is in time all the same."""

    async def scenario(rig, pipes):
        ends = []
        for budget_ms in (1_000, 50):
            call = call_of(rig, 1.0, budget_ns=budget_ms * MS)
            pipes.submit(call, ends.append)
            await rig.until_ms(rig.loop.time() * 1_000 + 200)
        assert [end.late_ns for end in ends] == [0, 0]

    # Alike in the first call; in the second the first step takes four fifths of the budget.
    times_ns = iter([10 * MS, 10 * MS, 38 * MS, 10 * MS])
    play(scenario, service_ns=lambda job: next(times_ns))


def test_lost_worker_ends_the_calls_that_ran_there():
    """The client is told, and may try again; once the worker is back, the next call works."""

    async def scenario(rig, pipes):
        ends = []
        pipes.submit(call_of(rig, 1.0), ends.append)
        await rig.until_ms(12)
        rig.executor.lose(CPU)
        await rig.until_ms(13)
        (end,) = ends
        assert isinstance(end, WorkerLostError)
        assert "step `second`" in end.message
        await rig.until_ms(1_000)
        reply = await pipes.infer(call_of(rig, 2.0))
        assert values_of(reply.outputs[0]) == [2.0]

    play(scenario)


def test_reload_of_a_steps_model_keeps_the_pipeline_up():
    """Calls before, during and after are answered."""

    async def scenario(rig, pipes):
        ends = []
        reload = None
        for index in range(20):
            pipes.submit(call_of(rig, 1.0), ends.append)
            await rig.until_ms(7 * (index + 1))
            if index == 3:
                reload = rig.task(pipes.load("second", {"version": "2"}))
        await reload
        await rig.until_ms(1_000)
        assert {type(end).__name__ for end in ends} == {"InferReply"}
        assert len(ends) == 20

    play(scenario, policy=fifo)


def test_journal_tells_steps_from_calls_and_replays(tmp_path):
    """A step carries its call's id, a plain request no word of one; both decide the same again."""
    path = tmp_path / "run.journal"
    device = DeviceParams(name=CPU, slot_lanes=(0,))
    params = KernelParams(devices=(device,))
    header = JournalHeader(
        headway="1", started_at="2024-01-01T00:00:00+00:00", params=params, policy={"kind": "fifo"}
    )
    journal = JournalObserver(path, header)

    async def scenario(rig, pipes):
        pipes.submit(call_of(rig, 1.0), lambda end: None)
        pipes.submit(a_call("first"), lambda end: None)

    play(scenario, observers=[journal])
    journal.close()
    arrivals = [line for line in path.read_text().splitlines() if '"type":"RequestArrived"' in line]
    assert [line.count('"origin":-1') for line in arrivals] == [1, 0, 1]
    assert "origin" not in arrivals[1]
    count, divergence = replay(Kernel(params, fifo(MeanPredictor())), read_journal(path)[1])
    assert divergence is None
    assert count > 3


def test_draining_the_engine_after_the_pipelines_leaves_nobody():
    """Runs end first, with their later steps; then the engine stops."""

    async def scenario(rig, pipes):
        ends = []
        for _ in range(3):
            pipes.submit(call_of(rig, 1.0), ends.append)
        assert await pipes.drain(1_000 * MS) == 0
        assert await rig.engine.drain(0) == 0
        assert {end.tier for end in ends} == {NORMAL}

    play(scenario)
