"""The CUDA driver library through ctypes: one method a call, nothing decided here.

The library that comes with the driver is enough; no toolkit is needed. Knows symbols and error
codes. Refuses to measure.
"""

import ctypes
from typing import Any, Final

from headway.errors import HeadwayError

__all__ = ["CudaLibrary", "open_cuda"]

_NAMES: Final = ("libcuda.so.1", "libcuda.so")
_NO_DEVICE: Final = 100
"""CUDA_ERROR_NO_DEVICE"""


class CudaLibrary:
    """A `CudaDriver` of real devices.

    Invariants: after `select` the device's primary context is current on this thread.
    """

    def __init__(self, library: Any) -> None:
        """Initialise the driver.

        Raises:
            HeadwayError: the driver refuses, for one because there is no device.
        """
        self._library = library
        self._buffers: dict[int, Any] = {}
        """Pageable host memory, which is ours and not the driver's."""
        self._call("cuInit", ctypes.c_uint(0))

    def device_count(self) -> int:
        """Devices that may be used."""
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def select(self, index: int) -> None:
        """Make a device's primary context current; it is kept until the process ends."""
        device = ctypes.c_int()
        context = ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(index))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def open_stream(self) -> int:
        """A stream that does not wait for the default one."""
        stream = ctypes.c_void_p()
        non_blocking = ctypes.c_uint(1)
        self._call("cuStreamCreate", ctypes.byref(stream), non_blocking)
        return stream.value or 0

    def close_stream(self, stream: int) -> None:
        """Give it back."""
        self._call("cuStreamDestroy_v2", ctypes.c_void_p(stream))

    def allocate(self, size_bytes: int) -> int:
        """Memory on the device."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size_bytes))
        return address.value

    def free(self, address: int) -> None:
        """Give it back."""
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def allocate_host(self, size_bytes: int, *, is_pinned: bool) -> int:
        """Memory of the host."""
        if not is_pinned:
            buffer = ctypes.create_string_buffer(size_bytes)
            self._buffers[ctypes.addressof(buffer)] = buffer
            return ctypes.addressof(buffer)
        address = ctypes.c_void_p()
        size = ctypes.c_size_t(size_bytes)
        self._call("cuMemHostAlloc", ctypes.byref(address), size, ctypes.c_uint(0))
        return address.value or 0

    def free_host(self, address: int, *, is_pinned: bool) -> None:
        """Give it back."""
        if is_pinned:
            self._call("cuMemFreeHost", ctypes.c_void_p(address))
        else:
            del self._buffers[address]

    def copy_to_device(self, target: int, source: int, size_bytes: int, stream: int) -> None:
        """Queue a copy."""
        self._call(
            "cuMemcpyHtoDAsync_v2",
            ctypes.c_uint64(target),
            ctypes.c_void_p(source),
            ctypes.c_size_t(size_bytes),
            ctypes.c_void_p(stream),
        )

    def copy_from_device(self, target: int, source: int, size_bytes: int, stream: int) -> None:
        """Queue a copy."""
        self._call(
            "cuMemcpyDtoHAsync_v2",
            ctypes.c_void_p(target),
            ctypes.c_uint64(source),
            ctypes.c_size_t(size_bytes),
            ctypes.c_void_p(stream),
        )

    def synchronise(self, stream: int) -> None:
        """Wait until a stream is empty."""
        self._call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(ctypes.c_int(code), ctypes.byref(text))
            words = (text.value or b"unknown").decode(errors="replace")
            raise HeadwayError(f"`{name}` failed with code `{code}`: {words}")


def open_cuda() -> CudaLibrary | None:
    """The driver's devices; None where there is no driver, or it finds no device."""
    for name in _NAMES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if library.cuInit(ctypes.c_uint(0)) == _NO_DEVICE:
            return None
        return CudaLibrary(library)
    return None
