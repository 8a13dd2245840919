"""ONNX models on the CPU through ONNX Runtime.

One thread an execution by default: slots are the unit of concurrency here, and thread pools of
several sessions that spin for work on the same cores slow each other down many times over.
"""

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime as ort

from headway.core import Datatype
from headway.errors import ExecutorError, LoadError
from headway.executors.backend import wanted_outputs
from headway.executors.model import ModelSpec, ParameterValue, Signature, TensorSpec
from headway.executors.tensors import Array

__all__ = ["OnnxModel"]

_DATATYPES: Final[Mapping[str, Datatype]] = {
    "tensor(bool)": Datatype.BOOL,
    "tensor(uint8)": Datatype.UINT8,
    "tensor(uint16)": Datatype.UINT16,
    "tensor(uint32)": Datatype.UINT32,
    "tensor(uint64)": Datatype.UINT64,
    "tensor(int8)": Datatype.INT8,
    "tensor(int16)": Datatype.INT16,
    "tensor(int32)": Datatype.INT32,
    "tensor(int64)": Datatype.INT64,
    "tensor(float16)": Datatype.FP16,
    "tensor(bfloat16)": Datatype.BF16,
    "tensor(float)": Datatype.FP32,
    "tensor(double)": Datatype.FP64,
    "tensor(string)": Datatype.BYTES,
}
_BFLOAT16: Final = 16
"""TensorProto.DataType.BFLOAT16"""
_OPTIONS: Final = frozenset({"allow_spinning", "intra_op_threads"})


class OnnxModel:
    """An inference session and what its graph declares."""

    __slots__ = ("_is_bf16", "_session", "_texts", "signature")

    def __init__(self, session: Any, signature: Signature) -> None:
        self._session = session
        self.signature = signature
        tensors = (*signature.inputs, *signature.outputs)
        self._is_bf16 = any(tensor.datatype is Datatype.BF16 for tensor in tensors)
        self._texts = {t.name for t in signature.inputs if t.datatype is Datatype.BYTES}
        if self._is_bf16 and any(tensor.datatype is Datatype.BYTES for tensor in tensors):
            raise LoadError(
                "ONNX Runtime's Python interface cannot mix BF16 and string tensors in one model",
                hint="cast one of them inside the graph",
            )

    @classmethod
    def load(cls, spec: ModelSpec) -> "OnnxModel":
        """Read the file and make a session.

        Options: `intra_op_threads`, threads inside an operator (1); `allow_spinning`, whether they
        wait for work by spinning (false).

        Raises:
            LoadError: no such file, an unknown option, or a graph whose inputs or outputs are not
                tensors of the protocol.
        """
        path = Path(spec.path)
        if not path.is_file():
            raise LoadError(f"there is no model file `{spec.path}`")
        if unknown := spec.options.keys() - _OPTIONS:
            raise LoadError(
                f"the onnx back end has no option `{min(unknown)}`",
                hint=f"it has {sorted(_OPTIONS)}",
            )
        session = ort.InferenceSession(
            str(path), _session_options(spec), providers=["CPUExecutionProvider"]
        )
        return cls(session, _signature(session, spec))

    def infer(
        self,
        inputs: dict[str, Array],
        outputs: Sequence[str],
        parameters: dict[str, ParameterValue],
    ) -> dict[str, Array]:
        """Run the graph; parameters change nothing in it."""
        names = [tensor.name for tensor in wanted_outputs(self.signature, outputs)]
        for name in self._texts & inputs.keys():
            inputs[name] = _as_text(name, inputs[name])
        if self._is_bf16:
            return self._infer_ort_values(names, inputs)
        return dict(zip(names, self._session.run(names, inputs), strict=True))

    def close(self) -> None:
        """Drop the session, and with it its memory."""
        self._session = None

    def _infer_ort_values(self, names: list[str], inputs: dict[str, Array]) -> dict[str, Array]:
        """As `run`, by the calls which know BF16: numpy's own arrays do not."""
        feeds = {name: _as_ort_value(array) for name, array in inputs.items()}
        values = self._session.run_with_ort_values(names, feeds)
        return {name: _from_ort_value(value) for name, value in zip(names, values, strict=True)}


def _session_options(spec: ModelSpec) -> Any:
    threads = spec.options.get("intra_op_threads", 1)
    if not isinstance(threads, int) or threads < 1:
        raise LoadError(f"`intra_op_threads` must be a whole number from 1 up, not `{threads}`")
    spinning = spec.options.get("allow_spinning", False)
    if not isinstance(spinning, bool):
        raise LoadError(f"`allow_spinning` must be true or false, not `{spinning}`")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    # A plan is kept for each input shape ever seen, without a bound; batches have many shapes.
    options.enable_mem_pattern = False
    # Off unless asked for: pools of several sessions that spin for work take the cores from each
    # other, which slows all of them down and makes their times unpredictable.
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spinning)))
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return options


def _signature(session: Any, spec: ModelSpec) -> Signature:
    inputs = _declared("input", session.get_inputs(), spec.inputs)
    outputs = _declared("output", session.get_outputs(), spec.outputs)
    return Signature(
        platform="onnxruntime_onnx",
        inputs=inputs,
        outputs=outputs,
        can_batch=all(t.shape[:1] == (-1,) for t in (*inputs, *outputs)),
        parameters=(),
    )


def _declared(
    kind: str, nodes: Sequence[Any], given: Sequence[TensorSpec]
) -> tuple[TensorSpec, ...]:
    """The graph's own declaration, or what the specification says of it instead."""
    by_name = {node.name: node for node in nodes}
    for tensor in given:
        if tensor.name not in by_name:
            raise LoadError(f"the graph has no {kind} `{tensor.name}`, only {sorted(by_name)}")
        graph_type = by_name[tensor.name].type
        if _DATATYPES.get(graph_type) is not tensor.datatype:
            raise LoadError(
                f"{kind} `{tensor.name}` is a {graph_type} in the graph, not {tensor.datatype}"
            )
    return tuple(given) or tuple(_tensor_spec(kind, node) for node in nodes)


def _tensor_spec(kind: str, node: Any) -> TensorSpec:
    datatype = _DATATYPES.get(node.type)
    if datatype is None:
        raise LoadError(
            f"{kind} `{node.name}` is a {node.type}, which the protocol cannot carry",
            hint="export the model without it, or configure only the tensors wanted",
        )
    shape = tuple(size if isinstance(size, int) and size >= 0 else -1 for size in node.shape)
    return TensorSpec(name=node.name, datatype=datatype, shape=shape)


def _as_text(name: str, array: Array) -> Array:
    """ONNX strings are text: given bytes, the runtime would take their Python spelling instead."""
    text = np.empty(array.shape, np.object_)
    try:
        text.ravel()[:] = [element.decode() for element in array.ravel().tolist()]
    except UnicodeDecodeError as error:
        raise ExecutorError(
            f"input `{name}` holds bytes that are not UTF-8 ({error.reason}); "
            "ONNX models take strings as text only"
        ) from error
    return text


def _as_ort_value(array: Array) -> Any:
    if array.dtype.name == "bfloat16" or array.dtype == np.uint16:
        bits = np.ascontiguousarray(array).view(np.uint16)
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, _BFLOAT16)
    return ort.OrtValue.ortvalue_from_numpy(array)


def _from_ort_value(value: Any) -> Array:
    if value.data_type() != "tensor(bfloat16)":
        array: Array = value.numpy()
        return array
    shape = value.shape()
    count = int(np.prod(shape, dtype=np.int64))
    bits = np.empty(count, np.uint16)
    if count:
        ctypes.memmove(bits.ctypes.data, value.data_ptr(), bits.nbytes)
    return bits.reshape(shape)
