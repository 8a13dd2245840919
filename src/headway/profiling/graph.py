"""What an ONNX graph computes and moves, counted at one batch size without running it.

Knows ONNX files and the shapes that a user gives. Refuses to know devices: what the numbers mean on
one of them is `roofline.py`'s question.

Bytes are bounds, because a file does not say what a runtime will fuse:

* *fused*, the least: inputs, outputs and weights, each once; every intermediate stays in cache;
* *unfused*, the most: every node reads its inputs and weights from memory and writes its outputs.
"""

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from headway.core import DeviceName, ModelName
from headway.errors import ConfigError, HeadwayError, LoadError
from headway.predict import ModelProfile
from headway.profiling.inference import Value, value_of_type
from headway.profiling.walk import NodeCost, walk_graph

__all__ = ["GraphCost", "count_graph", "profile_from_graph", "profile_of"]

_SHAPE_ELEMENTS_MAX: Final = 4096
"""Integers in a file of their own are read when they are no more: they may be shapes."""
_NAMELESS: Final = ModelName("")
_NOWHERE: Final = DeviceName("")
_INTEGERS: Final = frozenset((6, 7))
_DAMAGE: Final = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What a file with nonsense in it makes the `onnx` package raise, wherever the nonsense is met."""


class GraphCost(Struct, frozen=True, kw_only=True):
    """One run of a graph.

    Invariants: nothing is negative; `bytes_fused` <= `bytes_unfused` unless weights or inputs are
    declared that no node reads in full.
    """

    rows: int
    input_shapes: dict[str, tuple[int, ...]]
    nodes: tuple[NodeCost, ...]
    """In the graph's order; views and what is done at load left out."""
    input_bytes: int
    output_bytes: int
    weight_bytes: int
    """Constants that a run reads in full, once each; the same for every batch size."""
    gathered_bytes: int
    """Taken from tables by index, such as embeddings."""
    unknown_kinds: dict[str, int]
    """Operators without a formula, counted as an operation an output element; nodes of each."""
    assumptions: tuple[str, ...]
    """What could not be known before a run, and what was taken instead."""

    @property
    def flop(self) -> int:
        """Operations of all nodes, a multiply-accumulate being two."""
        return sum(node.flop for node in self.nodes)

    @property
    def mac_count(self) -> int:
        """Multiply-accumulates of all nodes."""
        return sum(node.mac_count for node in self.nodes)

    @property
    def bytes_fused(self) -> int:
        """Memory traffic of one run if every intermediate stayed in cache."""
        return self.input_bytes + self.output_bytes + self.gathered_bytes + self.weight_bytes

    @property
    def bytes_unfused(self) -> int:
        """Memory traffic of one run if every node read and wrote memory."""
        return max(self.bytes_fused, sum(node.traffic_bytes for node in self.nodes))

    @property
    def flop_by_datatype(self) -> dict[str, int]:
        """Operations by the type of what is multiplied, the most first."""
        found: dict[str, int] = {}
        for node in self.nodes:
            found[node.datatype] = found.get(node.datatype, 0) + node.flop
        return dict(sorted(found.items(), key=lambda item: -item[1]))


def count_graph(
    path: Path, *, rows: int = 1, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> GraphCost:
    """Count a graph's work in one run. Weights in files of their own need not be there.

    Args:
        path: an ONNX file.
        rows: size of the first axis of every input that leaves it open.
        shapes: of one row, by input, where the graph leaves more than the first axis open; an open
            axis of the same name in another input follows.

    Raises:
        ConfigError: a shape is missing or does not fit the graph, or rows are below 1.
        HeadwayError: the package `onnx` is not installed.
        LoadError: the file cannot be read, or is no ONNX graph.
    """
    model = _read(path)
    try:
        return _count(model, rows, dict(shapes or {}))
    except _DAMAGE as error:
        raise LoadError(
            f"`{path}` cannot be followed: {error}",
            hint="check it with `onnx.checker.check_model`; if it passes, this is a bug",
        ) from error


def profile_from_graph(
    path: Path,
    *,
    model: ModelName,
    device: DeviceName,
    rows: int = 1,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> ModelProfile:
    """What a graph says of a model before it has run: no times, but work and bytes of a row.

    A batch of n rows moves `weight_bytes` + n * `bytes_per_row`; the graph is counted at `rows`,
    and what it does a row is taken to be the same at every size.

    Raises:
        ConfigError, HeadwayError, LoadError: as `count_graph`.
    """
    return profile_of(count_graph(path, rows=rows, shapes=shapes), model=model, device=device)


def profile_of(
    cost: GraphCost, *, model: ModelName = _NAMELESS, device: DeviceName = _NOWHERE
) -> ModelProfile:
    """A counted graph as a profile, a row's part of each amount."""
    rows = cost.rows
    return ModelProfile(
        model=model,
        device=device,
        transfer_in_bytes=-(-cost.input_bytes // rows),
        transfer_out_bytes=-(-cost.output_bytes // rows),
        flop_per_row=cost.flop / rows,
        bytes_per_row_fused=(cost.bytes_fused - cost.weight_bytes) / rows,
        bytes_per_row_unfused=(cost.bytes_unfused - cost.weight_bytes) / rows,
        weight_bytes=cost.weight_bytes,
    )


def _count(model: Any, rows: int, shapes: dict[str, tuple[int, ...]]) -> GraphCost:
    from onnx import inliner

    if model.functions:
        model = inliner.inline_local_functions(model)
    initialised = {tensor.name for tensor in model.graph.initializer}
    declared = [value for value in model.graph.input if value.name not in initialised]
    resolved = _resolve(declared, rows, shapes)
    inputs = {value.name: _input(value, resolved.get(value.name)) for value in declared}
    opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
    found = walk_graph(model.graph, inputs, opsets)
    return GraphCost(
        rows=rows,
        input_shapes=resolved,
        nodes=found.nodes,
        input_bytes=sum(value.size_bytes for value in inputs.values()),
        output_bytes=sum(value.size_bytes for value in found.outputs),
        weight_bytes=sum(found.weights.values()),
        gathered_bytes=found.gathered_bytes,
        unknown_kinds=dict(found.unknown_kinds),
        assumptions=found.assumptions,
    )


# --- the file -------------------------------------------------------------------------------------


def _read(path: Path) -> Any:
    """The model without the weights that are in files of their own."""
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ModuleNotFoundError as error:
        raise HeadwayError(
            f"`{error.name}` is not installed, which reads graphs",
            hint="pip install headway[profile]",
        ) from error
    try:
        model = onnx.load(path, format="protobuf", load_external_data=False)
    except OSError as error:
        raise LoadError(
            f"cannot read `{path}`: {error.strerror}", hint="give the path of an .onnx file"
        ) from error
    except DecodeError as error:
        raise LoadError(
            f"`{path}` is no ONNX file", hint="give the path of an .onnx file"
        ) from error
    if not model.graph.output:
        raise LoadError(f"`{path}` holds no graph", hint="give the path of an .onnx file")
    _read_small_integers(model, path)
    return model


def _read_small_integers(model: Any, path: Path) -> None:
    import onnx
    from onnx import external_data_helper

    for tensor in model.graph.initializer:
        is_shape = tensor.data_type in _INTEGERS and prod(tensor.dims) <= _SHAPE_ELEMENTS_MAX
        if not is_shape or not external_data_helper.uses_external_data(tensor):
            continue
        try:
            external_data_helper.load_external_data_for_tensor(tensor, str(path.parent))
        except (OSError, RuntimeError, ValueError, onnx.checker.ValidationError) as error:
            raise LoadError(
                f"`{path}` keeps `{tensor.name}` in another file, which cannot be read: {error}",
                hint="put the file with the weights beside the .onnx file",
            ) from error
        tensor.data_location = tensor.DEFAULT


# --- shapes of inputs -----------------------------------------------------------------------------


def _resolve(
    declared: list[Any], rows: int, shapes: dict[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Close every axis of every input: by rows, by what was given, by an axis of the same name."""
    if rows < 1:
        raise ConfigError(f"`{rows}` rows are no batch", path="rows", value=rows, hint="at least 1")
    axes = {value.name: list(_axes(value)) for value in declared if _is_tensor(value)}
    stray = [name for name in shapes if name not in axes]
    if stray:
        raise ConfigError(
            f"the graph has no input `{stray[0]}`",
            path="shape",
            value=stray[0],
            hint=f"its inputs are {', '.join(f'`{name}`' for name in axes) or 'none'}",
        )
    resolved = {name: _filled(name, axes[name], rows, shapes.get(name)) for name in axes}
    sizes: dict[str, int] = {}
    for name, shape in resolved.items():
        for axis, size in zip(axes[name], shape, strict=True):
            if isinstance(axis, str) and isinstance(size, int):
                sizes.setdefault(axis, size)
    return {name: tuple(_closed(name, shape, sizes)) for name, shape in resolved.items()}


def _axes(value: Any) -> Iterator[int | str | None]:
    """Sizes, or names where they are open, or nothing where they are open and nameless."""
    for axis in value.type.tensor_type.shape.dim:
        if axis.HasField("dim_value") and axis.dim_value > 0:
            yield int(axis.dim_value)
        else:
            yield str(axis.dim_param) if axis.dim_param.strip("?") else None


def _filled(
    name: str, axes: list[int | str | None], rows: int, row: tuple[int, ...] | None
) -> list[int | str | None]:
    """One input's axes with rows and what was given put in."""
    is_whole = row is not None and len(row) == len(axes)
    if axes and not isinstance(axes[0], int):
        # All sizes of one row, first axis and all: a graph whose first axis is no batch.
        axes = [None if is_whole and rows == 1 else rows, *axes[1:]]
    elif axes and axes[0] != rows and rows != 1:
        raise ConfigError(
            f"input `{name}` has a first axis of {axes[0]}: it takes no batch of {rows} rows",
            path="rows",
            value=rows,
            hint="count it at 1 row, or export the model with an open first axis",
        )
    if row is None:
        return axes
    whole = row if is_whole else (axes[0], *row) if axes else row
    fits = len(whole) == len(axes) and all(
        size == axis if isinstance(axis, int) else isinstance(size, int) and size > 0
        for size, axis in zip(whole, axes, strict=True)
    )
    if not fits:
        raise ConfigError(
            f"shape {_words(row)} does not fit input `{name}`, which is {_words(axes)}",
            path="shape",
            value=_words(row),
            hint="give the sizes of one row, without the first axis",
        )
    return list(whole)


def _closed(name: str, shape: list[int | str | None], sizes: dict[str, int]) -> Iterator[int]:
    for size in shape:
        found = sizes.get(size) if isinstance(size, str) else size
        if found is None:
            sample = ",".join(str(s) if isinstance(s, int) else "N" for s in shape[1:])
            raise ConfigError(
                f"input `{name}` leaves axes open: {_words(shape)}",
                path="shape",
                value=name,
                hint=f"give the shape of one row, such as --shape {name}={sample}",
            )
        yield found


def _words(axes: Any) -> str:
    return "x".join("?" if axis is None else str(axis) for axis in axes)


def _is_tensor(value: Any) -> bool:
    return bool(value.type.HasField("tensor_type"))


def _input(declared: Any, shape: tuple[int, ...] | None) -> Value:
    from onnx import helper

    if shape is None:
        return value_of_type(declared.type, declared.name)[0]
    datatype = declared.type.tensor_type.elem_type
    kind = helper.make_tensor_type_proto(datatype, shape)
    return Value(declared.name, kind, shape, datatype)
