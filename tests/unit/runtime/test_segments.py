"""Requests in segments through the engine: what runs, what is kept, and what the caller gets."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.engine_rig import CPU, ECHO, URGENT, Rig, a_plan, floats, values_of
from tests.moody import in_parts

from headway.core import Complete, Datatype, Dispatch, KeepSegment, Tensor, concat_bytes
from headway.errors import (
    DeadlineExceededError,
    ExecutorError,
    InvalidRequestError,
    RequestCancelledError,
    WorkerLostError,
)
from headway.executors import AxisBuckets, Signature, TensorSpec
from headway.policy import fifo
from headway.testing import ScriptedError, run_virtual
from headway.units import NS_PER_MS

MS = NS_PER_MS
TEXTS = Signature(
    platform="scripted",
    inputs=(
        TensorSpec(name="NUMBERS", datatype=Datatype.FP32, shape=(-1, -1)),
        TensorSpec(name="TEXTS", datatype=Datatype.BYTES, shape=(-1, 2)),
    ),
    outputs=(
        TensorSpec(name="X", datatype=Datatype.FP32, shape=(-1, -1)),
        TensorSpec(name="Y", datatype=Datatype.BYTES, shape=(-1, 2)),
    ),
    can_batch=True,
)


def splitting(**fields):
    return a_plan(can_split=True, **fields)


def play(scenario, *, policy=fifo, plan=None, **setup):
    """Run a scenario on a loaded engine; nothing may be left of it."""

    async def main():
        plans = [splitting(batch_rows_max=2) if plan is None else plan]
        rig = Rig(plans, policy=policy, **setup)
        await rig.load_all()
        await scenario(rig)
        await rig.until_ms(rig.loop.time() * 1_000 + 60_000)
        rig.close()

    run_virtual(main())


def rows_of(count, first=0):
    return [floats("INPUT", [[float(first + row)] for row in range(count)])]


def commands(rig, kind):
    return [c for record in rig.records for c in record.commands if isinstance(c, kind)]


def test_oversized_request_runs_in_segments_and_is_answered_whole():
    """Five rows through a model that takes two: three batches, one answer, in order."""

    async def scenario(rig):
        reply = await rig.infer(inputs=rows_of(5))
        assert values_of(reply.outputs[0]) == [0, 1, 2, 3, 4]
        assert reply.outputs[0].shape == (5, 1)
        assert [list(job.member_rows) for job in rig.executor.jobs] == [[2], [2], [1]]
        ran = [[values_of(t) for t in job.members[0]] for job in rig.executor.jobs]
        assert ran == [[[0, 1]], [[2, 3]], [[4]]]
        assert (reply.segments, reply.service_ns, reply.batch_rows) == (3, 30 * MS, 1)
        assert (len(commands(rig, KeepSegment)), len(commands(rig, Complete))) == (2, 1)

    play(scenario)


def test_oversized_request_is_refused_where_rows_may_not_be_split():
    """With the two settings that would let it in."""

    async def scenario(rig):
        with pytest.raises(InvalidRequestError, match="more rows than model") as refused:
            await rig.infer(inputs=rows_of(5))
        assert "batch.oversize" in (refused.value.hint or "")
        assert rig.executor.jobs == []

    play(scenario, plan=a_plan(batch_rows_max=2))


@settings(max_examples=60)
@given(data=st.data())
def test_answer_is_the_same_whatever_the_split(data):
    """Any number of rows, any size of segments, numbers and texts: byte for byte what came in."""
    rows = data.draw(st.integers(1, 12))
    width = data.draw(st.integers(1, 3))
    element = st.floats(width=32, allow_nan=False)
    row = st.lists(element, min_size=width, max_size=width)
    numbers = data.draw(st.lists(row, min_size=rows, max_size=rows))
    texts = data.draw(st.lists(st.binary(max_size=5), min_size=2 * rows, max_size=2 * rows))
    wanted = data.draw(st.sampled_from([(), ("X",), ("Y", "X")]))
    size = data.draw(st.integers(1, 12))
    inputs = [
        floats("NUMBERS", numbers),
        Tensor("TEXTS", Datatype.BYTES, (rows, 2), concat_bytes(texts)),
    ]

    async def scenario(rig):
        reply = await rig.infer(inputs=inputs, outputs=wanted)
        found = {t.name: (t.datatype, t.shape, bytes(t.data)) for t in reply.outputs}
        sent = {
            name: (t.datatype, t.shape, bytes(t.data))
            for name, t in zip("XY", inputs, strict=True)
            if not wanted or name in wanted
        }
        assert found == sent
        assert list(found) == list(wanted or "XY")
        assert reply.segments == -(-rows // size)

    plan = splitting(batch_rows_max=12, segments_max=12)
    play(scenario, policy=in_parts(size), plan=plan, signature=TEXTS)


def test_urgent_arrival_waits_for_one_segment_only():
    """The rest of a long request waits at its place, and whoever is before it goes first."""

    async def scenario(rig):
        long = rig.infer(inputs=rows_of(6))
        await rig.until_ms(5)
        urgent = await rig.infer(value=9.0, width=2, tier=URGENT)
        assert urgent.queue_delay_ns == 5 * MS
        assert values_of((await long).outputs[0]) == [0, 1, 2, 3, 4, 5]

    play(scenario, policy=in_parts(2), plan=splitting(batch_rows_max=8))


def test_padded_request_is_cut_back_in_every_segment():
    """Buckets and segments go together: what padding brought is in no part of the answer."""
    buckets = (AxisBuckets(sizes=(4,), inputs={"INPUT": 1}, outputs={"OUTPUT": 1}),)
    plan = splitting(batch_rows_max=2)
    plan = replace(plan, spec=replace(plan.spec, buckets=buckets))

    async def scenario(rig):
        sent = [[float(10 * row + place) for place in range(3)] for row in range(5)]
        reply = await rig.infer(inputs=[floats("INPUT", sent)])
        assert reply.outputs[0].shape == (5, 3)
        assert values_of(reply.outputs[0]) == [value for row in sent for value in row]
        assert {job.members[0][0].shape for job in rig.executor.jobs} == {(2, 4), (1, 4)}

    play(scenario, plan=plan)


def test_outputs_of_segments_are_copied_before_the_slot_is_used_again():
    """What is kept does not view the worker's memory, which the next segment overwrites."""
    memory = bytearray(floats("INPUT", [[1.0], [2.0], [3.0]]).data)

    async def scenario(rig):
        view = Tensor("INPUT", Datatype.FP32, (3, 1), memoryview(memory))
        asked = rig.infer(inputs=[view])
        await rig.until_ms(15)
        memory[:8] = bytes(8)
        assert values_of((await asked).outputs[0]) == [1.0, 2.0, 3.0]

    play(scenario)


# --- early ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["deadline", "client", "failure", "worker"])
def test_request_that_ends_between_segments_drops_what_was_kept(end):
    """Its first segment was kept; it gets an error, nothing more of it starts, nothing is left."""
    ran = []

    def service_ns(job):
        ran.append(job)
        if len(ran) == 1:
            return 10 * MS
        if end == "failure":
            raise ScriptedError("the model raised")
        return 30 * MS

    async def scenario(rig):
        budget = {"budget_ns": 32 * MS} if end == "deadline" else {}
        asked = rig.infer(inputs=rows_of(6), **budget)
        if end != "failure":
            await rig.until_ms(12)
            (pending,) = rig.engine._pending.values()
            assert [values_of(t) for part in pending._parts for t in part] == [[0, 1]]
        if end == "client":
            (request_id,) = rig.engine._pending
            rig.engine.cancel(request_id)
        elif end == "worker":
            rig.executor.lose(CPU)
        error = {
            "deadline": DeadlineExceededError,
            "client": RequestCancelledError,
            "failure": ExecutorError,
            "worker": WorkerLostError,
        }[end]
        with pytest.raises(error):
            await asked
        await rig.until_ms(200)
        assert len(rig.executor.jobs) == 2
        assert commands(rig, Complete) == []

    play(scenario, service_ns=service_ns)


@pytest.mark.parametrize("version", ["1", "2"])
def test_reload_between_segments_starts_over(version):
    """All rows of an answer are of one load, be its version called the same: they run again."""

    async def scenario(rig):
        asked = rig.infer(inputs=rows_of(6))
        await rig.until_ms(5)
        load = rig.task(rig.engine.load(ECHO, {"version": version}))
        reply = await asked
        await load
        assert values_of(reply.outputs[0]) == [0, 1, 2, 3, 4, 5]
        assert reply.version == version
        assert reply.segments == 3
        dispatches = commands(rig, Dispatch)
        assert [d.first_row for d in dispatches] == [0, 0, 2, 4]

    play(scenario)


def test_outputs_that_cannot_be_joined_fail_the_request():
    """A model whose output is as wide as the batch has rows cannot be run in segments."""
    plan = splitting(batch_rows_max=2)

    async def scenario(rig):
        finished = rig.engine.on_finished

        def wider(batch_id, replies, stages):
            changed = [
                [Tensor(t.name, t.datatype, (t.shape[0], 1, t.shape[0]), t.data) for t in reply]
                for reply in replies
            ]
            finished(batch_id, changed, stages)

        rig.executor._listener = type("Listener", (), {"on_finished": staticmethod(wider)})()
        with pytest.raises(ExecutorError, match="differ in shape or datatype between segments"):
            await rig.infer(inputs=rows_of(3))

    play(scenario, plan=plan)


def test_drain_ends_a_request_between_segments():
    """A server that shuts down answers it, and starts no segment for nobody."""

    async def scenario(rig):
        asked = rig.infer(inputs=rows_of(6))
        await rig.until_ms(12)
        left = await rig.engine.drain(3 * MS)
        assert left == 1
        with pytest.raises(Exception, match="the server has shut down"):
            await asked
        await asyncio.sleep(1)
        assert len(rig.executor.jobs) == 2

    play(scenario)
