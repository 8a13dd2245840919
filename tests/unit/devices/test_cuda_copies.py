"""Copies to and from CUDA devices, against a driver that is a model with a clock of its own.

Nothing here says anything of a real device: what is tested is that calls and sums are right.
"""

import ctypes
from collections import Counter

import pytest

from headway.devices import CopyPath, CudaLibrary, measure_cuda_copies
from headway.errors import HeadwayError

BYTES_PER_NS = {(CopyPath.TO_DEVICE, True): 25, (CopyPath.FROM_DEVICE, True): 20}
PAGEABLE_BYTES_PER_NS = 5


class FakeDriver:
    """One copy engine a direction, devices without memory, and time that copies alone make pass."""

    def __init__(self, devices: int = 1) -> None:
        self.devices = devices
        self.now_ns = 0
        self.held: Counter[str] = Counter()
        self.selected: list[int] = []
        self._pinned: set[int] = set()
        self._next = 0

    def device_count(self) -> int:
        return self.devices

    def select(self, index: int) -> None:
        self.selected.append(index)

    def _take(self, what: str) -> int:
        self.held[what] += 1
        self._next += 1
        return self._next

    def open_stream(self) -> int:
        return self._take("stream")

    def close_stream(self, stream: int) -> None:
        self.held["stream"] -= 1

    def allocate(self, size_bytes: int) -> int:
        return self._take("device")

    def free(self, address: int) -> None:
        self.held["device"] -= 1

    def allocate_host(self, size_bytes: int, *, is_pinned: bool) -> int:
        address = self._take("host")
        if is_pinned:
            self._pinned.add(address)
        return address

    def free_host(self, address: int, *, is_pinned: bool) -> None:
        assert (address in self._pinned) is is_pinned
        self.held["host"] -= 1

    def copy_to_device(self, target: int, source: int, size_bytes: int, stream: int) -> None:
        self._copy(CopyPath.TO_DEVICE, source, size_bytes)

    def copy_from_device(self, target: int, source: int, size_bytes: int, stream: int) -> None:
        self._copy(CopyPath.FROM_DEVICE, target, size_bytes)

    def _copy(self, path: CopyPath, host: int, size_bytes: int) -> None:
        is_pinned = host in self._pinned
        rate = BYTES_PER_NS[path, True] if is_pinned else PAGEABLE_BYTES_PER_NS
        self.now_ns += size_bytes // rate

    def synchronise(self, stream: int) -> None:
        pass


def test_every_direction_and_kind_of_memory_is_measured() -> None:
    """Rates are those of the device, in each direction, pinned and pageable, at every number."""
    driver = FakeDriver()
    found = measure_cuda_copies(driver, lambda: driver.now_ns, sizes_bytes=(1 << 20,), rounds=3)
    rates = {(r.path, r.is_pinned, r.copies_count): r.bytes_per_s / 1e9 for r in found}
    assert len(rates) == len(found) == 2 * 2 * 3
    for (path, is_pinned, _), rate in rates.items():
        wanted = BYTES_PER_NS[path, True] if is_pinned else PAGEABLE_BYTES_PER_NS
        assert rate == pytest.approx(wanted, rel=1e-3)
    assert {r.device for r in found} == {"cuda:0"}


def test_everything_is_given_back() -> None:
    """No stream and no memory is left, on any of several devices."""
    driver = FakeDriver(devices=2)
    steps: list[None] = []
    found = measure_cuda_copies(
        driver,
        lambda: driver.now_ns,
        sizes_bytes=(4096,),
        rounds=1,
        on_step=lambda: steps.append(None),
    )
    assert {r.device for r in found} == {"cuda:0", "cuda:1"}
    assert driver.selected == [0, 1]
    assert not any(driver.held.values())
    assert len(steps) == len(found)


def test_a_failing_copy_leaves_nothing_behind() -> None:
    """Memory is given back also when the driver refuses."""

    class Refusing(FakeDriver):
        def copy_from_device(self, target, source, size_bytes, stream) -> None:
            raise HeadwayError("refused")

    driver = Refusing()
    with pytest.raises(HeadwayError, match="refused"):
        measure_cuda_copies(driver, lambda: driver.now_ns, sizes_bytes=(4096,), rounds=1)
    assert not any(driver.held.values())


def test_no_device_no_rows() -> None:
    """A driver without devices measures nothing."""
    assert measure_cuda_copies(FakeDriver(devices=0), lambda: 0, rounds=1) == ()


class FakeLibrary:
    """The driver library's functions, as ctypes would call them."""

    def __init__(self, *, fails: str = "") -> None:
        self.calls: list[str] = []
        self.fails = fails

    def __getattr__(self, name: str):
        def call(*arguments) -> int:
            self.calls.append(name)
            if name == "cuGetErrorString":
                arguments[1]._obj.value = b"out of memory"
                return 0
            if name == self.fails:
                return 2
            first = getattr(arguments[0], "_obj", None) if arguments else None
            if first is not None:
                first.value = 41
            return 0

        return call


def test_library_calls_the_symbols_of_the_driver() -> None:
    """Each method is one function of the driver's interface, in its current version."""
    library = FakeLibrary()
    cuda = CudaLibrary(library)
    assert cuda.device_count() == 41
    cuda.select(0)
    stream, device = cuda.open_stream(), cuda.allocate(64)
    pinned = cuda.allocate_host(64, is_pinned=True)
    assert (stream, device, pinned) == (41, 41, 41)
    cuda.copy_to_device(device, pinned, 64, stream)
    cuda.copy_from_device(pinned, device, 64, stream)
    cuda.synchronise(stream)
    cuda.free_host(pinned, is_pinned=True)
    cuda.free(device)
    cuda.close_stream(stream)
    assert (
        library.calls
        == (
            "cuInit cuDeviceGetCount cuDeviceGet cuDevicePrimaryCtxRetain cuCtxSetCurrent "
            "cuStreamCreate cuMemAlloc_v2 cuMemHostAlloc cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 "
            "cuStreamSynchronize cuMemFreeHost cuMemFree_v2 cuStreamDestroy_v2"
        ).split()
    )


def test_pageable_memory_is_our_own() -> None:
    """It can be written, and needs no call to the driver."""
    library = FakeLibrary()
    cuda = CudaLibrary(library)
    address = cuda.allocate_host(8, is_pinned=False)
    ctypes.memset(address, 1, 8)
    assert ctypes.string_at(address, 8) == b"\x01" * 8
    cuda.free_host(address, is_pinned=False)
    assert library.calls == ["cuInit"]


def test_failed_call_says_what_the_driver_says() -> None:
    """The function, the code and the driver's own words."""
    cuda = CudaLibrary(FakeLibrary(fails="cuMemAlloc_v2"))
    with pytest.raises(HeadwayError, match="`cuMemAlloc_v2` failed with code `2`: out of memory"):
        cuda.allocate(1 << 40)
