"""All that was measured of one patient, and what a check is: a question with a threshold.

Knows the shapes of measured values. Refuses to know any one illness.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from headway.doctor.course import BatchEnd, BatchPast, Course
from headway.doctor.finding import Evidence, Severity, Sign, Source, Unknown
from headway.doctor.readings import ProcessReading, Reading, Role
from headway.profiling import DeviceActivity, NsightProfile
from headway.units import NS_PER_S

__all__ = [
    "SURE_RATIO",
    "Chart",
    "Check",
    "Noise",
    "by_subject",
    "count_of",
    "figure",
    "percent",
    "workers_of",
]

SURE_RATIO: Final = 0.95
"""What is less sure is not said: of twenty healthy servers, each asked some twenty questions, not
one should be alarmed, and thresholds leave room beside this."""


class Chart(Struct, frozen=True, kw_only=True):
    """What was measured; nothing where it was not."""

    course: Course | None = None
    """Of the scheduler's steps."""
    started_at_ns: int | None = None
    """Instant 0 of the course, on the clock of the readings; None where that is not known."""
    readings: tuple[Reading, ...] = ()
    """In order."""
    activity: DeviceActivity | None = None
    """What a device did, span by span, by a profiler's export."""
    totals: NsightProfile | None = None
    """What it did, added up, by a profiler's export."""
    absent: Mapping[Source, str] = {}
    """Why a source is missing, where there is more to say than that nobody asked for it."""

    @property
    def span_s(self) -> float:
        """Between the first and the last reading."""
        return (self.readings[-1].at_ns - self.readings[0].at_ns) / NS_PER_S if self.readings else 0

    def has(self, source: Source) -> bool:
        """Whether there is anything of this source."""
        match source:
            case Source.RECORDS:
                return self.course is not None and bool(self.course.batches or self.course.requests)
            case Source.PROCESSES:
                return any(reading.processes for reading in self.readings)
            case Source.DEVICES:
                return any(reading.devices for reading in self.readings)
            case Source.METRICS:
                return any(reading.counters for reading in self.readings)
            case Source.TRACE:
                return self.activity is not None or self.totals is not None

    def finished(self) -> list[BatchPast]:
        """Batches that ran to their end and were timed."""
        batches = self.course.batches if self.course else ()
        return [each for each in batches if each.end is BatchEnd.FINISHED and each.stages_ns > 0]

    def processes(self) -> dict[int, list[tuple[int, ProcessReading]]]:
        """Each process' readings with their instants, by process id."""
        found: dict[int, list[tuple[int, ProcessReading]]] = {}
        for reading in self.readings:
            for process in reading.processes:
                found.setdefault(process.pid, []).append((reading.at_ns, process))
        return found

    def noise(self) -> "Noise | None":
        """What others did with the cores; None where it was not measured."""
        machines = [(r.at_ns, r.machine) for r in self.readings if r.machine is not None]
        if len(machines) < 2:
            return None
        (first_at_ns, first), (last_at_ns, last) = machines[0], machines[-1]
        passed_ns = last_at_ns - first_at_ns
        if passed_ns <= 0:
            return None
        others_ns = (last.busy_ns - first.busy_ns) - (last.own_ns - first.own_ns)
        before = {each.pid: each.cpu_ns for each in first.others}
        used = [(each.cpu_ns - before.get(each.pid, 0), each) for each in last.others]
        used_ns, process = max(used, default=(0, None), key=lambda pair: pair[0])
        return Noise(
            cores=max(0.0, others_ns / passed_ns),
            cores_count=last.cores_count,
            loudest="" if process is None else f"{process.name} (pid {process.pid})",
            loudest_cores=used_ns / passed_ns,
        )


class Noise(Struct, frozen=True, kw_only=True):
    """What processes that are none of the server's did with the cores."""

    cores: float
    """Kept busy by them, on average."""
    cores_count: int
    loudest: str
    loudest_cores: float

    @property
    def is_loud(self) -> bool:
        """So much that times measured meanwhile tell of the neighbour rather than of the server."""
        return self.cores >= 0.25 * self.cores_count

    @property
    def words(self) -> str:
        """Why something cannot be told for it."""
        return f"other programs kept {self.cores:.1f} cores busy meanwhile"


class Check(Struct, frozen=True, kw_only=True):
    """A question, asked of every chart that has what it needs."""

    code: str
    title: str
    """The illness, as a finding names it."""
    severity: Severity
    needs: tuple[Source, ...]
    """Any one of these is enough."""
    criterion: str
    """What is measured, and the threshold with its reason."""
    remedy: str
    look: Callable[[Chart], Iterable[Sign | Unknown]]


def figure(name: str, value: float | str, unit: str = "") -> Evidence:
    """Evidence, its number rounded to what matters."""
    return Evidence(name, float(f"{value:.4g}") if isinstance(value, float) else value, unit)


def percent(ratio: float) -> str:
    """As people write it."""
    return f"{100 * ratio:.0f} %"


def by_subject(batches: Iterable[BatchPast]) -> dict[str, list[BatchPast]]:
    """Batches by model."""
    found: dict[str, list[BatchPast]] = {}
    for batch in batches:
        found.setdefault(str(batch.model), []).append(batch)
    return found


def count_of(values: Iterable[object]) -> int:
    """How many of them are true."""
    return sum(1 for value in values if value)


def workers_of(readings: Iterable[ProcessReading]) -> list[ProcessReading]:
    """Those that run models; where none is known as such, all of them."""
    every = list(readings)
    return [each for each in every if each.role is Role.WORKER] or every
