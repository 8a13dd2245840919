"""How many devices a workload needs: bounds first, then plans of so many, played.

Knows queueing formulas for a first look. Little's law gives what is in the system at once, and so
the memory that requests hold; Erlang's wait for k equal servers (`queueing`) gives the fewest that
keep a model's deadline if it had them to itself. Then plans are made for one number of devices
after another and played with the scheduler's own code, and it is the played ones that the answer
comes from.
"""

from collections.abc import Callable, Iterator, Sequence
from math import ceil, inf
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from headway.core import DeviceName, ModelName
from headway.plan.bounds import quick_bound
from headway.plan.cuts import Cut, whole_cut
from headway.plan.demand import Demand, ModelDemand
from headway.plan.fleet import Fleet, FleetDevice
from headway.plan.placed import PlayLimits, PolicyMaker, play_plan
from headway.plan.planning import plan_sharing
from headway.plan.queueing import Wait, wait_of
from headway.plan.seats import SeatTerms, seat_terms
from headway.plan.sharing import SharingPlan, Verdict
from headway.plan.terms import Terms
from headway.plan.verdicts import bound_verdicts
from headway.units import NS_PER_S

__all__ = [
    "CapacityAnswer",
    "CapacityPoint",
    "ModelCapacity",
    "capacity",
    "first_look",
    "servers_needed",
]

_DEVICES_MAX: Final = 512
_BEFORE: Final = 3
"""Points of the curve below the bound's answer, to see where it begins to fail."""
_AFTER: Final = 2
_SERVERS_MAX: Final = 4096


class ModelCapacity(Struct, frozen=True, kw_only=True):
    """A model with whole devices to itself: what formulas say."""

    model: ModelName
    rate_rps: float
    batch_rows: int
    batch_ns: int
    servers: int
    """Fewest devices that keep its objective."""
    wait_mean_ns: int
    in_system: float
    """Requests at once, by Little's law: rate times time in the system."""
    in_system_bytes: int
    """What they hold, waiting ones counted as if they were in a batch."""
    memory_bytes: int
    """Of all its replicas: weights, processes, and rows of full batches."""


class CapacityPoint(Struct, frozen=True, kw_only=True):
    """A plan for so many devices."""

    devices: int
    used: int
    placed_ratio: float
    """Of all requests, those that the bound finds a place for."""
    bound_attainment_ratio: float
    """Of all requests, those in time by the bound."""
    bound_missed: tuple[ModelName, ...]
    """Models that miss their objective by the bound."""
    simulated_attainment_ratio: float
    simulated_missed: tuple[ModelName, ...]
    worst_p99_ratio: float | None
    """Of the played models the worst p99 over its budget; None if one answers nothing."""


class CapacityAnswer(Struct, frozen=True, kw_only=True):
    """How many, and what it rests on."""

    product: str
    models: tuple[ModelCapacity, ...]
    least_by_load: int
    """Fewer cannot be enough: their time or their memory would not do."""
    by_bound: int | None
    """Fewest for which the bound holds for every model; None if the limit is not enough."""
    by_simulation: int | None
    """Fewest of the curve for which every model keeps its objective when played, and all above
    do, too."""
    points: tuple[CapacityPoint, ...]
    """Ascending in devices."""


class _Need(NamedTuple):
    servers: int
    wait: Wait


def servers_needed(model: ModelDemand, terms: SeatTerms) -> _Need | None:
    """The fewest servers with the model to themselves that keep its objective, by formula."""
    late_ratio = 1.0 - model.attainment_ratio
    slack_s = (model.budget_ns - terms.batch_ns - terms.fill_ns) / NS_PER_S
    requests = terms.batch_rows / model.request_rows
    load = terms.load_of_rps * model.rate_rps
    for servers in range(max(1, ceil(load)), _SERVERS_MAX):
        wait = wait_of(
            rate_rps=model.rate_rps / requests,
            service_s=terms.batch_ns / NS_PER_S,
            servers=servers,
            arrivals_cv=model.arrivals_cv,
            service_cv=model.service_cv,
        )
        if wait.exceeds_ratio(slack_s) <= late_ratio:
            return _Need(servers, wait)
    return None


def first_look(demand: Demand, cut: Cut, fleet: Fleet) -> Iterator[ModelCapacity]:
    """What formulas say of each model that can sit on such a device."""
    for model in demand.models:
        terms = seat_terms(model, cut, fleet.speeds)
        if not isinstance(terms, SeatTerms):
            continue
        need = servers_needed(model, terms)
        if need is None:
            continue
        wait_s = need.wait.mean_s if need.wait.mean_s < inf else 0.0
        in_system = model.rate_rps * (wait_s + terms.batch_ns / NS_PER_S)
        yield ModelCapacity(
            model=model.name,
            rate_rps=model.rate_rps,
            batch_rows=terms.batch_rows,
            batch_ns=terms.batch_ns,
            servers=need.servers,
            wait_mean_ns=round(wait_s * NS_PER_S),
            in_system=in_system,
            in_system_bytes=ceil(in_system * model.request_rows * model.row_bytes),
            memory_bytes=need.servers * terms.memory_bytes,
        )


def capacity(
    demand: Demand,
    fleet: Fleet,
    like: FleetDevice,
    make_policy: PolicyMaker,
    *,
    limits: PlayLimits | None = None,
    devices_max: int = _DEVICES_MAX,
    tell: Callable[[int], None] = lambda _: None,
) -> CapacityAnswer:
    """How many devices like one of the fleet's the demand needs.

    Args:
        demand: the workload.
        fleet: whose speeds count.
        like: the kind of device; of those asked for there are as many as are tried, all empty.
        make_policy: for what is played.
        limits: on what is played.
        devices_max: more are not tried.
        tell: is told each number before it is planned and played.
    """
    one = _fleet_of(fleet, like, 1)
    models = tuple(first_look(demand, whole_cut(like), one))
    least = max(1, ceil(quick_bound(Terms(demand, one)) - 1e-9))
    by_bound = _fewest(demand, fleet, like, least, devices_max)
    middle = by_bound or min(least, devices_max)
    counts = range(max(least, middle - _BEFORE), min(devices_max, middle + _AFTER) + 1)
    points = []
    for count in counts:
        tell(count)
        points.append(_point(demand, _fleet_of(fleet, like, count), make_policy, limits))
    good: int | None = None
    for point in reversed(points):
        if point.simulated_missed:
            break
        good = point.devices
    return CapacityAnswer(
        product=like.product,
        models=models,
        least_by_load=least,
        by_bound=by_bound,
        by_simulation=good,
        points=tuple(points),
    )


def _fleet_of(fleet: Fleet, like: FleetDevice, count: int) -> Fleet:
    """So many devices of one kind on one node, nothing on them, all in one domain if it has one."""
    devices = tuple(
        replace(
            like,
            name=DeviceName(f"node/gpu:{index}"),
            node="node",
            index=index,
            uuid="",
            is_mig_enabled=False,
            instances=(),
            cost=1.0,
        )
        for index in range(count)
    )
    return replace(fleet, devices=devices)


def _fewest(demand: Demand, fleet: Fleet, like: FleetDevice, least: int, most: int) -> int | None:
    """The fewest devices on which the fast path places everything, by doubling and halving."""

    def is_enough(count: int) -> bool:
        return not plan_sharing(demand, _fleet_of(fleet, like, count)).unplaced

    high = least
    while not is_enough(high):
        if high >= most:
            return None
        high = min(most, 2 * high)
    low = max(least, high // 2)
    while low < high:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle + 1
    return high


def _point(
    demand: Demand, fleet: Fleet, make_policy: PolicyMaker, limits: PlayLimits | None
) -> CapacityPoint:
    plan = plan_sharing(demand, fleet)
    bounds = bound_verdicts(plan, demand, fleet)
    played = list(play_plan(plan, demand, fleet, make_policy, limits))
    p99s = [v.latency_p99_ns / v.budget_ns for v in played if v.latency_p99_ns is not None]
    return CapacityPoint(
        devices=len(fleet.devices),
        used=_used(plan),
        placed_ratio=1.0 - _share(demand, {u.model: u.rate_rps for u in plan.unplaced}),
        bound_attainment_ratio=_attained(demand, bounds),
        bound_missed=tuple(v.model for v in bounds if not v.is_met),
        simulated_attainment_ratio=_attained(demand, played),
        simulated_missed=tuple(v.model for v in played if not v.is_met),
        worst_p99_ratio=max(p99s) if len(p99s) == len(played) else None,
    )


def _used(plan: SharingPlan) -> int:
    return sum(any(part.seats for part in share.slices) for share in plan.devices)


def _attained(demand: Demand, verdicts: Sequence[Verdict]) -> float:
    rates = {model.name: model.rate_rps for model in demand.models}
    return _share(demand, {v.model: rates[v.model] * v.expected_attainment_ratio for v in verdicts})


def _share(demand: Demand, rates_rps: dict[ModelName, float]) -> float:
    total = sum(model.rate_rps for model in demand.models)
    return sum(rates_rps.values()) / total if total else 0.0
