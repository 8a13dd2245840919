"""How much arithmetic one operator of a graph does, from the shapes it reads and writes.

Knows ONNX's operators (and those of `com.microsoft` that runtimes put into optimised graphs) and
shapes. Refuses to know files, the `onnx` package, bytes and devices.

What counts as one floating-point operation (FLOP): each addition, multiplication, division,
comparison and each call of a function such as `exp`. A multiply-accumulate (MAC) is two. Integer
arithmetic counts alike: the question is how much there is to compute, not in which unit. What only
moves elements counts nothing. The formulas are those of the operators' definitions, nothing is
measured: a convolution by Winograd's algorithm or a softmax of three passes does other numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Final, NamedTuple

__all__ = ["GATHERS", "VIEWS", "Operation", "Shape", "Work", "work_of"]

Shape = tuple[int, ...]


class Operation(NamedTuple):
    """One node with the shapes it has in this run."""

    kind: str
    """Such as `Conv`, without its domain."""
    inputs: tuple[Shape | None, ...]
    """None where an optional input is absent or its shape is not known."""
    outputs: tuple[Shape | None, ...]
    attributes: Mapping[str, object] = MappingProxyType({})

    def read(self, index: int) -> Shape:
        """The shape of an input; of a scalar where there is none."""
        shape = self.inputs[index] if index < len(self.inputs) else None
        return shape or ()

    def has(self, index: int) -> bool:
        """Whether an optional input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    @property
    def written(self) -> Shape:
        """The shape of the first output."""
        return (self.outputs[0] if self.outputs else None) or ()


class Work(NamedTuple):
    """What an operation computes."""

    flop: int
    """Multiply-accumulates included, as two each."""
    mac_count: int = 0
    is_known: bool = True
    """False where no formula exists and an operation per output element was assumed."""


VIEWS: Final = frozenset(
    "Constant Dropout Flatten Identity Optional OptionalGetElement OptionalHasElement Reshape "
    "Shape Size Squeeze Unsqueeze".split()
)
"""They read and write no elements: what comes out is what went in, under another shape."""

GATHERS: Final = frozenset(
    "EmbedLayerNormalization Gather GatherBlockQuantized GatherElements GatherND".split()
)
"""They read as much of their table as they write, not all of it."""

_MOVES: Final = frozenset(
    "BitCast Cast CastLike CenterCropPad Col2Im Compress Concat ConcatFromSequence "
    "ConstantOfShape DepthToSpace Expand EyeLike Gather GatherElements GatherND NonZero OneHot "
    "Pad Range ReverseSequence Scatter ScatterElements ScatterND SequenceAt SequenceConstruct "
    "SequenceEmpty SequenceErase SequenceInsert SequenceLength Slice SpaceToDepth Split "
    "SplitToSequence TensorScatter Tile Transpose Trilu Unique Where".split()
)

_ELEMENTWISE: Final = frozenset(
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh Bernoulli BiasAdd BiasGelu BitShift BitwiseAnd "
    "BitwiseNot BitwiseOr BitwiseXor Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp FastGelu Floor "
    "Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log "
    "Max Min Mish Mod Mul Neg Not Or PRelu Pow QLinearAdd QLinearLeakyRelu QLinearMul "
    "QLinearSigmoid QuickGelu RandomNormal RandomNormalLike RandomUniform RandomUniformLike "
    "Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Swish Tan "
    "Tanh ThresholdedRelu Xor".split()
)
"""One operation for each element of the output; a function as one, whatever a processor makes of
it. `Max` and its like take several inputs, an operation for each beyond the first."""
_VARIADIC: Final = frozenset(("Max", "Mean", "Min", "Sum"))

_REDUCTIONS: Final = frozenset(
    "ArgMax ArgMin CumProd CumSum Det GlobalAveragePool GlobalLpPool GlobalMaxPool Hardmax "
    "NonMaxSuppression QLinearGlobalAveragePool QLinearReduceMean ReduceL1 ReduceL2 ReduceLogSum "
    "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
    "ReduceSumSquare TopK".split()
)
"""One operation for each element of the input."""

_PER_ELEMENT: Final[Mapping[str, int]] = MappingProxyType(
    {
        "BatchNormalization": 2,  # its statistics are constants: scale and shift
        "DequantizeLinear": 2,  # subtract the zero point, scale
        "DynamicQuantizeLinear": 4,  # least, greatest, scale, round
        "GroupNormalization": 7,
        "InstanceNormalization": 7,
        "LRN": 5,
        "LayerNormalization": 7,  # sum, subtract, square, sum, normalise, scale, shift
        "LogSoftmax": 6,
        "LpNormalization": 3,
        "MeanVarianceNormalization": 5,
        "QLinearSoftmax": 7,
        "QuantizeLinear": 2,  # divide, round
        "RMSNormalization": 4,
        "RotaryEmbedding": 3,
        "SimplifiedLayerNormalization": 4,
        "SkipLayerNormalization": 8,
        "SkipSimplifiedLayerNormalization": 5,
        "Softmax": 5,  # greatest, subtract, exp, sum, divide
    }
)
_GATES: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {"GRU": (3, 4), "LSTM": (4, 5), "RNN": (1, 0)}
)
"""Gates of a recurrent cell, each a bias and a function; and what joins them, a hidden unit."""


def work_of(operation: Operation) -> Work:
    """Count one operation. Total: what has no formula counts an operation an output element."""
    formula = _FORMULAS.get(operation.kind)
    if formula is not None:
        return formula(operation)
    if operation.kind in VIEWS or operation.kind in _MOVES:
        return Work(0)
    elements = prod(operation.written)
    if operation.kind in _PER_ELEMENT:
        return Work(_PER_ELEMENT[operation.kind] * elements)
    if operation.kind in _VARIADIC:
        return Work(max(1, len(operation.inputs) - 1) * elements)
    if operation.kind in _REDUCTIONS:
        return Work(prod(operation.read(0)))
    return Work(elements, is_known=operation.kind in _ELEMENTWISE)


# --- sums of products -----------------------------------------------------------------------------


def _macs(mac_count: int, extra_flop: int = 0) -> Work:
    return Work(2 * mac_count + extra_flop, mac_count)


def _convolution(weight: int, bias: int | None, per_output: int = 0) -> Callable[[Operation], Work]:
    """Every output element is a sum over a filter: its channels of one group times its window."""

    def count(operation: Operation) -> Work:
        elements = prod(operation.written)
        has_bias = bias is not None and operation.has(bias)
        extra = per_output + (1 if has_bias else 0)
        return _macs(elements * prod(operation.read(weight)[1:]), extra * elements)

    return count


def _transposed_convolution(operation: Operation) -> Work:
    """Every input element is spread over a filter."""
    macs = prod(operation.read(0)) * prod(operation.read(1)[1:])
    return _macs(macs, prod(operation.written) if operation.has(2) else 0)


def _product(
    left: int, bias: int | None = None, per_output: int = 0
) -> Callable[[Operation], Work]:
    """A product of matrices: every output element is a sum over the left one's inner axis."""

    def count(operation: Operation) -> Work:
        shape = operation.read(left)
        is_turned = bool(operation.attributes.get("transA"))
        inner = shape[-2 if is_turned and len(shape) > 1 else -1] if shape else 1
        elements = prod(operation.written)
        has_bias = bias is not None and operation.has(bias)
        return _macs(elements * inner, (per_output + (1 if has_bias else 0)) * elements)

    return count


def _einsum(operation: Operation) -> Work:
    """As many products as the letters' combined range; without an ellipsis, which is a letter."""
    equation = operation.attributes.get("equation")
    terms = (equation if isinstance(equation, str) else "").partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, operation.inputs, strict=False):
        letters = [letter for letter in term if letter.isalpha()]
        rest = (shape or ())[: len(shape or ()) - len(letters)]
        sizes["..."] = max(sizes.get("...", 1), prod(rest))
        sizes.update(zip(letters, (shape or ())[len(rest) :], strict=False))
    combinations = prod(sizes.values())
    factors = sum(shape is not None for shape in operation.inputs)
    return _macs(combinations * (factors - 1)) if factors > 1 else Work(combinations)


def _recurrent(operation: Operation) -> Work:
    """Each step multiplies input and hidden state by all gates' weights, in each direction."""
    steps = prod(operation.read(0)[:2])  # sequence times batch, in either layout
    weights, recurrence = operation.read(1), operation.read(2)
    gates, joins = _GATES[operation.kind]
    hidden = recurrence[-1] * recurrence[0] if recurrence else 0
    return _macs(steps * (prod(weights) + prod(recurrence)), steps * hidden * (2 * gates + joins))


# --- attention ------------------------------------------------------------------------------------


def _attention(past: int, heads: str) -> Callable[[Operation], Work]:
    """Scores of every query against every key, softmax, and the values' weighted sum.

    Queries are (batch, heads, length, size) or (batch, length, heads * size); keys and values may
    have fewer heads, which are then shared and change nothing here.
    """

    def count(operation: Operation) -> Work:
        query, key = operation.read(0), operation.read(1)
        length = key[-2] if len(key) > 2 else (query[1] if len(query) > 1 else 1)
        if operation.has(past) and len(operation.read(past)) > 2:
            length += operation.read(past)[-2]
        head_count = query[1] if len(query) == 4 else _whole(operation.attributes.get(heads))
        queries = query[-2] if len(query) > 1 else 1
        scores = (query[0] if query else 1) * head_count * queries * length
        macs = (prod(query) + prod(operation.written)) * length
        return _macs(macs, (_PER_ELEMENT["Softmax"] + 1) * scores)

    return count


def _fused_attention(operation: Operation) -> Work:
    """`com.microsoft.Attention`: the projections to queries, keys and values belong to it."""
    tokens, weights = operation.read(0), operation.read(1)
    rows, length = prod(tokens[:2]), tokens[1] if len(tokens) > 1 else 1
    width = weights[-1] // 3 if weights else 0
    scores = rows * length * _whole(operation.attributes.get("num_heads"))
    return _macs(
        rows * prod(weights) + 2 * rows * length * width,
        rows * 3 * width + (_PER_ELEMENT["Softmax"] + 1) * scores,
    )


# --- windows --------------------------------------------------------------------------------------


def _pool(operation: Operation) -> Work:
    kernel = operation.attributes.get("kernel_shape")
    window = prod(kernel) if isinstance(kernel, Sequence) and not isinstance(kernel, str) else 1
    return Work(prod(operation.written) * window)


def _resize(operation: Operation) -> Work:
    """Nearest copies; linear weighs two neighbours an axis that changes, cubic four."""
    neighbours = {"linear": 2, "cubic": 4}.get(str(operation.attributes.get("mode", "nearest")))
    if neighbours is None:
        return Work(0)
    pairs = zip(operation.read(0), operation.written, strict=False)
    changed = sum(before != after for before, after in pairs)
    return Work(prod(operation.written) * 2 * neighbours**changed)


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 1


_FORMULAS: Final[Mapping[str, Callable[[Operation], Work]]] = MappingProxyType(
    {
        "Attention": lambda o: (
            _attention(4, "q_num_heads")(o) if len(o.read(1)) > 2 else _fused_attention(o)
        ),
        "AveragePool": _pool,
        "Conv": _convolution(1, 2),
        "ConvInteger": _convolution(1, None),
        "ConvTranspose": _transposed_convolution,
        "DeformConv": _convolution(1, 3),
        "Einsum": _einsum,
        "FusedConv": _convolution(1, 2, 1),
        "FusedGemm": _product(0, 2, 1),
        "FusedMatMul": _product(0),
        "GRU": _recurrent,
        "Gemm": _product(0, 2),
        "GroupQueryAttention": _attention(3, "num_heads"),
        "LSTM": _recurrent,
        "LpPool": _pool,
        "MatMul": _product(0),
        "MatMulInteger": _product(0),
        "MatMulIntegerToFloat": _product(0, None, 2),
        "MatMulNBits": _product(0),
        "MaxPool": _pool,
        "MultiHeadAttention": _attention(6, "num_heads"),
        "QGemm": _product(0, None, 2),
        "QLinearAveragePool": _pool,
        "QLinearConv": _convolution(3, 8, 2),
        "QLinearMatMul": _product(0, None, 2),
        "RNN": _recurrent,
        "Resize": _resize,
        "Upsample": _resize,
    }
)
