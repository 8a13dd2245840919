"""The configuration that serves a mix under a policy.

Knows mixes, set-ups and the configuration's words. Never a request, and never how long one takes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from headway.bench.inputs import warmup_shapes
from headway.bench.mix import TrafficClass
from headway.bench.mixes import Mix, MixClass
from headway.bench.setups import Setup
from headway.config import Config
from headway.demo import find_model, graph_path

__all__ = ["LOW_TIER", "config_of_mix", "config_of_solos", "tier_of_class"]

LOW_TIER = "low"
_BUDGET = "10m"
"""A tier's; every request brings its own, which is shorter."""


def tier_of_class(one: MixClass, mix: Mix) -> str:
    """The tier that a class's requests ask for: one for each high priority, and one for low."""
    return LOW_TIER if one in mix.low else f"high-{one.priority}"


def config_of_mix(
    mix: Mix, policy: Mapping[str, object], setup: Setup, cache: Path, cores: Sequence[int]
) -> Config:
    """Every model of the mix on the first cores, under a policy.

    Args:
        mix: what is served.
        policy: the settings of the policy, its name under `kind`.
        setup: how cores are shared.
        cache: where the fetched models are.
        cores: that this process may use.

    Raises:
        ValueError: there is no such policy, or it has no such settings.
    """
    tiers = {
        tier_of_class(one, mix): {
            "priority": one.priority,
            "slot_class": "low" if one in mix.low else "high",
            "budget": _BUDGET,
        }
        for one in mix.classes
    }
    models = [_model([one.traffic], setup, cache, can_split=one.can_split) for one in mix.classes]
    return _config(models, tiers, policy, setup, cores)


def config_of_solos(
    kinds: Sequence[TrafficClass], setup: Setup, cache: Path, cores: Sequence[int]
) -> Config:
    """Every model of these kinds, to time them one at a time."""
    by_model: dict[str, list[TrafficClass]] = {}
    for kind in kinds:
        by_model.setdefault(kind.model, []).append(kind)
    models = [_model(own, setup, cache) for own in by_model.values()]
    return _config(models, {"standard": {"budget": _BUDGET}}, {"kind": "fifo"}, setup, cores)


def _config(
    models: Sequence[Mapping[str, object]],
    tiers: Mapping[str, object],
    policy: Mapping[str, object],
    setup: Setup,
    cores: Sequence[int],
) -> Config:
    device = {
        "cores": list(cores[: setup.cores_count]),
        "slots_per_core": setup.slots_per_core,
        "pin": setup.is_pinned,
    }
    return Config.model_validate(
        {"models": models, "tiers": tiers, "devices": [device], "policy": dict(policy)}
    )


def _model(
    kinds: Sequence[TrafficClass], setup: Setup, cache: Path, *, can_split: bool = False
) -> dict[str, object]:
    first = kinds[0]
    batch: dict[str, object] = {"rows_max": max(kind.rows for kind in kinds)}
    rows = {kind.rows for kind in kinds}
    if can_split:
        batch["oversize"] = "split"
        rows.add(1)
    return {
        "name": first.model,
        "backend": "onnx",
        "path": str(graph_path(cache, find_model(first.catalogue_name))),
        "batch": batch,
        "options": setup.options,
        "warmup": {"rows": sorted(rows), "shapes": warmup_shapes(first)},
    }
