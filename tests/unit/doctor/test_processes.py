"""What Linux says of processes and cores, out of folders that look like /proc and /sys."""

import os
import socket
from pathlib import Path

import pytest

from headway.doctor import Processes, Role, listener_of

TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")


class FakeProc:
    """A machine with two cores, in a folder."""

    def __init__(self, home: Path) -> None:
        self.proc, self.sys = home / "proc", home / "sys"
        self.proc.mkdir()
        self.write("stat", "cpu 100 5 50 1000 20 3 2 1 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n")

    def write(self, path: str, text: str) -> None:
        file = self.proc / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def add(
        self, pid: int, parent: int, name: str, *words: str, ticks=(7, 3), ended=(0, 0)
    ) -> None:
        """A process with a thread that ran for 5 us and waited for 2."""
        fields = ["S", parent, *[0] * 9, *ticks, *ended]
        self.write(f"{pid}/stat", f"{pid} ({name}) " + " ".join(map(str, fields)))
        self.write(f"{pid}/cmdline", "\0".join(words) + "\0")
        self.write(
            f"{pid}/status",
            "Name:\tx\nRssAnon:\t    2048 kB\nThreads:\t3\nCpus_allowed_list:\t0-1,4\n",
        )
        self.write(f"{pid}/statm", "900 800 300 0 0 0 0\n")
        self.write(f"{pid}/task/{pid}/schedstat", "5000 2000 9\n")
        self.write(f"{pid}/task/{pid}/status", "nonvoluntary_ctxt_switches:\t4\n")


@pytest.fixture
def fake(tmp_path):
    """A server with a worker and its child, beside a stranger."""
    fake = FakeProc(tmp_path)
    fake.add(10, 1, "python (x)", "/usr/bin/python", "-m", "headway", "serve", ended=(20, 2))
    fake.add(11, 10, "python", "python", "-m", "headway.executors.worker", "3")
    fake.add(12, 11, "helper", "helper")
    fake.add(20, 1, "backup", "backup", ticks=(90, 10))
    return fake


def test_processes_are_a_tree_with_their_parts(fake):
    """The server, its worker and what the worker started; the stranger is among the others."""
    machine, own = Processes(10, proc=fake.proc, sys=fake.sys).read()
    assert [(p.pid, p.role, p.name) for p in own] == [
        (10, Role.SERVER, "python (x)"),
        (11, Role.WORKER, "python"),
        (12, Role.OTHER, "helper"),
    ]
    worker = own[1]
    assert worker.memory_bytes == 2 << 20
    assert (worker.cpu_ns, worker.ran_ns, worker.waited_ns) == (10 * TICK_NS, 5000, 2000)
    assert (worker.threads_count, worker.cores_count, worker.involuntary_count) == (3, 3, 4)
    assert [(o.pid, o.name, o.cpu_ns) for o in machine.others] == [(20, "backup", 100 * TICK_NS)]


def test_time_of_a_child_that_ended_is_still_the_servers(fake):
    """What a worker used that has died is no neighbour's."""
    machine, _ = Processes(10, proc=fake.proc, sys=fake.sys).read()
    assert machine.own_ns == (3 * 10 + 22) * TICK_NS
    assert machine.busy_ns == (100 + 5 + 50 + 3 + 2 + 1) * TICK_NS


def test_quota_and_heat_are_read_where_the_system_tells(fake):
    """Of control groups of version 2, and of the processor's own count."""
    processes = Processes(10, proc=fake.proc, sys=fake.sys)
    machine, _ = processes.read()
    assert (machine.throttled_ns, machine.hot_count) == (None, None)
    fake.write("10/cgroup", "0::/pod/a\n")
    group = fake.sys / "fs/cgroup/pod/a"
    group.mkdir(parents=True)
    (group / "cpu.stat").write_text("usage_usec 5\nthrottled_usec 1500\n")
    for core in (0, 1):
        folder = fake.sys / f"devices/system/cpu/cpu{core}/thermal_throttle"
        folder.mkdir(parents=True)
        (folder / "core_throttle_count").write_text("3\n")
    machine, _ = processes.read()
    assert (machine.throttled_ns, machine.hot_count) == (1_500_000, 6)


def test_system_that_tells_little_is_still_read(fake):
    """No anonymous memory, no scheduler statistics: what is left is read, the rest unknown."""
    fake.write("11/status", "Name:\tx\n")
    fake.write("11/task/11/schedstat", "")
    _, own = Processes(10, proc=fake.proc, sys=fake.sys).read()
    worker = own[1]
    assert worker.memory_bytes == 800 * os.sysconf("SC_PAGE_SIZE")
    assert (worker.ran_ns, worker.waited_ns, worker.cores_count) == (None, None, 1)


def test_process_that_has_gone_has_no_readings(fake):
    """And a machine without /proc has none at all."""
    machine, own = Processes(4711, proc=fake.proc, sys=fake.sys).read()
    assert (machine is not None, own) == (True, ())
    assert Processes(1, proc=fake.proc / "none", sys=fake.sys).read() == (None, ())


def test_own_process_is_read_as_it_is():
    """The real /proc: this process, with memory and time, and the cores it may use."""
    machine, own = Processes(os.getpid()).read()
    assert own[0].pid == os.getpid()
    assert own[0].memory_bytes > 1 << 20
    assert own[0].cores_count == len(os.sched_getaffinity(0))
    assert 0 < machine.own_ns <= machine.busy_ns


def test_listener_is_found_by_its_port(tmp_path):
    """The process that listens here, by its real socket; nobody on a port that is free."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        assert listener_of(port) is None
        listening.listen()
        assert listener_of(port) == os.getpid()
    assert listener_of(port, proc=tmp_path) is None
