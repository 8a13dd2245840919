"""This machine in a few words, and how much of it others were using.

Knows Linux's /proc and does without it elsewhere. Never headway.
"""

import os
import platform
import resource
import time
from pathlib import Path
from typing import NamedTuple

from headway.config import usable_cores

__all__ = ["CpuReading", "describe_machine", "others_cores"]


class CpuReading(NamedTuple):
    """Processor time so far."""

    at_s: float
    busy_s: float | None
    """Of the whole machine, all cores together; None where the system does not say."""
    own_s: float
    """Of this process and of its descendants that have ended."""

    @classmethod
    def take(cls) -> "CpuReading":
        """Now."""
        own_s = 0.0
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
            usage = resource.getrusage(who)
            own_s += usage.ru_utime + usage.ru_stime
        return cls(time.monotonic(), _busy_s(), own_s)


def others_cores(before: CpuReading, after: CpuReading) -> float | None:
    """Cores that other programs kept busy meanwhile, on average; None if it cannot be known.

    Every child must have ended before each reading: only then does the system count it.
    """
    if before.busy_s is None or after.busy_s is None:
        return None
    theirs_s = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    return max(0.0, theirs_s) / max(1e-9, after.at_s - before.at_s)


def describe_machine() -> str:
    """Cores, processor, system and Python."""
    cores = len(usable_cores())
    plural = "" if cores == 1 else "s"
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    return f"{cores} core{plural}, {_processor()}, {system}, Python {platform.python_version()}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _busy_s() -> float | None:
    """User, nice, system, interrupts and what the host took: all but idle and waiting for disks."""
    try:
        words = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    ticks = [int(word) for word in words[:8]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
