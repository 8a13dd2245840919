"""What the settings of one model's batches say of each other and of its declared tensors.

Knows one model's section. Refuses to know the model itself: what that can do is seen when it is
loaded.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from headway.config.batching import BatchConfig, BucketsConfig, Oversize
from headway.config.problem import Keys, Problem

if TYPE_CHECKING:
    from headway.config.schema import ModelConfig, TensorConfig

__all__ = ["batch_problems"]


def batch_problems(model: "ModelConfig", where: Keys) -> Iterator[Problem]:
    """Everything that makes the section `batch` of a model invalid."""
    batch = model.batch
    at = (*where, "batch")
    if batch.is_asked_for:
        yield from _unbatched(model, where)
    padded: dict[tuple[str, int], int] = {}
    for index, buckets in enumerate(batch.buckets):
        yield from _bucket_problems(buckets, (*at, "buckets", index))
        for name, axis in buckets.inputs.items():
            other = padded.setdefault((name, axis), index)
            if other != index:
                message = f"axis {axis} of `{name}` is padded by buckets.{other} already"
                keys = (*at, "buckets", index, "inputs", name)
                yield Problem(keys, axis, message, "name each axis of an input once")
    if batch.ragged is not None:
        yield from _ragged_problems(batch, at)


def _unbatched(model: "ModelConfig", where: Keys) -> Iterator[Problem]:
    """Declared tensors that no batch can be made of."""
    for key, tensors in (("inputs", model.inputs), ("outputs", model.outputs)):
        for index, tensor in enumerate(tensors):
            if tensor.shape[:1] != (-1,):
                yield _fixed(tensor, (*where, key, index, "shape"))


def _fixed(tensor: "TensorConfig", keys: Keys) -> Problem:
    message = f"`{list(tensor.shape)}` has no batch axis, yet settings under `batch` ask for one"
    hint = "begin the shape with -1, or leave those settings out"
    return Problem(keys, list(tensor.shape), message, hint)


def _bucket_problems(buckets: BucketsConfig, at: Keys) -> Iterator[Problem]:
    sizes = buckets.sizes
    if any(one >= other for one, other in pairwise(sizes)):
        message = f"`{list(sizes)}` does not ascend"
        yield Problem((*at, "sizes"), list(sizes), message, "list each size once, the least first")
    for name, pad in buckets.pad.items():
        if name not in buckets.inputs:
            message = f"`{name}` is not among the inputs that are padded"
            hint = f"padded are {', '.join(f'`{known}`' for known in buckets.inputs)}"
            yield Problem((*at, "pad", name), pad, message, hint)


def _ragged_problems(batch: BatchConfig, at: Keys) -> Iterator[Problem]:
    ragged = batch.ragged
    assert ragged is not None, "only asked where it is set"
    if ragged.lengths in ragged.inputs:
        message = f"`{ragged.lengths}` cannot be ragged and say how long the ragged ones are"
        keys = (*at, "ragged", "lengths")
        yield Problem(keys, ragged.lengths, message, "name another input of the model")
    for index, buckets in enumerate(batch.buckets):
        for name in (*ragged.inputs, ragged.lengths):
            if name in buckets.inputs:
                message = f"`{name}` is ragged, so it is not padded"
                keys = (*at, "buckets", index, "inputs", name)
                yield Problem(keys, buckets.inputs[name], message, "name it in one of the two")
    if batch.oversize is Oversize.SPLIT:
        message = "ragged inputs cannot be split into parts"
        hint = "set oversize to `refuse`, or pad the inputs with buckets"
        yield Problem((*at, "oversize"), str(batch.oversize), message, hint)
