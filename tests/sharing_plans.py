"""Plans for tests: each states only what matters, devices and instances as the MIG table has them.

Knows plans and the table. Refuses to know what is made of a plan.
"""

import json
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from headway.core import DeviceName, ModelName, SlotClass, TenantId
from headway.plan import (
    DeviceShare,
    PlacedSlice,
    PlanMaker,
    Seat,
    SharingMode,
    SharingPlan,
    mig_product,
)

GIB = 1 << 30
PRODUCT = "A100-80GB"
WHOLE_BYTES = 80 * GIB


def a_seat(model: str = "speech", **changes: object) -> Seat:
    """One replica, alone and without limits unless told."""
    seat = Seat(
        model=ModelName(model),
        tenant=TenantId("voice"),
        replica=0,
        rate_rps=20.0,
        load_ratio=0.4,
        memory_bytes=4 * GIB,
        priority=0,
        slot_class=SlotClass.HIGH,
    )
    return replace(seat, **changes)


def an_mps_seat(model: str, percent: int, gib: int, **changes: object) -> Seat:
    """A client of MPS, with limits."""
    limits = {"thread_percent": percent, "memory_limit_bytes": gib * GIB, "client_priority": 0}
    return a_seat(model, **{**limits, "memory_bytes": gib * GIB - GIB // 2, **changes})


def an_instance(
    place: str,
    *seats: Seat,
    inside: SharingMode = SharingMode.WHOLE,
    is_kept: bool = False,
    product: str = PRODUCT,
) -> PlacedSlice:
    """A MIG instance, `3g.40gb@4`, and who sits in it."""
    name, _, start = place.partition("@")
    profile = mig_product(product).profile(name)
    return PlacedSlice(
        profile=name,
        start=int(start),
        size=profile.size,
        is_kept=is_kept,
        sm_count=profile.sm_count,
        memory_bytes=profile.memory_bytes,
        inside=inside,
        seats=seats,
    )


def a_device(
    *seats: Seat,
    inside: SharingMode = SharingMode.WHOLE,
    node: str = "node1",
    index: int = 0,
    product: str = PRODUCT,
    must_be_idle: Sequence[str] = (),
) -> DeviceShare:
    """A device that is not cut; without seats one that is free."""
    piece = PlacedSlice(sm_count=108, memory_bytes=WHOLE_BYTES, inside=inside, seats=seats)
    return DeviceShare(
        device=DeviceName(f"{node}/gpu:{index}"),
        node=node,
        index=index,
        product=product,
        mode=inside,
        slices=(piece,) if seats else (),
        stranded_sm_count=0,
        unused_memory_bytes=0,
        must_be_idle=tuple(must_be_idle),
        reasons=("because the test says so",),
        caveats=(),
        would_change=(),
    )


def a_cut_device(
    *slices: PlacedSlice,
    node: str = "node1",
    index: int = 0,
    product: str = PRODUCT,
    must_be_idle: Sequence[str] | None = None,
) -> DeviceShare:
    """A device in MIG mode; unless told, the mode is new and the device must be idle."""
    whole = a_device(a_seat(), node=node, index=index, product=product)
    idle = (str(whole.device),) if must_be_idle is None else tuple(must_be_idle)
    return replace(whole, mode=SharingMode.MIG, slices=slices, must_be_idle=idle)


def a_plan(*devices: DeviceShare) -> SharingPlan:
    """Devices as a plan."""
    return SharingPlan(
        maker=PlanMaker.FAST,
        devices=devices,
        cost=float(len(devices)),
        cost_bound=float(len(devices)),
        is_optimal=True,
    )


def a_mixed_plan() -> SharingPlan:
    """Every way of sharing at once, over two nodes: what an emitter meets at worst."""
    online, night = TenantId("online"), TenantId("night")
    return a_plan(
        a_cut_device(
            an_instance("3g.40gb@0", a_seat("speech")),
            an_instance(
                "2g.20gb@4",
                an_mps_seat("ocr", 60, 9, tenant=online),
                an_mps_seat("search", 40, 8, tenant=online, priority=2),
                inside=SharingMode.MPS,
            ),
            an_instance("1g.10gb@6", is_kept=True),
            must_be_idle=["3g.40gb@4"],
        ),
        a_device(
            an_mps_seat("ocr", 100, 20, tenant=online, replica=1),
            an_mps_seat(
                "embed",
                50,
                30,
                tenant=night,
                priority=5,
                slot_class=SlotClass.LOW,
                client_priority=1,
            ),
            inside=SharingMode.MPS,
            index=1,
        ),
        a_device(
            a_seat("rank", tenant=online),
            a_seat("tag", tenant=online, priority=1),
            inside=SharingMode.STREAMS,
            index=2,
        ),
        a_device(
            a_seat("nightly", tenant=night, priority=7),
            a_seat("reindex", tenant=night, priority=8),
            inside=SharingMode.TIME_SLICE,
            node="node2",
            must_be_idle=["node2/gpu:0", "7g.80gb@0"],
        ),
        a_device(a_seat("chat", tenant=online, gang_rank=0), node="node2", index=1),
        a_device(a_seat("chat", tenant=online, gang_rank=1), node="node2", index=2),
        a_device(node="node2", index=3),
    )


def plan_text(plan: SharingPlan) -> str:
    """A plan as `headway plan --format json` prints it."""
    return json.dumps({"file": "fleet.yaml", "seed": 1, "plan": msgspec.to_builtins(plan)})
