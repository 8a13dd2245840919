"""What was read of a machine at one instant: its processes, its cores, its devices.

Knows values. Refuses to know where they come from: `/proc`, a driver, or a server's metrics.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from headway.devices import DeviceReading

__all__ = [
    "MachineReading",
    "OtherProcess",
    "ProcessReading",
    "Reading",
    "Role",
]


class Role(StrEnum):
    """What a process is to the diagnosis."""

    SERVER = "server"
    """The one that schedules and answers."""
    WORKER = "worker"
    """One that runs models."""
    OTHER = "process"
    """Any other that was asked about, or descends from one."""


class ProcessReading(Struct, frozen=True, kw_only=True):
    """One process; counters count from its start. What the system does not say is None."""

    pid: int
    """Below 0 where only the server tells of it: then it is any number, and its own."""
    role: Role
    name: str
    """Its label among the server's workers where that is known, else its program."""
    memory_bytes: int | None = None
    """Resident and its own: neither files nor shared memory, which come and go without a leak."""
    cpu_ns: int | None = None
    ran_ns: int | None = None
    """All its threads on cores."""
    waited_ns: int | None = None
    """All its threads ready to run, while others had the cores."""
    involuntary_count: int = 0
    """Times that one of its threads was made to leave a core."""
    threads_count: int = 0
    cores_count: int = 1
    """On which it may run."""

    @property
    def label(self) -> str:
        """As people are told of it."""
        return f"{self.role} `{self.name}`" + (f" (pid {self.pid})" if self.pid > 0 else "")


class OtherProcess(Struct, frozen=True):
    """A process that is none of the server's."""

    pid: int
    name: str
    cpu_ns: int


class MachineReading(Struct, frozen=True, kw_only=True):
    """All cores; counters count from the machine's start."""

    cores_count: int
    busy_ns: int
    """All cores, whoever used them."""
    own_ns: int
    """The processes asked about, and the diagnosis itself."""
    others: tuple[OtherProcess, ...] = ()
    throttled_ns: int | None = None
    """For how long the control group's quota of processor time was used up."""
    hot_count: int | None = None
    """Times that cores were slowed for their heat."""


class Reading(Struct, frozen=True, kw_only=True):
    """All that was read at one instant."""

    at_ns: int
    """Of the reader's clock, from any fixed instant."""
    machine: MachineReading | None = None
    processes: tuple[ProcessReading, ...] = ()
    devices: tuple[DeviceReading, ...] = ()
    queue_depth: float | None = None
    """Requests that wait at the server."""
    slots_busy_ratio: float | None = None
    counters: Mapping[str, float] = {}
    """Sums of the server's counters, by the name of the metric."""
