"""What hardware there is, and how fast it is: fingerprint, ceilings, copies.

Knows /proc, /sys, processes that burn a core, and drivers of accelerators at their thinnest. Must
never import a policy, an executor or a model.
"""

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

__all__ = [
    "QUICK",
    "THOROUGH",
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
    "Fingerprint",
    "Load",
    "LoadKind",
    "OpenBurners",
    "Rate",
    "ThreadTimes",
    "available_bytes",
    "calibrate",
    "copy_counts",
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
