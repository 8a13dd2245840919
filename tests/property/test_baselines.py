"""Laws of the predictors to compare with: nothing they are told can break them."""

import json
from itertools import cycle, islice
from math import inf, isfinite, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core import Run, SlotClass
from headway.predict.boosted import BoostedModel
from headway.predict.fixed_model import FixedModel
from headway.predict.least_squares import LeastSquares
from headway.predict.max10 import Max10Model
from headway.predict.pairwise import PairwiseModel
from headway.predict.profile import ModelProfile, Pressures
from headway.predict.rls import RlsModel
from headway.predict.scene import Ended, Neighbour, Scene
from headway.predict.windowed_pcie import WindowedPcieModel, WindowedTransfers

LANES = (0, 0, 1, 1)
SLOWDOWN_MAX = 64.0 * 21.0
"""What a regression answers at most, and a correction of it."""
MODELS = {
    "fixed": FixedModel,
    "max10": Max10Model,
    "pairwise": lambda: PairwiseModel(PROFILES),
    "windowed-pcie": lambda: WindowedPcieModel(PairwiseModel(), bytes_per_second=1e9),
    "rls": lambda: RlsModel(PROFILES),
}
PARTS = st.floats(0.0, 1.0)
PROFILES = {
    "a": ModelProfile(model="a", device="d", pressures=Pressures(bandwidth_demand=1.0)),
    "b": ModelProfile(
        model="b",
        device="d",
        pressures=Pressures(compute_demand=0.0, bandwidth_demand=0.9, bandwidth_sensitivity=30.0),
    ),
}

RUNS = st.builds(
    Run,
    model=st.sampled_from("abc"),
    bucket=st.sampled_from(["", "x"]),
    rows=st.integers(1, 40),
    payload_bytes=st.integers(0, 1 << 40),
    device=st.just("d"),
    slot=st.integers(0, 3),
    lane=st.integers(0, 1),
    slot_class=st.sampled_from(SlotClass),
    priority=st.just(1),
)
SOLO_NS = st.one_of(st.floats(1.0, 1e12), st.sampled_from([1.0, 1e6, 1e18]))
LEFT_NS = st.one_of(st.floats(0.0, 1e12), st.sampled_from([0.0, -5.0, 1e300, inf, nan]))
NEIGHBOURS = st.builds(Neighbour, RUNS, SOLO_NS, LEFT_NS)
SCENES = st.builds(
    Scene,
    RUNS,
    SOLO_NS,
    st.lists(NEIGHBOURS, max_size=5).map(tuple),
    st.sampled_from([LANES, (0,), (0, 1, 2)]),
    st.one_of(st.integers(0, 9), st.just(10**9)),
    st.integers(0, 10**15),
)
EXECUTIONS_NS = st.one_of(st.integers(0, 10**10), st.sampled_from([0, 1, 10**6, 1 << 62, 1 << 90]))
ENDS = st.builds(Ended, SCENES, EXECUTIONS_NS, st.just(()), st.floats(1.0, 1e12))
HISTORIES = st.lists(ENDS, max_size=8)


def taught(model, history):
    for ended in history:
        model.learn(ended)
    return model


@pytest.mark.parametrize("name", MODELS)
@given(history=HISTORIES, scene=SCENES)
@settings(max_examples=25)
def test_no_history_breaks_a_prediction(name, history, scene):
    """Whatever was learnt, a prediction is finite, not negative, and bounded."""
    model = taught(MODELS[name](), history)
    execution_ns = model.execution_ns(scene)
    seen_ns = max((ended.execution_ns for ended in history), default=0)
    assert isfinite(execution_ns)
    assert 0.0 <= execution_ns <= max(SLOWDOWN_MAX * scene.base_ns, float(seen_ns))


@given(history=st.lists(ENDS, min_size=1, max_size=8), scene=SCENES)
@settings(max_examples=5)
def test_no_history_breaks_the_trees(history, scene):
    """Poisoned rows make poor trees, not errors; their answer is finite and bounded."""
    model = taught(BoostedModel(RlsModel()), islice(cycle(history), 200))
    model.install(200)
    taught(model, islice(cycle(history), 60))
    again = BoostedModel(RlsModel())
    again.restore(json.loads(json.dumps(model.state())))
    execution_ns = model.execution_ns(scene)
    assert isfinite(execution_ns)
    assert 0.0 <= execution_ns <= SLOWDOWN_MAX * scene.base_ns
    assert again.execution_ns(scene) == execution_ns


@pytest.mark.parametrize("name", MODELS)
@given(history=HISTORIES, scene=SCENES, ended=ENDS)
@settings(max_examples=10)
def test_a_restart_changes_nothing(name, history, scene, ended):
    """Saved as JSON and restored, it predicts the same, now and after one more execution."""
    model, again = taught(MODELS[name](), history), MODELS[name]()
    again.restore(json.loads(json.dumps(model.state())))
    for _ in range(2):
        assert again.execution_ns(scene) == model.execution_ns(scene)
        for each in (model, again):
            each.learn(ended)


@given(history=HISTORIES, scene=SCENES, neighbour=NEIGHBOURS)
@settings(max_examples=40)
def test_one_more_neighbour_never_helps_by_the_pairwise_rule(history, scene, neighbour):
    """After any history the answer is no less than alone, and no less than with one fewer."""
    model = taught(PairwiseModel(PROFILES), history)
    crowded = scene._replace(neighbours=(*scene.neighbours, neighbour))
    assert scene.base_ns <= model.execution_ns(scene) <= model.execution_ns(crowded)


@given(runs=st.lists(st.tuples(RUNS, st.integers(0, 10**9)), max_size=8), run=RUNS)
@settings(max_examples=40)
def test_more_demand_never_speeds_a_transfer_up(runs, run):
    """A transfer takes at least its bytes over the bandwidth, and no less after one more start."""
    transfers = WindowedTransfers(bytes_per_second=1e9)
    now_ns = 0
    for each, gap_ns in runs:
        now_ns += gap_ns
        before_ns = transfers.transfer_ns(run, (), now_ns)
        transfers.started(each, 0.0, now_ns)
        after_ns = transfers.transfer_ns(run, (), now_ns)
        assert run.payload_bytes <= before_ns <= after_ns
        assert isfinite(after_ns)


ROWS = st.lists(st.one_of(st.just(0.0), st.floats(-100.0, 100.0)), min_size=6, max_size=6)


@given(st.lists(st.tuples(ROWS, st.floats(-1e4, 1e4)), min_size=1, max_size=8))
@settings(max_examples=15)
def test_least_squares_stay_sound_however_long_a_history_repeats(observations):
    """Weights are bounded, and the covariance symmetric, bounded and positive, to rounding."""
    squares = LeastSquares(np.zeros(6), np.full(6, 3.0))
    for row, target in islice(cycle(observations), 400):
        squares.learn(np.array(row), target)
    covariance = squares._covariance
    assert np.isfinite(squares.weights).all()
    assert np.abs(squares.weights).max() <= 100.0
    assert (covariance == covariance.T).all()
    assert np.linalg.eigvalsh(covariance).min() > -1e-6
    assert covariance.diagonal().max() <= 10.0 + 1e-9


@given(row=ROWS, target=st.floats(-3.0, 3.0))
@settings(max_examples=15)
def test_least_squares_settle_on_a_constant_history(row, target):
    """Told one thing for long, they say it, if their bounded weights can."""
    squares = LeastSquares(np.zeros(6), np.full(6, 3.0))
    for _ in range(800):
        squares.learn(np.array(row), target)
    reach = 100.0 * sum(abs(part) for part in row)
    if sum(part * part for part in row) > 0.1 and abs(target) < reach:
        assert float(np.array(row) @ squares.weights) == pytest.approx(target, abs=0.02)
