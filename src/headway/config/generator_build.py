"""From the section `generators` to what the built-in engine and its door are built from."""

from collections.abc import Mapping
from typing import NamedTuple

from headway.config.build import tiers
from headway.config.generators import GeneratorConfig, GeneratorTierConfig
from headway.config.schema import Config
from headway.core import ModelName, TierName
from headway.decoder import DecoderLimits, GeneratorParams, Start
from headway.generate import PreemptWay, StepSettings, SwapSettings, TierTerms

__all__ = ["GeneratorPlan", "generator_plans"]


class GeneratorPlan(NamedTuple):
    """A generator, and what its clients are promised."""

    params: GeneratorParams
    tier: TierName
    """Of requests that name none."""
    terms: Mapping[TierName, TierTerms]
    budgets_ns: Mapping[TierName, int]
    answer_tokens_max: int


def generator_plans(config: Config, seed: int) -> list[GeneratorPlan]:
    """Every generator.

    Args:
        config: the configuration.
        seed: of the chance of generators that name none.
    """
    return [_plan(config, one, seed) for one in config.generators]


def _plan(config: Config, one: GeneratorConfig, seed: int) -> GeneratorPlan:
    default = "default" if "default" in config.tiers else next(iter(config.tiers))
    known = tiers(config)
    start = Start(
        folder=one.path,
        limits=DecoderLimits(
            kv_bytes=one.kv_cache,
            host_bytes=one.kv_host,
            context=one.context,
            sequences_max=one.sequences_max,
            step_tokens_max=one.step_tokens_max,
            waiting_max=one.waiting_max,
            threads=one.threads,
        ),
        settings=_settings(one),
        seed=f"{seed if one.seed is None else one.seed}/{one.name}",
        niceness=one.niceness,
    )
    return GeneratorPlan(
        params=GeneratorParams(
            name=ModelName(one.name),
            start=start,
            restart_delay_ns_min=config.limits.restart_delay_min,
            restart_delay_ns_max=config.limits.restart_delay_max,
            step_ns_max=one.step_max,
            load_ns_max=one.load_max,
        ),
        tier=TierName(one.tier or default),
        terms={name: _terms(name, tier.priority, one) for name, tier in known.items()},
        budgets_ns={name: tier.budget_ns for name, tier in known.items()},
        answer_tokens_max=one.answer_tokens_max,
    )


def _settings(one: GeneratorConfig) -> StepSettings:
    """The engine bounds what the host holds by bytes, once it knows what a token takes."""
    if one.kv_host:
        return StepSettings()
    return StepSettings(swap=SwapSettings(ways=(PreemptWay.RECOMPUTE,)))


def _terms(name: TierName, priority: int, one: GeneratorConfig) -> TierTerms:
    own = one.tiers.get(name, GeneratorTierConfig())
    return TierTerms(
        name=name,
        priority=priority,
        ttft_ns=own.ttft,
        tpot_ns=own.tpot,
        is_gated=own.gated,
        refuses_unreachable=own.refuse_unreachable,
    )
