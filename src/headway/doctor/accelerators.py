"""Checks of accelerators: whether they are used, slowed, shared, and well connected.

Pure: readings in, signs out. What a device does not tell is unknown, and said to be.
"""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from headway.devices import DeviceReading
from headway.doctor.chance import Point, confidence_above, is_staircase, trend_of
from headway.doctor.chart import Chart, count_of, figure
from headway.doctor.finding import Severity, Sign, Unknown
from headway.doctor.readings import Reading
from headway.units import NS_PER_S

__all__ = [
    "BENIGN_REASONS",
    "BUSY_SLOTS_RATIO_MIN",
    "CONTEXTS_MIN",
    "LOADED_RATIO_MIN",
    "LOW_RATIO_MAX",
    "NEIGHBOUR_MEMORY_RATIO_MIN",
    "READINGS_MIN",
    "THROTTLED_RATIO_MIN",
    "device_neighbours",
    "idle_devices",
    "narrow_links",
    "open_contexts",
    "throttling",
]

LOW_RATIO_MAX: Final = 0.3
"""Utilisation that operators are alarmed at."""
BUSY_SLOTS_RATIO_MIN: Final = 0.5
"""Of the slots: beyond it there is work under way for the device."""
NEIGHBOUR_MEMORY_RATIO_MIN: Final = 0.05
"""Of a device's memory, held by processes that are none of the server's."""
THROTTLED_RATIO_MIN: Final = 0.2
"""Of the readings: a card at its limit touches it now and then."""
LOADED_RATIO_MIN: Final = 0.1
"""Utilisation from which a link is at its working speed; at rest it slows down to save power."""
READINGS_MIN: Final = 5
CONTEXTS_MIN: Final = 2
"""Processes that came to a device and stayed: one more may be a model that was loaded."""
BENIGN_REASONS: Final = frozenset({"applications_clocks", "display_clock", "sync_boost"})
"""Clocks that somebody chose."""
_TREND_POINTS_MIN: Final = 10


def _by_device(chart: Chart) -> dict[str, list[DeviceReading]]:
    found: dict[str, list[DeviceReading]] = {}
    for reading in chart.readings:
        for device in reading.devices:
            found.setdefault(device.name, []).append(device)
    return found


def idle_devices(chart: Chart) -> Iterator[Sign | Unknown]:
    """Devices that do little, and what was going on meanwhile."""
    for name in _by_device(chart):
        told = [
            (ratio, reading)
            for reading in chart.readings
            for device in reading.devices
            if device.name == name and (ratio := device.utilization_ratio) is not None
        ]
        if len(told) < READINGS_MIN:
            why = f"{len(told)} readings of its utilisation, {READINGS_MIN} are needed"
            yield Unknown(subject=name, why=why)
            continue
        low = [reading for ratio, reading in told if ratio < LOW_RATIO_MAX]
        sure = confidence_above(len(low), len(told), 0.5)
        if sure > 0.5:
            yield _idle(name, median(ratio for ratio, _ in told), low, sure)


def _idle(name: str, usual_ratio: float, low: Sequence[Reading], sure: float) -> Sign:
    """By what the server said meanwhile: work under way, work that waits, no work, or nothing."""
    slots = [each.slots_busy_ratio for each in low if each.slots_busy_ratio is not None]
    queues = [each.queue_depth for each in low if each.queue_depth is not None]
    is_working = bool(slots) and median(slots) >= BUSY_SLOTS_RATIO_MIN
    is_waiting = bool(queues) and median(queues) >= 1
    title = remedy = None
    severity: Severity | None = Severity.NOTE
    if is_working:
        severity = None
    elif is_waiting:
        severity = None
        title = "the device does little while requests wait and slots are free"
        remedy = "see `held_back`, and whether the model is loaded on this device at all"
    elif slots:
        title = "the device does little for want of requests"
        remedy = "nothing is wrong; fewer devices would do"
    else:
        title = "the device does little"
        remedy = "why is told by the server's records (`--url`, `--journal`) or a trace (`--trace`)"
    return Sign(
        subject=name,
        confidence_ratio=sure,
        severity=severity,
        title=title,
        remedy=remedy,
        evidence=(
            figure("device busy", usual_ratio, "(median)"),
            *((figure("slots busy meanwhile", median(slots), "(median)"),) if slots else ()),
            *((figure("requests that waited", median(queues), "(median)"),) if queues else ()),
            figure("readings below the threshold", len(low)),
        ),
    )


def throttling(chart: Chart) -> Iterator[Sign | Unknown]:
    """Clocks that are held down by heat or power; cores that were slowed for their heat."""
    hot = [r.machine.hot_count for r in chart.readings if r.machine is not None]
    counts = [count for count in hot if count is not None]
    if len(counts) > 1 and counts[-1] > counts[0]:
        slowed = figure("times that cores were slowed", counts[-1] - counts[0])
        yield Sign(subject="processor", confidence_ratio=1.0, evidence=(slowed,))
    devices = _by_device(chart)
    if len(counts) < 2 and not devices:
        yield Unknown(why="neither cores nor devices tell whether they were slowed")
    for name, every in devices.items():
        readings = [each for each in every if each.can_tell_throttling]
        reasons = [set(each.throttle_reasons) - BENIGN_REASONS for each in readings]
        if len(readings) < READINGS_MIN:
            why = f"{len(readings)} readings of its clocks, {READINGS_MIN} are needed"
            yield Unknown(subject=name, why=why)
            continue
        held = count_of(reasons)
        sure = confidence_above(held, len(readings), THROTTLED_RATIO_MIN)
        if sure > 0.5:
            yield Sign(
                subject=name,
                confidence_ratio=sure,
                evidence=(
                    figure("readings with clocks held down", held / len(readings)),
                    figure("for", ", ".join(sorted(set().union(*reasons)))),
                    figure("readings", len(readings)),
                ),
            )


def narrow_links(chart: Chart) -> Iterator[Sign | Unknown]:
    """Links that are narrower or slower than device and slot allow, while the device works."""
    for name, readings in _by_device(chart).items():
        loaded = [e for e in readings if (e.utilization_ratio or 0) >= LOADED_RATIO_MIN]
        widths = [each.pcie_width for each in loaded if each.pcie_width]
        if not any(each.pcie_width_max for each in readings):
            yield Unknown(subject=name, why="it does not tell its link")
        elif len(widths) < READINGS_MIN:
            yield Unknown(subject=name, why="it was at rest, and links slow down then")
        else:
            yield from _narrow(name, loaded)


def _narrow(name: str, loaded: Sequence[DeviceReading]) -> Iterator[Sign]:
    """The best that was seen counts: a link that was wide once is wide."""
    width = max(each.pcie_width or 0 for each in loaded)
    width_max = max(each.pcie_width_max or 0 for each in loaded)
    generation = max(each.pcie_generation or 0 for each in loaded)
    generation_max = max(each.pcie_generation_max or 0 for each in loaded)
    if width < width_max or generation < generation_max:
        yield Sign(
            subject=name,
            confidence_ratio=1 - 0.5 ** len(loaded),
            evidence=(
                figure("lanes in use", width),
                figure("lanes that there could be", width_max),
                figure("generation in use", generation),
                figure("generation that there could be", generation_max),
                figure("readings under load", len(loaded)),
            ),
        )


def device_neighbours(chart: Chart) -> Iterator[Sign | Unknown]:
    """Memory of a device that others hold."""
    own = {process.pid for reading in chart.readings for process in reading.processes}
    here = {o.pid for r in chart.readings if r.machine is not None for o in r.machine.others}
    if not own or not here:
        yield Unknown(why="which processes are the server's and which are not: give --pid")
        return
    for name, readings in _by_device(chart).items():
        total_bytes = max((each.memory_total_bytes or 0 for each in readings), default=0)
        told = [(pid, used) for pid, used in readings[-1].processes if used is not None]
        foreign = {pid: used for pid, used in told if pid in here and pid not in own}
        if len(told) > count_of(pid in here or pid in own for pid, _ in told):
            # A driver outside a container numbers processes in its own way.
            yield Unknown(subject=name, why="it names processes that are not seen from here")
        held_bytes = sum(foreign.values())
        if total_bytes and held_bytes >= NEIGHBOUR_MEMORY_RATIO_MIN * total_bytes:
            loudest = max(foreign, key=lambda pid: foreign[pid])
            used = [e.utilization_ratio for e in readings if e.utilization_ratio is not None]
            yield Sign(
                subject=name,
                confidence_ratio=1 - 0.5 ** len(readings),
                severity=None if any(used) else Severity.NOTE,
                evidence=(
                    figure("memory that others hold", held_bytes / total_bytes),
                    figure("most of it pid", loudest),
                    *((figure("device busy", max(used), "(at most)"),) if used else ()),
                ),
            )


def open_contexts(chart: Chart) -> Iterator[Sign | Unknown]:
    """Processes that come to a device and do not leave it, however often they come."""
    names = _by_device(chart)
    for name in names:
        points = [
            Point(reading.at_ns / NS_PER_S, float(len(device.processes)))
            for reading in chart.readings
            for device in reading.devices
            if device.name == name
        ]
        trend = trend_of(points)
        if not any(point.value for point in points):
            yield Unknown(subject=name, why="it does not tell who uses it")
        elif trend is None or len(points) < _TREND_POINTS_MIN:
            why = f"{len(points)} readings, {_TREND_POINTS_MIN} are needed"
            yield Unknown(subject=name, why=why)
        elif is_staircase(points, steps=1 + CONTEXTS_MIN, rise=1.0):
            yield Sign(
                subject=name,
                confidence_ratio=trend.rising_ratio,
                evidence=(
                    figure("processes with a context at first", int(points[0].value)),
                    figure("in the end", int(points[-1].value)),
                    figure("watched", points[-1].at_s - points[0].at_s, "s"),
                ),
            )
