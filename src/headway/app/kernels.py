"""Kernels by name: the policy and the predictor that a configuration or a journal's header says.

Knows which class stands behind which name. Refuses to know files and what runs on a loop.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from headway import __version__
from headway.config import (
    Batch3PolicyConfig,
    ClockworkPolicyConfig,
    Config,
    HeadwayPolicyConfig,
    NexusPolicyConfig,
    PolicyConfig,
    StaticCapPolicyConfig,
)
from headway.core import Kernel, KernelParams, Policy, Predictor, TenantId
from headway.errors import ConfigError
from headway.observe import JournalHeader
from headway.policy import (
    POLICY_PREDICTORS,
    HeadwaySettings,
    batch3,
    clockwork,
    edf,
    fifo,
    headway,
    lane_edf,
    nexus,
    pcie,
    priority,
    static_cap,
    strait,
)
from headway.predict import PREDICTORS, Recipe, build_predictor

__all__ = [
    "build_policy",
    "journal_header",
    "kernel_of",
    "own_predictor",
    "policy_from_section",
    "policy_section",
    "predictor_of",
]

_WITHOUT_SETTINGS: Final[Mapping[str, Callable[[Predictor], Policy]]] = {
    "fifo": fifo,
    "priority": priority,
    "edf": edf,
    "lane-edf": lane_edf,
    "pcie": pcie,
    "strait": strait,
}


def build_policy(section: PolicyConfig, predictor: Predictor) -> Policy:
    """The named policy with its settings."""
    return replace(_policy(section, predictor), class_slots=section.class_slots)


def _policy(section: PolicyConfig, predictor: Predictor) -> Policy:
    match section:
        case StaticCapPolicyConfig():
            return static_cap(predictor, low_max=section.low_max)
        case Batch3PolicyConfig():
            return batch3(predictor, high_max=section.high_max, low_min=section.low_min)
        case ClockworkPolicyConfig():
            return clockwork(predictor, at_once=section.at_once)
        case NexusPolicyConfig():
            return nexus(predictor, at_once=section.at_once)
        case HeadwayPolicyConfig():
            return headway(predictor, _headway_settings(section))
        case _:
            return _WITHOUT_SETTINGS[section.kind](predictor)


def _headway_settings(section: HeadwayPolicyConfig) -> HeadwaySettings:
    return HeadwaySettings(
        caution_ratio=section.caution_ratio,
        reserve_ratio=section.reserve_ratio,
        harm_ratio=section.harm_ratio,
        high_missed_ratio=section.high_missed_ratio,
        segment_ns=section.segment,
        discount_ratio=section.discount_ratio,
        starvation_ratio=section.starvation_ratio,
        starvation_share_ratio=section.starvation_share_ratio,
        refuses=section.refuses,
        drops=section.drops,
        quantum_ns=section.quantum,
        shares={TenantId(name): share for name, share in section.shares.items()},
        floors={TenantId(name): floor for name, floor in section.floors.items()},
    )


def own_predictor(section: PolicyConfig) -> str:
    """The predictor that a policy has unless another is asked for."""
    return POLICY_PREDICTORS[section.kind] or PREDICTORS[0]


def policy_section(section: PolicyConfig) -> dict[str, object]:
    """A policy's settings as plain values, for a journal's header."""
    return section.model_dump(mode="json")


def policy_from_section(settings: Mapping[str, object]) -> PolicyConfig:
    """The inverse of `policy_section`; settings that are left out have their defaults.

    Raises:
        ConfigError: this version knows no such policy, or not these settings of it.
    """
    try:
        return Config.model_validate({"policy": dict(settings)}).policy
    except ValueError as error:
        raise ConfigError(
            f"there is no policy with the settings `{dict(settings)}` here",
            path="policy",
            value=dict(settings),
            hint=f"this version has {', '.join(POLICY_PREDICTORS)}",
        ) from error


def journal_header(params: KernelParams, section: PolicyConfig, recipe: Recipe) -> JournalHeader:
    """What a journal begins with, so that `kernel_of` can rebuild the kernel; starts now."""
    return JournalHeader(
        headway=__version__,
        started_at=datetime.now(UTC).isoformat(),  # noqa: TID251 - wall clock's only appearance
        params=params,
        policy=policy_section(section),
        predictor=recipe,
    )


def predictor_of(header: JournalHeader) -> Predictor:
    """A fresh predictor as the one of a journal's run was when it began.

    Raises:
        ConfigError: this version does not have it.
        HeadwayError: it needs a package that is not installed.
    """
    recipe = header.predictor
    if recipe.kind not in PREDICTORS:
        raise ConfigError(
            f"there is no predictor `{recipe.kind}` here",
            path="predictor",
            value=recipe.kind,
            hint=f"this version has {', '.join(PREDICTORS)}",
        )
    return build_predictor(recipe, header.params.devices)


def kernel_of(header: JournalHeader, predictor: Predictor | None = None) -> Kernel:
    """A fresh kernel with the limits, the policy and the predictor of a journal's run.

    Args:
        header: of the journal.
        predictor: instead of the run's own.

    Raises:
        ConfigError: this version does not have the policy or the predictor.
    """
    predictor = predictor_of(header) if predictor is None else predictor
    return Kernel(header.params, build_policy(policy_from_section(header.policy), predictor))
