"""What a model is fed while it is measured: tensors made from its signature, and their bucket.

Knows datatypes and shapes. Refuses to know what the numbers mean: fractions are drawn evenly from 0
to 1, whole numbers are 1, which is a valid index, mask and flag almost everywhere, and texts are a
word. Times of most models do not depend on values; where they do, measure with your own.
"""

from collections.abc import Mapping, Sequence
from math import prod
from random import Random
from typing import Final

from headway.core import BucketKey, Datatype, Tensor, concat_bytes
from headway.errors import HeadwayError
from headway.executors import Signature, TensorSpec

__all__ = ["bucket_of", "make_rows", "row_shapes"]

_FRACTIONS: Final = frozenset({Datatype.FP16, Datatype.BF16, Datatype.FP32, Datatype.FP64})
_WORD: Final = b"headway"
_DRAWN_MAX: Final = 4096
"""Fractions that are drawn; a longer tensor repeats them."""


def row_shapes(
    signature: Signature, shapes: Mapping[str, Sequence[int]], model: str
) -> dict[str, tuple[int, ...]]:
    """The shape of one row of each input, without the batch axis where the model has one.

    Args:
        signature: what the loaded model declares.
        shapes: those that are given, by input.
        model: its name, for what is said.

    Raises:
        HeadwayError: a free axis has no size, or a given shape does not fit.
    """
    names = [spec.name for spec in signature.inputs]
    if unknown := [name for name in shapes if name not in names]:
        raise HeadwayError(
            f"model `{model}` has no input `{unknown[0]}`",
            hint=f"its inputs are {', '.join(f'`{name}`' for name in names) or 'none'}",
        )
    return {
        spec.name: _row_shape(spec, shapes.get(spec.name), model, can_batch=signature.can_batch)
        for spec in signature.inputs
    }


def make_rows(
    signature: Signature, shapes: Mapping[str, Sequence[int]], rows: int, chance: Random
) -> list[Tensor]:
    """One request of so many rows; a model without a batch axis takes one."""
    lead = (rows,) if signature.can_batch else ()
    return [_tensor(spec, (*lead, *shapes[spec.name]), chance) for spec in signature.inputs]


def bucket_of(signature: Signature, shapes: Mapping[str, Sequence[int]]) -> BucketKey:
    """The bucket of requests with these shapes that name no version and bring no parameters."""
    kinds = [f"{spec.name} {spec.datatype} {tuple(shapes[spec.name])}" for spec in signature.inputs]
    return BucketKey("|".join(("", *kinds)))


def _row_shape(
    spec: TensorSpec, given: Sequence[int] | None, model: str, *, can_batch: bool
) -> tuple[int, ...]:
    declared = spec.shape[1:] if can_batch else spec.shape
    if given is None:
        if all(size >= 0 for size in declared):
            return declared
        example = ",".join("N" if size < 0 else str(size) for size in declared)
        raise HeadwayError(
            f"input `{spec.name}` of model `{model}` has free axes: `{list(declared)}`",
            hint=f"give the shape of one row, as --shape {spec.name}={example} with numbers for N",
        )
    shape = tuple(given)
    fits = len(shape) == len(declared) and all(
        want in (-1, have) for want, have in zip(declared, shape, strict=True)
    )
    if not fits or any(size < 0 for size in shape):
        axes = "the batch axis left out, " if can_batch else ""
        raise HeadwayError(
            f"input `{spec.name}` of model `{model}` cannot have the shape `{list(shape)}`",
            hint=f"the model takes {list(declared)}, {axes}where -1 is any size",
        )
    return shape


def _tensor(spec: TensorSpec, shape: tuple[int, ...], chance: Random) -> Tensor:
    count = prod(shape)
    if spec.datatype is Datatype.BYTES:
        data = concat_bytes([_WORD] * count)
    elif spec.datatype in _FRACTIONS:
        data = _fractions(spec.datatype, count, chance)
    else:
        item_bytes = spec.datatype.item_bytes
        assert item_bytes is not None, "only BYTES has elements of several sizes"
        data = (1).to_bytes(item_bytes, "little") * count
    return Tensor(spec.name, spec.datatype, shape, data)


def _fractions(datatype: Datatype, count: int, chance: Random) -> bytes:
    """Little-endian numbers from [0, 1); BF16 is the upper half of a float32."""
    # Here, so that a command which measures nothing does not pay for arrays.
    import numpy as np

    drawn = np.array([chance.random() for _ in range(min(count, _DRAWN_MAX))])
    if datatype is Datatype.BF16:
        few = (drawn.astype("<f4").view("<u4") >> 16).astype("<u2")
    else:
        dtypes = {Datatype.FP16: "<f2", Datatype.FP32: "<f4", Datatype.FP64: "<f8"}
        few = drawn.astype(dtypes[datatype])
    return bytes(np.resize(few, count).tobytes())
