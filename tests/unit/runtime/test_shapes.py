"""Padding and cutting: against numpy for every datatype and axis, and what is refused."""

from itertools import product

import numpy as np
import pytest

from headway.core import Datatype, Tensor, concat_bytes
from headway.errors import ExecutorError, InvalidRequestError
from headway.executors import AxisBuckets, Signature, TensorSpec
from headway.runtime.shapes import Cut, Shaper, own_copy

NUMPY = {
    Datatype.BOOL: "?",
    Datatype.UINT8: "<u1",
    Datatype.UINT64: "<u8",
    Datatype.INT8: "<i1",
    Datatype.INT16: "<i2",
    Datatype.INT32: "<i4",
    Datatype.INT64: "<i8",
    Datatype.FP16: "<f2",
    Datatype.BF16: "<u2",
    Datatype.FP32: "<f4",
    Datatype.FP64: "<f8",
}


def a_tensor(name, datatype, shape, start=1):
    """Counts up from ``start``, texts likewise."""
    count = int(np.prod(shape))
    if datatype is Datatype.BYTES:
        texts = [b"t" * (number % 5) + str(number).encode() for number in range(count)]
        return Tensor(name, datatype, shape, concat_bytes(texts))
    numbers = (np.arange(count) + start) % 100
    return Tensor(name, datatype, shape, numbers.astype(NUMPY[datatype]).tobytes())


def values_of(tensor):
    """As an array; texts as objects."""
    if tensor.datatype is not Datatype.BYTES:
        return np.frombuffer(tensor.data, NUMPY[tensor.datatype]).reshape(tensor.shape)
    texts, data = [], bytes(tensor.data)
    while data:
        size = int.from_bytes(data[:4], "little")
        texts.append(data[4 : 4 + size])
        data = data[4 + size :]
    found = np.empty(len(texts), object)
    found[:] = texts
    return found.reshape(tensor.shape)


def a_shaper(*buckets, datatype=Datatype.FP32, shape=(-1, -1), names=("x",)):
    inputs = tuple(TensorSpec(name=name, datatype=datatype, shape=shape) for name in names)
    signature = Signature(platform="scripted", inputs=inputs, outputs=inputs, can_batch=True)
    return Shaper(signature, buckets)


def lengths(**more):
    return AxisBuckets(**{"sizes": (4, 8), "inputs": {"x": 1}, "outputs": {"y": 1}} | more)


@pytest.mark.parametrize("datatype", [*NUMPY, Datatype.BYTES], ids=str)
def test_padding_adds_and_cutting_takes_away(datatype):
    """What is padded along any axis is what numpy would make, and cut again is what it was."""
    for axis, rows in product((1, 2, 3), (1, 3)):
        shape = [rows, 2, 2, 2]
        shape[axis] = 3
        tensor = a_tensor("x", datatype, tuple(shape))
        bucket = AxisBuckets(sizes=(5,), inputs={"x": axis}, outputs={"x": axis})
        shaper = a_shaper(bucket, datatype=datatype)
        fitting = shaper.fit([tensor])
        (padded,) = shaper.padded([tensor], fitting)
        widths = [(0, 2 if at == axis else 0) for at in range(4)]
        empty = b"" if datatype is Datatype.BYTES else 0
        wanted = np.pad(values_of(tensor), widths, constant_values=empty)
        assert np.array_equal(values_of(padded), wanted)
        assert own_copy(padded, fitting.cuts) == tensor


@pytest.mark.parametrize(
    ("datatype", "pad", "bits"),
    [
        (Datatype.INT64, 7, (7).to_bytes(8, "little")),
        (Datatype.INT8, -1, b"\xff"),
        (Datatype.FP32, -1.5, np.float32(-1.5).tobytes()),
        (Datatype.BF16, 1.0, b"\x80\x3f"),
        (Datatype.BOOL, 1, b"\x01"),
    ],
    ids=str,
)
def test_padding_is_the_value_that_was_set(datatype, pad, bits):
    """A model that wants another filling than 0 gets it, in its own datatype."""
    shaper = a_shaper(lengths(pads={"x": pad}), datatype=datatype)
    tensor = a_tensor("x", datatype, (1, 3))
    (padded,) = shaper.padded([tensor], shaper.fit([tensor]))
    assert bytes(padded.data) == bytes(tensor.data) + bits


def test_two_axes_of_one_input_are_padded():
    """Pictures of any height and width go to the next of each, and come back as they were."""
    tall = AxisBuckets(sizes=(4,), inputs={"x": 2}, outputs={"x": 2})
    wide = AxisBuckets(sizes=(8,), inputs={"x": 3}, outputs={"x": 3})
    shaper = a_shaper(tall, wide)
    tensor = a_tensor("x", Datatype.FP32, (2, 3, 3, 5))
    fitting = shaper.fit([tensor])
    (padded,) = shaper.padded([tensor], fitting)
    wanted = np.pad(values_of(tensor), [(0, 0), (0, 0), (0, 1), (0, 3)])
    assert np.array_equal(values_of(padded), wanted)
    assert own_copy(padded, fitting.cuts) == tensor


@pytest.mark.parametrize(("own", "padded"), [(0, 4), (1, 4), (4, None), (5, 8), (8, None)])
def test_size_goes_to_the_next_bucket(own, padded):
    """To the first that is not smaller; a size that is one of them stays, and costs nothing."""
    fitting = a_shaper(lengths()).fit([a_tensor("x", Datatype.FP32, (2, own))])
    assert (None if fitting is None else fitting.shapes) == (padded and ((2, padded),))


def test_too_large_is_refused_or_run_as_it_is():
    """As configured: the error says up to where the model is served."""
    tensor = a_tensor("x", Datatype.FP32, (1, 9))
    with pytest.raises(InvalidRequestError) as refused:
        a_shaper(lengths()).fit([tensor])
    assert refused.value.message == "axis 1 of input `x` has size `9`"
    assert refused.value.hint == (
        "the model is served up to `8`; send less, or in several requests"
    )
    assert a_shaper(lengths(is_strict=False)).fit([tensor]) is None


def test_inputs_that_share_a_size_must_agree():
    """Tokens and a mask of another length are a mistake that padding must not hide."""
    shaper = a_shaper(lengths(inputs={"x": 1, "z": 1}), names=("x", "z"))
    inputs = [a_tensor("x", Datatype.FP32, (1, 3)), a_tensor("z", Datatype.FP32, (1, 4))]
    with pytest.raises(InvalidRequestError, match="axis 1 of input `z` has size `4`"):
        shaper.fit(inputs)


@pytest.mark.parametrize(("size", "kept"), [(8, 5), (4, 3), (2, 2), (1, 1), (16, 10), (24, 15)])
def test_output_of_another_length_is_cut_in_proportion(size, kept):
    """A model that halves or doubles the axis gives back the part that the caller's made."""
    found = own_copy(a_tensor("y", Datatype.FP32, (2, size, 3)), {"y": (Cut(1, 5, 8),)})
    assert found.shape == (2, kept, 3)
    whole = values_of(a_tensor("y", Datatype.FP32, (2, size, 3)))
    assert np.array_equal(values_of(found), whole[:, :kept])


@pytest.mark.parametrize("shape", [(2, 7), (2,), (2, 0)], ids=str)
def test_output_that_does_not_grow_with_the_input_is_an_error(shape):
    """Nothing is guessed: the caller is told instead of given numbers that padding made."""
    with pytest.raises(ExecutorError, match="what padding brought cannot be cut off"):
        own_copy(a_tensor("y", Datatype.FP32, shape), {"y": (Cut(1, 5, 8),)})


def test_outputs_that_are_not_named_stay_whole():
    """A pooled output has nothing of the padded axis in it."""
    tensor = a_tensor("pooled", Datatype.FP32, (2, 8))
    assert own_copy(tensor, {"y": (Cut(1, 5, 8),)}) == tensor
