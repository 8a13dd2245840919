"""A visit: a patient is looked at again and again for some time, and all of it becomes a chart.

Knows where each kind of measured value is had. Time is handed in. Nothing is changed anywhere: a
server is asked for what it tells anyone who may manage it, and `/proc` is read.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from headway.core import ModelName
from headway.devices import DeviceProcess, DeviceReading
from headway.doctor.chart import Chart
from headway.doctor.course import Course
from headway.doctor.finding import Source
from headway.doctor.follow import follow
from headway.doctor.nvidia_smi import read_nvidia_smi
from headway.doctor.processes import Processes, listener_of
from headway.doctor.readings import ProcessReading, Reading, Role
from headway.doctor.wire import ServerDoor
from headway.errors import HeadwayError
from headway.observe import Exposition, read_exposition, read_journal
from headway.profiling import DeviceActivity, NsightProfile, read_activity, read_nsys
from headway.units import NS_PER_S

__all__ = ["Clock", "Patient", "Recorded", "chart_of", "find_patient", "read_recorded", "watch"]

_READINGS_MAX: Final = 7_200
"""Of one visit; a longer one looks less often."""
_BEFORE_S: Final = 1
"""Steps from so long before the first reading are asked for, too."""
_COUNTERS: Final = (
    "headway_batches_total",
    "headway_deadline_violations_total",
    "headway_requests_total",
    "headway_worker_losses_total",
)
_ACCELERATOR: Final = "cuda"
"""What their names begin with."""
_OF_ACCELERATORS: Final = (
    "headway_device_power_watts",
    "headway_device_pcie_bytes_total",
    "headway_device_throttled",
)
"""Told of no device that is cores, whose memory is the machine's."""


class Clock(Protocol):
    """What a visit may know of time."""

    def now_ns(self) -> int:
        """Nanoseconds since 1970, which is how records and readings find together."""

    def sleep(self, duration_ns: int) -> None:
        """Wait."""


class Patient(Struct, kw_only=True):
    """What is looked at."""

    door: ServerDoor | None = None
    """Of a server that answers."""
    processes: Processes | None = None
    devices: Callable[[], Sequence[DeviceReading]] | None = None
    absent: dict[Source, str] = {}
    """Why a source is missing."""
    lost: str = ""
    """Why it could not be looked at to the end; empty where it could."""
    _ids: dict[str, int] = {}
    _busy: tuple[int, float] | None = None
    """When slots were last looked at, and the seconds that they had been busy by then."""

    def read(self, at_ns: int) -> Reading:
        """Look once."""
        machine, processes = self.processes.read() if self.processes else (None, ())
        devices = tuple(self.devices()) if self.devices else ()
        told = read_exposition(self.door.text("/metrics")) if self.door else None
        if told is None:
            return Reading(at_ns=at_ns, machine=machine, processes=processes, devices=devices)
        return Reading(
            at_ns=at_ns,
            machine=machine,
            processes=processes or self._told_processes(told),
            devices=devices or self._told_devices(told),
            queue_depth=told.total("headway_queue_depth"),
            slots_busy_ratio=self._slots_busy(told, at_ns),
            counters={n: total for n in _COUNTERS if (total := told.total(n)) is not None},
        )

    def _slots_busy(self, told: Exposition, at_ns: int) -> float | None:
        """Since the last look, where the server counts it; else at this instant."""
        slots, busy = told.total("headway_slots"), told.total("headway_slots_busy")
        before, self._busy = self._busy, None
        busy_s = told.total("headway_slots_busy_seconds_total")
        if busy_s is not None:
            self._busy = (at_ns, busy_s)
        if not slots or busy is None:
            return None
        if before is None or busy_s is None or at_ns <= before[0] or busy_s < before[1]:
            return busy / slots
        passed_s = (at_ns - before[0]) / NS_PER_S
        return min(1.0, (busy_s - before[1]) / passed_s / slots)

    def _id_of(self, worker: str) -> int:
        return self._ids.setdefault(worker, -1 - len(self._ids))

    def _told_processes(self, told: Exposition) -> tuple[ProcessReading, ...]:
        """Workers of a server elsewhere, as far as it tells of them."""
        return tuple(
            ProcessReading(
                pid=self._id_of(sample.labels.get("worker", "")),
                role=Role.WORKER,
                name=sample.labels.get("worker", ""),
                memory_bytes=int(sample.value),
            )
            for sample in told.of("headway_worker_memory_bytes")
        )

    def _told_devices(self, told: Exposition) -> tuple[DeviceReading, ...]:
        """Accelerators of a server elsewhere; what it does not tell is unknown."""
        known = {s.labels.get("device", "") for name in _OF_ACCELERATORS for s in told.of(name)}
        names = {s.labels.get("device", "") for s in told.of("headway_device_memory_used_bytes")}
        known |= {name for name in names if name.startswith(_ACCELERATOR)}
        return tuple(self._told_device(told, name) for name in sorted(known))

    def _told_device(self, told: Exposition, name: str) -> DeviceReading:
        def value(metric: str) -> float | None:
            values = [s.value for s in told.of(metric) if s.labels.get("device") == name]
            return values[0] if values else None

        used = value("headway_device_memory_used_bytes")
        total = value("headway_device_memory_total_bytes")
        return DeviceReading(
            name=name,
            utilization_ratio=value("headway_device_utilization_ratio"),
            memory_used_bytes=None if used is None else int(used),
            memory_total_bytes=None if total is None else int(total),
            can_tell_throttling=value("headway_device_throttled") is not None,
            throttle_reasons=tuple(
                sample.labels.get("reason", "")
                for sample in told.of("headway_device_throttled")
                if sample.labels.get("device") == name and sample.value
            ),
            processes=tuple(
                DeviceProcess(self._id_of(sample.labels.get("worker", "")), int(sample.value))
                for sample in told.of("headway_worker_device_memory_bytes")
                if sample.labels.get("device") == name
            ),
        )


class Recorded(Struct, frozen=True, kw_only=True):
    """What files tell."""

    course: Course | None = None
    started_at_ns: int | None = None
    readings: tuple[Reading, ...] = ()
    """Of devices; what was read live comes before it."""
    activity: DeviceActivity | None = None
    totals: NsightProfile | None = None


def find_patient(
    *,
    url: str = "",
    key: str = "",
    pid: int = 0,
    devices: Callable[[], Sequence[DeviceReading]] | None = None,
    device: str = "",
) -> Patient:
    """Where to look.

    Args:
        url: of a server; empty for none.
        key: for its management.
        pid: of a process, its descendants included; 0 takes the one that listens at the URL, if
            that is on this machine.
        devices: reads this machine's accelerators; None where there are none.
        device: the only one that is looked at; empty for all.

    Raises:
        HeadwayError: there is no such process, or no such device.
    """
    if device:
        devices = _only(device, devices)
    door = ServerDoor(url, key) if url else None
    absent = {Source.DEVICES: "no accelerator is seen on this machine"}
    if not pid and door is not None and door.is_here:
        pid = listener_of(door.port) or 0
    processes = Processes(pid) if pid else None
    if pid and processes is not None and not processes.read()[1]:
        raise HeadwayError(f"there is no process `{pid}`", hint="on this machine, that is")
    if processes is None and door is not None:
        absent[Source.PROCESSES] = "the server's processes are not seen from here: give --pid"
    return Patient(
        door=door,
        processes=processes,
        # What is beside a server elsewhere says nothing about it.
        devices=devices if door is None or door.is_here else None,
        absent=absent,
    )


def _only(
    name: str, devices: Callable[[], Sequence[DeviceReading]] | None
) -> Callable[[], Sequence[DeviceReading]]:
    names = [] if devices is None else [each.name for each in devices()]
    if devices is None or name not in names:
        known = f"there are {', '.join(f'`{each}`' for each in names)}" if names else ""
        raise HeadwayError(
            f"there is no accelerator `{name}`",
            hint=known or "none is seen on this machine; NVIDIA's need the extra `gpu`",
        )
    return lambda: [each for each in devices() if each.name == name]


def watch(
    patient: Patient,
    clock: Clock,
    *,
    for_ns: int,
    every_ns: int,
    tell: Callable[[Reading], None] = lambda _: None,
) -> list[Reading]:
    """Look at a patient again and again.

    Args:
        patient: where to look.
        clock: what time it is.
        for_ns: how long.
        every_ns: how often; less often where that would be too many readings.
        tell: is shown each reading.

    Returns:
        The readings; of a server that stopped answering those until then, for what went before is
        what one wants to know of it, and `patient.lost` says so.

    Raises:
        HeadwayError: the server did not answer at all.
    """
    every_ns = max(every_ns, for_ns // _READINGS_MAX)
    began_at_ns = clock.now_ns()
    readings: list[Reading] = []
    while True:
        at_ns = clock.now_ns()
        try:
            reading = patient.read(at_ns)
        except HeadwayError as error:
            if not readings:
                raise
            patient.lost = error.message
            return readings
        tell(reading)
        if len(readings) > 1:
            readings[-1] = _without_others(readings[-1])
        readings.append(reading)
        left_ns = began_at_ns + for_ns - clock.now_ns()
        if left_ns <= 0:
            return readings
        clock.sleep(min(left_ns, max(0, at_ns + every_ns - clock.now_ns())))


def _without_others(reading: Reading) -> Reading:
    """Only the first and the last tell who used the cores meanwhile."""
    if reading.machine is None:
        return reading
    return replace(reading, machine=replace(reading.machine, others=()))


def read_recorded(
    *,
    journal: Path | None = None,
    rows_max: Mapping[str, int] | None = None,
    traces: Sequence[Path] = (),
    smi: Sequence[Path] = (),
) -> Recorded:
    """Read a journal, profilers' exports, and what nvidia-smi wrote.

    Args:
        journal: of a run.
        rows_max: rows that a batch of a model may have, where its load may not be in the journal.
        traces: profilers' exports; of several of one kind the last counts.
        smi: CSV of nvidia-smi.

    Raises:
        ConfigError: a file cannot be read, or is none of these.
        HeadwayError: an export is broken.
    """
    recorded = Recorded()
    if journal is not None:
        header, records = read_journal(journal)
        with closing(records):
            sizes = {ModelName(name): rows for name, rows in (rows_max or {}).items()}
            course = follow(records, header.params.devices, rows_max=sizes)
        recorded = Recorded(course=course, started_at_ns=_unix_ns(header.started_at))
    for path in traces:
        activity = read_activity(path)
        if activity is not None:
            recorded = replace(recorded, activity=activity)
        else:
            recorded = replace(recorded, totals=read_nsys(path))
    return replace(recorded, readings=read_nvidia_smi(smi)) if smi else recorded


def chart_of(patient: Patient | None, readings: Sequence[Reading], recorded: Recorded) -> Chart:
    """All that was measured; a server's last steps are fetched now, where no journal was read."""
    absent = dict(patient.absent) if patient is not None else {}
    if recorded.course is None and patient is not None and patient.door is not None:
        try:
            steps = _fetched(patient.door, readings)
            recorded = replace(recorded, course=steps.course, started_at_ns=steps.started_at_ns)
        except HeadwayError as error:
            absent[Source.RECORDS] = f"the server's last steps were not had: {error.message}"
    return Chart(
        course=recorded.course,
        started_at_ns=recorded.started_at_ns,
        readings=tuple(sorted([*readings, *recorded.readings], key=lambda reading: reading.at_ns)),
        activity=recorded.activity,
        totals=recorded.totals,
        absent=absent,
    )


def _fetched(door: ServerDoor, readings: Sequence[Reading]) -> Recorded:
    watched_ns = readings[-1].at_ns - readings[0].at_ns if readings else 0
    seconds = ceil(watched_ns / NS_PER_S) + _BEFORE_S
    with TemporaryDirectory() as folder:
        path = Path(folder) / "recent.journal"
        door.download(f"/admin/records?seconds={seconds}", path)
        return read_recorded(journal=path, rows_max=door.rows_max())


def _unix_ns(text: str) -> int | None:
    """Of ISO 8601."""
    try:
        return round(datetime.fromisoformat(text).timestamp() * NS_PER_S)
    except ValueError:
        return None
