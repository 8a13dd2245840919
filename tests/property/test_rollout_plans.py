"""Real plans, of random workloads on random fleets: every file valid, every step on paper legal."""

from pathlib import Path
from random import Random

import pytest
from tests.planned import a_random_demand, a_random_fleet

from headway.config import load_sharing
from headway.plan import (
    Placement,
    PlanMaker,
    SharingPlan,
    breaches,
    mig_product,
    placement_problems,
    plan_sharing,
)
from headway.rollout import (
    FORMATS,
    CreateInstance,
    DestroyInstance,
    EmitOptions,
    assumed_gpu,
    check_file,
    environments,
    nodes_of,
    propose,
    read_plan,
    servers_of,
    shipped_definitions,
)

EXAMPLES = Path(__file__).parents[2] / "examples" / "plan"
SEEDS = range(12)


def a_real_plan(seed: int) -> SharingPlan:
    chance = Random(f"{seed}/rollout")
    fleet = a_random_fleet(chance, 10)
    return plan_sharing(a_random_demand(chance, 20), fleet, PlanMaker.FAST)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_file_of_a_real_plan_is_valid(seed: int) -> None:
    """In every format, whatever was planned."""
    plan = a_real_plan(seed)
    for name, one in FORMATS.items():
        for file in one.emit(plan, EmitOptions()).files:
            found = check_file(file.name, file.text, shipped_definitions())
            assert found.faults == (), (name, file.name)


@pytest.mark.parametrize("seed", SEEDS)
def test_steps_on_paper_obey_the_grid(seed: int) -> None:
    """From what the plan takes for today, no instance is made over another one."""
    plan = a_real_plan(seed)
    for shares in nodes_of(plan).values():
        today = {share.index: assumed_gpu(share) for share in shares}
        found = propose(shares, today, (), "/run/headway")
        assert found.refusals == ()
        products = {share.index: share.product for share in shares}
        there = {
            index: [Placement(i.profile or "", i.placement.start) for i in gpu.instances or ()]
            for index, gpu in today.items()
        }
        for step in found.steps:
            if isinstance(step, DestroyInstance):
                there[step.index].remove(Placement(step.profile, step.start))
            if isinstance(step, CreateInstance):
                there[step.index].append(Placement(step.profile, step.start))
                product = mig_product(products[step.index])
                assert placement_problems(product, there[step.index]) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_every_seat_of_a_real_plan_is_in_one_process(seed: int) -> None:
    """And each process has a place; a gang is one over all its devices."""
    plan = a_real_plan(seed)
    servers = servers_of(plan)
    seated = sorted(
        (str(seat.model), seat.replica)
        for share in plan.devices
        for piece in share.slices
        for seat in piece.seats
        if seat.gang_rank == 0
    )
    held = sorted((str(seat.model), seat.replica) for one in servers for seat in one.seats)
    assert held == seated
    assert len(environments(servers, {}, "/run/headway")) == len(servers)


def test_plan_of_the_example_is_the_examples() -> None:
    """The file that the guide begins with is a legal plan of the workload beside it."""
    plan = read_plan(EXAMPLES / "onprem.plan.json")
    assert breaches(plan, *load_sharing(EXAMPLES / "onprem.yaml")) == []
