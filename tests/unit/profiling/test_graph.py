"""Operations and bytes of hand-built ONNX graphs, every number worked out on paper."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, load, save
from tests.unit.profiling.graphs import (
    INT64,
    a_graph,
    tensor,
    values,
    weight,
    write_branches,
    write_graph,
)

from headway.errors import LoadError
from headway.profiling.graph import count_graph
from headway.profiling.operators import Operation, work_of

node = helper.make_node


def test_convolution_counts_its_window_its_bias_and_its_bytes(tmp_path: Path) -> None:
    """2 rows of 3x8x8 through 4 filters of 3x3x3, padded: every number worked out by hand."""
    path = write_graph(
        tmp_path / "conv.onnx",
        [node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1])],
        [tensor("x", "n", 3, 8, 8)],
        weights=[weight("w", 4, 3, 3, 3), weight("b", 4)],
    )
    cost = count_graph(path, rows=2)
    outputs = 2 * 4 * 8 * 8
    assert cost.mac_count == outputs * 27
    assert cost.flop == 2 * outputs * 27 + outputs
    assert cost.weight_bytes == 4 * (108 + 4)
    assert cost.input_bytes == 4 * 2 * 3 * 64
    assert cost.output_bytes == 4 * outputs
    assert cost.bytes_fused == cost.bytes_unfused == 4 * (112 + 384 + 512)


def test_groups_and_strides_make_a_convolution_smaller(tmp_path: Path) -> None:
    """Depthwise, every second place: each output is a sum over one channel's window."""
    path = write_graph(
        tmp_path / "depthwise.onnx",
        [node("Conv", ["x", "w"], ["y"], group=6, strides=[2, 2], pads=[1, 1, 1, 1])],
        [tensor("x", 1, 6, 10, 10)],
        weights=[weight("w", 6, 1, 3, 3)],
    )
    assert count_graph(path).mac_count == 6 * 5 * 5 * 9


def test_transposed_convolution_spreads_its_inputs(tmp_path: Path) -> None:
    """Every input element meets every element of its filter."""
    path = write_graph(
        tmp_path / "up.onnx",
        [node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])],
        [tensor("x", 1, 5, 4, 4)],
        weights=[weight("w", 5, 7, 2, 2)],
    )
    cost = count_graph(path)
    assert cost.mac_count == 5 * 16 * 7 * 4
    assert cost.nodes[0].output_shape == (1, 7, 8, 8)


def test_gemm_and_matmul_count_their_inner_axis(tmp_path: Path) -> None:
    """A turned left matrix, a bias, and a product of batches of matrices."""
    path = write_graph(
        tmp_path / "products.onnx",
        [
            node("Gemm", ["x", "w", "b"], ["h"], transA=1),
            node("MatMul", ["h", "v"], ["y"]),
        ],
        [tensor("x", 10, 3)],
        weights=[weight("w", 10, 4), weight("b", 4), weight("v", 4, 5)],
    )
    cost = count_graph(path)
    assert [each.mac_count for each in cost.nodes] == [3 * 4 * 10, 3 * 5 * 4]
    assert cost.flop == 2 * cost.mac_count + 3 * 4


def test_intermediates_are_traffic_only_when_nothing_is_fused(tmp_path: Path) -> None:
    """The bounds differ by what is written and read between nodes."""
    path = write_graph(
        tmp_path / "chain.onnx",
        [node("Relu", ["x"], ["a"]), node("Exp", ["a"], ["b"]), node("Softmax", ["b"], ["y"])],
        [tensor("x", "n", 100)],
    )
    cost = count_graph(path, rows=3)
    one = 4 * 300
    assert cost.bytes_fused == 2 * one
    assert cost.bytes_unfused == 6 * one
    assert cost.flop == (1 + 1 + 5) * 300


def test_bytes_are_those_of_the_datatype(tmp_path: Path) -> None:
    """Half and 8-bit elements are as small as they are; the same work is done on them."""
    path = write_graph(
        tmp_path / "half.onnx",
        [node("MatMul", ["x", "w"], ["y"])],
        [tensor("x", "n", 8, kind=TensorProto.FLOAT16)],
        weights=[weight("w", 8, 16, kind=np.float16)],
    )
    cost = count_graph(path, rows=4)
    assert cost.bytes_fused == 2 * (4 * 8 + 8 * 16 + 4 * 16)
    assert cost.flop_by_datatype == {"float16": 2 * 4 * 8 * 16}


def test_integer_convolution_and_matmul_are_counted(tmp_path: Path) -> None:
    """A quantized layer: 8-bit inputs, 32-bit sums, scales on top."""
    scale, zero = values("s", 0.5, np.float32), values("z", 0, np.uint8)
    path = write_graph(
        tmp_path / "quantized.onnx",
        [
            node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            node("QLinearConv", ["q", "s", "z", "w", "s", "z", "s", "z"], ["c"]),
            node("ConvInteger", ["c", "v"], ["i"]),
        ],
        [tensor("x", 1, 2, 6, 6)],
        ["i"],
        [
            scale,
            zero,
            weight("w", 4, 2, 3, 3, kind=np.uint8),
            weight("v", 3, 4, 1, 1, kind=np.uint8),
        ],
    )
    cost = count_graph(path)
    by_kind = {each.kind: each for each in cost.nodes}
    assert by_kind["QLinearConv"].mac_count == 4 * 16 * 18
    assert by_kind["QLinearConv"].datatype == "uint8"
    assert by_kind["ConvInteger"].mac_count == 3 * 16 * 4
    assert cost.output_bytes == 4 * 3 * 16
    assert cost.weight_bytes == 72 + 12 + 4 + 1


def test_quantized_weights_are_read_as_small_as_they_are_stored(tmp_path: Path) -> None:
    """Widening a constant happens at load or in a register, not in memory."""
    path = write_graph(
        tmp_path / "qdq.onnx",
        [
            node("DequantizeLinear", ["w", "s", "z"], ["wide"]),
            node("MatMul", ["x", "wide"], ["y"]),
        ],
        [tensor("x", "n", 64)],
        weights=[
            weight("w", 64, 32, kind=np.int8),
            values("s", 0.5, np.float32),
            values("z", 0, np.int8),
        ],
    )
    cost = count_graph(path)
    assert [each.kind for each in cost.nodes] == ["MatMul"]
    assert cost.weight_bytes == 64 * 32


@pytest.mark.parametrize(("kind", "gates", "joins"), [("LSTM", 4, 5), ("GRU", 3, 4), ("RNN", 1, 0)])
def test_recurrent_layers_count_steps_gates_and_directions(
    tmp_path: Path, kind: str, gates: int, joins: int
) -> None:
    """7 steps of 2 rows, 5 in, 3 hidden, both ways."""
    path = write_graph(
        tmp_path / "recurrent.onnx",
        [node(kind, ["x", "w", "r"], ["y"], hidden_size=3, direction="bidirectional")],
        [tensor("x", 7, 2, 5)],
        weights=[weight("w", 2, gates * 3, 5), weight("r", 2, gates * 3, 3)],
    )
    cost = count_graph(path)
    assert cost.mac_count == 14 * 2 * gates * 3 * (5 + 3)
    assert cost.flop == 2 * cost.mac_count + 14 * 2 * 3 * (2 * gates + joins)


def test_attention_counts_scores_and_weighted_sums(tmp_path: Path) -> None:
    """4 heads of size 16, 10 queries against 12 keys: as its two products written out."""
    path = write_graph(
        tmp_path / "attention.onnx",
        [node("Attention", ["q", "k", "v"], ["y"])],
        [tensor("q", "n", 4, 10, 16), tensor("k", "n", 4, 12, 16), tensor("v", "n", 4, 12, 16)],
        opsets={"": 23},
    )
    cost = count_graph(path, rows=2)
    assert cost.mac_count == 2 * 2 * 4 * 10 * 12 * 16
    assert cost.flop == 2 * cost.mac_count + 6 * 2 * 4 * 10 * 12
    assert not cost.unknown_kinds
    assert not cost.assumptions


def test_attention_of_a_runtime_includes_its_projections() -> None:
    """`com.microsoft.Attention` multiplies by the weights of queries, keys and values itself."""
    fused = work_of(
        Operation("Attention", ((2, 10, 64), (64, 192)), ((2, 10, 64),), {"num_heads": 4})
    )
    products = 2 * 10 * 64 * 192 + 2 * 2 * 10 * 10 * 64
    assert fused.mac_count == products
    grouped = work_of(
        Operation(
            "GroupQueryAttention",
            ((1, 1, 64), (1, 1, 16), (1, 1, 16), (1, 2, 99, 8)),
            ((1, 1, 64),),
            {"num_heads": 8},
        )
    )
    assert grouped.mac_count == 2 * 64 * 100


@pytest.mark.parametrize(
    ("equation", "shapes", "macs"),
    [
        ("bij,bjk->bik", ((2, 3, 4), (2, 4, 5)), 2 * 3 * 4 * 5),
        ("...ij,...jk->...ik", ((2, 7, 3, 4), (2, 7, 4, 5)), 14 * 3 * 4 * 5),
        ("ii->i", ((6, 6),), 0),
    ],
)
def test_einsum_counts_every_combination_of_letters(equation, shapes, macs: int) -> None:
    """One multiply-accumulate for each, whatever the letters are."""
    operation = Operation("Einsum", shapes, ((1,),), {"equation": equation})
    assert work_of(operation).mac_count == macs
    assert work_of(operation).flop == (2 * macs or 6)


def test_pools_and_normalisations_count_what_they_read(tmp_path: Path) -> None:
    """A window an output; an element an input; seven an element for a layer norm."""
    path = write_graph(
        tmp_path / "pools.onnx",
        [
            node("MaxPool", ["x"], ["a"], kernel_shape=[3, 3], strides=[2, 2]),
            node("GlobalAveragePool", ["a"], ["b"]),
            node("LayerNormalization", ["b", "s"], ["y"], axis=1),
        ],
        [tensor("x", 1, 4, 9, 9)],
        weights=[weight("s", 4, 1, 1)],
    )
    assert [each.flop for each in count_graph(path).nodes] == [9 * 4 * 16, 4 * 16, 7 * 4]


def test_moves_cost_bytes_and_views_cost_nothing(tmp_path: Path) -> None:
    """A transposition copies, a reshape does not."""
    path = write_graph(
        tmp_path / "moves.onnx",
        [
            node("Transpose", ["x"], ["t"], perm=[1, 0]),
            node("Reshape", ["t", "shape"], ["y"]),
        ],
        [tensor("x", 3, 8)],
        weights=[values("shape", [2, 12])],
    )
    (move,) = count_graph(path).nodes
    assert (move.kind, move.flop, move.traffic_bytes) == ("Transpose", 0, 2 * 4 * 24)


def test_a_table_counts_only_what_is_taken_from_it(tmp_path: Path) -> None:
    """An embedding of a hundred thousand words costs the words of the sentence."""
    path = write_graph(
        tmp_path / "embedding.onnx",
        [node("Gather", ["table", "ids"], ["y"])],
        [tensor("ids", "n", "words", kind=INT64)],
        weights=[weight("table", 100_000, 8)],
    )
    cost = count_graph(path, rows=2, shapes={"ids": (5,)})
    assert cost.weight_bytes == 0
    assert cost.gathered_bytes == 4 * 2 * 5 * 8
    assert cost.bytes_fused == 8 * 10 + 2 * 4 * 80


def test_a_gather_from_activations_reads_what_it_takes(tmp_path: Path) -> None:
    """Three rows of a thousand: read, written, and their indices."""
    path = write_graph(
        tmp_path / "pick.onnx",
        [node("Gather", ["x", "ids"], ["y"])],
        [tensor("x", 1000, 8), tensor("ids", 3, kind=INT64)],
    )
    (pick,) = count_graph(path).nodes
    assert pick.moved_bytes == 4 * 24 + 4 * 24 + 8 * 3


def test_a_sum_of_three_is_two_additions(tmp_path: Path) -> None:
    """Operators of several inputs count what joins them."""
    path = write_graph(
        tmp_path / "sum.onnx", [node("Sum", ["x", "x", "x"], ["y"])], [tensor("x", 10)]
    )
    assert count_graph(path).flop == 20


def test_shape_arithmetic_is_worked_out_and_free(tmp_path: Path) -> None:
    """A shape that the graph computes from its input, with a division, closes what follows."""
    path = write_graph(
        tmp_path / "arithmetic.onnx",
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "one"], ["width"]),
            node("Div", ["width", "two"], ["half"]),
            node("Concat", ["minus", "half"], ["target"], axis=0),
            node("Reshape", ["x", "target"], ["r"]),
            node("Relu", ["r"], ["y"]),
        ],
        [tensor("x", "n", "w")],
        weights=[values("one", [1]), values("two", [2]), values("minus", [-1])],
    )
    cost = count_graph(path, rows=3, shapes={"x": (10,)})
    assert [(each.kind, each.output_shape) for each in cost.nodes] == [("Relu", (6, 5))]
    assert not cost.assumptions


def test_what_reads_only_weights_is_done_at_load(tmp_path: Path) -> None:
    """A weight that is turned once costs nothing a run, and is read once as what it became."""
    path = write_graph(
        tmp_path / "folded.onnx",
        [node("Transpose", ["w"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["y"])],
        [tensor("x", "n", 70)],
        weights=[weight("w", 80, 70)],
    )
    cost = count_graph(path)
    assert [each.kind for each in cost.nodes] == ["MatMul"]
    assert cost.weight_bytes == 4 * 80 * 70


def test_a_weight_read_twice_is_stored_once(tmp_path: Path) -> None:
    """Fused it is read once; unfused each node reads it."""
    path = write_graph(
        tmp_path / "shared.onnx",
        [
            node("MatMul", ["x", "w"], ["a"]),
            node("Reshape", ["w", "shape"], ["v"]),
            node("MatMul", ["a", "v"], ["y"]),
        ],
        [tensor("x", "n", 128)],
        weights=[weight("w", 128, 128), values("shape", [128, 128])],
    )
    cost = count_graph(path)
    assert cost.weight_bytes == 4 * 128 * 128
    assert sum(each.weight_bytes for each in cost.nodes) == 2 * cost.weight_bytes


def test_unknown_operators_are_counted_as_elementwise_and_listed(tmp_path: Path) -> None:
    """Of another domain: an operation an element, and its name for the reader."""
    path = write_graph(
        tmp_path / "odd.onnx",
        [node("Wobble", ["x"], ["y"], domain="odd"), node("Relu", ["y"], ["z"])],
        [tensor("x", "n", 6)],
        ["z"],
        opsets={"": 17, "odd": 1},
    )
    cost = count_graph(path, rows=2)
    assert cost.unknown_kinds == {"Wobble": 1}
    assert cost.flop == 12 + 12
    assert cost.assumptions == ("y: its shape is taken for 2x6",)


def test_operators_of_a_runtime_follow_their_standard_kin(tmp_path: Path) -> None:
    """What an optimiser writes into a graph has shapes and formulas like what it came from."""
    path = write_graph(
        tmp_path / "fused.onnx",
        [
            node("FusedConv", ["x", "w"], ["c"], domain="com.microsoft", activation="Relu"),
            node("Gelu", ["c"], ["g"], domain="com.microsoft"),
            node("FusedMatMul", ["g", "v"], ["y"], domain="com.microsoft", transB=1, alpha=0.5),
        ],
        [tensor("x", 1, 3, 5, 5)],
        weights=[weight("w", 2, 3, 3, 3), weight("v", 7, 3)],
        opsets={"": 17, "com.microsoft": 1},
    )
    cost = count_graph(path)
    assert cost.flop == 2 * 18 * 27 + 18 + 18 + 2 * 18 * 7
    assert cost.nodes[-1].output_shape == (1, 2, 3, 7)
    assert not cost.assumptions
    assert not cost.unknown_kinds


def test_a_shape_that_depends_on_the_data_is_assumed_and_said(tmp_path: Path) -> None:
    """How many elements are not zero is known only in a run."""
    path = write_graph(
        tmp_path / "nonzero.onnx",
        [node("NonZero", ["x"], ["y"])],
        [tensor("x", 4, 4)],
    )
    assert count_graph(path).assumptions == ("y: its shape is taken for 2x1",)


def test_constants_of_every_spelling_are_known(tmp_path: Path) -> None:
    """One number, several, or a tensor, as exporters write them."""
    path = write_graph(
        tmp_path / "constants.onnx",
        [
            node("Constant", [], ["axes"], value_ints=[2, 0]),
            node("Unsqueeze", ["x", "axes"], ["u"]),
            node("Constant", [], ["scale"], value_float=0.5),
            node("Mul", ["u", "scale"], ["m"]),
            node("Constant", [], ["limits"], value_floats=[1.0, 2.0]),
            node("Add", ["m", "limits"], ["y"]),
        ],
        [tensor("x", "n", 2)],
    )
    cost = count_graph(path, rows=3)
    assert [each.output_shape for each in cost.nodes] == [(1, 3, 1, 2), (1, 3, 1, 2)]
    assert cost.weight_bytes == 4 + 8
    assert not cost.assumptions


@pytest.mark.parametrize(
    ("mode", "flop"), [("nearest", 0), ("linear", 2 * 4 * 2 * 64), ("cubic", 2 * 16 * 2 * 64)]
)
def test_resizing_weighs_the_neighbours_of_its_mode(tmp_path: Path, mode: str, flop: int) -> None:
    """Two axes change: 1, 4 or 16 elements make a new one."""
    path = write_graph(
        tmp_path / "resize.onnx",
        [node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode)],
        [tensor("x", 1, 2, 4, 4)],
        weights=[values("sizes", [1, 2, 8, 8])],
    )
    assert count_graph(path).flop == flop


def test_a_sparse_weight_is_as_large_as_what_is_stored(tmp_path: Path) -> None:
    """Three elements and their places, whatever the shape."""
    few = helper.make_sparse_tensor(
        values("w", [1, 2, 3], np.float32), values("places", [0, 40, 99]), [10, 10]
    )
    path = write_graph(
        tmp_path / "sparse.onnx", [node("MatMul", ["x", "w"], ["y"])], [tensor("x", "n", 10)]
    )
    model = load(path)
    model.graph.sparse_initializer.append(few)
    save(model, path)
    cost = count_graph(path, rows=2)
    assert cost.weight_bytes == 3 * 4 + 3 * 8
    assert cost.nodes[0].output_shape == (2, 10)


def test_sequences_and_their_functions_are_listed(tmp_path: Path) -> None:
    """What is mapped over a sequence is a subgraph whose runs are not counted."""
    body = a_graph([node("Relu", ["a"], ["b"])], [tensor("a", 4)], ["b"])
    path = write_graph(
        tmp_path / "sequence.onnx",
        [
            node("SequenceConstruct", ["x", "x"], ["s"]),
            node("SequenceMap", ["s"], ["t"], name="map", body=body),
            node("ConcatFromSequence", ["t"], ["y"], axis=0),
        ],
        [tensor("x", 4)],
    )
    cost = count_graph(path)
    assert "map: its subgraph is not counted" in cost.assumptions
    assert cost.unknown_kinds == {"SequenceMap": 1}


def test_a_shape_may_be_taken_from_part_of_another(tmp_path: Path) -> None:
    """`Shape` with a start, and `Size`: both known, both free."""
    path = write_graph(
        tmp_path / "parts.onnx",
        [
            node("Shape", ["x"], ["tail"], start=1),
            node("Size", ["x"], ["all"]),
            node("Unsqueeze", ["all", "zero"], ["flat"]),
            node("Expand", ["one", "tail"], ["a"]),
            node("Reshape", ["x", "flat"], ["b"]),
            node("Relu", ["b"], ["c"]),
            node("Relu", ["a"], ["d"]),
        ],
        [tensor("x", 2, 50, 60)],
        ["c", "d"],
        [values("zero", [0]), values("one", [1], np.float32)],
    )
    cost = count_graph(path)
    assert [each.output_shape for each in cost.nodes] == [(6000,), (50, 60)]
    assert not cost.assumptions


def test_a_slice_past_its_data_is_an_assumption_not_a_crash(tmp_path: Path) -> None:
    """A reference that refuses its inputs leaves the shape to the operator's definition."""
    path = write_graph(
        tmp_path / "gather.onnx",
        [node("Gather", ["few", "far"], ["shape"]), node("Expand", ["x", "shape"], ["y"])],
        [tensor("x", 1)],
        weights=[values("few", [2, 3]), values("far", [7])],
    )
    assert count_graph(path).assumptions == ("y: its shape is taken for 1",)


# --- control flow ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("condition", "flop"), [(True, 8), (False, 128), (None, 128)])
def test_a_branch_is_taken_or_the_costlier_assumed(tmp_path: Path, condition, flop: int) -> None:
    """A constant condition decides; an open one counts the worst and says so."""
    cost = count_graph(write_branches(tmp_path, condition))
    assert cost.flop == flop
    expected = () if condition is not None else ("choice: the costlier branch is counted",)
    assert cost.assumptions == expected


@pytest.mark.parametrize("trips", [5, None])
def test_a_loop_counts_its_body_as_often_as_it_runs(tmp_path: Path, trips: int | None) -> None:
    """The weights inside are stored once; unfused they are read each time."""
    body = a_graph(
        [
            node("Identity", ["go"], ["still"]),
            node("MatMul", ["state", "w"], ["next"]),
            node("Relu", ["next"], ["out"]),
        ],
        [tensor("i", kind=INT64), tensor("go", kind=TensorProto.BOOL), tensor("state", 1, 16)],
        ["still", "next", "out"],
        [weight("w", 16, 16)],
    )
    count = [values("m", trips)] if trips is not None else []
    inputs = [tensor("x", 1, 16)] + ([] if trips is not None else [tensor("m", kind=INT64)])
    path = write_graph(
        tmp_path / "loop.onnx",
        [node("Loop", ["m", "", "x"], ["last", "all"], name="loop", body=body)],
        inputs,
        ["last", "all"],
        count,
    )
    cost = count_graph(path)
    times = trips or 1
    assert cost.flop == times * (2 * 256 + 16)
    assert cost.weight_bytes == 4 * 256
    assert cost.output_bytes == 4 * (16 + times * 16)
    assert [each.repeats for each in cost.nodes] == [times, times]
    assert cost.assumptions == (() if trips else ("loop: the body is counted once",))


def test_a_shape_that_a_branch_decides_is_not_taken_from_one(tmp_path: Path) -> None:
    """Which of two constants comes out is known only in a run."""
    then, other = (
        a_graph([node("Constant", [], [name], value_ints=sizes)], [], [name])
        for name, sizes in (("a", [2, 6]), ("b", [3, 4]))
    )
    path = write_graph(
        tmp_path / "choice.onnx",
        [
            node("If", ["c"], ["shape"], name="if", then_branch=then, else_branch=other),
            node("Reshape", ["x", "shape"], ["y"]),
        ],
        [tensor("x", 12), tensor("c", kind=TensorProto.BOOL)],
    )
    assumptions = count_graph(path).assumptions
    assert [text.split(":")[0] for text in assumptions] == ["if", "y"]


def test_a_loop_works_on_its_state_each_round_though_it_begins_with_a_constant(tmp_path) -> None:
    """Neither that start nor what is gathered in a round is done at load."""
    body = a_graph(
        [
            node("Identity", ["go"], ["still"]),
            node("Gather", ["table", "i"], ["row"]),
            node("Add", ["state", "row"], ["next"]),
        ],
        [tensor("i", kind=INT64), tensor("go", kind=TensorProto.BOOL), tensor("state", 16)],
        ["still", "next"],
        [weight("table", 500, 16)],
    )
    path = write_graph(
        tmp_path / "rounds.onnx",
        [node("Loop", ["m", "", "start"], ["last"], body=body), node("Relu", ["last"], ["y"])],
        [tensor("unused", 1)],
        weights=[values("m", 4), weight("start", 16)],
    )
    cost = count_graph(path)
    assert cost.flop == 4 * 16 + 16
    assert cost.gathered_bytes == 4 * 4 * 16
    assert cost.weight_bytes == 0


def test_control_flow_without_its_graph_is_refused(tmp_path: Path) -> None:
    """Named, with the part that is missing."""
    path = write_graph(
        tmp_path / "bare.onnx", [node("Loop", ["", "", "x"], ["y"], name="l")], [tensor("x", 1)]
    )
    with pytest.raises(LoadError, match="`l` has no `body`"):
        count_graph(path)


def test_a_scan_counts_its_body_once_a_slice(tmp_path: Path) -> None:
    """Along the axis that is scanned, which is the sequence's."""
    body = a_graph(
        [node("Add", ["state", "slice"], ["sum"]), node("Exp", ["sum"], ["each"])],
        [tensor("state", 4), tensor("slice", 4)],
        ["sum", "each"],
    )
    path = write_graph(
        tmp_path / "scan.onnx",
        [node("Scan", ["s", "x"], ["y", "all"], body=body, num_scan_inputs=1)],
        [tensor("s", 4), tensor("x", 9, 4)],
        ["y", "all"],
    )
    cost = count_graph(path, rows=1)
    assert cost.flop == 9 * 8
    assert cost.output_bytes == 4 * (4 + 36)


def test_functions_of_the_model_are_unfolded(tmp_path: Path) -> None:
    """A layer that the exporter wrote as a function counts like its nodes."""
    layer = helper.make_function(
        "mine", "Layer", ["a"], ["b"], [node("Relu", ["a"], ["h"]), node("Exp", ["h"], ["b"])],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    path = write_graph(
        tmp_path / "function.onnx",
        [node("Layer", ["x"], ["y"], domain="mine")],
        [tensor("x", 5)],
        opsets={"": 17, "mine": 1},
        functions=[layer],
    )
    assert sorted(each.kind for each in count_graph(path).nodes) == ["Exp", "Relu"]
