"""MIG geometry against a search that knows nothing of how it is done: cells, starts and counts."""

from collections import Counter
from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planned import GIB, MS, a_demand, a_device, a_fleet, a_model

from headway.plan import (
    Effort,
    IsolationNeed,
    MeasuredTimes,
    MigToday,
    Placement,
    Terms,
    cheapest_change,
    geometries,
    geometries_beside,
    maximal_geometries,
    mig_product,
    mig_products,
    placement_problems,
    remaining_geometries,
)

SEVEN = "A100-80GB"
SMALL = ("A30-24GB", "RTX-PRO-6000-Blackwell-96GB")


def exhaustive(name: str) -> set[tuple[str, ...]]:
    """Every set of plain instances that a mask of cells and a sum of slices allow."""
    product = mig_product(name)
    profiles = {profile.name: profile for profile in product.plain}
    places = [(p.name, start) for p in product.plain for start in p.starts]
    masks = [((1 << profiles[n].size) - 1) << start for n, start in places]
    found: set[tuple[str, ...]] = set()

    def extend(at: int, mask: int, names: tuple[str, ...]) -> None:
        compute = sum(profiles[n].compute_slices for n in names)
        counts = Counter(names)
        if compute > product.compute_slices or any(
            count > profiles[n].instances_max for n, count in counts.items()
        ):
            return
        if names:
            found.add(tuple(sorted(names)))
        for index in range(at, len(places)):
            if not mask & masks[index]:
                extend(index + 1, mask | masks[index], (*names, places[index][0]))

    extend(0, 0, ())
    return found


@pytest.mark.parametrize("name", mig_products())
def test_geometries_are_those_of_an_exhaustive_search(name: str) -> None:
    """Every product of the table: what may exist together, and nothing else."""
    assert {tuple(sorted(names)) for names in geometries(mig_product(name))} == exhaustive(name)


def test_geometries_are_as_many_as_are_known() -> None:
    """77 sets of the seven-slice GPUs, 28 of them full; 9 and 4 of those with four slices."""
    counts = {
        name: (len(geometries(mig_product(name))), len(maximal_geometries(mig_product(name))))
        for name in (SEVEN, *SMALL)
    }
    assert counts == {SEVEN: (77, 28), SMALL[0]: (9, 4), SMALL[1]: (9, 4)}


def test_maximal_geometries_without_double_memory_are_the_published_ones() -> None:
    """The twelve of an A100 that are printed everywhere."""
    plain = {names for names in geometries(mig_product(SEVEN)) if "1g.20gb" not in names}
    full = {
        "+".join(n[0] for n in names)
        for names in plain
        if not any(Counter(names) < Counter(other) for other in plain)
    }
    wanted = "7 4+3 4+2+1 4+1+1+1 3+3 3+2+2 3+2+1+1 3+1+1+1+1 2+2+2+1 2+2+1+1+1 2+1+1+1+1+1"
    assert full == {*wanted.split(), "1+1+1+1+1+1+1"}


def test_a_place_and_not_a_count_decides_what_is_left() -> None:
    """A `3g` at 0 leaves three places for a `1g`, one at 4 leaves four."""
    product = mig_product(SEVEN)

    def most(start: int) -> int:
        left = geometries_beside(product, frozenset({Placement("3g.40gb", start)}))
        return max(names.count("1g.10gb") for names in left)

    assert (most(0), most(4)) == (3, 4)


SPOTS = st.sampled_from(
    [Placement(p.name, start) for p in mig_product(SEVEN).plain for start in p.starts]
)


@given(st.lists(SPOTS, max_size=8))
def test_problems_are_found_just_where_there_are_some(placed: list[Placement]) -> None:
    """The words of the checker and the search of the planner agree on what is legal."""
    product = mig_product(SEVEN)
    profiles = [product.profile(place.profile) for place in placed]
    cells = [
        c for p, x in zip(placed, profiles, strict=True) for c in range(p.start, p.start + x.size)
    ]
    counts = Counter(place.profile for place in placed)
    is_legal = (
        len(cells) == len(set(cells))
        and sum(profile.compute_slices for profile in profiles) <= product.compute_slices
        and all(count <= product.profile(n).instances_max for n, count in counts.items())
    )
    assert (not placement_problems(product, placed)) is is_legal


@st.composite
def todays(draw: st.DrawFn) -> list[MigToday]:
    """Instances that exist, some of them busy."""
    product = mig_product(SEVEN)
    placed: list[Placement] = []
    for spot in draw(st.lists(SPOTS, max_size=7)):
        if not placement_problems(product, [*placed, spot]):
            placed.append(spot)
    return [MigToday(profile=p, start=s, is_busy=draw(st.booleans())) for p, s in placed]


@given(todays(), st.sampled_from(geometries(mig_product(SEVEN))))
@settings(max_examples=150, deadline=None)
def test_the_way_to_a_geometry_moves_nothing_that_is_busy(
    today: list[MigToday], wanted: tuple[str, ...]
) -> None:
    """Busy instances stay, the wanted ones are beside them, and as few as can be are undone."""
    product = mig_product(SEVEN)
    here = {Placement(one.profile, one.start) for one in today}
    busy = {Placement(one.profile, one.start) for one in today if one.is_busy}
    change = cheapest_change(product, today, wanted)
    legal = (
        [
            set(places)
            for places in combinations(
                [Placement(p.name, s) for p in product.plain for s in p.starts], len(wanted)
            )
            if Counter(place.profile for place in places) == Counter(wanted)
            and not set(places) & busy
            and not placement_problems(product, [*places, *busy])
        ]
        if len(wanted) <= 3
        else None
    )
    if change is None:
        assert not legal
        return
    after = set(change.placed)
    assert not placement_problems(product, change.placed)
    assert busy <= after
    assert set(change.kept) == after & here
    assert set(change.created) == after - here
    assert Counter(wanted) <= Counter(p.profile for p in after - busy)
    assert set(change.destroyed) == here - after
    if legal is not None:
        assert legal
        assert len(set(change.kept) & (after - busy)) >= max(len(one & here) for one in legal)


@given(todays())
@settings(max_examples=60, deadline=None)
def test_what_is_left_to_choose_from_shrinks_with_every_instance(today: list[MigToday]) -> None:
    """Nothing that is added makes more sets possible."""
    product = mig_product(SEVEN)
    placed: frozenset[Placement] = frozenset()
    last = remaining_geometries(product, placed)
    assert last == len(geometries(product)) + 1
    for one in today:
        placed |= {Placement(one.profile, one.start)}
        now = remaining_geometries(product, placed)
        assert now < last
        last = now


# --- out of the solver ----------------------------------------------------------------------------


def needing(product_name: str, names: tuple[str, ...]):
    """A tenant for each instance, that needs as much memory and as many multiprocessors."""
    product = mig_product(product_name)
    models, needs = [], {}
    for index, name in enumerate(names):
        profile = product.profile(name)
        ratio = profile.sm_count / product.sm_count
        # On a part of a device a batch takes as much longer: here it just keeps its budget.
        times = MeasuredTimes(product=product_name, service_ns={1: MS})
        models.append(
            a_model(
                f"m{index}",
                tenant=f"t{index}",
                times=(times,),
                budget_ns=round(MS / ratio * 1.02),
                rate_rps=0.001,
                arrivals_cv=0.0,
                weights_bytes=profile.memory_bytes,
            )
        )
        needs[f"t{index}"] = IsolationNeed.STRONG
    device = a_device(product=product_name)
    device = a_device(product=product_name, memory_bytes=max(device.memory_bytes, 8 * GIB))
    return a_demand(*models, **needs), a_fleet(device)


def holds(product_name: str, geometry: tuple[str, ...], names: tuple[str, ...]) -> bool:
    """Whether instances can be given to needs, each with as much of both or more."""
    product = mig_product(product_name)

    def give(left: list[str], wanted: list[str]) -> bool:
        if not wanted:
            return True
        need = product.profile(wanted[0])
        for at, name in enumerate(left):
            have = product.profile(name)
            is_enough = have.memory_bytes >= need.memory_bytes and have.sm_count >= need.sm_count
            if is_enough and give([*left[:at], *left[at + 1 :]], wanted[1:]):
                return True
        return False

    return give(list(geometry), sorted(names, key=lambda n: -product.profile(n).memory_bytes))


@pytest.mark.parametrize("name", [SEVEN, *SMALL])
def test_every_geometry_comes_out_of_the_solver(name: str) -> None:
    """Tenants that need just these instances find them on one device, and no others do."""
    pytest.importorskip("ortools", reason="OR-Tools solves")
    from headway.plan.drafts import DeviceDraft
    from headway.plan.program import Program, Question

    product = mig_product(name)
    legal = geometries(product)
    chance = Random(f"{name}/illegal")
    profiles = [profile.name for profile in product.plain]
    random_sets = [
        tuple(chance.choice(profiles) for _ in range(chance.randint(2, 7))) for _ in range(40)
    ]
    for names in [*legal, *random_sets]:
        demand, fleet = needing(name, names)
        terms = Terms(demand, fleet)
        wanted = {model.name: terms.portions(model.name) for model in demand.models}
        answer = Program(terms, Question([DeviceDraft.of(fleet.devices[0])], wanted)).solve(
            Effort(5.0, workers=1)
        )
        assert answer is not None
        is_whole = len(names) == 1 and not any(answer.left.values())
        fits = any(holds(name, geometry, names) for geometry in legal) or is_whole
        assert (not any(answer.left.values())) is fits
