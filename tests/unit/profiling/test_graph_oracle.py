"""Counts of real models, and what a second program makes of them."""

from math import prod
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, load
from tests.unit.profiling.graphs import (
    tensor,
    weight,
    write_graph,
)

from headway.demo.catalogue import find_model
from headway.demo.fetch import graph_path
from headway.profiling.graph import count_graph

node = helper.make_node


def macs_by_onnx_tool(path: Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, float]:
    """Multiply-accumulates by operator, as onnx-tool counts them."""
    onnx_tool = pytest.importorskip("onnx_tool", reason="onnx-tool is the second opinion")
    kinds = {i.name: i.type.tensor_type.elem_type for i in load(path).graph.input}
    graph = onnx_tool.Model(str(path), {"verbose": False}).graph
    graph.shape_infer(
        {
            name: np.ones(shape, helper.tensor_dtype_to_np_dtype(kinds[name]))
            for name, shape in shapes.items()
        }
    )
    graph.profile()
    found: dict[str, float] = {}
    for each in graph.nodemap.values():
        found[each.op_type] = found.get(each.op_type, 0.0) + float(each.macs[0])
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rows", [1, 3])
def test_a_network_agrees_with_a_second_program(tmp_path: Path, rows: int) -> None:
    """The same, once its known habit is allowed for: a bias is a multiply-accumulate to it."""
    path = write_graph(
        tmp_path / "net.onnx",
        [
            node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], name="c1"),
            node("Relu", ["c1"], ["r1"], name="r1"),
            node("Conv", ["r1", "w2"], ["c2"], group=8, pads=[1, 1, 1, 1], name="c2"),
            node("GlobalAveragePool", ["c2"], ["p"], name="p"),
            node("Flatten", ["p"], ["f"], name="f"),
            node("Gemm", ["f", "w3", "b3"], ["g"], transB=1, name="g"),
            node("MatMul", ["g", "w4"], ["y"], name="m"),
        ],
        [tensor("x", "n", 3, 16, 16)],
        weights=[
            weight("w1", 8, 3, 3, 3), weight("b1", 8), weight("w2", 8, 1, 3, 3),
            weight("w3", 10, 8), weight("b3", 10), weight("w4", 10, 6),
        ],
    )  # fmt: skip
    cost = count_graph(path, rows=rows)
    theirs = macs_by_onnx_tool(path, cost.input_shapes)
    ours: dict[str, int] = {}
    for each in cost.nodes:
        ours[each.kind] = ours.get(each.kind, 0) + each.mac_count
    biases = {"Conv": rows * 8 * 256, "Gemm": rows * 10, "MatMul": 0}
    assert {kind: ours[kind] + bias for kind, bias in biases.items()} == {
        kind: theirs[kind] for kind in biases
    }


# --- the demo's models ----------------------------------------------------------------------------

CACHE = Path("~/.cache/headway").expanduser()
ROWS = {
    "magika": {},
    "silero-vad": {"input": (576,)},
    "ocr-detect": {"x": (3, 320, 320)},
    "ocr-recognise": {"x": (3, 48, 320)},
    "opennsfw": {},
    "minilm": {"input_ids": (32,)},
}


def demo_graph(name: str) -> Path:
    """The file in the cache, which is not fetched here."""
    path = graph_path(CACHE, find_model(name))
    if not path.exists():
        pytest.skip(f"`{path}` was not fetched: run `headway demo` once")
    return path


@pytest.mark.parametrize("name", list(ROWS))
def test_real_models_are_counted_without_a_guess(name: str) -> None:
    """No unknown operator, no assumed shape, and work in proportion to rows."""
    path = demo_graph(name)
    one, four = (count_graph(path, rows=rows, shapes=ROWS[name]) for rows in (1, 4))
    assert (one.unknown_kinds, one.assumptions) == ({}, ())
    assert four.mac_count == 4 * one.mac_count
    assert four.weight_bytes == one.weight_bytes
    assert one.bytes_fused < one.bytes_unfused


def test_minilm_is_six_layers_of_products() -> None:
    """Projections, two products of attention, and the two wide layers: by hand, to the last one."""
    cost = count_graph(demo_graph("minilm"), shapes={"input_ids": (32,)})
    width, wide, tokens = 384, 1536, 32
    layer = tokens * (4 * width * width + 2 * width * wide) + 2 * tokens * tokens * width
    pooled = cost.mac_count - 6 * layer
    assert 0 <= pooled <= tokens * width
    matrices = 6 * (4 * width * width + 2 * width * wide)
    assert 4 * matrices < cost.weight_bytes < 4.1 * matrices


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["ocr-detect", "ocr-recognise", "opennsfw"])
def test_real_models_agree_with_a_second_program(name: str) -> None:
    """Products alone: theirs are more by a bias an output, which counts a MAC, and by no more.

    The other three models hold operators that onnx-tool has no entry for.
    """
    cost = count_graph(demo_graph(name), shapes=ROWS[name])
    products = ("Conv", "MatMul", "Gemm")
    theirs = sum(macs_by_onnx_tool(demo_graph(name), cost.input_shapes).get(k, 0) for k in products)
    ours = [each for each in cost.nodes if each.kind in products]
    outputs = sum(prod(each.output_shape) for each in ours)
    assert sum(each.mac_count for each in ours) <= theirs
    assert theirs <= sum(each.mac_count for each in ours) + outputs
