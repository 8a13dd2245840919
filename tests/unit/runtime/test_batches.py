"""What the engine makes of shapes and parameters: which calls share a job, and what each gets."""

import pytest
from msgspec.structs import replace
from tests.engine_rig import Rig, a_plan, floats, values_of

from headway.core import Datatype
from headway.errors import ExecutorError, InvalidRequestError
from headway.executors import AxisBuckets, Signature, TensorSpec
from headway.testing import ECHO_SIGNATURE, run_virtual

LENGTHS = AxisBuckets(sizes=(4, 8), inputs={"INPUT": 1}, outputs={"OUTPUT": 1})


def padded_plan(*, buckets=(LENGTHS,), **fields):
    plan = a_plan(**fields)
    return replace(plan, spec=replace(plan.spec, buckets=buckets))


def play(scenario, **setup):
    """Run a scenario on a loaded engine; nothing may be left of it."""

    async def main():
        rig = Rig(**setup)
        await rig.load_all()
        await scenario(rig)
        rig.close()

    run_virtual(main())


def test_calls_of_several_sizes_run_in_one_job():
    """One job of one shape; each caller gets back what it sent, at the size that it sent."""

    async def scenario(rig):
        held = rig.infer(value=9.0, width=4)
        asked = [rig.infer(value=float(width), width=width) for width in (1, 2, 3, 4)]
        await held
        for width, one in enumerate(asked, start=1):
            reply = await one
            (output,) = reply.outputs
            assert output.shape == (1, width)
            assert values_of(output) == [width] * width
            assert reply.batch_rows == 4
        assert [len(job.members) for job in rig.executor.jobs] == [1, 4]
        assert {member[0].shape for member in rig.executor.jobs[1].members} == {(1, 4)}

    play(scenario, plans=[padded_plan()])


def test_call_beyond_the_largest_size_is_refused():
    """At once, with the size up to which the model is served; nothing reaches a worker."""

    async def scenario(rig):
        with pytest.raises(InvalidRequestError) as refused:
            await rig.infer(width=9)
        assert refused.value.message == "axis 1 of input `INPUT` has size `9`"
        assert rig.executor.jobs == []

    play(scenario, plans=[padded_plan()])


def test_output_that_cannot_be_cut_fails_its_batch():
    """An output that does not grow with the inputs is an error, not somebody's padding."""
    signature = replace(
        ECHO_SIGNATURE,
        inputs=(
            *ECHO_SIGNATURE.inputs,
            TensorSpec(name="Z", datatype=Datatype.FP32, shape=(-1, 3)),
        ),
        outputs=(
            *ECHO_SIGNATURE.outputs,
            TensorSpec(name="W", datatype=Datatype.FP32, shape=(-1, -1)),
        ),
    )
    wrong = replace(LENGTHS, outputs={"W": 1})

    async def scenario(rig):
        inputs = [floats("INPUT", [[1.0, 2.0]]), floats("Z", [[1.0, 2.0, 3.0]])]
        with pytest.raises(ExecutorError, match="output `W` has shape"):
            await rig.infer(inputs=inputs)
        whole = await rig.infer(inputs=[floats("INPUT", [[1.0] * 4]), inputs[1]])
        assert [output.shape for output in whole.outputs] == [(1, 4), (1, 3)]

    play(scenario, plans=[padded_plan(buckets=(wrong,))], signature=signature)


def test_reload_with_other_sizes_leaves_waiting_calls_as_they_were():
    """Those who wait run in the shapes that they were queued in; newcomers in the new ones."""

    async def scenario(rig):
        held = rig.infer(width=4)
        asked = [rig.infer(value=float(width), width=width) for width in (2, 3)]
        await rig.until_ms(1)
        plan = rig.catalogue.plans["echo"]
        other = replace(LENGTHS, sizes=(6,))
        rig.catalogue.plans["echo"] = replace(plan, spec=replace(plan.spec, buckets=(other,)))
        await rig.engine.load("echo", {"version": "2"})
        late = rig.infer(value=5.0, width=5)
        await held
        for width, one in zip((2, 3), asked, strict=True):
            assert values_of((await one).outputs[0]) == [width] * width
        assert values_of((await late).outputs[0]) == [5.0] * 5
        shapes = [{member[0].shape for member in job.members} for job in rig.executor.jobs]
        assert shapes == [{(1, 4)}, {(1, 4)}, {(1, 6)}]

    play(scenario, plans=[padded_plan()])


@pytest.mark.parametrize(
    ("names", "told", "job_count"),
    [(None, [{"a": 1}, {"b": 2}], 2), (("a",), [{"a": 1}] * 2, 1), ((), [{}], 1)],
    ids=["any", "named", "none"],
)
def test_parameters_reach_only_a_model_that_takes_them(names, told, job_count):
    """Calls are together unless they differ in what the model takes; it is handed no more."""
    says = [{"a": 1, "trace": "1"}, {"a": 1, "trace": "2"}]
    if names is None:
        says = told
    signature = replace(ECHO_SIGNATURE, parameters=names)

    async def scenario(rig):
        held = rig.infer()
        asked = [rig.infer(value=float(tag), parameters=say) for tag, say in enumerate(says)]
        await held
        for tag, one in enumerate(asked):
            assert values_of((await one).outputs[0]) == [tag]
        jobs = rig.executor.jobs[1:]
        assert len(jobs) == job_count
        assert [dict(job.parameters) for job in jobs] == told[:job_count]

    play(scenario, signature=signature)


@pytest.mark.parametrize("can_batch", [True, False], ids=["batches", "no batches"])
def test_large_request_is_one_job_with_or_without_batches(can_batch):
    """A hundred rows take the same way whether or not others may join them (mlserver#1826)."""
    signature: Signature = replace(ECHO_SIGNATURE, can_batch=can_batch)

    async def scenario(rig):
        reply = await rig.infer(value=2.0, rows=100, width=3)
        (job,) = rig.executor.jobs
        (member,) = job.members
        assert member[0].shape == (100, 3)
        assert reply.outputs[0].shape == (100, 3)
        assert rig.clock.now_ns() == 10_000_000

    play(scenario, plans=[a_plan(batch_rows_max=100)], signature=signature)
