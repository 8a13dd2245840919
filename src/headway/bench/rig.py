"""A server without its front door: an engine, its workers and a journal, on the running loop.

Wired as the real one is, so that what is measured is what serves. Knows calls and observers; never
a network, and never what the figures are for.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from time import thread_time_ns  # noqa: TID251 - times the kernel's decisions
from types import TracebackType
from typing import Self

from headway.app import (
    ConfigCatalogue,
    build_policy,
    journal_header,
    policy_from_section,
    predictor_of,
)
from headway.config import Config, kernel_params, tiers, usable_cores, worker_groups
from headway.core import ModelName, Tensor
from headway.executors import WorkerPool
from headway.observe import JournalObserver
from headway.predict import Recipe
from headway.runtime import AsyncEngine, InferCall, LoopClock, Observer, OnEnd, TierParams
from headway.sim import TimedKernel

__all__ = ["Rig"]


class Rig:
    """An engine with every configured model loaded; an async context manager that ends it all.

    Invariants: the journal holds every kernel step from the first load on, and is whole once the
    context has ended.
    """

    def __init__(
        self,
        config: Config,
        *,
        recipe: Recipe | None = None,
        journal: Path | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        if recipe is None:
            recipe = Recipe(has_classes=config.policy.class_slots)
        header = journal_header(kernel_params(config), config.policy, recipe)
        policy = build_policy(policy_from_section(header.policy), predictor_of(header))
        self.kernel = TimedKernel(header.params, policy, thread_time_ns)
        """Its decisions are timed by the processor time that they take: on cores that are full of
        batches the time that passes says how the system shares them."""
        self.clock = LoopClock(asyncio.get_running_loop())
        self._journal = None if journal is None else JournalObserver(journal, header)
        self._names = [ModelName(model.name) for model in config.served]
        self.engine = AsyncEngine(
            self.kernel,
            self.clock,
            ConfigCatalogue(config),
            {
                name: TierParams(
                    priority=tier.priority,
                    budget_ns=tier.budget_ns,
                    slot_class=tier.slot_class,
                    late_ns=tier.late_ns,
                )
                for name, tier in tiers(config).items()
            },
            observers=[*observers, *([] if self._journal is None else [self._journal])],
        )
        self._pool = WorkerPool(worker_groups(config, cores=usable_cores()), self.engine)
        self.engine.attach(self._pool)

    async def __aenter__(self) -> Self:
        await self._pool.start()
        try:
            for name in self._names:
                await self.engine.load(name, {})
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop()

    def now_ns(self) -> int:
        """Nanoseconds since the engine started."""
        return self.engine.now_ns()

    def submit(self, model: str, inputs: Sequence[Tensor], on_end: OnEnd) -> None:
        """Send one request; see `Engine.submit`."""
        self.send(self._call(model, inputs), on_end)

    def send(self, call: InferCall, on_end: OnEnd) -> None:
        """Send a call as it is; see `Engine.submit`."""
        self.engine.submit(call, on_end)

    async def infer(self, model: str, inputs: Sequence[Tensor]) -> None:
        """Send one request and wait for its answer."""
        await self.engine.infer(self._call(model, inputs))

    def _call(self, model: str, inputs: Sequence[Tensor]) -> InferCall:
        return InferCall(model=ModelName(model), inputs=inputs, arrived_at_ns=self.engine.now_ns())

    async def _stop(self) -> None:
        await self.engine.drain(0)
        await self._pool.stop()
        self.clock.close()
        if self._journal is not None:
            self._journal.close()
