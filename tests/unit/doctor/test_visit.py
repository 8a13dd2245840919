"""A visit: what is read of a server and its machine becomes one chart."""

import json
import os
from pathlib import Path

import pytest
from tests.recorded_run import record_run
from tests.unit.doctor.test_nvidia_smi import GPU_HEAD, write

from headway.devices import DeviceReading
from headway.doctor import (
    Patient,
    Reading,
    Recorded,
    Role,
    Source,
    chart_of,
    diagnose,
    find_patient,
    read_recorded,
    watch,
)
from headway.errors import ConfigError, HeadwayError
from headway.units import NS_PER_S

EXPOSITION = """\
# TYPE headway_slots gauge
headway_slots{device="cpu:0"} 4
# TYPE headway_slots_busy gauge
headway_slots_busy{device="cpu:0"} 3
# TYPE headway_queue_depth gauge
headway_queue_depth{model="m",tier="a"} 2
headway_queue_depth{model="m",tier="b"} 3
# TYPE headway_worker_losses counter
headway_worker_losses_total 1
"""
OF_DEVICES = """\
# TYPE headway_worker_memory_bytes gauge
headway_worker_memory_bytes{worker="cpu:0/ocr"} 1e8
# TYPE headway_device_memory_used_bytes gauge
headway_device_memory_used_bytes{device="cpu:0"} 5e9
headway_device_memory_used_bytes{device="cuda:0"} 7e9
# TYPE headway_device_utilization_ratio gauge
headway_device_utilization_ratio{device="cuda:0"} 0.25
# TYPE headway_device_throttled gauge
headway_device_throttled{device="cuda:0",reason="hw_thermal"} 1
headway_device_throttled{device="cuda:0",reason="sw_power_cap"} 0
# TYPE headway_worker_device_memory_bytes gauge
headway_worker_device_memory_bytes{worker="cpu:0/ocr",device="cuda:0"} 6e9
"""


class FakeClock:
    """Time that passes when somebody waits."""

    def __init__(self) -> None:
        self.at_ns = 1_000 * NS_PER_S

    def now_ns(self) -> int:
        return self.at_ns

    def sleep(self, duration_ns: int) -> None:
        assert duration_ns > 0
        self.at_ns += duration_ns


class FakeDoor:
    """A server that says what it is told to."""

    def __init__(self, text: str | None = EXPOSITION, journal: Path | None = None) -> None:
        self.said, self.journal, self.asked = text, journal, []

    def text(self, path: str) -> str:
        assert path == "/metrics"
        if self.said is None:
            raise HeadwayError("`/metrics` does not answer")
        return self.said

    def download(self, path: str, to: Path) -> None:
        self.asked.append(path)
        if self.journal is None:
            raise HeadwayError("`/admin/records` answered 404")
        to.write_bytes(self.journal.read_bytes())

    def rows_max(self) -> dict[str, int]:
        return {"ocr": 4}


def test_reading_has_what_the_server_tells() -> None:
    """Slots, queue and counters; what it does not export is unknown and not 0."""
    reading = Patient(door=FakeDoor()).read(5)
    assert (reading.slots_busy_ratio, reading.queue_depth) == (0.75, 5)
    assert reading.counters == {"headway_worker_losses_total": 1}
    assert (reading.processes, reading.devices, reading.machine) == ((), (), None)


def test_slots_are_as_busy_as_they_were_since_the_last_look() -> None:
    """Where the server counts their seconds, an instant does not stand for the time around it."""
    name = "# TYPE headway_slots_busy_seconds counter\nheadway_slots_busy_seconds_total"
    door = FakeDoor(f'{EXPOSITION}{name}{{device="cpu:0"}} 100\n')
    patient = Patient(door=door)
    assert patient.read(NS_PER_S).slots_busy_ratio == 0.75
    door.said = f'{EXPOSITION}{name}{{device="cpu:0"}} 101\n'
    assert patient.read(2 * NS_PER_S).slots_busy_ratio == 0.25  # one slot of four, all the second
    door.said = EXPOSITION
    assert patient.read(3 * NS_PER_S).slots_busy_ratio == 0.75


def test_workers_and_devices_of_a_server_elsewhere_are_told_by_its_metrics() -> None:
    """Cores are no accelerator; a worker has the same number in every reading."""
    patient = Patient(door=FakeDoor(EXPOSITION + OF_DEVICES))
    first, second = patient.read(1), patient.read(2)
    (worker,) = first.processes
    assert (worker.name, worker.role, worker.memory_bytes) == ("cpu:0/ocr", Role.WORKER, 10**8)
    assert worker.pid == second.processes[0].pid < 0
    (device,) = first.devices
    assert device == DeviceReading(
        name="cuda:0",
        utilization_ratio=0.25,
        memory_used_bytes=7 * 10**9,
        can_tell_throttling=True,
        throttle_reasons=("hw_thermal",),
        processes=((worker.pid, 6 * 10**9),),
    )


def test_watch_looks_evenly_and_to_the_end() -> None:
    """A second at 300 ms: at 0, 300, 600, 900 and at the end; each reading is shown."""
    clock, told = FakeClock(), []
    readings = watch(
        Patient(door=FakeDoor()), clock, for_ns=NS_PER_S, every_ns=300_000_000, tell=told.append
    )
    assert readings == told
    began = readings[0].at_ns
    assert [(r.at_ns - began) // 10**6 for r in readings] == [0, 300, 600, 900, 1000]


def test_server_that_ends_meanwhile_is_judged_by_what_was_seen() -> None:
    """One that leaks until it is killed has shown why; one that never answered has not."""
    clock, door = FakeClock(), FakeDoor()
    began_at_ns = clock.now_ns()
    patient = Patient(door=door)

    def tell(reading: Reading) -> None:
        if reading.at_ns - began_at_ns >= 3 * NS_PER_S:
            door.said = None

    readings = watch(patient, clock, for_ns=10 * NS_PER_S, every_ns=NS_PER_S, tell=tell)
    assert len(readings) == 4
    assert patient.lost == "`/metrics` does not answer"
    chart = chart_of(patient, readings, Recorded())
    assert "were not had" in chart.absent[Source.RECORDS]
    with pytest.raises(HeadwayError, match="does not answer"):
        watch(Patient(door=door), clock, for_ns=NS_PER_S, every_ns=NS_PER_S)


def test_long_watch_looks_less_often() -> None:
    """However long it is, the readings fit into memory."""
    readings = watch(Patient(), FakeClock(), for_ns=30 * 3600 * NS_PER_S, every_ns=NS_PER_S)
    assert len(readings) <= 7_202


def test_watch_keeps_others_of_the_first_and_the_last_reading_only() -> None:
    """Who used the cores meanwhile is told by two."""
    patient = find_patient(pid=os.getpid())
    readings = watch(patient, FakeClock(), for_ns=NS_PER_S, every_ns=250_000_000)
    has_others = [bool(reading.machine.others) for reading in readings]
    assert has_others[1:-1] == [False] * (len(readings) - 2)
    assert len(readings) == 5


def test_last_steps_of_a_server_are_asked_for_when_no_journal_is_given(tmp_path) -> None:
    """As long as it was watched, and a second before; the file's clock is the readings'."""
    journal = record_run(tmp_path / "run.journal")
    door = FakeDoor(journal=journal)
    patient = Patient(door=door)
    readings = watch(patient, FakeClock(), for_ns=3 * NS_PER_S, every_ns=NS_PER_S)
    chart = chart_of(patient, readings, Recorded())
    assert door.asked == ["/admin/records?seconds=4"]
    assert chart.course is not None
    assert chart.course.rows_max["ocr"] == 4
    assert chart.started_at_ns is not None


def test_server_that_does_not_tell_its_steps_is_diagnosed_without(tmp_path) -> None:
    """The reason stands with every check that would have needed them."""
    patient = Patient(door=FakeDoor())
    diagnosis = diagnose(chart_of(patient, [patient.read(1)], Recorded()))
    assert "404" in diagnosis.unknown["host_bound"]
    given = read_recorded(journal=record_run(tmp_path / "run.journal"))
    door = FakeDoor()
    assert chart_of(Patient(door=door), [], given).course is given.course
    assert door.asked == []


def test_recorded_files_are_told_apart(tmp_path) -> None:
    """A Chrome trace, totals of Nsight Systems, CSV of nvidia-smi, a journal."""
    trace = tmp_path / "trace.json"
    kernel = {"cat": "kernel", "name": "gemm", "ts": 1, "dur": 2}
    trace.write_text(json.dumps({"traceEvents": [kernel]}))
    totals = Path(__file__).parents[1] / "profiling/fixtures/nsys_stats.csv"
    smi = write(tmp_path / "smi.csv", GPU_HEAD, "2026/11/30 12:00:00.000" + ", 0" * 9)
    recorded = read_recorded(traces=[trace, totals], smi=[smi])
    assert len(recorded.activity.kernels) == 1
    assert recorded.totals.kernels
    assert len(recorded.readings) == 1
    assert chart_of(None, (), recorded).readings == recorded.readings
    with pytest.raises(ConfigError, match="is not a journal"):
        read_recorded(journal=trace)


def test_patient_is_this_process_or_none() -> None:
    """A process that is there is looked at; one that is not is refused."""
    assert find_patient(pid=os.getpid()).read(1).processes[0].pid == os.getpid()
    with pytest.raises(HeadwayError, match="there is no process"):
        find_patient(pid=2**22 + 5)


def test_server_elsewhere_is_not_judged_by_the_devices_here() -> None:
    """What stands beside the doctor says nothing about a server on another machine."""
    devices = [DeviceReading(name="cuda:0"), DeviceReading(name="cuda:1")]
    far = find_patient(url="http://192.0.2.1:8000", devices=lambda: devices)
    assert far.devices is None
    assert "not seen from here" in far.absent[Source.PROCESSES]
    only = find_patient(devices=lambda: devices, device="cuda:1")
    assert [device.name for device in only.read(1).devices] == ["cuda:1"]
    with pytest.raises(HeadwayError, match="no accelerator `cuda:7`") as refused:
        find_patient(devices=lambda: devices, device="cuda:7")
    assert "cuda:0" in str(refused.value.hint)
    with pytest.raises(HeadwayError, match="no accelerator"):
        find_patient(device="cuda:0")
