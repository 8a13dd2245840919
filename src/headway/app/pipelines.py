"""Pipelines of the configuration as the runtime serves them. No decisions are taken here."""

from headway.config import (
    INPUT,
    Config,
    ModelConfig,
    StepConfig,
    function_name,
    reference_of,
    tensor_specs,
    tier_of,
)
from headway.core import ModelName
from headway.runtime import PipelinePlan, Source, StepPlan

__all__ = ["pipeline_plans"]


def pipeline_plans(config: Config) -> tuple[PipelinePlan, ...]:
    """Every pipeline."""
    return tuple(_plan(config, model) for model in config.models if model.pipeline is not None)


def _plan(config: Config, model: ModelConfig) -> PipelinePlan:
    pipeline = model.pipeline
    assert pipeline is not None, "only asked of a pipeline"
    return PipelinePlan(
        name=ModelName(model.name),
        version=model.version,
        tier=tier_of(config, model).name,
        inputs=tensor_specs(model.inputs),
        outputs=tensor_specs(model.outputs),
        sources={name: _source(text) for name, text in pipeline.outputs.items()},
        steps=tuple(_step(model, step) for step in pipeline.steps),
        runs_max=model.queue.requests_max,
        bytes_max=model.queue.bytes_max,
        items_max=pipeline.items_max,
    )


def _step(model: ModelConfig, step: StepConfig) -> StepPlan:
    is_function = step.model is None
    runs = function_name(model.name, step.name) if is_function else ModelName(str(step.model))
    return StepPlan(
        name=step.name,
        model=runs,
        is_function=is_function,
        inputs={name: _source(text) for name, text in step.inputs.items()},
        each=None if step.each is None else _source(step.each),
    )


def _source(text: str) -> Source:
    found = reference_of(text)
    assert found is not None, "the configuration was checked"
    return Source("" if found.step == INPUT else found.step, found.name)
