"""A plan as tables, sentences and pictures.

Knows what a plan says. Adds nothing to it but units.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from headway.units import format_bytes, format_duration

if TYPE_CHECKING:
    from rich.table import Table

    from headway.config import SharingQuestion
    from headway.plan import DeviceShare, PlacedSlice, SharingPlan, Verdict
    from headway.report import DrawnDevice

__all__ = ["drawn_devices", "plan_subtitle", "plan_tables", "plan_words"]

_SEATS_MAX: Final = 6
"""Models that are named in a line."""


def plan_subtitle(plan: "SharingPlan") -> str:
    """The figures of the whole plan, in one line."""
    used = sum(any(part.seats for part in share.slices) for share in plan.devices)
    best = "optimal" if plan.is_optimal else f"no plan costs less than {plan.cost_bound:g}"
    stranded = sum(share.stranded_sm_count for share in plan.devices)
    return (
        f"by the {plan.maker}: {used} of {len(plan.devices)} devices, cost {plan.cost:g} ({best}), "
        f"{stranded} multiprocessors stranded"
    )


# --- tables ---------------------------------------------------------------------------------------


def plan_tables(plan: "SharingPlan", question: "SharingQuestion") -> Iterator["Table"]:
    """Devices, then objectives, then memory that nobody can use."""
    yield _devices_table(plan)
    if plan.verdicts:
        yield _verdicts_table(plan, question)
    if plan.waste:
        yield _waste_table(plan)


def _devices_table(plan: "SharingPlan") -> "Table":
    from rich.table import Table

    table = Table(title=plan_subtitle(plan), title_justify="left")
    for column in ("device", "mode", "slice"):
        table.add_column(column)
    for column in ("SM", "memory", "needed", "busy"):
        table.add_column(column, justify="right")
    table.add_column("who sits there")
    for share in plan.devices:
        if not share.slices or not any(part.seats for part in share.slices):
            table.add_row(f"{share.device}\n{share.product}", "free", "", "", "", "", "", "")
            table.add_section()
            continue
        for index, part in enumerate(share.slices):
            first = f"{share.device}\n{share.product}" if index == 0 else ""
            table.add_row(first, *_slice_cells(part))
        table.add_section()
    return table


def _slice_cells(part: "PlacedSlice") -> Iterator[str]:
    inside = "" if part.inside == "whole" else str(part.inside)
    yield (f"mig + {inside}" if inside else "mig") if part.profile else str(part.inside)
    kept = " (kept)" if part.is_kept else ""
    yield f"{part.profile}@{part.start}{kept}" if part.profile else "whole"
    yield str(part.sm_count)
    yield format_bytes(part.memory_bytes)
    yield format_bytes(sum(seat.memory_bytes for seat in part.seats)) if part.seats else ""
    yield f"{100 * sum(seat.load_ratio for seat in part.seats):.0f} %" if part.seats else ""
    yield _seats_words(part)


def _seats_words(part: "PlacedSlice") -> str:
    words = []
    for seat in part.seats[:_SEATS_MAX]:
        limits = []
        if seat.thread_percent is not None:
            limits.append(f"{seat.thread_percent} % threads")
        if seat.memory_limit_bytes is not None:
            limits.append(f"≤ {format_bytes(seat.memory_limit_bytes)}")
        shown = f" ({', '.join(limits)})" if limits else ""
        words.append(f"{seat.tenant}/{seat.model} {seat.rate_rps:.4g}/s{shown}")
    more = len(part.seats) - len(words)
    return "\n".join([*words, f"and {more} more"] if more else words) or "spare"


def _verdicts_table(plan: "SharingPlan", question: "SharingQuestion") -> "Table":
    from rich.table import Table

    judges = list(dict.fromkeys(verdict.judge for verdict in plan.verdicts))
    table = Table(title="objectives, and who says whether they hold", title_justify="left")
    table.add_column("model")
    table.add_column("tier")
    table.add_column("budget", justify="right")
    table.add_column("wanted", justify="right")
    for judge in judges:
        table.add_column(f"{judge}\nin time", justify="right")
        table.add_column(f"{judge}\np99", justify="right")
        table.add_column("")
    for model in question.demand.models:
        cells = []
        for judge in judges:
            verdict = next(v for v in plan.verdicts if v.model == model.name and v.judge == judge)
            cells += _verdict_cells(verdict)
        table.add_row(
            model.name,
            model.tier,
            format_duration(model.budget_ns),
            f"{100 * model.attainment_ratio:.4g} %",
            *cells,
        )
    return table


def _verdict_cells(verdict: "Verdict") -> list[str]:
    p99 = "–" if verdict.latency_p99_ns is None else format_duration(verdict.latency_p99_ns)
    ratio = f"{100 * verdict.expected_attainment_ratio:.2f} %"
    return [ratio, p99, "kept" if verdict.is_met else "missed"]


def _waste_table(plan: "SharingPlan") -> "Table":
    from rich.table import Table

    table = Table(title="memory of slices in use", title_justify="left")
    table.add_column("kind")
    for column in ("slices", "memory", "needed", "of use", "wasted"):
        table.add_column(column, justify="right")
    for waste in plan.waste:
        part = waste.wasted_bytes / waste.memory_bytes
        table.add_row(
            f"{waste.profile or 'whole'} of {waste.product}",
            str(waste.slices),
            format_bytes(waste.memory_bytes),
            format_bytes(waste.needed_bytes),
            format_bytes(waste.usable_bytes),
            f"{format_bytes(waste.wasted_bytes)} ({100 * part:.0f} %)",
        )
    return table


# --- sentences ------------------------------------------------------------------------------------


def plan_words(plan: "SharingPlan", question: "SharingQuestion") -> Iterator[str]:
    """Reasons, caveats and what would change them, by device; then what the plan rests on."""
    from headway.plan import chain_reaches

    for names, share in _alike(plan):
        yield f"\n{names}"
        yield from _device_words(share)
    yield from _listed("no place", _unplaced_words(plan))
    said = "these cannot all be kept; without any one of those after the first there may be a plan"
    yield from _listed(said, plan.conflicts)
    hops = (
        f"{reach.chain}: hops within "
        + ", ".join(f"{100 * part:.0f} % {name}" for name, part in sorted(reach.hops.items()))
        for reach in chain_reaches(plan, *question)
    )
    yield from _listed("chains", hops)
    yield from _listed("assumed", plan.notes)
    missed = (
        f"{verdict.model}, says the {verdict.judge}: {verdict.note or 'too little time'}"
        for verdict in plan.verdicts
        if not verdict.is_met
    )
    yield from _listed("missed", missed)


def _listed(title: str, lines: Iterable[str]) -> Iterator[str]:
    """A title and its lines; nothing without lines."""
    for index, line in enumerate(lines):
        if index == 0:
            yield f"\n{title}"
        yield f"- {line}"


def _device_words(share: "DeviceShare") -> Iterator[str]:
    yield from (f"- {reason}" for reason in share.reasons)
    yield from (f"- must be idle first: {name}" for name in share.must_be_idle)
    if share.stranded_sm_count:
        yield f"- {share.stranded_sm_count} multiprocessors are stranded by this cut"
    yield from (f"  caveat: {caveat}" for caveat in share.caveats)
    yield from (f"  would change it: {change}" for change in share.would_change)


def _unplaced_words(plan: "SharingPlan") -> Iterator[str]:
    for left in plan.unplaced:
        yield f"{left.model}: {left.rate_rps:.4g} requests/s, {left.why}"
    if plan.unplaced and plan.served_bound_ratio < 1.0:
        yield f"no plan serves more than {100 * plan.served_bound_ratio:.1f} % of all requests"


def _alike(plan: "SharingPlan") -> Iterator[tuple[str, "DeviceShare"]]:
    """Devices about which the same is to be said, together."""
    groups: dict[tuple[object, ...], list[DeviceShare]] = {}
    for share in plan.devices:
        said = (share.reasons, share.caveats, share.would_change, share.must_be_idle)
        groups.setdefault((*said, share.stranded_sm_count, share.mode), []).append(share)
    for shares in groups.values():
        names = ", ".join(str(share.device) for share in shares[:_SEATS_MAX])
        more = len(shares) - _SEATS_MAX
        shown = f"{names} and {more} more" if more > 0 else names
        is_free = not any(part.seats for part in shares[0].slices)
        yield f"{shown}: {'free' if is_free else shares[0].mode}", shares[0]


# --- pictures -------------------------------------------------------------------------------------


def drawn_devices(plan: "SharingPlan", question: "SharingQuestion") -> list["DrawnDevice"]:
    """What the picture shows."""
    from headway.plan import mig_product, mig_products
    from headway.report import DrawnDevice, DrawnSeat, DrawnSlice

    told = {product.name: product for product in question.fleet.products}
    drawn = []
    for share in plan.devices:
        product = told.get(share.product)
        if product is None and share.product in mig_products():
            product = mig_product(share.product)
        cells = product.memory_cells if product is not None else 1
        slices = tuple(
            DrawnSlice(
                label=f"{part.profile}@{part.start}" if part.profile else "",
                left_ratio=(part.start or 0) / cells if part.profile else 0.0,
                width_ratio=(part.size or cells) / cells if part.profile else 1.0,
                seats=tuple(
                    DrawnSeat(
                        label=str(seat.model),
                        tenant=str(seat.tenant),
                        memory_ratio=seat.memory_bytes / part.memory_bytes,
                        load_ratio=seat.load_ratio,
                    )
                    for seat in part.seats
                ),
            )
            for part in share.slices
        )
        drawn.append(DrawnDevice(f"{share.device}", _bar_words(share), slices))
    return drawn


def _bar_words(share: "DeviceShare") -> str:
    if not any(part.seats for part in share.slices):
        return f"{share.product}: free"
    inside = sorted({str(p.inside) for p in share.slices if p.seats and p.inside != "whole"})
    mode = " + ".join(dict.fromkeys([str(share.mode), *inside]))
    stranded = f", {share.stranded_sm_count} SM stranded" if share.stranded_sm_count else ""
    return f"{share.product}: {mode}{stranded}"
