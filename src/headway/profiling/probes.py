"""Black-box probes: a model beside a stressor, the stressor beside the model, and what follows.

In each round three windows follow each other: the stressor alone, the model alone, both. A factor
is the median over rounds of *beside* over *alone*, so that what drifts slowly cancels.

- `model_factor`: the model's median execution beside the stressor over that alone; 1.1 is 10 %
  slower. With the stressor on other cores, waits for the model's own core are taken out.
- `stressor_factor`: the stressor's rate beside the model over that alone; 0.9 has lost 10 %. From
  other cores the rate is of its own processor time.
- So neither factor holds what the scheduler and other programs do, unless the stressor is on the
  model's core: there the scheduler is what is looked at, and both are of the clock.
- `busy_ratio`: part of the time that the model really executed in the last window; the rest is the
  way to the worker and back. What a stressor loses is lost in that part only.

From these, `pressures_of`:

- compute demand = (1 - stressor_factor) / busy_ratio of the stressor that gets only what the model
  leaves of its core. One thread that never waits: 1.
- bandwidth demand = (1 - stressor_factor) / busy_ratio of streams on all other cores flat out: the
  part of what they have among them that the model takes away.
- sensitivity to either = the slope through the origin of (model_factor - 1) over the stressor's
  strength, by least squares over the strengths: Σ s·y / Σ s².

Demands are clipped to 0..1, sensitivities at 0: below lies noise. Factors within a few per cent of
1 are noise, too.
"""

import asyncio
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final, NamedTuple

from msgspec import Struct

from headway.core import Tensor
from headway.devices import Burners, LoadKind
from headway.predict import Pressures
from headway.profiling.bench import Bench
from headway.profiling.stressors import Place, Stressor
from headway.units import NS_PER_S

__all__ = ["Probe", "ProbeEffort", "Request", "pressures_of", "probe"]

_RUNS_MIN: Final = 3
"""Of a window, however slow the model is."""
_BUSY_RATIO_MIN: Final = 0.05
"""Below it nothing can be said of the little time that the model executed."""


class Probe(Struct, frozen=True, kw_only=True):
    """One stressor's outcome."""

    kind: LoadKind
    place: Place
    strength_ratio: float
    model_factor: float
    stressor_factor: float
    busy_ratio: float


class ProbeEffort(NamedTuple):
    """How long each stressor is looked at."""

    rounds: int = 3
    window_ns: int = 300_000_000


class Request(NamedTuple):
    """What the model runs, again and again."""

    inputs: Sequence[Tensor]
    rows: int


class _Window(NamedTuple):
    execution_ns: float
    """Median."""
    busy_ratio: float


async def probe(
    bench: Bench,
    request: Request,
    stressor: Stressor,
    burners: Burners,
    effort: ProbeEffort,
    now_ns: Callable[[], int],
) -> Probe:
    """Look at a model and a stressor that is prepared and rests, alone and together.

    Raises:
        HeadwayError: either of them ended.
    """
    model_factors: list[float] = []
    stressor_factors: list[float] = []
    busy_ratios: list[float] = []
    for _ in range(effort.rounds):
        burners.go()
        await asyncio.sleep(effort.window_ns / NS_PER_S)
        rate_alone = _rate(burners, stressor.place)
        alone = await _window(bench, request, stressor.place, effort.window_ns, now_ns)
        burners.go()
        beside = await _window(bench, request, stressor.place, effort.window_ns, now_ns)
        rate_beside = _rate(burners, stressor.place)
        model_factors.append(beside.execution_ns / alone.execution_ns)
        stressor_factors.append(rate_beside / rate_alone if rate_alone > 0 else 1.0)
        busy_ratios.append(beside.busy_ratio)
    return Probe(
        kind=stressor.kind,
        place=stressor.place,
        strength_ratio=stressor.strength_ratio,
        model_factor=median(model_factors),
        stressor_factor=median(stressor_factors),
        busy_ratio=median(busy_ratios),
    )


def pressures_of(probes: Sequence[Probe]) -> Pressures:
    """What the probes say of a model; what was not probed has its default."""
    default = Pressures()
    left = [p for p in probes if p.place is Place.OWN_CORE_IDLE]
    streams = [p for p in _beside(probes, LoadKind.STREAM) if p.strength_ratio == 1]
    return Pressures(
        compute_demand=_demand(left, default.compute_demand),
        bandwidth_demand=_demand(streams, default.bandwidth_demand),
        compute_sensitivity=_sensitivity(_beside(probes, LoadKind.COMPUTE)),
        bandwidth_sensitivity=_sensitivity(_beside(probes, LoadKind.STREAM)),
    )


def _beside(probes: Sequence[Probe], kind: LoadKind) -> list[Probe]:
    return [p for p in probes if p.kind is kind and p.place is Place.OTHER_CORES]


def _demand(probes: Sequence[Probe], default: float) -> float:
    seen = [p for p in probes if p.busy_ratio >= _BUSY_RATIO_MIN]
    if not seen:
        return default
    return median(min(1.0, max(0.0, (1 - p.stressor_factor) / p.busy_ratio)) for p in seen)


def _sensitivity(probes: Sequence[Probe]) -> float:
    weight = sum(p.strength_ratio**2 for p in probes)
    if not weight:
        return 0.0
    slope = sum(p.strength_ratio * (p.model_factor - 1) for p in probes) / weight
    return max(0.0, slope)


def _rate(burners: Burners, place: Place) -> float:
    rates = burners.rest()
    if place is Place.OTHER_CORES:
        return sum(rate.per_cpu_s for rate in rates)
    return sum(rate.per_s for rate in rates)


async def _window(
    bench: Bench, request: Request, place: Place, window_ns: int, now_ns: Callable[[], int]
) -> _Window:
    times_ns: list[int] = []
    started_at_ns = now_ns()
    elapsed_ns = 0
    while elapsed_ns < window_ns or len(times_ns) < _RUNS_MIN:
        timed = await bench.run(request.inputs, request.rows)
        is_beside = place is Place.OTHER_CORES
        times_ns.append(timed.solo_ns if is_beside else max(1, timed.execution_ns))
        elapsed_ns = now_ns() - started_at_ns
    return _Window(median(times_ns), min(1.0, sum(times_ns) / max(1, elapsed_ns)))
