"""Shapes of what an ONNX node writes, and its value where that is shape arithmetic.

Knows one node at a time, through the `onnx` package's own operator definitions. Refuses to know
what a node costs and which nodes there are.

Exported graphs compute shapes as they go (`Shape`, `Gather`, `Concat`, `Reshape`). Such values are
small, so they are worked out with the package's reference implementation, and no later shape stays
open because of them. What still cannot be known (`NonZero`, operators of other domains) is assumed,
and said to be.
"""

import functools
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from headway.profiling.operators import Shape

__all__ = ["DATATYPES", "Inferred", "Value", "infer", "value_of_initializer", "value_of_type"]

DATATYPES: Final[Mapping[int, tuple[str, int]]] = {
    1: ("float32", 32),
    2: ("uint8", 8),
    3: ("int8", 8),
    4: ("uint16", 16),
    5: ("int16", 16),
    6: ("int32", 32),
    7: ("int64", 64),
    8: ("string", 64),
    9: ("bool", 8),
    10: ("float16", 16),
    11: ("float64", 64),
    12: ("uint32", 32),
    13: ("uint64", 64),
    14: ("complex64", 64),
    15: ("complex128", 128),
    16: ("bfloat16", 16),
    17: ("float8e4m3fn", 8),
    18: ("float8e4m3fnuz", 8),
    19: ("float8e5m2", 8),
    20: ("float8e5m2fnuz", 8),
    21: ("uint4", 4),
    22: ("int4", 4),
    23: ("float4e2m1", 4),
    24: ("float8e8m0", 8),
    25: ("uint2", 2),
    26: ("int2", 2),
}
"""By ONNX's number: a name and the bits of an element. A string counts its reference alone."""

_FOLDED_ELEMENTS_MAX: Final = 4096
"""A value of more elements is no shape, and is not worked out."""
_FOLDED: Final = frozenset(
    "Abs Add And Cast CastLike Ceil Concat ConstantOfShape Div Equal Expand Flatten Floor Gather "
    "GatherElements GatherND Greater GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg "
    "NonZero Not Or Range ReduceMax ReduceMin ReduceProd ReduceSum Reshape ScatterElements "
    "ScatterND Sign Size Slice Split Sqrt Squeeze Sub Tile Transpose Unsqueeze Where Xor".split()
)
"""What shapes are computed with. None of them draws numbers."""
_STANDARD: Final = frozenset(("", "ai.onnx"))
_LIKE_STANDARD: Final = {
    "FusedConv": "Conv",
    "FusedGemm": "Gemm",
    "FusedMatMul": "MatMul",
    "MatMulIntegerToFloat": "MatMulInteger",
}
"""Operators of a runtime's domain whose shapes follow a standard one's."""
_LIKE_FIRST_INPUT: Final = frozenset(
    "BiasAdd BiasGelu FastGelu Gelu GroupQueryAttention MultiHeadAttention QLinearAdd "
    "QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearSoftmax QuickGelu RotaryEmbedding "
    "SimplifiedLayerNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization".split()
)


class Value(NamedTuple):
    """What is known of a tensor before the graph has run."""

    name: str
    """Unique in the model, subgraphs included."""
    type: Any
    """`onnx.TypeProto`."""
    shape: "Shape"
    datatype: int
    """ONNX's number; 0 for what is not a tensor."""
    is_constant: bool = False
    """The same in every run: a weight, or made of weights alone."""
    stored_bytes: int = 0
    """Bytes that a constant takes in memory; less than its elements' where it stays quantized."""
    known: Any = None
    """`onnx.TensorProto`, where the elements are few and known."""

    @property
    def size_bytes(self) -> int:
        """Bytes of its elements, packed."""
        return -(-prod(self.shape) * bits_of(self.datatype) // 8)


class Inferred(NamedTuple):
    """What a node writes."""

    outputs: "tuple[Value | None, ...]"
    is_assumed: bool = False
    """At least one shape is a guess."""


def bits_of(datatype: int) -> int:
    """Bits of one element; 0 for what is not a tensor."""
    return DATATYPES[datatype][1] if datatype in DATATYPES else 0


def value_of_initializer(tensor: Any, name: str) -> Value:
    """A weight, which keeps its elements where they are few and in the file itself.

    Raises:
        ValueError: a negative size.
    """
    import onnx

    shape = tuple(tensor.dims)
    if any(size < 0 for size in shape):
        raise ValueError(f"`{name}` has the shape {shape}")
    kind = onnx.helper.make_tensor_type_proto(tensor.data_type, shape)
    is_external = tensor.data_location == onnx.TensorProto.EXTERNAL
    is_small = prod(shape) <= _FOLDED_ELEMENTS_MAX and not is_external
    known = tensor if is_small else None
    value = Value(name, kind, shape, tensor.data_type, is_constant=True, known=known)
    return value._replace(stored_bytes=value.size_bytes)


def value_of_type(kind: Any, name: str) -> tuple[Value, bool]:
    """A tensor of this type; and whether all of its shape is known. An open axis counts as 1."""
    if not kind.HasField("tensor_type"):
        return Value(name, kind, (), 0), kind.WhichOneof("value") is not None
    tensor = kind.tensor_type
    if not tensor.HasField("shape"):
        return Value(name, kind, (), tensor.elem_type), False
    axes = tensor.shape.dim
    sizes = [axis.dim_value if axis.HasField("dim_value") else -1 for axis in axes]
    shape = tuple(size if size >= 0 else 1 for size in sizes)
    is_known = all(size >= 0 for size in sizes)
    return Value(name, _closed(tensor.elem_type, shape), shape, tensor.elem_type), is_known


def infer(
    node: Any, inputs: "Sequence[Value | None]", opsets: Mapping[str, int], scope: str
) -> Inferred:
    """What a node without subgraphs writes.

    Args:
        node: `onnx.NodeProto`.
        inputs: one for each that the node names, None where it names none.
        opsets: versions by domain.
        scope: goes before the names of values.
    """
    if node.op_type == "Constant" and node.domain in _STANDARD:
        constant = _constant(node, scope)
        if constant is not None:
            return Inferred((constant,))
    is_constant = bool(inputs) and all(v is None or v.is_constant for v in inputs)
    folded = _fold(node, inputs, opsets)
    if folded is not None:
        named = zip(node.output, folded, strict=False)
        values = [value_of_initializer(tensor, scope + name) for name, tensor in named]
        return Inferred(tuple(value._replace(is_constant=is_constant) for value in values))
    types = _types(node, inputs, opsets)
    outputs: list[Value | None] = []
    is_assumed = False
    for name in node.output:
        if not name:
            outputs.append(None)
            continue
        value, is_known = _output(scope + name, types.get(name), inputs)
        is_expected = node.op_type in _LIKE_FIRST_INPUT and name not in types
        is_assumed |= not is_known and not is_expected
        outputs.append(_as_constant(node, value, inputs) if is_constant else value)
    return Inferred(tuple(outputs), is_assumed)


def _output(name: str, kind: Any, inputs: "Sequence[Value | None]") -> tuple[Value, bool]:
    if kind is not None and kind.WhichOneof("value") is not None:
        value, is_known = value_of_type(kind, name)
        if is_known or kind.WhichOneof("value") != "tensor_type" or value.shape:
            return value, is_known
    first = next((value for value in inputs if value is not None), None)
    if first is None:
        return Value(name, _closed(0, ()), (), 0), False
    return Value(name, first.type, first.shape, first.datatype), False


def _as_constant(node: Any, value: Value, inputs: "Sequence[Value | None]") -> Value:
    """Made at load; but quantized weights stay so, and are widened where they are used."""
    first = inputs[0] if inputs else None
    is_widened = node.op_type == "DequantizeLinear" and first is not None
    stored_bytes = first.stored_bytes if is_widened and first is not None else value.size_bytes
    return value._replace(is_constant=True, stored_bytes=stored_bytes)


def _closed(datatype: int, shape: "Shape") -> Any:
    import onnx

    return onnx.helper.make_tensor_type_proto(datatype, shape)


def _constant(node: Any, scope: str) -> Value | None:
    import onnx

    attribute = node.attribute[0] if node.attribute else None
    if attribute is None or not node.output:
        return None
    if attribute.name == "value":
        return value_of_initializer(attribute.t, scope + node.output[0])
    kinds = {"value_float": 1, "value_floats": 1, "value_int": 7, "value_ints": 7}
    if attribute.name not in kinds:
        return None
    content = onnx.helper.get_attribute_value(attribute)
    elements = list(content) if attribute.name.endswith("s") else [content]
    dims = [len(elements)] if attribute.name.endswith("s") else []
    tensor = onnx.helper.make_tensor("", kinds[attribute.name], dims, elements)
    return value_of_initializer(tensor, scope + node.output[0])


def _types(
    node: Any, inputs: "Sequence[Value | None]", opsets: Mapping[str, int]
) -> Mapping[str, Any]:
    """Output types by the operator's own definition; empty where it has none or will not say."""
    import onnx

    kind, domain = node.op_type, "" if node.domain in _STANDARD else node.domain
    if domain == "com.microsoft" and kind in _LIKE_STANDARD:
        domain, inputs = "", _turned(node, inputs)
        kind = _LIKE_STANDARD[kind]
    version = opsets.get(domain, 1 if domain else onnx.defs.onnx_opset_version())
    schema = _schema(kind, version, domain)
    if schema is None:
        return {}
    if kind != node.op_type:
        node = _renamed(node, kind, schema.attributes)
    named = [(n, v) for n, v in zip(node.input, inputs, strict=True) if v is not None]
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema,
            node,
            {name: value.type for name, value in named},
            {name: value.known for name, value in named if value.known is not None},
            opset_imports=[onnx.helper.make_opsetid(d, v) for d, v in opsets.items()],
        )
    except (
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
        RuntimeError,
        TypeError,
        ValueError,
    ):
        return {}  # a node that breaks its operator's rules: the caller assumes, and says so
    return dict(found)


def _renamed(node: Any, kind: str, attributes: Mapping[str, Any]) -> Any:
    """A runtime's node as its standard kin, without what the standard does not know."""
    import onnx

    kept = [attribute for attribute in node.attribute if attribute.name in attributes]
    return onnx.NodeProto(op_type=kind, input=node.input, output=node.output, attribute=kept)


def _turned(node: Any, inputs: "Sequence[Value | None]") -> "Sequence[Value | None]":
    """The two matrices of a `FusedMatMul`, which may be turned as they are read."""
    if node.op_type != "FusedMatMul":
        return inputs
    flags = {attribute.name: attribute.i for attribute in node.attribute}
    turned = list(inputs)
    for index, flag in enumerate(("transA", "transB")):
        value = turned[index] if index < len(turned) else None
        if value is not None and flags.get(flag) and len(value.shape) > 1:
            shape = (*value.shape[:-2], value.shape[-1], value.shape[-2])
            turned[index] = value._replace(type=_closed(value.datatype, shape))
    return turned


@functools.lru_cache(maxsize=1024)
def _schema(kind: str, version: int, domain: str) -> Any:
    import onnx

    try:
        return onnx.defs.get_schema(kind, version, domain)
    except onnx.defs.SchemaError:
        return None


def _fold(
    node: Any, inputs: "Sequence[Value | None]", opsets: Mapping[str, int]
) -> Sequence[Any] | None:
    """The elements that a node writes, where they are few and all that it reads is known."""
    import onnx

    if node.domain not in _STANDARD:
        return None
    if node.op_type in ("Shape", "Size") and inputs and inputs[0] is not None:
        return _measured(node, inputs[0].shape) if inputs[0].datatype else None
    if node.op_type not in _FOLDED or not all(v is None or v.known is not None for v in inputs):
        return None
    outputs = [_output("", kind, ()) for kind in _types(node, inputs, opsets).values()]
    if not outputs or max(prod(value.shape) for value, _ in outputs) > _FOLDED_ELEMENTS_MAX:
        return None
    if node.op_type != "NonZero" and not all(is_known for _, is_known in outputs):
        return None  # nobody knows how large it would become
    from onnx.reference import ReferenceEvaluator

    feeds = {
        name: onnx.numpy_helper.to_array(value.known)
        for name, value in zip(node.input, inputs, strict=True)
        if value is not None
    }
    try:
        arrays = ReferenceEvaluator(node, opsets=dict(opsets)).run(None, feeds)
        return [onnx.numpy_helper.from_array(array) for array in arrays]
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return None  # a graph may be wrong, and an operator may lack a reference


def _measured(node: Any, shape: "Shape") -> Sequence[Any]:
    import onnx

    if node.op_type == "Size":
        return [onnx.helper.make_tensor("", onnx.TensorProto.INT64, [], [prod(shape)])]
    bounds = {a.name: a.i for a in node.attribute}
    taken = shape[slice(bounds.get("start"), bounds.get("end"))]
    return [onnx.helper.make_tensor("", onnx.TensorProto.INT64, [len(taken)], taken)]
