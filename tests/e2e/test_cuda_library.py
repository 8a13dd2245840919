"""The ctypes boundary to the CUDA driver, against a stand-in library built from C on the spot.

The stand-in has the driver's prototypes and host memory for device memory, so what is proved is
that arguments arrive whole: 64-bit addresses, sizes and handles. Nothing is said of a real device.
"""

import ctypes
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from headway.devices import CopyPath, CudaLibrary, measure_cuda_copies
from headway.errors import HeadwayError

COMPILER = shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")

SOURCE = """
#include <stdlib.h>
#include <string.h>
typedef unsigned long long CUdeviceptr;
static int live;
int held(void) { return live; }
static int got(void *p) { if (!p) return 2; live++; return 0; }
int cuInit(unsigned flags) { return flags ? 1 : 0; }
int cuGetErrorString(int code, const char **text) { *text = "stand-in error"; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int index) { *device = 7; return index; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &live; return device != 7; }
int cuCtxSetCurrent(void *context) { return context != &live; }
int cuStreamCreate(void **stream, unsigned flags) {
    *stream = malloc(1); return flags == 1 ? got(*stream) : 1;
}
int cuStreamDestroy_v2(void *stream) { free(stream); live--; return 0; }
int cuStreamSynchronize(void *stream) { return stream == 0; }
int cuMemAlloc_v2(CUdeviceptr *p, size_t n) {
    *p = n > (1ull << 40) ? 0 : (CUdeviceptr)malloc(n); return got((void *)*p);
}
int cuMemFree_v2(CUdeviceptr p) { free((void *)p); live--; return 0; }
int cuMemHostAlloc(void **p, size_t n, unsigned flags) { *p = malloc(n); return got(*p) + flags; }
int cuMemFreeHost(void *p) { free(p); live--; return 0; }
int cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, void *stream) {
    memcpy((void *)to, from, n); return stream == 0;
}
int cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, void *stream) {
    memcpy(to, (void *)from, n); return stream == 0;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The stand-in, loaded."""
    folder: Path = tmp_path_factory.mktemp("cuda")
    (folder / "standin.c").write_text(SOURCE)
    target = folder / "libstandin.so"
    command = [str(COMPILER), "-shared", "-fPIC", "-o", str(target), str(folder / "standin.c")]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(target))


@pytest.mark.parametrize("is_pinned", [True, False])
def test_bytes_go_to_the_device_and_back(library: ctypes.CDLL, is_pinned: bool) -> None:
    """What was copied there and back is what was written, and all memory is returned."""
    cuda = CudaLibrary(library)
    cuda.select(0)
    text = bytes(range(256)) * 64
    stream, device = cuda.open_stream(), cuda.allocate(len(text))
    first, second = (cuda.allocate_host(len(text), is_pinned=is_pinned) for _ in range(2))
    ctypes.memmove(first, text, len(text))
    ctypes.memset(second, 0, len(text))
    cuda.copy_to_device(device, first, len(text), stream)
    cuda.copy_from_device(second, device, len(text), stream)
    cuda.synchronise(stream)
    assert ctypes.string_at(second, len(text)) == text
    for address in (first, second):
        cuda.free_host(address, is_pinned=is_pinned)
    cuda.free(device)
    cuda.close_stream(stream)
    assert library.held() == 0


def test_whole_table_through_the_library(library: ctypes.CDLL) -> None:
    """Every case runs through the real boundary and leaves nothing behind."""
    found = measure_cuda_copies(
        CudaLibrary(library), time.perf_counter_ns, sizes_bytes=(4096,), rounds=1
    )
    assert len(found) == 12
    assert all(rate.bytes_per_s > 0 for rate in found)
    assert {rate.path for rate in found} == {CopyPath.TO_DEVICE, CopyPath.FROM_DEVICE}
    assert library.held() == 0


def test_refused_memory_is_an_error(library: ctypes.CDLL) -> None:
    """With the library's own words; the size arrived whole, for else it would have been granted."""
    with pytest.raises(HeadwayError, match="code `2`: stand-in error"):
        CudaLibrary(library).allocate(1 << 41)
