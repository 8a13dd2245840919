"""Processes and cores as Linux describes them; nothing is asked of a process, and none is touched.

Knows /proc and /sys, both of which are arguments. Does without whatever a system does not say.
"""

import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from headway.doctor.readings import MachineReading, OtherProcess, ProcessReading, Role
from headway.units import NS_PER_S

__all__ = ["Processes", "listener_of"]

_NS_PER_TICK: Final = NS_PER_S // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_WORKER: Final = "headway.executors.worker"
_OTHERS_MAX: Final = 2_048
"""Processes that are kept in one reading."""
_LISTENS: Final = "0A"
"""State of a listening socket in /proc/net/tcp."""
_NS_PER_US: Final = 1_000


class _Stat(NamedTuple):
    name: str
    parent: int
    cpu_ns: int
    ended_ns: int
    """Of children that have ended: what they used is not lost with them."""


class Processes:
    """A process, all that descends from it, and the machine around them.

    Args:
        root_pid: of the process; 0 for none, then only the machine is read.
        proc: where the kernel describes processes.
        sys: where it describes cores and control groups.
    """

    def __init__(
        self, root_pid: int, *, proc: Path = Path("/proc"), sys: Path = Path("/sys")
    ) -> None:
        self._root_pid = root_pid
        self._proc = proc
        self._sys = sys

    def read(self) -> tuple[MachineReading | None, tuple[ProcessReading, ...]]:
        """The machine, and the processes that live now."""
        stats = {
            int(entry.name): stat
            for entry in self._entries()
            if (stat := _stat(entry / "stat")) is not None
        }
        own = _tree(stats, self._root_pid) if self._root_pid else []
        readings = (self._process(pid, stats[pid]) for pid in own)
        return self._machine(stats, {*own, os.getpid()}), tuple(readings)

    def _entries(self) -> list[Path]:
        with suppress(OSError):
            return [entry for entry in self._proc.iterdir() if entry.name.isdigit()]
        return []

    def _process(self, pid: int, stat: _Stat) -> ProcessReading:
        folder = self._proc / str(pid)
        words = _text(folder / "cmdline").split("\0")
        status = _pairs(_text(folder / "status"))
        threads = self._threads(folder)
        is_worker = _WORKER in words
        role = Role.WORKER if is_worker else Role.OTHER
        if pid == self._root_pid and any(Path(word).name == "headway" for word in words[:4]):
            role = Role.SERVER
        return ProcessReading(
            pid=pid,
            role=role,
            name=stat.name,
            memory_bytes=_own_memory(status, folder),
            cpu_ns=stat.cpu_ns,
            ran_ns=None if threads is None else threads.ran_ns,
            waited_ns=None if threads is None else threads.waited_ns,
            involuntary_count=0 if threads is None else threads.involuntary_count,
            threads_count=int(status.get("Threads", "0") or 0),
            cores_count=_cores(status.get("Cpus_allowed_list", "")),
        )

    def _threads(self, folder: Path) -> "_Threads | None":
        """Added up over the threads; None where the system does not tell."""
        ran_ns = waited_ns = involuntary = 0
        is_told = False
        with suppress(OSError):
            for thread in (folder / "task").iterdir():
                times = _text(thread / "schedstat").split()
                if len(times) == 3:
                    is_told = True
                    ran_ns, waited_ns = ran_ns + int(times[0]), waited_ns + int(times[1])
                switches = _pairs(_text(thread / "status")).get("nonvoluntary_ctxt_switches", "0")
                involuntary += int(switches or 0)
        return _Threads(ran_ns, waited_ns, involuntary) if is_told else None

    def _machine(self, stats: Mapping[int, _Stat], own: Collection[int]) -> MachineReading | None:
        words = _text(self._proc / "stat").partition("\n")[0].split()[1:9]
        if len(words) < 5 or not all(word.isdecimal() for word in words):
            return None
        ticks = [int(word) for word in words]
        # Idle, and waiting for a disk, which is idle, too.
        busy_ns = (sum(ticks) - ticks[3] - ticks[4]) * _NS_PER_TICK
        others = [
            OtherProcess(pid, stat.name, stat.cpu_ns)
            for pid, stat in stats.items()
            if pid not in own and stat.cpu_ns
        ]
        return MachineReading(
            cores_count=os.cpu_count() or 1,
            busy_ns=busy_ns,
            own_ns=sum(s.cpu_ns + s.ended_ns for pid, s in stats.items() if pid in own),
            others=tuple(sorted(others, key=lambda each: -each.cpu_ns)[:_OTHERS_MAX]),
            throttled_ns=self._throttled_ns(),
            hot_count=self._hot_count(),
        )

    def _throttled_ns(self) -> int | None:
        """Of the control group of the process, version 2."""
        pid = self._root_pid or "self"
        groups = _text(self._proc / f"{pid}/cgroup").splitlines()
        line = next((line for line in groups if line.startswith("0::")), "")
        path = self._sys / "fs/cgroup" / line.removeprefix("0::").strip().lstrip("/") / "cpu.stat"
        words = dict(row.split() for row in _text(path).splitlines() if len(row.split()) == 2)
        told = words.get("throttled_usec", "")
        return int(told) * _NS_PER_US if told.isdecimal() else None

    def _hot_count(self) -> int | None:
        pattern = "devices/system/cpu/cpu*/thermal_throttle/core_throttle_count"
        told = [_text(path).strip() for path in self._sys.glob(pattern)]
        counts = [int(count) for count in told if count.isdecimal()]
        return sum(counts) if counts else None


class _Threads(NamedTuple):
    ran_ns: int
    waited_ns: int
    involuntary_count: int


def listener_of(port: int, *, proc: Path = Path("/proc")) -> int | None:
    """The process that listens on a TCP port of this machine; None where it cannot be seen."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port, proc)}
    if not sockets:
        return None
    with suppress(OSError):
        for entry in sorted(proc.iterdir()):
            if entry.name.isdigit() and _holds(entry / "fd", sockets):
                return int(entry.name)
    return None


def _holds(folder: Path, sockets: Collection[str]) -> bool:
    with suppress(OSError):
        for link in folder.iterdir():
            with suppress(OSError):
                if str(link.readlink()) in sockets:
                    return True
    return False


def _listening(port: int, proc: Path) -> list[str]:
    inodes = []
    for name in ("net/tcp", "net/tcp6"):
        for line in _text(proc / name).splitlines()[1:]:
            words = line.split()
            if len(words) > 9 and words[3] == _LISTENS and words[1].endswith(f":{port:04X}"):
                inodes.append(words[9])
    return inodes


def _tree(stats: Mapping[int, _Stat], root_pid: int) -> list[int]:
    """The root and all that descends from it, parents first; nothing where it has gone."""
    if root_pid not in stats:
        return []
    found = [root_pid]
    for pid in found:
        found += sorted(child for child, stat in stats.items() if stat.parent == pid)
    return found


def _stat(path: Path) -> _Stat | None:
    text = _text(path)
    end = text.rfind(")")
    fields = text[end + 2 :].split()
    if end < 0 or len(fields) < 15:
        return None
    own, ended = (int(fields[i]) + int(fields[i + 1]) for i in (11, 13))
    name = text[text.find("(") + 1 : end]
    return _Stat(name, int(fields[1]), own * _NS_PER_TICK, ended * _NS_PER_TICK)


def _own_memory(status: Mapping[str, str], folder: Path) -> int | None:
    """Without files and shared memory; all that is resident where these are not told apart."""
    anonymous = re.match(r"\d+", status.get("RssAnon", ""))
    if anonymous:
        return int(anonymous[0]) << 10
    words = _text(folder / "statm").split()
    return int(words[1]) * _PAGE_BYTES if len(words) > 1 else None


def _cores(text: str) -> int:
    """How many `0-3,8` are."""
    count = 0
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            count += int(last or first) - int(first) + 1
    return max(1, count)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _pairs(text: str) -> dict[str, str]:
    parts = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in parts}
