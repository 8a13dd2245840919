"""Models written in Python: a class, or a function of named arrays (`python_function.py`).

    class Model:
        inputs = [{"name": "x", "datatype": "FP32", "shape": [-1, 16]}]
        outputs = [{"name": "y", "datatype": "FP32", "shape": [-1, 16]}]

        def load(self, **options): ...
        def infer(self, batch, parameters): return {"y": batch["x"]}
        def unload(self): ...

Only `infer` is needed, and it may take the batch alone. `inputs` and `outputs` may be methods, and
are read after `load`. `can_batch` says whether rows of several requests may be put together; left
out, it follows from the shapes: every one begins with a free axis. `batch_parameters` names the
request parameters that change what `infer` computes: it is handed no others, and only requests that
differ in these are kept apart; left out, any parameter keeps them apart. With several slots,
`infer` runs on several threads at once. An input is valid until it returns: copy what you keep.

A file is imported anew for every load, under a name of its own; modules that it imports in turn are
shared by the process, as always in Python.
"""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
from msgspec import ValidationError, convert

from headway.core import Datatype
from headway.errors import ExecutorError, LoadError
from headway.executors.backend import wanted_outputs
from headway.executors.model import ModelSpec, ParameterValue, Signature, TensorSpec
from headway.executors.python_function import FunctionModel, is_function
from headway.executors.tensors import Array, datatype_of

__all__ = ["PythonModel"]

_LOAD_SEQ: Final = count(1)


class PythonModel:
    """A user's object behind the executor's contract: what it returns is checked, not trusted."""

    __slots__ = ("_infer", "_model", "_module_name", "_takes_parameters", "signature")

    def __init__(self, model: Any, signature: Signature, module_name: str | None) -> None:
        self._model = model
        self._infer = _method(model, "infer")
        self._takes_parameters = _takes_parameters(self._infer)
        self._module_name = module_name
        self.signature = signature

    @classmethod
    def load(cls, spec: ModelSpec) -> "PythonModel":
        """Import the class, make an object of it and load that; or import the function.

        Raises:
            LoadError: no such file, module or name, or what it declares makes no sense.
            Exception: whatever its own code raised.
        """
        where, _, class_name = spec.path.rpartition(":")
        if not where or not class_name:
            raise LoadError(f"`{spec.path}` is not of the form `file.py:Class` or `module:Class`")
        module_name = f"_headway_model_{next(_LOAD_SEQ)}" if where.endswith(".py") else None
        try:
            module = _import(where, module_name)
            model = _make(module, class_name, where, spec)
            return cls(model, _signature(model, spec), module_name)
        except BaseException:
            sys.modules.pop(module_name or "", None)
            raise

    def infer(
        self,
        inputs: dict[str, Array],
        outputs: Sequence[str],
        parameters: dict[str, ParameterValue],
    ) -> dict[str, Array]:
        """Call the user's code and check what it gives back."""
        given = self._infer(inputs, parameters) if self._takes_parameters else self._infer(inputs)
        if not isinstance(given, Mapping):
            raise ExecutorError(
                f"infer returned a `{type(given).__name__}`, not a mapping of names to arrays"
            )
        if not self.signature.outputs:
            return _undeclared(given, outputs)
        declared = {tensor.name for tensor in self.signature.outputs}
        if unknown := sorted(str(name) for name in given if name not in declared):
            raise ExecutorError(
                f"infer returned an output `{unknown[0]}` that is not declared; "
                f"declared are {sorted(declared)}"
            )
        wanted = wanted_outputs(self.signature, outputs)
        return {tensor.name: _checked(tensor, given) for tensor in wanted}

    def close(self) -> None:
        """Call the user's `unload` and forget the object and its module."""
        model, self._model, self._infer = self._model, None, _closed
        sys.modules.pop(self._module_name or "", None)
        if hasattr(model, "unload"):
            model.unload()


def _closed(*_: object) -> object:
    raise ExecutorError("the model has been unloaded")


def _import(where: str, module_name: str | None) -> ModuleType:
    if module_name is None:
        return _import_module(where)
    path = Path(where).resolve()
    if not path.is_file():
        raise LoadError(f"there is no file `{where}`")
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)  # so that a model finds the files beside it
    found = importlib.util.spec_from_file_location(module_name, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[module_name] = module
    found.loader.exec_module(module)
    return module


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there; something that it imports is not
        raise LoadError(
            f"there is no module `{name}`", hint="write `folder/file.py:Class` for a file"
        ) from error


def _make(module: ModuleType, name: str, where: str, spec: ModelSpec) -> Any:
    found = getattr(module, name, None)
    if found is None:
        raise LoadError(f"`{where}` has no class or function `{name}`")
    if is_function(found):
        return FunctionModel(found, name, spec.options, spec.arguments)
    model = found()
    if not callable(getattr(model, "infer", None)):
        raise LoadError(f"`{name}` has no method `infer`")
    if hasattr(model, "load"):
        model.load(**spec.options)
    elif spec.options:
        raise LoadError(f"`{name}` has no `load` to take the options {sorted(spec.options)}")
    return model


def _method(model: Any, name: str) -> Callable[..., Any]:
    method: Callable[..., Any] = getattr(model, name)
    if inspect.iscoroutinefunction(method):
        raise LoadError(f"`{name}` is async; slots run plain functions, several at once")
    return method


def _takes_parameters(method: Callable[..., Any]) -> bool:
    kinds = [parameter.kind for parameter in inspect.signature(method).parameters.values()]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return inspect.Parameter.VAR_POSITIONAL in kinds or sum(k in positional for k in kinds) >= 2


def _signature(model: Any, spec: ModelSpec) -> Signature:
    inputs = spec.inputs or _declared(model, "inputs")
    outputs = spec.outputs or _declared(model, "outputs")
    tensors = (*inputs, *outputs)
    is_free = bool(inputs and outputs) and all(t.shape[:1] == (-1,) for t in tensors)
    can_batch = bool(getattr(model, "can_batch", is_free))
    if can_batch and not all(t.shape[:1] == (-1,) for t in tensors):
        raise LoadError("the model says `can_batch`, but not every shape begins with -1")
    return Signature(
        platform="python",
        inputs=inputs,
        outputs=outputs,
        can_batch=can_batch,
        parameters=_parameters(model),
        free_inputs=() if inputs else tuple(getattr(model, "free_inputs", ())),
    )


def _parameters(model: Any) -> tuple[str, ...] | None:
    """Names of the parameters that change the computation; None where it may be any."""
    if not _takes_parameters(_method(model, "infer")):
        return ()
    names = getattr(model, "batch_parameters", None)
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise LoadError("`batch_parameters` is not a list of names")
    return tuple(names)


def _declared(model: Any, name: str) -> tuple[TensorSpec, ...]:
    declared = getattr(model, name, ())
    if callable(declared):
        declared = declared()
    try:
        return tuple(
            tensor if isinstance(tensor, TensorSpec) else convert(tensor, TensorSpec)
            for tensor in declared
        )
    except (TypeError, ValidationError) as error:
        raise LoadError(
            f"`{name}` is not a sequence of tensors: {error}",
            hint='write {"name": "x", "datatype": "FP32", "shape": [-1, 16]}',
        ) from error


def _checked(tensor: TensorSpec, given: Mapping[str, Any]) -> Array:
    if tensor.name not in given:
        raise ExecutorError(f"infer did not return the output `{tensor.name}`")
    array = np.asarray(given[tensor.name])
    found = datatype_of(array.dtype)
    is_bits = tensor.datatype is Datatype.BF16 and found is Datatype.UINT16
    if found is not tensor.datatype and not is_bits:
        raise ExecutorError(
            f"output `{tensor.name}` is {found or array.dtype}, declared is {tensor.datatype}"
        )
    fits = len(tensor.shape) == array.ndim and all(
        want in (-1, have) for want, have in zip(tensor.shape, array.shape, strict=True)
    )
    if not fits:
        raise ExecutorError(
            f"output `{tensor.name}` has shape {list(array.shape)}, "
            f"declared is {list(tensor.shape)}"
        )
    return array


def _undeclared(given: Mapping[Any, Any], outputs: Sequence[str]) -> dict[str, Array]:
    """Outputs of a model that declares none: whatever the protocol has a datatype for."""
    arrays = {str(name): np.asarray(value) for name, value in given.items()}
    for name in outputs:
        if name not in arrays:
            raise ExecutorError(f"infer did not return the output `{name}`")
    for name, array in arrays.items():
        if datatype_of(array.dtype) is None:
            raise ExecutorError(f"output `{name}` is a {array.dtype}, which has no datatype")
    return {name: arrays[name] for name in outputs} if outputs else arrays
