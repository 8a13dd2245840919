"""Copies to and from CUDA devices: bandwidth by size, direction, kind of memory and number at once.

Knows streams, buffers and an object that stands for the driver. `cuda_driver` is the real one; this
file never sees a pointer's type. Refuses to claim what was not measured: without a driver there is
no device and no row.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Final, Protocol

from headway.devices.copies import COPY_SIZES_BYTES, CopyPath, CopyRate

__all__ = ["CudaDriver", "measure_cuda_copies"]

_AT_ONCE: Final = (1, 2, 4)
_BYTES_A_ROUND: Final = 256 << 20
"""Enough small copies are put behind each other that a round is longer than its launch."""
_COPIES_A_ROUND_MAX: Final = 256


class CudaDriver(Protocol):
    """The few calls that copying takes. Handles are numbers; a failed call raises HeadwayError."""

    def device_count(self) -> int:
        """Devices that may be used."""

    def select(self, index: int) -> None:
        """Make a device current for the calls that follow."""

    def open_stream(self) -> int:
        """A queue of copies."""

    def close_stream(self, stream: int) -> None:
        """Give it back."""

    def allocate(self, size_bytes: int) -> int:
        """Memory on the device."""

    def free(self, address: int) -> None:
        """Give it back."""

    def allocate_host(self, size_bytes: int, *, is_pinned: bool) -> int:
        """Memory of the host."""

    def free_host(self, address: int, *, is_pinned: bool) -> None:
        """Give it back."""

    def copy_to_device(self, target: int, source: int, size_bytes: int, stream: int) -> None:
        """Queue a copy."""

    def copy_from_device(self, target: int, source: int, size_bytes: int, stream: int) -> None:
        """Queue a copy."""

    def synchronise(self, stream: int) -> None:
        """Wait until a stream is empty."""


class _Lane:
    """A stream with a buffer on either side."""

    def __init__(
        self, driver: CudaDriver, size_bytes: int, stack: ExitStack, *, is_pinned: bool
    ) -> None:
        self.stream = driver.open_stream()
        stack.callback(driver.close_stream, self.stream)
        self.device = driver.allocate(size_bytes)
        stack.callback(driver.free, self.device)
        self.host = driver.allocate_host(size_bytes, is_pinned=is_pinned)
        stack.callback(driver.free_host, self.host, is_pinned=is_pinned)


def measure_cuda_copies(
    driver: CudaDriver,
    now_ns: Callable[[], int],
    *,
    sizes_bytes: Sequence[int] = COPY_SIZES_BYTES,
    rounds: int,
    on_step: Callable[[], None] = lambda: None,
) -> tuple[CopyRate, ...]:
    """Measure every device, in each direction, from pinned and from pageable memory.

    A rate is the median round's: bytes of all copies over the time from the first call to the last
    stream's end. Streams are told in turn, so that copies of several are under way at once; one
    device has as many copy engines as it has, and they queue beyond that.

    Raises:
        HeadwayError: a call to the driver failed; device memory may not suffice.
    """
    found = []
    for index in range(driver.device_count()):
        driver.select(index)
        for path, is_pinned, size_bytes, count in _cases(sizes_bytes):
            with ExitStack() as stack:
                lanes = [
                    _Lane(driver, size_bytes, stack, is_pinned=is_pinned) for _ in range(count)
                ]
                copies = _copies_a_round(size_bytes)
                _round(driver, lanes, path, size_bytes, copies)  # the first touches every page
                rates = []
                for _ in range(rounds):
                    started_at_ns = now_ns()
                    _round(driver, lanes, path, size_bytes, copies)
                    elapsed_s = max(1, now_ns() - started_at_ns) / 1e9
                    rates.append(size_bytes * copies * count / elapsed_s)
            found.append(
                CopyRate(
                    path=path,
                    device=f"cuda:{index}",
                    is_pinned=is_pinned,
                    size_bytes=size_bytes,
                    copies_count=count,
                    bytes_per_s=median(rates),
                )
            )
            on_step()
    return tuple(found)


def _cases(sizes_bytes: Sequence[int]) -> Iterator[tuple[CopyPath, bool, int, int]]:
    for path in (CopyPath.TO_DEVICE, CopyPath.FROM_DEVICE):
        for is_pinned in (True, False):
            for count in _AT_ONCE:
                for size_bytes in sizes_bytes:
                    yield path, is_pinned, size_bytes, count


def _copies_a_round(size_bytes: int) -> int:
    return max(1, min(_COPIES_A_ROUND_MAX, _BYTES_A_ROUND // size_bytes))


def _round(
    driver: CudaDriver, lanes: Sequence[_Lane], path: CopyPath, size_bytes: int, copies: int
) -> None:
    for _ in range(copies):
        for lane in lanes:
            if path is CopyPath.TO_DEVICE:
                driver.copy_to_device(lane.device, lane.host, size_bytes, lane.stream)
            else:
                driver.copy_from_device(lane.host, lane.device, size_bytes, lane.stream)
    for lane in lanes:
        driver.synchronise(lane.stream)
