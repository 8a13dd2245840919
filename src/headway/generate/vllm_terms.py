"""What the plug-in for vLLM is told: its settings, and who a request is from.

Settings are the value of `headway` in vLLM's `--additional-config`. A request says who it is from
and what it may expect in `vllm_xargs`, which any client can send in the body:

    tenant    whoever is accounted for
    tier      a name from the settings; its priority, targets and gate
    ttft_ms   target of its first token, instead of the tier's
    tpot_ms   target of each token after that, instead of the tier's

A request without a tier is in the class of its `priority` (lower goes first), with no targets.

Knows text and numbers. Refuses to know vLLM.
"""

from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec
from msgspec import Struct, field

from headway.core import TenantId, TierName
from headway.errors import ConfigError
from headway.generate.aging import AgingSettings
from headway.generate.credits import CreditSettings
from headway.generate.events import PreemptWay
from headway.generate.names import TierTerms
from headway.generate.settings import StepSettings
from headway.generate.step_times import StepLaw
from headway.generate.swap import CopyLaw, SwapSettings
from headway.generate.victims import VictimSettings
from headway.generate.watermark import MarkAction, WatermarkSettings
from headway.units import NS_PER_MS, NS_PER_S, parse_bytes, parse_duration_ns

__all__ = ["PRIORITY_MAX", "Origin", "PluginSettings", "TierSettings"]

PRIORITY_MAX: Final = 100
"""Priorities beyond it count as it, or as its negative: each is a class with books of its own."""
_DEFAULT_TENANT: Final = TenantId("default")
_NAME_LENGTH_MAX: Final = 128
_WHERE: Final = "--additional-config headway"


class TierSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tier."""

    priority: int = 0
    """Lower is served first; from -100 to 100, the same scale as a request's `priority`."""
    ttft: str | None = None
    """Target from arrival to the first token, such as "400ms"; none where it is left out."""
    tpot: str | None = None
    """Target for each token after the first, on average."""
    gated: bool = False
    """Wait while the memory for keys and values is used beyond `high_ratio`."""


class Origin(Struct, frozen=True):
    """Who a request is from, and its terms."""

    tenant: TenantId
    terms: TierTerms


class PluginSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that can be set."""

    tiers: dict[str, TierSettings] = {}
    """By name."""
    tier: str | None = None
    """Of requests that name neither a tier nor a priority."""
    weights: dict[str, float] = {}
    """Of tenants; those not named have 1."""
    quantum: float = 512.0
    """Units that weight 1 is given in a round."""
    carry_rounds: float = 2.0
    """Rounds that a tenant may carry over."""
    input_weight: float = 1.0
    """Units of a prompt token."""
    output_weight: float = 2.0
    """Units of a generated token."""
    high_ratio: float = 0.85
    """Of the memory for keys and values, from which gated tiers wait."""
    low_ratio: float = 0.70
    """Of it, below which they begin again."""
    mark_action: MarkAction = MarkAction.GATE
    """`gate`, or `evict` for the textbook form."""
    preempts_max: int = 2
    """Times that a request is preempted at most."""
    quantum_steps: int = 8
    """Steps that a request has before it can be preempted."""
    age_after: str = "30s"
    """Waiting time from which a class is owed a part of what is served."""
    floor_ratio: float = 0.05
    """That part."""
    haste_ratio: float = 0.25
    """Part of the time to its target that a prompt is planned to be through in."""
    output_level: float = 0.6
    """Of the quantile by which the length of an answer is foreseen."""
    learns: bool = True
    """Fit the law of step times while it runs."""
    step_law: StepLaw = field(default_factory=StepLaw)
    """Its coefficients to begin with: base_ns, prefill_ns, pair_ns, decode_ns, context_ns, and
    free_tokens."""
    host_memory: str = "4GiB"
    """For victims' keys and values, where they are swapped."""
    link_bandwidth: str = "16GiB"
    """To the host and back, a second."""
    copy_setup: str = "1ms"
    """That a copy takes beside its bytes."""
    ways: tuple[PreemptWay, ...] = (PreemptWay.RECOMPUTE, PreemptWay.SWAP)
    """Those allowed where there is a connector to swap with; with both, the cheaper is taken."""
    is_checked: bool = False
    """Demand every invariant after each step. For tests; slow."""

    @classmethod
    def read(cls, section: object) -> Self:
        """Take in the section as vLLM hands it over; None for all defaults.

        Raises:
            ConfigError: a name is unknown, or a value is not of its kind or out of its range.
        """
        try:
            settings = msgspec.convert({} if section is None else section, type=cls)
            settings.step_settings(1.0)
            settings.copy_law(1.0)
            for name in settings.tiers:
                settings.terms_of_tier(name)
        except (msgspec.ValidationError, ValueError) as error:
            raise ConfigError(
                f"{_WHERE}: {error}",
                path=_WHERE,
                value=section,
                hint="docs/guides/vllm.md lists what can be set",
            ) from error
        if settings.tier is not None and settings.tier not in settings.tiers:
            raise ConfigError(
                f"{_WHERE}.tier: `{settings.tier}` is not among the tiers",
                path=f"{_WHERE}.tier",
                value=settings.tier,
                hint="name one of: " + ", ".join(sorted(settings.tiers)),
            )
        return settings

    def copy_law(self, token_bytes: float) -> CopyLaw:
        """What a copy takes, when a token's keys and values are so large."""
        bytes_per_s = parse_bytes(self.link_bandwidth)
        if bytes_per_s < 1:
            raise ValueError(f"link_bandwidth must be above 0, not `{self.link_bandwidth}`")
        return CopyLaw(
            fixed_ns=float(parse_duration_ns(self.copy_setup)),
            token_ns=token_bytes * NS_PER_S / bytes_per_s,
        )

    def step_settings(self, token_bytes: float | None) -> StepSettings:
        """What the step scheduler is built from; None for an engine that cannot swap."""
        swap = SwapSettings(ways=(PreemptWay.RECOMPUTE,))
        if token_bytes is not None:
            tokens_max = int(parse_bytes(self.host_memory) / token_bytes)
            swap = SwapSettings(ways=self.ways, host_tokens_max=tokens_max)
        weights = {TenantId(tenant): weight for tenant, weight in self.weights.items()}
        return StepSettings(
            credits=CreditSettings(
                quantum=self.quantum,
                carry_rounds=self.carry_rounds,
                input_weight=self.input_weight,
                output_weight=self.output_weight,
                weights=weights,
            ),
            watermark=WatermarkSettings(
                high_ratio=self.high_ratio, low_ratio=self.low_ratio, action=self.mark_action
            ),
            victims=VictimSettings(
                quantum_steps=self.quantum_steps, preempts_max=self.preempts_max
            ),
            swap=swap,
            aging=AgingSettings(
                after_ns=parse_duration_ns(self.age_after), floor_ratio=self.floor_ratio
            ),
            output_level=self.output_level,
            haste_ratio=self.haste_ratio,
            learns=self.learns,
        )

    def terms_of_tier(self, name: str) -> TierTerms:
        """What a tier promises.

        Raises:
            ValueError: a duration cannot be read.
        """
        tier = self.tiers[name]
        return TierTerms(
            name=TierName(name),
            priority=_class_of(tier.priority),
            ttft_ns=None if tier.ttft is None else parse_duration_ns(tier.ttft),
            tpot_ns=None if tier.tpot is None else parse_duration_ns(tier.tpot),
            is_gated=tier.gated,
        )

    def origin_of(self, extra_args: Mapping[str, Any] | None, priority: int) -> Origin:
        """Who a request is from. What it says wrong about itself is left out: it is served."""
        args = extra_args or {}
        name = args.get("tier")
        if not isinstance(name, str) or name not in self.tiers:
            name = self.tier if priority == 0 else None
        if name is None:
            terms = TierTerms(name=TierName(f"priority {priority}"), priority=_class_of(priority))
        else:
            terms = self.terms_of_tier(name)
        ttft_ns, tpot_ns = _target_ns(args.get("ttft_ms")), _target_ns(args.get("tpot_ms"))
        if ttft_ns or tpot_ns:
            terms = msgspec.structs.replace(
                terms, ttft_ns=ttft_ns or terms.ttft_ns, tpot_ns=tpot_ns or terms.tpot_ns
            )
        tenant = args.get("tenant")
        if isinstance(tenant, str | int) and str(tenant):
            return Origin(TenantId(str(tenant)[:_NAME_LENGTH_MAX]), terms)
        return Origin(_DEFAULT_TENANT, terms)


def _class_of(priority: int) -> int:
    """A class of ours, which begin at 0."""
    return min(max(priority, -PRIORITY_MAX), PRIORITY_MAX) + PRIORITY_MAX


def _target_ns(value: object) -> int | None:
    """Milliseconds that a request gives; None where it gives none that can be kept."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        return None
    return int(value * NS_PER_MS)
