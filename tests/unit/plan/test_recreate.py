"""Emptying devices and filling them again: what it may change, and what it may not."""

from random import Random

import pytest
from tests.planned import a_random_demand, a_random_fleet

from headway.plan import Terms
from headway.plan.greedy import Layout, left_rps, place_fast, place_first_fit
from headway.plan.recreate import recreated

ROUNDS = 40


def never(_: Layout) -> bool:
    return False


def a_question(seed: int) -> Terms:
    chance = Random(f"{seed}/recreate")
    demand = a_random_demand(chance, chance.randint(4, 16))
    return Terms(demand, a_random_fleet(chance, chance.randint(2, 8)))


def seated(layout: Layout) -> dict[str, int]:
    """Portions by model, those without a place included."""
    found: dict[str, int] = {name: count for name, count in layout.left.items() if count}
    for draft in layout.drafts:
        for into in draft.slices:
            for name, count in into.portions.items():
                gang = 1 if draft.gang is None or draft.gang[1] == 0 else 0
                found[name] = found.get(name, 0) + count * gang
    return {name: count for name, count in found.items() if count}


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_and_nothing_gets_worse(seed: int) -> None:
    """Every portion sits somewhere or is left; neither requests left nor cost grow."""
    terms = a_question(seed)
    begun = place_fast(terms)
    before = (left_rps(begun, terms), begun.cost, seated(begun))
    found = recreated(terms, begun, rounds=ROUNDS, seed=seed, is_enough=never)
    assert (round(left_rps(found, terms), 6), round(found.cost, 6)) <= (
        round(before[0], 6),
        round(before[1], 6),
    )
    assert seated(found) == before[2]
    assert (left_rps(begun, terms), begun.cost, seated(begun)) == before


def test_a_bad_layout_is_bettered() -> None:
    """Of what first fit makes of a dozen questions, most can be had for less."""
    saved = 0
    for seed in range(12):
        terms = a_question(seed)
        begun = place_first_fit(terms)
        found = recreated(terms, begun, rounds=ROUNDS, seed=1, is_enough=never)
        before, after = left_rps(begun, terms), left_rps(found, terms)
        saved += (after, found.cost) < (before - 1e-6, begun.cost) or found.cost < begun.cost - 1e-6
    assert saved >= 4


def test_the_same_seed_finds_the_same() -> None:
    """All that is drawn is drawn from the seed."""
    terms = a_question(3)
    costs = [
        [
            sorted(into.portions.items())
            for draft in recreated(
                terms, place_fast(terms), rounds=ROUNDS, seed=7, is_enough=never
            ).drafts
            for into in draft.slices
        ]
        for _ in range(2)
    ]
    assert costs[0] == costs[1]


def test_it_stops_when_that_is_enough() -> None:
    """Whoever waits is asked before every round."""
    asked = []

    def enough(layout: Layout) -> bool:
        asked.append(layout)
        return len(asked) > 2

    terms = a_question(5)
    recreated(terms, place_fast(terms), rounds=ROUNDS, seed=1, is_enough=enough)
    assert len(asked) == 3
