"""A model entry that is a graph of steps: the section `pipeline`.

Knows what may be written, and how one setting names the output of another. Refuses to know how
steps run.
"""

from typing import Annotated, NamedTuple

from pydantic import Field

from headway.config.quantities import PositiveDuration
from headway.config.section import Count, Name, Section
from headway.units import NS_PER_S

__all__ = ["INPUT", "PipelineConfig", "Reference", "StepConfig", "reference_of"]

INPUT = "input"
"""Where the pipeline's own inputs come from; no step is called so."""

StepName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=64)]
OptionValue = bool | int | float | str


class StepConfig(Section):
    """A step: a model, or a Python function."""

    name: StepName
    """By which other steps name its outputs."""
    model: Name | None = None
    """A model of this file that the step runs; one of `model` and `function` is required."""
    function: str | None = Field(default=None, min_length=1)
    """A Python function that the step runs, `file.py:name` or `module:name`: its arguments are the
    step's inputs, as arrays, and it returns its outputs by name. A class is made into an object
    once, and that is called. Relative paths start at this file's folder."""
    inputs: dict[str, str] = Field(min_length=1)
    """What each input of the model or argument of the function is: `step.output`, or `input.name`
    for an input of the pipeline. Where it is a list, a function is handed a list."""
    each: str | None = None
    """A list, as `step.output`: the step runs once for each of its items, all at once, and its
    outputs are lists in the same order. Inputs that are lists are handed over item by item."""
    pool: Name | None = None
    """Device that a function runs on; without it the pipeline's."""
    options: dict[str, OptionValue] = Field(default_factory=dict)
    """Keyword arguments of the function, or of the class when its object is made."""
    batch_max: PositiveDuration = 60 * NS_PER_S
    """A function that runs longer is taken for hung, and its worker is replaced."""


class PipelineConfig(Section):
    """A graph of steps. Each starts as soon as its inputs are there."""

    steps: tuple[StepConfig, ...] = Field(min_length=1, max_length=64)
    """In any order."""
    outputs: dict[str, str] = Field(min_length=1)
    """What each output of the pipeline is, as `step.output`; `outputs` of the model says what they
    are like. Where a client asks for some of them only, only the steps that they need are run."""
    pool: Name | None = None
    """Device that functions run on; without it the first. Give them cores of their own, and they
    run beside the models of other requests."""
    items_max: Count = 256
    """Items of a list; a request with more fails."""


class Reference(NamedTuple):
    """An output of a step, or an input of the pipeline."""

    step: str
    """`input` for the pipeline itself."""
    name: str


def reference_of(text: str) -> Reference | None:
    """What `step.output` names; the output's name may have dots. None where it names nothing."""
    step, dot, name = text.partition(".")
    return Reference(step, name) if step and dot and name else None
