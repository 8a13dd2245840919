"""What a model is fed while it is measured, and the bucket that this makes."""

from random import Random

import numpy as np
import pytest

from headway.core import Datatype, bytes_element_ends
from headway.errors import HeadwayError
from headway.executors import Signature, TensorSpec
from headway.profiling import bucket_of, make_rows, row_shapes
from headway.runtime import InferCall
from headway.runtime.binding import Binding, bind


def a_signature(*inputs: tuple[str, Datatype, tuple[int, ...]], can_batch: bool = True):
    """Inputs only; what comes out does not matter here."""
    specs = tuple(TensorSpec(name=n, datatype=d, shape=s) for n, d, s in inputs)
    return Signature(platform="test", inputs=specs, outputs=(), can_batch=can_batch)


TWO = a_signature(("ids", Datatype.INT64, (-1, -1)), ("x", Datatype.FP32, (-1, 3, 4)))


def test_fixed_axes_need_no_shape() -> None:
    """What the model declares is taken, and only free axes must be given."""
    assert row_shapes(TWO, {"ids": (7,)}, "m") == {"ids": (7,), "x": (3, 4)}


def test_free_axis_without_a_size_says_what_to_give() -> None:
    """The error names the input, and the hint is the flag to add."""
    with pytest.raises(HeadwayError) as caught:
        row_shapes(TWO, {}, "m")
    assert "input `ids` of model `m` has free axes: `[-1]`" in caught.value.message
    assert caught.value.hint is not None
    assert "--shape ids=N" in caught.value.hint


@pytest.mark.parametrize("shape", [(2, 4), (3,), (3, 4, 5), (3, -1)])
def test_shape_that_does_not_fit_is_refused(shape: tuple[int, ...]) -> None:
    """Another size of a fixed axis, or another number of axes."""
    with pytest.raises(HeadwayError, match="cannot have the shape"):
        row_shapes(TWO, {"ids": (7,), "x": shape}, "m")


def test_unknown_input_is_refused() -> None:
    """A mistyped name does not go unnoticed."""
    with pytest.raises(HeadwayError, match="no input `idz`") as caught:
        row_shapes(TWO, {"idz": (7,)}, "m")
    assert caught.value.hint == "its inputs are `ids`, `x`"


def test_model_without_a_batch_axis_has_whole_shapes() -> None:
    """Its first axis is part of the shape, and there is one request a batch."""
    signature = a_signature(("x", Datatype.FP32, (2, -1)), can_batch=False)
    shapes = row_shapes(signature, {"x": (2, 5)}, "m")
    (tensor,) = make_rows(signature, shapes, 4, Random(1))
    assert tensor.shape == (2, 5)
    assert tensor.size_bytes == 40


@pytest.mark.parametrize("datatype", list(Datatype))
def test_tensors_of_every_datatype_are_whole(datatype: Datatype) -> None:
    """The bytes are as many as the shape says; texts carry their lengths."""
    signature = a_signature(("x", datatype, (-1, 3)))
    (tensor,) = make_rows(signature, {"x": (3,)}, 2, Random(1))
    assert tensor.shape == (2, 3)
    if datatype is Datatype.BYTES:
        assert len(bytes_element_ends(tensor.data, 6)) == 6
    else:
        assert tensor.size_bytes == 6 * (datatype.item_bytes or 0)


def test_fractions_lie_between_0_and_1_and_repeat_with_the_seed() -> None:
    """The same seed gives the same numbers, another gives others."""
    signature = a_signature(("x", Datatype.FP32, (-1, 9000)))
    first, again, other = (
        make_rows(signature, {"x": (9000,)}, 1, Random(seed))[0].data for seed in (1, 1, 2)
    )
    numbers = np.frombuffer(first, "<f4")
    assert 0 <= numbers.min() < numbers.max() <= 1
    assert first == again != other


def test_half_precision_fractions_are_numbers() -> None:
    """BF16 is the upper half of a float32, and below 1."""
    signature = a_signature(("x", Datatype.BF16, (-1, 64)))
    bits = np.frombuffer(make_rows(signature, {"x": (64,)}, 1, Random(1))[0].data, "<u2")
    numbers = (bits.astype("<u4") << 16).view("<f4")
    assert 0 <= numbers.min() < numbers.max() < 1


def test_whole_numbers_are_one() -> None:
    """A valid index, mask and flag."""
    signature = a_signature(("x", Datatype.INT32, (-1, 3)))
    (tensor,) = make_rows(signature, {"x": (3,)}, 2, Random(1))
    assert np.frombuffer(tensor.data, "<i4").tolist() == [1] * 6


@pytest.mark.parametrize("can_batch", [True, False])
def test_bucket_is_that_of_requests(can_batch: bool) -> None:
    """A profile is found under the bucket that a live request of the same shapes has."""
    shape = (-1, 3, 4) if can_batch else (3, 4)
    signature = a_signature(
        ("ids", Datatype.INT64, (-1, -1) if can_batch else (-1,)),
        ("x", Datatype.FP32, shape),
        can_batch=can_batch,
    )
    shapes = row_shapes(signature, {"ids": (7,)}, "m")
    inputs = make_rows(signature, shapes, 2, Random(1))
    call = InferCall(model="m", inputs=tuple(inputs), arrived_at_ns=0)
    bound = bind(call, Binding(signature, can_batch=can_batch))
    assert bucket_of(signature, shapes) == bound.bucket
