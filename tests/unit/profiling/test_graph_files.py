"""Files, shapes that users give, damage, and the laws that every count obeys."""

import sys
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import external_data_helper, helper, load, save
from tests.unit.profiling.graphs import (
    tensor,
    values,
    weight,
    write_branches,
    write_graph,
)

from headway.core import DeviceName, ModelName
from headway.errors import ConfigError, HeadwayError, LoadError
from headway.profiling.graph import count_graph, profile_from_graph

node = helper.make_node


def test_weights_in_another_file_need_not_be_there(tmp_path: Path) -> None:
    """Their sizes stand in the graph; only a small one may be a shape, and is read."""
    path = write_graph(
        tmp_path / "split.onnx",
        [node("Reshape", ["x", "shape"], ["r"]), node("MatMul", ["r", "w"], ["y"])],
        [tensor("x", "n", 8, 8)],
        weights=[weight("w", 64, 32), values("shape", [-1, 64])],
    )
    whole = count_graph(path)
    model = load(path)
    external_data_helper.convert_model_to_external_data(model, location="w.bin", size_threshold=0)
    save(model, path)
    assert count_graph(path) == whole
    (tmp_path / "w.bin").unlink()
    with pytest.raises(LoadError, match="keeps `shape` in another file") as caught:
        count_graph(path)
    assert caught.value.hint == "put the file with the weights beside the .onnx file"


def test_axes_of_one_name_follow_what_is_given_once(tmp_path: Path) -> None:
    """The mask is as long as the words; rows go to every first axis that is open."""
    path = write_graph(
        tmp_path / "two.onnx",
        [node("Add", ["ids", "mask"], ["y"])],
        [tensor("ids", "batch", "token"), tensor("mask", "batch", "token")],
    )
    cost = count_graph(path, rows=3, shapes={"mask": (7,)})
    assert cost.input_shapes == {"ids": (3, 7), "mask": (3, 7)}
    assert count_graph(path, rows=3, shapes={"mask": (3, 7)}) == cost


def test_a_first_axis_that_is_no_batch_is_given_with_the_rest(tmp_path: Path) -> None:
    """At one row, all sizes may be given; then the first is as free as the others."""
    path = write_graph(
        tmp_path / "words.onnx", [node("Relu", ["x"], ["y"])], [tensor("x", "words", "letters")]
    )
    assert count_graph(path, shapes={"x": (7, 5)}).flop == 35


@pytest.mark.parametrize(
    ("rows", "shapes", "message", "hint"),
    [
        (1, {}, "input `x` leaves axes open: 1x3xhx?", "--shape x=3,N,N"),
        (1, {"z": (1,)}, "no input `z`", "its inputs are `x`, `one`"),
        (1, {"x": (4, 8, 8)}, "shape 4x8x8 does not fit input `x`, which is 1x3xhx?", "one row"),
        (1, {"x": (8,)}, "does not fit input `x`", "one row"),
        (2, {"x": (1, 3, 8, 8)}, "does not fit input `x`", "one row"),
        (2, {"x": (3, 8, 8)}, "input `one` has a first axis of 1", "open first axis"),
        (0, {"x": (3, 8, 8)}, "`0` rows are no batch", "at least 1"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(tmp_path, rows, shapes, message, hint) -> None:
    """The input's name, what it is, and what to give instead."""
    path = write_graph(
        tmp_path / "open.onnx",
        [node("Relu", ["x"], ["y"]), node("Relu", ["one"], ["z"])],
        [tensor("x", "n", 3, "h", None), tensor("one", 1, 2)],
        ["y", "z"],
    )
    with pytest.raises(ConfigError) as caught:
        count_graph(path, rows=rows, shapes=shapes)
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x08", b"PK\x03\x04" * 9])
def test_files_that_hold_no_graph_are_refused(tmp_path: Path, content: bytes) -> None:
    """Whatever else a path leads to."""
    path = tmp_path / "wrong.onnx"
    path.write_bytes(content)
    with pytest.raises(LoadError, match=r"wrong\.onnx"):
        count_graph(path)
    with pytest.raises(LoadError, match="cannot read"):
        count_graph(tmp_path / "absent.onnx")


def test_a_node_that_reads_what_nothing_makes_is_refused(tmp_path: Path) -> None:
    """Named, with the name that is missing."""
    path = write_graph(tmp_path / "broken.onnx", [node("Relu", ["ghost"], ["y"])], [tensor("x", 1)])
    with pytest.raises(LoadError, match="`y` reads `ghost`"):
        count_graph(path)


def test_without_the_package_the_remedy_is_said(tmp_path, monkeypatch) -> None:
    """`onnx` is an extra: who lacks it learns which."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(HeadwayError, match="`onnx` is not installed") as caught:
        count_graph(tmp_path / "any.onnx")
    assert caught.value.hint == "pip install headway[profile]"


def test_a_profile_splits_what_a_batch_and_what_a_row_costs(tmp_path: Path) -> None:
    """Weights once a batch; work, inputs and outputs a row, the same counted at any size."""
    path = write_graph(
        tmp_path / "layer.onnx",
        [node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["y"])],
        [tensor("x", "n", 32)],
        weights=[weight("w", 32, 16)],
    )
    model, device = ModelName("layer"), DeviceName("cpu:0")
    profiles = [profile_from_graph(path, model=model, device=device, rows=rows) for rows in (1, 5)]
    assert profiles[0] == profiles[1]
    assert profiles[0].weight_bytes == 4 * 32 * 16
    assert profiles[0].flop_per_row == 2 * 32 * 16 + 16
    assert profiles[0].bytes_per_row_fused == 4 * (32 + 16)
    assert profiles[0].bytes_per_row_unfused == 4 * (32 + 16 + 16 + 16)
    assert (profiles[0].transfer_in_bytes, profiles[0].transfer_out_bytes) == (128, 64)
    assert profiles[0].solo == ()


# --- laws -----------------------------------------------------------------------------------------

LAYERS = st.lists(
    st.sampled_from(["Conv", "Relu", "MaxPool", "BatchNormalization", "Softmax", "Concat"]),
    min_size=1,
    max_size=8,
)


@given(LAYERS, st.integers(1, 9))
def test_work_grows_in_proportion_to_rows(layers: list[str], rows: int) -> None:
    """No layer mixes rows, so a batch does its rows' work, and reads its weights once."""
    nodes, weights, before, channels = [], [], "x", 4
    for index, kind in enumerate(layers):
        after, extra = f"v{index}", []
        attributes = {}
        if kind == "Conv":
            extra = [f"w{index}"]
            weights.append(weight(extra[0], 3, channels, 3, 3))
            attributes, channels = {"pads": [1, 1, 1, 1]}, 3
        elif kind == "BatchNormalization":
            extra = [f"{name}{index}" for name in "sbmv"]
            weights += [weight(name, channels) for name in extra]
        elif kind == "MaxPool":
            attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        elif kind == "Concat":
            extra, attributes, channels = [before], {"axis": 1}, 2 * channels
        nodes.append(node(kind, [before, *extra], [after], **attributes))
        before = after
    with TemporaryDirectory() as folder:
        path = write_graph(
            Path(folder) / "m.onnx", nodes, [tensor("x", "n", 4, 6, 6)], [before], weights
        )
        one, many = count_graph(path), count_graph(path, rows=rows)
    assert many.flop == rows * one.flop
    assert many.weight_bytes == one.weight_bytes == sum(4 * prod(w.dims) for w in weights)
    for cost in (one, many):
        assert cost.bytes_fused <= cost.bytes_unfused
        assert not cost.assumptions
    assert many.bytes_unfused - one.bytes_unfused == (rows - 1) * (
        sum(each.moved_bytes for each in one.nodes)
    )


@given(st.binary(max_size=400), st.integers(0, 300))
def test_a_damaged_file_gives_a_count_or_a_named_error(junk: bytes, at: int) -> None:
    """Never anything else, whatever the bytes say."""
    with TemporaryDirectory() as folder:
        path = write_branches(Path(folder), None)
        content = path.read_bytes()
        path.write_bytes(content[:at] + junk + content[at + len(junk) :])
        try:
            cost = count_graph(path)
        except HeadwayError:
            return
    assert min(cost.flop, cost.bytes_fused, cost.bytes_unfused, cost.weight_bytes) >= 0
