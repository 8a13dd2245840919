"""Plans of random workloads are legal by a checker that shares no sums with those who make them."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planned import a_random_demand, a_random_fleet

from headway.plan import (
    PlanMaker,
    SearchLimits,
    Terms,
    bound_verdicts,
    breaches,
    plan_sharing,
    quick_bound,
)

SEEDS = st.integers(0, 1 << 32)
QUICK = (PlanMaker.FAST, PlanMaker.FIRST_FIT)


def a_question(seed: int, models_max: int = 14, devices_max: int = 8):
    """Models and devices of all kinds, the same for one seed."""
    chance = Random(f"{seed}/plans")
    demand = a_random_demand(chance, chance.randint(1, models_max))
    return demand, a_random_fleet(chance, chance.randint(1, devices_max))


@given(SEEDS)
@settings(max_examples=150, deadline=None)
def test_quick_plans_are_legal(seed: int) -> None:
    """By best fit and by first fit: nothing is put where the rule does not allow it."""
    demand, fleet = a_question(seed)
    for maker in QUICK:
        assert breaches(plan_sharing(demand, fleet, maker), demand, fleet) == []


@given(SEEDS)
@settings(max_examples=12, deadline=None)
def test_solved_plans_are_legal_and_no_worse(seed: int) -> None:
    """The solver serves what the fast path does or more, at no greater cost if all is."""
    pytest.importorskip("ortools", reason="OR-Tools solves")
    pytest.importorskip("scipy", reason="HiGHS in SciPy says how well")
    demand, fleet = a_question(seed, models_max=7, devices_max=4)
    limits = SearchLimits(work_s=1.0, workers=1)
    solved = plan_sharing(demand, fleet, PlanMaker.SOLVER, limits=limits)
    fast = plan_sharing(demand, fleet, PlanMaker.FAST)
    assert breaches(solved, demand, fleet) == []
    lost = [sum(u.rate_rps for u in plan.unplaced) for plan in (solved, fast)]
    assert lost[0] <= lost[1] + 1e-6
    if lost[1] < 1e-9:
        assert solved.cost <= fast.cost + 1e-9
        assert solved.cost_bound <= solved.cost + 1e-9


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_bounds_are_not_above_what_is_found(seed: int) -> None:
    """Where everything has a place, it costs no less than the quick bound says."""
    demand, fleet = a_question(seed)
    plan = plan_sharing(demand, fleet, PlanMaker.FAST)
    if not plan.unplaced:
        assert quick_bound(Terms(demand, fleet)) <= plan.cost + 1e-9


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_whoever_has_a_place_keeps_its_objective_by_the_bound(seed: int) -> None:
    """The rule of seats is the bound turned round: a model that is placed whole is met."""
    demand, fleet = a_question(seed)
    plan = plan_sharing(demand, fleet, PlanMaker.FAST)
    left = {unplaced.model for unplaced in plan.unplaced}
    for verdict in bound_verdicts(plan, demand, fleet):
        assert verdict.is_met or verdict.model in left


@given(SEEDS)
@settings(max_examples=25, deadline=None)
def test_plans_are_the_same_every_time(seed: int) -> None:
    """No order of sets, no clock: the same question has the same plan."""
    demand, fleet = a_question(seed)
    again = a_question(seed)
    assert plan_sharing(demand, fleet) == plan_sharing(*again)
