"""What a loaded model is to the worker: a signature, a call, an end. One file for each back end.

Knows how to choose and check a back end. Never a socket or an arena.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from headway.errors import ExecutorError, LoadError
from headway.executors.batch_settings import bucket_shapes, check_settings
from headway.executors.model import ModelSpec, ParameterValue, Signature, TensorSpec
from headway.executors.tensors import Array, zeros_of

__all__ = ["LoadedModel", "check_rows", "open_model", "wanted_outputs", "warm_up"]


class LoadedModel(Protocol):
    """A model in this process. ``infer`` may run on several slots' threads at once."""

    @property
    def signature(self) -> Signature:
        """What it takes and gives."""

    def infer(
        self,
        inputs: dict[str, Array],
        outputs: Sequence[str],
        parameters: dict[str, ParameterValue],
    ) -> dict[str, Array]:
        """Run one batch.

        Args:
            inputs: views that are valid until this returns.
            outputs: names wanted; empty for all.
            parameters: what the request says that is not a tensor.
        """

    def close(self) -> None:
        """Give back what it holds."""


def open_model(spec: ModelSpec) -> LoadedModel:
    """Load a model with the back end that its specification names.

    Raises:
        LoadError: there is no such back end, it says clearly why not, or the model cannot do what
            its settings for batches ask for.
        Exception: whatever the library or the user's code raised.
    """
    model = _open(spec)
    try:
        check_settings(model.signature, spec)
    except LoadError:
        model.close()
        raise
    return model


def _open(spec: ModelSpec) -> LoadedModel:
    if spec.backend == "onnx":
        # Imported here so that a worker without such models never pays for the library.
        from headway.executors.onnx_backend import OnnxModel

        return OnnxModel.load(spec)
    if spec.backend == "python":
        from headway.executors.python_backend import PythonModel

        return PythonModel.load(spec)
    raise LoadError(f"there is no back end `{spec.backend}`", hint="use `onnx` or `python`")


def warm_up(model: LoadedModel, spec: ModelSpec) -> None:
    """Run zeros through a model, once for each warm-up size; a model without a batch axis once.

    Axes with buckets are run at each of their sizes. A model that declares no inputs is not run:
    nobody knows what to feed it.
    """
    signature = model.signature
    sizes = spec.warmup_rows if signature.can_batch else spec.warmup_rows[:1]
    for rows in sizes if signature.inputs else ():
        fixed = {t.name: _warmup_shape(t, rows, spec, signature) for t in signature.inputs}
        for shapes in bucket_shapes(spec.buckets, fixed):
            inputs = {t.name: zeros_of(t.datatype, shapes[t.name]) for t in signature.inputs}
            if spec.ragged is not None:
                inputs[spec.ragged.lengths] += 1  # rows of one element each
            results = model.infer(inputs, (), {})
            if signature.can_batch:
                check_rows(results, rows)


def check_rows(results: Mapping[str, Array], rows: int) -> None:
    """Refuse outputs that cannot be split among a batch's members.

    Raises:
        ExecutorError: an output has another number of rows than the inputs.
    """
    for name, array in results.items():
        if not array.ndim or array.shape[0] != rows:
            raise ExecutorError(
                f"output `{name}` has shape {list(array.shape)} for a batch of {rows} rows: "
                f"its leading axis must be the batch's"
            )


def wanted_outputs(signature: Signature, outputs: Sequence[str]) -> list[TensorSpec]:
    """The declared outputs with these names, in the caller's order; all if none is named.

    Raises:
        ExecutorError: the model has no such output.
    """
    if not outputs:
        return list(signature.outputs)
    declared = {tensor.name: tensor for tensor in signature.outputs}
    for name in outputs:
        if name not in declared:
            raise ExecutorError(f"the model has no output `{name}`, only {sorted(declared)}")
    return [declared[name] for name in outputs]


def _warmup_shape(
    tensor: TensorSpec, rows: int, spec: ModelSpec, signature: Signature
) -> tuple[int, ...]:
    row = spec.warmup_shapes.get(tensor.name)
    if row is None:
        row = tensor.shape[1:] if signature.can_batch else tensor.shape
    fixed = tuple(1 if size < 0 else size for size in row)
    return (rows, *fixed) if signature.can_batch else fixed
