"""What a device says of itself now: one frozen struct, whoever read it.

Knows numbers. Refuses to know where they come from, and what they mean for a server. What a device
cannot tell is None, never 0: a slice of a GPU whose utilisation nobody counts is not idle.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Struct

__all__ = ["THROTTLE_BITS", "THROTTLE_REASONS", "DeviceProcess", "DeviceReading"]

THROTTLE_BITS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "applications_clocks": 0x2,
        "sw_power_cap": 0x4,
        "hw_slowdown": 0x8,
        "sync_boost": 0x10,
        "sw_thermal": 0x20,
        "hw_thermal": 0x40,
        "hw_power_brake": 0x80,
        "display_clock": 0x100,
    }
)
"""Reasons with the bits by which NVML and nvidia-smi tell them."""
THROTTLE_REASONS: Final = tuple(THROTTLE_BITS)
"""Why clocks may be lower than they could be; to have nothing to do is none of them."""


class DeviceProcess(NamedTuple):
    """A process that holds memory of a device."""

    pid: int
    """As whoever was asked numbers processes: a driver outside a container numbers its own way."""
    used_bytes: int | None
    """None where the device does not say how much."""


class DeviceReading(Struct, frozen=True, kw_only=True):
    """One look at one device."""

    name: str
    """`cpu:0` as configured; `cuda:0` by the driver's order; `cuda:0/mig:1` for a slice of it."""
    uuid: str = ""
    """By which a driver knows it, whatever the order; empty for cores."""
    product: str = ""
    """What its maker calls it; empty where nobody says."""
    is_partitioned: bool = False
    """It is cut into slices, each of which has a reading of its own."""
    utilization_ratio: float | None = None
    """Of a CPU the part of its cores' time since the last look that was not idle. Of a GPU the part
    of its multiprocessors that were busy since the last look, where it counts that, else the part
    of the last sample period in which some kernel ran, be it ever so small."""
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    """What can be used: without what a driver reserves for itself; of a control group its limit."""
    pcie_sent_bytes: int | None = None
    """From the device to the host, so far; counts up, and begins anew with the driver."""
    pcie_received_bytes: int | None = None
    """From the host to the device."""
    pcie_width: int | None = None
    """Lanes in use now."""
    pcie_width_max: int | None = None
    """Lanes that device and slot could use."""
    pcie_generation: int | None = None
    """In use now; falls while the device is idle, to save power."""
    pcie_generation_max: int | None = None
    can_tell_throttling: bool = False
    """Whether an empty `throttle_reasons` means that it is not throttled."""
    throttle_reasons: tuple[str, ...] = ()
    """Of `THROTTLE_REASONS`, those that hold now."""
    power_w: float | None = None
    power_limit_w: float | None = None
    """At which clocks are held down."""
    energy_j: float | None = None
    """Drawn so far; counts up, and begins anew with the driver."""
    temperature_c: float | None = None
    processes: tuple[DeviceProcess, ...] = ()
    """Who holds memory of it, as far as it says."""
