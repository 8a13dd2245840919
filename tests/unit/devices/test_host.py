"""The machine's fingerprint, read from trees of files that stand for other machines."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.devices import (
    CacheLevel,
    Fingerprint,
    ThreadTimes,
    available_bytes,
    fingerprint,
    hardware_differences,
    llc_bytes,
    pinned_threads,
    siblings_of,
    software_differences,
    thread_times,
)

X86_CPUINFO = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8480+
stepping\t: 8
flags\t\t: fpu sse2 avx avx2 avx512f avx512_vnni amx_tile

processor\t: 1
model name\t: another
"""
ARM_CPUINFO = """\
processor\t: 0
Features\t: fp asimd asimddp sve
CPU implementer\t: 0x41
CPU part\t: 0xd40
CPU revision\t: 1
"""


class Machine:
    """A tree of files as the kernel shows them."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        self.sys = folder / "sys"

    def write(self, path: str, text: str) -> None:
        place = self.proc.parent / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def cache(self, index: int, level: int, kind: str, size: str, shared: str) -> None:
        folder = f"sys/devices/system/cpu/cpu2/cache/index{index}"
        for name, text in (
            ("level", str(level)),
            ("type", kind),
            ("size", size),
            ("shared_cpu_list", shared),
        ):
            self.write(f"{folder}/{name}", text + "\n")

    def read(self, cores=(2, 3)) -> Fingerprint:
        return fingerprint(proc=self.proc, sys=self.sys, cores=cores)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A server with two usable cores, two threads each."""
    machine = Machine(tmp_path)
    machine.write("proc/cpuinfo", X86_CPUINFO)
    machine.write("proc/meminfo", "MemTotal:  16384 kB\nMemAvailable:   8192 kB\n")
    machine.write("proc/sys/kernel/osrelease", "6.1.0\n")
    machine.write("proc/self/cgroup", "0::/pods/one\n")
    machine.write("sys/fs/cgroup/pods/one/cpu.max", "max 100000\n")
    machine.write("sys/fs/cgroup/pods/cpu.max", "150000 100000\n")
    machine.write("sys/devices/system/node/node0/cpulist", "0-7\n")
    machine.write("sys/devices/system/node/node1/cpulist", "8-15\n")
    machine.write("sys/devices/system/node/possible", "0-1\n")
    for core in (2, 3):
        topology = f"sys/devices/system/cpu/cpu{core}/topology"
        machine.write(f"{topology}/thread_siblings_list", f"{core},{core + 8}\n")
    machine.cache(0, 1, "Data", "48K", "2,10")
    machine.cache(1, 2, "Unified", "2048K", "2,10")
    machine.cache(2, 3, "Unified", "107520K", "0-15")
    return machine


def test_fingerprint_of_a_server(machine: Machine) -> None:
    """Every field comes from its file."""
    found = machine.read()
    assert found.cpu_model == (
        "Intel(R) Xeon(R) Platinum 8480+ (cpu family 6 model 143 stepping 8)"
    )
    assert found.cpu_features == ("avx", "avx2", "avx512f", "avx512_vnni", "amx_tile")
    assert (found.cores_count, found.cores_quota, found.threads_per_core) == (2, 1.5, 2)
    assert (found.numa_nodes, found.memory_bytes) == (2, 16 << 20)
    assert found.system == "Linux 6.1.0"
    assert found.caches == (
        CacheLevel(level=1, kind="data", size_bytes=48 << 10, cores_count=1),
        CacheLevel(level=2, kind="unified", size_bytes=2 << 20, cores_count=1),
        CacheLevel(level=3, kind="unified", size_bytes=105 << 20, cores_count=2),
    )
    assert llc_bytes(found) == 105 << 20
    assert "numpy" in found.libraries


def test_fingerprint_of_an_arm_processor(machine: Machine) -> None:
    """Where the kernel gives no name, its numbers tell processors apart."""
    machine.write("proc/cpuinfo", ARM_CPUINFO)
    found = machine.read()
    assert found.cpu_model == "(CPU implementer 0x41 CPU part 0xd40 CPU revision 1)"
    assert found.cpu_features == ("asimd", "asimddp", "sve")


def test_fingerprint_without_any_file(tmp_path: Path) -> None:
    """A system that says nothing has a fingerprint all the same."""
    found = Machine(tmp_path).read()
    assert found.cpu_model
    assert (found.caches, found.cores_quota, found.memory_bytes) == ((), 0.0, 0)
    assert (found.numa_nodes, found.threads_per_core, llc_bytes(found)) == (1, 1, 0)
    assert available_bytes(proc=tmp_path) == 0


def test_fingerprint_of_this_machine_is_its_own() -> None:
    """Two readings of one machine do not differ."""
    assert fingerprint() == fingerprint()
    assert hardware_differences(fingerprint(), fingerprint()) == []


@given(text=st.text(max_size=200))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_fingerprint_of_nonsense(machine: Machine, text: str) -> None:
    """Whatever the files hold, there is a fingerprint and no error."""
    for path in (
        "proc/cpuinfo",
        "proc/meminfo",
        "proc/self/cgroup",
        "sys/fs/cgroup/pods/one/cpu.max",
        "sys/devices/system/cpu/cpu2/topology/thread_siblings_list",
        "sys/devices/system/cpu/cpu2/cache/index0/size",
        "sys/devices/system/cpu/cpu2/cache/index1/shared_cpu_list",
    ):
        (machine.proc.parent / path).write_text(text, encoding="utf-8", errors="replace")
    found = machine.read()
    assert found.cores_count == 2
    assert found.cores_quota >= 0


def test_available_memory(machine: Machine) -> None:
    """What can be used, not what there is."""
    assert available_bytes(proc=machine.proc) == 8 << 20


def test_siblings_of_a_core(machine: Machine) -> None:
    """Threads of one physical core; a core that nothing is known of stands alone."""
    assert siblings_of(3, sys=machine.sys) == (3, 11)
    assert siblings_of(77, sys=machine.sys) == (77,)


def test_quota_of_the_tightest_group(machine: Machine) -> None:
    """A limit anywhere above counts, and the smallest of several."""
    machine.write("sys/fs/cgroup/cpu.max", "50000 100000\n")
    assert machine.read().cores_quota == 0.5


def test_core_list_that_is_absurd(machine: Machine) -> None:
    """A range of a billion cores is not built."""
    machine.write("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "0-999999999\n")
    assert siblings_of(2, sys=machine.sys) == (2,)


def test_hardware_differences_name_both_sides(machine: Machine) -> None:
    """A difference says what it is, there and here; features are named one by one."""
    there = machine.read()
    machine.write("proc/cpuinfo", X86_CPUINFO.replace(" amx_tile", "").replace("8480+", "8470"))
    found = hardware_differences(there, machine.read(cores=(2,)))
    assert found[0].startswith("processor: `Intel(R) Xeon(R) Platinum 8480+")
    assert "vector instructions: `amx_tile` there, `none more` here" in found
    assert "usable cores: `2` there, `1` here" in found


def test_software_differences_are_no_hardware(machine: Machine) -> None:
    """Another kernel or back end moves times a little; numpy's version does not."""
    there = machine.read()
    machine.write("proc/sys/kernel/osrelease", "6.2.0\n")
    here = machine.read()
    assert hardware_differences(there, here) == []
    assert software_differences(there, here) == ["kernel: `Linux 6.1.0` there, `Linux 6.2.0` here"]
    old = Fingerprint(cpu_model="a", libraries={"onnxruntime": "1.17", "numpy": "1"})
    new = Fingerprint(cpu_model="a", libraries={"onnxruntime": "1.32", "numpy": "2"})
    assert software_differences(old, new) == ["onnxruntime: `1.17` there, `1.32` here"]
    assert software_differences(Fingerprint(cpu_model="a"), new) == [
        "onnxruntime: `none` there, `1.32` here"
    ]


def test_thread_times(machine: Machine) -> None:
    """What the scheduler counts of a thread; nothing where it does not count."""
    machine.write("proc/7/task/9/schedstat", "120 30 4\n")
    machine.write("proc/7/task/10/schedstat", "0 0\n")
    assert thread_times(7, 9, proc=machine.proc) == ThreadTimes(ran_ns=120, waited_ns=30)
    assert thread_times(7, 10, proc=machine.proc) is None
    assert thread_times(7, 11, proc=machine.proc) is None


def test_pinned_threads(machine: Machine) -> None:
    """Threads that may run on one core only, not those that may run there too."""
    for thread_id, cores in ((7, "0-3"), (8, "2"), (9, "2-3")):
        machine.write(f"proc/7/task/{thread_id}/status", f"Name:\tx\nCpus_allowed_list:\t{cores}\n")
    assert pinned_threads(7, 2, proc=machine.proc) == (8,)
    assert pinned_threads(7, 3, proc=machine.proc) == ()
    assert pinned_threads(8, 3, proc=machine.proc) == ()
