"""A server: engine, workers or what stands in for them, and front door, wired from a configuration.

The one place that knows which class stands behind which port. No decisions are taken here.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headway import __version__
from headway.app.kernels import build_policy, journal_header
from headway.app.recipe import circumstances, learner_of, recipe_of
from headway.config import (
    Config,
    emulated_machine,
    kernel_params,
    model_params,
    model_spec,
    tier_of,
    tiers,
    with_model,
    worker_groups,
)
from headway.core import Kernel, KernelParams, ModelName, Predictor, TierName
from headway.devices import EmulatedMachine
from headway.errors import InvalidRequestError, ModelNotFoundError
from headway.executors import EmulatedExecutor, WorkerPool
from headway.frontends import HttpServer, Listener, OipRest, Regions, grpc_listener
from headway.observe import JournalObserver, Metrics
from headway.predict import Recipe, Trainable, build
from headway.profiling import Keeper
from headway.runtime import (
    AsyncEngine,
    LoopClock,
    ModelPlan,
    Observer,
    TierParams,
    Timings,
    Trainer,
)
from headway.units import NS_PER_S

__all__ = ["ConfigCatalogue", "Server"]

_HTTP_GRACE_S: Final = 5.0
"""For writing the last replies, once every request has been answered."""

_log = logging.getLogger("headway")


class ConfigCatalogue:
    """The configured models, as the engine asks for them.

    Loads that bring settings of their own are refused unless `server.admin.can_override` is set.
    """

    def __init__(self, config: Config) -> None:
        self._config = config

    def names(self) -> Sequence[ModelName]:
        """Every configured model."""
        return [ModelName(model.name) for model in self._config.models]

    def plan(self, model: ModelName, overrides: Mapping[str, object]) -> ModelPlan:
        """How to load one; see `Catalogue.plan`."""
        if overrides and not self._config.server.admin.can_override:
            raise InvalidRequestError(
                f"loading `{model}` with settings of the caller's own is not allowed",
                hint="set server.admin.can_override: true where every caller is trusted",
            )
        if model not in self.names() and "path" not in overrides:
            raise ModelNotFoundError(
                f"model `{model}` is not configured",
                hint=f"configured models: {', '.join(self.names()) or 'none'}",
            )
        config = with_model(self._config, model, overrides) if overrides else self._config
        found = next(m for m in config.models if m.name == model)
        return ModelPlan(
            params=model_params(config, found),
            spec=model_spec(config, found),
            tier=tier_of(config, found).name,
        )


@dataclass(slots=True)
class Server:
    """A wired server: engine, what runs its models, and front door on the running loop."""

    config: Config
    engine: AsyncEngine
    pool: WorkerPool | EmulatedExecutor
    http: HttpServer
    grpc: Listener | None
    metrics: Metrics
    clock: LoopClock
    journal: JournalObserver | None
    keeper: Keeper | None
    trainer: Trainer | None

    @classmethod
    def build(cls, config: Config) -> "Server":
        """Wire everything; nothing runs yet. Needs a running loop."""
        recipe = recipe_of(config)
        params = kernel_params(config)
        predictor, trainable = build(recipe, params.devices)
        kernel = Kernel(params, build_policy(config.policy, predictor))
        clock = LoopClock(asyncio.get_running_loop())
        catalogue = ConfigCatalogue(config)
        machine = emulated_machine(config)
        metrics = Metrics(kernel, clock.now_ns, tiers(config), is_emulated=machine is not None)
        for name in catalogue.names():
            metrics.know(name)
        journal = _journal(config, params, recipe)
        observers: list[Observer] = [metrics]
        if journal is not None:
            observers.append(journal)
        engine = AsyncEngine(
            kernel,
            clock,
            catalogue,
            _tier_params(config),
            observers=observers,
            observer_lost=_observer_lost,
            metrics_text=metrics.text,
            timings=Timings(metrics.loop.decided, metrics.loop.woke),
        )
        pool = _executor(config, machine, clock, engine)
        engine.attach(pool)
        regions = Regions(is_allowed=config.server.shared_memory)
        rest = OipRest(
            engine,
            regions=regions,
            version=__version__,
            body_bytes_max=config.server.body_max,
            can_load=config.server.admin.can_load,
        )
        metrics.count_answers(rest.answers)
        http = HttpServer(
            rest,
            host=config.server.host,
            port=config.server.port,
            keep_alive_s=max(1, config.server.keep_alive // NS_PER_S),
        )
        grpc = _grpc(config, engine, regions)
        keeper = _keeper(config, predictor, engine)
        trainer = _trainer(trainable, engine)
        return cls(config, engine, pool, http, grpc, metrics, clock, journal, keeper, trainer)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self.config.server.host}:{self.http.port}"

    @property
    def urls(self) -> list[str]:
        """Where each interface listens."""
        if self.grpc is None:
            return [self.url]
        return [self.url, f"grpc://{self.config.server.host}:{self.grpc.port}"]

    async def start(self) -> None:
        """Listen, then load every configured model, all at once.

        Raises:
            LoadError: a configured model could not be loaded; the others are loaded.
            OSError: the address is taken.
        """
        await self.pool.start()
        await self.http.start()
        if self.grpc is not None:
            await self.grpc.start()
        names = [ModelName(model.name) for model in self.config.models]
        ends = await asyncio.gather(
            *(self.engine.load(name, {}) for name in names), return_exceptions=True
        )
        failures = [end for end in ends if isinstance(end, BaseException)]
        for failure in failures[1:]:
            _log.error("%s", failure)
        if failures:
            raise failures[0]
        if self.keeper is not None:
            self.keeper.start()
        if self.trainer is not None:
            self.trainer.start()

    async def stop(self, grace_ns: int) -> int:
        """Finish what was admitted, then end everything; returns how many were not finished."""
        if self.trainer is not None:
            await self.trainer.stop()
        left = await self.engine.drain(grace_ns)
        await self.http.stop(_HTTP_GRACE_S)
        if self.grpc is not None:
            await self.grpc.stop(_HTTP_GRACE_S)
        await self.pool.stop()
        self.clock.close()
        if self.journal is not None:
            self.journal.close()
        if self.keeper is not None:
            await self.keeper.stop()
        return left


def _grpc(config: Config, engine: AsyncEngine, regions: Regions) -> Listener | None:
    section = config.server.grpc
    if section is None:
        return None
    return grpc_listener(
        engine,
        version=__version__,
        regions=regions,
        can_load=config.server.admin.can_load,
        host=config.server.host,
        port=section.port,
        message_bytes_max=section.message_max,
        keep_alive_s=section.keep_alive / NS_PER_S,
    )


def _tier_params(config: Config) -> dict[TierName, TierParams]:
    return {
        name: TierParams(
            priority=tier.priority,
            budget_ns=tier.budget_ns,
            slot_class=tier.slot_class,
            late_ns=tier.late_ns,
        )
        for name, tier in tiers(config).items()
    }


def _executor(
    config: Config, machine: EmulatedMachine | None, clock: LoopClock, engine: AsyncEngine
) -> WorkerPool | EmulatedExecutor:
    if machine is None:
        return WorkerPool(worker_groups(config), engine)
    _log.warning(
        "everything here is emulated: batches take the time that the description of `%s` says, "
        "outputs are zeros, and no figure is a measurement of it",
        machine.machine.name,
    )
    return EmulatedExecutor(machine, clock, engine)


def _trainer(trainable: Trainable | None, engine: AsyncEngine) -> Trainer | None:
    if trainable is None:
        return None
    return Trainer(
        trainable,
        engine.install,
        failed=lambda error: _log.error("the predictor could not be fitted", exc_info=error),
    )


def _keeper(config: Config, predictor: Predictor, engine: AsyncEngine) -> Keeper | None:
    section = config.predictor
    if section.state is None:
        return None
    path = Path(section.state)
    return Keeper(
        path,
        learner_of(config),
        circumstances(config),
        predictor.state,
        is_sound=lambda: not engine.crash.done(),
        every_s=section.save_every / NS_PER_S,
        failed=lambda error: _log.warning("cannot keep what was learnt in %s: %s", path, error),
    )


def _journal(config: Config, params: KernelParams, recipe: Recipe) -> JournalObserver | None:
    if config.journal.path is None:
        return None
    header = journal_header(params, config.policy, recipe)
    return JournalObserver(Path(config.journal.path), header, bytes_max=config.journal.bytes_max)


def _observer_lost(error: Exception) -> None:
    _log.error("an observer raised and was dropped", exc_info=error)
