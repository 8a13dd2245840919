"""Generators as the configuration has them: their workers, and the door to them.

Knows which class stands behind which section. Decides nothing.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from headway.config import Config, generator_plans
from headway.core import ModelName
from headway.decoder import Generator
from headway.frontends import AnswerTimes, Generating, ServedGenerator
from headway.observe import AnswerFigures, GeneratorMetrics
from headway.runtime import Engine, EngineLayer, LoopClock
from headway.tenancy import Gate

__all__ = ["Generators"]

_log = logging.getLogger("headway")


class _Counted:
    """Tells metrics what requests came to."""

    def __init__(self, counts: GeneratorMetrics) -> None:
        self._counts = counts

    def answered(self, times: AnswerTimes) -> None:
        """See `AnswerObserver`."""
        first_at_ns = times.first_at_ns
        figures = AnswerFigures(
            outcome=times.outcome.ending,
            prompt_tokens=times.prompt_tokens,
            answer_tokens=times.answer_tokens,
            ttft_ns=None if first_at_ns is None else first_at_ns - times.arrived_at_ns,
            tpot_ns=times.tpot_ns,
            latency_ns=times.ended_at_ns - times.arrived_at_ns,
            is_violation=times.outcome.is_violation,
        )
        self._counts.ended(times.model, times.tier, times.tenant, figures)


@dataclass(slots=True)
class Generators:
    """All of them."""

    all: list[Generator]
    door: Generating

    @classmethod
    def build(
        cls, config: Config, clock: LoopClock, gate: Gate | None, counts: GeneratorMetrics
    ) -> "Generators":
        """Wire them; no worker runs yet."""
        counts.know_tenants(() if config.tenancy is None else tuple(config.tenancy.tenants))
        served: dict[ModelName, ServedGenerator] = {}
        # Of the system's own entropy: answers without a seed are to differ from run to run.
        for plan in generator_plans(config, Random().getrandbits(64)):
            counts.know(plan.params.name)
            served[plan.params.name] = ServedGenerator(
                generator=Generator(plan.params, counts),
                tier=plan.tier,
                terms=plan.terms,
                budgets_ns=plan.budgets_ns,
                answer_tokens_max=plan.answer_tokens_max,
            )
        door = Generating(served, clock.now_ns, gate, _Counted(counts))
        return cls([each.generator for each in served.values()], door)

    def beside(self, engine: Engine) -> Engine:
        """The engine, which is ready once all of these are, too."""
        return _WithGenerators(engine, self.all) if self.all else engine

    async def start(self) -> None:
        """Load all, at once.

        Raises:
            LoadError: one could not be loaded; the others are.
        """
        ends = await asyncio.gather(*(each.start() for each in self.all), return_exceptions=True)
        failures = [end for end in ends if isinstance(end, BaseException)]
        for failure in failures[1:]:
            _log.error("%s", failure)
        if failures:
            raise failures[0]

    async def stop(self, grace_ns: int) -> int:
        """Let answers end, then end the workers; returns how many were not finished."""
        return sum(await asyncio.gather(*(each.stop(grace_ns) for each in self.all)))


class _WithGenerators(EngineLayer):
    """An engine that is not ready before what generates beside it is."""

    def __init__(self, inner: Engine, generators: Sequence[Generator]) -> None:
        super().__init__(inner)
        self._generators = generators

    @property
    def is_ready(self) -> bool:
        """The engine is, and every generator has loaded its model and has a worker."""
        return self.inner.is_ready and all(each.ready is not None for each in self._generators)
