"""What is to be placed: models with their load, size and speed, and what their tenants need.

Plain values, as `spec` makes them of a file. Knows no device by name: only of which products a
model's times are known.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from headway.core import ModelName, SlotClass, TenantId, TierName

__all__ = ["Chain", "Demand", "IsolationNeed", "MeasuredTimes", "ModelDemand", "Spread"]


class IsolationNeed(StrEnum):
    """What a tenant must be spared of other tenants. Its own models may always share."""

    NONE = "none"
    """Nothing: whoever shares the device is trusted."""
    MEMORY = "memory"
    """Another tenant may not use up its memory."""
    FAULT = "fault"
    """Another tenant's fault may not end its processes."""
    STRONG = "strong"
    """Both, and another tenant may take none of its memory bandwidth and caches."""


class Spread(StrEnum):
    """What two replicas of one model may not share, so that one loss does not take both."""

    NONE = "none"
    DEVICE = "device"
    NODE = "node"


class MeasuredTimes(Struct, frozen=True, kw_only=True):
    """Solo service times of one model on a part of a device of one product."""

    product: str
    """Of the device, as in the fleet."""
    compute_ratio: float = 1.0
    """Part of the device's multiprocessors (SM) that it ran on: 1 for all of them."""
    service_ns: Mapping[int, int]
    """By rows of the batch."""


class ModelDemand(Struct, frozen=True, kw_only=True):
    """One model: how often it is asked for, what it takes, and by when it must have answered."""

    name: ModelName
    tenant: TenantId
    tier: TierName
    priority: int
    """Lower is served first."""
    slot_class: SlotClass
    budget_ns: int
    """From arrival to the last byte; of a step of a chain its part of the chain's budget."""
    attainment_ratio: float
    """Part of the requests that must be answered within their budget."""
    rate_rps: float
    """Requests a second in the busiest hour, those of chains included."""
    request_rows: int = 1
    """Rows of one request."""
    arrivals_cv: float = 1.0
    """Standard deviation over mean of the gaps between arrivals: 1 for independent ones."""
    service_cv: float = 0.0
    """Standard deviation over mean of a batch's time around its profile."""
    batch_rows_max: int = 1
    linger_ns: int = 0
    times: tuple[MeasuredTimes, ...]
    """At least one. On products without a measurement only where the fleet knows a speed."""
    weights_bytes: int
    """Of one replica, all devices of a gang together."""
    overhead_bytes: int
    """What a process takes on each device beside the weights: context and libraries."""
    row_bytes: int
    """Memory that one row holds while it is in a batch: activations, key-value cache."""
    gang_devices: int = 1
    """Whole devices that one replica takes, all in one NVLink domain."""
    replicas_min: int = 1
    replicas_max: int = 64
    spread: Spread = Spread.NONE
    apart_from: tuple[ModelName, ...] = ()
    """Models that may not sit on the same device."""


class Chain(Struct, frozen=True, kw_only=True):
    """Models that serve one request one after another, and so should be near each other."""

    name: ModelName
    steps: tuple[ModelName, ...]
    rate_rps: float
    budget_ns: int


class Demand(Struct, frozen=True, kw_only=True):
    """All that is to be placed.

    Invariants: names are unique; every tenant and every model that is named exists.
    """

    models: tuple[ModelDemand, ...]
    isolation: Mapping[TenantId, IsolationNeed]
    """What each tenant needs; every tenant is in it."""
    chains: tuple[Chain, ...] = ()
