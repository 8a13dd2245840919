"""Which constraints cannot all be kept, where a demand finds no place on a fleet.

Knows constraints as things that can be left out of a question. One after another is left out for
good if the rest alone is still impossible; what remains is a smallest set: without any one of them
there would be a plan, or it could not be shown that there is none. That there is none is said by
the bound (`bounds`), which never errs on that side, or by the program of a small question.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from headway.core import TenantId, TierName
from headway.plan.bounds import solved_bound
from headway.plan.demand import Demand, IsolationNeed, ModelDemand, Spread
from headway.plan.drafts import DeviceDraft
from headway.plan.fleet import Fleet, FleetDevice
from headway.plan.greedy import Layout, place_fast
from headway.plan.program import Effort, Program, Question, size_of
from headway.plan.terms import ISOLATED, Terms

__all__ = ["conflicts_of", "ways_out"]

_LONG_NS: Final = 3_600_000_000_000
_NAMED_MAX: Final = 4
_OWNERS_MAX: Final = 8
"""Tenants whose isolation is looked at one by one."""
_SMALL_MAX: Final = 1_500
"""Models times slices up to which a program says whether there is a plan."""


class _Case(NamedTuple):
    """A question."""

    demand: Demand
    fleet: Fleet


class _Constraint(NamedTuple):
    words: str
    leave_out: Callable[[_Case], _Case]


def conflicts_of(demand: Demand, fleet: Fleet, effort: Effort) -> tuple[str, ...]:
    """A smallest set of constraints that cannot all be kept, in words; empty if none was found.

    Args:
        demand: which finds no place.
        fleet: on which.
        effort: for each of the solver's questions.

    Raises:
        HeadwayError: OR-Tools is not installed.
    """
    whole = _Case(demand, fleet)
    constraints = list(_constraints(whole))
    if not _is_impossible(_without(whole, []), effort):
        return ()
    kept = list(constraints)
    for constraint in constraints:
        fewer = [one for one in kept if one is not constraint]
        left_out = [one for one in constraints if one not in fewer]
        if _is_impossible(_without(whole, left_out), effort):
            kept = fewer
    return (_base_words(whole), *(constraint.words for constraint in kept))


def ways_out(demand: Demand, fleet: Fleet) -> Iterator[str]:
    """Constraints without which the fast path would place everything; needs no solver."""
    whole = _Case(demand, fleet)
    for constraint in _constraints(whole):
        case = constraint.leave_out(whole)
        terms = Terms(case.demand, case.fleet)
        if _is_complete(place_fast(terms), terms):
            yield f"everything would have a place without {constraint.words}"


def _base_words(case: _Case) -> str:
    rate = sum(model.rate_rps for model in case.demand.models)
    count = len(case.fleet.devices)
    return (
        f"the load of {len(case.demand.models)} models, {rate:g} requests/s, on {count} "
        f"device{'s' if count != 1 else ''}"
    )


# --- whether there is a plan ----------------------------------------------------------------------


def _is_impossible(case: _Case, effort: Effort) -> bool:
    """Whether it is certain that nothing serves everything."""
    terms = Terms(case.demand, case.fleet)
    if any(not terms.portions(name) for name in terms.models):
        return True
    layout = place_fast(terms)
    if _is_complete(layout, terms):
        return False
    if solved_bound(terms, effort).served_ratio < 1.0:
        return True
    question = Question(
        [DeviceDraft.of(device) for device in case.fleet.devices],
        {name: terms.portions(name) for name in terms.models},
    )
    if len(terms.models) * sum(size_of(terms, question)) > _SMALL_MAX:
        return False
    answer = Program(terms, question).solve(effort)
    return answer is not None and answer.is_optimal and any(answer.left.values())


def _is_complete(layout: Layout, terms: Terms) -> bool:
    return not any(count or not terms.portions(name) for name, count in layout.left.items())


def _without(case: _Case, constraints: Sequence[_Constraint]) -> _Case:
    for constraint in constraints:
        case = constraint.leave_out(case)
    return case


# --- what can be left out -------------------------------------------------------------------------


def _constraints(case: _Case) -> Iterator[_Constraint]:
    """All of a question, those first that people give up most easily."""
    models = case.demand.models
    if apart := [m.name for m in models if m.apart_from]:
        words = f"`apart_from` of {_named(apart)}"
        yield _Constraint(words, _each(lambda model: replace(model, apart_from=())))
    if spread := [m.name for m in models if m.spread is not Spread.NONE]:
        words = f"`spread` of {_named(spread)}"
        yield _Constraint(words, _each(lambda model: replace(model, spread=Spread.NONE)))
    if copied := [m.name for m in models if m.replicas_min > 1]:
        words = f"`replicas_min` of {_named(copied)}"
        yield _Constraint(words, _each(lambda model: replace(model, replicas_min=1)))
    if busy := [d.name for d in case.fleet.devices if any(i.is_busy for i in d.instances)]:
        yield _Constraint(f"busy instances of {_named(busy)}", _idle)
    limited = [m.name for m in models if m.replicas_max < len(case.fleet.devices)]
    if limited:
        words = f"`replicas_max` of {_named(limited)}"
        yield _Constraint(words, _each(lambda model: replace(model, replicas_max=4096)))
    if gangs := [m.name for m in models if m.gang_devices > 1]:
        yield _Constraint(f"whole devices in one NVLink domain for {_named(gangs)}", _each(_single))
    yield from _isolations(case)
    for tier in dict.fromkeys(model.tier for model in models):
        words = f"the deadlines of tier `{tier}`"
        yield _Constraint(words, _each(_late_in(tier)))
    yield _Constraint("the memory of models", _each(_small))


def _isolations(case: _Case) -> Iterator[_Constraint]:
    owners = [t for t, need in case.demand.isolation.items() if need in ISOLATED]
    for tenant in owners[:_OWNERS_MAX]:
        need = case.demand.isolation[tenant]
        yield _Constraint(f"the isolation of tenant `{tenant}` ({need})", _trusting([tenant]))
    if more := owners[_OWNERS_MAX:]:
        yield _Constraint(f"the isolation of {len(more)} more tenants", _trusting(more))


def _each(change: Callable[[ModelDemand], ModelDemand]) -> Callable[[_Case], _Case]:
    def leave_out(case: _Case) -> _Case:
        models = tuple(change(model) for model in case.demand.models)
        return case._replace(demand=replace(case.demand, models=models))

    return leave_out


def _trusting(tenants: Sequence[TenantId]) -> Callable[[_Case], _Case]:
    def leave_out(case: _Case) -> _Case:
        needs = {**case.demand.isolation, **dict.fromkeys(tenants, IsolationNeed.NONE)}
        return case._replace(demand=replace(case.demand, isolation=needs))

    return leave_out


def _idle(case: _Case) -> _Case:
    def freed(device: FleetDevice) -> FleetDevice:
        instances = tuple(replace(one, is_busy=False) for one in device.instances)
        return replace(device, instances=instances)

    devices = tuple(freed(device) for device in case.fleet.devices)
    return case._replace(fleet=replace(case.fleet, devices=devices))


def _single(model: ModelDemand) -> ModelDemand:
    """A part of a gang may sit anywhere, as long as all of it has its memory."""
    if model.gang_devices == 1:
        return model
    weights = model.weights_bytes // model.gang_devices
    return replace(model, gang_devices=1, weights_bytes=weights, replicas_min=model.gang_devices)


def _late_in(tier: TierName) -> Callable[[ModelDemand], ModelDemand]:
    def leave_out(model: ModelDemand) -> ModelDemand:
        if model.tier != tier:
            return model
        return replace(model, budget_ns=_LONG_NS, attainment_ratio=0.5)

    return leave_out


def _small(model: ModelDemand) -> ModelDemand:
    return replace(model, weights_bytes=1, overhead_bytes=0, row_bytes=0)


def _named(names: Sequence[str]) -> str:
    shown = [f"`{name}`" for name in names[:_NAMED_MAX]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
