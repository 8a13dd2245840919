"""Scenarios of generating models as people write them: plain dicts, mistakes with their path.

Knows the words of such a file. Never reads the file itself.

    engine:
      {memory: 24GiB, weights: 15GiB, reserve: 3GiB, layers: 32, kv_token: 128KiB,
       step: {base: 12ms, prefill_token: 67us, context_token: 65ns, free_tokens: 128}}
    tiers:
      chat: {ttft: 500ms, tpot: 40ms}
    requests:
      {kind: trace, trace: azure.csv, format: azure_llm, count: 1500, speed: 4}
    layouts:
      together: {kind: colocated, engines: 4}
      apart: {kind: disaggregated, prefill: 2, decode: 2, link: 25GB, latency: 1ms}
      streamed: {kind: offload, engines: 4, host_layers: 8, link: 25GB}
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headway.core import TierName
from headway.errors import ConfigError
from headway.generate import LayerOffload, StepLaw, TierTerms
from headway.sim.generation_fleet import HandOver
from headway.sim.generation_scenario import (
    EngineShape,
    GenerationScenario,
    Layout,
    RequestSource,
    SchedulerChoice,
)
from headway.sim.generation_words import (
    BurstsSpec,
    ColocatedSpec,
    DisaggregatedSpec,
    EngineSpec,
    GenerationSpec,
    LayoutSpec,
    LengthSpec,
    OffloadSpec,
    Size,
    TargetSpec,
    TraceSpec,
)
from headway.sim.mistakes import convert, wrong
from headway.sim.words import Span
from headway.workload import BurstLoad, PowerLaw, load_trace, located

__all__ = ["generation_from_dict", "is_generation"]

_WORDS: Final = (Span, Size)
_ROUNDS_MAX: Final = 1_000
"""Parts of tiers, together."""


def is_generation(data: Mapping[str, object]) -> bool:
    """Whether a file is one of these: no other has an engine."""
    return "engine" in data


def generation_from_dict(
    data: Mapping[str, object], *, traces: Path | None = None
) -> GenerationScenario:
    """Build a scenario from plain values, as YAML or JSON give them.

    Args:
        data: see the module's example.
        traces: folder of recorded traces, for requests that come from one.

    Raises:
        ConfigError: with the path of the wrong value, the value and a hint.
    """
    spec = convert(data, GenerationSpec, "", words=_WORDS)
    engine = _engine(spec.engine)
    if not spec.layouts:
        _demand_room(engine, None, "engine.memory", spec.engine.memory)
    tiers = {
        name: convert(plain, TargetSpec, f"tiers.{name}", words=_WORDS)
        for name, plain in spec.tiers.items()
    }
    parts = sum(tier.part for tier in tiers.values())
    if parts > _ROUNDS_MAX:
        hint = "give small whole numbers that stand to each other as the requests do"
        raise wrong("tiers", parts, f"the parts add up to `{parts}`", hint)
    terms = tuple(_terms(name, tier) for name, tier in tiers.items() for _ in range(tier.part))
    choice = SchedulerChoice(spec.scheduler, spec.step_tokens)
    layouts = {
        name: _layout(plain, engine, choice, f"layouts.{name}")
        for name, plain in spec.layouts.items()
    }
    return GenerationScenario(
        engine=engine,
        terms=terms,
        source=_source(spec.requests, traces),
        layouts=layouts,
        scheduler=choice,
        seed=spec.seed,
    )


def _engine(spec: EngineSpec) -> EngineShape:
    step = spec.step
    if not spec.kv_token.bytes:
        hint = "two for each layer, head and number of a head, times the bytes of a number"
        raise wrong("engine.kv_token", spec.kv_token.bytes, "`0` bytes hold no token", hint)
    return EngineShape(
        memory_bytes=spec.memory.bytes,
        weights_bytes=spec.weights.bytes,
        reserve_bytes=spec.reserve.bytes,
        kv_token_bytes=spec.kv_token.bytes,
        layers=spec.layers,
        block_tokens=spec.block_tokens,
        sequences_max=spec.sequences_max,
        step_tokens_max=spec.step_tokens_max,
        law=StepLaw(
            base_ns=float(step.base.ns),
            prefill_ns=float(step.prefill_token.ns),
            context_ns=float(step.context_token.ns),
            decode_ns=float(step.sequence.ns),
            free_tokens=step.free_tokens,
        ),
    )


def _terms(name: str, spec: TargetSpec) -> TierTerms:
    return TierTerms(
        name=TierName(name),
        priority=spec.priority,
        ttft_ns=None if spec.ttft is None else spec.ttft.ns,
        tpot_ns=None if spec.tpot is None else spec.tpot.ns,
        is_gated=spec.gated,
    )


def _source(spec: TraceSpec | BurstsSpec, traces: Path | None) -> RequestSource:
    if isinstance(spec, BurstsSpec):
        with located("requests"):
            load = BurstLoad(
                rate_rps=spec.rate_rps,
                cv=spec.cv,
                window_ns=spec.window.ns,
                window_cv=spec.window_cv,
                prompt=_lengths(spec.prompt),
                output=_lengths(spec.output),
            )
        return RequestSource(
            count=spec.count, bursts=load, output_tokens_max=spec.output_tokens_max
        )
    if traces is None:
        hint = "name the folder that holds the recorded traces with --traces"
        message = f"no folder to read the trace `{spec.trace}` from"
        raise ConfigError(message, path="requests.trace", value=spec.trace, hint=hint)
    trace = load_trace(traces / spec.trace, spec.format)
    if not trace.input_tokens or not trace.output_tokens:
        hint = "formats with lengths are `azure_llm` and `mooncake`"
        what = f"`{spec.format}` records no lengths of prompts and answers"
        raise wrong("requests.format", str(spec.format), what, hint)
    if spec.first + spec.count > len(trace.at_ns):
        what = f"`{spec.count}` from `{spec.first}` on are more than `{len(trace.at_ns)}` requests"
        raise wrong("requests.count", spec.count, what, "take fewer, or begin earlier")
    return RequestSource(
        count=spec.count,
        recorded=trace,
        first=spec.first,
        speed=spec.speed,
        output_tokens_max=spec.output_tokens_max,
    )


def _lengths(spec: LengthSpec) -> PowerLaw:
    return PowerLaw(exponent=spec.exponent, tokens_min=spec.min, tokens_max=spec.max)


def _layout(
    plain: Mapping[str, object], engine: EngineShape, choice: SchedulerChoice, path: str
) -> Layout:
    # msgspec takes a union of structures as well as one; its stub knows only the latter.
    spec: LayoutSpec = convert(plain, LayoutSpec, path, words=_WORDS)  # type: ignore[arg-type]
    choice = SchedulerChoice(spec.scheduler or choice.name, spec.step_tokens or choice.step_tokens)
    if not isinstance(spec, OffloadSpec):
        _demand_room(engine, None, path, spec)
    match spec:
        case ColocatedSpec():
            return Layout(engines=spec.engines, scheduler=choice)
        case DisaggregatedSpec():
            if choice.name != "headway":
                hint = "leave `scheduler` out, or let it be `headway`"
                what = "only `headway` takes a sequence over from another engine"
                raise wrong(f"{path}.scheduler", choice.name, what, hint)
            with located(path):
                hand_over = HandOver(
                    kv_bytes=engine.kv_token_bytes,
                    bytes_per_s=spec.link.bytes,
                    latency_ns=spec.latency.ns,
                )
            return Layout(
                engines=spec.prefill,
                receivers=spec.decode,
                hand_over=hand_over,
                scheduler=choice,
            )
        case OffloadSpec():
            return _streamed(spec, engine, choice, path)


def _streamed(spec: OffloadSpec, engine: EngineShape, choice: SchedulerChoice, path: str) -> Layout:
    if spec.host_layers > engine.layers:
        what = f"`{spec.host_layers}` of `{engine.layers}` layers cannot lie on the host"
        raise wrong(f"{path}.host_layers", spec.host_layers, what, f"at most {engine.layers}")
    with located(path):
        offload = LayerOffload(
            layers=spec.host_layers,
            layer_bytes=engine.layer_bytes,
            link_bytes_per_s=spec.link.bytes,
        )
    _demand_room(engine, offload, f"{path}.host_layers", spec.host_layers)
    return Layout(engines=spec.engines, offload=offload, scheduler=choice)


def _demand_room(
    engine: EngineShape, offload: LayerOffload | None, path: str, value: object
) -> None:
    if engine.blocks(offload) >= 1:
        return
    kv_bytes = engine.kv_bytes(offload)
    what = f"weights and reserve leave `{kv_bytes}` bytes for keys and values"
    hint = "give the engine more memory, or put more layers on the host; two are buffers there"
    raise wrong(path, value, what, hint)
