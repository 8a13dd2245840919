"""What the steps of a pipeline say of one another: whether they make up a graph that can run.

Knows the names in one configuration. Refuses to know what models take and give: that is seen when
they run.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from headway.config.pipelines import INPUT, PipelineConfig, Reference, StepConfig, reference_of
from headway.config.problem import Keys, Problem
from headway.config.words import choice_hint, is_class_path
from headway.executors import PARAMETERS

if TYPE_CHECKING:
    from headway.config.schema import Config, ModelConfig

__all__ = ["pipeline_problems"]

_OF_MODELS = ("backend", "path", "devices", "batch", "batch_max", "options", "warmup")
"""Settings of an entry that say nothing of a pipeline."""


class _Spot(NamedTuple):
    """A reference, and where it stands."""

    keys: Keys
    text: str
    by: str
    """The step whose input it is; empty for an output of the pipeline."""


def pipeline_problems(config: "Config", model: "ModelConfig", where: Keys) -> Iterator[Problem]:
    """Everything that makes a pipeline invalid."""
    pipeline = model.pipeline
    assert pipeline is not None, "only asked of a pipeline"
    for key in _OF_MODELS:
        if key in model.model_fields_set and not _is_guessed(model, key):
            message = f"`{key}` is a setting of models, and this entry is a pipeline"
            hint = "leave it out, or set it where the steps' models are configured"
            yield Problem((*where, key), str(getattr(model, key)), message, hint)
    yield from _signature_problems(model, pipeline, where)
    at = (*where, "pipeline")
    yield from _device_problem(config, pipeline.pool, (*at, "pool"))
    if pipeline.pool is not None and all(step.function is None for step in pipeline.steps):
        hint = "leave it out: models run on the devices that they are configured with"
        message = f"pipeline `{model.name}` has no function for its pool"
        yield Problem((*at, "pool"), pipeline.pool, message, hint)
    names = Counter(step.name for step in pipeline.steps)
    for index, step in enumerate(pipeline.steps):
        yield from _step_problems(config, step, names, (*at, "steps", index))
    spots = list(_spots(pipeline, at))
    known = {step.name for step in pipeline.steps}
    wrong = [problem for spot in spots for problem in _reference_problems(spot, model, known)]
    yield from wrong
    if not wrong:
        yield from _graph_problems(model, pipeline, spots, where)


def _is_guessed(model: "ModelConfig", key: str) -> bool:
    """`auto` is what an entry says that says nothing."""
    return key == "backend" and model.backend == "auto"


def _signature_problems(
    model: "ModelConfig", pipeline: PipelineConfig, where: Keys
) -> Iterator[Problem]:
    for key, tensors in (("inputs", model.inputs), ("outputs", model.outputs)):
        if not tensors:
            hint = "declare name, datatype and shape of each: clients are told so"
            yield Problem((*where, key), None, f"a pipeline needs `{key}`", hint)
    declared = {tensor.name for tensor in model.outputs}
    for name, text in pipeline.outputs.items():
        if name not in declared:
            message = f"`{name}` is not among the outputs of `{model.name}`"
            keys = (*where, "pipeline", "outputs", name)
            yield Problem(keys, text, message, choice_hint(name, sorted(declared)))
    for index, tensor in enumerate(model.outputs):
        if tensor.name not in pipeline.outputs:
            message = f"pipeline.outputs does not say what `{tensor.name}` is"
            hint = f"add `{tensor.name}: step.output` there"
            yield Problem((*where, "outputs", index), tensor.name, message, hint)


def _device_problem(config: "Config", device: str | None, keys: Keys) -> Iterator[Problem]:
    devices = [each.name for each in config.devices]
    if device is not None and device not in devices:
        yield Problem(keys, device, f"there is no device `{device}`", choice_hint(device, devices))


def _step_problems(
    config: "Config", step: StepConfig, names: Mapping[str, int], at: Keys
) -> Iterator[Problem]:
    if step.name == INPUT or names[step.name] > 1:
        is_taken = (
            "stands for the inputs of the pipeline" if step.name == INPUT else "is used twice"
        )
        hint = "give each step a name of its own"
        yield Problem((*at, "name"), step.name, f"`{step.name}` {is_taken}", hint)
    if (step.model is None) == (step.function is None):
        message = f"step `{step.name}` needs one of `model` and `function`"
        yield Problem(at, step.name, message, "say what it runs, once")
        return
    if step.model is not None:
        yield from _model_step_problems(config, step, at)
        return
    yield from _device_problem(config, step.pool, (*at, "pool"))
    assert step.function is not None, "one of the two is set"
    if not is_class_path(step.function):
        hint = "write `file.py:function` or `module:function`"
        message = f"`{step.function}` names no function"
        yield Problem((*at, "function"), step.function, message, hint)
    if PARAMETERS in step.inputs:
        hint = "call it something else: an argument of this name is handed the request's parameters"
        message = f"`{PARAMETERS}` cannot be an input of a function"
        yield Problem((*at, "inputs", PARAMETERS), step.inputs[PARAMETERS], message, hint)
    if config.devices[0].kind == "emulated":
        hint = "give the server devices of kind `cpu`, or leave functions out"
        yield Problem((*at, "function"), step.function, "emulated devices run no functions", hint)


def _model_step_problems(config: "Config", step: StepConfig, at: Keys) -> Iterator[Problem]:
    models = [each.name for each in config.models if each.pipeline is None]
    if step.model not in models:
        is_pipeline = any(each.name == step.model for each in config.models)
        message = f"`{step.model}` is a pipeline" if is_pipeline else f"no model `{step.model}`"
        hint = "name its steps here" if is_pipeline else choice_hint(step.model, models)
        yield Problem((*at, "model"), step.model, message, hint)
    for key in ("pool", "options", "batch_max"):
        if key in step.model_fields_set:
            message = f"`{key}` is a setting of functions, and step `{step.name}` runs a model"
            hint = "leave it out, or set it where the model is configured"
            yield Problem((*at, key), str(getattr(step, key)), message, hint)


def _spots(pipeline: PipelineConfig, at: Keys) -> Iterator[_Spot]:
    for index, step in enumerate(pipeline.steps):
        keys = (*at, "steps", index)
        for name, text in step.inputs.items():
            yield _Spot((*keys, "inputs", name), text, step.name)
        if step.each is not None:
            yield _Spot((*keys, "each"), step.each, step.name)
    for name, text in pipeline.outputs.items():
        yield _Spot((*at, "outputs", name), text, "")


def _reference_problems(spot: _Spot, model: "ModelConfig", steps: set[str]) -> Iterator[Problem]:
    """Whether a reference names something that there is."""
    found = reference_of(spot.text)
    if found is None:
        hint = "write `step.output`, or `input.name` for an input of the pipeline"
        yield Problem(spot.keys, spot.text, f"`{spot.text}` names no output", hint)
    elif found.step == INPUT:
        inputs = [tensor.name for tensor in model.inputs]
        if found.name not in inputs:
            message = f"`{model.name}` has no input `{found.name}`"
            yield Problem(spot.keys, spot.text, message, choice_hint(found.name, inputs))
        elif not spot.by or spot.keys[-1] == "each":
            message = f"`{spot.text}` is an input of the pipeline, not the output of a step"
            yield Problem(spot.keys, spot.text, message, "name the output of a step")
    elif found.step not in steps:
        message = f"there is no step `{found.step}`"
        yield Problem(spot.keys, spot.text, message, choice_hint(found.step, sorted(steps)))


def _graph_problems(
    model: "ModelConfig", pipeline: PipelineConfig, spots: list[_Spot], where: Keys
) -> Iterator[Problem]:
    """What only the whole graph shows, once every reference names something."""
    at = (*where, "pipeline", "steps")
    needs = {step.name: _needs_of(step) for step in pipeline.steps}
    cycle = _cycle(needs)
    if cycle:
        index = next(i for i, step in enumerate(pipeline.steps) if step.name == cycle[0])
        circle = " -> ".join(f"`{name}`" for name in (*cycle, cycle[0]))
        hint = "a step can only use outputs of steps that end before it begins"
        yield Problem(
            (*at, index, "inputs"), cycle[0], f"steps wait for each other: {circle}", hint
        )
        return
    used = {found.step for spot in spots if (found := reference_of(spot.text)) is not None}
    for index, step in enumerate(pipeline.steps):
        if step.name not in used:
            message = f"nothing uses what step `{step.name}` gives"
            yield Problem((*at, index), step.name, message, "use an output of it, or leave it out")
    taken = {found.name for spot in spots if (found := _own_input(spot)) is not None}
    for index, tensor in enumerate(model.inputs):
        if tensor.name not in taken:
            message = f"no step uses the input `{tensor.name}`"
            hint = f"wire it as `{INPUT}.{tensor.name}`, or leave it out"
            yield Problem((*where, "inputs", index), tensor.name, message, hint)
    yield from _list_problems(pipeline, spots)


def _own_input(spot: _Spot) -> Reference | None:
    found = reference_of(spot.text)
    return found if found is not None and found.step == INPUT else None


def _list_problems(pipeline: PipelineConfig, spots: list[_Spot]) -> Iterator[Problem]:
    """Outputs of steps that run once an item are lists, which neither models nor clients take."""
    steps = {step.name: step for step in pipeline.steps}
    for spot in spots:
        found = reference_of(spot.text)
        if found is None or found.step == INPUT or steps[found.step].each is None:
            continue
        taker = steps.get(spot.by)
        if taker is None or (taker.model is not None and taker.each is None):
            what = f"step `{spot.by}` runs a model" if taker else "it is an output of the pipeline"
            message = f"`{spot.text}` is a list, for `{found.step}` runs once an item, and {what}"
            hint = "let a function make one array of the list"
            yield Problem(spot.keys, spot.text, message, hint)


def _needs_of(step: StepConfig) -> list[str]:
    texts = [*step.inputs.values(), *([] if step.each is None else [step.each])]
    found = [reference_of(text) for text in texts]
    return list(dict.fromkeys(each.step for each in found if each and each.step != INPUT))


def _cycle(needs: Mapping[str, list[str]]) -> list[str]:
    """Steps that wait for each other, each for the next; none where there are none."""
    done: set[str] = set()
    for start in needs:
        path: list[str] = []
        trail = [iter([start])]
        while trail:
            name = next(trail[-1], None)
            if name is None:
                trail.pop()
                if path:
                    done.add(path.pop())
            elif name in path:
                return path[path.index(name) :]
            elif name not in done:
                path.append(name)
                trail.append(iter(needs[name]))
    return []
