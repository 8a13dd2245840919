"""From tensors to rows, a bucket and bytes: what is refused, in which words, and what may mix."""

from array import array

import pytest
from msgspec.structs import replace
from tests.engine_rig import a_call, floats, values_of

from headway.core import BucketKey, Datatype, Tensor
from headway.errors import InvalidRequestError
from headway.executors import AxisBuckets, RaggedInputs, Signature, TensorSpec
from headway.runtime.binding import Binding, bind, rebind
from headway.runtime.shapes import Cut

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


def with_parameters(names):
    return Binding(replace(PAIR, parameters=names), can_batch=True)


def test_parameters_that_change_nothing_split_no_batch():
    """A model that takes no parameters computes the same whatever they say, and is handed none."""
    binding = with_parameters(())
    plain = bound(a(), b(), binding=binding)
    told = bound(a(), b(), binding=binding, parameters={"trace": "4711", "beam": 2})
    assert told == plain
    assert told.parameters == {}


def test_only_the_named_parameters_split_batches():
    """Where a model names what it takes, the rest neither splits batches nor reaches it."""
    binding = with_parameters(("beam",))
    one = bound(a(), b(), binding=binding, parameters={"beam": 2, "trace": "1"})
    other = bound(a(), b(), binding=binding, parameters={"trace": "2", "beam": 2})
    assert one.bucket == other.bucket
    assert one.parameters == other.parameters == {"beam": 2}
    assert bound(a(), b(), binding=binding, parameters={"beam": 3}).bucket != one.bucket


TOKENS = Signature(
    platform="scripted",
    inputs=(
        TensorSpec(name="ids", datatype=Datatype.FP32, shape=(-1, -1)),
        TensorSpec(name="mask", datatype=Datatype.FP32, shape=(-1, -1)),
    ),
    outputs=(TensorSpec(name="hidden", datatype=Datatype.FP32, shape=(-1, -1)),),
    can_batch=True,
)
LENGTHS = AxisBuckets(sizes=(4, 8), inputs={"ids": 1, "mask": 1}, outputs={"hidden": 1})
PADDED = Binding(TOKENS, can_batch=True, buckets=[LENGTHS])


def tokens(size, rows=1, value=1.0):
    return [floats(name, [[value] * size] * rows) for name in ("mask", "ids")]


def test_requests_of_several_sizes_share_a_bucket():
    """They are padded alike, their payload is what will run, and what is padding is said."""
    three, four = (bound(*tokens(size), binding=PADDED) for size in (3, 4))
    assert three.bucket == four.bucket == BucketKey("|ids FP32 (4,)|mask FP32 (4,)")
    assert values_of(three.inputs[0]) == [1, 1, 1, 0]
    assert (three.payload_bytes, three.padding_bytes) == (32, 8)
    assert (four.payload_bytes, four.padding_bytes) == (32, 0)
    assert three.cuts == {"hidden": (Cut(1, 3, 4),)}
    assert bound(*tokens(5), binding=PADDED).bucket != four.bucket


def test_model_without_batches_is_not_padded():
    """Padding is only for sharing a batch."""
    binding = Binding(TOKENS, can_batch=False, buckets=[LENGTHS])
    assert bound(*tokens(3), binding=binding).inputs[0].shape == (1, 3)


VARIED = Signature(
    platform="scripted",
    inputs=(
        TensorSpec(name="ids", datatype=Datatype.FP32, shape=(-1,)),
        TensorSpec(name="sizes", datatype=Datatype.INT64, shape=(-1,)),
        TensorSpec(name="scale", datatype=Datatype.FP32, shape=(-1, 1)),
    ),
    outputs=(TensorSpec(name="sum", datatype=Datatype.FP32, shape=(-1, 1)),),
    can_batch=True,
)
RAGGED = Binding(VARIED, can_batch=True, ragged=RaggedInputs(inputs=("ids",), lengths="sizes"))


def varied(size, rows):
    return [floats("scale", [[1.0]] * rows), floats("ids", [[1.0] * size] * rows)]


def test_ragged_requests_of_any_size_share_a_bucket():
    """The model is handed elements end to end and the size of each row; nothing is padded."""
    two, five = bound(*varied(2, 3), binding=RAGGED), bound(*varied(5, 1), binding=RAGGED)
    assert two.bucket == five.bucket
    assert (two.rows, five.rows) == (3, 1)
    assert [(t.name, t.shape) for t in two.inputs] == [
        ("ids", (6,)),
        ("sizes", (3,)),
        ("scale", (3, 1)),
    ]
    assert list(array("q", bytes(two.inputs[1].data))) == [2, 2, 2]
    assert two.padding_bytes == 0


def test_client_of_a_ragged_model_sends_rows_and_no_lengths():
    """What is declared to clients is what they send; lengths of their own are refused."""
    assert [(spec.name, spec.shape) for spec in RAGGED.signature.inputs] == [
        ("ids", (-1, -1)),
        ("scale", (-1, 1)),
    ]
    with pytest.raises(InvalidRequestError, match="unknown input `sizes`"):
        bound(*varied(2, 1), floats("sizes", [[2.0]]), binding=RAGGED)


def test_ragged_inputs_of_a_request_must_agree():
    """Two that are ragged together are as long as each other."""
    twins = replace(
        VARIED, inputs=(*VARIED.inputs, TensorSpec(name="z", datatype=Datatype.FP32, shape=(-1,)))
    )
    ragged = RaggedInputs(inputs=("ids", "z"), lengths="sizes")
    binding = Binding(twins, can_batch=True, ragged=ragged)
    with pytest.raises(InvalidRequestError, match="axis 1 of input `z` has size `4`"):
        bound(*varied(3, 1), floats("z", [[1.0] * 4]), binding=binding)


def test_call_that_waited_over_a_reload_runs_as_it_was_queued():
    """Sizes and parameters of the new load are for newcomers: those of one batch stay alike."""
    call = a_call(inputs=tokens(3), parameters={"beam": 2})
    other = replace(LENGTHS, sizes=(6,))
    after = Binding(replace(TOKENS, parameters=()), can_batch=True, buckets=[other])
    before = bind(call, PADDED)
    assert rebind(before, call, after) == before


def test_call_that_waited_over_a_reload_takes_the_new_order():
    """Inputs are handed on as the new load lists them; one that is gone ends the call."""
    call = a_call(inputs=tokens(3))
    turned = replace(TOKENS, inputs=TOKENS.inputs[::-1])
    found = rebind(bind(call, PADDED), call, Binding(turned, can_batch=True))
    assert [tensor.name for tensor in found.inputs] == ["mask", "ids"]
    with pytest.raises(InvalidRequestError, match="has an unknown input `mask`"):
        rebind(
            bind(call, PADDED),
            call,
            Binding(replace(TOKENS, inputs=TOKENS.inputs[:1]), can_batch=True),
        )
