"""The functions of pipelines as models of the Python back end, which nobody but the pipeline calls.

Knows what kernel and workers take. Their names have a `/`, which no configured name may have, so
that no model can be taken for one.
"""

from collections.abc import Iterator
from typing import NamedTuple

from headway.config.pipelines import StepConfig
from headway.config.schema import Backend, Config, ModelConfig
from headway.core import DeviceName, ModelName, ModelParams
from headway.executors import ModelSpec

__all__ = ["StepFunction", "function_name", "functions_of"]


class StepFunction(NamedTuple):
    """A function, ready to be loaded."""

    pipeline: ModelConfig
    params: ModelParams
    spec: ModelSpec


def function_name(pipeline: str, step: str) -> ModelName:
    """Under which a function is loaded."""
    return ModelName(f"{pipeline}/{step}")


def functions_of(config: Config) -> Iterator[StepFunction]:
    """Those of all pipelines, in the order of the configuration."""
    for model in config.models:
        for step in model.pipeline.steps if model.pipeline is not None else ():
            if step.function is not None:
                yield StepFunction(model, _params(config, model, step), _spec(model, step))


def _params(config: Config, model: ModelConfig, step: StepConfig) -> ModelParams:
    assert model.pipeline is not None, "only asked of a pipeline"
    pool = step.pool or model.pipeline.pool or config.devices[0].name
    return ModelParams(
        name=function_name(model.name, step.name),
        version=model.version,
        devices=(DeviceName(pool),),
        batch_rows_max=1,
        queue_requests_max=model.queue.requests_max,
        queue_bytes_max=model.queue.bytes_max,
        batch_ns_max=step.batch_max,
    )


def _spec(model: ModelConfig, step: StepConfig) -> ModelSpec:
    assert step.function is not None, "only asked of a function"
    return ModelSpec(
        name=function_name(model.name, step.name),
        version=model.version,
        backend=str(Backend.PYTHON),
        path=step.function,
        options=dict(step.options),
        arguments=tuple(step.inputs),
    )
