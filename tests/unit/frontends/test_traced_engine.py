"""The layer that tells of requests: what it says of each end, and that it changes nothing."""

import asyncio
from random import Random

import pytest
from tests.fakes import FakeEngine, a_reply

from headway.core import (
    Expire,
    ExpireReason,
    Forecast,
    ModelName,
    RequestId,
    Stage,
    TenantId,
    TierName,
)
from headway.errors import (
    ExecutorError,
    InvalidRequestError,
    ModelNotFoundError,
    RejectedError,
    UnavailableError,
)
from headway.executors import StageTimes
from headway.frontends import TracedEngine
from headway.observe import RequestSpan, Sampling
from headway.runtime import InferCall
from headway.runtime.outcomes import error_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"


class Told:
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.spans: list[RequestSpan] = []

    def put(self, span: RequestSpan) -> None:
        self.spans.append(span)

    def close(self) -> None:
        """Nothing is held."""


def a_call(traceparent: str = SAMPLED, **fields) -> InferCall:
    return InferCall(
        **{"model": ModelName("echo"), "inputs": (), "arrived_at_ns": 2, "traceparent": traceparent}
        | fields
    )


def a_layer(engine: FakeEngine, ratio: float = 0.0) -> tuple[TracedEngine, Told]:
    told = Told()
    return TracedEngine(engine, Sampling(ratio, Random(1)), told), told


async def ended(layer, call, how):
    """The end of a call, by either way in."""
    if how == "infer":
        try:
            return await layer.infer(call)
        except Exception as error:  # noqa: BLE001
            return error
    end = asyncio.get_running_loop().create_future()
    try:
        layer.submit(call, end.set_result)
    except Exception as error:  # noqa: BLE001
        return error
    return await end


WAYS = pytest.mark.parametrize("how", ["infer", "submit"])


@WAYS
def test_answer_is_told_with_its_times(how):
    """Name, ids, instants, and all that the reply says of itself; the reply itself is untouched."""
    reply = a_reply(
        foreseen=Forecast(mean_ns=1_500_000, bound_ns=2_500_000),
        late_ns=250_000,
        segments=2,
        stages=StageTimes(transfer_in_ns=10_000, execution_ns=200_000, transfer_out_ns=20_000),
        request_id=412,
    )
    engine = FakeEngine(outcome=reply)
    layer, told = a_layer(engine)
    call = a_call(tenant=TenantId("acme"), priority=3)
    assert asyncio.run(ended(layer, call, how)) is reply
    (span,) = told.spans
    assert span.name == "infer echo"
    assert span.context == (int(TRACE, 16), int(SPAN, 16))
    assert (span.started_at_ns, span.ended_at_ns) == (2, engine.now_ns())
    assert (span.queue_delay_ns, span.service_ns) == (1_500_000, 250_000)
    assert not span.is_fault
    assert span.attributes == {
        "headway.model": "echo",
        "headway.tenant": "acme",
        "headway.priority": 3,
        "headway.outcome": "completed",
        "headway.version": "1",
        "headway.tier": "normal",
        "headway.batch_rows": 4,
        "headway.budget_ms": 1000.0,
        "headway.limit": "tier",
        "headway.request_id": 412,
        "headway.segments": 2,
        "headway.late_ms": 0.25,
        "headway.transfer_in_ms": 0.01,
        "headway.execution_ms": 0.2,
        "headway.transfer_out_ms": 0.02,
        "headway.expected_ms": 1.5,
        "headway.bound_ms": 2.5,
    }


EXPIRED = Expire(
    request_id=RequestId(1),
    reason=ExpireReason.DEADLINE_PAST,
    stage=Stage.WAITING,
    foreseen=Forecast(mean_ns=1_000_000, bound_ns=3_000_000),
)


@WAYS
@pytest.mark.parametrize(
    ("error", "says", "is_fault"),
    [
        (
            RejectedError("no", reason="model_queue_full", retry_after_ns=1),
            {"headway.outcome": "rejected", "headway.reason": "model_queue_full"},
            False,
        ),
        (
            error_of(EXPIRED, ModelName("echo"), "timeout"),
            {
                "headway.outcome": "expired",
                "headway.limit": "timeout",
                "headway.stage": "waiting",
                "headway.expected_ms": 1.0,
                "headway.bound_ms": 3.0,
            },
            True,
        ),
        (InvalidRequestError("no"), {"headway.outcome": "failed"}, False),
        (ModelNotFoundError("no"), {"headway.outcome": "failed"}, False),
        (UnavailableError("no"), {"headway.outcome": "failed"}, True),
        (ExecutorError("no"), {"headway.outcome": "failed"}, True),
    ],
)
def test_error_is_told_with_its_code(how, error, says, is_fault):
    """Which error, under which limit; a fault is what the client did not ask for."""
    error.request_id = 412
    layer, told = a_layer(FakeEngine(outcome=error))
    call = a_call(version="2", tier=TierName("gold"))
    assert asyncio.run(ended(layer, call, how)) is error
    (span,) = told.spans
    assert span.attributes == {
        "headway.model": "echo",
        "headway.version": "2",
        "headway.tier": "gold",
        "error.type": error.code,
        "headway.request_id": 412,
        **says,
    }
    assert span.is_fault is is_fault
    assert span.service_ns == 0


def test_client_that_leaves_is_told():
    """A cancelled task is a cancelled request, and stays cancelled; so is one taken back."""

    async def play():
        engine = FakeEngine(gate=asyncio.Event())
        layer, told = a_layer(engine)
        task = asyncio.get_running_loop().create_task(layer.infer(a_call()))
        await engine.started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        end = asyncio.get_running_loop().create_future()
        request_id = layer.submit(a_call(), end.set_result)
        await asyncio.sleep(0)
        layer.cancel(request_id)
        await end
        return [span.attributes["headway.outcome"] for span in told.spans]

    assert asyncio.run(play()) == ["cancelled", "cancelled"]


def test_what_is_known_at_once_is_told_too():
    """A call that `submit` refuses by raising ends there, and its answer is not called."""

    class Refuses(FakeEngine):
        def submit(self, call, on_end):
            raise InvalidRequestError("no")

    layer, told = a_layer(Refuses())
    with pytest.raises(InvalidRequestError):
        layer.submit(a_call(), lambda _: pytest.fail("it was not submitted"))
    assert [span.attributes["error.type"] for span in told.spans] == ["invalid_request"]


@WAYS
def test_request_that_is_not_sampled_is_handed_on_as_it_is(how):
    """By its caller's flag, or by the ratio: nothing is told, and the answer is the same."""
    layer, told = a_layer(FakeEngine())
    for traceparent in (UNSAMPLED, "", "nonsense"):
        assert asyncio.run(ended(layer, a_call(traceparent), how)).model == "echo"
    assert told.spans == []


@WAYS
def test_request_without_a_caller_begins_a_trace(how):
    """Sampled by the ratio, its span has no parent."""
    layer, told = a_layer(FakeEngine(), ratio=1.0)
    asyncio.run(ended(layer, a_call(""), how))
    assert [span.context.parent_id for span in told.spans] == [None]


def test_answer_comes_before_it_is_told_of():
    """Whoever waits is not kept waiting for a span."""
    seen = []

    class Late(Told):
        def put(self, span):
            seen.append("told")

    async def play():
        layer = TracedEngine(FakeEngine(), Sampling(1.0, Random(1)), Late())
        end = asyncio.get_running_loop().create_future()

        def on_end(reply):
            seen.append("answered")
            end.set_result(reply)

        layer.submit(a_call(""), on_end)
        await end

    asyncio.run(play())
    assert seen == ["answered", "told"]
