"""What hardware there is, and how fast it is: fingerprint, ceilings, copies.

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
    Fingerprint,
    ThreadTimes,
    available_bytes,
    fingerprint,
    hardware_differences,
    llc_bytes,
    pinned_threads,
    siblings_of,
    software_differences,
    thread_times,
    usable_cores,
)

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
    "Accelerator",
    "BurnerGroup",
    "Burners",
    "CacheLevel",
    "Calibration",
    "Ceiling",
    "Ceilings",
    "CopyPath",
    "CopyRate",
    "CudaDriver",
    "CudaLibrary",
    "Effort",
    "EmulatedBatch",
    "EmulatedEnd",
    "EmulatedMachine",
    "EmulatedModel",
    "Fingerprint",
    "Load",
    "LoadKind",
    "OpenBurners",
    "Rate",
    "ThreadTimes",
    "accelerator",
    "accelerator_names",
    "available_bytes",
    "calibrate",
    "copy_counts",
    "emulated_profile",
    "fingerprint",
    "hardware_differences",
    "llc_bytes",
    "measure_ceilings",
    "measure_cuda_copies",
    "measure_host_copies",
    "open_cuda",
    "pinned_threads",
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
