"""What can be seen of a server at a glance: the values that its page shows, as JSON has them.

Pure: values only. Times are milliseconds since the server's start, to the microsecond.
"""

from enum import IntEnum
from typing import Annotated

from msgspec import Meta, Struct

__all__ = [
    "About",
    "BatchFate",
    "Coverage",
    "DeviceNow",
    "EndedBatch",
    "Glance",
    "Kept",
    "ModelNow",
    "QueueNow",
    "ReasonCount",
    "Refusal",
    "RunningNow",
    "SecondOfTiers",
    "TenantNow",
    "TierNow",
]

Count = Annotated[int, Meta(ge=0)]
Ratio = Annotated[float, Meta(ge=0, le=1)]


class Kept(Struct, frozen=True):
    """Requests that ended, and those of them that were answered in time.

    What a client took back counts in neither.
    """

    ended: Count = 0
    in_time: Count = 0


class TierNow(Struct, frozen=True, kw_only=True):
    """How a class of service fares."""

    name: str
    priority: int
    budget_ms: float
    target_ratio: Ratio
    """Part of its requests that should be answered in time."""
    now: Kept
    """Over the last ten seconds."""
    minute: Kept
    """Over the last minute."""
    start: Kept
    """Since the server's start."""


class QueueNow(Struct, frozen=True, kw_only=True):
    """Requests of one model and tier that wait."""

    model: str
    tier: str
    depth: Count
    oldest_ms: float
    """How long the oldest of them has waited; 0 with none."""
    wait_ms: float | None
    """Until such a request as the last would start, if it arrived now; null while unknown."""


class RunningNow(Struct, frozen=True, kw_only=True):
    """A batch on its slot."""

    slot: Count
    model: str
    tier: str
    """Of its first request."""
    rows: int
    started_ms: float
    expected_ms: float
    """Predicted at its start; 0 while nothing was known, as is the bound."""
    bound_ms: float


class DeviceNow(Struct, frozen=True, kw_only=True):
    """A device, and what runs there."""

    name: str
    lanes: list[int]
    """Of each slot: slots of one lane share a core or a stream."""
    running: list[RunningNow]


class BatchFate(IntEnum):
    """What became of a batch."""

    IN_TIME = 0
    """Every request of it that was to be answered was answered in time."""
    LATE = 1
    """Some answer came late, or its request was given up while the batch ran."""
    FAILED = 2
    """The model raised, or its worker died."""
    UNWANTED = 3
    """Nobody waited for it any more when it ended."""


class EndedBatch(Struct, frozen=True, kw_only=True, array_like=True):
    """A batch that has run: device (by its place in the list), slot, and so on, as an array."""

    step: Count
    """Number of the step at which it ended."""
    device: Count
    slot: Count
    model: str
    tier: str
    rows: int
    started_ms: float
    took_ms: float
    expected_ms: float
    bound_ms: float
    fate: BatchFate


class Coverage(Struct, frozen=True, kw_only=True):
    """How right predictions were over the last minute."""

    judged: Count = 0
    """Predictions whose time is over."""
    covered: Count = 0
    """Those whose bound held."""
    error_ratio: float | None = None
    """Mean of |predicted - actual| / actual; null with none."""


class TenantNow(Struct, frozen=True, kw_only=True):
    """What a tenant had over the last minute."""

    name: str
    device_ms: float
    """Time of slots, of its rows."""
    share_ratio: Ratio
    """Its part of all slot time that was used."""
    weight: float | None
    """Of its share, where the configuration gives one."""
    kept: Kept
    refused: Count
    """By a limit of its own, since the server's start."""


class ReasonCount(Struct, frozen=True, kw_only=True):
    """Requests that were refused, given up or failed over the last minute, by reason."""

    outcome: str
    """`rejected`, `expired` or `failed`."""
    reason: str
    count: Count


class Refusal(Struct, frozen=True, kw_only=True):
    """A request that got no answer, and why."""

    step: Count
    at_ms: float
    request: int
    """Its number, by which journals name it."""
    model: str
    tier: str
    tenant: str
    outcome: str
    reason: str
    after_ms: float
    """Since its arrival."""
    budget_ms: float
    retry_ms: float | None
    """After which it may come again, where it was told so."""


class ModelNow(Struct, frozen=True, kw_only=True):
    """A line of the repository index."""

    name: str
    version: str
    state: str
    """READY, LOADING, UNLOADING or UNAVAILABLE."""
    reason: str


class SecondOfTiers(Struct, frozen=True, kw_only=True):
    """What ended within one second, by tier."""

    at_s: int
    tiers: dict[str, Kept]


class About(Struct, frozen=True, kw_only=True):
    """What does not change while the server runs."""

    version: str
    policy: str
    predictor: str
    is_emulated: bool
    """The devices are emulated, and so is every time that is measured here."""
    can_load: bool
    """Models may be loaded and unloaded."""


class Glance(Struct, frozen=True, kw_only=True):
    """All of it."""

    about: About
    step: Count
    """Number of the step that comes next: batches and refusals of earlier ones are in it."""
    now_ms: float
    tiers: list[TierNow]
    queues: list[QueueNow]
    devices: list[DeviceNow]
    ended: list[EndedBatch]
    """Batches that ended since the glance before; of the first, within the last half minute."""
    ended_left_out: Count
    """Others that ended meanwhile: of very many only an even part is listed."""
    service: Coverage
    """Of batches, as predicted when they were started."""
    latency: Coverage
    """Of requests, as predicted when they were admitted."""
    tenants: list[TenantNow]
    tenants_left_out: Count
    reasons: list[ReasonCount]
    refusals: list[Refusal]
    """The last since the glance before."""
    refusals_left_out: Count
    models: list[ModelNow]
    seconds: list[SecondOfTiers]
    """The last minute, second by second; empty but in a first glance."""
