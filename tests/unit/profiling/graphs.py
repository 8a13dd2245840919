"""Small ONNX files, built node by node."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper, save

__all__ = [
    "FLOAT",
    "INT64",
    "a_graph",
    "tensor",
    "values",
    "weight",
    "write_branches",
    "write_graph",
]

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def tensor(name: str, *shape: int | str | None, kind: int = FLOAT) -> ValueInfoProto:
    """An input or output; text and None are open axes."""
    return helper.make_tensor_value_info(name, kind, shape)


def anything(name: str) -> ValueInfoProto:
    """An output of which nothing is declared."""
    return ValueInfoProto(name=name)


def weight(name: str, *shape: int, kind: type = np.float32) -> TensorProto:
    """A constant of ones."""
    return numpy_helper.from_array(np.ones(shape, kind), name)


def values(name: str, content: object, kind: type = np.int64) -> TensorProto:
    """A constant of these elements."""
    return numpy_helper.from_array(np.array(content, kind), name)


def a_graph(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[str],
    weights: Sequence[TensorProto] = (),
):
    """A graph whose outputs declare nothing."""
    return helper.make_graph(nodes, "g", inputs, [anything(o) for o in outputs], weights)


def write_graph(
    path: Path,
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[str] = ("y",),
    weights: Sequence[TensorProto] = (),
    *,
    opsets: Mapping[str, int] | None = None,
    functions: Sequence[object] = (),
) -> Path:
    """Write a model to a file."""
    wanted = opsets or {"": 17}
    model = helper.make_model(
        a_graph(nodes, inputs, outputs, weights),
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in wanted.items()],
        functions=functions,
        ir_version=8,
    )
    save(model, path)
    return path


def write_branches(tmp_path: Path, condition: bool | None) -> Path:
    """`If` between a small product and a large one, of a weight from outside."""
    small = a_graph([helper.make_node("Relu", ["x"], ["s"])], [], ["s"])
    large = a_graph([helper.make_node("MatMul", ["x", "w"], ["l"])], [], ["l"])
    choice = helper.make_node(
        "If", ["c"], ["y"], name="choice", then_branch=small, else_branch=large
    )
    inputs = [tensor("x", "n", 8)]
    if condition is None:
        inputs.append(tensor("c", kind=TensorProto.BOOL))
    weights = [weight("w", 8, 8)]
    if condition is not None:
        weights.append(values("c", condition, np.bool_))
    return write_graph(tmp_path / "if.onnx", [choice], inputs, ["y"], weights)
