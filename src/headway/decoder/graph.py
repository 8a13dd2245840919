"""Writes a checkpoint as an ONNX graph that computes one step, its weights in a file beside it.

    ids (row, token) -> embedding -> layers -> norm -> logits (row, vocabulary) of the last token

Each layer reads and writes its keys and values where they lie: the attention operator of ONNX
Runtime takes the past as an input, gives the present as an output, and where both are the same
memory it adds what is new and copies nothing. Rows are as long as each is: `past_lengths` says, for
each, how many tokens there are with the new ones, less one.

The sole home of the package `onnx`, which serving does without.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from onnx import TensorProto, helper

from headway.decoder.shape import DecoderShape
from headway.decoder.weights import Checkpoint, Floats

__all__ = ["WEIGHTS_FILE", "write_graph"]

WEIGHTS_FILE: Final = "weights.bin"
_MICROSOFT: Final = "com.microsoft"
_ALIGNMENT: Final = 4096
_IR_VERSION: Final = 8
_OPSET: Final = 17


def write_graph(checkpoint: Checkpoint, path: Path) -> None:
    """Write the graph to a path, and its weights to `WEIGHTS_FILE` in the same folder."""
    with (path.parent / WEIGHTS_FILE).open("wb") as file:
        model = _Writer(checkpoint, file).model()
    path.write_bytes(model.SerializeToString())


class _Writer:
    """A graph while it is written; tensors go to the file one by one, so few are in memory."""

    def __init__(self, checkpoint: Checkpoint, file: BinaryIO) -> None:
        self._checkpoint = checkpoint
        self._shape = checkpoint.shape
        self._file = file
        self._nodes: list[Any] = []
        self._weights: list[Any] = []

    def model(self) -> Any:
        """The whole of it."""
        shape = self._shape
        self._weight("embedding", self._read("model.embed_tokens"))
        cos, sin = _angles(shape)
        self._weight("cos", cos)
        self._weight("sin", sin)
        hidden = self._node("Gather", ["embedding", "ids"], "hidden")
        for layer in range(shape.layers):
            hidden = self._layer(layer, hidden)
        self._integers("last", [-1])
        self._integers("token_axis", [1])
        hidden = self._node("Gather", [hidden, "last"], "hidden.last_one", axis=1)
        hidden = self._node("Squeeze", [hidden, "token_axis"], "hidden.last")
        hidden = self._norm(hidden, "model.norm", "final")
        head = "embedding"
        if not self._checkpoint.is_tied:
            head = self._weight("head", self._read("lm_head"))
        self._node("Gemm", [hidden, head], "logits", transB=1)
        graph = helper.make_graph(
            self._nodes, "step", self._inputs(), self._outputs(), initializer=self._weights
        )
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="headway")
        model.ir_version = _IR_VERSION
        return model

    def _layer(self, layer: int, hidden: str) -> str:
        shape, at = self._shape, f"layer{layer}"
        theirs = f"model.layers.{layer}"
        normed = self._norm(hidden, f"{theirs}.input_layernorm", f"{at}.attention")
        parts = [self._read(f"{theirs}.self_attn.{part}_proj") for part in "qkv"]
        packed = self._matmul(normed, np.concatenate(parts).T, f"{at}.qkv")
        attended = self._node(
            "GroupQueryAttention",
            [packed, "", "", f"{at}.keys", f"{at}.values", "past_lengths", "total", "cos", "sin"],
            f"{at}.attended",
            f"{at}.keys.out",
            f"{at}.values.out",
            domain=_MICROSOFT,
            num_heads=shape.heads,
            kv_num_heads=shape.kv_heads,
            do_rotary=1,
            rotary_interleaved=0,
        )
        output = self._matmul(attended, self._read(f"{theirs}.self_attn.o_proj").T, f"{at}.o")
        hidden = self._node("Add", [hidden, output], f"{at}.between")
        normed = self._norm(hidden, f"{theirs}.post_attention_layernorm", f"{at}.mlp")
        gate = self._matmul(normed, self._read(f"{theirs}.mlp.gate_proj").T, f"{at}.gate")
        up = self._matmul(normed, self._read(f"{theirs}.mlp.up_proj").T, f"{at}.up")
        opened = self._node("Sigmoid", [gate], f"{at}.opened")
        gate = self._node("Mul", [gate, opened], f"{at}.gated")
        inner = self._node("Mul", [gate, up], f"{at}.inner")
        down = self._matmul(inner, self._read(f"{theirs}.mlp.down_proj").T, f"{at}.down")
        return self._node("Add", [hidden, down], f"{at}.hidden")

    def _norm(self, hidden: str, name: str, at: str) -> str:
        scale = self._weight(f"{at}.scale", self._read(name))
        return self._node(
            "SimplifiedLayerNormalization",
            [hidden, scale],
            f"{at}.normed",
            axis=-1,
            epsilon=self._shape.norm_epsilon,
            stash_type=1,
        )

    def _matmul(self, hidden: str, matrix: Floats, at: str) -> str:
        return self._node("MatMul", [hidden, self._weight(f"{at}.matrix", matrix)], at)

    def _node(self, kind: str, inputs: list[str], *outputs: str, **attributes: Any) -> str:
        node = helper.make_node(kind, inputs, list(outputs), name=outputs[0], **attributes)
        self._nodes.append(node)
        return outputs[0]

    def _read(self, name: str) -> Floats:
        return self._checkpoint.tensor(f"{name}.weight")

    def _weight(self, name: str, values: Floats) -> str:
        """Append numbers to the file, and tell the graph where they are."""
        raw = np.ascontiguousarray(values, np.float32)
        offset = -(-self._file.tell() // _ALIGNMENT) * _ALIGNMENT
        self._file.seek(offset)
        self._file.write(raw.data)
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=raw.shape)
        tensor.data_location = TensorProto.EXTERNAL
        places = {"location": WEIGHTS_FILE, "offset": offset, "length": raw.nbytes}
        for key, value in places.items():
            tensor.external_data.add(key=key, value=str(value))
        self._weights.append(tensor)
        return name

    def _integers(self, name: str, values: list[int]) -> None:
        tensor = helper.make_tensor(name, TensorProto.INT64, [len(values)], values)
        self._weights.append(tensor)

    def _inputs(self) -> list[Any]:
        return [
            helper.make_tensor_value_info("ids", TensorProto.INT64, ["row", "token"]),
            helper.make_tensor_value_info("past_lengths", TensorProto.INT32, ["row"]),
            helper.make_tensor_value_info("total", TensorProto.INT32, []),
            *self._memory(""),
        ]

    def _outputs(self) -> list[Any]:
        sizes = ["row", self._shape.vocabulary]
        logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, sizes)
        return [logits, *self._memory(".out")]

    def _memory(self, suffix: str) -> Iterator[Any]:
        """Keys and values of each layer: (row, head, room, number)."""
        sizes = ["row", self._shape.kv_heads, f"room{suffix}", self._shape.head_size]
        for layer in range(self._shape.layers):
            for part in ("keys", "values"):
                name = f"layer{layer}.{part}{suffix}"
                yield helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)


def _angles(shape: DecoderShape) -> tuple[Floats, Floats]:
    """Cosines and sines by which a position turns the numbers of a head: (context, half)."""
    half = np.arange(0, shape.head_size, 2, dtype=np.float64) / shape.head_size
    angles = np.outer(np.arange(shape.context), shape.rope_base**-half)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
