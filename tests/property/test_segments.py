"""Requests in parts: wherever they are cut, put together again they are what they were."""

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from headway.core import Datatype, Tensor, concat_bytes
from headway.runtime.segments import RowCutter, are_joinable, join_rows


@st.composite
def tensors(draw, rows, name="x"):
    """A tensor of any datatype with so many rows, of any buffer that may hold one."""
    datatype = draw(st.sampled_from(Datatype))
    shape = (rows, *draw(st.lists(st.integers(0, 3), max_size=3)))
    count = prod(shape)
    if datatype is Datatype.BYTES:
        data = concat_bytes(draw(st.lists(st.binary(max_size=4), min_size=count, max_size=count)))
    else:
        size = count * datatype.item_bytes
        data = draw(st.binary(min_size=size, max_size=size))
    return Tensor(
        name, datatype, shape, draw(st.sampled_from([bytes, bytearray, memoryview]))(data)
    )


@st.composite
def cut_requests(draw):
    """Inputs with rows in common, and the sizes of parts that make up all of them."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    inputs = [draw(tensors(sum(sizes), name)) for name in draw(st.sampled_from(["a", "ab", "abc"]))]
    return inputs, sizes


@given(cut_requests())
def test_parts_put_end_to_end_are_the_whole(request):
    """Byte for byte, in every datatype, however many rows each part has."""
    inputs, sizes = request
    cutter = RowCutter(inputs)
    parts = [cutter.cut(sum(sizes[:at]), size) for at, size in enumerate(sizes)]
    for size, part in zip(sizes, parts, strict=True):
        assert [tensor.shape[0] for tensor in part] == [size] * len(inputs)
        for tensor in part:
            item_bytes = tensor.datatype.item_bytes
            assert item_bytes is None or tensor.size_bytes == prod(tensor.shape) * item_bytes
    assert are_joinable(parts)
    joined = join_rows(parts)
    assert [(t.name, t.datatype, t.shape) for t in joined] == [
        (t.name, t.datatype, t.shape) for t in inputs
    ]
    assert [bytes(t.data) for t in joined] == [bytes(t.data) for t in inputs]


@given(cut_requests())
def test_cutting_copies_nothing(request):
    """A part is a window on what the caller sent."""
    inputs, sizes = request
    part = RowCutter(inputs).cut(0, sizes[0])
    for tensor, whole in zip(part, inputs, strict=True):
        assert isinstance(tensor.data, memoryview)
        assert tensor.data.obj is memoryview(whole.data).obj


@given(cut_requests(), st.sampled_from(["name", "datatype", "axis", "missing"]))
def test_parts_that_differ_are_not_joined(request, what):
    """Another name, datatype or size of any axis but the first, or one output fewer."""
    inputs, _ = request
    first = inputs[0]
    other = {
        "name": [Tensor("other", first.datatype, first.shape, first.data)],
        "datatype": [
            Tensor(
                first.name,
                Datatype.INT8 if first.datatype is not Datatype.INT8 else Datatype.BOOL,
                first.shape,
                first.data,
            )
        ],
        "axis": [Tensor(first.name, first.datatype, (*first.shape, 1), first.data)],
        "missing": [],
    }[what]
    assert not are_joinable([inputs, [*other, *inputs[1:]]])
