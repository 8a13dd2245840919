"""Whether the models of a pipeline take and give what its steps say, once they are there to ask.

Functions are asked when they are loaded, for they say what they take by their arguments.
"""

from collections.abc import Mapping

from headway.runtime.engine import ModelStatus
from headway.runtime.pipeline_plan import StepPlan

__all__ = ["misfit_of"]


def misfit_of(step: StepPlan, status: ModelStatus, wanted: Mapping[str, tuple[str, ...]]) -> str:
    """What a step asks of its model that the model has not; empty where they fit.

    Args:
        step: of the pipeline.
        status: of the model that runs it; one that declares nothing fits anything.
        wanted: outputs of each step that somebody takes.
    """
    if step.is_function:
        return ""
    takes = {spec.name for spec in status.inputs}
    gives = {spec.name for spec in status.outputs}
    unknown = [name for name in step.inputs if takes and name not in takes]
    missing = [name for name in takes if name not in step.inputs]
    absent = [name for name in wanted.get(step.name, ()) if gives and name not in gives]
    for names, words in (
        (unknown, "has no input"),
        (missing, "is given no input"),
        (absent, "has no output"),
    ):
        if names:
            return f"model `{step.model}` {words} `{names[0]}`"
    return ""
