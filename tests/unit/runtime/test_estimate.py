"""Estimates: what a request would meet now, told without a trace; and what replies carry of it."""

import asyncio

import pytest
from tests.engine_rig import ECHO, NORMAL, TIERS, URGENT, Rig, a_call, a_plan, floats, leftovers
from tests.predictors import ScriptedPredictor

from headway.core import UNKNOWN, RejectReason, RequestArrived
from headway.errors import (
    InternalError,
    InvalidRequestError,
    ModelNotFoundError,
    RejectedError,
    RequestError,
    UnavailableError,
)
from headway.policy import fifo, priority
from headway.runtime import ExpiredError
from headway.testing import run_virtual
from headway.units import NS_PER_MS

MS = NS_PER_MS


def play(scenario, *, each_ns=10 * MS, is_loaded=True, order=fifo, **setup):
    """Run a scenario on an engine whose predictor takes each request for `each_ns`."""

    async def main():
        rig = Rig(policy=lambda _: order(ScriptedPredictor(each_ns)), **setup)
        if is_loaded:
            await rig.load_all()
        await scenario(rig)
        await rig.until_ms(rig.loop.time() * 1_000 + 60_000)
        rig.close()

    run_virtual(main())


def estimate(rig, **call):
    """Of a request that arrives now."""
    return rig.engine.estimate(a_call(arrived_at_ns=rig.clock.now_ns(), **call))


def test_estimate_is_what_the_reply_will_have_been_promised():
    """Asked just before, an estimate says what the request's own reply carries."""

    async def scenario(rig):
        for _ in range(3):
            rig.infer()
        await asyncio.sleep(0)
        told = estimate(rig)
        reply = await rig.infer()
        assert told.reason is None
        assert told.foreseen == reply.foreseen
        assert told.foreseen.mean_ns == 30 * MS
        assert told.foreseen.queue_ns == 20 * MS
        assert told.is_known
        assert (told.model, told.version, told.tier) == (ECHO, "1", NORMAL)
        assert (told.budget_ns, told.budget_source) == (TIERS[NORMAL].budget_ns, "tier")
        assert told.left_ns == told.budget_ns

    play(scenario)


def test_estimate_leaves_no_trace():
    """Neither kernel, journal, counters nor the numbering of requests show that it was asked."""

    async def scenario(rig):
        await rig.infer()
        before = (len(rig.records), rig.engine.statistics(), rig.kernel.ledger.arrived_count)
        seen = (rig.kernel.now_ns, rig.kernel.timers.head_at_ns())
        await rig.until_ms(50)
        for call in ({}, {"tier": URGENT}, {"budget_ns": 0}, {"rows": 9}):
            estimate(rig, **call)
        assert before == (
            len(rig.records),
            rig.engine.statistics(),
            rig.kernel.ledger.arrived_count,
        )
        assert seen == (rig.kernel.now_ns, rig.kernel.timers.head_at_ns())
        assert leftovers(rig) == {}
        await rig.infer()
        arrived = [r.event.request for r in rig.records if isinstance(r.event, RequestArrived)]
        assert [request.request_id for request in arrived] == [1, 2]

    play(scenario)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ({"rows": 5}, RejectReason.TOO_MANY_ROWS),
        ({"budget_ns": 0}, RejectReason.DEADLINE_PAST),
        ({}, RejectReason.MODEL_QUEUE_FULL),
        ({"priority": 1}, None),
    ],
)
def test_estimate_foretells_the_refusal(call, reason):
    """What an estimate says would be refused is refused, and what it would admit is admitted."""

    async def scenario(rig):
        held = [rig.infer() for _ in range(3)]
        await asyncio.sleep(0)
        told = estimate(rig, **call)
        end = (await asyncio.gather(rig.infer(**call), return_exceptions=True))[0]
        assert told.reason is reason
        assert isinstance(end, RequestError) is (reason is not None)
        if reason is RejectReason.MODEL_QUEUE_FULL:
            assert isinstance(end, RejectedError)
            assert (end.reason, end.retry_after_ns) == (told.reason, told.retry_after_ns)
        await asyncio.gather(*held, return_exceptions=True)

    play(scenario, plans=[a_plan(queue_requests_max=2)], order=priority)


def test_refused_is_never_in_time():
    """Whatever a refused request would take, it will not meet its deadline."""

    async def scenario(rig):
        assert estimate(rig).will_meet_deadline(10 * MS) is True
        assert estimate(rig, budget_ns=9 * MS).will_meet_deadline(10 * MS) is False
        assert estimate(rig, rows=5).will_meet_deadline(1) is False

    play(scenario)


def test_nothing_known_is_said_to_be_so():
    """A predictor that knows nothing makes no promise, in an estimate or in a reply."""

    async def scenario(rig):
        told = estimate(rig)
        assert not told.is_known
        assert told.will_meet_deadline(1) is None
        assert (await rig.infer()).foreseen == UNKNOWN

    play(scenario, each_ns=0)


def test_time_that_has_passed_is_not_left():
    """A body that took long to arrive has used up some of its budget."""

    async def scenario(rig):
        await rig.until_ms(30)
        told = rig.engine.estimate(a_call(arrived_at_ns=10 * MS, budget_ns=40 * MS))
        assert told.left_ns == 20 * MS
        assert told.budget_source == "request"
        assert rig.engine.estimate(a_call(arrived_at_ns=0, budget_ns=20 * MS)).left_ns == -10 * MS

    play(scenario)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ({"model": "nobody"}, ModelNotFoundError),
        ({"version": "9"}, ModelNotFoundError),
        ({"tier": "gold"}, InvalidRequestError),
        ({"inputs": []}, InvalidRequestError),
        ({"inputs": [floats("OTHER", [[1.0]])]}, InvalidRequestError),
        ({"outputs": ("nothing",)}, InvalidRequestError),
    ],
)
def test_estimate_refuses_what_infer_refuses(call, error):
    """A call that could not be run has no estimate, and the same error."""

    async def scenario(rig):
        with pytest.raises(error) as told:
            estimate(rig, **call)
        with pytest.raises(error) as run:
            await rig.infer(**call)
        assert str(told.value) == str(run.value)

    play(scenario)


def test_model_that_loads_has_no_estimate_yet():
    """As for a request, it is said that it is still loading."""

    async def scenario(rig):
        load = rig.task(rig.load_all())
        await rig.until_ms(1)
        with pytest.raises(UnavailableError, match="loading"):
            estimate(rig)
        await load
        assert estimate(rig).reason is None

    play(scenario, is_loaded=False, load_ns=5 * MS)


def test_model_that_is_being_unloaded_is_not_found():
    """While it finishes what it holds it takes no more, and an estimate says so as `infer` does."""

    async def scenario(rig):
        held = rig.infer()
        await asyncio.sleep(0)
        unload = rig.task(rig.engine.unload(ECHO))
        await asyncio.sleep(0)
        with pytest.raises(ModelNotFoundError):
            estimate(rig)
        with pytest.raises(ModelNotFoundError):
            await rig.infer()
        await held
        await unload

    play(scenario)


def test_draining_server_would_refuse():
    """An estimate knows that the server is going away."""

    async def scenario(rig):
        await rig.engine.drain(0)
        assert estimate(rig).reason is RejectReason.DRAINING

    play(scenario)


def test_expired_request_carries_what_was_foreseen():
    """The error of a request that was not in time has the promise that it was admitted with."""

    async def scenario(rig):
        rig.infer()
        await asyncio.sleep(0)
        with pytest.raises(ExpiredError) as waiting:
            await rig.infer(budget_ns=4 * MS)
        assert (waiting.value.stage, waiting.value.foreseen.mean_ns) == ("waiting", 10 * MS)
        assert waiting.value.code == "deadline_exceeded"

    play(scenario)


def test_stopped_scheduler_has_no_estimate():
    """After a bug nothing it says would be true."""

    async def main():
        rig = Rig()
        await rig.load_all()
        rig.kernel.handle = None
        with pytest.raises(InternalError):
            await rig.infer()
        with pytest.raises(InternalError, match="stopped"):
            estimate(rig)
        with pytest.raises(InternalError):
            await rig.engine.crash
        rig.clock.close()

    run_virtual(main())
