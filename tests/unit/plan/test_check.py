"""The checker: a legal plan, and one thing wrong with it after another."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from tests.planned import GIB, a_demand, a_device, a_fleet, a_model, devices

from headway.core import DeviceName
from headway.plan import (
    Demand,
    Fleet,
    PlacedSlice,
    Seat,
    SharingMode,
    SharingPlan,
    Spread,
    breaches,
    plan_sharing,
)


def a_question() -> tuple[Demand, Fleet]:
    """Two tenants that must be apart, in instances; two that share by MPS on another device."""
    demand = a_demand(
        a_model("a", tenant="safe", weights_bytes=15 * GIB),
        a_model("b", tenant="other", weights_bytes=15 * GIB),
        a_model("c", tenant="x", weights_bytes=30 * GIB),
        a_model("d", tenant="y", weights_bytes=30 * GIB, priority=1),
        safe="strong",
        y="memory",
    )
    return demand, a_fleet(*devices(3))


def a_plan() -> tuple[SharingPlan, Demand, Fleet]:
    """As the fast path makes it; legal."""
    demand, fleet = a_question()
    return plan_sharing(demand, fleet), demand, fleet


def with_device(plan: SharingPlan, index: int, **changes: object) -> SharingPlan:
    """The plan with something else said of one device."""
    shares = list(plan.devices)
    shares[index] = replace(shares[index], **changes)
    return replace(plan, devices=tuple(shares))


def with_seat(plan: SharingPlan, model: str, **changes: object) -> SharingPlan:
    """The plan with something else said of a model's seat."""

    def changed(part: PlacedSlice) -> PlacedSlice:
        seats = tuple(replace(s, **changes) if s.model == model else s for s in part.seats)
        return replace(part, seats=seats)

    shares = [replace(d, slices=tuple(changed(p) for p in d.slices)) for d in plan.devices]
    return replace(plan, devices=tuple(shares))


def where_of(plan: SharingPlan, model: str) -> tuple[int, PlacedSlice, Seat]:
    """Device, slice and seat of a model."""
    return next(
        (index, part, seat)
        for index, share in enumerate(plan.devices)
        for part in share.slices
        for seat in part.seats
        if seat.model == model
    )


def words(plan: SharingPlan, demand: Demand, fleet: Fleet) -> str:
    """All that is wrong."""
    return "\n".join(f"{breach.where}: {breach.what}" for breach in breaches(plan, demand, fleet))


def test_a_plan_of_the_fast_path_is_legal() -> None:
    """Nothing to complain of, and the set-up is what the other tests take it for."""
    plan, demand, fleet = a_plan()
    assert words(plan, demand, fleet) == ""
    _, part, _ = where_of(plan, "d")
    assert part.inside is SharingMode.MPS


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: replace(p, devices=p.devices[::-1]), "not those of the fleet"),
        (lambda p: replace(p, cost=p.cost + 1), "its devices cost"),
        (lambda p: replace(p, cost_bound=p.cost + 1), "less than the bound"),
        (lambda p: with_seat(p, "a", rate_rps=5.0), "`a` says load"),
        (lambda p: with_seat(p, "a", memory_bytes=1), "`a` says 1 bytes"),
        (lambda p: with_seat(p, "d", memory_limit_bytes=1), "limited to less memory"),
        (lambda p: with_seat(p, "d", memory_limit_bytes=None), "limits other than mps gives"),
        (lambda p: with_seat(p, "d", thread_percent=0), "0 % of the threads"),
        (
            lambda p: with_seat(p, "a", thread_percent=50, memory_limit_bytes=1 << 40),
            "limits other",
        ),
    ],
)
def test_a_wrong_word_is_found(change: Callable[[SharingPlan], SharingPlan], said: str) -> None:
    """What a plan says of itself must be so."""
    plan, demand, fleet = a_plan()
    assert said in words(change(plan), demand, fleet)


def test_a_tenant_that_needs_isolation_is_beside_nobody() -> None:
    """Its seat put into another tenant's slice is a breach, whatever the mode."""
    plan, demand, fleet = a_plan()
    at, part, seat = where_of(plan, "a")
    to, other, _ = where_of(plan, "d")
    beside = replace(other, seats=(*other.seats, seat))
    plan = with_device(plan, at, slices=tuple(p for p in plan.devices[at].slices if p is not part))
    plan = with_device(
        plan, to, slices=tuple(beside if p is other else p for p in plan.devices[to].slices)
    )
    assert "tenant `safe` is beside others" in words(plan, demand, fleet)


def test_instances_must_be_legal_together() -> None:
    """Two at one place are found, and so is a place where none may begin."""
    demand = a_demand(a_model("a", weights_bytes=GIB), a_model("b", tenant="u"), t="strong")
    fleet = a_fleet(*devices(1))
    plan = plan_sharing(demand, fleet)
    share = plan.devices[0]
    assert share.mode is SharingMode.MIG
    moved = tuple(replace(part, start=0) for part in share.slices)
    assert "both cover cell" in words(with_device(plan, 0, slices=moved), demand, fleet)
    part = replace(share.slices[0], profile="2g.20gb", start=1, sm_count=28)
    plan = with_device(plan, 0, slices=(part, *share.slices[1:]))
    assert "cannot begin there" in words(plan, demand, fleet)


def test_a_busy_instance_may_be_neither_lost_nor_given_away() -> None:
    """What runs today stays, and nobody else is put into it."""
    from headway.plan import MigToday

    today = MigToday(profile="3g.40gb", start=4, is_busy=True)
    device = a_device(is_mig_enabled=True, instances=(today,))
    demand, fleet = a_demand(a_model("a")), a_fleet(device)
    plan = plan_sharing(demand, fleet)
    assert words(plan, demand, fleet) == ""
    busy = next(part for part in plan.devices[0].slices if part.start == 4)
    assert busy.is_kept
    others = tuple(part for part in plan.devices[0].slices if part is not busy)
    lost = with_device(plan, 0, slices=others)
    assert "is busy, and is not in the plan" in words(lost, demand, fleet)
    given = replace(busy, seats=others[0].seats)
    taken = with_device(plan, 0, slices=(given,))
    assert "is busy, and is given away" in words(taken, demand, fleet)


def test_a_load_that_is_nowhere_is_found() -> None:
    """Every request a second has a place or is said to have none."""
    plan, demand, fleet = a_plan()
    at, part, _ = where_of(plan, "a")
    empty = replace(part, seats=())
    slices = tuple(empty if p is part else p for p in plan.devices[at].slices)
    said = words(with_device(plan, at, slices=slices), demand, fleet)
    assert "0 of 10 requests/s placed, 0 said to be left" in said


def test_neighbours_that_make_others_late_are_found() -> None:
    """A model that bears no long batch beside it is not put beside one."""
    demand = a_demand(
        a_model("tight", budget_ns=40_000_000, service={1: 10_000_000}),
        a_model("long", priority=3, service={1: 200_000_000}, rate_rps=1.0, budget_ns=5 * 10**9),
    )
    fleet = a_fleet(*devices(2))
    plan = plan_sharing(demand, fleet)
    assert words(plan, demand, fleet) == ""
    here, there = where_of(plan, "tight"), where_of(plan, "long")
    assert here[:2] != there[:2]
    whole = replace(
        plan.devices[0].slices[0],
        profile=None,
        start=None,
        size=None,
        sm_count=108,
        memory_bytes=fleet.devices[0].memory_bytes,
        inside=SharingMode.STREAMS,
        seats=tuple(replace(seat, load_ratio=r) for seat, r in ((here[2], 0.1), (there[2], 0.2))),
    )
    plan = with_device(plan, 0, slices=(whole,), mode=SharingMode.STREAMS)
    plan = with_device(plan, 1, slices=())
    assert "batches of `long` are too long for `tight`" in words(plan, demand, fleet)


def test_replicas_that_are_to_be_spread_are_spread() -> None:
    """Two on one device, or on one node, are a breach."""
    for spread, where in ((Spread.DEVICE, "n/gpu:0"), (Spread.NODE, "n")):
        demand = a_demand(a_model("a", replicas_min=2, spread=spread))
        fleet = a_fleet(a_device("n/gpu:0"), a_device("o/gpu:0"))
        plan = plan_sharing(demand, fleet)
        assert words(plan, demand, fleet) == ""
        near = a_fleet(a_device("n/gpu:0"), a_device("n/gpu:1"))
        shares = tuple(
            replace(share, device=DeviceName(f"n/gpu:{index}"), node="n", index=index)
            for index, share in enumerate(plan.devices)
        )
        said = words(replace(plan, devices=shares), demand, near)
        assert (f"2 replicas on `{where}`" in said) is (spread is Spread.NODE)
