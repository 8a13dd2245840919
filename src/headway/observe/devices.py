"""How devices and workers fare, as Prometheus sees it. What nobody can tell has no series.

Knows readings. Refuses to take them: that may block, and is done elsewhere, once a second.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headway.devices import THROTTLE_REASONS, DeviceReading

__all__ = ["DeviceFamilies", "Look"]


class Look(NamedTuple):
    """One look at all devices and workers."""

    readings: tuple[DeviceReading, ...] = ()
    worker_bytes: Mapping[str, int] = MappingProxyType({})
    """Memory of each worker."""
    worker_device_bytes: Mapping[tuple[str, str], int] = MappingProxyType({})
    """Memory of each worker on each device that says so."""


_NOTHING: Final = Look()
_GAUGES: Final[tuple[tuple[str, str, Callable[[DeviceReading], float | None]], ...]] = (
    (
        "utilization_ratio",
        "Of a CPU the part of its cores' time that was not idle; of a GPU the part of its"
        " multiprocessors that were busy or, where it does not count them, the part of time in"
        " which any kernel ran.",
        lambda reading: reading.utilization_ratio,
    ),
    (
        "memory_used_bytes",
        "Memory that is taken; of a CPU the machine's, or its control group's.",
        lambda reading: reading.memory_used_bytes,
    ),
    (
        "memory_total_bytes",
        "Memory that can be used: without what a driver reserves for itself.",
        lambda reading: reading.memory_total_bytes,
    ),
    ("power_watts", "Power that a device draws.", lambda reading: reading.power_w),
    (
        "power_limit_watts",
        "Power at which its clocks are held down.",
        lambda reading: reading.power_limit_w,
    ),
    ("temperature_celsius", "Its temperature.", lambda reading: reading.temperature_c),
    ("pcie_width", "Lanes of its PCIe link in use now.", lambda reading: reading.pcie_width),
    (
        "pcie_width_max",
        "Lanes that device and slot could use.",
        lambda reading: reading.pcie_width_max,
    ),
)


class DeviceFamilies:
    """Makes the metric families when they are asked for."""

    def __init__(self) -> None:
        self.look: Callable[[], Look] = lambda: _NOTHING
        """The last look at devices and workers."""
        self.starts: Mapping[str, int] = {}
        """Processes that were started for each worker, a live table."""

    def families(self) -> Iterator[Metric]:
        """Every family."""
        look = self.look()
        for name, text, value in _GAUGES:
            gauge = GaugeMetricFamily(f"headway_device_{name}", text, labels=("device",))
            for reading in look.readings:
                known = value(reading)
                if known is not None:
                    gauge.add_metric((reading.name,), known)
            yield gauge
        yield _traffic(look)
        yield _energy(look)
        yield _throttled(look)
        yield from self._workers(look)

    def _workers(self, look: Look) -> Iterator[Metric]:
        starts = CounterMetricFamily(
            "headway_worker_starts",
            "Processes that were started for a worker: the first, one after each loss and, where a"
            " model has a worker of its own, one for each load.",
            labels=("worker",),
        )
        for worker, count in self.starts.items():
            starts.add_metric((worker,), count)
        yield starts
        memory = GaugeMetricFamily(
            "headway_worker_memory_bytes",
            "Memory of a worker that is in RAM, shared memory included.",
            labels=("worker",),
        )
        for worker, held_bytes in look.worker_bytes.items():
            memory.add_metric((worker,), held_bytes)
        yield memory
        on_device = GaugeMetricFamily(
            "headway_worker_device_memory_bytes",
            "Memory of a device that a worker holds.",
            labels=("worker", "device"),
        )
        for labels, held_bytes in look.worker_device_bytes.items():
            on_device.add_metric(labels, held_bytes)
        yield on_device


def _traffic(look: Look) -> Metric:
    traffic = CounterMetricFamily(
        "headway_device_pcie_bytes",
        "Bytes over a device's link to the host, `sent` and `received` by the device; made of"
        " short samples where it does not count them.",
        labels=("device", "direction"),
    )
    for reading in look.readings:
        for direction, count in (
            ("sent", reading.pcie_sent_bytes),
            ("received", reading.pcie_received_bytes),
        ):
            if count is not None:
                traffic.add_metric((reading.name, direction), count)
    return traffic


def _energy(look: Look) -> Metric:
    energy = CounterMetricFamily(
        "headway_device_energy_joules", "Energy that a device has drawn.", labels=("device",)
    )
    for reading in look.readings:
        if reading.energy_j is not None:
            energy.add_metric((reading.name,), reading.energy_j)
    return energy


def _throttled(look: Look) -> Metric:
    throttled = GaugeMetricFamily(
        "headway_device_throttled",
        "1 where a device's clocks are held down for this reason now.",
        labels=("device", "reason"),
    )
    for reading in look.readings:
        if reading.can_tell_throttling:
            for reason in THROTTLE_REASONS:
                throttled.add_metric((reading.name, reason), reason in reading.throttle_reasons)
    return throttled
