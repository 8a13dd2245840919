"""MIG through NVML: which instances a GPU has, which it could have, and their making and unmaking.

What NVML does not say is None here, never 0 and never empty. Only names and numbers leave this
file: who asks later asks by them, so no handle grows stale. Knows pynvml. Refuses to decide
anything, or to touch an instance that it was not asked about.
"""

import ctypes
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from msgspec import Struct

from headway.errors import HeadwayError

__all__ = ["MigDriver", "MigGpu", "MigInstance", "MigPlacement", "MigProfile", "open_mig"]

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
_EIGHTHS: Final = 8
"""Of a GPU's memory: the steps in which profiles have it, by which they are named."""
_NOBODY: Final = 0xFFFF_FFFF
"""As NVML writes the instance of a process which has none."""
_INSTANCES_MAX: Final = 64
_SHARED_ENGINES: Final = 0

_HINTS: Final[Mapping[str, str]] = {
    "NVML_ERROR_NO_PERMISSION": "run it as root",
    "NVML_ERROR_IN_USE": "a process still uses it: end it and try again",
    "NVML_ERROR_INSUFFICIENT_RESOURCES": "another instance is in the way; `headway plan diff` "
    "shows which there are",
    "NVML_ERROR_GPU_IS_LOST": "it has fallen off the bus: see `dmesg`, and restart the machine",
    "NVML_ERROR_NOT_SUPPORTED": "this GPU or its mode has no MIG instances",
}


class MigPlacement(NamedTuple):
    """Where an instance lies on the grid of memory cells."""

    start: int
    size: int

    def overlaps(self, other: "MigPlacement") -> bool:
        """Whether both want one cell."""
        return self.start < other.start + other.size and other.start < self.start + self.size


class MigProfile(NamedTuple):
    """A kind of instance that the GPU offers."""

    name: str
    """As `nvidia-smi` has it, `3g.40gb`."""
    id: int
    """Of `nvidia-smi mig -cgi`."""
    slices: int
    sm_count: int
    memory_bytes: int
    instances_max: int
    placements: tuple[MigPlacement, ...] | None
    remaining: int | None
    """How many could still be made as the GPU is now."""


class MigInstance(NamedTuple):
    """A GPU instance that exists."""

    id: int | None
    """As the driver counts; None of one that no driver was asked about."""
    profile: str | None
    placement: MigPlacement
    uuids: tuple[str, ...] | None
    """Of the MIG devices in it, one for each compute instance; what CUDA_VISIBLE_DEVICES takes."""
    pids: tuple[int, ...] | None
    """Of processes that run in it."""


class MigGpu(Struct, frozen=True):
    """A GPU as it is now, as far as it says."""

    index: int
    name: str | None = None
    uuid: str | None = None
    memory_bytes: int | None = None
    """Of the whole GPU."""
    has_mig: bool | None = None
    """Whether MIG mode is on; None on a GPU without it."""
    will_have_mig: bool | None = None
    """The mode after the next reset, where that differs."""
    profiles: tuple[MigProfile, ...] | None = None
    instances: tuple[MigInstance, ...] | None = None
    pids: tuple[int, ...] | None = None
    """Of all processes on it."""
    trouble: str | None = None
    """Why it does not answer."""


class MigDriver:
    """NVML's MIG calls, by the index of the GPU.

    Invariants: NVML is initialised for as long as it lives; made and closed by `open_mig`.
    """

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml

    def gpus(self) -> tuple[MigGpu, ...]:
        """All GPUs; one that does not answer is there with its trouble."""
        return tuple(self.gpu(index) for index in range(self._nvml.nvmlDeviceGetCount()))

    def gpu(self, index: int) -> MigGpu:
        """What one GPU says of itself."""
        try:
            return self._gpu(index)
        except self._nvml.NVMLError as error:
            return MigGpu(index, trouble=str(error))

    def set_mode(self, index: int, *, on: bool) -> bool:
        """Switch MIG mode; False where it will be so only after a reset.

        Raises:
            HeadwayError: NVML refuses.
        """
        with self._saying(f"MIG mode of GPU `{index}` could not be switched"):
            device = self._device(index)
            self._nvml.nvmlDeviceSetMigMode(device, int(on))
            current, _ = self._nvml.nvmlDeviceGetMigMode(device)
        return bool(current) is on

    def create(self, index: int, profile: str, start: int) -> MigInstance:
        """Make a GPU instance at its place, and in it one compute instance of its size.

        Raises:
            HeadwayError: there is no such profile or place, or NVML refuses; nothing is left.
        """
        with self._saying(f"`{profile}` could not be made at `{start}` of GPU `{index}`"):
            device = self._device(index)
            info = self._profile(index, device, profile)
            place = self._nvml.c_nvmlGpuInstancePlacement_t(start, self._size_of(device, info))
            handle = self._nvml.nvmlDeviceCreateGpuInstanceWithPlacement(
                device, info.id, ctypes.byref(place)
            )
            try:
                self._fill(handle, info.sliceCount)
            except (self._nvml.NVMLError, HeadwayError):
                self._nvml.nvmlGpuInstanceDestroy(handle)
                raise
            made = self._nvml.nvmlGpuInstanceGetInfo(handle).id
            return next(one for one in self._instances(device) if one.id == made)

    def destroy(self, index: int, instance_id: int) -> None:
        """Unmake a GPU instance and all that is in it.

        Raises:
            HeadwayError: NVML refuses, for one because a process uses it.
        """
        with self._saying(f"instance `{instance_id}` of GPU `{index}` could not be destroyed"):
            device = self._device(index)
            handle = self._nvml.nvmlDeviceGetGpuInstanceById(device, instance_id)
            for inner in self._compute_instances(handle):
                self._nvml.nvmlComputeInstanceDestroy(inner)
            self._nvml.nvmlGpuInstanceDestroy(handle)

    def _gpu(self, index: int) -> MigGpu:
        nvml, device = self._nvml, self._device(index)
        modes = self._asked(nvml.nvmlDeviceGetMigMode, device)
        has_mig = None if modes is None else bool(modes[0])
        will_have_mig = None if modes is None or modes[0] == modes[1] else bool(modes[1])
        processes = self._processes(device)
        memory = self._asked(nvml.nvmlDeviceGetMemoryInfo, device)
        return MigGpu(
            index=index,
            name=_text(self._asked(nvml.nvmlDeviceGetName, device)),
            uuid=_text(self._asked(nvml.nvmlDeviceGetUUID, device)),
            memory_bytes=None if memory is None else memory.total,
            has_mig=has_mig,
            will_have_mig=will_have_mig,
            profiles=self._profiles(device) if modes is not None else None,
            instances=self._instances(device) if has_mig else None,
            pids=None if processes is None else tuple(sorted({one.pid for one in processes})),
        )

    def _device(self, index: int) -> Any:
        return self._nvml.nvmlDeviceGetHandleByIndex(index)

    def _asked(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """The answer, or None where this GPU, driver or user gets none."""
        nvml = self._nvml
        try:
            return call(*arguments)
        except (
            nvml.NVMLError_NotSupported,
            nvml.NVMLError_FunctionNotFound,
            nvml.NVMLError_NoPermission,
            nvml.NVMLError_InvalidArgument,
            nvml.NVMLError_NotFound,
        ):
            return None

    @contextmanager
    def _saying(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._nvml.NVMLError as error:
            raise HeadwayError(f"{what}: {error}", hint=self._hint(error)) from error

    def _hint(self, error: Any) -> str | None:
        for name, hint in _HINTS.items():
            if getattr(self._nvml, name) == error.value:
                return hint
        return None

    # --- profiles ---------------------------------------------------------------------------------

    def _profile_infos(self, device: Any) -> Iterator[tuple[str, Any]]:
        """Profiles by name, in the form that this driver knows."""
        nvml = self._nvml
        memory = self._asked(nvml.nvmlDeviceGetMemoryInfo, device)
        for kind in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            info = self._asked(nvml.nvmlDeviceGetGpuInstanceProfileInfo, device, kind, 2)
            name = None if info is None else _text(info.name)
            if info is None:
                info = self._asked(nvml.nvmlDeviceGetGpuInstanceProfileInfo, device, kind, 1)
            if info is None:
                continue
            if name is None and memory is not None:
                suffix = _suffix(nvml, kind)
                name = profile_name(info.sliceCount, info.memorySizeMB, memory.total) + suffix
            if name is not None:
                yield name.removeprefix("MIG "), info

    def _profiles(self, device: Any) -> tuple[MigProfile, ...]:
        remaining = self._nvml.nvmlDeviceGetGpuInstanceRemainingCapacity
        return tuple(
            MigProfile(
                name=name,
                id=info.id,
                slices=info.sliceCount,
                sm_count=info.multiprocessorCount,
                memory_bytes=info.memorySizeMB * _MIB,
                instances_max=info.instanceCount,
                placements=self._placements(device, info.id),
                remaining=self._asked(remaining, device, info.id),
            )
            for name, info in self._profile_infos(device)
        )

    def _placements(self, device: Any, profile_id: int) -> tuple[MigPlacement, ...] | None:
        nvml = self._nvml
        count = ctypes.c_uint(0)
        ask = nvml.nvmlDeviceGetGpuInstancePossiblePlacements
        # Where nothing is free the count alone is an answer, and room for 0 is room for it.
        room = (nvml.c_nvmlGpuInstancePlacement_t * _INSTANCES_MAX)()
        count.value = _INSTANCES_MAX
        if self._asked(_null_result(ask), device, profile_id, room, ctypes.byref(count)) is None:
            return None
        return tuple(MigPlacement(room[i].start, room[i].size) for i in range(count.value))

    def _profile(self, index: int, device: Any, profile: str) -> Any:
        names = []
        for name, info in self._profile_infos(device):
            if name == profile:
                return info
            names.append(name)
        offered = ", ".join(f"`{name}`" for name in names) or "none"
        raise HeadwayError(
            f"GPU `{index}` has no MIG profile `{profile}`",
            hint=f"it offers {offered}; names differ between drivers",
        )

    def _size_of(self, device: Any, info: Any) -> int:
        """Cells that such an instance covers: as NVML says, else as many as it has slices."""
        placements = self._placements(device, info.id)
        return placements[0].size if placements else int(info.sliceCount)

    # --- instances --------------------------------------------------------------------------------

    def _fill(self, handle: Any, slices: int) -> None:
        """One compute instance over all of a GPU instance."""
        nvml = self._nvml
        for kind in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            ask = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo
            info = self._asked(ask, handle, kind, _SHARED_ENGINES, 1)
            if info is not None and info.sliceCount == slices:
                nvml.nvmlGpuInstanceCreateComputeInstance(handle, info.id)
                return
        raise HeadwayError(f"it has no compute instance of `{slices}` slices")

    def _instances(self, device: Any) -> tuple[MigInstance, ...]:
        nvml = self._nvml
        uuids = self._uuids(device)
        processes = self._processes(device)
        found = []
        for name, profile in self._profile_infos(device):
            for handle in self._handles(nvml.nvmlDeviceGetGpuInstances, device, profile.id):
                info = nvml.nvmlGpuInstanceGetInfo(handle)
                place = MigPlacement(info.placement.start, info.placement.size)
                pids = None
                if processes is not None:
                    inside = {one.pid for one in processes if one.gpuInstanceId == info.id}
                    astray = {one.pid for one in processes if one.gpuInstanceId == _NOBODY}
                    # A process whose instance NVML does not tell could be in any of them.
                    pids = tuple(sorted(inside | astray))
                own = None if uuids is None else uuids.get(info.id, ())
                found.append(MigInstance(info.id, name, place, own, pids))
        return tuple(sorted(found, key=lambda one: one.placement))

    def _handles(self, call: Callable[..., Any], owner: Any, profile_id: int) -> list[Any]:
        """What a call writes into an array of handles."""
        nvml = self._nvml
        kind = nvml.c_nvmlGpuInstance_t
        room, count = (kind * _INSTANCES_MAX)(), ctypes.c_uint(_INSTANCES_MAX)
        if self._asked(_null_result(call), owner, profile_id, room, ctypes.byref(count)) is None:
            return []
        # A cast copies the handle out of the array, which ends with this call.
        return [ctypes.cast(room[i], kind) for i in range(count.value)]

    def _compute_instances(self, handle: Any) -> Iterator[Any]:
        nvml = self._nvml
        for kind in range(nvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            ask = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo
            info = self._asked(ask, handle, kind, _SHARED_ENGINES, 1)
            if info is not None:
                call = nvml.nvmlGpuInstanceGetComputeInstances
                yield from self._handles(call, handle, info.id)

    def _uuids(self, device: Any) -> dict[int, tuple[str, ...]] | None:
        """Of MIG devices, by the GPU instance that they are in."""
        nvml = self._nvml
        count = self._asked(nvml.nvmlDeviceGetMaxMigDeviceCount, device)
        if count is None:
            return None
        found: dict[int, tuple[str, ...]] = {}
        for index in range(count):  # sparse: what is not there is not found
            handle = self._asked(nvml.nvmlDeviceGetMigDeviceHandleByIndex, device, index)
            if handle is not None:
                owner = nvml.nvmlDeviceGetGpuInstanceId(handle)
                uuid = _text(nvml.nvmlDeviceGetUUID(handle)) or ""
                found[owner] = (*found.get(owner, ()), uuid)
        return found

    def _processes(self, device: Any) -> list[Any] | None:
        """Processes of all kinds; None where the driver does not tell who computes."""
        compute = self._running("Compute", device)
        if compute is None:
            return None
        others = (self._running(kind, device) or [] for kind in ("Graphics", "MPSCompute"))
        return [*compute, *itertools.chain.from_iterable(others)]

    def _running(self, kind: str, device: Any) -> list[Any] | None:
        """Processes of a kind, by the newest form of the call that this driver has."""
        for version in ("_v3", "_v2"):
            call = getattr(self._nvml, f"nvmlDeviceGet{kind}RunningProcesses{version}", None)
            found: list[Any] | None = None if call is None else self._asked(call, device)
            if found is not None:
                return found
        return None


@contextmanager
def open_mig() -> Iterator[MigDriver]:
    """NVML's MIG calls, for as long as the block lasts.

    Raises:
        HeadwayError: the binding or the driver is not there, or the driver refuses.
    """
    try:
        import pynvml
    except ModuleNotFoundError as error:
        raise HeadwayError(
            "`nvidia-ml-py` is not installed, which asks the NVIDIA driver",
            hint="pip install headway[gpu]",
        ) from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise HeadwayError(
            f"the NVIDIA driver does not answer: {error}",
            hint="is this a machine with a GPU and its driver?",
        ) from error
    try:
        yield MigDriver(pynvml)
    finally:
        pynvml.nvmlShutdown()


def profile_name(slices: int, memory_mib: int, total_bytes: int) -> str:
    """The name of a profile, for drivers that only give its numbers.

    Memory is named by its share of the whole, in eighths rounded up, of the whole in GiB.
    """
    eighths = math.ceil(memory_mib * _MIB / total_bytes * _EIGHTHS)
    total_gib = math.ceil(total_bytes / _GIB)
    gib = math.floor(eighths / _EIGHTHS * total_gib + 0.5)  # halves go up: `3g.71gb` of 141
    return f"{slices}g.{gib}gb"


def _suffix(nvml: Any, kind: int) -> str:
    """Of a name: the second form of a profile has the media engines."""
    with_media = (
        "NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1",
        "NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1",
    )
    return "+me" if kind in {getattr(nvml, name, None) for name in with_media} else ""


def _null_result(call: Callable[..., Any]) -> Callable[..., bool]:
    """For calls that return nothing: what came back tells that they were answered."""

    def answered(*arguments: Any) -> bool:
        call(*arguments)
        return True

    return answered


def _text(value: Any) -> str | None:
    if value is None:
        return None
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text or None
