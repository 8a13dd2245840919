"""Demands and fleets for tests of the planner: only what matters is said."""

from random import Random

from headway.core import DeviceName, ModelName, SlotClass, TenantId, TierName
from headway.plan import (
    Demand,
    Fleet,
    FleetDevice,
    IsolationNeed,
    MeasuredTimes,
    MigToday,
    ModelDemand,
    Spread,
    mig_product,
    mig_products,
)

GIB = 1 << 30
MS = 1_000_000
A100 = "A100-80GB"


def a_model(name: str = "m", **given: object) -> ModelDemand:
    """A model of 2 GiB: 10 ms a row on an A100, 10 requests a second, a budget of 1 s."""
    service = given.pop("service", {1: 10 * MS})
    product = given.pop("product", A100)
    plain: dict[str, object] = {
        "name": ModelName(name),
        "tenant": TenantId("t"),
        "tier": TierName("live"),
        "priority": 0,
        "slot_class": SlotClass.HIGH,
        "budget_ns": 1000 * MS,
        "attainment_ratio": 0.99,
        "rate_rps": 10.0,
        "times": (MeasuredTimes(product=product, service_ns=service),),
        "weights_bytes": 2 * GIB,
        "overhead_bytes": 0,
        "row_bytes": 0,
    }
    return ModelDemand(**{**plain, **given})  # type: ignore[arg-type]


def a_demand(*models: ModelDemand, **isolation: str) -> Demand:
    """Models, and what their tenants need: nothing, where nothing is said."""
    needs = {model.tenant: IsolationNeed.NONE for model in models}
    needs |= {TenantId(name): IsolationNeed(need) for name, need in isolation.items()}
    return Demand(models=models, isolation=needs)


def a_device(name: str = "n/gpu:0", product: str = A100, **given: object) -> FleetDevice:
    """A device of a product of the table, or with a memory and multiprocessors of its own."""
    node, _, index = name.partition("/gpu:")
    has_mig = product in mig_products()
    plain: dict[str, object] = {
        "name": DeviceName(name),
        "node": node,
        "index": int(index),
        "product": product,
        "has_mig": has_mig,
    }
    if has_mig:
        table = mig_product(product)
        plain["memory_bytes"] = max(p.memory_bytes for p in table.plain)
        plain["sm_count"] = table.sm_count
    return FleetDevice(**{**plain, **given})  # type: ignore[arg-type]


def a_fleet(*devices: FleetDevice, **speeds: float) -> Fleet:
    """These devices."""
    return Fleet(devices=devices, speeds=speeds)


def devices(count: int, product: str = A100, **given: object) -> tuple[FleetDevice, ...]:
    """Alike, on one node."""
    return tuple(a_device(f"n/gpu:{index}", product, **given) for index in range(count))


PRODUCTS = ("A100-80GB", "A100-40GB", "H100-SXM5-80GB", "A30-24GB", "L4")
SPEEDS = {"A100-80GB": 1.0, "A100-40GB": 0.9, "H100-SXM5-80GB": 1.9, "A30-24GB": 0.5, "L4": 0.4}


def a_random_fleet(chance: Random, count: int) -> Fleet:
    """Devices of several products on some nodes, some linked, some partitioned or busy today."""
    found: list[FleetDevice] = []
    for index in range(count):
        product = chance.choice(PRODUCTS)
        node = f"n{index // 4}"
        given: dict[str, object] = {"cost": {"L4": 0.3, "A30-24GB": 0.4}.get(product, 1.0)}
        if product == "L4":
            given |= {"memory_bytes": 22 * GIB, "sm_count": 58}
        elif chance.random() < 0.25:
            profiles = mig_product(product).plain
            profile = chance.choice(profiles)
            instance = MigToday(
                profile=profile.name,
                start=chance.choice(profile.starts),
                is_busy=chance.random() < 0.5,
            )
            given |= {"is_mig_enabled": True, "instances": (instance,)}
        if chance.random() < 0.5:
            given["nvlink_domain"] = f"{node}/{product}"
        found.append(a_device(f"{node}/gpu:{index % 4}", product, **given))
    return Fleet(devices=tuple(found), speeds=SPEEDS)


def a_random_demand(chance: Random, count: int) -> Demand:
    """Models of all kinds: tight and loose, small and large, alone and in gangs."""
    tenants = [TenantId(f"t{index}") for index in range(chance.randint(1, 5))]
    isolation = {tenant: chance.choice(list(IsolationNeed)) for tenant in tenants}
    names = [ModelName(f"m{index}") for index in range(count)]
    models = []
    for name in names:
        first_ns = round(chance.lognormvariate(2.0, 1.2) * MS)
        rows_max = chance.choice((1, 4, 16))
        service = {1: first_ns}
        if rows_max > 1:
            service[rows_max] = round(first_ns * (1 + (rows_max - 1) * chance.uniform(0.2, 0.9)))
        budget_ns = round(first_ns * chance.choice((3, 10, 50, 400)))
        gang = 2 if chance.random() < 0.05 else 1
        models.append(
            a_model(
                name,
                tenant=chance.choice(tenants),
                priority=chance.randint(0, 3),
                slot_class=chance.choice(list(SlotClass)),
                budget_ns=budget_ns,
                attainment_ratio=chance.choice((0.9, 0.99, 0.999)),
                rate_rps=chance.uniform(0.02, 0.9) * 1e9 / first_ns,
                arrivals_cv=chance.choice((0.5, 1.0, 2.0)),
                service_cv=chance.choice((0.0, 0.3)),
                service=service,
                batch_rows_max=rows_max,
                weights_bytes=round(chance.uniform(0.2, 30) * GIB),
                overhead_bytes=GIB // 2,
                row_bytes=chance.choice((0, 20 << 20)),
                gang_devices=gang,
                replicas_min=chance.choice((1, 1, 1, 2)),
                spread=chance.choice((Spread.NONE, Spread.NONE, Spread.DEVICE, Spread.NODE)),
                apart_from=tuple(other for other in chance.sample(names, 1) if other != name)
                if chance.random() < 0.1
                else (),
            )
        )
    return Demand(models=tuple(models), isolation=isolation)
