"""From tensors to rows, a bucket and bytes: what is refused, in which words, and what may mix."""

import pytest
from tests.engine_rig import a_call, floats

from headway.core import BucketKey, Datatype, Tensor
from headway.errors import InvalidRequestError
from headway.executors import Signature, TensorSpec
from headway.runtime.binding import Binding, bind

PAIR = Signature(
    platform="scripted",
    inputs=(
        TensorSpec(name="A", datatype=Datatype.FP32, shape=(-1, 2)),
        TensorSpec(name="B", datatype=Datatype.BYTES, shape=(-1,)),
    ),
    outputs=(
        TensorSpec(name="X", datatype=Datatype.FP32, shape=(-1, 2)),
        TensorSpec(name="Y", datatype=Datatype.BYTES, shape=(-1,)),
    ),
    can_batch=True,
)
BATCHED = Binding(PAIR, can_batch=True)
WHOLE = Binding(PAIR, can_batch=False)


def a(rows=1, width=2):
    return floats("A", [[0.0] * width] * rows)


def b(rows=1):
    return Tensor("B", Datatype.BYTES, (rows,), b"\x01\x00\x00\x00x" * rows)


def bound(*inputs, binding=BATCHED, **fields):
    return bind(a_call(inputs=inputs, **fields), binding)


REFUSALS = {
    "missing": (
        [a()],
        {},
        "the request for `echo` lacks input `B`",
        "its inputs are `A` FP32[-1, 2], `B` BYTES[-1]",
    ),
    "unknown": (
        [a(), b(), floats("C", [[0.0]])],
        {},
        "the request for `echo` has an unknown input `C`",
        "its inputs are `A` FP32[-1, 2], `B` BYTES[-1]",
    ),
    "twice": (
        [a(), b(), b()],
        {},
        "the request for `echo` names an input twice",
        "its inputs are `A` FP32[-1, 2], `B` BYTES[-1]",
    ),
    "datatype": (
        [Tensor("A", Datatype.INT32, (1, 2), bytes(8)), b()],
        {},
        "input `A` is `INT32`",
        "the model takes FP32",
    ),
    "rank": (
        [Tensor("A", Datatype.FP32, (2,), bytes(8)), b()],
        {},
        "input `A` has shape `[2]`",
        "the model takes [-1, 2], where -1 is any size",
    ),
    "width": (
        [a(width=3), b()],
        {},
        "input `A` has shape `[1, 3]`",
        "the model takes [-1, 2], where -1 is any size",
    ),
    "rows differ": (
        [a(rows=2), b(rows=3)],
        {},
        "input `B` has `3` rows, `A` has `2`",
        "the first dimension of every input is the batch and must agree",
    ),
    "no rows": (
        [a(rows=0, width=2), b(rows=0)],
        {},
        "the request has `0` rows",
        "send at least one row in the first dimension",
    ),
    "output": (
        [a(), b()],
        {"outputs": ("X", "Z", "Q")},
        "model `echo` has no output `Q`",
        "its outputs are `X` FP32[-1, 2], `Y` BYTES[-1]",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_call_that_does_not_fit_is_refused(case):
    """Each misfit is named with its value, and the hint says what would fit."""
    inputs, fields, message, hint = REFUSALS[case]
    if case == "no rows":
        inputs = [Tensor("A", Datatype.FP32, (0, 2), b""), Tensor("B", Datatype.BYTES, (0,), b"")]
    with pytest.raises(InvalidRequestError) as refused:
        bound(*inputs, **fields)
    assert refused.value.message == message
    assert refused.value.hint == hint


def test_call_is_reduced_to_rows_bucket_and_bytes():
    """Rows are the first dimension; the bucket is version, inputs and the other dimensions."""
    found = bound(a(rows=3), b(rows=3))
    assert found.rows == 3
    assert found.payload_bytes == 3 * 2 * 4 + 3 * 5
    assert found.bucket == BucketKey("|A FP32 (2,)|B BYTES ()")


def test_inputs_take_the_models_order():
    """However a client orders its inputs, every member of a batch lists them alike."""
    found = bound(b(), a())
    assert [tensor.name for tensor in found.inputs] == ["A", "B"]
    assert found.bucket == bound(a(), b()).bucket


def test_model_without_batch_axis_takes_one_request_as_one_row():
    """The whole shape is then part of the bucket, and nothing must agree."""
    found = bound(a(rows=3), b(rows=2), binding=WHOLE)
    assert found.rows == 1
    assert found.bucket == BucketKey("|A FP32 (3, 2)|B BYTES (2,)")


def test_requests_that_must_not_mix_have_other_buckets():
    """Version and parameters split batches, also where parameters look alike; order does not."""
    calls = [
        {},
        {"version": "1"},
        {"parameters": {"beam": 1}},
        {"parameters": {"beam": True}},
        {"parameters": {"beam": 1.0}},
        {"parameters": {"beam": "1"}},
        {"parameters": {"beam": 1, "seed": 2}},
    ]
    buckets = [bound(a(), b(), **call).bucket for call in calls]
    assert len(set(buckets)) == len(calls)
    assert bound(a(), b(), parameters={"seed": 2, "beam": 1}).bucket == buckets[-1]


def test_parameters_are_counted_and_bounded():
    """What waits with a request is part of its bytes, and cannot grow without a limit."""
    plain = bound(a(), b()).payload_bytes
    assert bound(a(), b(), parameters={"text": "x" * 1000}).payload_bytes > plain + 1000
    with pytest.raises(InvalidRequestError, match="the parameters take"):
        bound(a(), b(), parameters={"text": "x" * 70_000})


def test_known_outputs_in_any_order_are_accepted():
    """A subset, an order of the client's own, even a name twice."""
    assert bound(a(), b(), outputs=("Y", "X", "Y")).rows == 1
