"""How a device is shared: one decision, its reasons, what it does not give, what would change it.

    whoever shares a slice           is told apart by                 so it is shared by
    nobody                                                            whole
    tenants that must be kept apart  memory, caches, multiprocessors  mig (inside one tenant's
                                                                      instance as below)
    tenants that trust each other,   limits on memory and threads,    mps
      with deadlines or limits         priorities
    models of one tenant             slots and streams of a process   streams
    tenants without either           turns                            time-slice

Knows seats and needs. Refuses to place: it names what a layout amounts to.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headway.core import SlotClass, TenantId
from headway.plan.demand import IsolationNeed, ModelDemand
from headway.plan.drafts import DeviceDraft, SliceDraft
from headway.plan.geometry import GeometryChange, MigProduct
from headway.plan.sharing import SharingMode
from headway.plan.terms import ISOLATED, Terms

__all__ = ["Words", "inside_mode", "words_of"]

_NAMED_MAX: Final = 4


class Words(NamedTuple):
    """What is to be said of a device."""

    reasons: tuple[str, ...]
    caveats: tuple[str, ...]
    would_change: tuple[str, ...]


def inside_mode(draft: SliceDraft, terms: Terms) -> SharingMode:
    """How those in a slice share it."""
    models = [terms.models[name] for name in draft.portions]
    if len(models) <= 1:
        return SharingMode.WHOLE
    tenants = {model.tenant for model in models}
    if len(tenants) == 1:
        return SharingMode.STREAMS
    has_deadlines = any(model.slot_class is SlotClass.HIGH for model in models)
    has_limits = any(terms.isolation[tenant] is IsolationNeed.MEMORY for tenant in tenants)
    return SharingMode.MPS if has_deadlines or has_limits else SharingMode.TIME_SLICE


def words_of(
    draft: DeviceDraft, terms: Terms, change: GeometryChange | None, stranded_sm_count: int
) -> Words:
    """What speaks for the mode of a device, what against, and what would make it another."""
    if not draft.is_used:
        kept = "what runs on it stays" if draft.busy else "free for other things"
        return Words((f"nothing of this workload needs it: {kept}",), (), ())
    inside = {inside_mode(into, terms) for into in draft.slices if into.portions}
    reasons: list[str] = []
    caveats: list[str] = []
    would_change: list[str] = []
    if draft.is_mig:
        product = terms.product(draft.device)
        reasons += _mig_reasons(draft, terms, change)
        caveats += _mig_caveats(product, draft)
        would_change += _mig_changes(draft, terms, stranded_sm_count)
    elif draft.gang is not None:
        reasons.append(_gang_reason(draft, terms))
        caveats.append("the replica is lost with any of its devices")
        would_change.append("a model that fits on one device could share it")
    else:
        reasons += _whole_reasons(draft, terms)
    for mode in sorted(inside):
        found = _inside_words(mode, draft, terms)
        reasons += found.reasons
        caveats += found.caveats
        would_change += found.would_change
    return Words(tuple(reasons), tuple(caveats), tuple(would_change))


def _gang_reason(draft: DeviceDraft, terms: Terms) -> str:
    name = next(draft.models())
    gang = terms.models[name].gang_devices
    assert draft.gang is not None, "asked for gangs only"
    return (
        f"replica {draft.gang[0]} of `{name}` takes {gang} whole devices of NVLink domain "
        f"`{draft.device.nvlink_domain}`; there is no P2P between MIG instances"
    )


def _whole_reasons(draft: DeviceDraft, terms: Terms) -> Iterator[str]:
    device = draft.device
    tenants = _tenants(draft.slices, terms)
    apart = [tenant for tenant in tenants if terms.isolation[tenant] in ISOLATED]
    if apart and device.has_mig:
        yield (
            f"tenant {_named(apart)} needs isolation and fills the device: whole it keeps all "
            f"{device.sm_count} multiprocessors"
        )
    elif apart:
        yield (
            f"tenant {_named(apart)} needs isolation and `{device.product}` cannot be partitioned: "
            "it has the device to itself"
        )
    elif device.has_mig:
        yield "no tenant here needs isolation: uncut, no multiprocessor is stranded"
    else:
        yield f"`{device.product}` cannot be partitioned"


def _mig_reasons(draft: DeviceDraft, terms: Terms, change: GeometryChange | None) -> Iterator[str]:
    tenants = _tenants(draft.slices, terms)
    apart = [tenant for tenant in tenants if terms.isolation[tenant] in ISOLATED]
    if apart and len(tenants) > 1:
        needs = ", ".join(f"`{tenant}` ({terms.isolation[tenant]})" for tenant in apart)
        yield (
            f"several tenants share the device, and {needs} must be kept apart: only MIG instances "
            "have memory, caches and faults of their own"
        )
    elif apart:
        yield f"tenant {_named(apart)} must be kept apart from whoever comes to the device later"
    elif sum(bool(into.portions) for into in draft.slices) > 1:
        yield "these models would not keep their deadlines beside each other: instances part them"
    elif not draft.busy:
        yield "an instance is enough, and the rest can be cut for others"
    if draft.busy:
        yield f"other work runs in {_listed(sorted(draft.busy))} and cannot be moved"
    kept = [
        place for place in (change.kept if change is not None else ()) if place not in draft.busy
    ]
    if kept:
        yield f"what is there today stays: {_listed(kept)}"


def _mig_caveats(product: MigProduct, draft: DeviceDraft) -> Iterator[str]:
    yield "PCIe, power and clocks are still shared between instances"
    yield "no P2P and no NVLink between instances, and a process sees one of them only"
    yield "instances are gone after a reboot; something must make them again"
    names = {into.placement.profile for into in draft.slices if into.placement is not None}
    slices = {product.profile(name).compute_slices for name in names}
    if product.compute_slices == 7 and {3, 4} <= slices:
        yield "4g beside 3g needs driver R510 or later"
    guessed = sorted(name for name in names if product.profile(name).is_estimated)
    if guessed:
        yield f"nobody has printed the size of {_named(guessed)} yet: it is a careful guess"
    placements = dict(product.verified).get("placements", "")
    if placements.startswith(("NOT", "assumed")):
        yield f"the places of instances are assumed ({placements}): compare with `-lgipp`"


def _mig_changes(draft: DeviceDraft, terms: Terms, stranded_sm_count: int) -> Iterator[str]:
    apart = [t for t in _tenants(draft.slices, terms) if terms.isolation[t] in ISOLATED]
    if apart and stranded_sm_count:
        yield (
            f"without the isolation of {_named(apart)} the device could stay whole, and "
            f"none of the {stranded_sm_count} multiprocessors would be stranded"
        )
    elif apart:
        yield f"without the isolation of {_named(apart)} the device could stay whole"


def _inside_words(mode: SharingMode, draft: DeviceDraft, terms: Terms) -> Words:
    here = [into for into in draft.slices if into.portions and inside_mode(into, terms) is mode]
    where = "" if not draft.is_mig else f"in {_listed([into.placement for into in here])} "
    match mode:
        case SharingMode.MPS:
            return _mps_words(here, where, terms, is_mig=draft.is_mig)
        case SharingMode.STREAMS:
            tenants = _named(_tenants(here, terms))
            return Words(
                (f"{where}all models are of tenant {tenants}: one process, a stream a slot",),
                (
                    "a fault of one model ends the process of all of them",
                    "the priority of a stream is a hint: nothing that runs is stopped for it",
                ),
                ("a second tenant in the slice, or a memory limit a model, needs MPS",),
            )
        case SharingMode.TIME_SLICE:
            return Words(
                (f"{where}no deadlines and no limits: processes take turns",),
                ("no limit on memory and no priority between processes; faults are shared",),
                ("a model with a deadline, or a tenant that needs `memory`, needs MPS",),
            )
        case _:
            return Words((), (), ())


def _mps_words(here: Sequence[SliceDraft], where: str, terms: Terms, *, is_mig: bool) -> Words:
    tenants = _tenants(here, terms)
    limited = [t for t in tenants if terms.isolation[t] is IsolationNeed.MEMORY]
    reason = f"{where}tenants {_named(tenants)} share with deadlines"
    if limited:
        reason += f", and {_named(limited)} needs a memory limit"
    caveats = [
        "a fault of one MPS client ends all clients of the device",
        "no quality of service for memory bandwidth and caches",
        "a memory limit holds for one client process: two processes of a model have it twice",
        "priorities of clients and streams are hints, and thread percentages are fixed at start",
    ]
    if is_mig:
        caveats.append(
            "MPS inside MIG: the device plugin shares whole GPUs only, and DRA wants static MIG"
        )
    change = "a tenant that needs `fault` or `strong` needs an instance or a device of its own"
    return Words((f"{reason}: MPS runs them at once, with limits",), tuple(caveats), (change,))


def _tenants(slices: Sequence[SliceDraft], terms: Terms) -> list[TenantId]:
    models: list[ModelDemand] = [terms.models[n] for into in slices for n in into.portions]
    return sorted({model.tenant for model in models})


def _named(names: Sequence[str]) -> str:
    shown = [f"`{name}`" for name in names[:_NAMED_MAX]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _listed(things: Sequence[object]) -> str:
    return ", ".join(f"`{thing}`" for thing in things)
