"""Plans of large random workloads: solver, fast path and first fit, against the bound and played.

Two sizes: a hundred models on sixteen mixed GPUs, where the solver has thirty seconds, and a
thousand models on two hundred GPUs, which only the fast path and first fit are asked. Then small
workloads of all kinds, of which every plan is put before the checker.

Usage: `python benchmarks/planner.py [--quick] [--format table|json]`. With `--format json` the
document goes to stdout; otherwise a table, and a full run puts the document into
`benchmarks/results/planner.json`.
"""

from __future__ import annotations

import sys
import time
from random import Random
from typing import NamedTuple

from harness import BENCHMARKS, Row, publish, quick_parser

from headway.bench import policy_maker
from headway.core import DeviceName, ModelName, SlotClass, TenantId, TierName
from headway.plan import (
    Demand,
    Effort,
    Fleet,
    FleetDevice,
    IsolationNeed,
    MeasuredTimes,
    ModelDemand,
    PlanMaker,
    PlayLimits,
    SearchLimits,
    SharingPlan,
    Spread,
    Terms,
    bound_verdicts,
    breaches,
    mig_product,
    mig_products,
    plan_sharing,
    play_plan,
    solved_bound,
)

NAME = "planner"
GIB = 1 << 30
MS = 1_000_000
POLICY = "headway"
BOUND_S = 60.0
"""That the bound may take beside the plans, which compute one of their own in less."""
MIX = ("A100-80GB",) * 6 + ("H100-SXM5-80GB",) * 4 + ("A30-24GB",) * 2 + ("L4",) * 4
COSTS = {"A100-80GB": 1.0, "H100-SXM5-80GB": 2.0, "A30-24GB": 0.4, "L4": 0.3}
SPEEDS = {"A100-80GB": 1.0, "H100-SXM5-80GB": 1.9, "A30-24GB": 0.5, "L4": 0.4}
COLUMNS = (
    *("workload", "maker", "models", "devices", "used", "cost", "bound", "gap", "seconds"),
    *("placed", "breaches", "late_bound", "late_simulated", "missed", "missed_edf"),
)
NOTES = (
    "Models, rates and times are drawn at random; no GPU was there. `cost` is that of the devices "
    "in use (an A100 is 1), `bound` what no plan can better, `gap` the part above it.",
    "missed_edf counts those where each slice serves by deadline alone, without shares of tenants.",
    "late_simulated is the part of all requests that were not answered within their budget when "
    "the placed plan was played with the scheduler's own code; missed counts models below their "
    "objective.",
    "Rows of the workload `random` count plans of small workloads of all kinds; breaches is what "
    "the checker found in all of them together.",
)


QUICK_MAKERS = (PlanMaker.FAST, PlanMaker.FIRST_FIT)


class Class(NamedTuple):
    """A class of service."""

    name: str
    priority: int
    budget_ms: float
    attainment: float
    first_ms: float
    """The longest time of one request, on a whole A100."""


class Size(NamedTuple):
    """A workload to plan."""

    name: str
    models: int
    devices: int
    load: float
    """Of the whole fleet's time, about."""
    makers: tuple[PlanMaker, ...]
    requests: int
    """Played."""
    classes: tuple[Class, ...]


ALIKE = (Class("chat", 0, 1000.0, 0.99, 20.0), Class("office", 0, 2000.0, 0.95, 25.0))
"""Models that make good neighbours: what limits is load, memory and isolation."""
UNLIKE = (
    Class("live", 0, 150.0, 0.99, 8.0),
    Class("chat", 1, 1000.0, 0.99, 30.0),
    Class("bulk", 5, 30_000.0, 0.9, 60.0),
)
"""Models of which many cannot be beside each other, which the bound knows nothing of."""
SIZES = (
    Size("100 alike on 16", 100, 16, 0.9, tuple(PlanMaker), 40_000, ALIKE),
    Size("100 unlike on 16", 100, 16, 0.5, tuple(PlanMaker), 40_000, UNLIKE),
    Size("1000 alike on 200", 1000, 200, 0.9, QUICK_MAKERS, 100_000, ALIKE),
)
QUICK_SIZES = (Size("30 alike on 8", 30, 8, 0.6, tuple(PlanMaker), 8_000, ALIKE),)


def main() -> int:
    """Plan, check, play and publish."""
    parser = quick_parser(__doc__, "one small workload, and 200 random ones")
    parser.add_argument("--seeds", type=int, default=3, help="workloads of each size (3)")
    parser.add_argument("--random", type=int, default=10_000, help="small workloads (10000)")
    options = parser.parse_args()
    rows: list[Row] = []
    for size in QUICK_SIZES if options.quick else SIZES:
        for seed in range(1, 2 if options.quick else options.seeds + 1):
            rows += planned(size, seed, 5.0 if options.quick else 30.0)
    rows += random_rows(200 if options.quick else options.random)
    publish(NAME, rows, COLUMNS, options, notes=NOTES)
    return 0


def planned(size: Size, seed: int, seconds: float) -> list[Row]:
    """A row for each maker, and the devices saved over first fit."""
    demand, fleet = workload(size, seed)
    bound = solved_bound(Terms(demand, fleet), Effort(8.0, wall_s=BOUND_S)).cost
    rows: list[Row] = []
    for maker in size.makers:
        began = time.perf_counter()
        until = began + seconds
        plan = plan_sharing(
            demand,
            fleet,
            maker,
            limits=SearchLimits(work_s=seconds),
            left_s=lambda until=until: until - time.perf_counter(),
        )
        took = time.perf_counter() - began
        rows.append(row_of(size, seed, plan, demand, fleet, max(bound, plan.cost_bound)))
        rows[-1]["seconds"] = round(took, 2)
        print(f"{size.name} seed {seed} {maker}: {rows[-1]}", file=sys.stderr, flush=True)
    first = rows[-1]
    for row in rows:
        row["devices_saved"] = int(str(first["used"])) - int(str(row["used"]))
        row["cost_saved"] = round(float(str(first["cost"])) - float(str(row["cost"])), 3)
    return rows


def row_of(
    size: Size, seed: int, plan: SharingPlan, demand: Demand, fleet: Fleet, bound: float
) -> Row:
    """What came of one plan."""
    total = sum(model.rate_rps for model in demand.models)
    left = sum(unplaced.rate_rps for unplaced in plan.unplaced)
    bounds = bound_verdicts(plan, demand, fleet)
    limits = PlayLimits(requests_max=size.requests, seed=seed)
    played = list(play_plan(plan, demand, fleet, policy_maker({"kind": POLICY}), limits))
    by_deadline = play_plan(plan, demand, fleet, policy_maker({"kind": "edf"}), limits)
    missed_edf = sum(not verdict.is_met for verdict in by_deadline)
    rates = {model.name: model.rate_rps for model in demand.models}

    def late(verdicts: object) -> float:
        return round(
            sum(rates[v.model] * (1 - v.expected_attainment_ratio) for v in verdicts) / total, 5
        )

    return {
        "workload": size.name,
        "seed": seed,
        "maker": str(plan.maker),
        "models": len(demand.models),
        "devices": len(fleet.devices),
        "used": sum(any(part.seats for part in share.slices) for share in plan.devices),
        "cost": round(plan.cost, 3),
        "bound": round(bound, 3),
        "gap": round(plan.cost / bound - 1, 4) if bound else 0.0,
        "placed": round(1 - left / total, 4),
        "breaches": len(breaches(plan, demand, fleet)),
        "stranded_sm": sum(share.stranded_sm_count for share in plan.devices),
        "wasted_gib": round(sum(waste.wasted_bytes for waste in plan.waste) / GIB, 1),
        "late_bound": late(bounds),
        "late_simulated": late(played),
        "missed": sum(not verdict.is_met for verdict in played),
        "missed_edf": missed_edf,
        "policy": POLICY,
    }


# --- workloads ------------------------------------------------------------------------------------


def workload(size: Size, seed: int) -> tuple[Demand, Fleet]:
    """Models of a company: many small ones, some large, some tenants that must be apart."""
    chance = Random(f"{seed}/planner/{size.name}")
    fleet = Fleet(
        devices=tuple(
            device(f"n{index // 4}", index % 4, MIX[index % len(MIX)])
            for index in range(size.devices)
        ),
        speeds=SPEEDS,
    )
    tenants = [TenantId(f"t{index}") for index in range(max(4, size.models // 8))]
    needs = {
        tenant: chance.choices(list(IsolationNeed), (0.7, 0.2, 0.05, 0.05))[0] for tenant in tenants
    }
    speed = sum(SPEEDS[one.product] for one in fleet.devices)
    shares = [chance.lognormvariate(0.0, 1.0) for _ in range(size.models)]
    total = sum(shares)
    models = [
        a_model(
            chance,
            ModelName(f"m{i}"),
            chance.choice(tenants),
            size.load * speed * s / total,
            size.classes,
        )
        for i, s in enumerate(shares)
    ]
    return Demand(models=tuple(models), isolation=needs), fleet


def device(node: str, index: int, product: str) -> FleetDevice:
    """One of the mix."""
    has_mig = product in mig_products()
    table = mig_product(product) if has_mig else None
    memory = 22 * GIB if table is None else max(p.memory_bytes for p in table.plain)
    return FleetDevice(
        name=DeviceName(f"{node}/gpu:{index}"),
        node=node,
        index=index,
        product=product,
        memory_bytes=memory,
        sm_count=58 if table is None else table.sm_count or 0,
        has_mig=has_mig,
        cost=COSTS[product],
    )


def a_model(
    chance: Random, name: ModelName, tenant: TenantId, load: float, classes: tuple[Class, ...]
) -> ModelDemand:
    """One of a class of service that would take such a part of an A100, request by request."""
    kind = chance.choice(classes)
    first_ns = round(chance.uniform(kind.first_ms / 3, kind.first_ms) * MS)
    rows_max = chance.choice((1, 4, 8))
    last_ns = round(first_ns * (1 + (rows_max - 1) * chance.uniform(0.2, 0.6)))
    service = {1: first_ns} if rows_max == 1 else {1: first_ns, rows_max: last_ns}
    return ModelDemand(
        name=name,
        tenant=tenant,
        tier=TierName(kind.name),
        priority=kind.priority,
        slot_class=SlotClass.LOW if kind.priority == 5 else SlotClass.HIGH,
        budget_ns=round(kind.budget_ms * MS),
        attainment_ratio=kind.attainment,
        rate_rps=load * 1e9 / first_ns,
        arrivals_cv=chance.choice((1.0, 1.0, 1.5)),
        batch_rows_max=rows_max,
        times=(MeasuredTimes(product="A100-80GB", service_ns=service),),
        weights_bytes=round(chance.lognormvariate(0.4, 0.8) * GIB),
        overhead_bytes=600 << 20,
        row_bytes=chance.choice((8, 40, 150)) << 20,
        replicas_min=2 if chance.random() < 0.1 else 1,
        spread=Spread.DEVICE,
    )


def random_rows(count: int) -> list[Row]:
    """Small workloads of all kinds, and what the checker finds in their plans."""
    sys.path.insert(0, str(BENCHMARKS.parent))
    from tests.planned import a_random_demand, a_random_fleet

    rows: list[Row] = []
    found = dict.fromkeys((PlanMaker.FAST, PlanMaker.FIRST_FIT), 0)
    took = dict.fromkeys(found, 0.0)
    for seed in range(count):
        chance = Random(f"{seed}/random")
        demand = a_random_demand(chance, chance.randint(1, 14))
        fleet = a_random_fleet(chance, chance.randint(1, 8))
        for maker in found:
            began = time.perf_counter()
            plan = plan_sharing(demand, fleet, maker)
            took[maker] += time.perf_counter() - began
            found[maker] += len(breaches(plan, demand, fleet))
    for maker, count_found in found.items():
        rows.append(
            {
                "workload": "random",
                "maker": str(maker),
                "plans": count,
                "breaches": count_found,
                "seconds": round(took[maker], 2),
            }
        )
    return rows


if __name__ == "__main__":
    sys.exit(main())
