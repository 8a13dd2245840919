"""MiniLM sentence embeddings as an ONNX graph, made from weights that come without one.

Knows the layout of a safetensors file and the six transformer layers of all-MiniLM-L6-v2.
Never text: that is `headway.demo.wordpiece`.

The graph holds no weights. Each tensor is an ONNX external-data entry that names a stretch of the
safetensors file, so 90 MB lie on disk once and processes that map them share the pages.
Linear layers are stored as [out, in]; a Transpose node turns each, and ONNX Runtime folds it away
once, at load.
"""

import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from headway.demo import onnx_wire as wire

__all__ = ["EMBEDDING_SIZE", "StoredTensor", "build_minilm", "read_safetensors_index"]

EMBEDDING_SIZE = 384
_LAYERS = 6
_HEADS = 12
_HEAD_SIZE = EMBEDDING_SIZE // _HEADS
_OPSET = 17
_LAYER_NORM_EPSILON = 1e-12
_MASKED = -1e9


class StoredTensor(NamedTuple):
    """Where a tensor lies in a safetensors file."""

    shape: tuple[int, ...]
    offset: int
    length: int


def build_minilm(weights: Path) -> bytes:
    """The graph that turns tokens and their mask into embeddings.

    Its inputs `input_ids` and `attention_mask` are (batch, token) int64, its output `embedding`
    is (batch, 384) float32. It must lie in the folder of `weights`, which it refers to by name.
    """
    builder = _GraphBuilder(weights.name, read_safetensors_index(weights))
    _embed(builder)
    builder.emit("Cast", ["attention_mask"], {"to": wire.FLOAT}, output="mask")
    _attention_bias(builder)
    hidden = "embedded"
    for layer in range(_LAYERS):
        hidden = _layer(builder, f"encoder.layer.{layer}", hidden)
    _pool(builder, hidden)
    return builder.finish()


def read_safetensors_index(path: Path) -> dict[str, StoredTensor]:
    """The float32 tensors of a safetensors file, by name."""
    with path.open("rb") as file:
        (header_bytes,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(header_bytes))
    start = 8 + header_bytes
    return {
        name: StoredTensor(
            shape=tuple(entry["shape"]),
            offset=start + entry["data_offsets"][0],
            length=entry["data_offsets"][1] - entry["data_offsets"][0],
        )
        for name, entry in header.items()
        if entry.get("dtype") == "F32"
    }


class _GraphBuilder:
    """Collects nodes and tensors in the order in which they are asked for.

    Invariants: a node is added after all that it reads, as ONNX demands.
    """

    def __init__(self, weights_file: str, index: Mapping[str, StoredTensor]) -> None:
        self._weights_file = weights_file
        self._index = index
        self._nodes: list[bytes] = []
        self._tensors: dict[str, bytes] = {}

    def emit(
        self,
        op_type: str,
        inputs: Iterable[str],
        attributes: Mapping[str, wire.Attribute] | None = None,
        *,
        output: str | None = None,
    ) -> str:
        """Adds a node and returns the name of its output."""
        name = output or f"v{len(self._nodes)}"
        self._nodes.append(wire.node(op_type, inputs, [name], attributes))
        return name

    def weight(self, name: str) -> str:
        """Refers to a stored tensor."""
        stored = self._index[name]
        self._tensors[name] = wire.external_tensor(
            name,
            wire.FLOAT,
            stored.shape,
            file=self._weights_file,
            offset=stored.offset,
            length=stored.length,
        )
        return name

    def numbers(self, *values: float) -> str:
        """A one-dimensional float32 constant; a single value broadcasts over everything."""
        return self._constant("f", wire.FLOAT, values)

    def integers(self, *values: int) -> str:
        """A one-dimensional int64 constant."""
        return self._constant("q", wire.INT64, values)

    def _constant(self, code: str, data_type: int, values: tuple[float, ...]) -> str:
        name = f"{code}{values}"
        data = struct.pack(f"<{len(values)}{code}", *values)
        self._tensors[name] = wire.raw_tensor(name, data_type, [len(values)], data)
        return name

    def finish(self) -> bytes:
        """The whole model."""
        tokens = ["batch", "token"]
        graph = [
            *(wire.blob(1, node) for node in self._nodes),
            wire.text(2, "minilm"),
            *(wire.blob(5, tensor) for tensor in self._tensors.values()),
            wire.blob(11, wire.value_info("input_ids", wire.INT64, tokens)),
            wire.blob(11, wire.value_info("attention_mask", wire.INT64, tokens)),
            wire.blob(12, wire.value_info("embedding", wire.FLOAT, ["batch", EMBEDDING_SIZE])),
        ]
        return wire.model(b"".join(graph), opset=_OPSET)


def _embed(graph: _GraphBuilder) -> None:
    """Word, position and segment vectors, added and normalised: (batch, token, 384)."""
    words = graph.emit("Gather", [graph.weight("embeddings.word_embeddings.weight"), "input_ids"])
    shape = graph.emit("Shape", ["input_ids"], {"start": 1})
    positions = graph.emit(
        "Slice",
        [graph.weight("embeddings.position_embeddings.weight"), graph.integers(0), shape],
    )
    segment = graph.emit(
        "Gather", [graph.weight("embeddings.token_type_embeddings.weight"), graph.integers(0)]
    )
    placed = graph.emit("Add", [words, positions])
    summed = graph.emit("Add", [placed, segment])
    _layer_norm(graph, summed, "embeddings.LayerNorm", output="embedded")


def _attention_bias(graph: _GraphBuilder) -> None:
    """Zero where a token may be looked at, very negative at padding: (batch, 1, 1, token)."""
    wide = graph.emit("Unsqueeze", ["mask", graph.integers(1, 2)])
    absent = graph.emit("Sub", [graph.numbers(1.0), wide])
    graph.emit("Mul", [absent, graph.numbers(_MASKED)], output="attention_bias")


def _layer(graph: _GraphBuilder, prefix: str, hidden: str) -> str:
    """One transformer layer: attention and a feed-forward block, each with a residual."""
    attended = _attention(graph, f"{prefix}.attention.self", hidden)
    projected = _linear(graph, f"{prefix}.attention.output.dense", attended)
    residual = graph.emit("Add", [projected, hidden])
    middle = _layer_norm(graph, residual, f"{prefix}.attention.output.LayerNorm")
    wide = _gelu(graph, _linear(graph, f"{prefix}.intermediate.dense", middle))
    narrow = _linear(graph, f"{prefix}.output.dense", wide)
    residual = graph.emit("Add", [narrow, middle])
    return _layer_norm(graph, residual, f"{prefix}.output.LayerNorm")


def _attention(graph: _GraphBuilder, prefix: str, hidden: str) -> str:
    query = _heads(graph, f"{prefix}.query", hidden, order=(0, 2, 1, 3))
    key = _heads(graph, f"{prefix}.key", hidden, order=(0, 2, 3, 1))
    value = _heads(graph, f"{prefix}.value", hidden, order=(0, 2, 1, 3))
    scores = graph.emit("MatMul", [query, key])
    scaled = graph.emit("Mul", [scores, graph.numbers(_HEAD_SIZE**-0.5)])
    biased = graph.emit("Add", [scaled, "attention_bias"])
    weights = graph.emit("Softmax", [biased], {"axis": -1})
    mixed = graph.emit("MatMul", [weights, value])
    together = graph.emit("Transpose", [mixed], {"perm": (0, 2, 1, 3)})
    return graph.emit("Reshape", [together, graph.integers(0, 0, EMBEDDING_SIZE)])


def _heads(graph: _GraphBuilder, prefix: str, hidden: str, *, order: tuple[int, ...]) -> str:
    """A projection split into heads, its axes (batch, token, head, feature) put in `order`."""
    split = graph.emit(
        "Reshape", [_linear(graph, prefix, hidden), graph.integers(0, 0, _HEADS, _HEAD_SIZE)]
    )
    return graph.emit("Transpose", [split], {"perm": order})


def _linear(graph: _GraphBuilder, prefix: str, hidden: str) -> str:
    turned = graph.emit("Transpose", [graph.weight(f"{prefix}.weight")], {"perm": (1, 0)})
    product = graph.emit("MatMul", [hidden, turned])
    return graph.emit("Add", [product, graph.weight(f"{prefix}.bias")])


def _gelu(graph: _GraphBuilder, wide: str) -> str:
    """Half of x * (1 + erf(x / sqrt 2)), in the shape that ONNX Runtime knows how to fuse."""
    inner = graph.emit("Erf", [graph.emit("Div", [wide, graph.numbers(2.0**0.5)])])
    gate = graph.emit("Add", [inner, graph.numbers(1.0)])
    product = graph.emit("Mul", [wide, gate])
    return graph.emit("Mul", [product, graph.numbers(0.5)])


def _layer_norm(graph: _GraphBuilder, x: str, prefix: str, *, output: str | None = None) -> str:
    scale, bias = graph.weight(f"{prefix}.weight"), graph.weight(f"{prefix}.bias")
    return graph.emit(
        "LayerNormalization",
        [x, scale, bias],
        {"axis": -1, "epsilon": _LAYER_NORM_EPSILON},
        output=output,
    )


def _pool(graph: _GraphBuilder, hidden: str) -> None:
    """The mean over the tokens that are not padding, scaled to length one."""
    column = graph.emit("Unsqueeze", ["mask", graph.integers(2)])
    kept = graph.emit("Mul", [hidden, column])
    total = graph.emit("ReduceSum", [kept, graph.integers(1)], {"keepdims": 0})
    count = graph.emit("ReduceSum", ["mask", graph.integers(1)], {"keepdims": 1})
    mean = graph.emit("Div", [total, graph.emit("Max", [count, graph.numbers(1e-9)])])
    length = graph.emit("ReduceL2", [mean], {"axes": (1,), "keepdims": 1})
    floor = graph.emit("Max", [length, graph.numbers(1e-12)])
    graph.emit("Div", [mean, floor], output="embedding")
