"""Padding and cutting, for any shape: nothing of a caller is lost, nothing added comes back."""

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from headway.core import Datatype, Tensor, concat_bytes
from headway.executors import AxisBuckets, Signature, TensorSpec
from headway.runtime.shapes import Shaper, own_copy


@st.composite
def padded_calls(draw):
    """A tensor of some datatype, and buckets for some of its axes."""
    datatype = draw(st.sampled_from([Datatype.UINT8, Datatype.FP32, Datatype.BYTES]))
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=2, max_size=4)))
    count = prod(shape)
    if datatype is Datatype.BYTES:
        data = concat_bytes(draw(st.lists(st.binary(max_size=3), min_size=count, max_size=count)))
    else:
        size = count * datatype.item_bytes
        data = draw(st.binary(min_size=size, max_size=size))
    axes = draw(st.sets(st.integers(1, len(shape) - 1), min_size=1))
    sizes = st.lists(st.integers(5, 12), min_size=1, max_size=3, unique=True).map(sorted)
    buckets = [
        AxisBuckets(sizes=tuple(draw(sizes)), inputs={"x": axis}, outputs={"x": axis})
        for axis in sorted(axes)
    ]
    return Tensor("x", datatype, shape, data), buckets


@given(padded_calls())
def test_padded_and_cut_is_what_it_was(call):
    """A model that gives back its input gives each caller its own, byte for byte."""
    tensor, buckets = call
    spec = TensorSpec(name="x", datatype=tensor.datatype, shape=(-1,) * len(tensor.shape))
    signature = Signature(platform="scripted", inputs=(spec,), outputs=(spec,), can_batch=True)
    shaper = Shaper(signature, buckets)
    fitting = shaper.fit([tensor])
    if fitting is None:
        assert all(tensor.shape[b.inputs["x"]] in b.sizes for b in buckets)
        return
    (padded,) = shaper.padded([tensor], fitting)
    assert padded.shape == fitting.shapes[0]
    for bucket in buckets:
        assert padded.shape[bucket.inputs["x"]] in bucket.sizes
    assert own_copy(padded, fitting.cuts) == tensor
    if tensor.datatype.item_bytes:
        assert padded.size_bytes == prod(padded.shape) * tensor.datatype.item_bytes
