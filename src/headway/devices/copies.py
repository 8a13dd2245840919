"""Copies in host memory: bandwidth by size, and by how many go on at once.

Knows burners. Refuses to know what is copied, or when. Copies to and from an accelerator are in
`cuda_copies`.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from statistics import median
from typing import Final

from msgspec import Struct

from headway.devices.burner import Burners, Load, LoadKind, OpenBurners, Rate

__all__ = ["COPY_SIZES_BYTES", "CopyPath", "CopyRate", "copy_counts", "measure_host_copies"]

COPY_SIZES_BYTES: Final = (4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20)
"""From a row of numbers to a batch of pictures."""
_COPIES_MAX: Final = 8


class CopyPath(StrEnum):
    """From where to where."""

    HOST = "host"
    """Within host memory."""
    TO_DEVICE = "to_device"
    FROM_DEVICE = "from_device"


class CopyRate(Struct, frozen=True, kw_only=True):
    """What simultaneous copies of one size reach together."""

    path: CopyPath
    device: str = ""
    """The accelerator; empty within host memory."""
    is_pinned: bool = False
    """Host memory that the accelerator reads and writes by itself."""
    size_bytes: int
    """Of one copy."""
    copies_count: int
    """At once."""
    bytes_per_s: float
    """All of them together, each byte counted once."""

    @property
    def bytes_per_s_each(self) -> float:
        """One copy's share."""
        return self.bytes_per_s / self.copies_count


def copy_counts(cores_count: int) -> tuple[int, ...]:
    """1, 2, 4, ... up to twice the cores, eight at most."""
    return tuple(n for n in (1, 2, 4, 8) if n <= min(_COPIES_MAX, 2 * max(1, cores_count)))


def measure_host_copies(
    cores: Sequence[int],
    *,
    sizes_bytes: Sequence[int] = COPY_SIZES_BYTES,
    windows: int,
    window_ns: int,
    on_step: Callable[[], None] = lambda: None,
    open_burners: OpenBurners = Burners,
) -> tuple[CopyRate, ...]:
    """Copy between buffers that are used again and again, one process a copy, spread over cores.

    A rate is the median window's. It is of the time that the copies had a core: what all reach
    together is the sum of that, times cores over copies where there are more copies than cores,
    so that other programs do not lower it.

    Args:
        cores: to copy on.
        sizes_bytes: of one copy.
        windows: for each size and number.
        window_ns: length of each.
        on_step: told after each size and number.
        open_burners: what starts the processes.

    Raises:
        HeadwayError: a process could not be started, or has ended.
    """
    found = []
    for count in copy_counts(len(cores)):
        chosen = [cores[-1 - index % len(cores)] for index in range(count)]
        with open_burners(chosen) as burners:
            for size_bytes in sizes_bytes:
                burners.prepare(Load(LoadKind.COPY, size_bytes))
                sums = [_together(burners.run(window_ns), len(cores)) for _ in range(windows)]
                found.append(
                    CopyRate(
                        path=CopyPath.HOST,
                        size_bytes=size_bytes,
                        copies_count=count,
                        bytes_per_s=median(sums),
                    )
                )
                on_step()
    return tuple(found)


def _together(rates: Sequence[Rate], cores_count: int) -> float:
    return sum(rate.per_cpu_s for rate in rates) * min(1.0, cores_count / len(rates))
