"""How many engines a generating model needs: Little's law first, then so many of them, played.

The law (`generate.Capacity`) says from lengths and the time of steps how many sequences are in an
engine at once, what memory they hold, and which rate is the highest. It knows nothing of queues,
so engines are played with the requests' own arrivals until the targets hold at the 99th percentile,
and the answer is what was played, as long as the law bears it in the long run.

A target for first tokens holds up to a length of prompt: a longer one cannot have its first token
in time on an engine that does nothing else (`ttft_prompt_tokens_max`). Those are counted apart.

Knows scenarios of generating models. Must never import a live server.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from headway.core import TierName
from headway.generate import Capacity, EngineLoad, RequestMix, TierTerms, ttft_prompt_tokens_max
from headway.sim import (
    EngineShape,
    FleetRun,
    GenerationScenario,
    Layout,
    SequenceSample,
    target_figures,
)
from headway.units import NS_PER_S

__all__ = ["EngineAnswer", "EnginePoint", "TierVerdict", "engines_needed"]

_TRIES: Final = 8
"""Numbers of engines above what the law says; with more than that the targets are out of reach."""


class TierVerdict(Struct, frozen=True, kw_only=True):
    """What requests of a tier saw, and whether it is what they were promised."""

    tier: TierName
    requests: int
    beyond: int
    """Prompts too long for the target on any engine; they count for the pace only."""
    prompt_tokens_max: int | None
    """Up to which the target for first tokens holds; None without one."""
    ttft_ns: int | None
    """Target, and below what was played."""
    ttft_p99_ns: int | None
    tpot_ns: int | None
    tpot_p99_ns: int | None
    is_met: bool


class EnginePoint(Struct, frozen=True, kw_only=True):
    """So many engines."""

    engines: int
    law: EngineLoad | None
    """Of one of them; None where the rate is more than it bears."""
    memory_bytes: int | None
    """Of one by the law: weights, and keys and values on average."""
    sequences: float
    """Of one, at once, played."""
    kv_tokens: float
    """Of one, in use on average, played."""
    met_ratio: float
    """Of all requests, those with first token and pace in time."""
    goodput_rps: float
    refused: int
    tiers: tuple[TierVerdict, ...]
    is_met: bool


class EngineAnswer(Struct, frozen=True, kw_only=True):
    """How many, and what it rests on."""

    rate_rps: float
    mix: RequestMix
    kv_token_bytes: int
    kv_room_tokens: int
    """Of one engine."""
    most: EngineLoad
    """The highest rate of one engine, by the law."""
    by_law: int
    by_simulation: int | None
    """None where none of those that were tried are enough."""
    points: tuple[EnginePoint, ...]
    """Ascending in engines."""


def engines_needed(
    scenario: GenerationScenario,
    *,
    rate_rps: float | None = None,
    engines_max: int = 128,
    tell: Callable[[int], None] = lambda _: None,
) -> EngineAnswer:
    """How many engines keep every tier's targets at a rate.

    Args:
        scenario: engine, tiers and requests; its layouts do not matter.
        rate_rps: None for that of its requests.
        engines_max: more are not tried.
        tell: is told each number before it is played.
    """
    requests = list(scenario.requests())
    span_ns = requests[-1].arrived_at_ns - requests[0].arrived_at_ns
    own_rps = (len(requests) - 1) * NS_PER_S / span_ns if span_ns else 1.0
    rate_rps = rate_rps or own_rps
    mix = RequestMix.of(
        [each.prompt_tokens for each in requests],
        [min(each.output_tokens, each.output_tokens_max) for each in requests],
    )
    law = _law_of(scenario.engine)
    most = law.at_most(mix)
    by_law = 1 + int(rate_rps / most.rate_rps)
    played = scenario.scaled(rate_rps / own_rps)
    points: list[EnginePoint] = []
    good: int | None = None
    for engines in range(max(1, by_law - 1), min(engines_max, by_law + _TRIES) + 1):
        tell(engines)
        layout = Layout(engines=engines, scheduler=scenario.scheduler)
        run = played.play(layout)
        load = law.at_rate(mix, rate_rps / engines)
        points.append(_point(scenario, engines, load, run))
        if points[-1].is_met:
            good = engines
            break
    return EngineAnswer(
        rate_rps=rate_rps,
        mix=mix,
        kv_token_bytes=scenario.engine.kv_token_bytes,
        kv_room_tokens=law.kv_tokens,
        most=most,
        by_law=by_law,
        by_simulation=good,
        points=tuple(points),
    )


def _law_of(shape: EngineShape) -> Capacity:
    limits = shape.limits()
    return Capacity(
        law=shape.law,
        kv_tokens=limits.kv_tokens,
        sequences_max=shape.sequences_max,
        step_tokens_max=shape.step_tokens_max,
    )


def _point(
    scenario: GenerationScenario, engines: int, load: EngineLoad | None, run: FleetRun
) -> EnginePoint:
    figures = target_figures(run.samples)
    shape, all_ns = scenario.engine, engines * run.makespan_ns
    verdicts = tuple(
        _verdict(shape, terms, [each for each in run.samples if each.tier == terms.name])
        for terms in scenario.tiers
    )
    kv_bytes = None if load is None else round(load.kv_tokens * shape.kv_token_bytes)
    return EnginePoint(
        engines=engines,
        law=load,
        memory_bytes=None if kv_bytes is None else shape.weights_bytes + kv_bytes,
        sequences=sum(each.resident_ns for each in run.engines) / all_ns,
        kv_tokens=sum(each.kv_token_ns for each in run.engines) / all_ns,
        met_ratio=figures.met_ratio,
        goodput_rps=figures.goodput_rps(run.makespan_ns),
        refused=figures.refused,
        tiers=verdicts,
        # A short run is over before a queue that grows for ever shows: the law must bear it, too.
        is_met=(
            load is not None
            and figures.refused == 0
            and all(verdict.is_met for verdict in verdicts)
        ),
    )


def _verdict(
    shape: EngineShape, terms: TierTerms, samples: Sequence[SequenceSample]
) -> TierVerdict:
    reach: int | None = None
    within = list(samples)
    if terms.ttft_ns is not None:
        reach = ttft_prompt_tokens_max(shape.law, shape.limits(), terms.ttft_ns)
        within = [each for each in samples if each.request.prompt_tokens <= reach]
    ttft_ns = target_figures(within).ttft_p99_ns
    tpot_ns = target_figures(samples).tpot_p99_ns
    return TierVerdict(
        tier=terms.name,
        requests=len(samples),
        beyond=len(samples) - len(within),
        prompt_tokens_max=reach,
        ttft_ns=terms.ttft_ns,
        ttft_p99_ns=ttft_ns,
        tpot_ns=terms.tpot_ns,
        tpot_p99_ns=tpot_ns,
        is_met=_holds(ttft_ns, terms.ttft_ns) and _holds(tpot_ns, terms.tpot_ns),
    )


def _holds(value_ns: int | None, target_ns: int | None) -> bool:
    return value_ns is None or target_ns is None or value_ns <= target_ns
