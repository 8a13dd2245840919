"""Checks of memory: what grows without end, and what does not come back.

Pure: series in, signs out. What grows is judged by the trend after a warm-up and by whether it
still grows at the end; what a caching allocator keeps is told from what is still in use, where the
allocator was heard.
"""

from collections.abc import Iterator, Sequence
from statistics import NormalDist, median
from typing import Final, NamedTuple

from headway.doctor.chance import Point, Trend, is_staircase, trend_of
from headway.doctor.chart import SURE_RATIO, Chart, figure
from headway.doctor.course import Course, ReplicaPast
from headway.doctor.finding import Evidence, Severity, Sign, Unknown
from headway.doctor.readings import Reading, Role
from headway.units import NS_PER_S

__all__ = [
    "GROWTH_BYTES_MIN",
    "GROWTH_RATIO_MIN",
    "KEPT_BYTES_MIN",
    "KEPT_RATIO_MIN",
    "READINGS_MIN",
    "SERVER_GROWTH_BYTES_MIN",
    "TAU_MIN",
    "WARM_UP_RATIO",
    "allocator_signs",
    "device_leaks",
    "kept_after_unload",
    "process_leaks",
]

WARM_UP_RATIO: Final = 0.2
"""Of the time that was watched: what first requests allocate is allocated by then."""
READINGS_MIN: Final = 10
"""After the warm-up: of fewer, five steps upwards may be chance."""
TAU_MIN: Final = 0.9
"""Nineteen of twenty pairs rise: a heap that wanders by chance also rises for a while, and of a
hundred such walks of forty steps three would pass 0.8, and none of two hundred passed this."""
GROWTH_BYTES_MIN: Final = 4 << 20
"""In the time that was watched. A healthy worker's heap moves by a few pages at a time."""
GROWTH_RATIO_MIN: Final = 0.02
"""Of what the process had: large heaps move more."""
SERVER_GROWTH_BYTES_MIN: Final = 96 << 20
"""Of the process that schedules: it fills `observe.recent_steps` and its queues, within limits."""
KEPT_BYTES_MIN: Final = 16 << 20
KEPT_RATIO_MIN: Final = 0.3
"""Of what loading a model had added: allocators keep some, never most."""
_STEPS: Final = 5
_STEP_RATIO: Final = 0.25
"""Of an even growth's step: each fifth of the time must add at least so much."""
_SETTLE_NS: Final = NS_PER_S // 2
"""After an unload, for the system to take back what was freed."""
_BESIDE: Final = 5
"""Readings that stand for a stretch of time: its last ones."""
_EXPLAINED_RATIO_MAX: Final = 1.2
"""Of what loading had added: a model cannot leave more behind than it took."""
_PAGE_UNREST_BYTES: Final = 1 << 20
"""By so much a quiet heap moves."""


def process_leaks(chart: Chart) -> Iterator[Sign | Unknown]:
    """Host memory of each process."""
    for readings in chart.processes().values():
        process = readings[-1][1]
        points = [
            Point(at_ns / NS_PER_S, each.memory_bytes)
            for at_ns, each in readings
            if each.memory_bytes is not None
        ]
        floor = SERVER_GROWTH_BYTES_MIN if process.role is Role.SERVER else GROWTH_BYTES_MIN
        yield from _leak(process.label, points, floor)


def device_leaks(chart: Chart) -> Iterator[Sign | Unknown]:
    """Device memory of each process, or of all where a device does not tell them apart."""
    series: dict[str, list[Point]] = {}
    labels = {pid: readings[-1][1].label for pid, readings in chart.processes().items()}
    for reading in chart.readings:
        for device in reading.devices:
            at_s = reading.at_ns / NS_PER_S
            told = [(pid, used) for pid, used in device.processes if used is not None]
            for pid, used_bytes in told:
                subject = f"{labels.get(pid, f'pid {pid}')} on {device.name}"
                series.setdefault(subject, []).append(Point(at_s, used_bytes))
            if device.memory_used_bytes is None:
                continue
            # What is left behind by a process that has gone is still used, and nobody's.
            whose = "no process that it names" if told else "all processes"
            rest_bytes = device.memory_used_bytes - sum(used for _, used in told)
            point = Point(at_s, max(0, rest_bytes))
            series.setdefault(f"{device.name}, {whose}", []).append(point)
    if not series:
        yield Unknown(why="no device tells how much memory is used")
    hoard = _allocator_trends(chart)
    for subject, points in series.items():
        for sign in _leak(subject, points, GROWTH_BYTES_MIN):
            yield _softened(sign, hoard) if isinstance(sign, Sign) else sign


def _leak(subject: str, points: Sequence[Point], floor_bytes: int) -> Iterator[Sign | Unknown]:
    if not points:
        yield Unknown(subject=subject, why="its memory is not told")
        return
    warm_at_s = points[0].at_s + WARM_UP_RATIO * (points[-1].at_s - points[0].at_s)
    warm = [point for point in points if point.at_s >= warm_at_s]
    trend = trend_of(warm)
    if len(warm) < READINGS_MIN or trend is None:
        why = f"{len(warm)} readings after the warm-up, {READINGS_MIN} are needed: watch longer"
        yield Unknown(subject=subject, why=why)
        return
    span_s = warm[-1].at_s - warm[0].at_s
    growth = trend.per_s * span_s
    least = max(floor_bytes, GROWTH_RATIO_MIN * warm[0].value)
    is_rising = trend.tau >= TAU_MIN and trend.low_per_s > 0 and growth >= least
    if is_rising and is_staircase(warm, steps=_STEPS, rise=_STEP_RATIO * growth / _STEPS):
        yield Sign(
            subject=subject,
            confidence_ratio=trend.rising_ratio,
            evidence=(*_trend_evidence(trend, span_s), _mib("memory now", warm[-1].value)),
        )


def _trend_evidence(trend: Trend, span_s: float) -> tuple[Evidence, ...]:
    return (
        figure("growth", trend.per_s / (1 << 20) * 60, "MiB/min"),
        figure("growth at least (99 %)", trend.low_per_s / (1 << 20) * 60, "MiB/min"),
        figure("growth at most (99 %)", trend.high_per_s / (1 << 20) * 60, "MiB/min"),
        figure("Kendall's tau", trend.tau),
        figure("watched after warm-up", span_s, "s"),
    )


def _mib(name: str, size_bytes: float) -> Evidence:
    return figure(name, size_bytes / (1 << 20), "MiB")


# --- what does not come back ----------------------------------------------------------------------


class _Cycle(NamedTuple):
    """A load and the unload that followed."""

    added_bytes: float
    kept_bytes: float
    unrest_bytes: float
    """By how much memory moved meanwhile while nothing was loaded."""


def kept_after_unload(chart: Chart) -> Iterator[Sign | Unknown]:
    """Memory before a load, loaded, and after the unload that followed."""
    course = chart.course
    if course is None or chart.started_at_ns is None:
        yield Unknown(why="when models were loaded and unloaded is not known beside memory")
        return
    cycles: dict[str, list[_Cycle]] = {}
    unseen: set[str] = set()
    for past in course.replicas:
        if past.warmed_at_ns is None or past.stopped_at_ns is None:
            continue
        cycle = _cycle_of(chart, course, past)
        if cycle is None:
            unseen.add(past.model)
        else:
            cycles.setdefault(past.model, []).append(cycle)
    if not cycles and not unseen:
        yield Unknown(why="no model was loaded and unloaded meanwhile")
    for model in sorted(unseen - set(cycles)):
        yield Unknown(subject=model, why="memory was not read before, during and after a load")
    for model, seen in sorted(cycles.items()):
        yield from _kept(model, seen)


def _kept(model: str, cycles: Sequence[_Cycle]) -> Iterator[Sign | Unknown]:
    added_bytes = sum(cycle.added_bytes for cycle in cycles)
    kept_bytes = sum(cycle.kept_bytes for cycle in cycles)
    least_bytes = max(KEPT_BYTES_MIN, KEPT_RATIO_MIN * added_bytes)
    if kept_bytes < least_bytes:
        return
    if kept_bytes > _EXPLAINED_RATIO_MAX * max(added_bytes, KEPT_BYTES_MIN):
        why = "memory grew by more than its loads had added: something else did that"
        yield Unknown(subject=model, why=why)
        return
    unrest_bytes = max(_PAGE_UNREST_BYTES, max(cycle.unrest_bytes for cycle in cycles))
    yield Sign(
        subject=model,
        # How far beyond the threshold it lies, measured by how far memory moves by itself.
        confidence_ratio=NormalDist().cdf((kept_bytes - least_bytes) / unrest_bytes),
        evidence=(
            _mib("added by a load", added_bytes / len(cycles)),
            _mib("kept after its unload", kept_bytes / len(cycles)),
            figure("loads and unloads seen", len(cycles)),
            _mib("kept in all", kept_bytes),
        ),
    )


def _cycle_of(chart: Chart, course: Course, past: ReplicaPast) -> _Cycle | None:
    """None where memory was not read before, during and after, or another model came or went."""
    assert chart.started_at_ns is not None
    assert past.warmed_at_ns is not None
    assert past.stopped_at_ns is not None
    totals = [
        (each.at_ns - chart.started_at_ns, total)
        for each in chart.readings
        if (total := _total_bytes(each)) is not None
    ]
    changes = [
        at_ns
        for other in course.replicas
        if other is not past
        for at_ns in (
            other.asked_at_ns,
            other.warmed_at_ns,
            other.leaves_at_ns,
            other.stopped_at_ns,
        )
        if at_ns is not None
    ]
    if any(past.asked_at_ns < at_ns <= past.stopped_at_ns for at_ns in changes):
        return None
    earlier = [at_ns + _SETTLE_NS for at_ns in changes if at_ns <= past.asked_at_ns]
    later = [at_ns for at_ns in changes if at_ns > past.stopped_at_ns]
    before = _between(totals, max(earlier, default=0), past.asked_at_ns)
    during = _between(totals, past.warmed_at_ns, past.leaves_at_ns or past.stopped_at_ns)
    after = _between(totals, past.stopped_at_ns + _SETTLE_NS, min(later, default=None))
    if not before or not during or not after:
        return None
    return _Cycle(
        added_bytes=median(during) - median(before),
        kept_bytes=median(after) - median(before),
        unrest_bytes=max(max(some) - min(some) for some in (before, after)),
    )


def _total_bytes(reading: Reading) -> float | None:
    """Of workers and devices together: where a model's memory lies does not matter here."""
    host = [
        each.memory_bytes
        for each in reading.processes
        if each.role is not Role.SERVER and each.memory_bytes is not None
    ]
    pids = {each.pid for each in reading.processes}
    device = [
        used
        for each in reading.devices
        for pid, used in each.processes
        if used is not None and (pid in pids or not pids)
    ]
    return float(sum(host) + sum(device)) if host or device else None


def _between(totals: Sequence[tuple[int, float]], from_ns: int, to_ns: int | None) -> list[float]:
    """The last ones of a stretch of time."""
    inside = [
        total for at_ns, total in totals if at_ns >= from_ns and (to_ns is None or at_ns < to_ns)
    ]
    return inside[-_BESIDE:]


# --- the allocator's view -------------------------------------------------------------------------


def allocator_signs(chart: Chart) -> Iterator[Sign | Unknown]:
    """What is allocated, against what the allocator has reserved of the device."""
    trends = _allocator_trends(chart)
    if trends is None:
        yield Unknown(why="the trace has no memory events: record with `profile_memory=True`")
        return
    allocated, reserved, span_s = trends
    evidence = (
        figure("allocated grows", allocated.per_s * span_s / (1 << 20), "MiB"),
        figure("reserved grows", reserved.per_s * span_s / (1 << 20), "MiB"),
        figure("Kendall's tau of allocated", allocated.tau),
        figure("traced", span_s, "s"),
    )
    if _grows(allocated, span_s):
        yield Sign(subject="", confidence_ratio=allocated.rising_ratio, evidence=evidence)
    elif _grows(reserved, span_s):
        yield Sign(
            subject="",
            confidence_ratio=reserved.rising_ratio,
            evidence=evidence,
            severity=Severity.NOTE,
            title="the allocator keeps more than is in use",
            remedy="this is a cache, not a leak; if the memory is missed, shapes that vary less"
            " fragment it less (`batch.buckets`), as do `expandable_segments` of torch's allocator",
        )


def _grows(trend: Trend, span_s: float) -> bool:
    return (
        trend.tau >= TAU_MIN
        and trend.low_per_s > 0
        and trend.rising_ratio >= SURE_RATIO
        and trend.per_s * span_s >= GROWTH_BYTES_MIN
    )


def _allocator_trends(chart: Chart) -> tuple[Trend, Trend, float] | None:
    memory = chart.activity.memory if chart.activity is not None else ()
    if len(memory) < READINGS_MIN:
        return None
    warm = memory[int(WARM_UP_RATIO * len(memory)) :]
    allocated = trend_of(_lows([Point(m.at_ns / NS_PER_S, m.allocated_bytes) for m in warm]))
    reserved = trend_of([Point(m.at_ns / NS_PER_S, m.reserved_bytes) for m in warm])
    if allocated is None or reserved is None:
        return None
    return allocated, reserved, (warm[-1].at_ns - warm[0].at_ns) / NS_PER_S


def _lows(points: Sequence[Point]) -> list[Point]:
    """The lowest of each stretch: what is held between two runs, not what a run needs."""
    size = max(1, len(points) // 40)
    stretches = [points[i : i + size] for i in range(0, len(points), size)]
    return [min(stretch, key=lambda point: point.value) for stretch in stretches]


def _softened(sign: Sign, trends: tuple[Trend, Trend, float] | None) -> Sign:
    """A leak seen from outside, where the allocator says that what is in use does not grow."""
    if trends is None:
        return sign
    allocated, _, span_s = trends
    if _grows(allocated, span_s):
        return sign
    return Sign(
        subject=sign.subject,
        confidence_ratio=sign.confidence_ratio,
        evidence=(
            *sign.evidence,
            figure("allocated grows", allocated.per_s * span_s / (1 << 20), "MiB"),
        ),
        severity=Severity.NOTE,
        title="device memory grows by the allocator's cache, not by a leak",
        remedy="nothing to mend; the allocator gives it back when it must",
    )
