"""NVIDIA's devices and their slices, read through NVML: one call a number, nothing decided here.

Sole home of `pynvml`, of the package `nvidia-ml-py`, which is imported when a reader is opened.
Every call may be refused, by an old driver, in a container, on a slice, or by a device that has
fallen off the bus: what is refused is unknown, and the rest is still read.

Tests have it call a stand-in for the driver's library, built from C; where there is a real device,
`tests/gpu` asks that one.

Utilisation is the devices' own count of busy multiprocessors (GPM, Hopper and later), between one
look and the next. Elsewhere it is the part of time in which any kernel ran, which a single small
one brings to 1. A device that is cut into slices counts neither; the slices count where GPM does.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from headway.devices.readings import THROTTLE_BITS, DeviceProcess, DeviceReading

__all__ = ["NvmlReader", "open_nvml"]

_PCIE_SENT_FIELD: Final = 197
_PCIE_RECEIVED_FIELD: Final = 198
_PCIE_SENT: Final = 0
_PCIE_RECEIVED: Final = 1
_KB: Final = 1000
_SM_UTIL: Final = 2
"""The metric of GPM that is the per cent of multiprocessors that were busy."""
_GPU_SENSOR: Final = 0
_MEMORY_V2: Final = 0x02000028
_VALUE_OF_TYPE: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Which member of NVML's union holds a value, by the number of its type."""


class _Traffic(NamedTuple):
    """Bytes over PCIe so far."""

    sent_bytes: int | None
    received_bytes: int | None


class _Metered:
    """Bytes made of rates, for devices that do not count them.

    A rate of the last 20 ms stands for all the time since the last look.
    """

    def __init__(self, at_ns: int) -> None:
        self._at_ns = at_ns
        self._sent_bytes = 0.0
        self._received_bytes = 0.0

    def add(self, sent_kb_per_s: int, received_kb_per_s: int, now_ns: int) -> _Traffic:
        """One more look."""
        passed_s = (now_ns - self._at_ns) / 1e9
        self._at_ns = now_ns
        self._sent_bytes += sent_kb_per_s * _KB * passed_s
        self._received_bytes += received_kb_per_s * _KB * passed_s
        return _Traffic(int(self._sent_bytes), int(self._received_bytes))


class _BusyCount:
    """Multiprocessors that were busy between one look and the next.

    Args:
        nvml: the module.
        take: fills a sample.
    """

    def __init__(self, nvml: Any, take: Callable[[Any], object]) -> None:
        self._nvml = nvml
        self._take = take
        self._before = nvml.nvmlGpmSampleAlloc()
        self._now = nvml.nvmlGpmSampleAlloc()
        self._has_before = False

    def ratio(self) -> float | None:
        """Since the last call; None at the first."""
        nvml = self._nvml
        self._take(self._now)
        found = None
        if self._has_before:
            asked = nvml.c_nvmlGpmMetricsGet_t()
            asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
            asked.numMetrics = 1
            asked.sample1, asked.sample2 = self._before, self._now
            asked.metrics[0].metricId = _SM_UTIL
            nvml.nvmlGpmMetricsGet(asked)
            per_cent = asked.metrics[0].value
            if asked.metrics[0].nvmlReturn == 0 and math.isfinite(per_cent):
                found = min(1.0, max(0.0, per_cent / 100))
        self._before, self._now = self._now, self._before
        self._has_before = True
        return found

    def close(self) -> None:
        """Give the samples back."""
        for sample in (self._before, self._now):
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlGpmSampleFree(sample)


class NvmlReader:
    """Looks at every device that the driver shows.

    Not for several threads at once: counts are between one look and the next.
    """

    def __init__(self, nvml: Any, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._nvml = nvml
        self._now_ns = now_ns
        self._handles = {
            f"cuda:{index}": handle
            for index in range(self._ask("nvmlDeviceGetCount") or 0)
            if (handle := self._ask("nvmlDeviceGetHandleByIndex", index)) is not None
        }
        self._metered: dict[str, _Metered] = {}
        self._busy: dict[str, _BusyCount | None] = {}
        """By device or slice; None where it does not count."""

    def read(self) -> list[DeviceReading]:
        """One look at each device, its slices behind it.

        Cost: some milliseconds a device; 40 more where the link's bytes are not counted.
        """
        return [
            reading
            for name, handle in self._handles.items()
            for reading in self._device(name, handle)
        ]

    def close(self) -> None:
        """Give everything back; the reader cannot be used any more."""
        for count in self._busy.values():
            if count is not None:
                count.close()
        self._busy.clear()
        self._handles.clear()
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def _ask(self, name: str, *arguments: Any) -> Any:
        """What a call says; None where it is refused, or this version has no such call."""
        function = getattr(self._nvml, name, None)
        if function is None:
            return None
        try:
            return function(*arguments)
        except self._nvml.NVMLError:
            return None

    def _device(self, name: str, handle: Any) -> Iterator[DeviceReading]:
        mode = self._ask("nvmlDeviceGetMigMode", handle)
        is_partitioned = mode is not None and mode[0] == 1
        memory = self._memory(handle)
        traffic = self._traffic(name, handle)
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if reasons is None:
            reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        yield DeviceReading(
            name=name,
            uuid=self._ask("nvmlDeviceGetUUID", handle) or "",
            product=self._ask("nvmlDeviceGetName", handle) or "",
            is_partitioned=is_partitioned,
            utilization_ratio=None if is_partitioned else self._utilization(name, handle),
            memory_used_bytes=None if memory is None else memory.used,
            memory_total_bytes=None if memory is None else memory.total - _reserved(memory),
            pcie_sent_bytes=traffic.sent_bytes,
            pcie_received_bytes=traffic.received_bytes,
            pcie_width=self._ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
            pcie_width_max=self._ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
            pcie_generation=self._ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
            pcie_generation_max=self._ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
            can_tell_throttling=reasons is not None,
            throttle_reasons=tuple(
                word for word, bit in THROTTLE_BITS.items() if (reasons or 0) & bit
            ),
            power_w=_thousandth(self._ask("nvmlDeviceGetPowerUsage", handle)),
            power_limit_w=_thousandth(self._ask("nvmlDeviceGetEnforcedPowerLimit", handle)),
            energy_j=_thousandth(self._ask("nvmlDeviceGetTotalEnergyConsumption", handle)),
            temperature_c=self._temperature(handle),
            processes=self._processes(handle),
        )
        if is_partitioned:
            yield from self._slices(name, handle)

    def _slices(self, parent_name: str, parent: Any) -> Iterator[DeviceReading]:
        """Their indices have gaps."""
        for index in range(self._ask("nvmlDeviceGetMaxMigDeviceCount", parent) or 0):
            handle = self._ask("nvmlDeviceGetMigDeviceHandleByIndex", parent, index)
            if handle is None:
                continue
            name = f"{parent_name}/mig:{index}"
            memory = self._memory(handle)
            yield DeviceReading(
                name=name,
                uuid=self._ask("nvmlDeviceGetUUID", handle) or "",
                product=self._ask("nvmlDeviceGetName", handle) or "",
                utilization_ratio=self._slice_utilization(name, parent, handle),
                memory_used_bytes=None if memory is None else memory.used,
                memory_total_bytes=None if memory is None else memory.total - _reserved(memory),
                processes=self._processes(handle),
            )

    def _memory(self, handle: Any) -> Any:
        """Version 2 keeps apart what the driver reserves, which nobody can use."""
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle, _MEMORY_V2)
        return self._ask("nvmlDeviceGetMemoryInfo", handle) if memory is None else memory

    def _utilization(self, name: str, handle: Any) -> float | None:
        count = self._counted(
            name, handle, lambda sample: self._nvml.nvmlGpmSampleGet(handle, sample)
        )
        if count is not None:
            return self._ratio_of(count)
        rates = self._ask("nvmlDeviceGetUtilizationRates", handle)
        return None if rates is None else rates.gpu / 100

    def _slice_utilization(self, name: str, parent: Any, handle: Any) -> float | None:
        instance = self._ask("nvmlDeviceGetGpuInstanceId", handle)
        if instance is None:
            return None
        count = self._counted(
            f"{name} of instance {instance}",  # slices are made and unmade while others run
            parent,
            lambda sample: self._nvml.nvmlGpmMigSampleGet(parent, instance, sample),
        )
        return None if count is None else self._ratio_of(count)

    def _ratio_of(self, count: _BusyCount) -> float | None:
        try:
            return count.ratio()
        except self._nvml.NVMLError:
            return None

    def _counted(self, name: str, owner: Any, take: Callable[[Any], object]) -> _BusyCount | None:
        """The count of a device or slice, begun when it is first asked for."""
        if name not in self._busy:
            self._busy[name] = None
            support = self._ask("nvmlGpmQueryDeviceSupport", owner)
            if support is not None and support.isSupportedDevice:
                with contextlib.suppress(self._nvml.NVMLError):
                    self._busy[name] = _BusyCount(self._nvml, take)
        return self._busy[name]

    def _traffic(self, name: str, handle: Any) -> _Traffic:
        fields = (_PCIE_SENT_FIELD, _PCIE_RECEIVED_FIELD)
        values = self._ask("nvmlDeviceGetFieldValues", handle, list(fields))
        if values is not None and all(value.nvmlReturn == 0 for value in values):
            return _Traffic(*(_number_of(value) for value in values))
        rates = [
            self._ask("nvmlDeviceGetPcieThroughput", handle, counter)
            for counter in (_PCIE_SENT, _PCIE_RECEIVED)
        ]
        if any(rate is None for rate in rates):
            return _Traffic(None, None)
        now_ns = self._now_ns()
        metered = self._metered.setdefault(name, _Metered(now_ns))
        return metered.add(rates[0], rates[1], now_ns)

    def _temperature(self, handle: Any) -> float | None:
        found = self._ask("nvmlDeviceGetTemperatureV", handle, _GPU_SENSOR)
        if found is None:  # an older driver
            found = self._ask("nvmlDeviceGetTemperature", handle, _GPU_SENSOR)
        return None if found is None else float(found)

    def _processes(self, handle: Any) -> tuple[DeviceProcess, ...]:
        """Those that compute, under MPS too, each once."""
        found: dict[int, DeviceProcess] = {}
        for names in (
            ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
            ("nvmlDeviceGetMPSComputeRunningProcesses_v3",),
        ):
            for process in self._first(names, handle):
                pid, used_bytes = process.pid, process.usedGpuMemory
                if pid not in found or found[pid].used_bytes is None:
                    found[pid] = DeviceProcess(pid, used_bytes)
        return tuple(found.values())

    def _first(self, names: Sequence[str], handle: Any) -> Sequence[Any]:
        """What the newest call that this driver knows says."""
        for name in names:
            answer = self._ask(name, handle)
            if answer is not None:
                return list(answer)
        return ()


def open_nvml() -> NvmlReader | None:
    """A reader of the driver's devices; None without the package, or where no driver answers."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return NvmlReader(pynvml)


def _thousandth(count: int | None) -> float | None:
    return None if count is None else count / 1000


def _reserved(memory: Any) -> int:
    """Of a total; version 1 does not say."""
    return int(getattr(memory, "reserved", 0))


def _number_of(value: Any) -> int | None:
    if not 0 <= value.valueType < len(_VALUE_OF_TYPE):
        return None
    return int(getattr(value.value, _VALUE_OF_TYPE[value.valueType]))
