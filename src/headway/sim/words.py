"""The words of a scenario file, as plain structures; `spec` makes a scenario of them.

Knows which fields there are and what may stand in each. Refuses to know what they mean together.
"""

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from headway.core import SlotClass
from headway.units import NS_PER_MS, NS_PER_S, parse_duration_ns

__all__ = [
    "DeviceSpec",
    "FaultSpec",
    "LanesSpec",
    "LimitsSpec",
    "ModelSpec",
    "Oversize",
    "ScenarioSpec",
    "SharingKind",
    "SoloSpec",
    "Span",
    "TenantSpec",
    "TierSpec",
]

_Count = Annotated[int, Meta(ge=1)]
_Whole = Annotated[int, Meta(ge=0)]
_Share = Annotated[float, Meta(gt=0)]


class Span:
    """A length of time, written as a string such as "250ms"; 0 needs no unit."""

    __slots__ = ("ns",)

    def __init__(self, value: object) -> None:
        if value == 0 and not isinstance(value, bool):
            self.ns = 0
        elif isinstance(value, str):
            self.ns = parse_duration_ns(value)
        else:
            raise ValueError(f'`{value}` is not a duration such as "250ms", "1.5s" or "2m"')

    @classmethod
    def of(cls, duration_ns: int) -> "Span":
        """A default."""
        return cls(f"{duration_ns}ns")


class _Spec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every part of a scenario shares: a field that is not known is refused."""


class DeviceSpec(_Spec, frozen=True):
    """Slots, spread over lanes in turn; without lanes each slot has one of its own.

    An accelerator says itself how many slots it has, of which fewer may be used.
    """

    name: Annotated[str, Meta(min_length=1)]
    slots: _Count | None = None
    lanes: _Count | None = None


class Late(StrEnum):
    """What becomes of a request whose deadline has passed."""

    DROP = "drop"
    SERVE = "serve"


class TierSpec(_Spec, frozen=True):
    """A class of service; with `late: serve` an answer may come so long after its deadline."""

    budget: Span
    priority: _Whole = 1
    slot_class: SlotClass = SlotClass.HIGH
    late: Late = Late.DROP
    late_max: Span = Span.of(30 * NS_PER_S)

    @property
    def late_ns(self) -> int:
        """How long after its deadline a request may still be answered."""
        return self.late_max.ns if self.late is Late.SERVE else 0


class Oversize(StrEnum):
    """What becomes of a request with more rows than a batch may have."""

    REFUSE = "refuse"
    SPLIT = "split"


class TenantSpec(_Spec, frozen=True):
    """Whom requests are accounted to."""

    share: _Share = 1.0
    """Of what a class of requests gets, relative to the others'."""


class _BatchSpec(_Spec, frozen=True):
    """How requests are put together."""

    rows_max: _Count = 8
    linger: Span = Span(0)
    oversize: Oversize = Oversize.REFUSE
    segments_max: _Count = 8


class _QueueSpec(_Spec, frozen=True):
    """How much may wait for one model."""

    requests_max: _Whole = 1024


class ModelSpec(_Spec, frozen=True):
    """A model; `service` is its solo service time, of one row or by number of rows.

    On an accelerator `options` stand in its place: solo, row, occupancy, bandwidth, kernels,
    in_bytes, out_bytes.
    """

    name: Annotated[str, Meta(min_length=1)]
    service: str | dict[Any, Any] | None = None
    options: dict[str, str | int | float | bool] = {}
    noise_cv: Annotated[float, Meta(ge=0, le=10)] = 0.0
    devices: list[str] = []
    batch: _BatchSpec = _BatchSpec()
    queue: _QueueSpec = _QueueSpec()
    batch_max: Span = Span.of(60 * NS_PER_S)


class SharingKind(StrEnum):
    """The short form: a kind with its defaults."""

    SOLO = "solo"
    LANES = "lanes"


class SoloSpec(_Spec, frozen=True, tag_field="kind", tag="solo"):
    """Batches that run at once do not slow each other down."""


class LanesSpec(_Spec, frozen=True, tag_field="kind", tag="lanes"):
    """The batches of a lane divide it: evenly, as nice 0 and 19 do, or by weights."""

    niced: bool = False
    weights: dict[SlotClass, _Share] | None = None


class FaultSpec(_Spec, frozen=True):
    """The device's worker dies, or the scheduler itself stands still for a time."""

    at: Span
    device: str | None = None
    pause: Span | None = None


class LimitsSpec(_Spec, frozen=True):
    """Limits over all models, and the pauses before a lost worker is started again."""

    requests_max: _Whole = 4096
    restart_delay_min: Span = Span.of(100 * NS_PER_MS)
    restart_delay_max: Span = Span.of(10 * NS_PER_S)


class ScenarioSpec(_Spec, frozen=True):
    """A scenario file. Tiers are read one by one, so that an error can name its tier."""

    devices: Annotated[list[DeviceSpec], Meta(min_length=1)]
    models: Annotated[list[ModelSpec], Meta(min_length=1)]
    tiers: Annotated[dict[str, dict[str, Any]], Meta(min_length=1)]
    workload: dict[str, Any]
    accelerator: str | None = None
    tenants: dict[str, TenantSpec] = {}
    sharing: SharingKind | SoloSpec | LanesSpec | None = None
    faults: list[FaultSpec] = []
    limits: LimitsSpec = LimitsSpec()
    load: Span = Span(0)
    seed: int = 1
