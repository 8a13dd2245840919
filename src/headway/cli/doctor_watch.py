"""`headway doctor watch`: minutes of a server, a process or a device, plotted and judged."""

import argparse
import shlex
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from headway.cli.arguments import UsageError, VerbParser, add_format, duration_ns, positive
from headway.cli.doctor_words import (
    WallClock,
    add_patient,
    exit_code,
    finding_patient,
    is_alive,
    print_diagnosis,
    say_lost,
)
from headway.cli.output import drawing, progress_bar, say
from headway.units import NS_PER_S, format_duration

if TYPE_CHECKING:
    from headway.doctor import Diagnosis, ProcessReading, Reading
    from headway.report import WatchPanel

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway doctor watch --url http://127.0.0.1:8000 --minutes 10 --plot watch.png"

_PROCESSES_MAX = 8
"""Lines of a panel; of more processes the largest."""
_MEANS_MAX = 80
"""Points of a line that is smoothed."""
_SAY_NS = 60 * NS_PER_S


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    add_patient(parser)
    parser.add_argument(
        "--minutes", type=positive(float), default=10.0, metavar="N", help="how long (10)"
    )
    parser.add_argument(
        "--every", type=duration_ns, default=NS_PER_S, metavar="TIME", help="between looks (1s)"
    )
    parser.add_argument("--plot", metavar="PNG", help="draw memory, cores, slots and the queue")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Watch, judge, print and draw."""
    if not is_alive(args):
        raise UsageError("there is nothing to watch", hint="give --url, --pid or --device")
    # Here, for else `--help` would pay for everything that measures.
    from headway.doctor import Recorded, chart_of, diagnose, watch

    for_ns = int(args.minutes * 60 * NS_PER_S)
    with finding_patient(args) as patient, progress_bar("readings") as bar:
        expected = max(1, for_ns // args.every) + 1
        task = bar.add_task("watching", total=expected, words="")
        told = _Told(for_ns)

        def tell(reading: "Reading") -> None:
            bar.update(task, advance=1, words=_words(reading))
            bar.refresh()
            if bar.disable:  # without a terminal there is no bar to look at
                told(reading)

        readings = watch(patient, WallClock(), for_ns=for_ns, every_ns=args.every, tell=tell)
        chart = chart_of(patient, readings, Recorded())
    say_lost(patient)
    diagnosis = diagnose(chart)
    print_diagnosis(diagnosis, args.format)
    if args.plot is not None:
        _plot(readings, diagnosis, args)
    return exit_code(diagnosis, patient.lost)


class _Told:
    """Says a line a minute, so that a log shows that it goes on."""

    def __init__(self, for_ns: int) -> None:
        self._for_ns = for_ns
        self._began_at_ns: int | None = None
        self._next_at_ns = 0

    def __call__(self, reading: "Reading") -> None:
        if self._began_at_ns is None:
            self._began_at_ns = self._next_at_ns = reading.at_ns
        if reading.at_ns >= self._next_at_ns:
            self._next_at_ns += _SAY_NS
            passed_s = (reading.at_ns - self._began_at_ns) // NS_PER_S
            say(f"{passed_s} s of {self._for_ns // NS_PER_S}: {_words(reading)}")


def _words(reading: "Reading") -> str:
    memory = sum(each.memory_bytes or 0 for each in reading.processes)
    words = [f"{memory / (1 << 20):.0f} MiB in {len(reading.processes)} processes"]
    if reading.queue_depth is not None:
        words.append(f"{reading.queue_depth:.0f} waiting")
    return ", ".join(words)


def _plot(readings: "Sequence[Reading]", diagnosis: "Diagnosis", args: argparse.Namespace) -> None:
    from headway.report import plot_watch

    panels = _panels(readings)
    if not panels:
        say("there is nothing to draw: nothing told of memory, cores, slots or a queue")
        return
    command = ["headway", "doctor", "watch"]
    named = {"--url": args.url, "--pid": args.pid, "--device": args.device}
    often = {"--minutes": f"{args.minutes:g}", "--every": format_duration(args.every)}
    for flag, value in {**named, **often}.items():
        command += [flag, str(value)] if value else []
    ills = [f"{each.severity}: {each.title} ({each.subject})" for each in diagnosis.findings]
    with drawing(args.plot):
        plot_watch(
            panels,
            Path(args.plot),
            title=f"What was seen of {args.url or args.device or f'process {args.pid}'}",
            notes=ills or ["nothing was found"],
            command=shlex.join([*command, "--plot", args.plot]),
        )


def _panels(readings: "Sequence[Reading]") -> "list[WatchPanel]":
    """Memory of processes and devices, cores, what is busy, what waits; those that were told."""
    from headway.report import WatchPanel

    mib = 1 << 20
    memory = _of_processes(readings, lambda each: _over(each.memory_bytes, mib))
    cores = _rates(_of_processes(readings, lambda each: _over(each.cpu_ns, NS_PER_S)))
    device_memory: dict[str, list[tuple[float, float]]] = {}
    busy: dict[str, list[tuple[float, float]]] = {}
    for at_s, reading in _timed(readings):
        for device in reading.devices:
            if device.memory_used_bytes is not None:
                point = (at_s, device.memory_used_bytes / mib)
                device_memory.setdefault(device.name, []).append(point)
            if device.utilization_ratio is not None:
                busy.setdefault(device.name, []).append((at_s, 100 * device.utilization_ratio))
        if reading.slots_busy_ratio is not None:
            busy.setdefault("slots", []).append((at_s, 100 * reading.slots_busy_ratio))
    queue = [(at_s, r.queue_depth) for at_s, r in _timed(readings) if r.queue_depth is not None]
    panels = (
        WatchPanel("Memory of processes", "MiB", memory),
        WatchPanel("Memory of devices", "MiB", device_memory),
        WatchPanel("Cores used", "cores", _smooth(cores)),
        WatchPanel("Slots and devices busy", "%", _smooth(busy)),
        WatchPanel("Waiting requests", "requests", _smooth({"waiting": queue} if queue else {})),
    )
    return [panel for panel in panels if panel.lines]


def _of_processes(
    readings: "Sequence[Reading]", value: "Callable[[ProcessReading], float | None]"
) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for at_s, reading in _timed(readings):
        for process in reading.processes:
            told = value(process)
            if told is not None:
                found.setdefault(process.label, []).append((at_s, told))
    largest = sorted(found, key=lambda label: -found[label][-1][1])[:_PROCESSES_MAX]
    return {label: found[label] for label in largest}


def _rates(lines: dict[str, list[tuple[float, float]]]) -> dict[str, list[tuple[float, float]]]:
    """Of counters, what they grew by in a second."""
    return {
        label: [
            (at_s, max(0.0, value - before) / (at_s - before_s))
            for (before_s, before), (at_s, value) in pairwise(points)
            if at_s > before_s
        ]
        for label, points in lines.items()
        if len(points) > 1
    }


def _smooth(lines: dict[str, list[tuple[float, float]]]) -> dict[str, list[tuple[float, float]]]:
    """Means of neighbours: what is busy at an instant says little of the time around it."""
    return {
        label: [
            (fmean(at_s for at_s, _ in some), fmean(value for _, value in some))
            for some in _runs(points, 1 + len(points) // _MEANS_MAX)
        ]
        for label, points in lines.items()
    }


def _runs(points: list[tuple[float, float]], size: int) -> "Iterable[list[tuple[float, float]]]":
    return (points[first : first + size] for first in range(0, len(points), size))


def _timed(readings: "Sequence[Reading]") -> "Iterable[tuple[float, Reading]]":
    """Each reading with its seconds since the first."""
    return [((each.at_ns - readings[0].at_ns) / NS_PER_S, each) for each in readings]


def _over(value: int | None, unit: int) -> float | None:
    return None if value is None else value / unit
