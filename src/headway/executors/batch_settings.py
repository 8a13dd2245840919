"""What the settings under `batch` ask of a model: whether its signature can, and what to pad with.

Knows signatures and datatypes. Refuses to know requests: padding and cutting them is the runtime's.
"""

import struct
from collections.abc import Sequence
from itertools import product
from typing import Final

from headway.core import Datatype
from headway.errors import LoadError
from headway.executors.model import AxisBuckets, ModelSpec, RaggedInputs, Signature, TensorSpec

__all__ = ["bucket_shapes", "check_settings", "pad_bytes"]

_WHOLE: Final = (Datatype.INT32, Datatype.INT64)
_FLOATS: Final = {Datatype.FP16: "<e", Datatype.FP32: "<f", Datatype.FP64: "<d"}
_EMPTY_TEXT: Final = bytes(4)
"""An element of BYTES without any: its length, which is 0."""
_SHAPES_MAX: Final = 64
"""Combinations of sizes that are run before a model is ready."""


def check_settings(signature: Signature, spec: ModelSpec) -> None:
    """Refuse a model whose settings for batches would have no effect, or none that makes sense.

    Raises:
        LoadError: it has no batch axis, or its tensors are not those that the settings name.
    """
    if spec.needs_batch and not signature.can_batch:
        raise LoadError(
            f"model `{spec.name}` has no batch axis, so its settings under `batch` cannot take"
            " effect",
            hint="leave them out, or give every input and output a free leading axis",
        )
    _check_buckets(signature, spec.buckets)
    if spec.ragged is not None:
        _check_ragged(signature, spec.ragged)


def _check_buckets(signature: Signature, buckets: Sequence[AxisBuckets]) -> None:
    """Refuse buckets that speak of what the model does not have.

    Raises:
        LoadError: no such input, output or axis, an axis that is not free, a pad that the datatype
            cannot hold.
    """
    inputs = {spec.name: spec for spec in signature.inputs}
    outputs = {spec.name: spec for spec in signature.outputs}
    for bucket in buckets:
        for kind, specs, axes in (
            ("input", inputs, bucket.inputs),
            ("output", outputs, bucket.outputs),
        ):
            for name, axis in axes.items():
                _check_axis(kind, specs, name, axis)
        for name, pad in bucket.pads.items():
            pad_bytes(inputs[name].datatype, pad)


def _check_ragged(signature: Signature, ragged: RaggedInputs) -> None:
    """Refuse ragged inputs that the model does not have.

    Raises:
        LoadError: no such input, or one that cannot hold lengths.
    """
    inputs = {spec.name: spec for spec in signature.inputs}
    for name in (*ragged.inputs, ragged.lengths):
        if name not in inputs:
            raise LoadError(
                f"batch.ragged: the model has no input `{name}`",
                hint=f"it has {', '.join(f'`{known}`' for known in inputs) or 'none'}",
            )
    lengths = inputs[ragged.lengths]
    if lengths.shape != (-1,) or lengths.datatype not in _WHOLE:
        raise LoadError(
            f"batch.ragged: input `{ragged.lengths}` is {lengths.datatype}{list(lengths.shape)}",
            hint="lengths are INT32 or INT64 of shape [-1]",
        )


def pad_bytes(datatype: Datatype, value: float) -> bytes:
    """One element of padding.

    Raises:
        LoadError: the datatype has no such value.
    """
    try:
        return _packed(datatype, value)
    except (OverflowError, struct.error):
        raise LoadError(f"batch.buckets: {datatype} cannot hold the pad `{value}`") from None


def bucket_shapes(
    buckets: Sequence[AxisBuckets], fixed: dict[str, tuple[int, ...]]
) -> list[dict[str, tuple[int, ...]]]:
    """Shapes of inputs at every combination of sizes, the largest first.

    Args:
        buckets: free axes and their sizes.
        fixed: the shape of each input where no bucket says otherwise.
    """
    sizes = [sorted(bucket.sizes, reverse=True) for bucket in buckets]
    found = []
    for chosen in product(*sizes):
        shapes = {name: list(shape) for name, shape in fixed.items()}
        for bucket, size in zip(buckets, chosen, strict=True):
            for name, axis in bucket.inputs.items():
                shapes[name][axis] = size
        found.append({name: tuple(shape) for name, shape in shapes.items()})
        if len(found) == _SHAPES_MAX:
            break
    return found


def _check_axis(kind: str, specs: dict[str, TensorSpec], name: str, axis: int) -> None:
    spec = specs.get(name)
    if spec is None:
        raise LoadError(
            f"batch.buckets: the model has no {kind} `{name}`",
            hint=f"it has {', '.join(f'`{known}`' for known in specs) or 'none'}",
        )
    if axis >= len(spec.shape) or spec.shape[axis] != -1:
        raise LoadError(
            f"batch.buckets: axis {axis} of {kind} `{name}` is not free",
            hint=f"its shape is {list(spec.shape)}, where -1 is any size and axis 0 the batch's",
        )


def _packed(datatype: Datatype, value: float) -> bytes:
    if datatype is Datatype.BYTES:
        if value:
            raise OverflowError
        return _EMPTY_TEXT
    if datatype is Datatype.BF16:
        return struct.pack("<f", value)[2:]  # its upper half
    if datatype in _FLOATS:
        return struct.pack(_FLOATS[datatype], value)
    if value != int(value) or (datatype is Datatype.BOOL and value not in (0, 1)):
        raise OverflowError
    item_bytes = datatype.item_bytes
    assert item_bytes is not None, "only BYTES has elements of several sizes"
    is_signed = datatype in (Datatype.INT8, Datatype.INT16, Datatype.INT32, Datatype.INT64)
    return int(value).to_bytes(item_bytes, "little", signed=is_signed)
