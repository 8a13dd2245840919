"""`pairwise`: a factor for each neighbour, by what the two are bound by, blended with experience.

Knows whether a model is bound by compute or by memory, and how much slower it was beside whom.
Refuses to know lanes, how much of a neighbour is left, and what will start later.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from headway.core import ModelName
from headway.predict.profile import ModelProfile
from headway.predict.recent import Recent
from headway.predict.scene import Ended, Scene

__all__ = ["Bound", "PairwiseModel", "bound_of"]

_WINDOW = 20
_SEEN_MIN = 5
_HISTORY_RATIO = 0.6
_MEMORY_BOUND_RATIO: Final = 0.2
"""A model that takes this part of the bandwidth from the other lanes, or is slowed by this much
while they stream flat out, is bound by memory: nearly what the rule says of two such models side by
side, and well beyond the noise of the probes."""
_FACTOR_MAX = 100.0
"""An execution that was slower than this beside its neighbours was hung, not slowed."""


class Bound(StrEnum):
    """What limits a model when it has the device to itself."""

    COMPUTE = "compute"
    MEMORY = "memory"
    __hash__ = str.__hash__


_RULE: Final[dict[tuple[Bound, Bound], float]] = {
    (Bound.MEMORY, Bound.MEMORY): 1.25,
    (Bound.MEMORY, Bound.COMPUTE): 1.08,
    (Bound.COMPUTE, Bound.MEMORY): 1.08,
    (Bound.COMPUTE, Bound.COMPUTE): 1.15,
}


def bound_of(profile: ModelProfile | None, ridge_flop_per_byte: float) -> Bound:
    """By the probes from lane to lane if there are any, else by the ridge; compute when in doubt.

    Args:
        profile: What was measured of the model.
        ridge_flop_per_byte: Arithmetic intensity at which the device's compute ceiling meets its
            bandwidth ceiling; a model below it is bound by memory. 0 where it is not known.
            Traffic is taken midway, as a geometric mean, between the graph's fused and unfused
            bounds.
    """
    if profile is None:
        return Bound.COMPUTE
    pressures = profile.pressures
    bandwidth_ratio = max(pressures.bandwidth_demand, pressures.bandwidth_sensitivity)
    if bandwidth_ratio > 0.0 or pressures.compute_sensitivity > 0.0:
        return Bound.MEMORY if bandwidth_ratio >= _MEMORY_BOUND_RATIO else Bound.COMPUTE
    low, high = sorted((profile.bytes_per_row_fused, profile.bytes_per_row_unfused))
    traffic = (low * high) ** 0.5 if low > 0.0 else high
    if not ridge_flop_per_byte or traffic <= 0.0 or profile.flop_per_row <= 0.0:
        return Bound.COMPUTE
    return Bound.MEMORY if profile.flop_per_row / traffic < ridge_flop_per_byte else Bound.COMPUTE


class PairwiseModel:
    """T = T_solo · Π f(own, neighbour), in nanoseconds: the rule, blended with what was observed.

    The rule: f = 1.25 if both are bound by memory, 1.15 if both by compute, 1.08 if one by each.
    Planning with a factor for each pair that shares an accelerator is the idea of gpulet (ATC 2022)
    and of the pair tables of cluster schedulers such as Gavel (OSDI 2020). They profile the pairs,
    or counters of both; here a class stands in, so that no pair need be run beforehand, and the
    product extends pairs to any number of neighbours.

    Experience: an execution beside n neighbours gives each of them (T / T_solo)^(1/n). Of each
    ordered pair of models the last 20 are kept; once 5 were seen, f = 0.6 · mean + 0.4 · rule.
    Until then the mean is that of the ordered pair of classes, once that has seen 5.

    Invariants: never below the solo time; one more neighbour never shortens the answer.
    Cost: O(neighbours).
    """

    name = "pairwise"

    def __init__(
        self,
        profiles: Mapping[ModelName, ModelProfile] | None = None,
        *,
        ridge_flop_per_byte: float = 0.0,
    ) -> None:
        self._bounds = {
            model: bound_of(profile, ridge_flop_per_byte)
            for model, profile in (profiles or {}).items()
        }
        self._models = Recent(_WINDOW)
        """Observed factors of ordered pairs of models."""
        self._classes = Recent(_WINDOW)
        """The same of what they are bound by."""

    def execution_ns(self, scene: Scene) -> float:
        """The solo time by the factor of every neighbour."""
        own = scene.run.model
        factor = 1.0
        for neighbour in scene.neighbours:
            factor *= self._factor(own, neighbour.run.model)
        return scene.base_ns * min(factor, _FACTOR_MAX)

    def learn(self, ended: Ended) -> None:
        """Each neighbour at the start gets an equal part of the slowdown."""
        scene = ended.scene
        if not scene.neighbours:
            return
        slowdown = min(ended.execution_ns / max(1.0, scene.base_ns), _FACTOR_MAX)
        factor = max(0.0, slowdown) ** (1.0 / len(scene.neighbours))
        own = scene.run.model
        for neighbour in scene.neighbours:
            other = neighbour.run.model
            self._models.add((own, other), factor)
            self._classes.add((self._bound(own), self._bound(other)), factor)

    def state(self) -> dict[str, object]:
        """The last 20 factors of each ordered pair."""
        return {"models": self._models.state(), "classes": self._classes.state()}

    def restore(self, state: dict[str, object]) -> None:
        """Take up what `state` gave."""
        self._models.restore(state.get("models"))
        self._classes.restore(state.get("classes"))

    def _bound(self, model: ModelName) -> Bound:
        return self._bounds.get(model, Bound.COMPUTE)

    def _factor(self, own: ModelName, other: ModelName) -> float:
        classes = (self._bound(own), self._bound(other))
        rule = _RULE[classes]
        observed = self._models.mean((own, other), _SEEN_MIN)
        if observed is None:
            observed = self._classes.mean(classes, _SEEN_MIN)
        if observed is None:
            return rule
        return max(1.0, _HISTORY_RATIO * observed + (1.0 - _HISTORY_RATIO) * rule)
