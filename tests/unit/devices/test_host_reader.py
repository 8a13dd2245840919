"""Cores as a device, read from trees of files that stand for other machines."""

import os
from pathlib import Path

import pytest

from headway.devices import HostReader, core_times, memory_use, resident_bytes

KIB = 1024


class Machine:
    """Files as the kernel shows them."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.sys = folder / "proc", folder / "sys"
        self.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 400 kB\n")

    def write(self, path: str, text: str) -> None:
        place = self.proc.parent / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def ran(self, *ticks: str) -> None:
        """What each core has done so far: user nice system idle iowait irq softirq steal guest."""
        lines = [f"cpu{core} {each}" for core, each in enumerate(ticks)]
        self.write("proc/stat", "\n".join(["cpu  9 9 9 9", *lines, "intr 5"]))

    def reader(self, **cores) -> HostReader:
        return HostReader(cores or {"cpu:0": [0, 1]}, proc=self.proc, sys=self.sys)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """One with a little memory."""
    return Machine(tmp_path)


def test_utilization_is_between_two_looks(machine):
    """At the first it is unknown; then it is the part of the cores' time that was not idle."""
    reader = machine.reader()
    machine.ran("100 0 100 800 0 0 0 0 0", "0 0 0 1000 0 0 0 0 0")
    assert reader.read()[0].utilization_ratio is None
    machine.ran("150 0 110 830 10 0 0 0 50", "100 0 0 1000 0 0 0 0 0")
    assert reader.read()[0].utilization_ratio == pytest.approx(160 / 200)


def test_utilization_is_of_the_devices_own_cores(machine):
    """What runs elsewhere on the machine is not theirs."""
    reader = machine.reader(first=[0], second=[1])
    machine.ran("0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0")
    reader.read()
    machine.ran("10 0 0 0 0 0 0 0", "0 0 0 10 0 0 0 0")
    assert [(r.name, r.utilization_ratio) for r in reader.read()] == [("first", 1), ("second", 0)]


def test_clock_that_stands_still_is_unknown(machine):
    """Two looks within one tick have nothing between them."""
    reader = machine.reader()
    machine.ran("100 0 100 800 0 0 0 0", "0 0 0 1000 0 0 0 0")
    reader.read()
    assert reader.read()[0].utilization_ratio is None


def test_machine_that_says_nothing_is_unknown(tmp_path):
    """No files, no numbers; never 0."""
    reader = HostReader({"cpu:0": [0]}, proc=tmp_path, sys=tmp_path)
    (reading,) = reader.read([1])
    assert reading.utilization_ratio is None
    assert reading.memory_used_bytes is None
    assert reading.memory_total_bytes is None
    assert reading.processes == ()
    assert core_times([0], proc=tmp_path) is None


def test_memory_is_what_cannot_be_given_away(machine):
    """Without what files may be pushed out of."""
    (reading,) = machine.reader().read()
    assert (reading.memory_used_bytes, reading.memory_total_bytes) == (600 * KIB, 1000 * KIB)


def test_memory_is_the_control_groups_where_that_has_less(machine):
    """A container is ended at its own limit, whatever its machine has; the cache is not counted."""
    machine.write("proc/self/cgroup", "0::/pods/one\n")
    machine.write("sys/fs/cgroup/pods/one/memory.max", "300000\n")
    machine.write("sys/fs/cgroup/pods/one/memory.current", "250000\n")
    machine.write("sys/fs/cgroup/pods/one/memory.stat", "anon 100000\ninactive_file 50000\n")
    machine.write("sys/fs/cgroup/pods/memory.max", "max\n")
    assert memory_use(proc=machine.proc, sys=machine.sys) == (200000, 300000)
    machine.write("sys/fs/cgroup/pods/one/memory.max", "max\n")
    assert memory_use(proc=machine.proc, sys=machine.sys) == (600 * KIB, 1000 * KIB)


def test_processes_that_are_gone_are_left_out(machine):
    """A worker may end between being listed and being read."""
    machine.write("proc/7/status", "Name: x\nVmRSS:\t  12 kB\n")
    machine.write("proc/8/status", "Name: dead\n")
    (reading,) = machine.reader().read([7, 8, 9])
    assert reading.processes == ((7, 12 * KIB),)


def test_this_machine_can_be_read():
    """The real files are as they are taken to be."""
    assert (resident_bytes(os.getpid()) or 0) > 1 << 20
    reader = HostReader({"cpu:0": [0]})
    (reading,) = reader.read([os.getpid()])
    assert reading.memory_total_bytes
    assert reading.processes
