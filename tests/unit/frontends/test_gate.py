"""Requests through the gate: whose they become, and how each end is settled."""

import asyncio
from functools import wraps

import pytest
from msgspec.structs import replace
from tests.fakes import FakeEngine, a_reply, a_status

from headway.core import Datatype, ModelName, TenantId, Tensor, TierName
from headway.errors import (
    DeadlineExceededError,
    InternalError,
    InvalidRequestError,
    NotAllowedError,
    NotAuthenticatedError,
    RejectedError,
    RequestCancelledError,
    UnavailableError,
)
from headway.frontends import GatedEngine
from headway.frontends.gate import outcome_of
from headway.runtime import InferCall, Secret
from headway.tenancy import Gate, KeyParams, TenantParams, hash_of

ACME = TenantId("acme")
PRIORITIES = {TierName("gold"): 1, TierName("bronze"): 5, TierName("normal"): 2}


def in_a_loop(test):
    """Run a test that waits."""

    @wraps(test)
    def run(**arguments):
        asyncio.run(test(**arguments))

    return run


def a_call(**fields):
    """A request of two rows, with the key of `acme`."""
    tensor = Tensor("INPUT", Datatype.FP32, (2, 16), bytes(128))
    fields = {"credential": Secret("hwk_acme"), "model": ModelName("echo"), **fields}
    return InferCall(inputs=[tensor], arrived_at_ns=42, **fields)


def a_gated(engine, **limits):
    """An engine whose only tenant is `acme`."""
    limits = {"tier": TierName("bronze"), "tiers": frozenset({TierName("bronze")}), **limits}
    keys = (KeyParams(key_hash=hash_of("hwk_acme")),)
    gate = Gate([TenantParams(tenant=ACME, keys=keys, **limits)], started_at_unix_ns=0)
    return GatedEngine(engine, gate, PRIORITIES), gate


async def through(way, gated, call):
    """Ask in one of the two ways."""
    if way == "infer":
        return await gated.infer(call)
    done = asyncio.get_running_loop().create_future()
    gated.submit(call, done.set_result)
    end = await done
    if isinstance(end, Exception):
        raise end
    return end


@pytest.mark.parametrize("way", ["infer", "submit"])
@in_a_loop
async def test_request_becomes_its_tenant_s(way):
    """Tenant and tier come from the key; they are in what the engine is asked."""
    engine = FakeEngine()
    gated, gate = a_gated(engine)
    await through(way, gated, a_call())
    assert (engine.calls[0].tenant, engine.calls[0].tier) == (ACME, "bronze")
    assert gate.in_flight() == {ACME: 0}
    assert gate.counts()[ACME].endings["completed"] == 1


@pytest.mark.parametrize(
    ("limits", "asked", "served"),
    [
        ({}, None, None),
        ({}, 1, 5),
        ({}, 7, 7),
        ({"tier": None, "tiers": frozenset()}, 1, 2),
    ],
)
@in_a_loop
async def test_request_is_never_more_urgent_than_its_tier(limits, asked, served):
    """Its own, or its model's where it has none; it may stand back as far as it likes."""
    engine = FakeEngine()
    gated, _ = a_gated(engine, **limits)
    await gated.infer(a_call(priority=asked))
    assert engine.calls[0].priority == served


@pytest.mark.parametrize("way", ["infer", "submit"])
@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (InvalidRequestError("x"), "invalid"),
        (RejectedError("x", reason="r", retry_after_ns=1), "refused"),
        (UnavailableError("x"), "refused"),
        (DeadlineExceededError("x", limit="tier", stage="waiting"), "expired"),
        (RequestCancelledError("x"), "cancelled"),
        (InternalError("x"), "failed"),
    ],
)
@in_a_loop
async def test_request_that_fails_is_settled_by_how(way, error, ending):
    """Whichever way it went, it leaves once."""
    gated, gate = a_gated(FakeEngine(outcome=error))
    with pytest.raises(type(error)):
        await through(way, gated, a_call())
    assert gate.in_flight() == {ACME: 0}
    assert {k: v for k, v in gate.counts()[ACME].endings.items() if v} == {ending: 1}


@in_a_loop
async def test_request_that_is_taken_back_is_settled():
    """The client has gone, and with it its task."""
    engine = FakeEngine(gate=asyncio.Event())
    gated, gate = a_gated(engine)
    task = asyncio.get_running_loop().create_task(gated.infer(a_call()))
    await engine.started.wait()
    assert gate.in_flight() == {ACME: 1}
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.counts()[ACME].endings["cancelled"] == 1


@in_a_loop
async def test_engine_that_refuses_at_once_is_settled_once():
    """What `submit` raises is not told again."""
    gated, gate = a_gated(FakeEngine())
    gated.inner.submit = _raise  # as the engine does for what it knows at once
    with pytest.raises(InvalidRequestError):
        gated.submit(a_call(), pytest.fail)
    assert gate.counts()[ACME].endings["invalid"] == 1


def _raise(call, on_end):
    raise InvalidRequestError("x")


@in_a_loop
async def test_rows_are_counted_of_models_that_take_rows():
    """A picture of 320 lines is one row of a model that takes no batches."""
    engine = FakeEngine(models={"echo": a_status(can_batch=False)})
    gated, _ = a_gated(engine, rows_per_s=1.0)
    await gated.infer(a_call())
    await gated.load("echo", {})  # which takes rows
    with pytest.raises(RejectedError, match="rows"):
        await gated.infer(a_call())


@in_a_loop
async def test_estimate_asks_for_a_key_and_uses_nothing():
    """It is the tenant's request that is judged."""
    engine = FakeEngine()
    gated, gate = a_gated(engine, requests_per_s=1.0)
    for _ in range(5):
        gated.estimate(a_call())
    assert engine.asked[0].tenant == ACME
    with pytest.raises(NotAuthenticatedError):
        gated.estimate(a_call(credential=Secret()))
    assert gate.in_flight() == {ACME: 0}


def test_outcome_counts_what_a_reply_says():
    """Bytes of its outputs, and what the engine has counted."""
    reply = a_reply(Tensor("y", Datatype.FP32, (1,), bytes(4)), late_ns=1)
    found = outcome_of(replace(reply, rows=3, tokens=7, device_ns=9))
    assert (found.rows, found.tokens, found.device_ns, found.bytes_out) == (3, 7, 9, 4)
    assert found.is_violation


def test_what_was_refused_after_a_part_had_run_has_failed():
    """A pipeline whose second step is refused has used the devices for its first."""
    refused = RejectedError("x", reason="queue_full", retry_after_ns=1)
    assert outcome_of(refused).ending == "refused"
    refused.device_ns = 5
    assert outcome_of(refused).ending == "failed"


@in_a_loop
async def test_model_s_own_tier_is_checked_where_a_request_names_none():
    """Else a tenant of the low tiers would have the high one of any model."""
    engine = FakeEngine()  # whose model has tier `normal`
    gated, _ = a_gated(engine, tier=None, tiers=frozenset({TierName("bronze")}))
    with pytest.raises(NotAllowedError, match="may not have tier `normal`"):
        await gated.infer(a_call())
    await gated.infer(a_call(tier=TierName("bronze")))
    with pytest.raises(NotAllowedError, match="may not have tier `gold`"):
        await gated.infer(a_call(tier=TierName("gold")))


def test_key_is_in_no_text():
    """A call that is printed, in a log or an error, does not tell it."""
    assert "hwk_acme" not in repr(a_call())
