"""Policies as the configuration knows them: a section each, told apart by `kind`.

Knows the settings of every policy. Refuses to know what a policy decides: that stands in
`headway.policy`, under the same names.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from headway.config.quantities import Duration, PositiveDuration
from headway.config.section import Section, Whole
from headway.policy import POLICY_PREDICTORS
from headway.units import NS_PER_MS

__all__ = [
    "Batch3PolicyConfig",
    "ClockworkPolicyConfig",
    "EdfPolicyConfig",
    "FifoPolicyConfig",
    "HeadwayPolicyConfig",
    "LaneEdfPolicyConfig",
    "NexusPolicyConfig",
    "PciePolicyConfig",
    "PolicyConfig",
    "PriorityPolicyConfig",
    "StaticCapPolicyConfig",
    "StraitPolicyConfig",
    "with_own_predictor",
]


class FifoPolicyConfig(Section):
    """Arrival order, no classes: the baseline."""

    kind: Literal["fifo"]
    """Arrival order."""
    class_slots: bool = False
    """Tell a slot the class of its batch; false runs every batch as `high`."""


class _ClassedPolicyConfig(Section):
    """What policies have in common that tell a slot the class of its batch."""

    class_slots: bool = True
    """Tell a slot the class of its batch; false runs every batch as `high`."""


class PriorityPolicyConfig(_ClassedPolicyConfig):
    """Strict priority; arrival order inside one."""

    kind: Literal["priority"]
    """Strict priority."""


class EdfPolicyConfig(_ClassedPolicyConfig):
    """The earliest deadline first, whatever the priority."""

    kind: Literal["edf"]
    """Earliest deadline first."""


class StaticCapPolicyConfig(_ClassedPolicyConfig):
    """Strict priority, with a limit on the low batches that run at once."""

    kind: Literal["static-cap"]
    """Strict priority, low work capped."""
    low_max: Whole = 0
    """Batches of slot class `low` that may run at once on a device; 0 is one for each lane."""


class LaneEdfPolicyConfig(_ClassedPolicyConfig):
    """One high and one low batch a lane, the earliest deadline first in each class."""

    kind: Literal["lane-edf"]
    """Per lane one high and one low batch."""


class Batch3PolicyConfig(_ClassedPolicyConfig):
    """Three tiers: at once, after a linger, only on an idle device."""

    kind: Literal["batch3"]
    """Three tiers of batching."""
    high_max: Whole = 0
    """Priorities up to this one never wait for company."""
    low_min: Whole = 5
    """Priorities from this one on start only on a device that runs nothing."""

    @model_validator(mode="after")
    def _is_ordered(self) -> "Batch3PolicyConfig":
        if self.low_min <= self.high_max:
            raise ValueError(
                f"low_min, `{self.low_min}`, must be above high_max, `{self.high_max}`: "
                "no priority can be both"
            )
        return self


class ClockworkPolicyConfig(_ClassedPolicyConfig):
    """One batch at a time, the latest start first; what would be late is given up.

    Has the predictor `max10` unless another is written.
    """

    kind: Literal["clockwork"]
    """One batch at a time."""
    at_once: Whole = 0
    """Batches that may run at once on a device; 0 is one for each lane that slots share, and one
    where every slot has a lane of its own."""


class NexusPolicyConfig(_ClassedPolicyConfig):
    """One batch at a time; heads that would spoil a batch are given up.

    Has the predictor `fixed` unless another is written.
    """

    kind: Literal["nexus"]
    """Early drop."""
    at_once: Whole = 0
    """Batches that may run at once on a device; 0 is one for each lane that slots share, and one
    where every slot has a lane of its own."""


class PciePolicyConfig(_ClassedPolicyConfig):
    """Strict priority, by slack inside one; low inputs wait while high ones are copied."""

    kind: Literal["pcie"]
    """Strict priority with an eye on the link."""


class StraitPolicyConfig(_ClassedPolicyConfig):
    """Two classes by slack; low work starts where it is predicted to break no deadline.

    It is promoted once it has waited for half of its budget. Has the predictor `windowed-pcie`
    unless another is written.
    """

    kind: Literal["strait"]
    """Two classes by slack, with prediction."""


_Ratio = Annotated[float, Field(ge=0.0, le=1.0)]
_Weight = Annotated[float, Field(gt=0.0, le=1e6)]


class HeadwayPolicyConfig(_ClassedPolicyConfig):
    """Decides by prediction what starts, waits and is refused; its own predictor is `headway`."""

    kind: Literal["headway"]
    """By prediction."""
    caution_ratio: _Ratio = 0.0
    """How a forecast is read for those whom a start may harm: 0 at its mean, 1 at its bound."""
    reserve_ratio: Annotated[float, Field(ge=0.0, le=100.0)] = 0.0
    """High requests that the start of a low one is expected to make late are held against it so
    many times: below 1 of the product it starts. 0 starts low work wherever a lane is free."""
    harm_ratio: Annotated[float, Field(ge=0.0, le=100.0)] = 0.2
    """High requests that the start of a low one among others may be expected to make late, on a
    device that all its slots share, such as an accelerator; 0 for no limit."""
    high_missed_ratio: _Ratio = 0.01
    """Part of high requests that may miss their deadline; above it the reserve grows."""
    segment: Duration = 12 * NS_PER_MS
    """Length of the segments of low requests of several rows where high work is expected; 0 never
    splits."""
    discount_ratio: _Ratio = 0.7
    """Part of the expected high load that is taken off the capacity for low work, in judging which
    low requests can still be in time."""
    starvation_ratio: _Ratio = 0.5
    """Part of its own budget that a low request may wait; then it starts or is told no. 0 for no
    such bound."""
    starvation_share_ratio: _Ratio = 0.05
    """Part of the devices' time that may go to requests started only because they have waited for
    so long."""
    refuses: bool = True
    """Refuse at the door who would be given up later; false gives up only once it is sure."""
    drops: bool = True
    """Give up who cannot be in time, so that others can; false gives up only what is hopeless."""
    quantum: PositiveDuration = 250 * NS_PER_MS
    """Device time of a round of tenants."""
    shares: dict[str, _Weight] = Field(default_factory=dict)
    """Tenant -> weight of its share within a class; those not named have 1."""
    floors: dict[str, _Ratio] = Field(default_factory=dict)
    """Tenant -> part of a class's device time that it has at least."""


PolicyConfig = (
    FifoPolicyConfig
    | PriorityPolicyConfig
    | EdfPolicyConfig
    | StaticCapPolicyConfig
    | LaneEdfPolicyConfig
    | Batch3PolicyConfig
    | ClockworkPolicyConfig
    | NexusPolicyConfig
    | PciePolicyConfig
    | StraitPolicyConfig
    | HeadwayPolicyConfig
)


def with_own_predictor(data: object) -> object:
    """Raw settings; where they name a policy and no predictor, with the one the policy has."""
    if not isinstance(data, Mapping) or "predictor" in data:
        return data
    kind = _kind_of(data.get("policy"))
    own = POLICY_PREDICTORS.get(kind, "") if isinstance(kind, str) else ""
    return {**data, "predictor": {"kind": own}} if own else data


def _kind_of(policy: Any) -> object:
    if isinstance(policy, Mapping):
        return policy.get("kind")
    return getattr(policy, "kind", None)
