"""Real requests of the mix, and the configuration that serves them; for the recorder alone.

Knows the fetched models and what they eat. Never a clock.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from headway.bench.mix import MIX, TrafficClass, rows_max_of
from headway.bench.setups import Setup
from headway.config import Config
from headway.core import Tensor
from headway.demo import (
    Arrays,
    DemoAssets,
    SampleMaker,
    find_model,
    graph_path,
    sample_makers,
)
from headway.loadgen import tensors_of

__all__ = ["ClassRequests", "config_of", "prepare_requests", "warmup_shapes"]

_TRIES_MAX: Final = 4096
"""Samples drawn in search of one of the wanted shape."""
_POOL: Final = 6
"""Different requests of a class; more would only take memory, and time to draw."""
_BUDGET: Final = "10m"
"""Nothing expires: what is studied is how long executions take, not who is served."""
_WARMUP_SHAPES: Final[Mapping[str, Mapping[str, tuple[int, ...]]]] = MappingProxyType(
    {
        "magika": {"bytes": (2048,)},
        "silero-vad": {"input": (576,), "memory": (2, 128)},
        "ocr-detect": {"x": (3, 320, 320)},
        "ocr-recognise": {"x": (3, 48, 320)},
        "opennsfw": {"input:0": (224, 224, 3)},
        "minilm": {"input_ids": (64,), "attention_mask": (64,)},
    }
)


_PARTS: Final[Mapping[tuple[str, tuple[int, ...]], tuple[int, ...]]] = MappingProxyType(
    {("minilm", (128,)): (64,), ("ocr-detect", (3, 640, 640)): (3, 320, 320)}
)
"""Shapes that no sample has, and what they are put together from."""


class ClassRequests(NamedTuple):
    """The inputs of a class, made before the load: drawing a page would take the server's time."""

    traffic: TrafficClass
    inputs: Sequence[Sequence[Tensor]]


def prepare_requests(
    cache: Path, *, seed: int, mix: Sequence[TrafficClass] = MIX
) -> list[ClassRequests]:
    """A few different requests of each class, from real files, sounds, pictures and sentences."""
    makers = sample_makers(DemoAssets(cache))
    chance = Random(f"{seed}/inputs")
    return [
        ClassRequests(
            traffic,
            [
                tensors_of(_stacked(makers[traffic.catalogue_name], traffic, chance))
                for _ in range(_POOL)
            ],
        )
        for traffic in mix
    ]


def config_of(
    setup: Setup, cache: Path, cores: Sequence[int], mix: Sequence[TrafficClass] = MIX
) -> Config:
    """The configuration that serves a mix: arrival order, no classes, no deadlines that matter.

    Args:
        setup: how cores are shared.
        cache: where the fetched models are.
        cores: that this process may use.
        mix: whose models are served.
    """
    device = {
        "cores": list(cores[: setup.cores_count]),
        "slots_per_core": setup.slots_per_core,
        "pin": setup.is_pinned,
        "isolation": "per_model" if setup.is_isolated else "shared",
    }
    names = dict.fromkeys(traffic.model for traffic in mix)
    return Config.model_validate(
        {
            "models": [_model(name, setup, cache, mix) for name in names],
            "tiers": {"standard": {"budget": _BUDGET}},
            "devices": [device],
            "policy": {"kind": "fifo"},
        }
    )


def warmup_shapes(traffic: TrafficClass) -> dict[str, list[int]]:
    """Shape of one row of each input of a class, as a model is warmed up with it."""
    usual = _WARMUP_SHAPES[traffic.catalogue_name]
    return {tensor: list(traffic.shape or shape) for tensor, shape in usual.items()}


def _model(name: str, setup: Setup, cache: Path, mix: Sequence[TrafficClass]) -> dict[str, object]:
    return {
        "name": name,
        "backend": "onnx",
        "path": str(graph_path(cache, find_model(name))),
        "batch": {"rows_max": rows_max_of(name, mix)},
        "options": setup.options,
        "warmup": {
            "rows": sorted({traffic.rows for traffic in mix if traffic.model == name}),
            "shapes": {tensor: list(shape) for tensor, shape in _WARMUP_SHAPES[name].items()},
        },
    }


def _stacked(maker: SampleMaker, traffic: TrafficClass, chance: Random) -> Arrays:
    """Rows of the wanted shape, one after another."""
    rows = [_of_shape(maker, traffic, chance) for _ in range(traffic.rows)]
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def _of_shape(maker: SampleMaker, traffic: TrafficClass, chance: Random) -> Arrays:
    """One row of the wanted shape; where there is none so large, as many as fill it.

    Pages side by side are a page, and sentences one after another a text.
    """
    part = _PARTS.get((traffic.catalogue_name, traffic.shape))
    if part is None:
        return _drawn(maker, traffic.shape, chance)
    return _filled(lambda: _drawn(maker, part, chance), part, traffic.shape)


def _drawn(maker: SampleMaker, shape: Sequence[int], chance: Random) -> Arrays:
    for _ in range(_TRIES_MAX):
        sample = maker(chance)
        first = next(iter(sample.values()))
        if not shape or first.shape[1:] == shape:
            return sample
    raise ValueError(f"no sample has the shape {shape}")


def _filled(draw: Callable[[], Arrays], part: Sequence[int], whole: Sequence[int]) -> Arrays:
    """Parts end to end along every axis in which the whole is longer; they divide it evenly."""
    axis = next((i for i, (a, b) in enumerate(zip(part, whole, strict=True)) if a != b), None)
    if axis is None:
        return draw()
    longer = [*part[:axis], whole[axis], *part[axis + 1 :]]

    def draw_longer() -> Arrays:
        parts = [draw() for _ in range(whole[axis] // part[axis])]
        return {name: np.concatenate([p[name] for p in parts], axis + 1) for name in parts[0]}

    return _filled(draw_longer, longer, whole)
