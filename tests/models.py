"""Small ONNX models for the tests, built on the spot: identity, difference, row sums and bad ones.

Knows the `onnx` package and headway's datatypes. Tensors are called `x` (and `z`) on the way in and
`y` on the way out; a free axis is -1.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import onnx
from onnx import TensorProto, helper

from headway.core import Datatype

__all__ = [
    "difference",
    "doubled_rows",
    "identity",
    "mixed_identity",
    "row_sum",
    "sequence_output",
    "two_outputs",
]

ELEMENT_TYPES: Final = {
    Datatype.BOOL: TensorProto.BOOL,
    Datatype.UINT8: TensorProto.UINT8,
    Datatype.UINT16: TensorProto.UINT16,
    Datatype.UINT32: TensorProto.UINT32,
    Datatype.UINT64: TensorProto.UINT64,
    Datatype.INT8: TensorProto.INT8,
    Datatype.INT16: TensorProto.INT16,
    Datatype.INT32: TensorProto.INT32,
    Datatype.INT64: TensorProto.INT64,
    Datatype.FP16: TensorProto.FLOAT16,
    Datatype.BF16: TensorProto.BFLOAT16,
    Datatype.FP32: TensorProto.FLOAT,
    Datatype.FP64: TensorProto.DOUBLE,
    Datatype.BYTES: TensorProto.STRING,
}


def identity(path: Path, datatype: Datatype, shape: Sequence[int] = (-1, 4)) -> str:
    """`y` = `x`; returns the file's name, as the others do."""
    return _save(
        path,
        [helper.make_node("Identity", ["x"], ["y"])],
        [_tensor("x", datatype, shape)],
        [_tensor("y", datatype, shape)],
    )


def difference(path: Path, shape: Sequence[int] = (-1, 4)) -> str:
    """`y` = `x` - `z`, so that swapped inputs show."""
    return _save(
        path,
        [helper.make_node("Sub", ["x", "z"], ["y"])],
        [_tensor("x", Datatype.FP32, shape), _tensor("z", Datatype.FP32, shape)],
        [_tensor("y", Datatype.FP32, shape)],
    )


def mixed_identity(path: Path, x: Datatype, z: Datatype) -> str:
    """`y` = `x` and `w` = `z`, of two datatypes."""
    return _save(
        path,
        [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Identity", ["z"], ["w"])],
        [_tensor("x", x, (-1, 4)), _tensor("z", z, (-1, 4))],
        [_tensor("y", x, (-1, 4)), _tensor("w", z, (-1, 4))],
    )


def row_sum(path: Path) -> str:
    """`y` = the sum of each row of `x`: (batch, any) to (batch, 1)."""
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [1])
    return _save(
        path,
        [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=1)],
        [_tensor("x", Datatype.FP32, (-1, -1))],
        [_tensor("y", Datatype.FP32, (-1, 1))],
        [axes],
    )


def two_outputs(path: Path) -> str:
    """`y` = `x` and `negative` = -`x`."""
    return _save(
        path,
        [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["negative"])],
        [_tensor("x", Datatype.FP32, (-1, 4))],
        [_tensor("y", Datatype.FP32, (-1, 4)), _tensor("negative", Datatype.FP32, (-1, 4))],
    )


def doubled_rows(path: Path) -> str:
    """`y` has twice the rows of `x`, though every leading axis is free."""
    return _save(
        path,
        [helper.make_node("Concat", ["x", "x"], ["y"], axis=0)],
        [_tensor("x", Datatype.FP32, (-1, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("rows_y", 4))],
    )


def sequence_output(path: Path) -> str:
    """`y` is a sequence of tensors, which the protocol cannot carry."""
    return _save(
        path,
        [helper.make_node("SequenceConstruct", ["x"], ["y"])],
        [_tensor("x", Datatype.FP32, (-1, 4))],
        [helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)],
    )


def _tensor(name: str, datatype: Datatype, shape: Sequence[int]) -> onnx.ValueInfoProto:
    axes = [f"axis_{index}" if size < 0 else size for index, size in enumerate(shape)]
    return helper.make_tensor_value_info(name, ELEMENT_TYPES[datatype], axes)


def _save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Sequence[onnx.TensorProto] = (),
) -> str:
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9  # the oldest runtime that we support reads no newer file
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return str(path)
