"""Inputs padded to the size of their bucket, and outputs cut back to what the caller sent.

Knows tensors as bytes, and the sizes that a model's configuration gives for its free axes. Refuses
to know who shares a batch. No numpy: the parent moves tensors that it does not read.

A request is padded when it arrives, so what waits is what will run, and its bytes are counted as
such. An output's axis need not be as long as the input's: where it is a whole part of it, or a
whole multiple, the caller's own length is divided, rounded up, or multiplied likewise.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from headway.core import Datatype, Tensor, bytes_element_ends
from headway.errors import ExecutorError, InvalidRequestError
from headway.executors import AxisBuckets, Signature, pad_bytes

__all__ = ["Cut", "Cuts", "Fitting", "Shaper", "own_copy"]


class Cut(NamedTuple):
    """An axis of an output, how long the caller's own part was, and how long it ran."""

    axis: int
    own: int
    padded: int


Cuts = Mapping[str, tuple[Cut, ...]]
"""What is cut off each output, by name."""


class Fitting(NamedTuple):
    """What padding does to a call of certain shapes."""

    shapes: tuple[tuple[int, ...], ...]
    """Of the inputs, in the model's order, once padded."""
    cuts: Cuts


class Shaper:
    """The buckets of one model."""

    __slots__ = ("_buckets", "_pads")

    def __init__(self, signature: Signature, buckets: Sequence[AxisBuckets]) -> None:
        self._buckets = tuple(buckets)
        named = {name: pad for bucket in buckets for name, pad in bucket.pads.items()}
        self._pads = {
            spec.name: pad_bytes(spec.datatype, named.get(spec.name, 0))
            for spec in signature.inputs
        }

    def fit(self, inputs: Sequence[Tensor]) -> Fitting | None:
        """What to pad inputs of these shapes to; None where there is nothing to do.

        Raises:
            InvalidRequestError: inputs that share a size differ in it, or it is too large.
        """
        shapes = {tensor.name: list(tensor.shape) for tensor in inputs}
        cuts: dict[str, tuple[Cut, ...]] = {}
        for bucket in self._buckets:
            own = _own_size(bucket, shapes)
            padded = _padded_size(bucket, own)
            if padded == own:
                continue
            for name, axis in bucket.inputs.items():
                shapes[name][axis] = padded
            for name, axis in bucket.outputs.items():
                cuts[name] = (*cuts.get(name, ()), Cut(axis, own, padded))
        found = tuple(tuple(shapes[tensor.name]) for tensor in inputs)
        if found == tuple(tensor.shape for tensor in inputs):
            return None
        return Fitting(found, cuts)

    def padded(self, inputs: Sequence[Tensor], fitting: Fitting) -> tuple[Tensor, ...]:
        """The inputs at their bucket's shapes. Cost: one copy of an input for each padded axis."""
        return tuple(
            _padded(tensor, shape, self._pads[tensor.name])
            for tensor, shape in zip(inputs, fitting.shapes, strict=True)
        )


def own_copy(tensor: Tensor, cuts: Cuts) -> Tensor:
    """A copy of an output without what padding brought.

    Raises:
        ExecutorError: the output's axis does not go with that of the inputs.
    """
    shape, data = tensor.shape, tensor.data
    for cut in cuts.get(tensor.name, ()):
        size = _kept_size(tensor, cut)
        data = _first(Tensor(tensor.name, tensor.datatype, shape, data), cut.axis, size)
        shape = (*shape[: cut.axis], size, *shape[cut.axis + 1 :])
    return Tensor(tensor.name, tensor.datatype, shape, bytes(data))


def _own_size(bucket: AxisBuckets, shapes: Mapping[str, Sequence[int]]) -> int:
    """The size that the inputs of a bucket share."""
    first, *others = bucket.inputs.items()
    own = shapes[first[0]][first[1]]
    for name, axis in others:
        if shapes[name][axis] != own:
            raise InvalidRequestError(
                f"axis {axis} of input `{name}` has size `{shapes[name][axis]}`,"
                f" axis {first[1]} of `{first[0]}` has `{own}`",
                hint="the model takes the same size for both",
            )
    return own


def _padded_size(bucket: AxisBuckets, own: int) -> int:
    for size in bucket.sizes:
        if size >= own:
            return size
    if not bucket.is_strict:
        return own
    name, axis = next(iter(bucket.inputs.items()))
    raise InvalidRequestError(
        f"axis {axis} of input `{name}` has size `{own}`",
        hint=f"the model is served up to `{bucket.sizes[-1]}`; send less, or in several requests",
    )


def _padded(tensor: Tensor, shape: tuple[int, ...], pad: bytes) -> Tensor:
    """Padded axis by axis, the innermost first: the blocks that are copied are then fewest."""
    for axis in reversed(range(len(shape))):
        missing = shape[axis] - tensor.shape[axis]
        if not missing:
            continue
        padding = pad * (missing * prod(tensor.shape[axis + 1 :]))
        data = memoryview(tensor.data).cast("B")
        parts: list[bytes | memoryview] = []
        for start, stop in _spans(tensor, axis, tensor.shape[axis]):
            parts += (data[start:stop], padding)
        grown = (*tensor.shape[:axis], shape[axis], *tensor.shape[axis + 1 :])
        tensor = Tensor(tensor.name, tensor.datatype, grown, b"".join(parts))
    return tensor


def _first(tensor: Tensor, axis: int, size: int) -> bytes:
    """The bytes of so many of the first along an axis."""
    data = memoryview(tensor.data).cast("B")
    return b"".join([data[start:stop] for start, stop in _spans(tensor, axis, size)])


def _spans(tensor: Tensor, axis: int, size: int) -> list[tuple[int, int]]:
    """Where the first so many along an axis lie: a stretch for each place before the axis."""
    blocks = prod(tensor.shape[:axis])
    inner = prod(tensor.shape[axis + 1 :])
    step, kept = tensor.shape[axis] * inner, size * inner
    item_bytes = tensor.datatype.item_bytes
    if item_bytes is None:
        assert tensor.datatype is Datatype.BYTES, "only BYTES has elements of several sizes"
        ends = [0, *bytes_element_ends(tensor.data, blocks * step)]
        return [(ends[at * step], ends[at * step + kept]) for at in range(blocks)]
    return [(at * step * item_bytes, (at * step + kept) * item_bytes) for at in range(blocks)]


def _kept_size(tensor: Tensor, cut: Cut) -> int:
    size = tensor.shape[cut.axis] if cut.axis < len(tensor.shape) else 0
    if size and cut.padded % size == 0:
        return -(-cut.own // (cut.padded // size))
    if size and size % cut.padded == 0:
        return cut.own * (size // cut.padded)
    raise ExecutorError(
        f"output `{tensor.name}` has shape {list(tensor.shape)}: axis {cut.axis} does not go with"
        f" inputs padded to `{cut.padded}`, so what padding brought cannot be cut off",
        hint="name in batch.buckets only outputs that grow with the inputs",
    )
