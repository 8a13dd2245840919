"""Checks of profilers' exports: what a device did, kernel by kernel and copy by copy.

Pure: spans and totals in, signs out.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import median
from typing import Final

from headway.doctor.chance import confidence_above
from headway.doctor.chart import Chart, count_of, figure
from headway.doctor.finding import Sign, Unknown
from headway.doctor.slots import transfer_bound
from headway.profiling import Copies, CopySpan, DeviceActivity, DeviceSpan, Direction, NsightProfile
from headway.units import NS_PER_MS, NS_PER_US

__all__ = [
    "COPY_TIME_RATIO_MIN",
    "GAPS_RATIO_MIN",
    "GAP_NS_MAX",
    "KERNELS_MIN",
    "SMALL_BYTES_MAX",
    "SMALL_COPIES_RATIO_MIN",
    "launch_gaps",
    "small_copies",
    "transfers",
]

KERNELS_MIN: Final = 20
SMALL_BYTES_MAX: Final = 64 << 10
"""A copy of fewer bytes takes as long as its launch, whatever the link."""
SMALL_COPIES_RATIO_MIN: Final = 0.2
"""For each kernel between which they lie: inputs and outputs of a batch are a few copies for
dozens of kernels."""
GAPS_RATIO_MIN: Final = 0.5
"""Of the time from one kernel to the next, in which the device does nothing."""
GAP_NS_MAX: Final = NS_PER_MS
"""A longer pause is one between requests."""
COPY_TIME_RATIO_MIN: Final = 0.4
"""Of the time of kernels and copies, as for the stages of batches."""
_BETWEEN: Final = frozenset({Direction.HOST_TO_DEVICE, Direction.DEVICE_TO_HOST})


def small_copies(chart: Chart) -> Iterator[Sign | Unknown]:
    """Many small copies between kernels, each of which the host waits for."""
    if chart.activity is not None:
        yield from _small_by_span(chart.activity)
    if chart.totals is not None:
        yield from _small_by_total(chart.totals)


def _small_by_span(activity: DeviceActivity) -> Iterator[Sign | Unknown]:
    kernels, copies = activity.kernels, [c for c in activity.copies if c.direction in _BETWEEN]
    if len(kernels) < KERNELS_MIN:
        yield Unknown(why=f"the trace has {len(kernels)} kernels, {KERNELS_MIN} are needed")
        return
    first_ns, last_ns = kernels[0].start_ns, max(each.end_ns for each in kernels)
    inside = [
        each
        for each in copies
        if first_ns < each.start_ns < last_ns and each.size_bytes <= SMALL_BYTES_MAX
    ]
    # One copy at most for each kernel counts: it is whether work stops for copies that matters.
    interrupted = min(len(kernels), len(inside))
    sure = confidence_above(interrupted, len(kernels), SMALL_COPIES_RATIO_MIN)
    if sure > 0.5:
        sizes = [each.size_bytes for each in inside]
        yield Sign(
            subject=activity.file,
            confidence_ratio=sure,
            evidence=(
                figure("small copies between kernels", len(inside)),
                figure("kernels", len(kernels)),
                figure("size of such a copy", median(sizes) / 1024, "KiB (median)"),
                figure("to the host", count_of(c.direction is Direction.DEVICE_TO_HOST for c in
                                               inside)),
            ),
        )  # fmt: skip


def _small_by_total(totals: NsightProfile) -> Iterator[Sign | Unknown]:
    runs = sum(kernel.runs for kernel in totals.kernels)
    copies = [each for each in totals.copies if each.direction in _BETWEEN]
    if runs < KERNELS_MIN:
        yield Unknown(why=f"the export has {runs} runs of kernels, {KERNELS_MIN} are needed")
        return
    small = [each for each in copies if _mean_bytes(each) <= SMALL_BYTES_MAX]
    count = sum(each.count for each in small)
    sure = confidence_above(min(runs, count), runs, SMALL_COPIES_RATIO_MIN)
    if sure > 0.5:
        size_bytes = sum(each.size_bytes or 0 for each in small) / count
        yield Sign(
            subject=totals.file,
            confidence_ratio=sure,
            evidence=(
                figure("small copies", count),
                figure("kernels", runs),
                figure("size of such a copy", size_bytes / 1024, "KiB (mean)"),
            ),
        )


def _mean_bytes(copies: Copies) -> float:
    if copies.size_bytes is None or not copies.count:
        return float("inf")
    return copies.size_bytes / copies.count


def launch_gaps(chart: Chart) -> Iterator[Sign | Unknown]:
    """A device that waits for the host between short kernels."""
    activity = chart.activity
    if activity is None:
        yield Unknown(why="totals do not tell when: export with `nsys export -t sqlite`")
        return
    work = _merged(activity.kernels, activity.copies)
    if len(activity.kernels) < KERNELS_MIN:
        yield Unknown(
            why=f"the trace has {len(activity.kernels)} kernels, {KERNELS_MIN} are needed"
        )
        return
    gaps = [b.start_ns - a.end_ns for a, b in pairwise(work)]
    near = [(gap, span) for gap, span in zip(gaps, work, strict=False) if gap < GAP_NS_MAX]
    idle_ns = sum(gap for gap, _ in near)
    busy_ns = sum(span.end_ns - span.start_ns for _, span in near)
    if not near or idle_ns < GAPS_RATIO_MIN * (idle_ns + busy_ns):
        return
    waiting = count_of(gap > span.end_ns - span.start_ns for gap, span in near)
    yield Sign(
        subject=activity.file,
        confidence_ratio=confidence_above(waiting, len(near), 0.5),
        evidence=(
            figure("time between kernels, within a run", idle_ns / (idle_ns + busy_ns)),
            figure("gap", median(gap for gap, _ in near) / NS_PER_US, "us (median)"),
            figure(
                "kernel",
                median(k.end_ns - k.start_ns for k in activity.kernels) / NS_PER_US,
                "us (median)",
            ),
            figure("kernels", len(activity.kernels)),
        ),
    )


def transfers(chart: Chart) -> Iterator[Sign | Unknown]:
    """Time that goes into moving tensors: of batches' stages, and of a trace."""
    if chart.course is not None:
        yield from transfer_bound(chart)
    kernels_ns, copies_ns, count, file = 0.0, 0.0, 0, ""
    if chart.activity is not None:
        kernels_ns = sum(k.end_ns - k.start_ns for k in chart.activity.kernels)
        moved = [c for c in chart.activity.copies if c.direction in _BETWEEN]
        copies_ns, count = sum(c.end_ns - c.start_ns for c in moved), len(moved)
        file = chart.activity.file
    elif chart.totals is not None:
        kernels_ns = chart.totals.time_ns or 0.0
        known = [c for c in chart.totals.copies if c.direction in _BETWEEN]
        copies_ns, count = sum(c.time_ns or 0.0 for c in known), sum(c.count for c in known)
        file = chart.totals.file
    if count and copies_ns > COPY_TIME_RATIO_MIN * (kernels_ns + copies_ns):
        yield Sign(
            subject=file,
            # Totals are exact; a few copies may be those of a start.
            confidence_ratio=1 - 0.5 ** min(count, 50),
            evidence=(
                figure("copies", copies_ns / (kernels_ns + copies_ns), "of the time"),
                figure("copies", copies_ns / NS_PER_MS, "ms"),
                figure("kernels", kernels_ns / NS_PER_MS, "ms"),
            ),
        )


def _merged(kernels: Iterable[DeviceSpan], copies: Iterable[CopySpan]) -> list[DeviceSpan]:
    """Spans of work without overlaps, in order: streams may run side by side."""
    spans = [(each.start_ns, each.end_ns) for some in (kernels, copies) for each in some]
    merged: list[DeviceSpan] = []
    for start_ns, end_ns in sorted(spans):
        if merged and start_ns <= merged[-1].end_ns:
            last = merged[-1]
            merged[-1] = DeviceSpan(last.start_ns, max(last.end_ns, end_ns))
        else:
            merged.append(DeviceSpan(start_ns, end_ns))
    return merged
