"""How fast a batch gets on among others: learnt efficiencies of shared lanes, paces, pair effects.

An execution that met slowdown s (from shares and efficiencies, integrated over its neighbours'
comings and goings) is taken to last

    T = b·p·(1 + φ(s-1)) + Σ_j ψ_ij · overlap_ij        (overlap_ij <= T)

with b its time alone, p the pace of its lane today (1 unless another program takes the core, or the
clock falls), φ = max(0, φ_ij - c/b) how much of the slowdown it feels (c: what a scheduler gives a
batch that just started before it must share), and ψ_ij >= 0 what neighbour j costs it beyond its
share of the lane, per time beside it. Every term has a prior at plain sharing: e = 1, p = 1,
φ = 1, c = 0, and ψ from the probes' pressures where there are any, else 0.

Knows one device. Refuses to know queues and clocks.
"""

from collections.abc import Mapping
from itertools import product
from math import exp, isfinite, log
from typing import Final, NamedTuple

from headway.core import BucketKey, ModelName
from headway.predict.belief import Belief, Term, assimilate
from headway.predict.lanes import MATES_MAX, OTHERS_MAX
from headway.predict.profile import Pressures
from headway.predict.stored import fields_of, number_of, rows_of

__all__ = ["Experience", "Speeds"]

_KEYS_MAX: Final = 4096
"""Sizes, and pairs, that have a belief of their own; later ones keep to the prior."""
_NOISE_START: Final = 0.1**2
_NOISE_MIN: Final = 0.02**2
_NOISE_MAX: Final = 0.6**2
_NOISE_WEIGHT: Final = 0.02
_FACTOR_MIN: Final = 0.02
"""What entered by less than this is not learnt from."""
_EFFICIENCY: Final = (log(0.2), 0.2)
_EFFICIENCY_TOP: Final = exp(0.2)
_PACE: Final = (-log(4.0), log(4.0))
_FEEL: Final = (0.0, 3.0)
_START_NS: Final = (0.0, 20e6)
_COST_MIN: Final = 0.01
_PAIR: Final = (-0.2, 4.0)

_CELL_SIGMA: Final = 0.05
"""Of the logarithm of an efficiency: lanes are cores, which hardly slow one another."""
_CELL_SIGMA_SHARED: Final = 0.4
"""The same where each slot has a lane of its own, so that lanes share all of the device."""

Size = tuple[ModelName, BucketKey, int]


class Experience(NamedTuple):
    """What one execution met."""

    size: Size
    lane: int
    base_ns: float
    execution_ns: float
    slowdown: float
    """s: elapsed time over progress at the learnt efficiencies; >= 1 where those are below 1."""
    cells: Mapping[tuple[int, int], float]
    """Part of the progress that was made in each cell of the efficiency, adding up to 1."""
    beside: Mapping[ModelName, float]
    """Elapsed time beside each model, in executions: 2 beside two of it all the time."""


class Speeds:
    """Everything learnt of how the batches of one device slow one another.

    Args:
        lanes: of the device.
        pressures: of the models that were probed.
        shares_all: lanes divide nothing, so how much they slow one another is anyone's guess.

    Invariants: efficiencies never rise with more batches or more busy lanes; every factor stays
    within its limits whatever was seen.
    """

    def __init__(
        self,
        lanes: int,
        pressures: Mapping[ModelName, Pressures] | None = None,
        *,
        shares_all: bool = False,
    ) -> None:
        self._pressures = dict(pressures or {})
        sigma = _CELL_SIGMA_SHARED if shares_all else _CELL_SIGMA
        self._cells = [
            [_belief(0.0, sigma, 0.003, _EFFICIENCY) for _ in range(OTHERS_MAX + 1)]
            for _ in range(MATES_MAX)
        ]
        self._paces = [_belief(0.0, 0.1, 0.012, _PACE) for _ in range(lanes)]
        self._start = _belief(0.0, 1e6, 1e4, _START_NS)
        self._feels: dict[Size, Belief] = {}
        self._pairs: dict[tuple[ModelName, ModelName], Belief] = {}
        self._noise = _NOISE_START
        self.efficiency: list[list[float]] = []
        """e(n, m): row m, column n from 1."""
        self.costs: dict[ModelName, dict[ModelName, float]] = {}
        """ψ of each pair where a neighbour costs anything, by the model that pays."""
        for own, other in product(self._pressures, repeat=2):
            self._set_cost(own, other, self._pair_prior(own, other))
        self._tabulate()

    def feel(self, size: Size, base_ns: float) -> float:
        """φ: the part of a slowdown that this size feels."""
        belief = self._feels.get(size)
        whole = 1.0 if belief is None else belief.mean
        return max(0.0, whole - self._start.mean / max(base_ns, 1.0))

    def pace(self, lane: int) -> float:
        """The factor p of a lane."""
        return exp(self._paces[lane].mean)

    def _set_cost(self, model: ModelName, other: ModelName, cost: float) -> None:
        """What is too little to be told from noise is nothing."""
        if cost > _COST_MIN:
            self.costs.setdefault(model, {})[other] = cost
        elif model in self.costs:
            self.costs[model].pop(other, None)
            if not self.costs[model]:
                del self.costs[model]

    def expected_ns(self, met: Experience) -> float:
        """T of the formula above, with the neighbours that there were."""
        feel = self.feel(met.size, met.base_ns)
        own_ns = met.base_ns * self.pace(met.lane) * (1.0 + feel * (met.slowdown - 1.0))
        costs = self.costs.get(met.size[0])
        pairs = 0.0
        if costs is not None:
            pairs = sum([ratio * costs.get(other, 0.0) for other, ratio in met.beside.items()])
        return max(own_ns / (1.0 - min(pairs, 0.9)), 1.0) if pairs else max(own_ns, 1.0)

    def learn(self, met: Experience, base: Belief) -> None:
        """Spread one execution's surprise over everything that it depended on.

        Args:
            met: the execution.
            base: of the logarithm of its solo time.
        """
        expected_ns = self.expected_ns(met)
        surprise = log(max(met.execution_ns, 1.0) / expected_ns)
        terms = self._terms(met, expected_ns)
        terms.append((base, 1.0))
        assimilate(surprise, self._noise, terms)
        for other in met.beside:
            pair = self._pairs.get((met.size[0], other))
            if pair is not None:
                self._set_cost(met.size[0], other, pair.mean)
        observed = min(surprise * surprise, 9.0 * self._noise)
        noise = self._noise + _NOISE_WEIGHT * (observed - self._noise)
        self._noise = min(max(noise, _NOISE_MIN), _NOISE_MAX)
        self._tabulate()

    def _terms(self, met: Experience, expected_ns: float) -> list[Term]:
        """Beliefs with the derivatives of log T, and those of no weight left out."""
        feel = self.feel(met.size, met.base_ns)
        share_ns = met.base_ns * self.pace(met.lane)
        terms: list[Term] = [(self._paces[met.lane], 1.0)]
        by_feel = share_ns * (met.slowdown - 1.0) / expected_ns
        if by_feel > _FACTOR_MIN:
            terms.append((self._feel_belief(met.size), by_feel))
            terms.append((self._start, -by_feel / max(met.base_ns, 1.0)))
        by_cell = -share_ns * feel * met.slowdown / expected_ns
        for (row, column), part in met.cells.items():
            if part > _FACTOR_MIN:
                terms.append((self._cells[row][column], by_cell * part))
        for other, ratio in met.beside.items():
            belief = self._pair_belief(met.size[0], other)
            if belief is not None and ratio > _FACTOR_MIN:
                terms.append((belief, ratio))
        return terms

    def _feel_belief(self, size: Size) -> Belief:
        belief = self._feels.get(size)
        if belief is None:
            belief = _belief(1.0, 0.15, 0.004, _FEEL)
            if len(self._feels) < _KEYS_MAX:
                self._feels[size] = belief
        return belief

    def _pair_belief(self, model: ModelName, other: ModelName) -> Belief | None:
        key = (model, other)
        belief = self._pairs.get(key)
        if belief is None and len(self._pairs) < _KEYS_MAX:
            prior = self._pair_prior(model, other)
            # Below 0 it has no effect, but there is how far it would have to come.
            belief = _belief(prior, 0.01 + 0.5 * prior, 0.001, _PAIR)
            self._pairs[key] = belief
        return belief

    def _pair_prior(self, model: ModelName, other: ModelName) -> float:
        """Sensitivity of one by demand of the other, added over resources."""
        own, theirs = self._pressures.get(model), self._pressures.get(other)
        if own is None or theirs is None:
            return 0.0
        cost = own.compute_sensitivity * theirs.compute_demand
        cost += own.bandwidth_sensitivity * theirs.bandwidth_demand
        return min(max(cost, 0.0), _PAIR[1]) if isfinite(cost) else 0.0

    def _tabulate(self) -> None:
        """e(n, m), held from rising with n and with m."""
        table: list[list[float]] = []
        for others in range(OTHERS_MAX + 1):
            above = table[-1] if table else [_EFFICIENCY_TOP] * MATES_MAX
            values: list[float] = []
            top = _EFFICIENCY_TOP
            for mates, limit in enumerate(above):
                top = min(exp(self._cells[mates][others].mean), limit, top)
                values.append(top)
            table.append(values)
        self.efficiency = [[0.0, *values] for values in table]

    def state(self) -> dict[str, object]:
        """All beliefs, as tables of keys, means and variances."""
        return {
            "cells": [
                [row, column, *belief.dump()]
                for row, beliefs in enumerate(self._cells)
                for column, belief in enumerate(beliefs)
            ],
            "paces": [[lane, *belief.dump()] for lane, belief in enumerate(self._paces)],
            "feels": [[*size, *belief.dump()] for size, belief in self._feels.items()],
            "pairs": [[*pair, *belief.dump()] for pair, belief in self._pairs.items()],
            "start": [[*self._start.dump()]],
            "noise": self._noise,
        }

    def restore(self, state: object) -> None:
        """Take up what `state` gave; what does not fit is ignored."""
        fields = fields_of(state)
        for (row, column), numbers in rows_of(fields.get("cells"), (int, int), 2):
            if 0 <= int(row) < MATES_MAX and 0 <= int(column) <= OTHERS_MAX:
                self._cells[int(row)][int(column)].load(numbers)
        for (lane,), numbers in rows_of(fields.get("paces"), (int,), 2):
            if 0 <= int(lane) < len(self._paces):
                self._paces[int(lane)].load(numbers)
        for (model, bucket, rows), numbers in rows_of(fields.get("feels"), (str, str, int), 2):
            size = (ModelName(str(model)), BucketKey(str(bucket)), int(rows))
            self._feel_belief(size).load(numbers)
        for (model, other), numbers in rows_of(fields.get("pairs"), (str, str), 2):
            belief = self._pair_belief(ModelName(str(model)), ModelName(str(other)))
            if belief is not None:
                belief.load(numbers)
                self._set_cost(ModelName(str(model)), ModelName(str(other)), belief.mean)
        for _, numbers in rows_of(fields.get("start"), (), 2):
            self._start.load(numbers)
        noise = number_of(fields.get("noise"))
        if noise is not None:
            self._noise = min(max(noise, _NOISE_MIN), _NOISE_MAX)
        self._tabulate()


def _belief(mean: float, sigma: float, drift_sigma: float, limits: tuple[float, float]) -> Belief:
    return Belief(mean, sigma, drift_sigma=drift_sigma, low=limits[0], high=limits[1])
