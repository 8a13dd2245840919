"""What hardware there is, how fast it is and how it fares: fingerprint, ceilings, copies, readings.

Knows /proc, /sys, processes that burn a core, drivers of accelerators at their thinnest, and the
law of emulated ones. Must never import a policy, an executor or a model.

What is emulated is imported when it is first asked for: a process that only burns a core does
without.
"""

from typing import TYPE_CHECKING

from headway.devices.burner import BurnerGroup, Burners, Load, LoadKind, OpenBurners, Rate
from headway.devices.calibration import QUICK, THOROUGH, Calibration, Effort, calibrate
from headway.devices.ceilings import Ceiling, Ceilings, measure_ceilings, stream_bytes
from headway.devices.copies import CopyPath, CopyRate, copy_counts, measure_host_copies
from headway.devices.cuda_copies import CudaDriver, measure_cuda_copies
from headway.devices.cuda_driver import CudaLibrary, open_cuda
from headway.devices.host import (
    CacheLevel,
    CoreTimes,
    Fingerprint,
    MemoryUse,
    ThreadTimes,
    available_bytes,
    core_times,
    fingerprint,
    hardware_differences,
    llc_bytes,
    memory_use,
    pinned_threads,
    resident_bytes,
    siblings_of,
    software_differences,
    thread_times,
    usable_cores,
)
from headway.devices.host_reader import HostReader
from headway.devices.mig import (
    MigDriver,
    MigGpu,
    MigInstance,
    MigPlacement,
    MigProfile,
    open_mig,
)
from headway.devices.mps import MpsControl
from headway.devices.nvml import NvmlReader, open_nvml
from headway.devices.readings import THROTTLE_BITS, THROTTLE_REASONS, DeviceProcess, DeviceReading

if TYPE_CHECKING:
    from headway.devices.emulated import (
        Accelerator,
        EmulatedBatch,
        EmulatedEnd,
        EmulatedMachine,
        EmulatedModel,
        accelerator,
        accelerator_names,
    )
    from headway.devices.emulated_times import emulated_profile

__all__ = [
    "QUICK",
    "THOROUGH",
    "THROTTLE_BITS",
    "THROTTLE_REASONS",
    "Accelerator",
    "BurnerGroup",
    "Burners",
    "CacheLevel",
    "Calibration",
    "Ceiling",
    "Ceilings",
    "CopyPath",
    "CopyRate",
    "CoreTimes",
    "CudaDriver",
    "CudaLibrary",
    "DeviceProcess",
    "DeviceReading",
    "Effort",
    "EmulatedBatch",
    "EmulatedEnd",
    "EmulatedMachine",
    "EmulatedModel",
    "Fingerprint",
    "HostReader",
    "Load",
    "LoadKind",
    "MemoryUse",
    "MigDriver",
    "MigGpu",
    "MigInstance",
    "MigPlacement",
    "MigProfile",
    "MpsControl",
    "NvmlReader",
    "OpenBurners",
    "Rate",
    "ThreadTimes",
    "accelerator",
    "accelerator_names",
    "available_bytes",
    "calibrate",
    "copy_counts",
    "core_times",
    "emulated_profile",
    "fingerprint",
    "hardware_differences",
    "llc_bytes",
    "measure_ceilings",
    "measure_cuda_copies",
    "measure_host_copies",
    "memory_use",
    "open_cuda",
    "open_mig",
    "open_nvml",
    "pinned_threads",
    "resident_bytes",
    "siblings_of",
    "software_differences",
    "stream_bytes",
    "thread_times",
    "usable_cores",
]


def __getattr__(name: str) -> object:
    if name == "emulated_profile":
        from headway.devices.emulated_times import emulated_profile

        return emulated_profile
    if name in __all__:
        from headway.devices import emulated

        return getattr(emulated, name)
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
