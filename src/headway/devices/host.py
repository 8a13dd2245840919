"""The machine's fingerprint: what measured times depend on, read from Linux's own description.

Knows /proc and /sys, both of which are arguments. Refuses to measure anything, and does without
whatever a system does not say: the field is then empty or 0.
"""

import os
import platform
import re
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from headway.units import format_bytes, parse_bytes

__all__ = [
    "CacheLevel",
    "CoreTimes",
    "Fingerprint",
    "MemoryUse",
    "ThreadTimes",
    "available_bytes",
    "core_times",
    "fingerprint",
    "hardware_differences",
    "llc_bytes",
    "memory_use",
    "pinned_threads",
    "resident_bytes",
    "siblings_of",
    "software_differences",
    "thread_times",
    "usable_cores",
]

_FEATURES: Final = (
    *("avx", "avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "asimddp", "i8mm", "bf16", "sve", "sve2"),
)
"""Instructions that kernels are chosen by: a machine without them is another machine."""
_LIBRARIES: Final = ("onnxruntime", "onnxruntime-gpu", "numpy", "torch")
_KERNELS: Final = frozenset({"onnxruntime", "onnxruntime-gpu", "torch"})
"""Libraries whose version decides how fast a model is; numpy only feeds them."""
_CORES_LISTED_MAX: Final = 4096


class CacheLevel(Struct, frozen=True, kw_only=True):
    """One kind of cache."""

    level: int
    kind: str
    """`data`, `instruction` or `unified`."""
    size_bytes: int
    """Of one of them."""
    cores_count: int
    """Cores of this process that share one of them."""


class Fingerprint(Struct, frozen=True, kw_only=True):
    """What tells one machine from another, as far as service times go."""

    cpu_model: str
    cpu_features: tuple[str, ...] = ()
    architecture: str = ""
    cores_count: int = 1
    """Cores that this process may run on."""
    cores_quota: float = 0.0
    """Cores' worth of time that its control group grants; 0 is no limit."""
    threads_per_core: int = 1
    """Logical cores of one physical one."""
    caches: tuple[CacheLevel, ...] = ()
    numa_nodes: int = 1
    memory_bytes: int = 0
    system: str = ""
    """Kernel's name and release."""
    libraries: dict[str, str] = {}
    """Version of each library that runs models, or feeds them, and is installed."""


class ThreadTimes(NamedTuple):
    """What the scheduler has given a thread."""

    ran_ns: int
    """On a core."""
    waited_ns: int
    """Ready to run, while others had the core."""


class CoreTimes(NamedTuple):
    """What some cores have done since the system started, in ticks of its clock, added up."""

    busy: int
    """Anything but waiting for work."""
    total: int


class MemoryUse(NamedTuple):
    """Memory of the machine, or of this process's control group where that has less."""

    used_bytes: int
    """What could not be given to somebody else: pages of files can."""
    total_bytes: int


def fingerprint(
    *,
    proc: Path = Path("/proc"),
    sys: Path = Path("/sys"),
    cores: Sequence[int] | None = None,
) -> Fingerprint:
    """Describe this machine, or another whose files lie elsewhere.

    Args:
        proc: where the kernel describes processor, memory and processes.
        sys: where it describes cores, caches, nodes and control groups.
        cores: the cores that count; this process's own if left out.
    """
    usable = tuple(usable_cores() if cores is None else cores)
    cpuinfo = _pairs(_text(proc / "cpuinfo"))
    memory = dict(_pairs(_text(proc / "meminfo")))
    release = _text(proc / "sys/kernel/osrelease").strip()
    return Fingerprint(
        cpu_model=_cpu_model(cpuinfo),
        cpu_features=_cpu_features(cpuinfo),
        architecture=platform.machine(),
        cores_count=max(1, len(usable)),
        cores_quota=_cores_quota(proc, sys),
        threads_per_core=max([1, *(len(siblings_of(core, sys=sys)) for core in usable)]),
        caches=_caches(sys, usable),
        numa_nodes=max(1, len(list(_numbered(sys / "devices/system/node", "node")))),
        memory_bytes=_memory_bytes(memory.get("MemTotal", "")),
        system=f"Linux {release}" if release else platform.system(),
        libraries=_versions(),
    )


def usable_cores() -> tuple[int, ...]:
    """Cores that this process may run on."""
    return tuple(sorted(os.sched_getaffinity(0)))


def available_bytes(*, proc: Path = Path("/proc")) -> int:
    """Memory that may be used without pushing anything out; 0 where the system does not say."""
    return _memory_bytes(dict(_pairs(_text(proc / "meminfo"))).get("MemAvailable", ""))


def memory_use(*, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> MemoryUse | None:
    """How much memory is taken, where the least of it is left; None where nobody says."""
    machine = dict(_pairs(_text(proc / "meminfo")))
    total_bytes = _memory_bytes(machine.get("MemTotal", ""))
    uses = []
    if total_bytes and "MemAvailable" in machine:
        uses.append(MemoryUse(total_bytes - _memory_bytes(machine["MemAvailable"]), total_bytes))
    for group in _groups(proc, sys):
        limit, current = (_text(group / f"memory.{word}").strip() for word in ("max", "current"))
        if limit.isdecimal() and current.isdecimal() and int(limit):
            files = dict(line.split()[:2] for line in _text(group / "memory.stat").splitlines())
            cached_bytes = int(files.get("inactive_file", 0))
            uses.append(MemoryUse(max(0, int(current) - cached_bytes), int(limit)))
    return min(uses, key=lambda use: use.total_bytes - use.used_bytes, default=None)


def core_times(cores: Iterable[int], *, proc: Path = Path("/proc")) -> CoreTimes | None:
    """What these cores have done so far; None where the system does not say."""
    wanted = {f"cpu{core}" for core in cores}
    found = [
        [int(word) for word in words[1:9]]
        for line in _text(proc / "stat").splitlines()
        if (words := line.split()) and words[0] in wanted
    ]
    if not found:
        return None
    total = sum(sum(ticks) for ticks in found)
    idle = sum(sum(ticks[3:5]) for ticks in found)  # with nothing to do, or waiting for a disk
    return CoreTimes(total - idle, total)


def resident_bytes(pid: int, *, proc: Path = Path("/proc")) -> int | None:
    """Memory of a process that is in RAM, shared memory included; None once it is gone."""
    status = dict(_pairs(_text(proc / f"{pid}/status")))
    return _memory_bytes(status["VmRSS"]) if "VmRSS" in status else None


def thread_times(pid: int, thread_id: int, *, proc: Path = Path("/proc")) -> ThreadTimes | None:
    """How a thread has fared with the scheduler so far; None where the system does not say."""
    words = _text(proc / f"{pid}/task/{thread_id}/schedstat").split()
    if len(words) != 3 or not all(word.isdecimal() for word in words):
        return None
    return ThreadTimes(int(words[0]), int(words[1]))


def pinned_threads(pid: int, core: int, *, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """Threads of a process that may run on this core and on no other."""
    found = []
    for folder in _numbered(proc / f"{pid}/task", ""):
        allowed = dict(_pairs(_text(folder / "status"))).get("Cpus_allowed_list", "")
        if _core_list(allowed) == (core,):
            found.append(int(folder.name))
    return tuple(found)


def siblings_of(core: int, *, sys: Path = Path("/sys")) -> tuple[int, ...]:
    """The logical cores that share a physical one with this core, itself included."""
    topology = sys / f"devices/system/cpu/cpu{core}/topology"
    for name in ("thread_siblings_list", "core_cpus_list"):
        if found := _core_list(_text(topology / name)):
            return found
    return (core,)


def llc_bytes(machine: Fingerprint) -> int:
    """Size of the largest cache; 0 where the system describes none."""
    return max((cache.size_bytes for cache in machine.caches), default=0)


def hardware_differences(recorded: Fingerprint, here: Fingerprint) -> list[str]:
    """Why times of the one machine do not hold on the other; nothing when they do."""
    pairs = {
        "processor": (recorded.cpu_model, here.cpu_model),
        "architecture": (recorded.architecture, here.architecture),
        "vector instructions": (recorded.cpu_features, here.cpu_features),
        "usable cores": (recorded.cores_count, here.cores_count),
        "core quota": (recorded.cores_quota, here.cores_quota),
        "threads per core": (recorded.threads_per_core, here.threads_per_core),
        "caches": (_cache_words(recorded), _cache_words(here)),
        "NUMA nodes": (recorded.numa_nodes, here.numa_nodes),
    }
    return [_difference(what, *pair) for what, pair in pairs.items() if pair[0] != pair[1]]


def software_differences(recorded: Fingerprint, here: Fingerprint) -> list[str]:
    """What has changed that may move times by a few per cent, on the same hardware."""
    found = []
    if recorded.system != here.system:
        found.append(_difference("kernel", recorded.system, here.system))
    for name in sorted(_KERNELS & (recorded.libraries.keys() | here.libraries.keys())):
        then, now = recorded.libraries.get(name, "none"), here.libraries.get(name, "none")
        if then != now:
            found.append(_difference(name, then, now))
    return found


def _difference(what: str, then: object, now: object) -> str:
    if isinstance(then, tuple) and isinstance(now, tuple):
        return f"{what}: `{_beyond(then, now)}` there, `{_beyond(now, then)}` here"
    return f"{what}: `{then}` there, `{now}` here"


def _beyond(these: tuple[object, ...], those: tuple[object, ...]) -> str:
    return ", ".join(str(item) for item in these if item not in those) or "none more"


def _cache_words(machine: Fingerprint) -> str:
    return ", ".join(
        f"L{cache.level} {cache.kind} {format_bytes(cache.size_bytes)}" for cache in machine.caches
    )


def _text(path: Path) -> str:
    """A small file of the kernel's; empty where there is none, or it may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _pairs(text: str) -> list[tuple[str, str]]:
    """`name : value` lines, in order: the processors of /proc/cpuinfo repeat theirs."""
    parts = (line.partition(":") for line in text.splitlines() if ":" in line)
    return [(name.strip(), value.strip()) for name, _, value in parts]


def _cpu_model(cpuinfo: Iterable[tuple[str, str]]) -> str:
    """As x86 names it, with the numbers that tell generations of one name apart; else Arm's ids."""
    first: dict[str, str] = {}
    for name, value in cpuinfo:
        first.setdefault(name, value)
    words = [first[key] for key in ("model name", "Processor", "uarch") if key in first][:1]
    numbers = ("cpu family", "model", "stepping", "CPU implementer", "CPU part", "CPU revision")
    details = " ".join(f"{key} {first[key]}" for key in numbers if key in first)
    if details:
        words.append(f"({details})")
    return " ".join(words) or platform.machine()


def _cpu_features(cpuinfo: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    flags = next((value for name, value in cpuinfo if name in {"flags", "Features"}), "")
    present = set(flags.split())
    return tuple(name for name in _FEATURES if name in present)


def _memory_bytes(text: str) -> int:
    """`16384 kB`, where the kernel's kB are KiB."""
    try:
        return parse_bytes(text.replace("kB", "KiB"))
    except ValueError:
        return 0


def _caches(sys: Path, cores: Sequence[int]) -> tuple[CacheLevel, ...]:
    """Of the first core that counts: hybrid processors differ, and it is as good as any."""
    if not cores:
        return ()
    found = set()
    for folder in _numbered(sys / f"devices/system/cpu/cpu{cores[0]}/cache", "index"):
        try:
            level = int(_text(folder / "level"))
            size_bytes = parse_bytes(_text(folder / "size").strip().replace("K", "KiB"))
        except ValueError:
            continue
        kind = _text(folder / "type").strip().lower()
        sharers = set(_core_list(_text(folder / "shared_cpu_list"))) & set(cores)
        found.add((level, kind, size_bytes, max(1, len(sharers))))
    return tuple(
        CacheLevel(level=level, kind=kind, size_bytes=size_bytes, cores_count=count)
        for level, kind, size_bytes, count in sorted(found)
    )


def _numbered(folder: Path, prefix: str) -> list[Path]:
    """`node0`, `node1`, ... of a folder of the kernel's."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return []
    return [entry for entry in entries if re.fullmatch(rf"{prefix}\d+", entry.name)]


def _core_list(text: str) -> tuple[int, ...]:
    """`0-3,8` as numbers; empty where it is anything else."""
    cores: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            return ()
        start, stop = int(first), int(last or first) + 1
        if stop - start > _CORES_LISTED_MAX:
            return ()
        cores.extend(range(start, stop))
    return tuple(cores)


def _groups(proc: Path, sys: Path) -> list[Path]:
    """This process's control group and those above it (version 2)."""
    line = next((s for s in _text(proc / "self/cgroup").splitlines() if s.startswith("0::")), "")
    root = sys / "fs/cgroup"
    group = root / line.removeprefix("0::").strip().lstrip("/")
    above = [group, *group.parents]
    return above[: above.index(root) + 1] if root in above else [group]


def _cores_quota(proc: Path, sys: Path) -> float:
    """The tightest limit of this process's control group and those above it."""
    quotas = []
    for folder in _groups(proc, sys):
        words = _text(folder / "cpu.max").split()
        if len(words) == 2 and words[0].isdecimal() and words[1].isdecimal() and int(words[1]):
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=0.0)


def _versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
