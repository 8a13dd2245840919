"""Writing and altering ONNX graphs, with graphs of a few bytes."""

import json
import struct
from pathlib import Path

import pytest

from headway.demo import graphs
from headway.demo import onnx_wire as wire
from headway.demo.minilm import build_minilm, read_safetensors_index

ORT = pytest.importorskip("onnxruntime", reason="onnxruntime runs the graphs that are built here")


def names(model: bytes, number: int) -> list[str]:
    """The names of a graph's inputs (11) or outputs (12)."""
    graph = wire.first(model, 7)
    return [wire.first(f.value, 1).decode() for f in wire.fields(graph) if f.number == number]


def doubling() -> bytes:
    """A model that adds x to itself."""
    graph = [
        wire.blob(1, wire.node("Add", ["x", "x"], ["y"])),
        wire.text(2, "doubling"),
        wire.blob(11, wire.value_info("x", wire.FLOAT, ["batch", 2])),
        wire.blob(12, wire.value_info("y", wire.FLOAT, ["batch", 2])),
    ]
    return wire.model(b"".join(graph), opset=15)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**40])
def test_integers_survive_the_wire(value: int) -> None:
    """An integer that is written is read back."""
    (field,) = wire.fields(wire.integer(3, value))
    assert (field.number, field.value) == (3, value)


def test_negative_integers_are_two_complements() -> None:
    """A negative integer takes ten bytes, as the format asks."""
    (field,) = wire.fields(wire.integer(3, -1))
    assert field.value == 2**64 - 1


def test_fields_keep_their_bytes() -> None:
    """A message that is cut into fields and joined again is the same message."""
    message = wire.text(1, "a") + wire.integer(2, 5) + b"\x1d\x00\x00\x80\x3f" + wire.blob(4, b"")
    assert b"".join(field.raw for field in wire.fields(message)) == message


def test_first_of_an_absent_field_is_empty() -> None:
    """A field that is not there reads as no bytes."""
    assert wire.first(wire.text(1, "a"), 2) == b""


def test_written_model_runs() -> None:
    """ONNX Runtime accepts a model that was written here and computes with it."""
    session = ORT.InferenceSession(doubling(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": [[1.0, 2.5]]})[0].tolist() == [[2.0, 5.0]]


def test_splice_adds_nodes_on_both_sides() -> None:
    """New nodes run before and after the published ones, behind new inputs and outputs."""
    spliced = graphs.splice(
        doubling(),
        drop={"x", "y"},
        before=[wire.node("Neg", ["u"], ["x"])],
        after=[wire.node("ReduceMax", ["y"], ["v"], {"axes": (1,), "keepdims": 0})],
        inputs=[wire.value_info("u", wire.FLOAT, ["batch", 2])],
        outputs=[wire.value_info("v", wire.FLOAT, ["batch"])],
    )
    session = ORT.InferenceSession(spliced, providers=["CPUExecutionProvider"])
    assert session.run(None, {"u": [[1.0, 2.0], [-3.0, 0.0]]})[0].tolist() == [-2.0, 6.0]


def test_silero_state_becomes_a_batched_memory() -> None:
    """The state that batches on axis 1 and the shared rate are gone from the outside."""
    published = wire.model(
        b"".join(
            [
                *(
                    wire.blob(11, wire.value_info(n, wire.FLOAT, ["n"]))
                    for n in ("input", "state", "sr")
                ),
                *(
                    wire.blob(12, wire.value_info(n, wire.FLOAT, ["n"]))
                    for n in ("output", "stateN")
                ),
            ]
        ),
        opset=15,
    )
    built = graphs.build_silero_vad(published)
    assert names(built, 11) == ["input", "memory"]
    assert names(built, 12) == ["output", "memory_next"]


def test_metadata_is_read() -> None:
    """Free-form properties come back by name."""
    model = doubling() + wire.blob(14, wire.text(1, "character") + wire.text(2, "a\nb"))
    assert graphs.read_metadata(model) == {"character": "a\nb"}


def test_safetensors_index_points_behind_the_header(tmp_path: Path) -> None:
    """Offsets count from the start of the file, and only float32 tensors are listed."""
    header = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
            "ids": {"dtype": "I64", "shape": [1], "data_offsets": [8, 16]},
        }
    ).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    assert read_safetensors_index(path) == {"a": ((2,), 8 + len(header), 8)}


def test_minilm_graph_stores_no_weights(tmp_path: Path) -> None:
    """The graph names stretches of the weights' file instead of holding them."""
    path = tmp_path / "model.safetensors"
    write_fake_weights(path)
    built = build_minilm(path)
    assert len(built) < 40_000
    assert built.count(b"model.safetensors") == len(read_safetensors_index(path))
    assert names(built, 11) == ["input_ids", "attention_mask"]


def write_fake_weights(path: Path) -> None:
    """An index with all the names that MiniLM has, and no data."""
    dense = ["attention.self.query", "attention.self.key", "attention.self.value"]
    dense += ["attention.output.dense", "attention.output.LayerNorm"]
    dense += ["intermediate.dense", "output.dense", "output.LayerNorm"]
    stored = [f"encoder.layer.{layer}.{part}" for layer in range(6) for part in dense]
    stored += ["embeddings.LayerNorm"]
    tensors = [f"{name}.{kind}" for name in stored for kind in ("weight", "bias")]
    tensors += [f"embeddings.{kind}_embeddings.weight" for kind in ("word", "position")]
    tensors += ["embeddings.token_type_embeddings.weight"]
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header = json.dumps(dict.fromkeys(tensors, entry)).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)
