"""Plans of a few models: modes and why, cuts, gangs, waste, and what the solver adds."""

import pytest
from msgspec.structs import replace
from tests.planned import A100, GIB, MS, a_demand, a_device, a_fleet, a_model, devices

from headway.core import SlotClass
from headway.plan import (
    Effort,
    MeasuredTimes,
    MigToday,
    PlanMaker,
    SearchLimits,
    SharingMode,
    SharingPlan,
    Spread,
    breaches,
    explain_unplaced,
    plan_sharing,
)

LIMITS = SearchLimits(work_s=3.0, workers=1)


def used(plan: SharingPlan) -> int:
    """Devices that anything sits on."""
    return sum(any(part.seats for part in share.slices) for share in plan.devices)


def solved(demand, fleet) -> SharingPlan:
    """By the solver; legal."""
    pytest.importorskip("ortools", reason="OR-Tools solves")
    pytest.importorskip("scipy", reason="HiGHS in SciPy says how well")
    plan = plan_sharing(demand, fleet, PlanMaker.SOLVER, limits=LIMITS)
    assert breaches(plan, demand, fleet) == []
    return plan


# --- modes and their reasons ----------------------------------------------------------------------


def test_a_model_that_fills_a_device_has_it_whole() -> None:
    """Nobody else, nothing to share."""
    plan = plan_sharing(a_demand(a_model(weights_bytes=70 * GIB)), a_fleet(*devices(1)))
    (share,) = plan.devices
    assert share.mode is SharingMode.WHOLE
    assert "no tenant here needs isolation" in share.reasons[0]


def test_models_of_one_tenant_share_by_streams() -> None:
    """One process holds them, and the caveat says what that means."""
    plan = plan_sharing(a_demand(a_model("a"), a_model("b")), a_fleet(*devices(1)))
    (share,) = plan.devices
    assert share.mode is SharingMode.STREAMS
    assert any("hint" in caveat for caveat in share.caveats)
    assert any("needs MPS" in change for change in share.would_change)


def test_tenants_with_deadlines_share_by_mps() -> None:
    """With limits; one fault ends all, and bandwidth is nobody's: both are said."""
    demand = a_demand(a_model("a", tenant="t"), a_model("b", tenant="u"))
    (share,) = plan_sharing(demand, a_fleet(*devices(1))).devices
    assert share.mode is SharingMode.MPS
    said = " ".join(share.caveats)
    assert "fault of one MPS client" in said
    assert "memory bandwidth" in said
    assert "two processes of a model have it twice" in said
    seats = share.slices[0].seats
    assert all(seat.memory_limit_bytes >= seat.memory_bytes for seat in seats)
    assert {seat.client_priority for seat in seats} == {0}


def test_low_work_gets_what_the_tightest_high_work_leaves() -> None:
    """High work may use every thread; low work is capped, and is below normal."""
    demand = a_demand(
        a_model("high", tenant="t", budget_ns=100 * MS),
        a_model("low", tenant="u", priority=5, slot_class=SlotClass.LOW, budget_ns=60_000 * MS),
    )
    (share,) = plan_sharing(demand, a_fleet(*devices(1))).devices
    by_model = {seat.model: seat for seat in share.slices[0].seats}
    assert by_model["high"].thread_percent == 100
    assert by_model["low"].thread_percent < 100
    assert (by_model["high"].client_priority, by_model["low"].client_priority) == (0, 1)


def test_tenants_without_deadlines_and_limits_take_turns() -> None:
    """Low work of several tenants."""
    low = {"slot_class": SlotClass.LOW, "priority": 5}
    demand = a_demand(a_model("a", tenant="t", **low), a_model("b", tenant="u", **low))
    (share,) = plan_sharing(demand, a_fleet(*devices(1))).devices
    assert share.mode is SharingMode.TIME_SLICE


def test_a_tenant_that_needs_isolation_gets_an_instance() -> None:
    """The device is cut, the words name the tenant, and what is stranded is counted."""
    demand = a_demand(a_model("a", tenant="t"), a_model("b", tenant="u"), t="strong")
    (share,) = plan_sharing(demand, a_fleet(*devices(1))).devices
    assert share.mode is SharingMode.MIG
    assert "`t` (strong) must be kept apart" in share.reasons[0]
    assert share.stranded_sm_count == 108 - 98
    assert any("without the isolation of `t`" in change for change in share.would_change)
    assert share.must_be_idle == ("n/gpu:0",)  # its MIG mode is switched on


def test_isolation_without_mig_takes_a_device() -> None:
    """A GPU that cannot be cut is given whole."""
    cards = [a_device(f"n/gpu:{i}", "L4", memory_bytes=22 * GIB, sm_count=58) for i in range(2)]
    demand = a_demand(
        a_model("a", tenant="t", product="L4"), a_model("b", tenant="u", product="L4"), t="fault"
    )
    plan = plan_sharing(demand, a_fleet(*cards))
    assert used(plan) == 2
    assert any("cannot be partitioned" in reason for reason in plan.devices[0].reasons)


# --- what may stand where -------------------------------------------------------------------------


def test_instances_of_today_stay_where_they_serve() -> None:
    """What is there and fits is kept; an idle one in the way must be idle first."""
    today = (
        MigToday(profile="3g.40gb", start=4, is_busy=True),
        MigToday(profile="2g.20gb", start=0, is_busy=False),
    )
    device = a_device(is_mig_enabled=True, instances=today)
    demand = a_demand(a_model(weights_bytes=15 * GIB))
    (share,) = plan_sharing(demand, a_fleet(device)).devices
    assert {(p.profile, p.start): p.is_kept for p in share.slices}[("3g.40gb", 4)]
    assert share.must_be_idle == ()
    large = a_demand(a_model(weights_bytes=35 * GIB))
    (share,) = plan_sharing(large, a_fleet(device)).devices
    assert share.must_be_idle == ("2g.20gb@0",)


def test_a_gang_takes_whole_devices_of_one_domain() -> None:
    """Both parts are linked, share with nobody, and are one replica."""
    demand = a_demand(a_model("big", gang_devices=2, weights_bytes=120 * GIB), a_model("small"))
    lone = a_device("n/gpu:0")
    pair = [a_device(f"n/gpu:{i}", nvlink_domain="d") for i in (1, 2)]
    plan = plan_sharing(demand, a_fleet(lone, *pair))
    assert breaches(plan, demand, a_fleet(lone, *pair)) == []
    ranks = [
        (share.device, seat.replica, seat.gang_rank)
        for share in plan.devices
        for part in share.slices
        for seat in part.seats
        if seat.model == "big"
    ]
    assert ranks == [("n/gpu:1", 0, 0), ("n/gpu:2", 0, 1)]


def test_a_gang_without_links_has_no_place() -> None:
    """Two devices are not enough if nothing joins them."""
    demand = a_demand(a_model("big", gang_devices=2, weights_bytes=120 * GIB))
    plan = plan_sharing(demand, a_fleet(*devices(2)))
    assert [unplaced.model for unplaced in plan.unplaced] == ["big"]


def test_what_no_slice_can_have_says_why() -> None:
    """Too large, too slow, or not measured here."""
    demand = a_demand(
        a_model("large", weights_bytes=100 * GIB),
        a_model("slow", service={1: 2000 * MS}),
        a_model("unknown", product="T4"),
    )
    plan = plan_sharing(demand, a_fleet(*devices(1)))
    why = {unplaced.model: unplaced.why for unplaced in plan.unplaced}
    assert "needs 100GiB" in why["large"]
    assert "too long" in why["slow"]
    assert "measured on T4" in why["unknown"]


def test_speeds_stand_in_for_measurements_and_are_named() -> None:
    """A plan that rests on an assumption says so."""
    demand = a_demand(a_model("m", product="T4"))
    plan = plan_sharing(demand, a_fleet(*devices(1), **{"T4": 0.2, A100: 1.0}))
    assert not plan.unplaced
    assert plan.notes == ("`m` in a whole A100-80GB: times of T4 × 0.20, by the fleet's speeds",)


# --- waste ----------------------------------------------------------------------------------------


def three_of_14() -> tuple:
    """Three tenants that must be apart, each with 14 GB."""
    models = [a_model(f"m{i}", tenant=f"t{i}", weights_bytes=14 * 10**9) for i in range(3)]
    needs = {f"t{i}": "strong" for i in range(3)}
    return a_demand(*models, **needs), a_fleet(*devices(1))


def test_three_models_of_14_gb_on_slices_of_20_waste_the_rest() -> None:
    """58.5 GiB of slices, 42 GB needed, and nobody can use what is left in each."""
    demand, fleet = three_of_14()
    plan = plan_sharing(demand, fleet)
    (waste,) = plan.waste
    assert waste.slices == 3
    assert waste.profile in {"1g.20gb", "2g.20gb"}
    assert waste.needed_bytes == 3 * 14 * 10**9
    assert waste.usable_bytes == 0
    assert waste.wasted_bytes == waste.memory_bytes - 3 * 14 * 10**9


def test_what_the_smallest_model_could_use_is_not_wasted() -> None:
    """The same with a model of 2 GB beside: it would fit into what is left."""
    demand, fleet = three_of_14()
    small = a_model("small", weights_bytes=2 * 10**9, tenant="t0")
    plan = plan_sharing(replace(demand, models=(*demand.models, small)), fleet)
    assert sum(waste.wasted_bytes for waste in plan.waste) == 0


# --- the solver -----------------------------------------------------------------------------------


def test_the_solver_finds_what_first_fit_misses() -> None:
    """Memory of 45, 45, 30 and 30 GiB: two devices hold them, in the order given three are used."""
    sizes = (30, 30, 45, 45)
    models = [a_model(f"m{i}", weights_bytes=size * GIB) for i, size in enumerate(sizes)]
    demand, fleet = a_demand(*models), a_fleet(*devices(4))
    assert used(plan_sharing(demand, fleet, PlanMaker.FIRST_FIT)) == 3
    plan = solved(demand, fleet)
    assert (used(plan), plan.is_optimal, plan.cost_bound) == (2, True, 2.0)


def test_the_solver_takes_the_cheaper_device() -> None:
    """Of two that would do, and where one dear device is less than several cheap ones, that one."""
    cheap = a_device("n/gpu:0", "L4", memory_bytes=22 * GIB, sm_count=58, cost=0.3)
    demand = a_demand(
        a_model(
            "m",
            times=(
                MeasuredTimes(product="L4", service_ns={1: 20 * MS}),
                MeasuredTimes(product=A100, service_ns={1: 10 * MS}),
            ),
        )
    )
    plan = solved(demand, a_fleet(a_device("n/gpu:1"), cheap))
    assert plan.cost == pytest.approx(0.3)


def test_the_solver_serves_as_much_as_there_is_room_for() -> None:
    """On devices that are too few it says what is the most that any plan could serve."""
    demand = a_demand(*[a_model(f"m{i}", weights_bytes=50 * GIB) for i in range(3)])
    plan = solved(demand, a_fleet(*devices(2)))
    assert len(plan.unplaced) == 1
    assert plan.served_bound_ratio < 1.0


def test_spread_and_apart_hold_in_the_solver() -> None:
    """Replicas on devices of their own, and models that are to be apart on none together."""
    demand = a_demand(
        a_model("a", replicas_min=2, spread=Spread.DEVICE),
        a_model("b", apart_from=("c",)),
        a_model("c"),
    )
    assert used(solved(demand, a_fleet(*devices(3)))) == 2


def test_what_cannot_all_be_kept_is_named() -> None:
    """Three isolated tenants on two uncut devices: the isolation, and not memory or deadlines."""
    pytest.importorskip("ortools", reason="OR-Tools solves")
    pytest.importorskip("scipy", reason="HiGHS in SciPy says how well")
    cards = [a_device(f"n/gpu:{i}", "L4", memory_bytes=22 * GIB, sm_count=58) for i in range(2)]
    models = [a_model(f"m{i}", tenant=f"t{i}", product="L4") for i in range(3)]
    demand = a_demand(*models, t0="strong", t1="fault", t2="none")
    fleet = a_fleet(*cards)
    plan = explain_unplaced(plan_sharing(demand, fleet), demand, fleet, Effort(1.0, workers=1))
    assert plan.conflicts[0] == "the load of 3 models, 30 requests/s, on 2 devices"
    assert plan.conflicts[1:] == (
        "the isolation of tenant `t0` (strong)",
        "the isolation of tenant `t1` (fault)",
    )
    assert (
        "everything would have a place without the isolation of tenant `t0` (strong)" in plan.notes
    )


def test_memory_that_is_too_little_is_named() -> None:
    """Not the deadlines, which could be kept."""
    pytest.importorskip("ortools", reason="OR-Tools solves")
    pytest.importorskip("scipy", reason="HiGHS in SciPy says how well")
    demand = a_demand(*[a_model(f"m{i}", weights_bytes=50 * GIB) for i in range(3)])
    fleet = a_fleet(*devices(2))
    plan = explain_unplaced(plan_sharing(demand, fleet), demand, fleet, Effort(1.0, workers=1))
    assert plan.conflicts[1:] == ("the memory of models",)
