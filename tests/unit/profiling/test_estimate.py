"""A model that never ran, from its graph and the machine's ceilings."""

import pytest
from msgspec.structs import replace
from onnx import helper
from tests.unit.profiling.graphs import tensor, weight, write_graph

from headway.core import DeviceName
from headway.devices import Ceiling, Ceilings
from headway.errors import ConfigError
from headway.executors import ModelSpec
from headway.profiling import can_count_graphs, estimated_profile

ONE = Ceiling(cores_count=1, flop_per_s=1e9, bytes_per_s=1e12)
CEILINGS = Ceilings(one=ONE, every=replace(ONE, cores_count=2, flop_per_s=1.5e9), array_bytes=1)


@pytest.fixture
def spec(tmp_path):
    """A product that is all arithmetic under these ceilings; its second axis is open."""
    path = write_graph(
        tmp_path / "net.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [tensor("x", "n", "m", 64)],
        weights=[weight("w", 64, 64)],
    )
    return ModelSpec(name="net", backend="onnx", path=str(path), warmup_shapes={"x": (10, 64)})


def times_of(spec, rows_max=4):
    """Solo times by rows."""
    profile = estimated_profile(spec, DeviceName("cpu:0"), CEILINGS, rows_max=rows_max)
    assert all(solo.runs == 0 <= solo.median_ns <= solo.p95_ns for solo in profile.solo)
    return {solo.rows: solo.median_ns for solo in profile.solo}


def test_time_is_arithmetic_over_what_one_core_reaches(spec):
    """Ten lines of 64 times 64, two operations each; four rows take four times as long."""
    assert can_count_graphs()
    found = times_of(spec)
    assert found[1] == pytest.approx(10 * 64 * 64 * 2, rel=0.01)
    assert found[4] == pytest.approx(4 * found[1], rel=0.01)
    assert list(times_of(spec, rows_max=1)) == [1]


def test_threads_reach_more_than_one_core_and_no_more_than_all(spec):
    """Two threads are as fast as both cores together."""
    two = replace(spec, options={"intra_op_threads": 2})
    assert times_of(spec)[1] / times_of(two)[1] == pytest.approx(1.5, rel=0.01)
    many = replace(spec, options={"intra_op_threads": 64})
    assert times_of(many) == times_of(two)


def test_an_open_axis_must_be_given(spec):
    """The warm-up's shapes close it, and without them nothing is guessed."""
    with pytest.raises(ConfigError, match="leaves axes open"):
        times_of(replace(spec, warmup_shapes={}))
