"""Graphs that the demo makes itself, because the published ones do not batch or say too much.

Knows the three graphs to build and how to splice nodes into an existing one. Never downloads.

* silero-vad keeps its state as [2, batch, 128]. A server that joins requests along the first axis
  would mix callers, so the state is turned inside, to [batch, 2, 128], and called `memory`. The
  sampling rate, a scalar that no batch could share, becomes a constant.
* ocr-recognise answers with 6,625 probabilities a column, a megabyte a line; only the best one is
  ever used. It is chosen inside, and the answer is a few hundred bytes.
* minilm is published as weights only.
"""

import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from headway.demo import onnx_wire as wire
from headway.demo.minilm import build_minilm

__all__ = ["BUILDERS", "build_ocr_recognise", "build_silero_vad", "read_metadata", "splice"]

SAMPLE_RATE_HZ = 16_000

_GRAPH, _METADATA = 7, 14
_NODE, _INPUT, _OUTPUT = 1, 11, 12


def build_silero_vad(published: bytes) -> bytes:
    """Moves the batch axis of the state to the front and fixes the sampling rate."""
    turn = {"perm": (1, 0, 2)}
    rate = wire.raw_tensor("", wire.INT64, [], struct.pack("<q", SAMPLE_RATE_HZ))
    memory_shape = ("batch", 2, 128)
    return splice(
        published,
        drop={"state", "sr", "stateN"},
        before=[
            wire.text(2, "sr") + wire.text(4, "Constant") + wire.blob(5, _tensor_value(rate)),
            wire.node("Transpose", ["memory"], ["state"], turn),
        ],
        after=[wire.node("Transpose", ["stateN"], ["memory_next"], turn)],
        inputs=[wire.value_info("memory", wire.FLOAT, memory_shape)],
        outputs=[wire.value_info("memory_next", wire.FLOAT, memory_shape)],
    )


def build_ocr_recognise(published: bytes) -> bytes:
    """Replaces the table of probabilities by the best character of each column and its own."""
    table = "softmax_11.tmp_0"
    last = {"keepdims": 0}
    return splice(
        published,
        drop={table},
        after=[
            wire.node("ArgMax", [table], ["character"], {"axis": 2, **last}),
            wire.node("ReduceMax", [table], ["confidence"], {"axes": (2,), **last}),
        ],
        outputs=[
            wire.value_info("character", wire.INT64, ("batch", "column")),
            wire.value_info("confidence", wire.FLOAT, ("batch", "column")),
        ],
    )


BUILDERS: Mapping[str, Callable[[Path], bytes]] = MappingProxyType(
    {
        "silero-vad": lambda folder: build_silero_vad(
            (folder / "silero_vad_16k_op15.onnx").read_bytes()
        ),
        "ocr-recognise": lambda folder: build_ocr_recognise(
            (folder / "ch_PP-OCRv4_rec_infer.onnx").read_bytes()
        ),
        "minilm": lambda folder: build_minilm(folder / "model.safetensors"),
    }
)
"""From a model's name to what makes its graph out of the folder with the package's members."""


def splice(
    published: bytes,
    *,
    drop: Collection[str] = (),
    before: Iterable[bytes] = (),
    after: Iterable[bytes] = (),
    inputs: Iterable[bytes] = (),
    outputs: Iterable[bytes] = (),
) -> bytes:
    """Adds nodes around a published graph; its weights and nodes are copied untouched.

    Args:
        published: A ModelProto.
        drop: Names of graph inputs and outputs that cease to be such.
        before: NodeProtos that run first.
        after: NodeProtos that run last.
        inputs: ValueInfoProtos of new graph inputs.
        outputs: ValueInfoProtos of new graph outputs.
    """
    graph = [
        *(wire.blob(_NODE, node) for node in before),
        *(
            field.raw
            for field in wire.fields(wire.first(published, _GRAPH))
            if not (field.number in (_INPUT, _OUTPUT) and _name(field) in drop)
        ),
        *(wire.blob(_NODE, node) for node in after),
        *(wire.blob(_INPUT, value) for value in inputs),
        *(wire.blob(_OUTPUT, value) for value in outputs),
    ]
    kept = [field.raw for field in wire.fields(published) if field.number != _GRAPH]
    return b"".join([*kept, wire.blob(_GRAPH, b"".join(graph))])


def read_metadata(published: bytes) -> dict[str, str]:
    """The free-form properties that a model's author stored in it."""
    return {
        wire.first(field.value, 1).decode(): wire.first(field.value, 2).decode()
        for field in wire.fields(published)
        if field.number == _METADATA and isinstance(field.value, bytes)
    }


def _name(field: wire.Field) -> str:
    assert isinstance(field.value, bytes), "graph inputs and outputs are messages"
    return wire.first(field.value, 1).decode()


def _tensor_value(tensor: bytes) -> bytes:
    """The attribute `value` of a Constant node."""
    return wire.text(1, "value") + wire.blob(5, tensor) + wire.integer(20, 4)
