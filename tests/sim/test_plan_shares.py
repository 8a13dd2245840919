"""Placed plans whose tenants send unequal parts of a load that their device can bear."""

from tests.planned import MS, a_demand, a_device, a_fleet, a_model

from headway.bench import policy_maker
from headway.plan import PlanMaker, PlayLimits, plan_sharing, play_plan


def test_tenant_with_most_of_the_work_is_not_refused_what_nobody_else_asks_for() -> None:
    """Its lead over the others grows for ever, and costs it nothing while the device keeps up."""
    big = {"tenant": "big", "budget_ns": 400 * MS, "attainment_ratio": 0.95}
    small = {"rate_rps": 4.0, "budget_ns": 800 * MS, "attainment_ratio": 0.95}
    models = [
        a_model("heavy", rate_rps=40.0, service={1: 15 * MS}, **big),
        a_model("rare", rate_rps=2.0, **big),
        *(a_model(f"small-{i}", tenant=f"t{i}", **small) for i in range(6)),
    ]
    demand, fleet = a_demand(*models), a_fleet(a_device(sm_count=108))
    plan = plan_sharing(demand, fleet, PlanMaker.FAST)
    assert not plan.unplaced
    limits = PlayLimits(requests_max=12_000, seed=1)
    verdicts = play_plan(plan, demand, fleet, policy_maker({"kind": "headway"}), limits)
    assert [verdict.model for verdict in verdicts if not verdict.is_met] == []
