"""The engine in virtual time: answers, budgets, cancellation, shutdown, and what is not kept."""

import asyncio

import pytest
from tests.engine_rig import BULK, CPU, NORMAL, URGENT, Rig, a_call, a_plan, floats, values_of

from headway.core import (
    BatchFinished,
    Cancel,
    CancelBatch,
    Datatype,
    Expire,
    ExpireReason,
    RequestArrived,
    RequestCancelled,
    Stage,
    TenantId,
    TierName,
)
from headway.errors import (
    DeadlineExceededError,
    InternalError,
    InvalidRequestError,
    ModelNotFoundError,
    RejectedError,
    RequestCancelledError,
    UnavailableError,
    WorkerLostError,
)
from headway.executors import Signature, TensorSpec
from headway.runtime import AsyncEngine
from headway.testing import ScriptedError, run_virtual
from headway.units import NS_PER_MS, NS_PER_S

MS = NS_PER_MS
TWO = Signature(
    platform="scripted",
    inputs=tuple(TensorSpec(name=n, datatype=Datatype.FP32, shape=(-1, -1)) for n in "AB"),
    outputs=tuple(TensorSpec(name=n, datatype=Datatype.FP32, shape=(-1, -1)) for n in "XY"),
    can_batch=True,
)


def play(scenario, **setup):
    """Run a scenario on a loaded engine, then see that nothing was kept."""

    async def main():
        rig = Rig(**setup)
        await rig.load_all()
        await scenario(rig)
        await rig.until_ms(rig.loop.time() * 1_000 + 60_000)
        rig.close()

    run_virtual(main())


def commands(rig, kind):
    return [c for record in rig.records for c in record.commands if isinstance(c, kind)]


def events(rig, kind):
    return [record.event for record in rig.records if isinstance(record.event, kind)]


def last_request(rig):
    return events(rig, RequestArrived)[-1].request


# --- answers --------------------------------------------------------------------------------------


def test_reply_says_what_was_computed_and_how():
    """Outputs, version, times, batch and the limit it ran under."""

    async def scenario(rig):
        reply = await rig.infer(value=7.0, rows=2)
        assert [values_of(t) for t in reply.outputs] == [[7.0, 7.0]]
        assert [t.name for t in reply.outputs] == ["OUTPUT"]
        assert (reply.model, reply.version) == ("echo", "1")
        assert (reply.queue_delay_ns, reply.service_ns, reply.batch_rows) == (0, 10 * MS, 2)
        assert (reply.tier, reply.budget_ns, reply.budget_source) == (NORMAL, NS_PER_S, "tier")
        assert reply.request_id == last_request(rig).request_id

    play(scenario)


def test_members_of_one_batch_get_their_own_rows():
    """Three callers share a batch; each gets back what it sent, whatever its size."""

    async def scenario(rig):
        first = rig.infer(value=1.0)
        await asyncio.sleep(0)
        others = [rig.infer(value=2.0, rows=2), rig.infer(value=3.0), rig.infer(value=4.0)]
        replies = await asyncio.gather(first, *others)
        assert [values_of(r.outputs[0]) for r in replies] == [[1.0], [2.0, 2.0], [3.0], [4.0]]
        assert [r.batch_rows for r in replies] == [1, 4, 4, 4]
        assert [list(job.member_rows) for job in rig.executor.jobs] == [[1], [2, 1, 1]]

    play(scenario)


def test_outputs_are_copied_before_the_slot_is_used_again():
    """What a caller holds does not view the worker's memory."""
    memory = bytearray(floats("INPUT", [[5.0]]).data)

    async def scenario(rig):
        sent = floats("INPUT", [[5.0]])
        view = type(sent)(sent.name, sent.datatype, sent.shape, memoryview(memory))
        reply = await rig.infer(inputs=[view])
        memory[:] = bytes(4)
        assert values_of(reply.outputs[0]) == [5.0]

    play(scenario)


@pytest.mark.parametrize(
    ("wanted", "given"),
    [((), "XY"), (("X",), "X"), (("Y",), "Y"), (("Y", "X"), "YX"), (("X", "Y", "X"), "XYX")],
)
def test_outputs_are_those_wanted_in_the_order_wanted(wanted, given):
    """A subset and an order of the client's own; none named means all."""

    async def scenario(rig):
        inputs = [floats("A", [[1.0]]), floats("B", [[2.0]])]
        reply = await rig.infer(inputs=inputs, outputs=wanted)
        assert "".join(t.name for t in reply.outputs) == given
        expected = {"X": [1.0], "Y": [2.0]}
        assert [values_of(t) for t in reply.outputs] == [expected[name] for name in given]

    play(scenario, signature=TWO)


def test_batch_computes_what_any_member_wants_and_no_more():
    """Members may want different outputs; each gets its own, the worker is asked for the union."""

    async def scenario(rig):
        inputs = [floats("A", [[1.0]]), floats("B", [[2.0]])]
        rig.infer(inputs=inputs)
        await asyncio.sleep(0)
        await asyncio.gather(*(rig.infer(inputs=inputs, outputs=(name,)) for name in "XY"))
        rig.infer(inputs=inputs)
        await asyncio.sleep(0)
        replies = await asyncio.gather(
            *(rig.infer(inputs=inputs, outputs=wanted) for wanted in (("Y",), ("X",), ()))
        )
        assert [[t.name for t in r.outputs] for r in replies] == [["Y"], ["X"], ["X", "Y"]]
        assert [job.outputs for job in rig.executor.jobs] == [(), ("X", "Y"), (), ()]

    play(scenario, signature=TWO)


def test_requests_of_other_shapes_or_parameters_run_apart():
    """What cannot be concatenated, or is computed otherwise, is not batched."""

    async def scenario(rig):
        rig.infer()
        await asyncio.sleep(0)
        calls = [{}, {"width": 2}, {"parameters": {"beam": 2}}, {}]
        await asyncio.gather(*(rig.infer(**call) for call in calls))
        assert [len(job.members) for job in rig.executor.jobs] == [1, 2, 1, 1]
        assert rig.executor.jobs[-1].parameters == {"beam": 2}

    play(scenario)


# --- submitting without a task --------------------------------------------------------------------


def test_submitted_request_is_answered_by_one_call():
    """A reply or an error, as `infer` would give; a refusal comes before `submit` returns."""

    async def scenario(rig):
        ends = []
        rig.engine.submit(a_call(value=3.0), ends.append)
        assert ends == []
        rig.engine.submit(a_call(budget_ns=0), ends.append)
        assert [type(end) for end in ends] == [DeadlineExceededError]
        await rig.until_ms(20)
        assert values_of(ends[1].outputs[0]) == [3.0]
        assert len(ends) == 2

    play(scenario)


def test_submitted_call_that_does_not_fit_raises_at_once():
    """Then nobody is told anything later."""

    async def scenario(rig):
        ends = []
        with pytest.raises(InvalidRequestError):
            rig.engine.submit(a_call(inputs=[]), ends.append)
        await rig.until_ms(20)
        assert ends == []

    play(scenario)


def test_submitted_request_can_be_taken_back():
    """Its end is told; taking back what has ended does nothing."""

    async def scenario(rig):
        ends = []
        request_id = rig.engine.submit(a_call(), ends.append)
        rig.engine.cancel(request_id)
        rig.engine.cancel(request_id)
        assert [type(end) for end in ends] == [RequestCancelledError]

    play(scenario)


def test_caller_that_raises_when_told_harms_nobody_else():
    """Its neighbour in the batch is answered, the loop reports it, and the engine goes on."""

    def broken(end):
        raise ValueError("a caller's bug")

    async def scenario(rig):
        reports, ends = [], []
        rig.loop.set_exception_handler(lambda loop, context: reports.append(context["exception"]))
        rig.infer()
        await asyncio.sleep(0)
        rig.engine.submit(a_call(), broken)
        rig.engine.submit(a_call(value=2.0), ends.append)
        await rig.until_ms(20)
        assert [str(report) for report in reports] == ["a caller's bug"]
        assert values_of(ends[0].outputs[0]) == [2.0]
        assert not rig.engine._driver.has_crashed

    play(scenario)


def test_caller_may_take_back_others_when_told_of_the_shutdown():
    """As a connection does that closes with its first failed request."""

    async def scenario(rig):
        ends = []

        def on_end(end):
            ends.append(end)
            for request_id in ids:
                rig.engine.cancel(request_id)

        ids = [rig.engine.submit(a_call(), on_end) for _ in range(3)]
        assert await rig.engine.drain(0) == 1
        assert [type(end) for end in ends] == [UnavailableError] + [RequestCancelledError] * 2

    play(scenario)


# --- refusals and failures ------------------------------------------------------------------------


def test_call_that_does_not_fit_never_reaches_the_kernel():
    """It is refused before it is counted."""

    async def scenario(rig):
        for call, error in (
            ({"inputs": []}, InvalidRequestError),
            ({"model": "nobody"}, ModelNotFoundError),
            ({"version": "9"}, ModelNotFoundError),
            ({"tier": TierName("gold")}, InvalidRequestError),
        ):
            with pytest.raises(error):
                await rig.infer(**call)
        assert events(rig, RequestArrived) == []

    play(scenario)


def test_unknown_tier_is_answered_with_the_known_ones():
    """The hint lists what may be asked for."""

    async def scenario(rig):
        with pytest.raises(InvalidRequestError, match="there is no tier `gold`") as refused:
            await rig.infer(tier=TierName("gold"))
        assert refused.value.hint == "tiers: normal, urgent, bulk, patient"

    play(scenario)


def test_full_queue_refuses_with_a_time_to_try_again():
    """The limit holds, and those admitted are served."""

    async def scenario(rig):
        calls = [rig.infer() for _ in range(4)]
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(end).__name__ for end in ends] == ["InferReply"] * 3 + ["RejectedError"]
        assert isinstance(ends[3], RejectedError)
        assert ends[3].retry_after_ns > 0

    play(scenario, plans=[a_plan(queue_requests_max=2, batch_rows_max=1)])


def test_failed_batch_fails_each_member():
    """The back end's words and code reach every caller; the next batch runs."""

    def service_ns(job):
        if len(job.members) > 1:
            raise ScriptedError("the model raised", code="out_of_memory")
        return 10 * MS

    async def scenario(rig):
        rig.infer()
        await asyncio.sleep(0)
        ends = await asyncio.gather(rig.infer(), rig.infer(), return_exceptions=True)
        assert [getattr(end, "code", "") for end in ends] == ["out_of_memory"] * 2
        assert values_of((await rig.infer(value=3.0)).outputs[0]) == [3.0]

    play(scenario, service_ns=service_ns)


def test_lost_worker_fails_what_ran_and_keeps_what_waits():
    """The running request is told that it may be sent again; the waiting one runs after restart."""

    async def scenario(rig):
        running = rig.infer(value=1.0)
        await asyncio.sleep(0)
        waiting = rig.infer(value=2.0)
        await rig.until_ms(5)
        assert len(rig.engine._members) == 1
        rig.executor.lose(CPU)
        with pytest.raises(WorkerLostError, match="scripted worker loss"):
            await running
        assert rig.engine._members == {}
        assert not rig.engine.is_ready
        assert values_of((await waiting).outputs[0]) == [2.0]
        assert rig.engine.is_ready

    play(scenario)


def test_hung_batch_ends_with_its_worker():
    """A batch past its limit has its worker replaced, and its caller answered."""

    async def scenario(rig):
        with pytest.raises(WorkerLostError):
            await rig.infer()
        assert rig.clock.now_ns() == 50 * MS

    play(scenario, service_ns=lambda job: None, plans=[a_plan(batch_ns_max=50 * MS)])


# --- tiers and budgets ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked_ns", "granted_ns", "limit"),
    [
        pytest.param(None, NS_PER_S, "tier", id="nothing asked"),
        pytest.param(200 * MS, 200 * MS, "timeout", id="shorter"),
        pytest.param(NS_PER_S, NS_PER_S, "tier", id="the same"),
        pytest.param(3600 * NS_PER_S, NS_PER_S, "tier", id="longer"),
    ],
)
def test_client_may_shorten_its_budget_never_lengthen_it(asked_ns, granted_ns, limit):
    """The tier's grant is the most there is, and the reply names what bound the request."""

    async def scenario(rig):
        reply = await rig.infer(budget_ns=asked_ns, budget_source="timeout")
        assert last_request(rig).budget_ns == granted_ns
        assert (reply.budget_ns, reply.budget_source) == (granted_ns, limit)

    play(scenario)


def test_tier_is_the_models_unless_the_call_names_one():
    """Priority, budget and class come from the tier; a priority of the call's own wins."""

    async def scenario(rig):
        await rig.infer()
        assert last_request(rig).tier == BULK
        assert last_request(rig).priority == 50
        assert last_request(rig).tenant == TenantId("default")
        reply = await rig.infer(tier=URGENT, priority=3, tenant=TenantId("acme"))
        request = last_request(rig)
        assert (request.tier, request.priority, request.tenant) == (URGENT, 3, "acme")
        assert (reply.tier, request.budget_ns) == (URGENT, 100 * MS)

    play(scenario, plans=[a_plan(tier=BULK)])


def test_budget_counts_from_the_first_byte():
    """Time spent decoding is the request's own; what is left may be nothing."""

    async def scenario(rig):
        await rig.until_ms(30)
        call = a_call(arrived_at_ns=0, budget_ns=20 * MS, budget_source="timeout")
        with pytest.raises(DeadlineExceededError) as late:
            await rig.engine.infer(call)
        assert (late.value.limit, late.value.stage) == ("timeout", Stage.ARRIVING)
        assert late.value.request_id == last_request(rig).request_id

    play(scenario)


def test_deadline_ends_a_running_request_on_time():
    """The caller is answered at its deadline, not when the batch ends; the rows go nowhere."""

    async def scenario(rig):
        with pytest.raises(DeadlineExceededError) as late:
            await rig.infer(budget_ns=4 * MS, budget_source="timeout")
        assert rig.clock.now_ns() == 4 * MS
        assert (late.value.stage, late.value.limit) == (Stage.RUNNING, "timeout")
        assert late.value.request_id == last_request(rig).request_id
        assert values_of((await rig.infer(value=9.0)).outputs[0]) == [9.0]

    play(scenario)


def test_deadline_of_one_member_leaves_the_others_their_rows():
    """A member that ended early keeps its place in the batch."""

    async def scenario(rig):
        rig.infer()
        await asyncio.sleep(0)
        short = rig.infer(value=1.0, budget_ns=15 * MS)
        long = rig.infer(value=2.0)
        with pytest.raises(DeadlineExceededError):
            await short
        assert values_of((await long).outputs[0]) == [2.0]

    play(scenario, service_ns=lambda job: 10 * MS if len(job.members) == 1 else 30 * MS)


def test_request_that_cannot_make_it_is_not_started():
    """Once the floor of the service time is known, too short a rest is given up."""

    async def scenario(rig):
        await rig.infer()
        rig.infer()
        await asyncio.sleep(0)
        with pytest.raises(DeadlineExceededError, match="given up: it could no longer"):
            await rig.infer(budget_ns=15 * MS)
        assert [e.reason for e in commands(rig, Expire)] == [ExpireReason.HOPELESS]
        assert rig.clock.now_ns() == 20 * MS

    play(scenario)


# --- cancellation ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at_ms", "stage"), [(5, Stage.WAITING), (12, Stage.RUNNING)], ids=["waiting", "running"]
)
def test_cancelled_task_cancels_its_request(at_ms, stage):
    """Wherever it is, the request is closed at once, and its neighbours do not notice."""

    async def scenario(rig):
        first = rig.infer(value=1.0)
        await asyncio.sleep(0)
        left = rig.infer(value=2.0)
        await rig.until_ms(at_ms)
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
        assert [command.stage for command in commands(rig, Cancel)] == [stage]
        assert len(commands(rig, CancelBatch)) == (stage is Stage.RUNNING)
        assert values_of((await first).outputs[0]) == [1.0]

    play(scenario)


def test_cancelled_task_that_never_began_leaves_no_trace():
    """The request was not there yet."""

    async def scenario(rig):
        task = rig.infer()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert events(rig, RequestArrived) == []

    play(scenario)


def test_cancellation_that_crosses_the_answer_is_ignored():
    """The reply is there, the task has not seen it yet: the kernel knows no such request."""

    async def scenario(rig):
        task = rig.infer()
        await asyncio.sleep(0)
        rig.clock.call_at(10 * MS, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert events(rig, RequestCancelled) != []
        assert commands(rig, Cancel) == []

    play(scenario)


def test_cancelling_every_member_stops_the_batch_and_frees_its_slot():
    """The executor is told once; its late answer is nobody's."""

    async def scenario(rig):
        rig.infer()
        await asyncio.sleep(0)
        members = [rig.infer(), rig.infer()]
        await rig.until_ms(15)
        for member in members:
            member.cancel()
        await rig.until_ms(16)
        assert len(rig.executor.cancelled) == 1
        assert len(rig.engine._members) == 1
        assert values_of((await rig.infer(value=4.0)).outputs[0]) == [4.0]

    play(scenario)


def test_kernels_own_cancellation_is_an_error_for_who_waits():
    """Whoever still awaits a request that was taken back is told so."""

    async def scenario(rig):
        task = rig.infer()
        await asyncio.sleep(0)
        rig.engine._driver.post(RequestCancelled(request_id=last_request(rig).request_id))
        with pytest.raises(RequestCancelledError):
            await task

    play(scenario)


# --- shutting down --------------------------------------------------------------------------------


def test_drain_finishes_what_was_admitted_and_refuses_the_rest():
    """It ends with the last answer, long before the grace does."""

    async def scenario(rig):
        admitted = [rig.infer(value=1.0), rig.infer(value=2.0)]
        await asyncio.sleep(0)
        drain = rig.task(rig.engine.drain(NS_PER_S))
        await asyncio.sleep(0)
        assert not rig.engine.is_ready
        with pytest.raises(UnavailableError, match="shutting down"):
            await rig.infer()
        assert [values_of((await a).outputs[0]) for a in admitted] == [[1.0], [2.0]]
        assert await drain == 0
        assert rig.clock.now_ns() == 20 * MS

    play(scenario)


def test_drain_without_work_ends_at_once():
    """There is nothing to wait for."""

    async def scenario(rig):
        assert await rig.engine.drain(NS_PER_S) == 0
        assert rig.clock.now_ns() == 0

    play(scenario)


@pytest.mark.parametrize("grace_ms", [0, 15])
def test_drain_answers_the_rest_when_the_grace_is_over(grace_ms):
    """Running and waiting alike get a 503, and a slot that frees later is not given their batch."""

    async def scenario(rig):
        calls = [rig.infer() for _ in range(4)]
        await asyncio.sleep(0)
        left = await rig.engine.drain(grace_ms * MS)
        assert rig.clock.now_ns() == grace_ms * MS
        ends = await asyncio.gather(*calls, return_exceptions=True)
        kinds = [type(end).__name__ for end in ends]
        done = grace_ms // 10
        assert kinds == ["InferReply"] * done + ["UnavailableError"] * (4 - done)
        assert left == 4 - done
        job_count = len(rig.executor.jobs)
        await rig.until_ms(500)
        assert len(rig.executor.jobs) == job_count
        assert len(events(rig, BatchFinished)) == job_count
        assert not rig.engine._driver.has_crashed

    play(scenario, plans=[a_plan(batch_rows_max=1)])


# --- a bug ----------------------------------------------------------------------------------------


def test_kernel_bug_answers_everyone_with_internal_and_stops():
    """Requests, loads and unloads all end, at once and from then on."""

    async def main():
        rig = Rig([a_plan(), a_plan("other")], load_ns=MS)
        await rig.load_all()
        running, waiting = rig.infer(), rig.infer()
        await asyncio.sleep(0)
        waiters = [running, waiting, rig.task(rig.engine.unload("echo"))]
        waiters.append(rig.task(rig.engine.load("other", {})))
        drain = rig.task(rig.engine.drain(3_600 * NS_PER_S))
        await asyncio.sleep(0)
        rig.kernel.handle = lambda event, now_ns: 1 // 0
        rig.engine.on_warmed(1)
        ends = await asyncio.gather(*waiters, return_exceptions=True)
        assert [type(end) for end in ends] == [InternalError] * 4
        assert str(ends[0]) == (
            "the scheduler has stopped (hint: see the server's log; restart it)"
        )
        assert await drain == 0
        assert rig.clock.now_ns() < NS_PER_S
        assert not rig.engine.is_ready
        for late in (rig.infer(), rig.engine.load("echo", {}), rig.engine.unload("echo")):
            with pytest.raises(InternalError):
                await late
        bug = rig.engine.crash.exception()
        assert isinstance(bug, InternalError)
        assert isinstance(bug.__cause__, ZeroDivisionError)
        rig.clock.close()
        assert rig.engine._pending == {}
        assert rig.engine._members == {}

    run_virtual(main())


def test_engine_without_an_executor_is_a_bug_of_who_built_it():
    """It says what is missing."""

    async def main():
        rig = Rig()
        engine = AsyncEngine(rig.kernel, rig.clock, rig.catalogue, {})
        with pytest.raises(InternalError, match="the scheduler has stopped"):
            await engine.load("echo", {})
        with pytest.raises(InternalError, match="the engine has no executor yet"):
            await engine.crash
        rig.clock.close()

    run_virtual(main())


def test_late_reports_of_an_executor_are_harmless():
    """Batches and replicas that nobody knows any more change nothing."""

    async def scenario(rig):
        await rig.infer()
        before = rig.kernel.ledger.live.copy()
        job = rig.executor.jobs[0]
        rig.engine.on_failed(job.batch_id, "executor_failed", "late")
        rig.engine.on_lost((99,), "late")
        rig.engine.on_unloaded(99)
        rig.engine.on_load_failed(99, "late")
        assert rig.kernel.ledger.live == before
        assert values_of((await rig.infer(value=1.0)).outputs[0]) == [1.0]

    play(scenario)
