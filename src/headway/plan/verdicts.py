"""Whether a plan keeps its objectives, by a quick bound: every seat by what sits with it.

Knows the rule of seats and the waiting of `queueing`. The other judge plays the plan (`placed`); a
report says which of them said what.
"""

from collections import defaultdict
from collections.abc import Mapping
from math import exp, inf
from typing import Final, NamedTuple

from headway.core import ModelName
from headway.plan.cuts import Cut
from headway.plan.demand import Demand, ModelDemand
from headway.plan.fleet import Fleet
from headway.plan.queueing import Work, fastest_decay
from headway.plan.seats import SeatTerms, seat_terms
from headway.plan.sharing import DeviceShare, Judge, PlacedSlice, SharingPlan, Verdict
from headway.units import NS_PER_S

__all__ = ["bound_verdicts", "cut_of_slice"]

_HALVINGS: Final = 60
_TAIL_RATIO: Final = 0.01


class _Tail(NamedTuple):
    """How long answers of one seat take: at least so long, and then a wait that falls off."""

    rate_rps: float
    least_ns: float
    decay_ns: float
    """The share that still waits falls by e in this time; infinite where the queue grows."""

    def later_ratio(self, time_ns: float) -> float:
        """Part of the requests that take longer, at most: everybody counts as having to wait."""
        if time_ns < self.least_ns or self.decay_ns == inf:
            return 1.0
        if self.decay_ns <= 0.0:
            return 0.0
        return exp(-(time_ns - self.least_ns) / self.decay_ns)


def bound_verdicts(plan: SharingPlan, demand: Demand, fleet: Fleet) -> tuple[Verdict, ...]:
    """One for each model, in the demand's order."""
    models = {model.name: model for model in demand.models}
    devices = {device.name: device.sm_count for device in fleet.devices}
    tails: defaultdict[ModelName, list[_Tail]] = defaultdict(list)
    assumed: defaultdict[ModelName, set[str]] = defaultdict(set)
    for share in plan.devices:
        for part in share.slices:
            cut = cut_of_slice(share, part, devices[share.device])
            terms = {s.model: _terms(models[s.model], cut, fleet) for s in part.seats}
            for seat in part.seats:
                if seat.gang_rank:
                    continue
                tails[seat.model].append(_tail(seat.model, part, models, terms))
                if terms[seat.model].assumed:
                    assumed[seat.model].add(terms[seat.model].assumed)
    return tuple(
        _verdict(model, tails[model.name], "; ".join(sorted(assumed[model.name])))
        for model in demand.models
    )


def cut_of_slice(share: DeviceShare, part: PlacedSlice, device_sm_count: int) -> Cut:
    """What kind of slice this is."""
    return Cut(share.product, part.profile, part.sm_count, device_sm_count, part.memory_bytes)


def _terms(model: ModelDemand, cut: Cut, fleet: Fleet) -> SeatTerms:
    terms = seat_terms(model, cut, fleet.speeds)
    assert isinstance(terms, SeatTerms), "a plan seats a model only where it can sit"
    return terms


def _tail(
    name: ModelName,
    part: PlacedSlice,
    models: Mapping[ModelName, ModelDemand],
    terms: Mapping[ModelName, SeatTerms],
) -> _Tail:
    """The wait behind whoever goes first, and behind one batch of somebody who does not."""
    level = models[name].priority
    works: dict[bool, list[tuple[Work, float]]] = {True: [], False: []}
    blocking_ns = 0
    for seat in part.seats:
        other = models[seat.model].priority
        if other > level:
            blocking_ns = max(blocking_ns, terms[seat.model].batch_ns)
        else:
            works[other < level].append((terms[seat.model].work, seat.rate_rps))
    rate = next(seat.rate_rps for seat in part.seats if seat.model == name)
    decay_per_s = fastest_decay(works[True], works[False])
    decay_ns = NS_PER_S / decay_per_s if decay_per_s > 0 else inf
    least_ns = terms[name].fill_ns + terms[name].batch_ns + blocking_ns
    return _Tail(rate, least_ns, decay_ns)


def _verdict(model: ModelDemand, tails: list[_Tail], assumed: str) -> Verdict:
    placed = sum(tail.rate_rps for tail in tails)
    total = max(model.rate_rps, placed)
    late = (total - placed) + sum(t.rate_rps * t.later_ratio(model.budget_ns) for t in tails)
    expected = 1.0 - late / total if total else 0.0
    notes = [f"{placed:g} of {total:g} requests/s have a place"] if placed < total * 0.999 else []
    notes += [assumed] if assumed else []
    return Verdict(
        model=model.name,
        judge=Judge.BOUND,
        is_met=expected >= model.attainment_ratio - 1e-6,
        budget_ns=model.budget_ns,
        attainment_ratio=model.attainment_ratio,
        expected_attainment_ratio=expected,
        latency_p99_ns=_quantile_ns(tails),
        note="; ".join(notes),
    )


def _quantile_ns(tails: list[_Tail]) -> int | None:
    """What 99 of 100 requests that have a place take at most; None where there is no such time."""
    rate = sum(tail.rate_rps for tail in tails)
    if not tails or any(tail.decay_ns == inf for tail in tails):
        return None

    def later(time_ns: float) -> float:
        return sum(t.rate_rps * t.later_ratio(time_ns) for t in tails) / rate if rate else 0.0

    low, high = 0.0, max(t.least_ns for t in tails) + 1.0
    while later(high) > _TAIL_RATIO:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if later(middle) > _TAIL_RATIO else (low, middle)
    return round(high)
