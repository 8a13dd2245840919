"""The story that the demo tells: who asks for what, how much of it, and by when.

Pure. Knows the tiers, how budgets follow from the time that each model takes when it runs alone,
and how much work makes a machine too busy. Never how any of that was measured.

Every number is relative to this machine. A budget is a multiple of the tier's own work, and leaves
room for two runs of the slowest model, because a run that has begun is never taken off its slot.
The load is a multiple of what this machine was seen to do, generator and all, so that it is too
much everywhere, and equally so.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path
from typing import Final

from headway.core import SlotClass, TierName
from headway.demo.catalogue import CATALOGUE, find_model
from headway.demo.pipeline import PIPELINE_MODELS, pipeline_lines
from headway.errors import ConfigError
from headway.units import NS_PER_MS, NS_PER_S, format_duration

__all__ = [
    "CALIBRATION_BUDGET_NS",
    "CORES_MAX",
    "OVERLOAD_RATIO",
    "TIERS",
    "DemoTier",
    "Scenario",
    "choose_models",
    "config_text",
]

OVERLOAD_RATIO: Final = 1.2
"""Offered load over capacity."""
CORES_MAX: Final = 4
"""Cores that serve. One process makes the load, and must be able to keep more than these busy."""
CALIBRATION_BUDGET_NS: Final = 30 * NS_PER_S
"""For the server that is measured before there are budgets."""

_SLOWEST_RUNS: Final = 2
"""Runs of the slowest model for which every budget leaves room."""
_QUEUE_BUDGET_RATIO: Final = 0.5
_QUEUE_CORES_RATIO: Final = 0.5
_SLOTS_PER_CORE: Final = 1
_ROWS_MAX: Final[Mapping[str, int]] = {"silero-vad": 8}
"""Rows of a batch, where it is not 1: on a CPU larger batches of large models gain nothing."""
_WARMUP_SIZES: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = {
    "magika": {"bytes": (2048,)},
    "silero-vad": {"input": (576,), "memory": (2, 128)},
    "ocr-detect": {"x": (3, 320, 320)},
    "ocr-recognise": {"x": (3, 48, 320)},
    "opennsfw": {"input:0": (224, 224, 3)},
    "minilm": {"input_ids": (32,), "attention_mask": (32,)},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTier:
    """A class of service, and what is asked for in it."""

    name: TierName
    priority: int
    own_runs: int
    """Runs of its own slowest model that the budget holds, beside those of the slowest of all."""
    work: Mapping[str, float]
    """Model -> its part of all the work that is offered."""
    slot_class: SlotClass = SlotClass.HIGH
    is_bursty: bool = False


TIERS: Final = (
    DemoTier(name=TierName("speech"), priority=0, own_runs=4, work={"silero-vad": 0.05}),
    DemoTier(name=TierName("interactive"), priority=1, own_runs=4, work={"minilm": 0.17}),
    DemoTier(name=TierName("standard"), priority=2, own_runs=20, work={"magika": 0.12}),
    DemoTier(
        name=TierName("bulk"),
        priority=3,
        own_runs=60,
        work={"ocr-detect": 0.22, "ocr-recognise": 0.22, "opennsfw": 0.22},
        slot_class=SlotClass.LOW,
        is_bursty=True,
    ),
)


def choose_models(names: Sequence[str] | None) -> tuple[str, ...]:
    """Names from the catalogue, in its order; all of them by default.

    Raises:
        ConfigError: a name that is not in it.
    """
    known = tuple(model.name for model in CATALOGUE)
    if names is None:
        return known
    for name in names:
        if name not in known:
            message = f"the demo has no model `{name}`"
            raise ConfigError(message, path="models", value=name, hint=f"valid: {', '.join(known)}")
    return tuple(name for name in known if name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The story on one machine."""

    solo_ns: Mapping[str, int]
    """Model -> the typical time of one request that has the server to itself."""
    core_count: int
    """Cores that serve."""

    @property
    def tiers(self) -> tuple[DemoTier, ...]:
        """Those that have a model here."""
        return tuple(tier for tier in TIERS if self.models_of(tier))

    def models_of(self, tier: DemoTier) -> tuple[str, ...]:
        """The models of a tier that are served here."""
        return tuple(name for name in tier.work if name in self.solo_ns)

    def budgets_ns(self) -> dict[TierName, int]:
        """How long each tier may take, from arrival to the last byte."""
        slowest_ns = max(self.solo_ns.values())
        return {
            tier.name: _round_up(
                _SLOWEST_RUNS * slowest_ns
                + tier.own_runs * max(self.solo_ns[name] for name in self.models_of(tier))
            )
            for tier in self.tiers
        }

    def rates_rps(self, work_ratio: float) -> dict[str, float]:
        """Requests a second of each model, all together this many times the cores' time."""
        work = {name: tier.work[name] for tier in self.tiers for name in self.models_of(tier)}
        time_ns = work_ratio * self.core_count * NS_PER_S / sum(work.values())
        return {name: part * time_ns / self.solo_ns[name] for name, part in work.items()}

    def queue_limit(self, tier: DemoTier) -> int | None:
        """Requests of one model of a bursty tier that may wait; None leaves it to the server.

        What waits at the end of a longer queue would be begun just in time to be finished too late:
        work done for nobody. Counted for half of the budget, at half of the cores' time.
        """
        if not tier.is_bursty:
            return None
        names = self.models_of(tier)
        each_ns = sum(self.solo_ns[name] for name in names)
        usable_ns = self.budgets_ns()[tier.name] * self.core_count
        return max(2, round(usable_ns * _QUEUE_BUDGET_RATIO * _QUEUE_CORES_RATIO / each_ns))

    def workload(self, work_ratio: float, *, duration_ns: int, seed: int) -> dict[str, object]:
        """The load, as workloads are written down."""
        rates_rps = self.rates_rps(work_ratio)
        return {
            "duration": f"{duration_ns}ns",
            "seed": seed,
            "streams": [
                {"model": name, "tier": tier.name, "arrivals": _arrivals(rates_rps[name], tier)}
                for tier in self.tiers
                for name in self.models_of(tier)
            ],
        }


def _arrivals(rate_rps: float, tier: DemoTier) -> dict[str, object]:
    """Poisson; a bursty tier sends half as much again for three seconds, then rests for two."""
    if not tier.is_bursty:
        return {"kind": "poisson", "rate_rps": rate_rps}
    return {
        "kind": "on_off",
        "rate_on_rps": 1.4 * rate_rps,
        "on": "3s",
        "rate_off_rps": 0.4 * rate_rps,
        "off": "2s",
    }


def _round_up(duration_ns: int) -> int:
    """To two digits of milliseconds, as people would choose a budget."""
    duration_ms = duration_ns / NS_PER_MS
    step_ms: int = 10 ** max(0, floor(log10(duration_ms)) - 1)
    return ceil(duration_ms / step_ms) * step_ms * NS_PER_MS


def config_text(
    models: Mapping[str, Path],
    scenario: Scenario | None,
    *,
    cores: Sequence[int] | None,
    port: int,
    page_origin: str | None = None,
) -> str:
    """The configuration as a file for people to read.

    Args:
        models: their ONNX files by name.
        scenario: None before anything was measured; then every budget is wide.
        cores: those that serve; None is all.
        port: to listen on.
        page_origin: of a page elsewhere that may look at the server; None for no such page.
    """
    tiers = [tier for tier in TIERS if any(name in models for name in tier.work)]
    wide_ns = dict.fromkeys((tier.name for tier in tiers), CALIBRATION_BUDGET_NS)
    budgets_ns = wide_ns if scenario is None else scenario.budgets_ns()
    lines = [
        "# Written by `headway demo`. Serve it with: headway serve <this file>",
        "",
        "server:",
        "  host: 127.0.0.1",
        f"  port: {port}",
        "  grace: 2s",
        *([] if page_origin is None else [f"  cors_origins: [{json.dumps(page_origin)}]"]),
        "",
        "# The lower the priority, the earlier the turn. Budgets are multiples of the times which",
        "# the models take alone on this machine. A request may also name another tier.",
        "tiers:",
        *(_tier_line(tier, budgets_ns[tier.name]) for tier in tiers),
        "",
        "# One batch on each core at a time: what has begun is not interrupted, so the more runs",
        "# side by side, the longer each of them keeps its slot.",
        "devices:",
        "  - name: cpu:0",
        f"    slots_per_core: {_SLOTS_PER_CORE}",
        *([] if cores is None else [f"    cores: [{', '.join(map(str, cores))}]"]),
        "",
        "policy: {kind: headway}   # or `headway serve <this file> --policy fifo`",
        "",
        "models:",
    ]
    for tier in tiers:
        for name in tier.work:
            if name in models:
                lines += _model_lines(name, models[name], tier, scenario)
        if PIPELINE_MODELS[0] in tier.work:
            lines += pipeline_lines(models, tier.name)
    return "\n".join(lines) + "\n"


def _tier_line(tier: DemoTier, budget_ns: int) -> str:
    name = f"{tier.name}:"
    budget = format_duration(budget_ns)
    low = ", slot_class: low" if tier.slot_class is SlotClass.LOW else ""
    return f"  {name:<13}{{priority: {tier.priority}, budget: {budget}{low}}}"


def _model_lines(name: str, path: Path, tier: DemoTier, scenario: Scenario | None) -> list[str]:
    alone = "" if scenario is None else f"; {format_duration(scenario.solo_ns[name])} alone"
    limit = None if scenario is None else scenario.queue_limit(tier)
    sizes = ", ".join(f'"{k}": {list(v)}' for k, v in _WARMUP_SIZES[name].items())
    rows_max = _ROWS_MAX.get(name, 1)
    lines = [
        f"  - name: {name}   # {find_model(name).purpose}{alone}",
        f"    path: {json.dumps(str(path))}",
        f"    tier: {tier.name}",
        f"    batch: {{rows_max: {rows_max}}}",
        f"    warmup: {{shapes: {{{sizes}}}}}",
    ]
    if limit is not None:
        lines.append(f"    queue: {{requests_max: {limit}}}   # what waits longer comes too late")
    return lines
