"""From a call's tensors to what the kernel may know: rows, a bucket, bytes.

Checks a call against the model's signature and puts its inputs in the model's order, so that every
member of a batch lists the same inputs alike; pads them to the sizes of their bucket, or lays
ragged ones end to end, as the model is configured (`shapes.py`, `ragged.py`).

What a request says that is no tensor splits batches only where it changes the computation: by the
parameters that its model takes. Whatever else it says stays with the request.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headway.core import BucketKey, Tensor, bucket_key
from headway.errors import InvalidRequestError
from headway.executors import (
    AxisBuckets,
    ParameterValue,
    RaggedInputs,
    Signature,
    TensorSpec,
    name_of,
)
from headway.runtime.engine import InferCall
from headway.runtime.ragged import Ragged
from headway.runtime.shapes import Cuts, Fitting, Shaper

__all__ = ["Binding", "BoundCall", "bind", "rebind"]

_PARAMETERS_CHARS_MAX: Final = 64 << 10
"""Longer ones would not fit the message that takes a batch to its worker."""
_LAYOUTS_MAX: Final = 1024
"""Buckets of one binding whose names are remembered; others are spelled anew each time."""
_NO_CUTS: Final[Cuts] = {}


class BoundCall(NamedTuple):
    """A call that fits its model."""

    inputs: tuple[Tensor, ...]
    rows: int
    bucket: BucketKey
    payload_bytes: int
    padding_bytes: int = 0
    """Of the payload, what the client did not send."""
    parameters: Mapping[str, ParameterValue] = {}
    """Those that change the computation: alike in all members of a batch."""
    cuts: Cuts = _NO_CUTS
    """What padding brought, to be cut off the outputs."""


class Layout(NamedTuple):
    """What a call's names, datatypes and shapes come to, once they were found to fit."""

    order: tuple[int, ...] | None
    """Where each of the model's inputs stands in the call; None when they stand in order."""
    rows: int
    bucket: BucketKey
    fitting: Fitting | None
    """How the inputs are padded; None where they are not."""


class Binding:
    """A signature, prepared for checking calls against it.

    Args:
        signature: what the loaded model takes.
        can_batch: requests of several callers may share a batch.
        buckets: free axes that are padded; of no effect without batches.
        ragged: inputs that are laid end to end; of no effect without batches.
    """

    __slots__ = (
        "_layouts",
        "_parameters",
        "_shaper",
        "can_batch",
        "input_names",
        "output_names",
        "ragged",
        "signature",
        "taken",
    )

    def __init__(
        self,
        signature: Signature,
        *,
        can_batch: bool,
        buckets: Sequence[AxisBuckets] = (),
        ragged: RaggedInputs | None = None,
    ) -> None:
        self.taken = signature
        """What the model itself is handed."""
        self.ragged = Ragged(signature, ragged) if ragged is not None and can_batch else None
        self.signature = signature if self.ragged is None else self.ragged.client_signature
        """What a client sends."""
        self.can_batch = can_batch
        self.input_names = tuple(spec.name for spec in self.signature.inputs)
        self.output_names = frozenset(spec.name for spec in signature.outputs)
        self._shaper = Shaper(signature, buckets) if buckets and can_batch else None
        names = signature.parameters
        self._parameters = None if names is None else frozenset(names)
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

    def padded(self, inputs: tuple[Tensor, ...], fitting: Fitting) -> tuple[Tensor, ...]:
        """The inputs at the shapes of their bucket."""
        assert self._shaper is not None, "only a model with buckets pads"
        return self._shaper.padded(inputs, fitting)

    def parameters_of(
        self, parameters: Mapping[str, ParameterValue]
    ) -> Mapping[str, ParameterValue]:
        """Those that change what the model computes."""
        taken = self._parameters
        if taken is None or not parameters:
            return parameters
        return {name: value for name, value in parameters.items() if name in taken}

    def _checked(self, call: InferCall) -> Layout:
        """Check a call of a kind not met before.

        The bucket names the inputs: after a reload that changed them, those who waited and
        newcomers must not meet in a batch, which could run for one of them only.
        """
        if self.signature.free_inputs:
            return _free_layout(call, self.signature.free_inputs)
        inputs = _in_order(call.inputs, self.input_names, self.signature, call.model)
        for tensor, spec in zip(inputs, self.signature.inputs, strict=True):
            _check(tensor, spec)
        rows = _rows_of(inputs) if self.can_batch else 1
        fitting = None if self._shaper is None else self._shaper.fit(inputs)
        shapes = [tensor.shape for tensor in inputs] if fitting is None else fitting.shapes
        kinds = [
            f"{spec.name} {spec.datatype} {self._row_shape(spec.name, shape)}"
            for spec, shape in zip(self.signature.inputs, shapes, strict=True)
        ]
        if self.ragged is not None:
            self.ragged.check(inputs)
        given = [tensor.name for tensor in call.inputs]
        order = tuple(given.index(name) for name in self.input_names)
        is_in_order = order == tuple(range(len(order)))
        bucket = bucket_key(call.version, kinds)
        return Layout(None if is_in_order else order, rows, bucket, fitting)

    def _row_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """What must agree within a batch; any size of a ragged axis goes with any other."""
        if not self.can_batch:
            return shape
        if self.ragged is not None and name in self.ragged.names:
            return (-1, *shape[2:])
        return shape[1:]


def bind(call: InferCall, binding: Binding) -> BoundCall:
    """Check a call and reduce it.

    Raises:
        InvalidRequestError: an input is missing, unknown, of another datatype or shape; rows
            differ between inputs; an output is unknown; the parameters are too long.
    """
    order, rows, bucket, fitting = binding.layout_of(call)
    inputs = tuple(call.inputs) if order is None else tuple(call.inputs[i] for i in order)
    _check_outputs(call, binding)
    payload_bytes = sum([tensor.size_bytes for tensor in inputs])
    padding_bytes = 0
    cuts = _NO_CUTS
    if fitting is not None:
        inputs, cuts = binding.padded(inputs, fitting), fitting.cuts
        padding_bytes = sum([tensor.size_bytes for tensor in inputs]) - payload_bytes
        payload_bytes += padding_bytes
    if binding.ragged is not None:
        inputs = binding.ragged.joined(inputs)
    parameters = binding.parameters_of(call.parameters)
    if parameters:
        text = _parameters_text(parameters)
        payload_bytes += len(text)  # they wait, too
        bucket = bucket_key(bucket, (), text)
    return BoundCall(inputs, rows, bucket, payload_bytes, padding_bytes, parameters, cuts)


def rebind(bound: BoundCall, call: InferCall, binding: Binding) -> BoundCall:
    """A call that waited while its model was reloaded, for the load that runs it.

    It runs in the shapes and with the parameters that it was queued with, as do the others of its
    batch: what would be padded or split otherwise since then must not tear them apart.

    Raises:
        InvalidRequestError: the model no longer takes what the call brings.
    """
    taken = binding.taken
    if taken.free_inputs:
        _free_layout(call, taken.free_inputs)
        return bound
    names = tuple(spec.name for spec in taken.inputs)
    inputs = _in_order(bound.inputs, names, taken, call.model)
    for tensor, spec in zip(inputs, taken.inputs, strict=True):
        _check(tensor, spec)
    _check_outputs(call, binding)
    is_whole = not binding.can_batch or binding.ragged is not None
    rows = bound.rows if is_whole else _rows_of(inputs)
    return bound._replace(inputs=inputs, rows=rows)


def _free_layout(call: InferCall, names: Sequence[str]) -> Layout:
    """Of a function: its inputs by name, in any datatype and shape; a list of them counts as one.

    Raises:
        InvalidRequestError: an input is missing, or none that the function knows.
    """
    given: dict[str, list[Tensor]] = {}
    for tensor in call.inputs:
        given.setdefault(name_of(tensor.name), []).append(tensor)
    missing = [name for name in names if name not in given]
    unknown = sorted(given.keys() - set(names))
    if missing or unknown:
        what = f"lacks input `{missing[0]}`" if missing else f"has an unknown input `{unknown[0]}`"
        raise InvalidRequestError(
            f"the request for `{call.model}` {what}",
            hint=f"its inputs are {', '.join(f'`{name}`' for name in names)}",
        )
    # Of a list how many tensors and the last one's shape: a bucket for each mix would be many.
    kinds = [
        f"{name} x{len(tensors)} {tensors[-1].datatype} {tensors[-1].shape}"
        for name, tensors in given.items()
    ]
    return Layout(None, 1, bucket_key(call.version, kinds), None)


def _check_outputs(call: InferCall, binding: Binding) -> None:
    if call.outputs and not binding.output_names.issuperset(call.outputs):
        unknown = min(set(call.outputs) - binding.output_names)
        raise InvalidRequestError(
            f"model `{call.model}` has no output `{unknown}`",
            hint=f"its outputs are {_names(binding.signature.outputs)}",
        )


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


def _in_order(
    inputs: Sequence[Tensor], wanted: tuple[str, ...], signature: Signature, model: str
) -> tuple[Tensor, ...]:
    given = tuple(tensor.name for tensor in inputs)
    if given == wanted:
        return tuple(inputs)
    by_name = {tensor.name: tensor for tensor in inputs}
    if by_name.keys() != set(wanted) or len(given) != len(wanted):
        missing = [name for name in wanted if name not in by_name]
        what = f"lacks input `{missing[0]}`" if missing else _surplus(given, wanted)
        raise InvalidRequestError(
            f"the request for `{model}` {what}", hint=f"its inputs are {_names(signature.inputs)}"
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


def _parameters_text(parameters: Mapping[str, ParameterValue]) -> str:
    """Parameters change the computation, so only requests with equal ones share a batch."""
    text = repr(sorted(parameters.items()))
    if len(text) > _PARAMETERS_CHARS_MAX:
        raise InvalidRequestError(
            f"the parameters take `{len(text)}` characters",
            hint=f"{_PARAMETERS_CHARS_MAX} are allowed; send what is longer as an input",
        )
    return text


def _names(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(f"`{spec.name}` {spec.datatype}{list(spec.shape)}" for spec in specs)
