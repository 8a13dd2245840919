"""A model entry that is a pipeline: what it may say, and how each mistake is told."""

import re
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import yaml

from headway.app.pipelines import pipeline_plans
from headway.config import Config, functions_of, load_config
from headway.errors import ConfigError
from headway.executors.backend import open_model
from headway.runtime import Source

GUIDE = Path(__file__).parents[2] / "docs/guides/pipelines.md"

GOOD = """
devices: [{name: "cpu:0", cores: [0]}, {name: "cpu:1", cores: [0]}]
tiers: {fast: {budget: 1s}, slow: {priority: 5}}
models:
  - {name: detect, path: detect.onnx}
  - {name: read, path: read.onnx}
  - name: ocr
    tier: fast
    inputs: [{name: page, datatype: UINT8, shape: [-1, -1, 3]}]
    outputs: [{name: lines, datatype: BYTES, shape: [-1]}]
    queue: {requests_max: 7, bytes_max: 1MiB}
    pipeline:
      pool: "cpu:1"
      items_max: 9
      outputs: {lines: text.lines}
      steps:
        - {name: encode, function: "steps.py:encode", inputs: {page: input.page}}
        - {name: detect, model: detect, inputs: {x: encode.x}}
        - name: crop
          function: "steps.py:crop"
          pool: "cpu:0"
          batch_max: 5s
          inputs: {page: input.page, ink: detect.sigmoid_0.tmp_0}
        - {name: read, model: read, each: crop.line, inputs: {x: crop.line}}
        - name: text
          function: "steps.py:Text"
          options: {alphabet: latin}
          inputs: {columns: read.character}
"""


def loaded(tmp_path, change=lambda ocr: None):
    """The configuration with something changed about the pipeline."""
    data = yaml.safe_load(GOOD)
    change(data["models"][2])
    path = tmp_path / "serve.yaml"
    path.write_text(yaml.safe_dump(data))
    return load_config(path).config


def test_pipeline_becomes_a_plan(tmp_path):
    """Steps, sources, limits and tier as written; an output's name may have dots."""
    (plan,) = pipeline_plans(loaded(tmp_path))
    assert (plan.name, plan.tier, plan.runs_max, plan.bytes_max, plan.items_max) == (
        "ocr", "fast", 7, 1 << 20, 9,
    )  # fmt: skip
    steps = {step.name: step for step in plan.steps}
    assert steps["crop"].inputs == {
        "page": Source("", "page"),
        "ink": Source("detect", "sigmoid_0.tmp_0"),
    }
    assert (steps["read"].model, steps["read"].each) == ("read", Source("crop", "line"))
    assert plan.sources == {"lines": Source("text", "lines")}
    assert plan.functions == ("ocr/encode", "ocr/crop", "ocr/text")


def test_functions_become_models_of_the_pool(tmp_path):
    """Each on its device, with its options, and with the names that it will be called with."""
    config = loaded(tmp_path)
    functions = {each.params.name: each for each in functions_of(config)}
    devices = {name: each.params.devices for name, each in functions.items()}
    assert devices == {
        "ocr/encode": ("cpu:1",), "ocr/crop": ("cpu:0",), "ocr/text": ("cpu:1",),
    }  # fmt: skip
    text = functions["ocr/text"].spec
    assert (text.backend, text.options, text.arguments) == (
        "python", {"alphabet": "latin"}, ("columns",),
    )  # fmt: skip
    assert text.path == f"{tmp_path}/steps.py:Text"
    assert functions["ocr/crop"].params.batch_ns_max == 5 * 10**9
    assert [model.name for model in config.served] == ["detect", "read"]


def step(ocr, name):
    return next(each for each in ocr["pipeline"]["steps"] if each["name"] == name)


MISTAKES = {
    "cycle": (
        lambda ocr: step(ocr, "encode")["inputs"].update(ink="detect.x"),
        "models.2.pipeline.steps.0.inputs",
        "steps wait for each other: `encode` -> `detect` -> `encode`",
    ),
    "itself": (
        lambda ocr: step(ocr, "encode")["inputs"].update(ink="encode.x"),
        "models.2.pipeline.steps.0.inputs",
        "steps wait for each other: `encode` -> `encode`",
    ),
    "unknown step": (
        lambda ocr: step(ocr, "detect")["inputs"].update(x="encoder.x"),
        "models.2.pipeline.steps.1.inputs.x",
        "there is no step `encoder`",
    ),
    "unknown input": (
        lambda ocr: step(ocr, "encode")["inputs"].update(page="input.pages"),
        "models.2.pipeline.steps.0.inputs.page",
        "`ocr` has no input `pages`",
    ),
    "no reference": (
        lambda ocr: step(ocr, "encode")["inputs"].update(page="page"),
        "models.2.pipeline.steps.0.inputs.page",
        "`page` names no output",
    ),
    "unknown model": (
        lambda ocr: step(ocr, "detect").update(model="detekt"),
        "models.2.pipeline.steps.1.model",
        "no model `detekt`",
    ),
    "pipeline as model": (
        lambda ocr: step(ocr, "detect").update(model="ocr"),
        "models.2.pipeline.steps.1.model",
        "`ocr` is a pipeline",
    ),
    "two things": (
        lambda ocr: step(ocr, "detect").update(function="steps.py:f"),
        "models.2.pipeline.steps.1",
        "step `detect` needs one of `model` and `function`",
    ),
    "nothing": (
        lambda ocr: step(ocr, "detect").pop("model"),
        "models.2.pipeline.steps.1",
        "step `detect` needs one of `model` and `function`",
    ),
    "no function": (
        lambda ocr: step(ocr, "encode").update(function="steps.py"),
        "models.2.pipeline.steps.0.function",
        "names no function",
    ),
    "parameters as input": (
        lambda ocr: step(ocr, "encode")["inputs"].update(parameters="input.page"),
        "models.2.pipeline.steps.0.inputs.parameters",
        "`parameters` cannot be an input of a function",
    ),
    "unknown pool": (
        lambda ocr: ocr["pipeline"].update(pool="cpu:7"),
        "models.2.pipeline.pool",
        "there is no device `cpu:7`",
    ),
    "pool for no function": (
        lambda ocr: ocr.update(
            outputs=[{"name": "y", "datatype": "FP32", "shape": [-1]}],
            pipeline={
                "pool": "cpu:1",
                "steps": [{"name": "read", "model": "read", "inputs": {"x": "input.page"}}],
                "outputs": {"y": "read.y"},
            },
        ),
        "models.2.pipeline.pool",
        "has no function for its pool",
    ),
    "unknown pool of a step": (
        lambda ocr: step(ocr, "crop").update(pool="cpu:7"),
        "models.2.pipeline.steps.2.pool",
        "there is no device `cpu:7`",
    ),
    "pool of a model": (
        lambda ocr: step(ocr, "detect").update(pool="cpu:1"),
        "models.2.pipeline.steps.1.pool",
        "`pool` is a setting of functions",
    ),
    "unused step": (
        lambda ocr: ocr["pipeline"]["steps"].append(
            {"name": "spare", "model": "read", "inputs": {"x": "encode.x"}}
        ),
        "models.2.pipeline.steps.5",
        "nothing uses what step `spare` gives",
    ),
    "unused input": (
        lambda ocr: ocr["inputs"].append({"name": "dpi", "datatype": "INT32", "shape": [1]}),
        "models.2.inputs.1",
        "no step uses the input `dpi`",
    ),
    "undeclared output": (
        lambda ocr: ocr["pipeline"]["outputs"].update(text="text.lines"),
        "models.2.pipeline.outputs.text",
        "`text` is not among the outputs of `ocr`",
    ),
    "output without a source": (
        lambda ocr: ocr["outputs"].append({"name": "boxes", "datatype": "INT32", "shape": [-1]}),
        "models.2.outputs.1",
        "pipeline.outputs does not say what `boxes` is",
    ),
    "no outputs": (
        lambda ocr: ocr.pop("outputs"),
        "models.2.outputs",
        "a pipeline needs `outputs`",
    ),
    "input as output": (
        lambda ocr: ocr["pipeline"]["outputs"].update(lines="input.page"),
        "models.2.pipeline.outputs.lines",
        "`input.page` is an input of the pipeline, not the output of a step",
    ),
    "twice": (
        lambda ocr: ocr["pipeline"]["steps"].append(deepcopy(step(ocr, "crop"))),
        "models.2.pipeline.steps.2.name",
        "`crop` is used twice",
    ),
    "reserved name": (
        lambda ocr: step(ocr, "crop").update(name="input"),
        "models.2.pipeline.steps.2.name",
        "`input` stands for the inputs of the pipeline",
    ),
    "list as output": (
        lambda ocr: ocr["pipeline"]["outputs"].update(lines="read.character"),
        "models.2.pipeline.outputs.lines",
        "`read.character` is a list",
    ),
    "list for a model": (
        lambda ocr: ocr["pipeline"]["steps"].insert(
            0, {"name": "again", "model": "read", "inputs": {"x": "read.character"}}
        ),
        "models.2.pipeline.steps.0.inputs.x",
        "`read.character` is a list",
    ),
    "a path too": (
        lambda ocr: ocr.update(path="ocr.onnx"),
        "models.2.path",
        "`path` is a setting of models",
    ),
    "batch too": (
        lambda ocr: ocr.update(batch={"rows_max": 4}),
        "models.2.batch",
        "`batch` is a setting of models",
    ),
    "unknown tier": (
        lambda ocr: ocr.update(tier="gold"),
        "models.2.tier",
        "there is no tier `gold`",
    ),
    "unknown setting": (
        lambda ocr: step(ocr, "crop").update(inputz={}),
        "models.2.pipeline.steps.2.inputz",
        "`inputz` is not a setting",
    ),
}


@pytest.mark.parametrize(("change", "path", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistake_is_told_with_its_place_and_a_remedy(tmp_path, change, path, message):
    """Path, value and what to do, as for every other setting."""
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, change)
    told = [str(caught.value), *getattr(caught.value, "__notes__", [])]
    found = [line for line in told if f"{path}: " in line and message in line]
    assert found, told
    assert "hint: " in found[0]


def test_guide_is_right(tmp_path):
    """Its configuration is valid, its functions can be called as wired, and do what it says."""
    text = GUIDE.read_text("utf-8")
    (yaml_block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (python_block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "serve.yaml").write_text(yaml_block)
    (tmp_path / "steps.py").write_text(python_block)
    config = load_config(tmp_path / "serve.yaml", environ={}).config
    encode, crop, text_step = [open_model(each.spec) for each in functions_of(config)]
    page = np.zeros((3, 4, 3), np.uint8)
    assert encode.infer({"page": page}, (), {})["x"].shape == (1, 3, 3, 4)
    given = crop.infer({"page": page, "ink": np.asarray([0, 1, 1], np.float32)}, (), {})
    assert given["line[]"].tolist() == [2]
    columns = {"columns[]": np.asarray([1]), "columns[0]": np.asarray([[2, 0]])}
    assert text_step.infer(columns, (), {})["lines"].tolist() == ["ca"]


def test_emulated_devices_run_no_functions():
    """A pipeline of models alone may be played there."""
    tensor = {"datatype": "FP32", "shape": [-1, 4]}
    model = {
        "name": "m",
        "inputs": [{"name": "x", **tensor}],
        "outputs": [{"name": "y", **tensor}],
        "options": {"solo": "1ms"},
    }
    pipe = {
        "name": "p",
        "inputs": [{"name": "x", **tensor}],
        "outputs": [{"name": "y", **tensor}],
        "pipeline": {
            "outputs": {"y": "only.y"},
            "steps": [{"name": "only", "model": "m", "inputs": {"x": "input.x"}}],
        },
    }
    data = {"devices": [{"name": "gpu:0", "kind": "emulated"}], "models": [model, pipe]}
    assert len(pipeline_plans(Config.model_validate(data))) == 1
    pipe["pipeline"]["steps"][0] = {
        "name": "only", "function": "f.py:f", "inputs": {"x": "input.x"},
    }  # fmt: skip
    with pytest.raises(ValueError, match="emulated devices run no functions"):
        Config.model_validate(data)
