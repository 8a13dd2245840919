"""From a demand and a fleet to a plan, by one of three makers.

Knows the makers. What objectives the plan keeps is for `verdicts` to say, and whether it is legal
for `check`, which shares no sums with any of them.
"""

from collections.abc import Callable
from math import inf

from msgspec.structs import replace

from headway.plan.assembly import assemble
from headway.plan.bounds import quick_bound
from headway.plan.conflicts import conflicts_of, ways_out
from headway.plan.demand import Demand
from headway.plan.fleet import Fleet
from headway.plan.greedy import place_fast, place_first_fit
from headway.plan.program import Effort
from headway.plan.sharing import PlanMaker, SharingPlan
from headway.plan.solver import SearchLimits, place_solved
from headway.plan.terms import Terms

__all__ = ["explain_unplaced", "plan_sharing"]


def plan_sharing(
    demand: Demand,
    fleet: Fleet,
    maker: PlanMaker = PlanMaker.FAST,
    *,
    limits: SearchLimits | None = None,
    left_s: Callable[[], float] = lambda: inf,
) -> SharingPlan:
    """Say how each device is shared and who sits where.

    Args:
        demand: what is to be placed.
        fleet: on what.
        maker: how to look for a plan.
        limits: on the solver.
        left_s: how long whoever waits is still willing to wait for the solver.

    Raises:
        HeadwayError: the solver is asked for, and OR-Tools is not installed.
    """
    terms = Terms(demand, fleet)
    match maker:
        case PlanMaker.SOLVER:
            solved = place_solved(terms, limits or SearchLimits(), left_s)
            return assemble(
                solved.layout,
                terms,
                maker=maker,
                cost_bound=min(solved.bound.cost, solved.layout.cost),
                is_optimal=solved.is_optimal,
                served_bound_ratio=solved.bound.served_ratio,
            )
        case PlanMaker.FAST:
            layout = place_fast(terms)
        case PlanMaker.FIRST_FIT:
            layout = place_first_fit(terms)
    bound = min(quick_bound(terms), layout.cost)
    is_optimal = not layout.left and layout.cost <= bound + 1e-9
    return assemble(layout, terms, maker=maker, cost_bound=bound, is_optimal=is_optimal)


def explain_unplaced(
    plan: SharingPlan, demand: Demand, fleet: Fleet, effort: Effort | None
) -> SharingPlan:
    """The plan, with what keeps it from placing everything, if anything does.

    Args:
        plan: of this demand and fleet.
        demand: what was to be placed.
        fleet: on what.
        effort: for each question to the solver; None where there is no solver: then only what
            helps the fast path is said.
    """
    if not plan.unplaced:
        return plan
    conflicts = () if effort is None else conflicts_of(demand, fleet, effort)
    return replace(plan, conflicts=conflicts, notes=(*plan.notes, *ways_out(demand, fleet)))
