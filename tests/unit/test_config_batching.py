"""The section `batch` of a model: what it may say, and what is built from it."""

import re
from pathlib import Path

import pytest
import yaml

from headway.config import Config, load_config, model_params, model_spec, with_model
from headway.executors import AxisBuckets, RaggedInputs

GUIDE = Path(__file__).parents[2] / "docs/guides/batching.md"
MODEL = {"name": "m", "path": "m.py:M", "backend": "python"}


def config_with(batch: str, **model: object) -> Config:
    """One model with this section, in YAML."""
    section = yaml.safe_load(batch) or {}
    return Config.model_validate({"models": [{**MODEL, "batch": section, **model}]})


def spec_with(batch: str, **model: object):
    config = config_with(batch, **model)
    return model_spec(config, config.models[0])


def test_buckets_are_handed_to_whoever_loads_the_model():
    """Sizes, axes and pads as they were written; a size beyond them is refused by default."""
    text = """
    buckets:
      - sizes: [32, 64]
        inputs: {input_ids: 1, attention_mask: 1}
        outputs: {hidden: 1}
        pad: {input_ids: 7}
      - {sizes: [8], inputs: {sound: 2}, larger: unpadded}
    """
    spec = spec_with(text)
    assert spec.buckets == (
        AxisBuckets(
            sizes=(32, 64),
            inputs={"input_ids": 1, "attention_mask": 1},
            outputs={"hidden": 1},
            pads={"input_ids": 7.0},
        ),
        AxisBuckets(sizes=(8,), inputs={"sound": 2}, is_strict=False),
    )
    assert spec.ragged is None


def test_ragged_inputs_are_handed_to_whoever_loads_the_model():
    """By name, and with the input that is given their lengths."""
    spec = spec_with("ragged: {inputs: [ids], lengths: sizes}")
    assert spec.ragged == RaggedInputs(inputs=("ids",), lengths="sizes")


@pytest.mark.parametrize(
    ("batch", "can_split", "segments_max"),
    [
        ("", False, 8),
        ("oversize: refuse", False, 8),
        ("oversize: split", True, 8),
        ("{oversize: split, segments_max: 3}", True, 3),
    ],
)
def test_rows_are_split_only_where_that_is_written(batch, can_split, segments_max):
    """Whether rows depend on each other is known to whoever made the model, and to nobody else."""
    config = config_with(batch)
    params = model_params(config, config.models[0])
    assert (params.can_split, params.segments_max) == (can_split, segments_max)


@pytest.mark.parametrize(
    ("batch", "is_needed"),
    [
        ("", False),
        ("rows_max: 1", False),
        ("rows_max: 8", True),
        ("linger: 2ms", True),
        ("oversize: split", True),
        ("buckets: [{sizes: [8], inputs: {x: 1}}]", True),
        ("ragged: {inputs: [x], lengths: n}", True),
    ],
)
def test_what_asks_for_batches_needs_a_model_that_can(batch, is_needed):
    """A default asks for nothing; whatever was written is not dropped in silence (kserve#2275)."""
    assert spec_with(batch).needs_batch is is_needed


def test_override_of_one_setting_does_not_ask_for_batches():
    """A reload that changes the path leaves what nobody set as it was."""
    config = with_model(config_with(""), "m", {"path": "other.py:M"})
    assert model_spec(config, config.models[0]).needs_batch is False


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ("buckets: [{sizes: [64, 32], inputs: {x: 1}}]", "`[64, 32]` does not ascend"),
        ("buckets: [{sizes: [32, 32], inputs: {x: 1}}]", "`[32, 32]` does not ascend"),
        (
            "buckets: [{sizes: [8], inputs: {x: 1}, pad: {z: 1}}]",
            "`z` is not among the inputs that are padded",
        ),
        (
            "buckets: [{sizes: [8], inputs: {x: 1}}, {sizes: [9], inputs: {x: 1}}]",
            "axis 1 of `x` is padded by buckets.0 already",
        ),
        ("ragged: {inputs: [x], lengths: x}", "`x` cannot be ragged and say how long"),
        (
            "{ragged: {inputs: [x], lengths: n}, buckets: [{sizes: [8], inputs: {x: 1}}]}",
            "`x` is ragged, so it is not padded",
        ),
        (
            "{ragged: {inputs: [x], lengths: n}, oversize: split}",
            "ragged inputs cannot be split into parts",
        ),
        ("buckets: [{sizes: [], inputs: {x: 1}}]", "at least 1 item"),
        ("buckets: [{sizes: [8], inputs: {x: 0}}]", "greater than or equal to 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(batch, message):
    """Each contradiction is named when the file is read."""
    with pytest.raises(ValueError, match=re.escape(message)):
        config_with(batch)


def test_batches_of_tensors_declared_without_a_batch_axis_are_refused():
    """Where the file itself says that there is none, the file is wrong, not the model."""
    shapes = {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [4]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}],
    }
    assert config_with("", **shapes).models[0].inputs
    with pytest.raises(ValueError, match=r"`\[4\]` has no batch axis") as refused:
        config_with("linger: 2ms", **shapes)
    assert "models.0.inputs.0.shape" in str(refused.value)


def test_configurations_of_the_guide_are_valid(tmp_path):
    """What the guide shows can be copied."""
    blocks = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 4
    for index, block in enumerate(blocks):
        path = tmp_path / f"{index}.yaml"
        path.write_text(block)
        assert len(load_config(path, environ={}).config.models) == 1
