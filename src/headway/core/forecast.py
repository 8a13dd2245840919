"""What a predictor is shown and what it says: batches as it sees them, and forecasts with parts.

A forecast is a mean, a bound and the terms that the mean is the sum of, so that whoever reads it
sees why it is what it is: T = queue + overhead + base + transfer + interference.
"""

from collections.abc import Iterator
from typing import Protocol

from msgspec import Struct

from headway.core.names import BatchId, BucketKey, DeviceName, ModelName, SlotIndex
from headway.core.params import ModelParams
from headway.core.request import Request, SlotClass

__all__ = ["CANDIDATE", "UNKNOWN", "Forecast", "QueueView", "Run", "Stages"]

CANDIDATE = BatchId(0)
"""Of a batch that is only considered; those that run count from 1."""


class Run(Struct, frozen=True, kw_only=True, gc=False):
    """A batch on a slot: one that starts, runs, or is only considered."""

    batch_id: BatchId = CANDIDATE
    model: ModelName
    bucket: BucketKey
    """Its shapes: service times of one model may differ between buckets."""
    rows: int
    payload_bytes: int
    device: DeviceName
    slot: SlotIndex
    lane: int
    slot_class: SlotClass
    priority: int
    """Of its most important member."""


class Stages(Struct, frozen=True, kw_only=True, gc=False):
    """How long a finished batch took; each stage was timed where it happened."""

    service_ns: int
    """Dispatch to the report of its end, as the kernel saw it."""
    transfer_in_ns: int = 0
    execution_ns: int = 0
    transfer_out_ns: int = 0


class Forecast(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """How long something will take. For a batch that runs, mean and bound are of what remains.

    Invariants: 0 <= mean <= bound; no part is negative; for a batch about to start, and for a
    request, the parts add up to the mean.
    """

    batch_id: BatchId = CANDIDATE
    mean_ns: int
    """From the instant of asking to the end."""
    bound_ns: int
    """It ends within this at the confidence that was configured."""
    queue_ns: int = 0
    """Of a request: until its batch is dispatched."""
    overhead_ns: int = 0
    """The way to the worker and back."""
    base_ns: int = 0
    """Alone on an idle device."""
    transfer_ns: int = 0
    """Inputs to the device and outputs from it, waiting for the link included."""
    interference_ns: int = 0
    """What those that run beside it add."""

    @property
    def execution_ns(self) -> int:
        """The time on the device, neighbours included."""
        return self.base_ns + self.interference_ns


UNKNOWN = Forecast(mean_ns=0, bound_ns=0)
"""Nothing is known yet."""


class QueueView(Protocol):
    """What waits, over all models, in the order of service; and how it is batched."""

    @property
    def count(self) -> int:
        """Requests that wait."""

    def requests(self) -> Iterator[Request]:
        """They, the first to be served first; ask for as few as will do."""

    def params(self, model: ModelName) -> ModelParams | None:
        """Devices and batch limits of a model; None once it is gone."""
