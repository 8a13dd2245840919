"""A device's calibration: its cores, its ceilings and how fast copies are, measured in one go.

Knows what to measure and how long. Refuses to know files and models.
"""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec import Struct

from headway.devices.ceilings import Ceilings, measure_ceilings, stream_bytes
from headway.devices.copies import COPY_SIZES_BYTES, CopyRate, copy_counts, measure_host_copies
from headway.devices.cuda_copies import CudaDriver, measure_cuda_copies
from headway.devices.host import available_bytes, fingerprint, usable_cores
from headway.units import NS_PER_MS

__all__ = ["QUICK", "THOROUGH", "Calibration", "Effort", "calibrate"]


class Effort(NamedTuple):
    """How long each figure is measured."""

    windows: int
    window_ns: int


THOROUGH: Final = Effort(5, 200 * NS_PER_MS)
QUICK: Final = Effort(1, 40 * NS_PER_MS)


class Calibration(Struct, frozen=True, kw_only=True):
    """What a machine's cores, memory and links reach."""

    cores: tuple[int, ...]
    """That were used, by their numbers."""
    ceilings: Ceilings
    copies: tuple[CopyRate, ...] = ()


def calibrate(
    effort: Effort,
    *,
    cuda: CudaDriver | None = None,
    on_step: Callable[[int, int], None] = lambda _done, _total: None,
) -> Calibration:
    """Measure this machine.

    Args:
        effort: how long each figure is measured.
        cuda: the driver, if there is one; its devices' copies are measured too.
        on_step: told how many of how many steps are done.

    Raises:
        HeadwayError: a measuring process could not be started, or has ended.
    """
    cores = usable_cores()
    done = 0
    total = 4 + len(copy_counts(len(cores))) * len(COPY_SIZES_BYTES)

    def step() -> None:
        nonlocal done
        done += 1
        on_step(done, max(done, total))

    room_bytes = available_bytes()
    ceilings = measure_ceilings(
        cores,
        array_bytes=stream_bytes(fingerprint(), available_bytes=room_bytes, cores_count=len(cores)),
        windows=effort.windows,
        window_ns=effort.window_ns,
        on_step=step,
    )
    copies = measure_host_copies(
        cores, windows=effort.windows, window_ns=effort.window_ns, on_step=step
    )
    if cuda is not None:
        copies += measure_cuda_copies(
            cuda, time.perf_counter_ns, rounds=max(3, effort.windows), on_step=step
        )
    return Calibration(cores=cores, ceilings=ceilings, copies=copies)
