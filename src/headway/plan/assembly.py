"""From a layout to a plan: instances at their places, seats with their limits, and words.

Knows drafts. Refuses to move anything: what sits together here sat together in the layout.
"""

from collections import defaultdict
from collections.abc import Iterator
from math import ceil
from typing import Final

from msgspec.structs import replace

from headway.core import ModelName, SlotClass
from headway.plan.cuts import Cut, times_there
from headway.plan.drafts import DeviceDraft, SliceDraft
from headway.plan.geometry import (
    GeometryChange,
    MigToday,
    Placement,
    cheapest_change,
    stranded_sm_count,
)
from headway.plan.greedy import Layout
from headway.plan.modes import inside_mode, words_of
from headway.plan.seats import LOAD_MAX, Refusal
from headway.plan.sharing import (
    DeviceShare,
    PlacedSlice,
    PlanMaker,
    Seat,
    SharingMode,
    SharingPlan,
    Unplaced,
)
from headway.plan.terms import Terms
from headway.plan.waste import waste_of

__all__ = ["assemble", "why_nowhere"]

_MIB: Final = 1 << 20
_PERCENT_STEP: Final = 10
_LARGE: Final = 0.5
"""Of a device's multiprocessors; who has so many to himself may as well have all."""
_BATCH_OF_BUDGET: Final = 0.8
"""Part of its budget in which a batch of high class must be able to end on what low work leaves."""


def assemble(
    layout: Layout,
    terms: Terms,
    *,
    maker: PlanMaker,
    cost_bound: float,
    is_optimal: bool = False,
    served_bound_ratio: float = 1.0,
) -> SharingPlan:
    """The plan that a layout amounts to."""
    replicas: defaultdict[ModelName, int] = defaultdict(int)
    layout = Layout([_uncut(draft, terms) for draft in layout.drafts], layout.left)
    return SharingPlan(
        maker=maker,
        devices=tuple(_share(draft, terms, replicas) for draft in layout.drafts),
        unplaced=tuple(_unplaced(layout, terms)),
        cost=layout.cost,
        cost_bound=cost_bound,
        is_optimal=is_optimal,
        served_bound_ratio=served_bound_ratio,
        waste=tuple(waste_of(layout, terms)),
        notes=tuple(_notes(layout, terms)),
    )


def _uncut(draft: DeviceDraft, terms: Terms) -> DeviceDraft:
    """The device whole, where it was cut only to make one large instance that nobody needs."""
    used = [into for into in draft.slices if into.portions]
    if not draft.is_mig or draft.busy or draft.device.is_mig_enabled or len(used) != 1:
        return draft
    (large,) = used
    whole = SliceDraft(terms.cuts(draft.device)[0], None)
    if large.cut.sm_count < _LARGE * whole.cut.sm_count:
        return draft
    for name, count in large.portions.items():
        if whole.room_for(name, count, terms) < count:
            return draft
        whole.put(name, count, terms)
    uncut = DeviceDraft.of(draft.device)
    uncut.slices.append(whole)
    return uncut


def _share(draft: DeviceDraft, terms: Terms, replicas: defaultdict[ModelName, int]) -> DeviceShare:
    device = draft.device
    change = _change(draft, terms)
    slices = tuple(_slices(draft, terms, change, replicas))
    stranded = 0
    if draft.is_mig and draft.is_used:
        placed = frozenset(change.placed) if change is not None else draft.placed
        stranded = stranded_sm_count(terms.product(device), device.sm_count, placed)
    words = words_of(draft, terms, change, stranded)
    used_bytes = sum(into.memory_bytes for into in draft.slices)
    return DeviceShare(
        device=device.name,
        node=device.node,
        index=device.index,
        product=device.product,
        mode=_mode(draft, terms),
        slices=slices,
        stranded_sm_count=stranded,
        unused_memory_bytes=device.memory_bytes - used_bytes,
        must_be_idle=tuple(_must_be_idle(draft, change)),
        reasons=words.reasons,
        caveats=words.caveats,
        would_change=words.would_change,
    )


def _mode(draft: DeviceDraft, terms: Terms) -> SharingMode:
    if draft.is_mig:
        return SharingMode.MIG
    used = [into for into in draft.slices if into.portions]
    return inside_mode(used[0], terms) if used else SharingMode.WHOLE


def _change(draft: DeviceDraft, terms: Terms) -> GeometryChange | None:
    """From today's instances to the draft's, wherever they may be put."""
    if not (draft.is_mig and draft.is_used):
        return None
    wanted = tuple(d.placement.profile for d in draft.slices if d.placement is not None)
    today: tuple[MigToday, ...] = draft.device.instances
    change = cheapest_change(terms.product(draft.device), today, wanted)
    assert change is not None, "the draft's own places are legal beside the busy ones"
    return change


def _must_be_idle(draft: DeviceDraft, change: GeometryChange | None) -> Iterator[str]:
    device = draft.device
    if not draft.is_used:
        return
    if draft.is_mig != device.is_mig_enabled:
        yield str(device.name)
    if change is not None:
        yield from (str(place) for place in change.destroyed)
    elif device.is_mig_enabled:
        yield from (str(Placement(i.profile, i.start)) for i in device.instances)


# --- slices and seats -----------------------------------------------------------------------------


def _slices(
    draft: DeviceDraft,
    terms: Terms,
    change: GeometryChange | None,
    replicas: defaultdict[ModelName, int],
) -> Iterator[PlacedSlice]:
    if change is None:
        for into in draft.slices:
            yield _whole_slice(draft, into, terms, replicas)
        return
    product = terms.product(draft.device)
    waiting: defaultdict[str, list[SliceDraft]] = defaultdict(list)
    for into in draft.slices:
        assert into.placement is not None, "slices of a device in MIG mode are instances"
        waiting[into.placement.profile].append(into)
    for place in change.placed:
        profile = product.profile(place.profile)
        here = waiting[place.profile]
        seated = here.pop(0) if here and place not in draft.busy else None
        yield PlacedSlice(
            profile=place.profile,
            start=place.start,
            size=profile.size,
            is_kept=place in change.kept,
            sm_count=profile.sm_count,
            memory_bytes=profile.memory_bytes,
            inside=SharingMode.WHOLE if seated is None else inside_mode(seated, terms),
            seats=() if seated is None else tuple(_seats(seated, terms, replicas)),
        )


def _whole_slice(
    draft: DeviceDraft, into: SliceDraft, terms: Terms, replicas: defaultdict[ModelName, int]
) -> PlacedSlice:
    seats = tuple(_seats(into, terms, replicas, gang=draft.gang))
    return PlacedSlice(
        sm_count=into.cut.sm_count,
        memory_bytes=into.cut.memory_bytes,
        inside=inside_mode(into, terms),
        seats=seats,
    )


def _seats(
    into: SliceDraft,
    terms: Terms,
    replicas: defaultdict[ModelName, int],
    gang: tuple[int, int] | None = None,
) -> Iterator[Seat]:
    is_mps = inside_mode(into, terms) is SharingMode.MPS
    percents = _thread_percents(into, terms) if is_mps else {}
    names = sorted(into.portions, key=lambda name: (terms.models[name].priority, name))
    for name in names:
        model, own = terms.models[name], terms.get(name, into.cut)
        assert own is not None, "who sits there can"
        count = into.portions[name]
        replica, rank = (replicas[name], 0) if gang is None else gang
        replicas[name] += gang is None
        rounded = -(-own.memory_bytes // _MIB) * _MIB
        yield Seat(
            model=name,
            tenant=model.tenant,
            replica=replica,
            gang_rank=rank,
            rate_rps=model.rate_rps * count / terms.portions(name),
            load_ratio=count * terms.load(name, into.cut),
            batch_rows=own.batch_rows,
            memory_bytes=own.memory_bytes,
            priority=model.priority,
            slot_class=model.slot_class,
            thread_percent=percents.get(name),
            memory_limit_bytes=rounded if is_mps else None,
            client_priority=int(model.slot_class is SlotClass.LOW) if is_mps else None,
        )


def _thread_percents(into: SliceDraft, terms: Terms) -> dict[ModelName, int]:
    """High work may use every multiprocessor; low work leaves what the tightest of it needs.

    Percentages add up to more than 100 on purpose: a fixed part each would cap whoever is busy
    while the others idle.
    """
    models = [terms.models[name] for name in into.portions]
    high = [model for model in models if model.slot_class is SlotClass.HIGH]
    needed = 0.0
    for model in high:
        own = terms.get(model.name, into.cut)
        assert own is not None, "who sits there can"
        limit_ns = model.budget_ns * _BATCH_OF_BUDGET
        shares = [percent / 100 for percent in range(_PERCENT_STEP, 101, _PERCENT_STEP)]
        needed = max(
            needed,
            next(
                (
                    share
                    for share in shares
                    if (times := times_there(model, _part(into.cut, share), terms.fleet.speeds))
                    and times.profile.service_ns(own.batch_rows) <= limit_ns
                ),
                1.0,
            ),
        )
    percents = {}
    for model in models:
        least = into.portions[model.name] * terms.load(model.name, into.cut) / LOAD_MAX
        share = 1.0 if model.slot_class is SlotClass.HIGH else max(1.0 - needed, least)
        steps = max(1, ceil(share * 100 / _PERCENT_STEP - 1e-9))
        percents[model.name] = min(100, steps * _PERCENT_STEP)
    return percents


def _part(cut: Cut, share: float) -> Cut:
    return replace(cut, sm_count=max(1, int(cut.sm_count * share)))


# --- what is left, and what it rests on -----------------------------------------------------------


def _unplaced(layout: Layout, terms: Terms) -> Iterator[Unplaced]:
    for name, count in layout.left.items():
        model = terms.models[name]
        if not terms.portions(name):
            yield Unplaced(model=name, rate_rps=model.rate_rps, why=why_nowhere(terms, name))
            continue
        rate_rps = model.rate_rps * count / terms.portions(name)
        yield Unplaced(model=name, rate_rps=rate_rps, why="no device has room left for it")


def why_nowhere(terms: Terms, name: ModelName) -> str:
    """Why no slice of the fleet can have a model, by the largest that comes nearest."""
    refusals = [
        told for cut in terms.every_cut if isinstance(told := terms.told(name, cut), Refusal)
    ]
    order = ("budget", "memory", "gang", "times")
    return min(refusals, key=lambda refusal: order.index(refusal.kind)).why


def _notes(layout: Layout, terms: Terms) -> Iterator[str]:
    assumed: defaultdict[str, set[ModelName]] = defaultdict(set)
    for draft in layout.drafts:
        for into in draft.slices:
            for name in into.portions:
                own = terms.get(name, into.cut)
                if own is not None and own.assumed:
                    assumed[f"{into.cut}: {own.assumed}"].add(name)
    for how, names in sorted(assumed.items()):
        yield f"{', '.join(f'`{name}`' for name in sorted(names))} in {how}"
