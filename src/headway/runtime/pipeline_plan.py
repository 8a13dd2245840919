"""A pipeline as data: steps, what each takes from which, and the part of it that a call needs.

Knows names and the graph. Refuses to know requests, time and tensors.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from headway.core import ModelName, TierName
from headway.executors import TensorSpec

__all__ = ["Graph", "Part", "PipelinePlan", "Source", "StepPlan"]


class Source(NamedTuple):
    """An output of a step, or an input of the pipeline."""

    step: str
    """Empty for the pipeline itself."""
    name: str


class StepPlan(Struct, frozen=True, kw_only=True):
    """A step."""

    name: str
    model: ModelName
    """What runs it; of a function the name that it is loaded under."""
    is_function: bool = False
    """It takes lists, and says what it gives only by giving it."""
    inputs: Mapping[str, Source]
    each: Source | None = None
    """The list for whose items it runs, once each."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """All that it takes, each once."""
        each = () if self.each is None else (self.each,)
        return tuple(dict.fromkeys((*self.inputs.values(), *each)))


class PipelinePlan(Struct, frozen=True, kw_only=True):
    """A pipeline: what clients see of it, its steps, and its limits.

    Invariants: the steps make up a graph without circles; every source names what there is.
    """

    name: ModelName
    version: str = "1"
    tier: TierName
    """Of calls that name none."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    sources: Mapping[str, Source]
    """Where each output comes from."""
    steps: tuple[StepPlan, ...]
    runs_max: int = 1024
    """Calls that may be under way."""
    bytes_max: int = 1 << 30
    """Bytes that they may hold: what clients sent, and what steps gave for later ones."""
    items_max: int = 256

    @property
    def functions(self) -> tuple[ModelName, ...]:
        """Models that are of this pipeline alone."""
        return tuple(step.model for step in self.steps if step.is_function)


class Part(Struct, frozen=True, kw_only=True, eq=False):
    """The steps that some outputs need: of a call that wants all outputs, all of them."""

    outputs: tuple[TensorSpec, ...]
    """In the order in which the client is answered."""
    steps: dict[str, StepPlan]
    """Each after those whose outputs it takes."""
    takers: Mapping[str, tuple[str, ...]]
    """Steps that wait for a step, for each."""
    needs: Mapping[str, int]
    """How many steps each step waits for."""
    wanted: Mapping[str, tuple[str, ...]]
    """Outputs of each step that somebody takes."""
    uses: Mapping[Source, int]
    """How many steps take a source, plus one if it is an output of the pipeline."""


class Graph:
    """The steps of one pipeline, sorted."""

    __slots__ = ("_parts", "plan", "steps")

    def __init__(self, plan: PipelinePlan) -> None:
        self.plan = plan
        self.steps = _sorted(plan.steps)
        self._parts: dict[frozenset[str], Part] = {}

    def part(self, outputs: Sequence[str]) -> Part:
        """What a call that wants these outputs needs; all of them where it names none.

        Cost: a look-up, for a set of outputs met before.
        """
        specs = {spec.name: spec for spec in self.plan.outputs}
        names = tuple(outputs) or tuple(specs)
        key = frozenset(names)
        part = self._parts.get(key)
        if part is None:
            part = self._part_of(key)
            if len(self._parts) < _PARTS_MAX:
                self._parts[key] = part
        if tuple(spec.name for spec in part.outputs) == names:
            return part
        return _in_order(part, tuple(specs[name] for name in names))

    def _part_of(self, names: frozenset[str]) -> Part:
        results = {self.plan.sources[name] for name in names}
        kept: dict[str, StepPlan] = {}
        needed = {source.step for source in results}
        for step in reversed(self.steps):
            if step.name in needed:
                kept[step.name] = step
                needed.update(source.step for source in step.sources)
        steps = dict(reversed(kept.items()))
        waits = {name: _steps_before(step) for name, step in steps.items()}
        uses = Counter(source for step in steps.values() for source in step.sources)
        uses.update(results)
        return Part(
            outputs=tuple(spec for spec in self.plan.outputs if spec.name in names),
            steps=steps,
            takers={
                name: tuple(other for other, before in waits.items() if name in before)
                for name in steps
            },
            needs={name: len(before) for name, before in waits.items()},
            wanted={
                name: tuple(sorted(source.name for source in uses if source.step == name))
                for name in steps
            },
            uses=dict(uses),
        )


_PARTS_MAX = 256
"""Sets of outputs whose parts are remembered."""


def _in_order(part: Part, outputs: tuple[TensorSpec, ...]) -> Part:
    return Part(
        outputs=outputs,
        steps=part.steps,
        takers=part.takers,
        needs=part.needs,
        wanted=part.wanted,
        uses=part.uses,
    )


def _steps_before(step: StepPlan) -> frozenset[str]:
    return frozenset(source.step for source in step.sources if source.step)


def _sorted(steps: Sequence[StepPlan]) -> tuple[StepPlan, ...]:
    """Each after those whose outputs it takes; else in the order in which they are written."""
    left = {step.name: step for step in steps}
    done: dict[str, StepPlan] = {}
    while left:
        ready = [step for step in left.values() if done.keys() >= _steps_before(step)]
        assert ready, f"steps wait for each other: {', '.join(left)}"
        for step in ready:
            done[step.name] = left.pop(step.name)
    return tuple(done.values())
