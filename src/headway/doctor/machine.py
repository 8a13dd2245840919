"""Checks of the machine's cores: threads, neighbours, quotas, and cores that nobody uses.

Pure: readings in, signs out. Whoever is slowed by a neighbour looks much like whoever has too many
threads; they are told apart by who had the cores meanwhile.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from headway.doctor.chance import confidence_above
from headway.doctor.chart import Chart, count_of, figure, workers_of
from headway.doctor.finding import Sign, Unknown
from headway.doctor.readings import ProcessReading, Role
from headway.units import NS_PER_S

__all__ = [
    "DELAYED_RATIO_MIN",
    "FULL_SLOTS_RATIO_MIN",
    "IDLE_CORES_RATIO_MIN",
    "NEIGHBOUR_CORES_RATIO_MIN",
    "OWN_DELAY_RATIO_MIN",
    "QUOTA_RATIO_MIN",
    "SATURATED_RATIO_MIN",
    "THREADS_RATIO_MIN",
    "idle_cores",
    "neighbours",
    "quota",
    "server_busy",
    "too_many_threads",
]

THREADS_RATIO_MIN: Final = 1.75
"""Threads ready or running for each core, on average: slots share cores by design, and then the
slots are what is counted against."""
OWN_DELAY_RATIO_MIN: Final = 0.3
"""Of the time that a worker's threads want a core, spent waiting for one."""
NEIGHBOUR_CORES_RATIO_MIN: Final = 0.15
"""Of all cores, kept busy by others. A system at rest uses a few per cent."""
DELAYED_RATIO_MIN: Final = 0.1
"""Of the time that workers' threads want a core: so much waiting is felt."""
CROWDED_RATIO_MIN: Final = 0.9
"""Of all cores in use, whoever uses them: where nobody says who waited, this stands for it."""
QUOTA_RATIO_MIN: Final = 0.05
"""Of the time in which the control group's quota was used up and all its threads stood still."""
SATURATED_RATIO_MIN: Final = 0.9
"""Of a core, by the server's own process: it schedules and answers on one thread."""
FULL_SLOTS_RATIO_MIN: Final = 0.9
"""Of the slots, all of which would have to run for one more to help."""
IDLE_CORES_RATIO_MIN: Final = 0.5
"""Of the cores on which the workers may run."""
READINGS_MIN: Final = 5


class _Span:
    """What one process did between its first and its last reading."""

    def __init__(self, readings: Sequence[tuple[int, ProcessReading]]) -> None:
        (first_at_ns, first), (last_at_ns, last) = readings[0], readings[-1]
        self.process = last
        self.passed_ns = last_at_ns - first_at_ns
        self.ran_ns = _grown(first, last, lambda each: each.ran_ns)
        self.waited_ns = _grown(first, last, lambda each: each.waited_ns)
        self.cpu_ns = _grown(first, last, lambda each: each.cpu_ns)
        self.involuntary_count = max(0, last.involuntary_count - first.involuntary_count)

    @property
    def wanted_ns(self) -> int:
        """Time that its threads ran or were ready to, added up."""
        return (self.ran_ns or 0) + (self.waited_ns or 0)

    @property
    def delayed_ratio(self) -> float:
        """Part of it in which others had the cores."""
        return (self.waited_ns or 0) / self.wanted_ns if self.wanted_ns else 0.0


def _grown(
    first: ProcessReading, last: ProcessReading, of: Callable[[ProcessReading], int | None]
) -> int | None:
    """Threads that ended take their times along, so it is never less than nothing."""
    before, after = of(first), of(last)
    return None if before is None or after is None else max(0, after - before)


def _spans(chart: Chart) -> list[_Span]:
    spans = [_Span(readings) for readings in chart.processes().values() if len(readings) > 1]
    return [span for span in spans if span.passed_ns > 0]


def too_many_threads(chart: Chart) -> Iterator[Sign | Unknown]:
    """Workers whose threads wait for each other's cores."""
    spans = _spans(chart)
    if not spans or all(span.waited_ns is None for span in spans):
        yield Unknown(why="the system does not tell how long threads wait for a core")
        return
    wanted = {id(each) for each in workers_of(span.process for span in spans)}
    slots = sum(use.slots for use in chart.course.use.values()) if chart.course else 0
    noise = chart.noise()
    for span in [span for span in spans if id(span.process) in wanted]:
        cores = span.process.cores_count
        wanting = span.wanted_ns / span.passed_ns
        if wanting < THREADS_RATIO_MIN * max(cores, slots):
            continue
        if noise is not None and noise.is_loud:
            why = f"other programs kept {noise.cores:.1f} cores busy, for which threads wait, too"
            yield Unknown(subject=span.process.label, why=why)
        elif span.delayed_ratio >= OWN_DELAY_RATIO_MIN:
            yield Sign(
                subject=span.process.label,
                # Times are exact; what may be chance is a short look at an uneven load.
                confidence_ratio=span.passed_ns / (span.passed_ns + NS_PER_S / 20),
                evidence=(
                    figure("threads that ran or were ready to", wanting, "(mean)"),
                    figure("cores", cores),
                    figure("time that they waited for a core", span.delayed_ratio),
                    figure(
                        "times made to leave a core",
                        span.involuntary_count / span.passed_ns * NS_PER_S,
                        "/s",
                    ),
                    figure("threads", span.process.threads_count),
                ),
            )


def neighbours(chart: Chart) -> Iterator[Sign | Unknown]:
    """Cores that others keep busy, while the server's threads wait for them."""
    noise = chart.noise()
    if noise is None:
        yield Unknown(why="the system does not tell who uses its cores")
        return
    spans = _spans(chart)
    if not spans:
        yield Unknown(why="the server's processes are not on this machine, or were read once")
        return
    delayed = max((span.delayed_ratio for span in spans if span.ran_ns is not None), default=None)
    own_cores = sum(span.cpu_ns or 0 for span in spans) / spans[0].passed_ns
    is_crowded = own_cores + noise.cores >= CROWDED_RATIO_MIN * noise.cores_count
    is_felt = is_crowded if delayed is None else delayed >= DELAYED_RATIO_MIN
    if noise.cores >= NEIGHBOUR_CORES_RATIO_MIN * noise.cores_count and is_felt:
        yield Sign(
            subject=noise.loudest,
            confidence_ratio=spans[0].passed_ns / (spans[0].passed_ns + NS_PER_S / 20),
            evidence=(
                figure("cores that others kept busy", noise.cores),
                figure("cores", noise.cores_count),
                figure(f"of these {noise.loudest}", noise.loudest_cores),
                *(
                    ()
                    if delayed is None
                    else (figure("time that a process' threads waited for a core", delayed),)
                ),
                figure("cores that the server used", own_cores),
            ),
        )


def quota(chart: Chart) -> Iterator[Sign | Unknown]:
    """A control group that stops its processes when they have used up their time."""
    machines = [(r.at_ns, r.machine) for r in chart.readings if r.machine is not None]
    told = [(at_ns, each.throttled_ns) for at_ns, each in machines if each.throttled_ns is not None]
    if len(told) < 2:
        yield Unknown(why="no quota of a control group was told twice")
        return
    (first_at_ns, first_ns), (last_at_ns, last_ns) = told[0], told[-1]
    assert first_ns is not None
    assert last_ns is not None
    share = (last_ns - first_ns) / max(1, last_at_ns - first_at_ns)
    if share >= QUOTA_RATIO_MIN:
        yield Sign(
            subject="",
            confidence_ratio=1.0,
            evidence=(
                figure("time in which threads were stopped for it", share),
                figure("seen", (last_at_ns - first_at_ns) / NS_PER_S, "s"),
            ),
        )


def server_busy(chart: Chart) -> Iterator[Sign | Unknown]:
    """The one thread that schedules and answers has no time left."""
    spans = [span for span in _spans(chart) if span.process.role is Role.SERVER]
    if not spans:
        yield Unknown(why="the server's own process was not seen twice")
    for span in spans:
        share = (span.cpu_ns or 0) / span.passed_ns
        if share >= SATURATED_RATIO_MIN:
            yield Sign(
                subject=span.process.label,
                confidence_ratio=span.passed_ns / (span.passed_ns + NS_PER_S / 20),
                evidence=(
                    figure("of a core", share),
                    figure("seen", span.passed_ns / NS_PER_S, "s"),
                ),
            )


def idle_cores(chart: Chart) -> Iterator[Sign | Unknown]:
    """Cores that nobody uses, while slots are full and requests wait."""
    if any(reading.devices for reading in chart.readings):
        yield Unknown(why="an accelerator does the work: its slots need no core each")
        return
    told = [r for r in chart.readings if r.slots_busy_ratio is not None and r.machine is not None]
    workers = workers_of(process for reading in chart.readings for process in reading.processes)
    if len(told) < READINGS_MIN or not workers:
        why = f"{len(told)} readings of slots and cores, {READINGS_MIN} are needed"
        yield Unknown(why=why)
        return
    first, last = told[0], told[-1]
    assert first.machine is not None
    assert last.machine is not None
    used = (last.machine.busy_ns - first.machine.busy_ns) / max(1, last.at_ns - first.at_ns)
    idle = last.machine.cores_count - used
    wanted = min(max(each.cores_count for each in workers), last.machine.cores_count)
    full = [
        (each.slots_busy_ratio or 0) >= FULL_SLOTS_RATIO_MIN and (each.queue_depth or 0) >= 1
        for each in told
    ]
    sure = confidence_above(count_of(full), len(told), 0.5)
    if sure > 0.5 and idle >= max(1.0, IDLE_CORES_RATIO_MIN * wanted):
        yield Sign(
            subject="",
            confidence_ratio=sure,
            evidence=(
                figure("cores that were idle", idle),
                figure("cores that workers may use", wanted),
                figure("readings with all slots busy and requests waiting", count_of(full)),
                figure("readings", len(told)),
            ),
        )
