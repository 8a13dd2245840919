"""Generators as the configuration has them: their workers, and the door to them.

Knows which class stands behind which section. Decides nothing.
"""

import asyncio
import logging
from dataclasses import dataclass
from random import Random

from headway.config import Config, generator_plans
from headway.core import ModelName
from headway.decoder import Generator
from headway.frontends import Generating, ServedGenerator
from headway.runtime import LoopClock
from headway.tenancy import Gate

__all__ = ["Generators"]

_log = logging.getLogger("headway")


@dataclass(slots=True)
class Generators:
    """All of them."""

    all: list[Generator]
    door: Generating

    @classmethod
    def build(cls, config: Config, clock: LoopClock, gate: Gate | None) -> "Generators":
        """Wire them; no worker runs yet."""
        served: dict[ModelName, ServedGenerator] = {}
        # Of the system's own entropy: answers without a seed are to differ from run to run.
        for plan in generator_plans(config, Random().getrandbits(64)):
            served[plan.params.name] = ServedGenerator(
                generator=Generator(plan.params),
                tier=plan.tier,
                terms=plan.terms,
                budgets_ns=plan.budgets_ns,
                answer_tokens_max=plan.answer_tokens_max,
            )
        door = Generating(served, clock.now_ns, gate)
        return cls([each.generator for each in served.values()], door)

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
