"""Placed plans, played with the scheduler's own code: what the bound promised is kept."""

from collections.abc import Sequence
from math import inf

import pytest
from tests.planned import GIB, MS, a_demand, a_device, a_fleet, a_model, devices

from headway.bench import policy_maker
from headway.core import DeviceParams, Policy
from headway.plan import (
    Judge,
    PlayLimits,
    bound_verdicts,
    capacity,
    first_look,
    plan_sharing,
    play_plan,
    whole_cut,
)
from headway.policy import priority
from headway.predict import ModelProfile, Recipe, build_predictor

LIMITS = PlayLimits(requests_max=3_000)


def in_turn(profiles: Sequence[ModelProfile], devices_: Sequence[DeviceParams]) -> Policy:
    """Strict priority, nothing refused."""
    return priority(build_predictor(Recipe(kind="fixed", profiles=tuple(profiles)), devices_))


def played(demand, fleet, make_policy=in_turn, limits=LIMITS):
    """Verdicts of the simulation by model."""
    plan = plan_sharing(demand, fleet)
    return {v.model: v for v in play_plan(plan, demand, fleet, make_policy, limits)}


@pytest.mark.parametrize("kind", ["headway", "priority", "edf"])
def test_what_the_bound_promises_is_kept(kind: str) -> None:
    """Models of several importances and times on shared devices, near what the rule allows."""
    demand = a_demand(
        a_model(
            "live",
            rate_rps=45.0,
            budget_ns=120 * MS,
            service={1: 6 * MS, 8: 20 * MS},
            batch_rows_max=8,
        ),
        a_model("chat", rate_rps=10.0, priority=1, budget_ns=600 * MS, service={1: 25 * MS}),
        a_model("bulk", rate_rps=4.0, priority=5, budget_ns=20_000 * MS, service={1: 15 * MS}),
        a_model("apart", rate_rps=20.0, tenant="u", budget_ns=300 * MS),
        u="strong",
    )
    fleet = a_fleet(*devices(4))
    plan = plan_sharing(demand, fleet)
    assert not plan.unplaced
    assert all(verdict.is_met for verdict in bound_verdicts(plan, demand, fleet))
    verdicts = played(demand, fleet, policy_maker({"kind": kind}))
    assert {v.judge for v in verdicts.values()} == {Judge.SIMULATION}
    assert [v.model for v in verdicts.values() if not v.is_met] == []


def test_load_without_a_place_shows_in_the_simulation() -> None:
    """All requests arrive, whether there was room for them or not."""
    demand = a_demand(a_model("m", rate_rps=200.0, budget_ns=100 * MS))
    verdicts = played(demand, a_fleet(*devices(1)))
    assert not verdicts["m"].is_met
    assert verdicts["m"].expected_attainment_ratio < 0.7


def test_a_model_without_a_place_is_missed() -> None:
    """None of its requests is answered."""
    demand = a_demand(a_model("m"), a_model("large", weights_bytes=100 * GIB))
    verdicts = played(demand, a_fleet(*devices(1)))
    assert verdicts["m"].is_met
    assert (verdicts["large"].is_met, verdicts["large"].latency_p99_ns) == (False, None)


def test_replicas_on_unlike_slices_have_their_own_times() -> None:
    """A slow slice and a fast one serve one model: requests take what the slice takes."""
    slow = a_device("n/gpu:1", "L4", memory_bytes=22 * GIB, sm_count=58)
    model = a_model("m", rate_rps=130.0, budget_ns=400 * MS, replicas_min=2, spread="device")
    fleet = a_fleet(a_device("n/gpu:0"), slow, **{"A100-80GB": 1.0, "L4": 0.5})
    verdict = played(a_demand(model), fleet)["m"]
    assert verdict.is_met
    assert 10 * MS < verdict.latency_p99_ns < 400 * MS


def test_the_same_seed_plays_the_same() -> None:
    """Chance is an argument."""
    demand = a_demand(a_model("m", rate_rps=60.0, service_cv=0.5))
    fleet = a_fleet(*devices(1))
    assert played(demand, fleet) == played(demand, fleet)
    other = played(demand, fleet, limits=LIMITS._replace(seed=2))
    assert other != played(demand, fleet)


# --- capacity -------------------------------------------------------------------------------------


def test_capacity_is_between_the_load_and_the_bound() -> None:
    """Load alone cannot need more devices than played ones, nor these more than the bound says."""
    demand = a_demand(a_model("m", rate_rps=400.0, budget_ns=80 * MS))
    answer = capacity(demand, a_fleet(*devices(1)), a_device(), in_turn, limits=LIMITS)
    assert answer.by_simulation is not None
    assert answer.by_bound is not None
    assert answer.least_by_load == 5  # 4 devices' worth of work, at nine tenths each
    assert answer.least_by_load <= answer.by_simulation <= answer.by_bound
    counts = [point.devices for point in answer.points]
    assert counts == sorted(counts)
    ratios = [point.simulated_attainment_ratio for point in answer.points]
    assert ratios[-1] == pytest.approx(1.0, abs=0.01)


def test_capacity_says_when_the_limit_is_not_enough() -> None:
    """No number up to the limit will do."""
    demand = a_demand(a_model("m", rate_rps=400.0, budget_ns=80 * MS))
    fleet = a_fleet(*devices(1))
    answer = capacity(demand, fleet, a_device(), in_turn, limits=LIMITS, devices_max=2)
    assert (answer.by_bound, answer.by_simulation) == (None, None)


def test_the_first_look_follows_littles_law() -> None:
    """Requests at once are the rate times the time in the system; each holds its rows' memory."""
    model = a_model("m", rate_rps=50.0, row_bytes=GIB, budget_ns=500 * MS)
    device = a_device()
    (look,) = first_look(a_demand(model), whole_cut(device), a_fleet(device))
    time_s = (look.wait_mean_ns + look.batch_ns) / 1e9
    assert look.in_system == pytest.approx(50.0 * time_s, rel=1e-6)
    assert look.in_system_bytes == pytest.approx(look.in_system * GIB, abs=1)
    assert 0 < look.wait_mean_ns < inf
