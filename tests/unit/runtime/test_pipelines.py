"""Pipelines: what runs when, what steps inherit, how calls end, and what is refused at the door."""

import asyncio
from functools import partial

import pytest
from msgspec.structs import replace
from tests.engine_rig import BULK, NORMAL, PATIENT, TIERS, URGENT
from tests.pipeline_rig import (
    MS,
    PIPE,
    FunctionEngine,
    Tally,
    a_list,
    a_number,
    a_pipe_call,
    a_pipeline,
    a_step,
    maps,
    numbers_of,
    pipelines_on,
    the_number,
)

from headway.core import Datatype, Forecast, ModelName, RejectReason, TenantId, Tensor
from headway.errors import (
    DeadlineExceededError,
    ExecutorError,
    HeadwayError,
    InternalError,
    InvalidRequestError,
    ModelNotFoundError,
    RejectedError,
    RequestCancelledError,
    UnavailableError,
)
from headway.executors import TensorSpec, item_name
from headway.runtime import InferCall
from headway.testing import run_virtual

PLUS_ONE = maps(lambda x: x + 1)
DOUBLE = maps(lambda x: 2 * x)
SUM = maps(lambda a, b: a + b)


def play(scenario):
    """Run a scenario in virtual time; it gets nothing, for engines need a running loop."""
    run_virtual(scenario())


def numbers_in(reply):
    return {tensor.name: the_number(tensor) for tensor in reply.outputs}


def chain(**fields):
    """X -> first (x + 1) -> second (2 x)."""
    first, second = a_step("first", x="input.x"), a_step("second", model="second", x="first.y")
    return a_pipeline(first, second, out_y="second.y", **fields)


def chain_engine(**fields):
    return FunctionEngine({"first": PLUS_ONE, "second": DOUBLE}, **fields)


def test_steps_run_one_after_another_where_wired():
    """The output of one step is the input of the next, and the last one's the answer."""

    async def main():
        engine = chain_engine()
        reply = await pipelines_on(engine, chain()).infer(a_pipe_call(engine, 3.0))
        assert numbers_in(reply) == {"y": 8.0}
        assert (reply.model, reply.tier, reply.budget_source) == (PIPE, NORMAL, "tier")
        assert reply.request_id < 0
        assert engine.now_ns() == 2 * MS

    play(main)


def test_branches_are_asked_for_at_once():
    """Steps that wait for the same step start together; who joins them waits for both."""

    async def main():
        took_ns = {"left": 5 * MS, "right": 2 * MS}
        engine = FunctionEngine(
            {"left": PLUS_ONE, "right": DOUBLE, "join": SUM},
            took_ns=lambda call: took_ns.get(call.model, MS),
        )
        plan = a_pipeline(
            a_step("join", a="left.y", b="right.y"),
            a_step("left", x="input.x"),
            a_step("right", x="input.x"),
            out_y="join.y",
        )
        reply = await pipelines_on(engine, plan).infer(a_pipe_call(engine, 10.0))
        assert numbers_in(reply) == {"y": 31.0}
        asked = {each.call.model: each.asked_at_ns for each in engine.asked.values()}
        assert asked == {"left": 0, "right": 0, "join": 5 * MS}

    play(main)


def fan(**fields):
    """X -> crop (a list) -> read each -> join (one number)."""
    return a_pipeline(
        a_step("crop", x="input.x"),
        a_step("read", model="read", each="crop.line", x="crop.line"),
        a_step("join", lines="read.y"),
        out_y="join.y",
        **fields,
    )


def fan_engine(lines, **fields):
    def joined(call):
        items = {k: v for k, v in numbers_of(call).items() if k.startswith("lines[")}
        ordered = [items[item_name("lines", i)] for i in range(len(items))]
        return [a_number(sum(10**i * value for i, value in enumerate(ordered)), "y")]

    return FunctionEngine(
        {"crop": lambda call: a_list("line", lines), "read": PLUS_ONE, "join": joined}, **fields
    )


def test_fan_out_runs_once_an_item_and_fans_in_in_order():
    """Each item is a request of its own, and results stand in the order of the items."""

    async def main():
        # The later an item, the sooner it is done.
        engine = fan_engine(
            [1, 2, 3], took_ns=lambda call: int(9 - numbers_of(call).get("x", 0)) * MS
        )
        reply = await pipelines_on(engine, fan()).infer(a_pipe_call(engine, 1.0))
        assert numbers_in(reply) == {"y": 432.0}
        assert [numbers_of(call) for call in engine.calls_of("read")] == [
            {"x": 1},
            {"x": 2},
            {"x": 3},
        ]

    play(main)


def test_fan_out_over_nothing_goes_on_with_an_empty_list():
    """A page without lines is no error: the step that joins is handed a list without items."""

    async def main():
        engine = fan_engine([])
        reply = await pipelines_on(engine, fan()).infer(a_pipe_call(engine))
        assert numbers_in(reply) == {"y": 0.0}
        assert engine.calls_of("read") == []

    play(main)


def test_fan_out_zips_lists_and_repeats_arrays():
    """An input that is a list goes item by item, an array goes to every item."""

    async def main():
        engine = FunctionEngine(
            {
                "crop": lambda call: [*a_list("line", [1, 2]), *a_list("box", [10, 20])],
                "read": maps(lambda line, box, x: line + box + x),
                "join": lambda call: [a_number(sum(numbers_of(call).values()), "y")],
            }
        )
        plan = a_pipeline(
            a_step("crop", x="input.x"),
            a_step("read", each="crop.line", line="crop.line", box="crop.box", x="input.x"),
            a_step("join", lines="read.y"),
            out_y="join.y",
        )
        reply = await pipelines_on(engine, plan).infer(a_pipe_call(engine, 100.0))
        assert numbers_in(reply) == {"y": 111.0 + 122.0}

    play(main)


def test_lists_of_different_lengths_end_the_call():
    """Items are never paired with those of a list that is shorter or longer."""

    async def main():
        engine = FunctionEngine(
            {
                "crop": lambda call: [*a_list("line", [1, 2]), *a_list("box", [10])],
                "read": maps(lambda line, box: line + box),
                "join": PLUS_ONE,
            }
        )
        plan = a_pipeline(
            a_step("crop", x="input.x"),
            a_step("read", each="crop.line", line="crop.line", box="crop.box"),
            a_step("join", x="read.y"),
            out_y="join.y",
        )
        with pytest.raises(ExecutorError, match=r"step `read` of pipeline `pipe`.*`1` items.*`2`"):
            await pipelines_on(engine, plan).infer(a_pipe_call(engine))

    play(main)


def test_fewer_outputs_run_only_the_steps_that_they_need():
    """Who asks for one output of two is answered with it, and nothing else is computed."""

    async def main():
        engine = FunctionEngine({"first": PLUS_ONE, "left": PLUS_ONE, "right": DOUBLE})
        plan = a_pipeline(
            a_step("first", x="input.x"),
            a_step("left", x="first.y"),
            a_step("right", x="first.y"),
            out_left="left.y",
            out_right="right.y",
        )
        pipes = pipelines_on(engine, plan)
        reply = await pipes.infer(a_pipe_call(engine, 1.0, outputs=("right",)))
        assert numbers_in(reply) == {"right": 4.0}
        assert engine.calls_of("left") == []
        both = await pipes.infer(a_pipe_call(engine, 1.0, outputs=("right", "left")))
        assert [tensor.name for tensor in both.outputs] == ["right", "left"]
        with pytest.raises(InvalidRequestError, match="no output `other`"):
            await pipes.infer(a_pipe_call(engine, 1.0, outputs=("other",)))

    play(main)


def test_inputs_that_do_not_fit_are_refused_at_once():
    """A pipeline checks what it declared, as a model does, and asks for no step."""

    async def main():
        engine = chain_engine()
        pipes = pipelines_on(engine, chain())
        with pytest.raises(InvalidRequestError, match="lacks input `x`"):
            pipes.submit(a_pipe_call(engine, inputs=(a_number(1.0, "z"),)), pytest.fail)
        with pytest.raises(ModelNotFoundError, match="no version `7`"):
            pipes.submit(a_pipe_call(engine, version="7"), pytest.fail)
        with pytest.raises(InvalidRequestError, match="no tier `gold`"):
            pipes.submit(a_pipe_call(engine, tier="gold"), pytest.fail)
        assert engine.asked == {}

    play(main)


def test_steps_inherit_what_the_call_said():
    """Tier, priority, tenant, parameters and trace context are those of the call at every step."""

    async def main():
        engine = fan_engine([1, 2])
        pipes = pipelines_on(engine, fan())
        call = a_pipe_call(
            engine,
            tier=URGENT,
            priority=3,
            tenant=TenantId("acme"),
            parameters={"language": "en"},
            traceparent="00-1-2-01",
        )
        run_id = pipes.submit(call, lambda end: None)
        assert run_id < 0
        await asyncio.sleep(1)
        assert len(engine.asked) == 4
        for asked in engine.asked.values():
            step = asked.call
            assert (step.tier, step.priority, step.tenant) == (URGENT, 3, "acme")
            assert (step.parameters, step.traceparent) == ({"language": "en"}, "00-1-2-01")
            assert step.origin == run_id

    play(main)


def test_models_are_asked_for_what_is_used_and_functions_for_all():
    """A function does not say beforehand what it gives, and an item has a name of its own."""

    async def main():
        engine = chain_engine()
        await pipelines_on(engine, chain()).infer(a_pipe_call(engine))
        assert [call.outputs for call in engine.calls_of("first")] == [()]
        assert [call.outputs for call in engine.calls_of("second")] == [("y",)]

    play(main)


def test_buffers_are_handed_on_as_they_are():
    """What one step gave is what the next is given: no byte is copied between them."""

    async def main():
        given = a_number(5.0, "y")
        engine = FunctionEngine({"first": lambda call: [given], "second": DOUBLE})
        call = a_pipe_call(engine)
        await pipelines_on(engine, chain()).infer(call)
        assert engine.calls_of("first")[0].inputs[0].data is call.inputs[0].data
        assert engine.calls_of("second")[0].inputs[0].data is given.data

    play(main)


# --- deadlines ------------------------------------------------------------------------------------


def test_budget_is_shared_in_proportion_to_what_steps_took():
    """A step that takes a quarter of the path gets a quarter, the last one all that is left."""

    async def main():
        engine = chain_engine(took_ns=lambda call: MS if call.model == "first" else 3 * MS)
        pipes = pipelines_on(engine, chain())
        await pipes.infer(a_pipe_call(engine))
        before = len(engine.asked)
        began_at_ns = engine.now_ns()
        await pipes.infer(a_pipe_call(engine, budget_ns=100 * MS, budget_source="timeout"))
        first, second = [asked.call for asked in list(engine.asked.values())[before:]]
        assert first.budget_ns == pytest.approx(25 * MS, rel=0.01)
        # Wanted until the second could no longer be in time, which never took less than 3 ms.
        assert first.budget_ns + first.late_ns == 97 * MS
        assert second.arrived_at_ns + second.budget_ns == began_at_ns + 100 * MS
        assert (second.late_ns, second.budget_source) == (0, "timeout")

    play(main)


def test_budget_follows_the_longest_path():
    """A step before a short and a long branch gets what the long one leaves it."""

    async def main():
        took_ns = {"first": 10 * MS, "long": 30 * MS, "short": MS}
        engine = FunctionEngine(
            {"first": PLUS_ONE, "long": PLUS_ONE, "short": PLUS_ONE},
            took_ns=lambda call: took_ns[call.model],
        )
        plan = a_pipeline(
            a_step("first", x="input.x"),
            a_step("long", x="first.y"),
            a_step("short", x="first.y"),
            out_a="long.y",
            out_b="short.y",
        )
        pipes = pipelines_on(engine, plan)
        await pipes.infer(a_pipe_call(engine))
        await pipes.infer(a_pipe_call(engine, budget_ns=80 * MS))
        parts_ns = [call.budget_ns for call in engine.calls_of("first")]
        assert parts_ns[1] == pytest.approx(20 * MS, rel=0.01)

    play(main)


def test_budget_is_shared_alike_before_anything_ran():
    """While nothing is known each step on the path gets the same part."""

    async def main():
        engine = chain_engine()
        await pipelines_on(engine, chain()).infer(a_pipe_call(engine, budget_ns=100 * MS))
        assert engine.calls_of("first")[0].budget_ns == 50 * MS

    play(main)


def test_budget_follows_forecasts_where_there_are_any():
    """What the server foresaw of a step counts before what it took."""

    async def main():
        engine = chain_engine(
            foreseen=lambda call: Forecast(
                mean_ns=(9 if call.model == "first" else 1) * MS, bound_ns=20 * MS
            )
        )
        pipes = pipelines_on(engine, chain())
        await pipes.infer(a_pipe_call(engine))
        await pipes.infer(a_pipe_call(engine, budget_ns=100 * MS))
        assert engine.calls_of("first")[1].budget_ns == pytest.approx(90 * MS, rel=0.01)

    play(main)


def test_late_answers_are_wanted_of_steps_where_they_are_of_calls():
    """Where a tier has late requests served, so are late steps, as long as the last may be late."""

    async def main():
        engine = chain_engine(took_ns=lambda call: 30 * MS)
        pipes = pipelines_on(engine, chain())
        reply = await pipes.infer(a_pipe_call(engine, tier=PATIENT))
        tier = TIERS[PATIENT]
        assert reply.late_ns == 60 * MS - tier.budget_ns
        second = engine.calls_of("second")[0]
        assert second.budget_ns < 0
        assert second.arrived_at_ns + second.budget_ns + second.late_ns == (
            tier.budget_ns + tier.late_ns
        )

    play(main)


def test_call_that_arrives_late_is_refused_with_its_limit():
    """No step is asked for when the deadline has passed."""

    async def main():
        engine = chain_engine()
        pipes = pipelines_on(engine, chain())
        with pytest.raises(DeadlineExceededError) as caught:
            pipes.submit(a_pipe_call(engine, budget_ns=0, budget_source="timeout"), pytest.fail)
        assert (caught.value.limit, caught.value.stage) == ("timeout", "arriving")
        assert engine.asked == {}

    play(main)


def test_call_that_cannot_be_in_time_is_refused_with_when_to_come_back():
    """Once known, the path's time is held against the budget, as the kernel's predictions are."""

    async def main():
        engine = chain_engine(took_ns=lambda call: 20 * MS)
        pipes = pipelines_on(engine, chain())
        await pipes.infer(a_pipe_call(engine))
        with pytest.raises(RejectedError) as caught:
            pipes.submit(a_pipe_call(engine, budget_ns=30 * MS), pytest.fail)
        assert caught.value.reason is RejectReason.PREDICTED_LATE
        assert caught.value.retry_after_ns == 10 * MS
        assert numbers_in(await pipes.infer(a_pipe_call(engine, budget_ns=41 * MS))) == {"y": 4.0}

    play(main)


def tall():
    """An input of another shape than that of all other calls."""
    one = a_number(1.0)
    return Tensor("x", one.datatype, (2, 1), one.data * 2)


def test_waiting_counts_only_while_a_call_is_under_way():
    """Else nobody would find out that there is no queue any more."""

    async def main():
        foreseen = Forecast(mean_ns=30 * MS, bound_ns=30 * MS, queue_ns=20 * MS, base_ns=10 * MS)
        engine = chain_engine(took_ns=lambda call: 10 * MS, foreseen=lambda call: foreseen)
        pipes = pipelines_on(engine, chain())
        await pipes.infer(a_pipe_call(engine))
        pipes.submit(a_pipe_call(engine, budget_ns=40 * MS), lambda end: None)
        with pytest.raises(RejectedError):
            pipes.submit(a_pipe_call(engine, budget_ns=40 * MS), pytest.fail)

    play(main)


def test_calls_of_other_shapes_are_not_judged_by_these():
    """That a large picture takes long says nothing of a small one."""

    async def main():
        engine = chain_engine(took_ns=lambda call: 20 * MS)
        pipes = pipelines_on(engine, chain())
        await pipes.infer(a_pipe_call(engine))
        pipes.submit(a_pipe_call(engine, inputs=(tall(),), budget_ns=30 * MS), lambda end: None)
        assert len(engine.under_way) == 1

    play(main)


def test_refusals_let_one_in_now_and_then():
    """A belief that refuses everyone would never be mended; one call in seventeen tries it."""

    async def main():
        engine = chain_engine(took_ns=lambda call: 20 * MS)
        pipes = pipelines_on(engine, chain())
        await pipes.infer(a_pipe_call(engine))
        for _ in range(16):
            with pytest.raises(RejectedError):
                pipes.submit(a_pipe_call(engine, budget_ns=30 * MS), pytest.fail)
        ends = []
        pipes.submit(a_pipe_call(engine, budget_ns=30 * MS), ends.append)
        await asyncio.sleep(1)
        assert len(ends) == 1

    play(main)


def test_refusals_let_one_in_whoever_comes_between():
    """Calls of other shapes that are let in mend no belief about these."""

    async def main():
        lengths_ms = {(1, 1): 20, (2, 1): 1}
        engine = chain_engine(took_ns=lambda call: lengths_ms[call.inputs[0].shape] * MS)
        pipes = pipelines_on(engine, chain())
        await pipes.infer(a_pipe_call(engine))
        lengths_ms[1, 1] = 1  # the first one met a bad moment
        refusals = 0
        for _ in range(40):
            pipes.submit(a_pipe_call(engine, inputs=(tall(),)), lambda end: None)
            try:
                await pipes.infer(a_pipe_call(engine, budget_ns=30 * MS))
            except RejectedError:
                refusals += 1
        assert refusals < 40

    play(main)


def test_what_large_inputs_take_at_least_gives_up_no_small_one():
    """Steps of a call of new shapes are wanted until its deadline: it may be much shorter."""

    async def main():
        engine = FunctionEngine(
            {"first": lambda call: [a_number(1.0, "y")], "second": DOUBLE},
            took_ns=lambda call: 500 * MS,
        )
        pipes = pipelines_on(engine, chain())
        await pipes.infer(a_pipe_call(engine, inputs=(tall(),)))
        pipes.submit(a_pipe_call(engine, budget_ns=100 * MS), lambda end: None)
        (asked,) = engine.under_way
        assert asked.call.budget_ns + asked.call.late_ns == 100 * MS

    play(main)


def test_estimate_says_what_calls_of_these_shapes_took():
    """Unknown at first; then the path, its longest, and whether the call would be let in."""

    async def main():
        engine = chain_engine(took_ns=lambda call: 20 * MS)
        pipes = pipelines_on(engine, chain())
        assert not pipes.estimate(a_pipe_call(engine)).is_known
        await pipes.infer(a_pipe_call(engine))
        found = pipes.estimate(a_pipe_call(engine, budget_ns=30 * MS))
        assert (found.foreseen.mean_ns, found.foreseen.bound_ns) == (40 * MS, 40 * MS)
        assert found.reason is RejectReason.PREDICTED_LATE
        assert pipes.estimate(a_pipe_call(engine)).reason is None
        assert len(engine.asked) == 2

    play(main)


# --- ends -----------------------------------------------------------------------------------------


def failing(error):
    def fail(call):
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (
            RejectedError("full", reason="model_queue_full", retry_after_ns=7, hint="wait"),
            {"reason": "model_queue_full", "retry_after_ns": 7, "hint": "wait"},
        ),
        (
            DeadlineExceededError("passed", limit="tier", stage="running"),
            {"limit": "tier", "stage": "running"},
        ),
        (ExecutorError("broke"), {}),
    ],
)
def test_error_of_a_step_ends_the_call_and_names_the_step(error, kept):
    """Class, code and whatever a client acts on stay; the message says where it happened."""

    async def main():
        engine = FunctionEngine(
            {"left": failing(error), "right": DOUBLE, "join": SUM},
            took_ns=lambda call: MS if call.model == "left" else 50 * MS,
        )
        plan = a_pipeline(
            a_step("left", x="input.x"),
            a_step("right", x="input.x"),
            a_step("join", a="left.y", b="right.y"),
            out_y="join.y",
        )
        tally = Tally()
        ends = []
        pipelines_on(engine, plan, tally=tally).submit(a_pipe_call(engine), ends.append)
        await asyncio.sleep(1)
        (end,) = ends
        assert type(end) is type(error)
        assert "step `left` of pipeline `pipe`" in end.message
        assert {name: getattr(end, name) for name in kept} == kept
        assert [asked.was_cancelled for asked in engine.asked.values()] == [False, True]
        assert engine.calls_of("join") == []
        assert not +tally.now

    play(main)


def pages(read, **fields):
    """X -> cut -> each line read -> text; every request takes 1 ms of a device, and 2 tokens."""
    engine = FunctionEngine(
        {"cut": lambda call: a_list("line", fields["lines"]), "read": read, "text": lambda call: []}
    )
    outcome = engine._outcome

    def on_a_device(asked):
        end = outcome(asked)
        return end if isinstance(end, HeadwayError) else replace(end, device_ns=MS, tokens=2)

    engine._outcome = on_a_device
    plan = a_pipeline(
        a_step("cut", x="input.x"),
        a_step("read", each="cut.line", x="cut.line"),
        a_step("text", rows="read.y"),
        out_y="text.y",
    )
    return engine, plan


def test_error_says_what_was_done_for_the_items_before_it():
    """The gate must see that there was work, even where only a part of a step has ended."""

    async def main():
        def read(call):
            if the_number(call.inputs[0]) == 3.0:
                raise ExecutorError("the third line")
            return [a_number(1.0, "y")]

        engine, plan = pages(read, lines=[1, 2, 3])
        with pytest.raises(ExecutorError, match="third line") as caught:
            await pipelines_on(engine, plan).infer(a_pipe_call(engine))
        assert caught.value.device_ns == 3 * MS

    play(main)


def test_error_behind_an_empty_list_names_one_step():
    """The step without items has ended; the one that could not give its output has failed."""

    async def main():
        engine, plan = pages(DOUBLE, lines=[])
        del engine.models["text"]
        with pytest.raises(UnavailableError, match="step `text`") as caught:
            await pipelines_on(engine, plan).infer(a_pipe_call(engine))
        assert "step `read`" not in caught.value.message

    play(main)


def test_reply_adds_up_what_all_requests_of_all_steps_took():
    """Device time and tokens, by which tenants pay: of one cut, three reads and a text."""

    async def main():
        one = lambda call: [a_number(1.0, "y")]  # noqa: E731
        engine, plan = pages(one, lines=[1, 2, 3])
        engine.models["text"] = one
        reply = await pipelines_on(engine, plan).infer(a_pipe_call(engine))
        assert (reply.device_ns, reply.tokens) == (5 * MS, 10)

    play(main)


def test_missing_model_makes_the_pipeline_unavailable_not_unknown():
    """404 would say that the pipeline is not there; what it is made of is not, for now."""

    async def main():
        engine = FunctionEngine({"first": PLUS_ONE})
        with pytest.raises(UnavailableError, match=r"step `second`.*`second` is not served"):
            await pipelines_on(engine, chain()).infer(a_pipe_call(engine))

    play(main)


def test_step_given_up_early_says_why_and_names_the_calls_limit():
    """Before the call's own deadline it is given up for the sake of the steps after it."""

    async def main():
        early = DeadlineExceededError("the deadline passed", limit="timeout", stage="waiting")
        engine = FunctionEngine({"first": failing(early), "second": DOUBLE})
        with pytest.raises(DeadlineExceededError, match="steps after it") as caught:
            await pipelines_on(engine, chain()).infer(a_pipe_call(engine))
        assert caught.value.limit == "timeout"

    play(main)


def test_output_that_a_step_did_not_give_ends_the_call():
    """The message says what was given instead."""

    async def main():
        engine = FunctionEngine({"first": maps(lambda x: x, "z"), "second": DOUBLE})
        with pytest.raises(ExecutorError, match="gave no output `y`") as caught:
            await pipelines_on(engine, chain()).infer(a_pipe_call(engine))
        assert caught.value.hint == "it gave `z`"

    play(main)


def test_output_that_is_not_what_was_declared_ends_the_call():
    """Clients rely on metadata, so what it says is checked."""

    async def main():
        engine = chain_engine()
        engine.models = {**engine.models, "second": lambda call: [_flat()]}
        with pytest.raises(ExecutorError, match=r"`y` is FP32\[1\], declared is FP32\[-1, -1\]"):
            await pipelines_on(engine, chain()).infer(a_pipe_call(engine))

    def _flat():
        number = a_number(1.0, "y")
        return Tensor("y", number.datatype, (1,), number.data)

    play(main)


def test_list_for_a_model_without_each_ends_the_call():
    """Models take arrays; the hint says what to do."""

    async def main():
        engine = FunctionEngine({"first": lambda call: a_list("y", [1.0]), "second": DOUBLE})
        with pytest.raises(ExecutorError, match="models take arrays"):
            await pipelines_on(engine, chain()).infer(a_pipe_call(engine))

    play(main)


def test_bug_of_our_own_ends_the_call_as_internal():
    """The client is told, and whoever brought the step's answer is not troubled."""

    async def main():
        engine = chain_engine()
        engine.models = {**engine.models, "first": lambda call: [None]}
        with pytest.raises(InternalError, match="pipeline `pipe`"):
            await pipelines_on(engine, chain()).infer(a_pipe_call(engine))

    play(main)


def test_cancel_takes_back_all_that_is_under_way():
    """Once told, the client's call is over, and no request of a step is left."""

    async def main():
        engine = fan_engine([1, 2, 3], took_ns=lambda call: 10 * MS)
        tally, ends = Tally(), []
        pipes = pipelines_on(engine, fan(), tally=tally)
        run_id = pipes.submit(a_pipe_call(engine), ends.append)
        await asyncio.sleep(0.015)
        assert len(engine.under_way) == 3
        pipes.cancel(run_id)
        pipes.cancel(run_id)
        assert [type(end) for end in ends] == [RequestCancelledError]
        assert ends[0].request_id == run_id
        assert engine.under_way == []
        await asyncio.sleep(1)
        assert len(engine.asked) == 4
        assert [end[0] for end in tally.ends] == ["cancelled"]
        assert not +tally.now

    play(main)


def test_cancelled_task_cancels_the_call():
    """A client that hangs up while it awaits is noticed."""

    async def main():
        engine = chain_engine(took_ns=lambda call: 10 * MS)
        pipes = pipelines_on(engine, chain())
        task = asyncio.get_running_loop().create_task(pipes.infer(a_pipe_call(engine)))
        await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert engine.under_way == []

    play(main)


# --- limits ---------------------------------------------------------------------------------------


def test_runs_are_bounded():
    """One more than may be under way is refused, and told when to come back."""

    async def main():
        engine = chain_engine()
        tally = Tally()
        pipes = pipelines_on(engine, chain(runs_max=2), tally=tally)
        for _ in range(2):
            pipes.submit(a_pipe_call(engine), lambda end: None)
        with pytest.raises(RejectedError) as caught:
            pipes.submit(a_pipe_call(engine), pytest.fail)
        assert caught.value.reason is RejectReason.MODEL_QUEUE_FULL
        assert tally.refusals == 1
        await asyncio.sleep(1)
        pipes.submit(a_pipe_call(engine), lambda end: None)

    play(main)


def test_more_important_call_takes_the_newest_place_of_the_least_important():
    """A flood of bulk calls does not shut the door on an urgent one."""

    async def main():
        engine = chain_engine(took_ns=lambda call: 10 * MS)
        ends = {}
        pipes = pipelines_on(engine, chain(runs_max=4))
        for index, tier in enumerate((BULK, BULK, NORMAL, URGENT)):
            pipes.submit(
                a_pipe_call(engine, tier=tier), lambda end, index=index: ends.setdefault(index, end)
            )
        pipes.submit(a_pipe_call(engine, tier=URGENT), lambda end: ends.setdefault(4, end))
        assert list(ends) == [1]
        assert ends[1].reason is RejectReason.DISPLACED
        with pytest.raises(RejectedError):
            pipes.submit(a_pipe_call(engine, tier=BULK), pytest.fail)
        await asyncio.sleep(1)
        assert numbers_in(ends[4]) == {"y": 4.0}

    play(main)


def test_items_are_bounded():
    """A list that is too long ends the call with the limit's name, before any item runs."""

    async def main():
        engine = fan_engine([1.0] * 5)
        with pytest.raises(InvalidRequestError, match=r"step `read`.*`5` items") as caught:
            await pipelines_on(engine, fan(items_max=4)).infer(a_pipe_call(engine))
        assert "pipeline.items_max" in caught.value.hint
        assert engine.calls_of("read") == []

    play(main)


def test_bytes_between_steps_are_bounded():
    """A step that gives more than may be kept ends its call, and others go on."""

    async def main():
        size_bytes = {1.0: 4, 2.0: 4_000}

        def grown(call):
            count = size_bytes[numbers_of(call)["x"]] // 4
            return [Tensor("y", a_number(0).datatype, (1, count), bytes(4 * count))]

        engine = FunctionEngine({"first": grown, "second": lambda call: [a_number(7.0, "y")]})
        tally = Tally()
        pipes = pipelines_on(engine, chain(bytes_max=100), tally=tally)
        ends = []
        for value in (1.0, 2.0):
            pipes.submit(a_pipe_call(engine, value), ends.append)
        await asyncio.sleep(1)
        assert ends[0].reason is RejectReason.MODEL_BYTES_FULL
        assert "step `first`" in ends[0].message
        assert numbers_in(ends[1]) == {"y": 7.0}
        assert not +tally.now
        big = Tensor("x", a_number(0).datatype, (1, 30), bytes(120))
        with pytest.raises(RejectedError) as caught:
            pipes.submit(a_pipe_call(engine, inputs=(big,)), pytest.fail)
        assert caught.value.reason is RejectReason.MODEL_BYTES_FULL

    play(main)


def test_bytes_of_the_less_important_are_given_up_first():
    """An urgent call whose step gives much does not end because of a flood behind it."""

    async def main():
        def grown(call):
            return [Tensor("y", a_number(0).datatype, (1, 12), bytes(48))]

        engine = FunctionEngine({"first": grown, "second": lambda call: [a_number(7.0, "y")]})
        engine.took_ns = lambda call: MS if call.model == "first" else 20 * MS
        tally = Tally()
        pipes = pipelines_on(engine, chain(bytes_max=100), tally=tally)
        ends = {}
        for name, priority in (("low", 9), ("lower", 10), ("high", 1)):
            call = replace(a_pipe_call(engine, 1.0), priority=priority)
            pipes.submit(call, partial(ends.__setitem__, name))
            await asyncio.sleep(0.002)
        await asyncio.sleep(1)
        assert ends["lower"].reason is RejectReason.DISPLACED
        assert [numbers_in(ends[name]) for name in ("low", "high")] == [{"y": 7.0}] * 2
        assert not +tally.now

    play(main)


def specs(*names):
    """What a model declares that takes or gives these."""
    return tuple(TensorSpec(name=name, datatype=Datatype.FP32, shape=(-1, 1)) for name in names)


@pytest.mark.parametrize(
    ("inputs", "outputs", "misfit"),
    [
        (("x",), ("y",), ""),
        ((), (), ""),
        (("z",), ("y",), "model `second` has no input `x`"),
        (("x", "z"), ("y",), "model `second` is given no input `z`"),
        (("x",), ("z",), "model `second` has no output `y`"),
    ],
)
def test_pipeline_is_not_ready_while_a_model_does_not_fit_its_step(inputs, outputs, misfit):
    """A name that was mistyped is told before the first call is, and not blamed on its client."""

    async def main():
        engine = chain_engine()
        engine.signatures = {"second": (specs(*inputs), specs(*outputs))}
        pipes = pipelines_on(engine, chain())
        (line,) = [line for line in pipes.index() if line.name == PIPE]
        assert misfit in line.reason
        assert pipes.status(PIPE).is_ready is not bool(misfit)

    play(main)


def test_what_no_later_step_takes_is_no_longer_held():
    """A call holds what lies between two steps, not all that it ever was given."""

    async def main():
        engine = chain_engine(took_ns=lambda call: 10 * MS)
        big = Tensor("x", a_number(0).datatype, (1, 25), bytes(100))
        engine.models = {"first": lambda call: [a_number(1.0, "y")], "second": DOUBLE}
        tally = Tally()
        pipes = pipelines_on(engine, chain(bytes_max=100), tally=tally)
        pipes.submit(a_pipe_call(engine, inputs=(big,)), lambda end: None)
        assert tally.now["bytes"] == 100
        await asyncio.sleep(0.015)
        assert tally.now["bytes"] == 4

    play(main)


# --- the rest of the engine -----------------------------------------------------------------------


def test_other_calls_pass_through():
    """A plain model is the engine's own affair, ids included."""

    async def main():
        engine = chain_engine()
        pipes = pipelines_on(engine, chain())
        ends = []
        call = InferCall(
            model=ModelName("second"), inputs=(a_number(4.0),), arrived_at_ns=0, budget_ns=MS
        )
        request_id = pipes.submit(call, ends.append)
        assert request_id == 1
        assert (await pipes.infer(call)).model == "second"
        pipes.submit(call, ends.append)
        pipes.cancel(3)
        assert [type(end).__name__ for end in ends] == ["InferReply", "RequestCancelledError"]

    play(main)


def test_functions_are_called_by_their_pipeline_alone():
    """Clients can neither run, load nor unload one, and it has no line in the index."""

    async def main():
        engine = chain_engine()
        pipes = pipelines_on(engine, chain())
        call = InferCall(model=ModelName("first"), inputs=(), arrived_at_ns=0)
        with pytest.raises(ModelNotFoundError, match="function of a pipeline"):
            pipes.submit(call, pytest.fail)
        for change in (pipes.load(ModelName("first"), {}), pipes.unload(ModelName("first"))):
            with pytest.raises(ModelNotFoundError):
                await change
        lines = {line.name: line.state for line in pipes.index()}
        assert lines == {"second": "READY", "pipe": "READY"}

    play(main)


def test_pipeline_is_ready_while_all_its_steps_are():
    """Status and index say which step it waits for."""

    async def main():
        engine = chain_engine()
        pipes = pipelines_on(engine, chain())
        status = pipes.status(PIPE)
        assert (status.is_ready, status.platform, status.slots) == (True, "pipeline", 3)
        assert [spec.name for spec in (*status.inputs, *status.outputs)] == ["x", "y"]
        engine.missing.add("second")
        assert not pipes.status(PIPE).is_ready
        line = next(line for line in pipes.index() if line.name == PIPE)
        assert (line.state, "step `second`" in line.reason) == ("UNAVAILABLE", True)
        with pytest.raises(ModelNotFoundError, match="no version `2`"):
            pipes.status(PIPE, "2")

    play(main)


def test_statistics_tell_wall_time_from_busy_time():
    """Branches side by side are busy for longer than the call takes: two numbers, both right."""

    async def main():
        engine = FunctionEngine(
            {"left": PLUS_ONE, "right": DOUBLE, "join": SUM}, took_ns=lambda call: 10 * MS
        )
        plan = a_pipeline(
            a_step("left", x="input.x"),
            a_step("right", x="input.x"),
            a_step("join", a="left.y", b="right.y"),
            out_y="join.y",
        )
        tally = Tally()
        pipes = pipelines_on(engine, plan, tally=tally)
        await pipes.infer(a_pipe_call(engine))
        (found,) = pipes.statistics(PIPE)
        assert (found.success.count, found.success.total_ns) == (1, 20 * MS)
        assert found.compute_infer.total_ns == 30 * MS
        assert tally.ends == [("completed", True, 20 * MS, 30 * MS)]

    play(main)


def test_unload_lets_runs_end_and_load_brings_it_back():
    """Only the functions are the pipeline's own; the models of its steps stay."""

    async def main():
        engine = chain_engine(took_ns=lambda call: 10 * MS)
        pipes = pipelines_on(engine, chain())
        ends = []
        pipes.submit(a_pipe_call(engine), ends.append)
        task = asyncio.get_running_loop().create_task(pipes.unload(PIPE))
        await asyncio.sleep(0.001)
        with pytest.raises(ModelNotFoundError, match="unloaded"):
            pipes.submit(a_pipe_call(engine), pytest.fail)
        await task
        assert (len(ends), engine.now_ns()) == (1, 20 * MS)
        assert engine.unloads == ["first"]
        with pytest.raises(ModelNotFoundError):
            await pipes.unload(PIPE)
        await pipes.load(PIPE, {})
        assert engine.loads == ["first"]
        assert numbers_in(await pipes.infer(a_pipe_call(engine))) == {"y": 4.0}
        with pytest.raises(InvalidRequestError, match="takes no settings"):
            await pipes.load(PIPE, {"path": "other.py:F"})

    play(main)


def test_unload_that_is_not_waited_for_can_be_asked_for_again():
    """Whoever asked went away while calls ended; the functions are still there to be freed."""

    async def main():
        engine = chain_engine(took_ns=lambda call: 10 * MS)
        pipes = pipelines_on(engine, chain())
        pipes.submit(a_pipe_call(engine), lambda end: None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await pipes.unload(PIPE)
        assert engine.unloads == []
        await pipes.unload(PIPE)
        assert engine.unloads == ["first"]

    play(main)


def test_drain_lets_runs_take_their_later_steps():
    """New calls are refused, of plain models too; what runs goes on to its end."""

    async def main():
        engine = chain_engine(took_ns=lambda call: 10 * MS)
        pipes = pipelines_on(engine, chain())
        ends = []
        pipes.submit(a_pipe_call(engine), ends.append)
        task = asyncio.get_running_loop().create_task(pipes.drain(1_000 * MS))
        await asyncio.sleep(0.001)
        assert not pipes.is_ready
        for model in (PIPE, ModelName("second")):
            call = InferCall(model=model, inputs=(a_number(1.0),), arrived_at_ns=0)
            with pytest.raises(UnavailableError, match="shutting down"):
                await pipes.infer(call)
        assert await task == 0
        assert numbers_in(ends[0]) == {"y": 4.0}

    play(main)


def test_drain_answers_what_is_left_after_the_grace():
    """Nobody waits for ever: 503, and how many there were."""

    async def main():
        engine = chain_engine(took_ns=lambda call: 10_000 * MS)
        pipes = pipelines_on(engine, chain())
        ends = []
        for _ in range(3):
            pipes.submit(a_pipe_call(engine), ends.append)
        assert await pipes.drain(20 * MS) == 3
        assert [type(end) for end in ends] == [UnavailableError] * 3
        assert engine.under_way == []

    play(main)
