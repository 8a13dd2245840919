"""What a configured predictor starts from: profiles, graphs, links, and what it had learnt.

Knows files and the machine. Refuses to know what a predictor makes of it.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from headway.config import (
    Backend,
    Config,
    ModelConfig,
    WindowedPciePredictorConfig,
    emulated_machine,
    kernel_params,
    model_params,
    model_spec,
)
from headway.core import DeviceName
from headway.devices import Ceilings, emulated_profile, fingerprint
from headway.errors import HeadwayError
from headway.executors import emulated_demand
from headway.predict import ModelProfile, Recipe, on_links
from headway.profiling import (
    Circumstances,
    can_count_graphs,
    estimated_profile,
    read_learnt,
    read_profiles,
)

__all__ = ["circumstances", "learner_of", "recipe_of"]

_log = logging.getLogger("headway")


def circumstances(config: Config) -> Circumstances:
    """What must stay as it is for what a predictor learnt to hold."""
    threads = {model.name: model.options.get("intra_op_threads", 1) for model in config.served}
    return Circumstances(
        machine=fingerprint(),
        devices=kernel_params(config).devices,
        threads={name: count for name, count in threads.items() if isinstance(count, int)},
        spins={m.name: m.options.get("allow_spinning") is True for m in config.served},
        has_classes=config.policy.class_slots,
    )


def learner_of(config: Config) -> str:
    """Who learnt: the predictor, and the emulated accelerator if there is one."""
    first = config.devices[0]
    where = f" on {first.accelerator}" if first.kind == "emulated" else ""
    return config.predictor.kind + where


def recipe_of(config: Config) -> Recipe:
    """The configured predictor: its settings, what is known of models and links, what it learnt.

    Raises:
        HeadwayError: a profile cannot be read, or was measured on other hardware.
    """
    section = config.predictor
    known = _known(config)
    machine = emulated_machine(config)
    recipe = Recipe(
        kind=section.kind,
        confidence=section.confidence,
        profiles=known.profiles,
        ridge_flop_per_byte=known.ridge_flop_per_byte if machine is None else 0.0,
        state=_state(config),
        has_classes=config.policy.class_slots,
        looks_per_s=section.looks_per_second,
        trains_inline=False,
    )
    if machine is not None:
        recipe = on_links(recipe, machine.machine.tree(machine.devices))
    is_told = machine is None or "link_per_second" in section.model_fields_set
    if isinstance(section, WindowedPciePredictorConfig) and is_told:
        recipe = structs.replace(recipe, link_bytes_per_s=section.link_per_second)
    return recipe


def _state(config: Config) -> dict[str, object]:
    path = config.predictor.state
    if path is None:
        return {}
    recalled = read_learnt(Path(path), learner_of(config), circumstances(config))
    if recalled.why_not is not None:
        _log.warning("starting without %s: %s", path, recalled.why_not)
    return recalled.state


class _Known(NamedTuple):
    """What is known of models and the host before the first run."""

    profiles: tuple[ModelProfile, ...]
    ridge_flop_per_byte: float
    """Of the last calibration that came with profiles; 0 without one."""


def _known(config: Config) -> _Known:
    """Measured profiles, and for models without one what else there is."""
    measured: list[ModelProfile] = []
    ceilings: Ceilings | None = None
    for path in config.predictor.profiles:
        found = read_profiles(Path(path), fingerprint())
        measured += found.file.profiles
        _warn_of_unused(config, path, found.file.profiles)
        if found.file.calibration is not None:
            ceilings = found.file.calibration.ceilings
        for doubt in found.doubts:
            _log.warning("profile %s: %s", path, doubt)
    known = {(profile.model, profile.device) for profile in measured}
    for model in config.served:
        for device in model_params(config, model).devices:
            if (model.name, device) not in known:
                measured += _before_any_run(config, model, device, ceilings)
    return _Known(tuple(measured), 0.0 if ceilings is None else ceilings.ridge_flop_per_byte)


def _warn_of_unused(config: Config, path: str, profiles: Sequence[ModelProfile]) -> None:
    """Names that do not match are the likeliest reason for a profile that does nothing."""
    places = {(m.name, place) for m in config.served for place in model_params(config, m).devices}
    unused = {(profile.model, profile.device): None for profile in profiles}
    names = [
        f"`{model}` on `{device}`" for model, device in unused if (model, device) not in places
    ]
    if names:
        _log.warning("profile %s: no configured model and device match %s", path, ", ".join(names))


def _before_any_run(
    config: Config, model: ModelConfig, device: DeviceName, ceilings: Ceilings | None
) -> list[ModelProfile]:
    """What a model that was not measured on a device starts from there; none is no harm."""
    spec = model_spec(config, model)
    machine = emulated_machine(config)
    if machine is not None:
        demand = emulated_demand(spec)
        return [emulated_profile(machine.machine, demand, device, model.batch.rows_max)]
    if model.backend != Backend.ONNX or ceilings is None or not can_count_graphs():
        return []
    try:
        return [estimated_profile(spec, device, ceilings, rows_max=model.batch.rows_max)]
    except HeadwayError as error:
        _log.warning("model `%s` is learnt from nothing: %s", model.name, error)
        return []
