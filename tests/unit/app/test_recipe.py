"""What a configured predictor starts from: links, emulated models, graphs, measured profiles."""

import logging

import pytest
import yaml
from msgspec.structs import replace
from onnx import helper
from tests.unit.profiling.graphs import tensor, weight, write_graph

from headway.app import circumstances, recipe_of
from headway.app.recipe import learner_of
from headway.config import Config
from headway.core import BucketKey, DeviceName, ModelName
from headway.devices import (
    Calibration,
    Ceiling,
    Ceilings,
    accelerator,
    fingerprint,
)
from headway.predict import ModelProfile, SoloTime
from headway.profiling import (
    ProfileFile,
    Roof,
    estimate_solo_ns,
    write_learnt,
    write_profiles,
)

CEILING = Ceiling(cores_count=1, flop_per_s=4e10, bytes_per_s=1e10)
CEILINGS = Ceilings(one=CEILING, every=replace(CEILING, cores_count=2), array_bytes=1 << 26)
EMULATED = """
devices: [{name: g, kind: emulated}, {name: h, kind: emulated}]
models:
  - name: m
    devices: [g, h]
    options: {solo: 2ms, row: 1ms}
    batch: {rows_max: 4}
    inputs: [{name: x, datatype: FP32, shape: [-1, 1000]}]
    outputs: [{name: y, datatype: FP32, shape: [-1, 10]}]
"""


def config_of(text):
    """A configuration, as a file would give it."""
    return Config.model_validate(yaml.safe_load(text))


def test_emulated_devices_bring_their_links_and_what_models_ask():
    """A tree with a place for each device; bytes from the declared tensors, times from options."""
    recipe = recipe_of(config_of(EMULATED))
    assert recipe.links == accelerator("a100-pcie4").tree(["g", "h"])
    assert [profile.device for profile in recipe.profiles] == ["g", "h"]
    profile = recipe.profiles[0]
    assert (profile.transfer_in_bytes, profile.transfer_out_bytes) == (4000, 40)
    assert [solo.rows for solo in profile.solo] == [1, 4]
    assert profile.solo[1].median_ns - profile.solo[0].median_ns == pytest.approx(3e6, rel=0.01)


def test_link_of_windowed_pcie_is_the_machines_unless_it_is_written():
    """Two cards under one switch share its port; whoever writes another figure has it."""
    one_port = 25_000_000_000
    recipe = recipe_of(config_of(EMULATED + "predictor: {kind: windowed-pcie}"))
    assert recipe.link_bytes_per_s == one_port
    told = config_of(EMULATED + "predictor: {kind: windowed-pcie, link_per_second: 1GB}")
    assert recipe_of(told).link_bytes_per_s == 1_000_000_000


def test_a_live_predictor_is_fitted_in_the_background_and_cores_have_no_links():
    """A fit takes longer than the loop has; a core's copies are part of its executions."""
    recipe = recipe_of(Config())
    assert (recipe.trains_inline, recipe.links, recipe.profiles) == (False, None, ())


def test_what_was_learnt_on_one_accelerator_is_not_used_on_another(tmp_path, caplog):
    """Both have the same devices and slots, so their names would not tell."""
    path = tmp_path / "learnt.json"
    text = EMULATED + f"predictor: {{kind: headway, state: {path}}}"
    config = config_of(text)
    learnt = {"name": "headway"}
    write_learnt(path, learner_of(config), circumstances(config), learnt)
    assert recipe_of(config).state == learnt
    other = config_of(text.replace("kind: emulated}", "kind: emulated, accelerator: h100-pcie5}"))
    with caplog.at_level(logging.WARNING, logger="headway"):
        assert recipe_of(other).state == {}
    assert "learnt by `headway on a100-pcie4`" in caplog.text


@pytest.fixture
def graph(tmp_path):
    """A matrix product of a megabyte of weights."""
    return write_graph(
        tmp_path / "net.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [tensor("x", "n", 512)],
        weights=[weight("w", 512, 512)],
    )


def served(tmp_path, model, *profiles, calibration=None):
    """The recipe of a server for one model that was given a profile file."""
    path = tmp_path / "profiles.json"
    file = ProfileFile(fingerprint=fingerprint(), profiles=profiles, calibration=calibration)
    write_profiles(path, file)
    data = {"models": [model], "predictor": {"kind": "headway", "profiles": [str(path)]}}
    return recipe_of(Config.model_validate(data))


def onnx_model(path, **settings):
    """As a configuration has it."""
    return {"name": "net", "path": str(path), "backend": "onnx", **settings}


CALIBRATION = Calibration(cores=(0, 1), ceilings=CEILINGS)


def test_a_model_without_a_profile_starts_from_its_graph(tmp_path, graph):
    """Work over ceilings, with times that say they are of no run."""
    settings = {"batch": {"rows_max": 8}}
    (profile,) = served(tmp_path, onnx_model(graph, **settings), calibration=CALIBRATION).profiles
    assert profile.flop_per_row == 2 * 512 * 512
    roof = Roof(flop_per_s=4e10, bytes_per_s=1e10)
    assert [(solo.rows, solo.median_ns, solo.runs) for solo in profile.solo] == [
        (rows, estimate_solo_ns(profile, roof, rows).likely_ns, 0) for rows in (1, 8)
    ]


def test_the_ridge_is_that_of_the_calibration(tmp_path, graph):
    """One core's 40 GFLOP/s over its 10 GB/s; without ceilings it is not known."""
    recipe = served(tmp_path, onnx_model(graph), calibration=CALIBRATION)
    assert recipe.ridge_flop_per_byte == 4.0
    assert served(tmp_path, onnx_model(graph)).ridge_flop_per_byte == 0.0


def test_a_measured_profile_is_not_replaced_by_a_guess(tmp_path, graph):
    """Not even for a shape that was not measured."""
    solo = (SoloTime(rows=1, median_ns=5_000_000, p95_ns=6_000_000, runs=30),)
    measured = ModelProfile(
        model=ModelName("net"), device=DeviceName("cpu:0"), bucket=BucketKey("b"), solo=solo
    )
    recipe = served(tmp_path, onnx_model(graph), measured, calibration=CALIBRATION)
    assert recipe.profiles == (measured,)


def test_no_calibration_means_no_guess(tmp_path, graph):
    """Without ceilings a count of operations is no time."""
    assert served(tmp_path, onnx_model(graph)).profiles == ()


def test_a_graph_that_cannot_be_counted_keeps_nobody_from_serving(tmp_path, caplog):
    """It is said, and the model is learnt from nothing."""
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a graph")
    with caplog.at_level(logging.WARNING, logger="headway"):
        assert served(tmp_path, onnx_model(broken), calibration=CALIBRATION).profiles == ()
    assert "model `net` is learnt from nothing" in caplog.text


def test_a_calibration_of_nothing_keeps_nobody_from_serving(tmp_path, graph, caplog):
    """A ceiling of 0 is no ceiling."""
    none = replace(CEILING, flop_per_s=0.0)
    useless = Calibration(cores=(0,), ceilings=replace(CEILINGS, one=none, every=none))
    with caplog.at_level(logging.WARNING, logger="headway"):
        assert served(tmp_path, onnx_model(graph), calibration=useless).profiles == ()
    assert "measure again: headway calibrate" in caplog.text


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("kind: edf", "kind: edf, class_slots: false", "another `policy.class_slots`"),
        ("kind: edf", "kind: fifo", "another `policy.class_slots`"),
        ("{}", "{allow_spinning: true}", "`m` ran with another `allow_spinning`"),
        ("{}", "{intra_op_threads: 2}", "`m` ran with another number of threads"),
    ],
)
def test_what_was_learnt_at_another_speed_is_not_used(tmp_path, caplog, before, after, reason):
    """Weights of classes and options of a model make other times of the same work."""
    path = tmp_path / "learnt.json"
    text = f"""
policy: {{kind: edf}}
predictor: {{kind: headway, state: {path}}}
models: [{{name: m, path: m.onnx, backend: onnx, options: {{}}}}]
"""
    config = config_of(text)
    write_learnt(path, learner_of(config), circumstances(config), {"name": "headway"})
    same = config_of(text.replace("kind: edf", "kind: priority"))
    assert recipe_of(same).state == {"name": "headway"}
    with caplog.at_level(logging.WARNING, logger="headway"):
        assert recipe_of(config_of(text.replace(before, after))).state == {}
    assert reason in caplog.text


def test_profiles_that_match_nothing_are_named(tmp_path, graph, caplog):
    """A model or a device by another name than when it was measured, each once a file."""

    def profile_of(model, device, bucket=""):
        return ModelProfile(
            model=ModelName(model), device=DeviceName(device), bucket=BucketKey(bucket)
        )

    fitting = profile_of("net", "cpu:0")
    others = [
        profile_of("net", "cpu:1"),
        profile_of("old", "cpu:0"),
        profile_of("old", "cpu:0", "b"),
    ]
    with caplog.at_level(logging.WARNING, logger="headway"):
        served(tmp_path, onnx_model(graph), fitting)
    assert caplog.messages == []
    with caplog.at_level(logging.WARNING, logger="headway"):
        served(tmp_path, onnx_model(graph), fitting, *others)
    (warning,) = caplog.messages
    assert warning.endswith(
        "no configured model and device match `net` on `cpu:1`, `old` on `cpu:0`"
    )
