"""Plain values the kernel is built from: models, devices, limits. No defaults from a config."""

from msgspec import Struct

from headway.core.names import DeviceName, ModelName

__all__ = ["DeviceParams", "KernelParams", "ModelParams"]


class ModelParams(Struct, frozen=True, kw_only=True):
    """What the kernel must know of one model to queue, batch and place its requests."""

    name: ModelName
    version: str = "1"
    devices: tuple[DeviceName, ...]
    """A replica is loaded on each."""
    batch_rows_max: int = 1
    """Rows of one batch; a request with more is split where it can be, else refused."""
    can_batch: bool = True
    """False where the model has no batch axis: one request is one batch."""
    can_split: bool = False
    """Rows do not depend on one another, so one request's rows may run in several batches."""
    segments_max: int = 8
    """Batches that a request which would fit in one may be split into."""
    linger_ns: int = 0
    """Longest wait for a fuller batch."""
    queue_requests_max: int = 1024
    queue_bytes_max: int = 1 << 30
    batch_ns_max: int = 60_000_000_000
    """A batch that runs longer is taken for hung, and its worker is replaced."""

    def __post_init__(self) -> None:
        if self.batch_rows_max < 1 or not self.devices:
            raise ValueError(f"model `{self.name}` needs a device and batch_rows_max >= 1")
        if self.can_split and not self.can_batch:
            raise ValueError(f"model `{self.name}` has no rows to split a request by")
        if self.segments_max < 1:
            raise ValueError(f"model `{self.name}` needs segments_max >= 1")
        if min(self.linger_ns, self.queue_requests_max, self.queue_bytes_max) < 0:
            raise ValueError(f"model `{self.name}` has a negative limit")


class DeviceParams(Struct, frozen=True, kw_only=True):
    """A device: one entry per slot, naming the lane (core, stream) that the slot runs on."""

    name: DeviceName
    slot_lanes: tuple[int, ...]
    is_pinned: bool = True
    """A batch stays on its slot's lane; else the system moves batches between the lanes."""
    shares_all: bool = False
    """Its slots share all of it, as streams do an accelerator; then lanes divide nothing."""
    weight_high: float = 1024.0
    """Share of a lane that a batch of class `high` gets, relative to the others on it."""
    weight_low: float = 1024.0

    def __post_init__(self) -> None:
        if not self.slot_lanes:
            raise ValueError(f"device `{self.name}` needs at least one slot")
        if min(self.weight_high, self.weight_low) <= 0:
            raise ValueError(f"device `{self.name}` needs weights above 0")


class KernelParams(Struct, frozen=True, kw_only=True):
    """Limits over all models, and how a lost worker comes back."""

    devices: tuple[DeviceParams, ...]
    requests_max: int = 4096
    """Waiting requests over all models."""
    bytes_max: int = 2 << 30
    """Payload bytes of waiting requests over all models."""
    retry_after_ns_min: int = 10_000_000
    retry_after_ns_max: int = 30_000_000_000
    restart_delay_ns_min: int = 100_000_000
    """Pause before a lost replica is loaded again; doubles with each loss in a row."""
    restart_delay_ns_max: int = 10_000_000_000
