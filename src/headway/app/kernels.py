"""Kernels by name: the policy and the predictor that a configuration or a journal's header says.

Knows which class stands behind which name. Refuses to know files and what runs on a loop.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from headway import __version__
from headway.config import Config, PolicyConfig
from headway.core import Kernel, KernelParams, Policy, Predictor
from headway.errors import ConfigError
from headway.observe import JournalHeader
from headway.policy import edf, fifo, priority
from headway.predict import PREDICTORS, Recipe, build_predictor

__all__ = [
    "build_policy",
    "journal_header",
    "kernel_of",
    "policy_from_section",
    "policy_section",
    "predictor_of",
]

_POLICIES: Final[Mapping[str, Callable[[Predictor], Policy]]] = {
    "fifo": fifo,
    "priority": priority,
    "edf": edf,
}


def build_policy(section: PolicyConfig, predictor: Predictor) -> Policy:
    """The named policy with its settings."""
    return replace(_POLICIES[section.kind](predictor), class_slots=section.class_slots)


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
            hint=f"this version has {', '.join(_POLICIES)}",
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
