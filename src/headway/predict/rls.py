"""`rls`: the slowdown is linear in pressures and counts of neighbours, learnt as it goes.

Knows pressures, lanes and remaining times of those that run, and the length of the queue. Refuses
to know how the set of neighbours changes while a batch runs: what that does on average is learnt.
"""

from collections.abc import Mapping
from operator import mul
from typing import Final

import numpy as np

from headway.core import ModelName
from headway.predict.kinds import Kinds
from headway.predict.least_squares import LeastSquares
from headway.predict.profile import ModelProfile, Pressures
from headway.predict.scene import Ended, Scene

__all__ = ["RlsModel"]

_UNKNOWN: Final = Pressures()
_FEATURES: Final = 15
_KINDS_MAX: Final = 24
"""Kinds with an offset and a slope of their own; all later ones share the last."""
_WIDTH: Final = _FEATURES + 2 * _KINDS_MAX
_VARIANCE_FIRST: Final = 1.0
_VARIANCE_KIND_FIRST: Final = 3.0
_SLOWDOWN_MIN: Final = 0.25
_SLOWDOWN_MAX: Final = 64.0
_NS_MAX: Final = 1 << 62


class RlsModel:
    """T = T_solo · w·x, in nanoseconds; w by recursive least squares, x as in `_features`.

    gpulet (ATC 2022) fits a linear model of the slowdown to the cache and bandwidth pressures of a
    batch and its neighbour, once, from profiled pairs; Zhao and Georgantas (Predictable Latency,
    MAIoT 2025) find that it must be learnt online and by recursive least squares. This is that
    form, extended to what matters on shared cores: neighbours on the own lane and on others, how
    much of this batch they will be there for, free slots, the queue; and each (model, bucket,
    rows) has an offset and a slope in its lane mates of its own.

    Features x and target y = T / T_solo both go over the prediction, so that it is the relative
    error that counts; the steps are those of `LeastSquares`.

    Invariants: the slowdown is within 0.25 to 64.
    Cost: O(neighbours) to ask, O(63²) to learn.
    """

    name = "rls"

    def __init__(self, profiles: Mapping[ModelName, ModelProfile] | None = None) -> None:
        self._pressures = {model: profile.pressures for model, profile in (profiles or {}).items()}
        self._kinds = Kinds(_KINDS_MAX)
        weights = np.zeros(_WIDTH)  # (features, kinds' offsets, kinds' slopes) float64
        weights[0] = 1.0
        variances = np.full(_WIDTH, _VARIANCE_KIND_FIRST)
        variances[:_FEATURES] = _VARIANCE_FIRST
        self._squares = LeastSquares(weights, variances)
        self._weights: list[float] = weights.tolist()
        """The weights once more: a list is read four times as fast as an array."""

    def execution_ns(self, scene: Scene) -> float:
        """The solo time by the slowdown."""
        features = self._features(scene)
        return scene.base_ns * self._slowdown(features, self._kinds.find(scene.run))

    def learn(self, ended: Ended) -> None:
        """One step of recursive least squares."""
        scene = ended.scene
        features = self._features(scene)
        kind = self._kinds.add(scene.run)
        actual = min(max(0, ended.execution_ns), _NS_MAX) / max(1.0, scene.base_ns)
        actual = min(max(actual, _SLOWDOWN_MIN), _SLOWDOWN_MAX)
        scale = 1.0 / self._slowdown(features, kind)
        row = np.zeros(_WIDTH)
        row[:_FEATURES] = features
        row[_FEATURES + kind] = 1.0
        row[_FEATURES + _KINDS_MAX + kind] = features[1]
        self._squares.learn(row * scale, actual * scale)
        self._weights = self._squares.weights.tolist()

    def state(self) -> dict[str, object]:
        """Weights, their covariance, and which kind is which."""
        return {"kinds": self._kinds.state(), "squares": self._squares.state()}

    def restore(self, state: dict[str, object]) -> None:
        """Take up what `state` gave, all of it or nothing."""
        kinds = Kinds(_KINDS_MAX)
        if kinds.restore(state.get("kinds")) and self._squares.restore(state.get("squares")):
            self._kinds = kinds
            self._weights = self._squares.weights.tolist()

    def _slowdown(self, features: list[float], kind: int | None) -> float:
        weights = self._weights
        slowdown: float = sum(map(mul, weights, features))
        if kind is not None:
            slope = weights[_FEATURES + _KINDS_MAX + kind]
            slowdown += weights[_FEATURES + kind] + slope * features[1]
        return min(max(slowdown, _SLOWDOWN_MIN), _SLOWDOWN_MAX)

    def _features(self, scene: Scene) -> list[float]:
        """Counts, overlaps as parts of the solo time, and pressures; each about 0 to slots."""
        own = self._pressures.get(scene.run.model, _UNKNOWN)
        lane, solo_ns = scene.run.lane, scene.base_ns
        mates = mates_overlap = others = others_overlap = 0.0
        compute = bandwidth = contention = 0.0
        for run, _, left_ns in scene.neighbours:
            # Compared first: what is not a number falls through to 0.
            part = 1.0 if left_ns >= solo_ns else left_ns / solo_ns if left_ns > 0.0 else 0.0
            theirs = self._pressures.get(run.model, _UNKNOWN)
            compute += theirs.compute_demand
            bandwidth += theirs.bandwidth_demand
            if run.lane == lane:
                mates += 1.0
                mates_overlap += part
            else:
                others += 1.0
                others_overlap += part
                contention += own.bandwidth_sensitivity * theirs.bandwidth_demand
                contention += own.compute_sensitivity * theirs.compute_demand
        slots = max(1, len(scene.slot_lanes))
        queue = min(scene.waiting_count, slots) / slots
        return [
            1.0,
            mates,
            others,
            mates_overlap,
            others_overlap,
            queue,
            queue * mates,
            queue * mates_overlap,
            max(0, slots - 1 - len(scene.neighbours)) / slots,
            1.0 if scene.waiting_count > 0 else 0.0,
            own.compute_demand,
            own.bandwidth_demand,
            compute,
            bandwidth,
            contention,
        ]
