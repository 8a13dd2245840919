"""A plan: how each device is shared, who sits where, and why.

Plain values that files are written from. Knows nothing of how a plan is found.
"""

from enum import StrEnum

from msgspec import Struct

from headway.core import DeviceName, ModelName, SlotClass, TenantId

__all__ = [
    "DeviceShare",
    "Judge",
    "PlacedSlice",
    "PlanMaker",
    "Seat",
    "SharingMode",
    "SharingPlan",
    "Unplaced",
    "Verdict",
    "Waste",
]


class SharingMode(StrEnum):
    """How what runs on a device, or in a slice of it, shares it."""

    WHOLE = "whole"
    """One process has all of it."""
    MIG = "mig"
    """Cut into instances with memory, caches and multiprocessors of their own. Devices only."""
    MPS = "mps"
    """Processes run at once, each with a limit on threads and on memory; one fault ends all."""
    STREAMS = "streams"
    """One process holds all models, a stream a slot, with priorities."""
    TIME_SLICE = "time-slice"
    """Processes take turns; no limits, no priorities."""


class Seat(Struct, frozen=True, kw_only=True):
    """A replica of a model in a slice, or one device's part of a gang's replica."""

    model: ModelName
    tenant: TenantId
    replica: int
    """Of the model, from 0."""
    gang_rank: int = 0
    """Which device of the replica this is, from 0."""
    rate_rps: float
    """Its part of the model's requests."""
    load_ratio: float
    """Part of the slice's time that its batches take, at the size that batches are expected to
    have."""
    batch_rows: int = 1
    """Rows of a full batch: the limit that its server is to be given, which may be less than the
    model's, for the sake of its neighbours."""
    memory_bytes: int
    """Weights, process and rows of a full batch."""
    priority: int
    slot_class: SlotClass
    thread_percent: int | None = None
    """Active thread percentage under MPS, of what the slice has; None in other modes."""
    memory_limit_bytes: int | None = None
    """Pinned device memory limit under MPS, of *one* client process; None in other modes."""
    client_priority: int | None = None
    """Under MPS 0 is normal and 1 below normal; None in other modes."""


class PlacedSlice(Struct, frozen=True, kw_only=True):
    """A MIG instance, or a whole device, and who sits in it."""

    profile: str | None = None
    """Of the MIG instance; None for a device that is not in MIG mode."""
    start: int | None = None
    """First memory cell of the instance."""
    size: int | None = None
    """Memory cells that it covers."""
    is_kept: bool = False
    """It exists today, at this place, and stays."""
    sm_count: int
    memory_bytes: int
    inside: SharingMode
    """How the seats share it; never `mig`. With `mps` in an instance this is MIG and MPS."""
    seats: tuple[Seat, ...]
    """May be empty: an instance that is kept, or spare."""


class DeviceShare(Struct, frozen=True, kw_only=True):
    """One device of the plan."""

    device: DeviceName
    node: str
    index: int
    product: str
    mode: SharingMode
    slices: tuple[PlacedSlice, ...]
    """Without MIG exactly one. Empty: the device is free for other things."""
    stranded_sm_count: int
    """Multiprocessors that no slice has, because of the mode and of how it is cut."""
    unused_memory_bytes: int
    """Of the device, that no seat needs: what is outside the slices, and what is left in them."""
    must_be_idle: tuple[str, ...] = ()
    """Instances of today, `3g.40gb@4`, that must be idle to be destroyed before the plan applies;
    the device itself, by name, where its MIG mode changes."""
    reasons: tuple[str, ...]
    """Why this mode and this cut."""
    caveats: tuple[str, ...]
    """What it does not give."""
    would_change: tuple[str, ...]
    """What would make the answer another one."""


class Judge(StrEnum):
    """Who says whether an objective holds."""

    BOUND = "bound"
    """A quick queueing bound."""
    SIMULATION = "simulation"
    """The placed plan, played with the scheduler's own code."""


class Verdict(Struct, frozen=True, kw_only=True):
    """Whether a model's objective holds, according to one judge."""

    model: ModelName
    judge: Judge
    is_met: bool
    budget_ns: int
    attainment_ratio: float
    """What was wanted."""
    expected_attainment_ratio: float
    """What is to be expected."""
    latency_p99_ns: int | None
    """None where no request ends."""
    note: str = ""
    """What the figure rests on: an assumed speed, an emulated device."""


class Unplaced(Struct, frozen=True, kw_only=True):
    """What found no place."""

    model: ModelName
    rate_rps: float
    """Of its load, what is not served."""
    why: str


class Waste(Struct, frozen=True, kw_only=True):
    """What slices of one kind hold beyond what sits in them."""

    product: str
    profile: str | None
    slices: int
    """In use."""
    memory_bytes: int
    """Of all of them together."""
    needed_bytes: int
    """By their seats."""
    usable_bytes: int
    """Of what is left, what the smallest model of the demand could still use."""

    @property
    def wasted_bytes(self) -> int:
        """Neither needed nor of use to any model of the demand."""
        return self.memory_bytes - self.needed_bytes - self.usable_bytes


class PlanMaker(StrEnum):
    """How a plan was found."""

    SOLVER = "solver"
    FAST = "fast path"
    FIRST_FIT = "first fit"


class SharingPlan(Struct, frozen=True, kw_only=True):
    """How all devices are shared.

    Invariants: a device of the fleet each, in its order; see `check` for what makes it legal.
    """

    maker: PlanMaker
    devices: tuple[DeviceShare, ...]
    unplaced: tuple[Unplaced, ...] = ()
    cost: float
    """Of the devices in use."""
    cost_bound: float
    """No legal plan of this demand costs less."""
    is_optimal: bool
    served_bound_ratio: float = 1.0
    """Of all requests, the most that any legal plan serves: below 1 the devices are too few."""
    conflicts: tuple[str, ...] = ()
    """Where not everything is placed, a smallest set of constraints that cannot all be kept."""
    waste: tuple["Waste", ...] = ()
    """Memory that nobody can use, by kind of slice."""
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()
    """What the whole plan assumes."""
