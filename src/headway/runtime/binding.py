"""From a call's tensors to what the kernel may know: rows, a bucket, bytes.

Checks a call against the model's signature and puts its inputs in the model's order, so that every
member of a batch lists the same inputs alike.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headway.core import BucketKey, Tensor
from headway.errors import InvalidRequestError
from headway.executors import ParameterValue, Signature, TensorSpec
from headway.runtime.engine import InferCall

__all__ = ["Binding", "BoundCall", "bind"]

_PARAMETERS_CHARS_MAX: Final = 64 << 10
"""Longer ones would not fit the message that takes a batch to its worker."""
_LAYOUTS_MAX: Final = 1024
"""Buckets of one binding whose names are remembered; others are spelled anew each time."""


class BoundCall(NamedTuple):
    """A call that fits its model."""

    inputs: tuple[Tensor, ...]
    rows: int
    bucket: BucketKey
    payload_bytes: int


class Layout(NamedTuple):
    """What a call's names, datatypes and shapes come to, once they were found to fit."""

    order: tuple[int, ...] | None
    """Where each of the model's inputs stands in the call; None when they stand in order."""
    rows: int
    bucket: BucketKey


class Binding:
    """A signature, prepared for checking calls against it."""

    __slots__ = ("_kinds", "_layouts", "can_batch", "input_names", "output_names", "signature")

    def __init__(self, signature: Signature, *, can_batch: bool) -> None:
        self.signature = signature
        self.can_batch = can_batch
        self.input_names = tuple(spec.name for spec in signature.inputs)
        self.output_names = frozenset(spec.name for spec in signature.outputs)
        self._kinds = tuple(f"{spec.name} {spec.datatype}" for spec in signature.inputs)
        self._layouts: dict[tuple[object, ...], Layout] = {}

    def layout_of(self, call: InferCall) -> Layout:
        """Check a call's inputs. Cost: a look-up, for names and shapes met before.

        Raises:
            InvalidRequestError: they do not fit the model.
        """
        key = (call.version, *[(t.name, t.datatype, t.shape) for t in call.inputs])
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._checked(call)
            if len(self._layouts) < _LAYOUTS_MAX:
                self._layouts[key] = layout
        return layout

    def _checked(self, call: InferCall) -> Layout:
        """Check a call of a kind not met before.

        The bucket names the inputs: after a reload that changed them, those who waited and
        newcomers must not meet in a batch, which could run for one of them only.
        """
        inputs = _in_order(call, self)
        for tensor, spec in zip(inputs, self.signature.inputs, strict=True):
            _check(tensor, spec)
        row_axis = 1 if self.can_batch else 0
        rows = _rows_of(inputs) if row_axis else 1
        shapes = (tensor.shape[row_axis:] for tensor in inputs)
        kinds = (f"{kind} {shape}" for kind, shape in zip(self._kinds, shapes, strict=True))
        given = [tensor.name for tensor in call.inputs]
        order = tuple(given.index(name) for name in self.input_names)
        is_in_order = order == tuple(range(len(order)))
        bucket = BucketKey("|".join((call.version, *kinds)))
        return Layout(None if is_in_order else order, rows, bucket)


def bind(call: InferCall, binding: Binding) -> BoundCall:
    """Check a call and reduce it.

    Raises:
        InvalidRequestError: an input is missing, unknown, of another datatype or shape; rows
            differ between inputs; an output is unknown; the parameters are too long.
    """
    order, rows, bucket = binding.layout_of(call)
    inputs = tuple(call.inputs) if order is None else tuple(call.inputs[i] for i in order)
    payload_bytes = sum([tensor.size_bytes for tensor in inputs])
    if call.outputs and not binding.output_names.issuperset(call.outputs):
        unknown = min(set(call.outputs) - binding.output_names)
        raise InvalidRequestError(
            f"model `{call.model}` has no output `{unknown}`",
            hint=f"its outputs are {_names(binding.signature.outputs)}",
        )
    if call.parameters:
        parameters = _parameters_key(call.parameters)
        payload_bytes += len(parameters)  # they wait, too
        bucket = BucketKey(f"{bucket}|{parameters}")
    return BoundCall(inputs, rows, bucket, payload_bytes)


def _rows_of(inputs: Sequence[Tensor]) -> int:
    """Rows of a batching model's call; 1 for a model without inputs."""
    if not inputs:
        return 1
    rows = inputs[0].shape[0]
    for tensor in inputs[1:]:
        if tensor.shape[0] != rows:
            raise InvalidRequestError(
                f"input `{tensor.name}` has `{tensor.shape[0]}` rows,"
                f" `{inputs[0].name}` has `{rows}`",
                hint="the first dimension of every input is the batch and must agree",
            )
    if rows < 1:
        raise InvalidRequestError(
            f"the request has `{rows}` rows", hint="send at least one row in the first dimension"
        )
    return rows


def _in_order(call: InferCall, binding: Binding) -> tuple[Tensor, ...]:
    given = tuple(tensor.name for tensor in call.inputs)
    if given == binding.input_names:
        return tuple(call.inputs)
    by_name = {tensor.name: tensor for tensor in call.inputs}
    wanted = binding.input_names
    if by_name.keys() != set(wanted) or len(given) != len(wanted):
        missing = [name for name in wanted if name not in by_name]
        what = f"lacks input `{missing[0]}`" if missing else _surplus(given, wanted)
        raise InvalidRequestError(
            f"the request for `{call.model}` {what}",
            hint=f"its inputs are {_names(binding.signature.inputs)}",
        )
    return tuple(by_name[name] for name in wanted)


def _surplus(given: Sequence[str], wanted: Sequence[str]) -> str:
    unknown = [name for name in given if name not in wanted]
    return f"has an unknown input `{unknown[0]}`" if unknown else "names an input twice"


def _check(tensor: Tensor, spec: TensorSpec) -> None:
    if tensor.datatype is not spec.datatype:
        raise InvalidRequestError(
            f"input `{tensor.name}` is `{tensor.datatype}`", hint=f"the model takes {spec.datatype}"
        )
    shape = tensor.shape
    if len(shape) == len(spec.shape):
        for size, wanted in zip(shape, spec.shape, strict=True):
            if wanted not in (-1, size):
                break
        else:
            return
    raise InvalidRequestError(
        f"input `{tensor.name}` has shape `{list(shape)}`",
        hint=f"the model takes {list(spec.shape)}, where -1 is any size",
    )


def _parameters_key(parameters: Mapping[str, ParameterValue]) -> str:
    """Parameters change the computation, so only requests with equal ones share a batch."""
    key = repr(sorted(parameters.items()))
    if len(key) > _PARAMETERS_CHARS_MAX:
        raise InvalidRequestError(
            f"the parameters take `{len(key)}` characters",
            hint=f"{_PARAMETERS_CHARS_MAX} are allowed; send what is longer as an input",
        )
    return key


def _names(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(f"`{spec.name}` {spec.datatype}{list(spec.shape)}" for spec in specs)
