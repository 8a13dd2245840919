"""The file of `headway plan`: models, tenants and devices as people write them.

Knows what may be written; `sharing_build` makes the planner's plain values of it. The string under
a field is its documentation, in the reference page and in the hints of errors.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from headway.config.checks import CrossCheckError
from headway.config.quantities import Duration, PositiveDuration, PositiveSize, Size
from headway.config.section import Count, Name, PathName, Section, Whole
from headway.config.sharing_checks import sharing_problems
from headway.core import SlotClass
from headway.plan import IsolationNeed, Spread
from headway.units import NS_PER_S

__all__ = [
    "ChainConfig",
    "FleetConfig",
    "FleetDeviceConfig",
    "FleetNodeConfig",
    "MigInstanceConfig",
    "MigStateConfig",
    "PlannedModelConfig",
    "PlannedTenantConfig",
    "PlannedTierConfig",
    "SharingConfig",
    "TimesConfig",
]

Part = Annotated[float, Field(gt=0, le=1)]
Rate = Annotated[float, Field(gt=0, le=1e9)]
RowsText = Annotated[str, Field(pattern=r"^[1-9][0-9]*$")]


class PlannedTierConfig(Section):
    """A class of service."""

    budget: PositiveDuration = 30 * NS_PER_S
    """Time from arrival to the last byte."""
    priority: Whole = 1
    """Lower is served first."""
    slot_class: SlotClass = SlotClass.HIGH
    """`low` work gives way to `high` in the same slice."""
    attainment: Annotated[float, Field(gt=0, lt=1)] = 0.99
    """Part of the requests that must be answered within the budget."""


class PlannedTenantConfig(Section):
    """Whoever models belong to."""

    isolation: IsolationNeed = IsolationNeed.NONE
    """What it must be spared of other tenants: `memory` of their using it up, `fault` of their
    faults, `strong` of both and of their taking bandwidth and caches."""


class TimesConfig(Section):
    """Service times of a model, measured on one product."""

    product: str = Field(min_length=1, max_length=64)
    """Of the GPU, as under fleet."""
    part: Part | None = None
    """Part of its multiprocessors that it ran on; left out, all."""
    slice: str | None = None
    """The MIG profile that it ran in, instead of a part."""
    service: dict[RowsText, PositiveDuration] = Field(default_factory=dict)
    """Time of a batch by its rows, `{1: 9ms, 8: 30ms}`."""
    profile: str | None = None
    """A file of `headway profile` instead, with a model of this name; relative to this file."""


class PlannedModelConfig(Section):
    """A model to place."""

    name: PathName
    """What it is called."""
    tenant: Name
    """Whose it is."""
    tier: Name
    """How it is to be served."""
    rate: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    """Requests a second in the busiest hour, those of chains apart."""
    rows: Count = 1
    """Of one request."""
    arrivals_cv: Annotated[float, Field(ge=0, le=100)] = 1.0
    """Standard deviation over mean of the gaps between requests: 1 for independent ones."""
    service_cv: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Standard deviation over mean of a batch's time."""
    batch_rows_max: Count = 1
    """Rows of the largest batch."""
    linger: Duration = 0
    """How long a request waits for company."""
    times: tuple[TimesConfig, ...] = Field(min_length=1)
    """Where it was measured, and how long batches took there."""
    weights: PositiveSize
    """Memory of its weights; of a replica over several devices of all of them."""
    overhead: Size = 600 << 20
    """Memory of a process beside the weights on each device: context and libraries."""
    row: Size = 0
    """Memory of one row while it is in a batch: activations, key-value cache."""
    gang: Count = 1
    """Whole devices that one replica takes, in one NVLink domain."""
    replicas_min: Count = 1
    """At least so many."""
    replicas_max: Annotated[int, Field(ge=1, le=4096, strict=True)] = 64
    """At most so many."""
    spread: Spread = Spread.NONE
    """What two replicas may not share."""
    apart_from: tuple[PathName, ...] = ()
    """Models that may not sit on the same device."""


class ChainConfig(Section):
    """Models that serve one request one after another."""

    name: PathName
    """What it is called."""
    tier: Name
    """How it is to be served: its budget is divided among the steps by their times."""
    rate: Rate
    """Requests a second; each asks every step once."""
    steps: tuple[PathName, ...] = Field(min_length=2)
    """Models, in order; they are placed near each other."""


class MigInstanceConfig(Section):
    """A MIG instance that exists."""

    profile: str
    """As the driver names it, `3g.40gb`."""
    start: Whole
    """Where it begins, as `nvidia-smi mig -lgi` prints under placement."""
    busy: bool = False
    """Something runs in it that may not be stopped."""


class MigStateConfig(Section):
    """How a device is partitioned today."""

    enabled: bool = True
    """It is in MIG mode."""
    instances: tuple[MigInstanceConfig, ...] = ()
    """What exists."""


class FleetDeviceConfig(Section):
    """One GPU, or several alike."""

    product: str = Field(min_length=1, max_length=64)
    """A GPU of the MIG table, such as `A100-80GB`, or any other name."""
    count: Annotated[int, Field(ge=1, le=4096, strict=True)] = 1
    """How many alike, one after another."""
    memory: PositiveSize | None = None
    """Usable memory; of a GPU of the table as its largest instance has."""
    multiprocessors: Count | None = None
    """How many (SM); of a GPU of the table as it says."""
    mig: MigStateConfig | None = None
    """How it is partitioned today; left out, not at all."""
    uuid: str = ""
    """As the driver prints it."""
    numa: Whole | None = None
    """NUMA node."""
    nvlink: Name | None = None
    """NVLink domain: devices that name the same one reach each other."""
    cost: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """Of using it, relative to the others."""


class FleetNodeConfig(Section):
    """A machine."""

    name: Name
    """What it is called."""
    devices: tuple[FleetDeviceConfig, ...] = Field(min_length=1)
    """In the driver's order."""
    topology: str | None = None
    """A file with what `nvidia-smi topo -m` printed there, relative to this file: NVLink domains
    and NUMA nodes are read from it where devices do not name theirs."""


class FleetConfig(Section):
    """The devices that there are."""

    nodes: tuple[FleetNodeConfig, ...] = Field(min_length=1)
    """Machines."""
    speeds: dict[str, Rate] = Field(default_factory=dict)
    """How fast a whole GPU is, by product, relative to each other, for models that were not
    measured on it: an assumption, which the plan repeats."""


class SharingConfig(Section):
    """What is to be placed, and on what.

    Invariants: whatever is named exists; names are unique.
    """

    tiers: dict[Name, PlannedTierConfig] = Field(min_length=1)
    """Classes of service."""
    tenants: dict[Name, PlannedTenantConfig] = Field(min_length=1)
    """Whoever models belong to."""
    models: tuple[PlannedModelConfig, ...] = Field(min_length=1)
    """What is to be placed."""
    chains: tuple[ChainConfig, ...] = ()
    """Models that serve one request together."""
    fleet: FleetConfig
    """On what."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        problems = tuple(sharing_problems(self))
        if problems:
            raise CrossCheckError(problems)
        return self
