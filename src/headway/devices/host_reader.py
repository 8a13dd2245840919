"""Cores as a device: how busy they are, how full memory is, and what the workers on them hold.

Knows /proc through `host`. Refuses to know what runs on the cores.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from headway.devices.host import CoreTimes, core_times, memory_use, resident_bytes
from headway.devices.readings import DeviceProcess, DeviceReading

__all__ = ["HostReader"]


class HostReader:
    """Looks at devices that are cores.

    Not for several threads at once: utilisation is between one look and the next, and unknown at
    the first.

    Args:
        cores: of each device, by its name.
        proc: where the kernel describes processes.
        sys: where it describes control groups.
    """

    def __init__(
        self,
        cores: Mapping[str, Iterable[int]],
        *,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
    ) -> None:
        self._cores = {name: tuple(numbers) for name, numbers in cores.items()}
        self._proc = proc
        self._sys = sys
        self._before: dict[str, CoreTimes] = {}

    def read(self, pids: Iterable[int] = ()) -> list[DeviceReading]:
        """One look at each.

        Args:
            pids: processes whose memory is asked for. A process may work on any of the devices, so
                each of them lists all.
        """
        memory = memory_use(proc=self._proc, sys=self._sys)
        processes = tuple(
            DeviceProcess(pid, used_bytes)
            for pid in pids
            if (used_bytes := resident_bytes(pid, proc=self._proc)) is not None
        )
        return [
            DeviceReading(
                name=name,
                utilization_ratio=self._utilization(name, numbers),
                memory_used_bytes=None if memory is None else memory.used_bytes,
                memory_total_bytes=None if memory is None else memory.total_bytes,
                processes=processes,
            )
            for name, numbers in self._cores.items()
        ]

    def _utilization(self, name: str, cores: tuple[int, ...]) -> float | None:
        now = core_times(cores, proc=self._proc)
        before = self._before.get(name)
        if now is None:
            return None
        self._before[name] = now
        if before is None or now.total <= before.total:
            return None
        return min(1.0, max(0.0, (now.busy - before.busy) / (now.total - before.total)))
