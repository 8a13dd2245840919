"""Measuring on a machine that others use too: ask for precedence, and count what they took.

Knows Linux's /proc and does without it elsewhere. Never headway.

The system shares cores between sessions before it looks at any one process's niceness. So a
measured process has a session of its own, and asks that it go before others; where it may not ask,
the count of what others used says what a figure is worth.
"""

import os
import time  # noqa: TID251 - says how busy the machine was meanwhile
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

__all__ = ["CpuUse", "CpuWatch", "precede_others"]

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PRECEDENCE: Final = (-20, -10, 0)
"""Of a session, from the most that can be asked for."""


def precede_others() -> bool:
    """Ask that this process's session go before others; False where that is not granted."""
    for value in _PRECEDENCE:
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(value), encoding="ascii")
            return value < 0
    return False


class CpuUse(NamedTuple):
    """Processor time in a stretch of time, as cores that were busy on average."""

    own_cores: float
    """This process and all that descends from it."""
    others_cores: float | None
    """Everybody else; None where the system does not say."""


class CpuWatch:
    """Counts processor time between entry and exit."""

    use: CpuUse = CpuUse(0.0, None)

    def __enter__(self) -> Self:
        self._at_s = time.monotonic()
        self._busy, self._own = _busy_ticks(), _own_ticks()
        return self

    def __exit__(self, *_: object) -> None:
        wall_ticks = max(1.0, (time.monotonic() - self._at_s) * _TICKS_PER_S)
        own = max(0, _own_ticks() - self._own)
        busy, before = _busy_ticks(), self._busy
        others = None
        if busy is not None and before is not None:
            others = max(0.0, (busy - before - own) / wall_ticks)
        self.use = CpuUse(own / wall_ticks, others)


class _Stat(NamedTuple):
    parent: int
    ticks: int


def _own_ticks() -> int:
    """This process, its descendants that live, and theirs that ended and were waited for."""
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _stat(entry)) is not None:
            stats[int(entry.name)] = stat
    children: dict[int, list[int]] = defaultdict(list)
    for pid, stat in stats.items():
        children[stat.parent].append(pid)
    ticks, waiting = 0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        ticks += stats[pid].ticks if pid in stats else 0
        waiting += children[pid]
    return ticks


def _stat(entry: Path) -> _Stat | None:
    try:
        text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(int(fields[1]), sum(int(ticks) for ticks in fields[11:15]))


def _busy_ticks() -> int | None:
    """The whole machine: all but idle and waiting for disks."""
    try:
        words = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    ticks = [int(word) for word in words]
    return sum(ticks) - ticks[3] - ticks[4]
