"""A scenario of a generating model: engine, tiers, requests, and layouts that are compared.

Knows how to build engines for a layout and to play the requests at them. Never says which layout is
better; `generation_spec` reads the words in which people write one down.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec
from msgspec import Struct

from headway.generate import (
    EngineLimits,
    FcfsOrder,
    HeadwayScheduler,
    LayerOffload,
    PriorityOrder,
    StepLaw,
    StepScheduler,
    StockScheduler,
    StockSettings,
    StreamedSteps,
    TierTerms,
    VtcOrder,
)
from headway.sim.generation import Generation, GenerationRequest
from headway.sim.generation_fleet import FleetRun, GenerationFleet, HandedPool, HandOver
from headway.sim.generation_load import requests_of_trace
from headway.workload import BurstLoad, Trace, burst_trace

__all__ = [
    "EngineShape",
    "GenerationScenario",
    "Layout",
    "RequestSource",
    "SchedulerChoice",
]

_ORDERS: Mapping[str, Callable[[], FcfsOrder | PriorityOrder | VtcOrder]] = {
    "fcfs": FcfsOrder,
    "priority": PriorityOrder,
    "vtc": VtcOrder,
}


class EngineShape(Struct, frozen=True, kw_only=True):
    """A device with a copy of the model."""

    memory_bytes: int
    weights_bytes: int
    reserve_bytes: int
    kv_token_bytes: int
    layers: int
    law: StepLaw
    block_tokens: int = 16
    sequences_max: int = 256
    step_tokens_max: int = 2_048

    @property
    def layer_bytes(self) -> int:
        """Of a layer's weights."""
        return self.weights_bytes // self.layers

    def kv_bytes(self, offload: LayerOffload | None = None) -> int:
        """Memory for keys and values."""
        freed_bytes = 0 if offload is None else offload.freed_bytes
        return self.memory_bytes - self.weights_bytes - self.reserve_bytes + freed_bytes

    def blocks(self, offload: LayerOffload | None = None) -> int:
        """Of keys and values that there is room for."""
        return self.kv_bytes(offload) // (self.kv_token_bytes * self.block_tokens)

    def limits(self, offload: LayerOffload | None = None) -> EngineLimits:
        """As a scheduler is told."""
        return EngineLimits(
            blocks=self.blocks(offload),
            block_tokens=self.block_tokens,
            sequences_max=self.sequences_max,
            step_tokens_max=self.step_tokens_max,
            law=self.law if offload is None else offload.law(self.law),
        )


class SchedulerChoice(Struct, frozen=True):
    """Which step scheduler, and its budget where that is constant."""

    name: str = "headway"
    step_tokens: int = 2_048

    def make(self, limits: EngineLimits, pool: HandedPool | None = None) -> StepScheduler:
        """One for one engine."""
        if self.name == "headway":
            return HeadwayScheduler(limits, None, pool)
        settings = StockSettings(step_tokens=self.step_tokens)
        return StockScheduler(limits, _ORDERS[self.name](), settings)


class Layout(Struct, frozen=True, kw_only=True):
    """How many engines, and which of them does what."""

    engines: int
    receivers: int = 0
    """Engines that only generate; then the others only compute prompts."""
    hand_over: HandOver | None = None
    offload: LayerOffload | None = None
    scheduler: SchedulerChoice = SchedulerChoice()

    @property
    def devices(self) -> int:
        """Engines of either kind."""
        return self.engines + self.receivers


class RequestSource(Struct, frozen=True, kw_only=True):
    """Where requests come from: a recorded trace, or bursts that are drawn for each seed."""

    count: int
    recorded: Trace | None = None
    bursts: BurstLoad | None = None
    first: int = 0
    speed: float = 1.0
    output_tokens_max: int = 2_048

    def trace(self, seed: int) -> Trace:
        """Arrivals and lengths."""
        if self.recorded is not None:
            return self.recorded
        assert self.bursts is not None, "requests are recorded or drawn"
        return burst_trace(self.bursts, seed, self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationScenario:
    """All that a simulated run is made of but the layout."""

    engine: EngineShape
    terms: tuple[TierTerms, ...]
    """Dealt out to requests in turn: a tier stands here as often as its part says."""
    source: RequestSource
    layouts: Mapping[str, Layout]
    scheduler: SchedulerChoice
    seed: int

    @property
    def tiers(self) -> tuple[TierTerms, ...]:
        """Each once, the most important first."""
        return tuple(sorted({each.name: each for each in self.terms}.values(), key=_urgency))

    @property
    def is_generated(self) -> bool:
        """Whether nobody ever sent these requests. Figures of it are to be labelled so."""
        return self.source.recorded is None

    def with_seed(self, seed: int) -> "GenerationScenario":
        """The same with other chance."""
        return replace(self, seed=seed)

    def scaled(self, ratio: float) -> "GenerationScenario":
        """The same requests at `ratio` times the rate."""
        speed = self.source.speed * ratio
        return replace(self, source=msgspec.structs.replace(self.source, speed=speed))

    def taking(self, count: int) -> "GenerationScenario":
        """The same with fewer or more requests."""
        return replace(self, source=msgspec.structs.replace(self.source, count=count))

    def requests(self) -> Iterator[GenerationRequest]:
        """In order of arrival."""
        source = self.source
        return requests_of_trace(
            source.trace(self.seed),
            self.terms,
            count=source.count,
            first=source.first,
            speed=source.speed,
            output_tokens_max=source.output_tokens_max,
            block_tokens=self.engine.block_tokens,
        )

    def play(self, layout: Layout) -> FleetRun:
        """The requests at a layout's engines, to the end."""
        return self.fleet(layout).run(self.requests())

    def fleet(self, layout: Layout) -> GenerationFleet:
        """The engines of a layout, idle."""
        shape, offload = self.engine, layout.offload
        limits = shape.limits(offload)
        steps = shape.law if offload is None else StreamedSteps(shape.law, offload)
        choice = layout.scheduler
        engines = [Generation(choice.make(limits), steps) for _ in range(layout.engines)]
        receivers = [
            Generation(choice.make(limits, HandedPool(limits.blocks, limits.block_tokens)), steps)
            for _ in range(layout.receivers)
        ]
        return GenerationFleet(engines, receivers, layout.hand_over)


def _urgency(terms: TierTerms) -> tuple[int, str]:
    return (terms.priority, terms.name)
