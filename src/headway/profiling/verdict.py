"""Why a model is as fast as it is on a device: its graph, a roof and what a profiler saw, in words.

Knows numbers of graphs, ceilings and profiles. Refuses to know files, and how it is printed.
"""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Final

from msgspec import Struct

from headway.errors import ConfigError
from headway.profiling.graph import GraphCost, profile_of
from headway.profiling.nsight import Direction, NsightProfile
from headway.profiling.roofline import (
    Bounds,
    Limit,
    Roof,
    SoloEstimate,
    bounds_of,
    estimate_solo_ns,
)
from headway.profiling.walk import NodeCost
from headway.units import NS_PER_S, format_bytes, format_duration

__all__ = ["Explanation", "MeasuredRun", "NodeShare", "SoloRun", "explain"]

_GIGA: Final = 1e9
_WEIGHTS_RATIO_MIN: Final = 0.5
"""From this part of the traffic on, weights are worth a sentence."""
_OTHER_TYPE_RATIO_MIN: Final = 0.1
_BEYOND_RATIO: Final = 1.15
"""Beyond what noise and a boosted clock explain."""
_KINDS_MAX: Final = 8
"""Operators that a sentence lists."""


class SoloRun(Struct, frozen=True, kw_only=True):
    """The model's execution alone, out of a measured profile."""

    file: str
    time_ns: int


class MeasuredRun(Struct, frozen=True, kw_only=True):
    """One run of the model as it was measured; what no file recorded is None."""

    files: tuple[str, ...]
    time_ns: float | None
    """Its execution alone; else that of its kernels, one after the other."""
    is_kernels: bool
    """Whether it is that of its kernels."""
    flop_per_s: float | None
    """The graph's operations by that time."""
    attained_ratio: float | None
    """Of what the roof allows: at the measured intensity, else at the fused one."""
    intensity_flop_per_byte: float | None
    """The graph's operations by the measured traffic."""
    traffic_bytes: float | None
    counted_flop: float | None
    """By counters; None where tensor cores, which those leave out, were used."""
    copied_in_bytes: float | None
    copied_out_bytes: float | None
    copying_ns: float | None
    """Time of all copies."""


class NodeShare(Struct, frozen=True, kw_only=True):
    """Nodes that are alike, and their part of the whole as the roof has it."""

    node: NodeCost
    """The first of them."""
    count: int
    """Nodes of the same operator that write the same shape and cost the same."""
    intensity_flop_per_byte: float
    limit: Limit
    time_ratio: float
    """Of the sum over all nodes, each as slow as the roof makes it alone."""


class Explanation(Struct, frozen=True, kw_only=True):
    """The verdict, its numbers and its reasons."""

    limit: Limit
    bounds: Bounds
    roof: Roof
    estimate: SoloEstimate
    """Of a run alone, from the graph and the roof."""
    measured: MeasuredRun | None
    nodes: tuple[NodeShare, ...]
    """The costliest first."""
    reasons: tuple[str, ...]
    """Sentences."""


def explain(
    cost: GraphCost,
    roof: Roof,
    *,
    cache_bytes: int = 0,
    profiles: Sequence[NsightProfile] = (),
    runs: int = 1,
    solo: SoloRun | None = None,
) -> Explanation:
    """Place a model under a roof and say why it is there.

    Args:
        cost: its graph, counted.
        roof: ceilings of the device, or of the part that a run gets.
        cache_bytes: of the last level; 0 where it is not known.
        profiles: what profilers saw; of amounts that several have, the last counts.
        runs: of the model, that each of the profiles holds.
        solo: a measured execution, which counts before the kernels' times.

    Raises:
        ConfigError: runs below 1.
    """
    bounds = bounds_of(cost.flop, cost.bytes_fused, cost.bytes_unfused, roof)
    measured = None
    if profiles or solo is not None:
        measured = _measured(cost, bounds, roof, profiles, runs, solo)
    estimate = estimate_solo_ns(profile_of(cost), roof, cost.rows)
    return Explanation(
        limit=bounds.limit,
        bounds=bounds,
        roof=roof,
        estimate=estimate,
        measured=measured,
        nodes=_shares(cost, roof),
        reasons=tuple(_reasons(cost, bounds, roof, estimate, cache_bytes, measured)),
    )


def _shares(cost: GraphCost, roof: Roof) -> tuple[NodeShare, ...]:
    """Layers repeat, so nodes that are alike are one line."""
    alike: dict[tuple[str, str, tuple[int, ...], int, int], list[NodeCost]] = {}
    for node in cost.nodes:
        key = (node.kind, node.datatype, node.output_shape, node.flop, node.traffic_bytes)
        alike.setdefault(key, []).append(node)
    times = {
        key: len(nodes)
        * max(nodes[0].flop / roof.flop_per_s, nodes[0].traffic_bytes / roof.bytes_per_s)
        for key, nodes in alike.items()
    }
    whole = sum(times.values()) or 1.0
    shares = []
    for key, nodes in alike.items():
        first = nodes[0]
        bounds = bounds_of(first.flop, first.traffic_bytes, first.traffic_bytes, roof)
        shares.append(
            NodeShare(
                node=first,
                count=len(nodes),
                intensity_flop_per_byte=bounds.intensity_low,
                limit=bounds.limit,
                time_ratio=times[key] / whole,
            )
        )
    return tuple(sorted(shares, key=lambda share: -share.time_ratio))


def _measured(
    cost: GraphCost,
    bounds: Bounds,
    roof: Roof,
    profiles: Sequence[NsightProfile],
    runs: int,
    solo: SoloRun | None,
) -> MeasuredRun:
    if runs < 1:
        raise ConfigError(
            f"`{runs}` runs are no profile", path="runs", value=runs, hint="at least 1"
        )
    kernels_ns = _last([profile.time_ns for profile in profiles], runs)
    time_ns = kernels_ns if solo is None else solo.time_ns
    traffic = _last([profile.traffic_bytes for profile in profiles], runs)
    flop_per_s = cost.flop * NS_PER_S / time_ns if time_ns else None
    intensity = cost.flop / traffic if traffic else None
    attainable = (
        bounds.attainable_high_flop_per_s
        if intensity is None
        else roof.attainable_flop_per_s(intensity)
    )
    into, out = (Direction.HOST_TO_DEVICE, Direction.DEVICE_TO_HOST)
    copies = [copy for profile in profiles for copy in profile.copies]
    return MeasuredRun(
        files=tuple(each.file for each in (*profiles, *((solo,) if solo is not None else ()))),
        time_ns=time_ns,
        is_kernels=solo is None and time_ns is not None,
        flop_per_s=flop_per_s,
        attained_ratio=flop_per_s / attainable if flop_per_s and attainable else None,
        intensity_flop_per_byte=intensity,
        traffic_bytes=traffic,
        counted_flop=_last([profile.flop for profile in profiles], runs),
        copied_in_bytes=_last([c.size_bytes for c in copies if c.direction is into], runs),
        copied_out_bytes=_last([c.size_bytes for c in copies if c.direction is out], runs),
        copying_ns=sum(c.time_ns or 0.0 for c in copies) / runs if copies else None,
    )


def _last(values: Sequence[float | None], runs: int) -> float | None:
    known = [value for value in values if value is not None]
    return known[-1] / runs if known else None


# --- words ----------------------------------------------------------------------------------------


def _reasons(
    cost: GraphCost,
    bounds: Bounds,
    roof: Roof,
    estimate: SoloEstimate,
    cache_bytes: int,
    measured: MeasuredRun | None,
) -> Iterator[str]:
    rows = f"{cost.rows} row" + ("" if cost.rows == 1 else "s")
    yield (
        f"A batch of {rows} computes {_number(cost.flop / _GIGA)} GFLOP. It moves "
        f"{format_bytes(cost.bytes_fused)} of memory if everything is fused, "
        f"{format_bytes(cost.bytes_unfused)} if nothing is: {_number(bounds.intensity_low)} to "
        f"{_number(bounds.intensity_high)} FLOP a byte."
    )
    yield _verdict(bounds, roof)
    weights_ratio = cost.weight_bytes / cost.bytes_fused if cost.bytes_fused else 0.0
    if bounds.limit is not Limit.COMPUTE and weights_ratio >= _WEIGHTS_RATIO_MIN:
        yield (
            f"Weights are {weights_ratio:.0%} of the fused traffic and are read once a batch, so "
            "more rows a batch raise the intensity."
        )
    if cost.bytes_fused < cache_bytes and bounds.limit is not Limit.COMPUTE:
        yield (
            f"All of it fits the last-level cache of {format_bytes(cache_bytes)}: run again and "
            "again with nothing beside it, it may be faster than memory allows."
        )
    if measured is None or measured.is_kernels or measured.time_ns is None:
        yield (
            f"A first guess of its time alone is {format_duration(estimate.likely_ns)}, between "
            f"{format_duration(estimate.least_ns)} and {format_duration(estimate.most_ns)}; a "
            "measured profile replaces it."
        )
    yield from _type_words(cost)
    if measured is not None:
        yield _measured_words(measured)
    yield from _doubts(cost)


def _verdict(bounds: Bounds, roof: Roof) -> str:
    ridge = f"the ridge of {_number(roof.ridge_flop_per_byte)} FLOP a byte"
    low = f"{_number(bounds.attainable_low_flop_per_s / _GIGA)}"
    high = f"{_number(bounds.attainable_high_flop_per_s / _GIGA)} GFLOP/s"
    match bounds.limit:
        case Limit.COMPUTE:
            return f"Even unfused that is above {ridge}: arithmetic is the limit, at {high}."
        case Limit.MEMORY:
            return (
                f"Even fused that is below {ridge}: memory is the limit, and {low} to {high} are "
                "the most that it can reach."
            )
        case Limit.EITHER:
            return (
                f"Between the two lies {ridge}: well fused, arithmetic is the limit, at {high}; "
                f"unfused, memory is, at {low} GFLOP/s."
            )


def _type_words(cost: GraphCost) -> Iterator[str]:
    whole = cost.flop or 1
    for datatype, flop in cost.flop_by_datatype.items():
        if datatype not in ("float32", "float64") and flop / whole >= _OTHER_TYPE_RATIO_MIN:
            yield (
                f"{flop / whole:.0%} of the work is on {datatype}, whose ceiling may be higher "
                "than that of float32."
            )


def _measured_words(measured: MeasuredRun) -> str:
    files = " and ".join(f"`{file}`" for file in measured.files)
    if measured.time_ns is None or measured.flop_per_s is None:
        return f"{files} holds no times of kernels, so there is no measured speed."
    what = "of kernels a run" if measured.is_kernels else "alone"
    words = (
        f"Measured in {files}: {format_duration(round(measured.time_ns))} {what}, which is "
        f"{_number(measured.flop_per_s / _GIGA)} GFLOP/s"
    )
    if measured.attained_ratio is not None:
        words += f", {measured.attained_ratio:.0%} of what the roof allows"
    if measured.intensity_flop_per_byte is not None:
        words += f" at the {_number(measured.intensity_flop_per_byte)} FLOP a byte that were seen"
    if (measured.attained_ratio or 0.0) > _BEYOND_RATIO:
        words += ": the file holds another number of runs, or the ceilings are of another device"
    return words + "."


def _doubts(cost: GraphCost) -> Iterator[str]:
    if cost.unknown_kinds:
        listed = list(cost.unknown_kinds.items())
        kinds = ", ".join(f"{nodes} {kind}" for kind, nodes in listed[:_KINDS_MAX])
        rest = f" and {len(listed) - _KINDS_MAX} more" if len(listed) > _KINDS_MAX else ""
        yield f"Without a formula, an operation an element was assumed: {kinds}{rest}."
    if cost.assumptions:
        others = len(cost.assumptions) - 1
        yield f"Assumed: {cost.assumptions[0]}" + (f"; and {others} more." if others else ".")


def _number(value: float) -> str:
    """Three digits that matter."""
    if not isfinite(value):
        return "infinite"
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"
