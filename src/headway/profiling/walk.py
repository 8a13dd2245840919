"""One pass over a graph in its own order: every node with its shapes, and what it costs.

Knows nodes, subgraphs and weights. Refuses to know files and devices.

* Shape arithmetic and views cost nothing; a node that reads weights alone runs once, at load.
* `If` with a condition that is not known counts its costlier branch; `Loop` and `Scan` count their
  body as often as it runs, once where that depends on the data. Both are listed as assumptions.
* A weight counts where it is read. A table that is gathered from counts only what is taken.
"""

from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from headway.errors import LoadError
from headway.profiling.inference import (
    DATATYPES,
    Value,
    infer,
    value_of_initializer,
    value_of_type,
)
from headway.profiling.operators import GATHERS, VIEWS, Operation, Shape, work_of

__all__ = ["Found", "NodeCost", "walk_graph"]

_TRIPS_MAX: Final = 1_000_000
"""A loop that is allowed more is one that ends by its condition."""

Scope = MutableMapping[str, Value]


class NodeCost(Struct, frozen=True, kw_only=True):
    """One node in one run of the graph."""

    name: str
    """Its own, or what it writes."""
    kind: str
    """Its operator."""
    datatype: str
    """Of its first input."""
    output_shape: tuple[int, ...]
    repeats: int = 1
    """How often the loop around it runs; counted in all numbers below."""
    flop: int
    mac_count: int
    moved_bytes: int
    """Activations read and written, and what is gathered from a table."""
    weight_bytes: int
    """Constants read."""

    @property
    def traffic_bytes(self) -> int:
        """All that it reads and writes."""
        return self.moved_bytes + self.weight_bytes


class Found(NamedTuple):
    """A walked graph."""

    nodes: tuple[NodeCost, ...]
    outputs: tuple[Value, ...]
    weights: Mapping[str, int]
    """Bytes of every constant that a run reads in full, once each."""
    gathered_bytes: int
    """What a run takes out of tables."""
    unknown_kinds: Mapping[str, int]
    """Operators without a formula, and how many nodes of each."""
    assumptions: tuple[str, ...]


class _Pass:
    """Costs of the nodes that were walked so far."""

    def __init__(self, opsets: Mapping[str, int]) -> None:
        self.opsets = opsets
        self.nodes: list[NodeCost] = []
        self.weights: dict[str, int] = {}
        self.gathered_bytes = 0
        self.unknown: dict[str, int] = {}
        self.assumptions: list[str] = []

    def fresh(self) -> "_Pass":
        return _Pass(self.opsets)

    def take(self, other: "_Pass", repeats: int = 1) -> None:
        """Add what another pass found, so many times over; weights are the same each time."""
        self.nodes += [_repeated(node, repeats) for node in other.nodes]
        self.weights.update(other.weights)
        self.gathered_bytes += repeats * other.gathered_bytes
        for kind, nodes in other.unknown.items():
            self.unknown[kind] = self.unknown.get(kind, 0) + nodes
        self.assumptions += other.assumptions

    @property
    def cost(self) -> tuple[int, int]:
        flop = sum(node.flop for node in self.nodes)
        return flop, sum(node.traffic_bytes for node in self.nodes)


def walk_graph(graph: Any, inputs: Mapping[str, Value], opsets: Mapping[str, int]) -> Found:
    """Cost of every node of an `onnx.GraphProto`.

    Args:
        graph: whose nodes stand in an order in which they can run, as ONNX demands.
        inputs: what the graph is fed, by name; all shapes closed.
        opsets: versions of the operator sets by domain.

    Raises:
        LoadError: a node or an output names a value that nothing makes.
    """
    found = _Pass(opsets)
    outputs = _walk(found, graph, dict(inputs), "")
    return Found(
        tuple(found.nodes),
        tuple(outputs),
        found.weights,
        found.gathered_bytes,
        found.unknown,
        tuple(dict.fromkeys(found.assumptions)),
    )


def _walk(found: _Pass, graph: Any, scope: Scope, prefix: str) -> list[Value]:
    """Walk one graph in its scope, and say what it gives out."""
    for tensor in graph.initializer:
        if tensor.name not in scope or isinstance(scope, ChainMap):
            scope[tensor.name] = value_of_initializer(tensor, prefix + tensor.name)
    for sparse in graph.sparse_initializer:
        scope[sparse.values.name] = _sparse(sparse, prefix)
    for node in graph.node:
        inputs = [_named(scope, name, node) if name else None for name in node.input]
        control = _CONTROL.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if control is not None:
            outputs: Sequence[Value | None] = control(found, node, inputs, scope, prefix)
        else:
            outputs = _plain(found, node, inputs, prefix)
        for name, value in zip(node.output, outputs, strict=False):
            if name and value is not None:
                scope[name] = value._replace(name=value.name or prefix + name)
    return [_named(scope, output.name, graph) for output in graph.output]


def _plain(found: _Pass, node: Any, inputs: list[Value | None], prefix: str) -> Sequence[Any]:
    """A node without subgraphs."""
    outputs, is_assumed = infer(node, inputs, found.opsets, prefix)
    written = [value for value in outputs if value is not None]
    if is_assumed:
        found.assumptions.append(f"{_label(node)}: its shape is taken for {_shape_words(written)}")
    if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
        found.assumptions.append(f"{_label(node)}: its subgraph is not counted")
    is_made_at_load = all(v.is_constant or v.known is not None for v in written) and bool(written)
    if node.op_type in VIEWS and inputs and inputs[0] is not None and written:
        first = inputs[0]  # the same bytes in memory, so a weight is not read twice
        keeps = first.is_constant and not written[0].known
        view = written[0]._replace(name=first.name, stored_bytes=first.stored_bytes)
        return (view if keeps else written[0], *outputs[1:])
    if not is_made_at_load and node.op_type not in VIEWS:
        _count(found, node, inputs, outputs)
    return outputs


def _count(
    found: _Pass, node: Any, inputs: list[Value | None], outputs: Sequence[Value | None]
) -> None:
    operation = Operation(node.op_type, _shapes(inputs), _shapes(outputs), _plain_attributes(node))
    work = work_of(operation)
    if not work.is_known:
        found.unknown[node.op_type] = found.unknown.get(node.op_type, 0) + 1
    written_bytes = sum(value.size_bytes for value in outputs if value is not None)
    moved_bytes, weight_bytes = written_bytes, 0
    for index, value in enumerate(inputs):
        if value is None:
            continue
        if node.op_type in GATHERS and index == 0 and value.is_constant:
            taken_bytes = min(value.stored_bytes, written_bytes)
            found.gathered_bytes += taken_bytes
            moved_bytes += taken_bytes
        elif value.is_constant:
            found.weights[value.name] = value.stored_bytes
            weight_bytes += value.stored_bytes
        elif node.op_type in GATHERS and index == 0:
            moved_bytes += min(value.size_bytes, written_bytes)
        else:
            moved_bytes += value.size_bytes
    first = next((value for value in inputs if value is not None), None)
    found.nodes.append(
        NodeCost(
            name=_label(node),
            kind=node.op_type,
            datatype=DATATYPES.get(first.datatype, ("other", 0))[0] if first else "other",
            output_shape=operation.written,
            flop=work.flop,
            mac_count=work.mac_count,
            moved_bytes=moved_bytes,
            weight_bytes=weight_bytes,
        )
    )


# --- control flow ---------------------------------------------------------------------------------


def _if(
    found: _Pass, node: Any, inputs: list[Value | None], scope: Scope, prefix: str
) -> Sequence[Value]:
    """The branch that is taken; the costlier one where that depends on the data."""
    branches = _subgraphs(node)
    known = inputs[0].known if inputs and inputs[0] is not None else None
    if known is not None:
        names = ["then_branch" if _first_element(known) else "else_branch"]
    else:
        names = ["then_branch", "else_branch"]
        found.assumptions.append(f"{_label(node)}: the costlier branch is counted")
    passes = []
    for name in names:
        inner = found.fresh()
        outputs = _walk(
            inner, branches[name], ChainMap({}, scope), f"{prefix}{_label(node)}/{name}/"
        )
        passes.append((inner, outputs))
    taken, outputs = max(passes, key=lambda walked: walked[0].cost)
    found.take(taken)
    return [value._replace(known=None) for value in outputs] if len(names) > 1 else outputs


def _loop(
    found: _Pass, node: Any, inputs: list[Value | None], scope: Scope, prefix: str
) -> Sequence[Value]:
    """The body as often as the trip count says; what it carries keeps its first shape."""
    body = _subgraphs(node)["body"]
    count = inputs[0].known if inputs and inputs[0] is not None else None
    trips = int(_first_element(count)) if count is not None else 0
    if not 0 <= trips <= _TRIPS_MAX or count is None:
        trips = 1
        found.assumptions.append(f"{_label(node)}: the body is counted once")
    carried = inputs[2:]
    fed: list[Value | None] = [None, None, *carried]
    outputs = _body(found, node, body, fed, trips, ChainMap({}, scope), prefix)
    state = outputs[1 : 1 + len(carried)]
    return [*state, *(_stacked(value, trips) for value in outputs[1 + len(carried) :])]


def _scan(
    found: _Pass, node: Any, inputs: list[Value | None], scope: Scope, prefix: str
) -> Sequence[Value]:
    """The body once for each slice of what is scanned, along its first axis unless told."""
    attributes = _plain_attributes(node)
    scanned_count = attributes.get("num_scan_inputs")
    scanned_count = scanned_count if isinstance(scanned_count, int) else len(inputs)
    state_count = max(0, len(inputs) - scanned_count)
    axes = attributes.get("scan_input_axes")
    axes = axes if isinstance(axes, Sequence) and not isinstance(axes, str) else ()
    fed: list[Value | None] = list(inputs[:state_count])
    trips = 1
    for index, value in enumerate(inputs[state_count:]):
        axis = axes[index] if index < len(axes) else 0
        if value is None or not value.shape or not -len(value.shape) <= axis < len(value.shape):
            fed.append(value)
            continue
        trips = value.shape[axis]
        rest = [size for place, size in enumerate(value.shape) if place != axis % len(value.shape)]
        fed.append(_reshaped(value, tuple(rest)))
    body = _subgraphs(node)["body"]
    outputs = _body(found, node, body, fed, trips, ChainMap({}, scope), prefix)
    return [*outputs[:state_count], *(_stacked(v, trips) for v in outputs[state_count:])]


def _body(
    found: _Pass,
    node: Any,
    body: Any,
    fed: Sequence[Value | None],
    trips: int,
    scope: Scope,
    prefix: str,
) -> list[Value]:
    """Walk a body with what it is fed; a value of an earlier round is never known."""
    inside = f"{prefix}{_label(node)}/"
    for index, declared in enumerate(body.input):
        value = fed[index] if index < len(fed) else None
        if value is None:
            value, _ = value_of_type(declared.type, inside + declared.name)
        scope[declared.name] = value._replace(known=None, is_constant=False)
    inner = found.fresh()
    outputs = _walk(inner, body, scope, inside)
    found.take(inner, trips)
    return [value._replace(known=None, is_constant=False) for value in outputs]


_CONTROL: Final = {"If": _if, "Loop": _loop, "Scan": _scan}


# --- small things ---------------------------------------------------------------------------------


def _named(scope: Mapping[str, Value], name: str, where: Any) -> Value:
    value = scope.get(name)
    if value is None:
        raise LoadError(
            f"`{_label(where)}` reads `{name}`, which nothing makes before it",
            hint="check the file with `onnx.checker.check_model`",
        )
    return value


def _label(node: Any) -> str:
    if node.name:
        return str(node.name)
    return str(next((output for output in node.output if output), "a node without a name"))


def _shapes(values: Iterable[Value | None]) -> tuple[Shape | None, ...]:
    return tuple(None if value is None else value.shape for value in values)


def _shape_words(values: Sequence[Value]) -> str:
    return " and ".join("x".join(map(str, value.shape)) or "a scalar" for value in values)


def _plain_attributes(node: Any) -> dict[str, object]:
    """Numbers, lists of numbers and text; subgraphs and tensors are left out."""
    plain: dict[str, object] = {}
    for attribute in node.attribute:
        match attribute.type:
            case attribute.FLOAT:
                plain[attribute.name] = attribute.f
            case attribute.INT:
                plain[attribute.name] = attribute.i
            case attribute.STRING:
                plain[attribute.name] = attribute.s.decode("utf-8", "replace")
            case attribute.INTS:
                plain[attribute.name] = tuple(attribute.ints)
    return plain


def _subgraphs(node: Any) -> Mapping[str, Any]:
    found = {a.name: a.g for a in node.attribute if a.HasField("g")}
    wanted = ("then_branch", "else_branch") if node.op_type == "If" else ("body",)
    missing = [name for name in wanted if name not in found]
    if missing:
        raise LoadError(f"`{_label(node)}` has no `{missing[0]}`", hint="export the model again")
    return found


def _first_element(tensor: Any) -> Any:
    from onnx import numpy_helper

    elements = numpy_helper.to_array(tensor).reshape(-1)
    return elements[0].item() if elements.size else 0


def _stacked(value: Value, trips: int) -> Value:
    return _reshaped(value, (trips, *value.shape))


def _reshaped(value: Value, shape: Shape) -> Value:
    from onnx import helper

    if not value.datatype:
        return value
    kind = helper.make_tensor_type_proto(value.datatype, shape)
    return value._replace(type=kind, shape=shape, known=None)


def _sparse(sparse: Any, prefix: str) -> Value:
    """A weight with few elements other than 0: its values and their places are what is stored."""
    dense = value_of_initializer(sparse.values, prefix + sparse.values.name)
    places = value_of_initializer(sparse.indices, "")
    stored_bytes = dense.stored_bytes + places.stored_bytes
    return _reshaped(dense, tuple(sparse.dims))._replace(stored_bytes=stored_bytes)


def _repeated(node: NodeCost, repeats: int) -> NodeCost:
    from msgspec.structs import replace

    if repeats == 1:
        return node
    return replace(
        node,
        repeats=node.repeats * repeats,
        flop=node.flop * repeats,
        mac_count=node.mac_count * repeats,
        moved_bytes=node.moved_bytes * repeats,
        weight_bytes=node.weight_bytes * repeats,
    )
