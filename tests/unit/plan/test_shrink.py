"""Fewer devices for the same models: what it may give up, and what it may not."""

from random import Random

import pytest
from tests.planned import a_demand, a_fleet, a_model, a_random_demand, a_random_fleet, devices

from headway.plan import PlanMaker, Terms, breaches
from headway.plan.assembly import assemble
from headway.plan.greedy import Layout, Placer, Strategy, place_fast, place_first_fit
from headway.plan.shrink import shrunk

ROUNDS = 120


def never(_: Layout) -> bool:
    return False


def a_served_question(seed: int) -> tuple[Terms, Layout]:
    """A question all of which first fit serves, on more devices than are needed."""
    chance = Random(f"{seed}/shrink")
    while True:
        demand = a_random_demand(chance, chance.randint(4, 14))
        terms = Terms(demand, a_random_fleet(chance, 8))
        layout = place_first_fit(terms)
        if not layout.left:
            return terms, layout


def seated(layout: Layout) -> dict[str, int]:
    """Portions by model."""
    found: dict[str, int] = {}
    for draft in layout.drafts:
        for into in draft.slices:
            for name, count in into.portions.items():
                gang = 1 if draft.gang is None or draft.gang[1] == 0 else 0
                found[name] = found.get(name, 0) + count * gang
    return {name: count for name, count in found.items() if count}


@pytest.mark.parametrize("seed", range(10))
def test_all_is_served_as_before_for_no_more(seed: int) -> None:
    """Every portion keeps a legal place, gangs keep their devices, and the cost never grows."""
    terms, begun = a_served_question(seed)
    before = (begun.cost, seated(begun))
    found = shrunk(terms, begun, rounds=ROUNDS, seed=seed, is_enough=never)
    assert found.cost <= begun.cost + 1e-9
    assert (begun.cost, seated(begun)) == before
    assert seated(found) == before[1]
    gangs = [{d.name: d.gang for d in layout.drafts if d.gang} for layout in (begun, found)]
    assert gangs[0] == gangs[1]
    plan = assemble(found, terms, maker=PlanMaker.SOLVER, cost_bound=0.0, is_optimal=False)
    assert breaches(plan, terms.demand, terms.fleet) == []


def test_devices_that_are_not_needed_are_given_up() -> None:
    """Eight models of a tenth of a device, one a device to begin with, end on a single one."""
    models = [a_model(f"m{index}", rate_rps=10.0) for index in range(8)]
    terms = Terms(a_demand(*models), a_fleet(*devices(8)))
    begun = Layout([])
    for model, draft in zip(models, place_first_fit(terms).drafts, strict=True):
        draft.empty()
        assert Placer(terms, Strategy(is_best_fit=True), [draft]).spread_out(model, 1) == 0
        begun.drafts.append(draft)
    found = shrunk(terms, begun, rounds=2000, seed=1, is_enough=never)
    assert (begun.cost, found.cost) == (8.0, 1.0)


def test_a_dear_device_gives_way_to_cheap_ones() -> None:
    """What one device at 3 carries goes to one at 1 that was not in use."""
    models = [a_model(f"m{index}", rate_rps=10.0) for index in range(3)]
    fleet = a_fleet(*devices(1, cost=3.0), *devices(2)[1:])
    terms = Terms(a_demand(*models), fleet)
    begun = place_first_fit(terms)
    found = shrunk(terms, begun, rounds=ROUNDS, seed=1, is_enough=never)
    assert (begun.cost, found.cost) == (3.0, 1.0)


def test_the_same_seed_finds_the_same() -> None:
    """All that is drawn is drawn from the seed."""
    terms, begun = a_served_question(3)
    found = [shrunk(terms, begun, rounds=ROUNDS, seed=7, is_enough=never) for _ in range(2)]
    slices = [
        [[sorted(into.portions.items()) for into in draft.slices] for draft in layout.drafts]
        for layout in found
    ]
    assert slices[0] == slices[1]


def test_it_stops_when_that_is_enough() -> None:
    """Whoever waits is asked before every try."""
    terms, _ = a_served_question(5)
    begun = place_fast(terms)
    assert shrunk(terms, begun, rounds=ROUNDS, seed=1, is_enough=lambda _: True) is begun
