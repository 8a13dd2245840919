"""A server: engine, workers or what stands in for them, and front door, wired from a configuration.

The one place that knows which class stands behind which port. No decisions are taken here.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from headway.app.device_watch import DeviceWatch
from headway.app.doors import Doors, tls_of
from headway.app.front import Front
from headway.app.generators import Generators
from headway.app.insight import insight_of
from headway.app.kernels import build_policy, journal_header
from headway.app.recipe import circumstances, learner_of, recipe_of
from headway.app.tenants import Tenants
from headway.app.watch import FileWatch, Watched
from headway.config import (
    Config,
    emulated_machine,
    functions_of,
    kernel_params,
    model_params,
    model_spec,
    policy_of,
    tier_of,
    tiers,
    with_model,
    worker_groups,
)
from headway.core import Kernel, ModelName, Predictor, TierName
from headway.devices import EmulatedMachine
from headway.errors import InvalidRequestError, ModelNotFoundError
from headway.executors import EmulatedExecutor, WorkerPool
from headway.frontends import Tls
from headway.observe import JournalHeader, JournalObserver, Metrics, RecentSteps
from headway.predict import Trainable, build
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

__all__ = ["ConfigCatalogue", "ReadAgain", "Server"]

_ANSWER_GRACE_S: Final = 5.0
"""For writing the last replies, once every request has been answered."""

_log = logging.getLogger("headway")


class ConfigCatalogue:
    """The configured models and the functions of pipelines, as the engine asks for them.

    Loads that bring settings of their own are refused unless `server.admin.can_override` is set.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._functions = {each.params.name: each for each in functions_of(config)}

    def names(self) -> Sequence[ModelName]:
        """Every configured model and function; pipelines are made of these."""
        return [*(ModelName(model.name) for model in self._config.served), *self._functions]

    def plan(self, model: ModelName, overrides: Mapping[str, object]) -> ModelPlan:
        """How to load one; see `Catalogue.plan`."""
        function = self._functions.get(model)
        if function is not None:
            return ModelPlan(
                params=function.params,
                spec=function.spec,
                tier=tier_of(self._config, function.pipeline).name,
            )
        if overrides and not self._config.server.admin.can_override:
            raise InvalidRequestError(
                f"loading `{model}` with settings of the caller's own is not allowed",
                hint="set server.admin.can_override: true where every caller is trusted",
            )
        configured = self._config.models
        if model not in self.names() and "path" not in overrides:
            raise ModelNotFoundError(
                f"model `{model}` is not configured",
                hint=f"configured models: {', '.join(each.name for each in configured) or 'none'}",
            )
        config = with_model(self._config, model, overrides) if overrides else self._config
        found = next(m for m in config.models if m.name == model)
        return ModelPlan(
            params=model_params(config, found),
            spec=model_spec(config, found),
            tier=tier_of(config, found).name,
        )


class ReadAgain(NamedTuple):
    """A configuration's file, and how to read it anew as it was read at first."""

    path: Path
    read: Callable[[], Config]


@dataclass(slots=True)
class Server:
    """A wired server: engine, what runs its models, and front door on the running loop."""

    config: Config
    engine: AsyncEngine
    pool: WorkerPool | EmulatedExecutor
    front: Front
    generators: Generators
    doors: Doors
    watch: FileWatch
    devices: DeviceWatch | None
    metrics: Metrics
    recent: RecentSteps
    clock: LoopClock
    journal: JournalObserver | None
    keeper: Keeper | None
    trainer: Trainer | None

    @classmethod
    def build(cls, config: Config, *, read_again: ReadAgain | None = None) -> "Server":
        """Wire everything; nothing runs yet. Needs a running loop.

        Args:
            config: what to serve.
            read_again: the file that the configuration came from, and how to read it anew; tenants
                and keys are then taken from it when it changes.

        Raises:
            ConfigError: a certificate, a profile or the ledger cannot be used.
        """
        recipe = recipe_of(config)
        params = kernel_params(config)
        predictor, trainable = build(recipe, params.devices)
        kernel = Kernel(params, build_policy(policy_of(config), predictor))
        clock = LoopClock(asyncio.get_running_loop())
        catalogue = ConfigCatalogue(config)
        machine = emulated_machine(config)
        metrics = _metrics(config, kernel, clock, catalogue, is_emulated=machine is not None)
        header = journal_header(params, policy_of(config), recipe)
        journal = _journal(config, header)
        recent = RecentSteps(config.observe.recent_steps)
        observers: list[Observer] = [metrics, recent]
        if journal is not None:
            observers.append(journal)
        engine = AsyncEngine(
            kernel,
            clock,
            catalogue,
            _tier_params(config),
            observers=observers,
            observer_lost=_observer_lost,
            metrics=metrics,
            timings=Timings(metrics.loop.decided, metrics.loop.woke),
        )
        pool = _executor(config, machine, clock, engine)
        engine.attach(pool)
        devices = _device_watch(config, pool, metrics, clock)
        front = Front.build(config, engine, clock, metrics, _tier_params(config))
        generators = Generators.build(config, clock, front.tenants.gate, metrics.generators)
        front.engine = generators.beside(front.engine)
        tls = tls_of(config)
        insight = insight_of(
            config, kernel, clock, recent, header, metrics, front, is_emulated=machine is not None
        )
        doors = Doors.build(
            config,
            front,
            generators.door,
            insight,
            tls,
            started_at_unix_ns=clock.started_at_unix_ns,
        )
        _count_answers(metrics, doors)
        return cls(
            config=config,
            engine=engine,
            pool=pool,
            front=front,
            generators=generators,
            doors=doors,
            watch=FileWatch(_watched(tls, front.tenants, read_again)),
            devices=devices,
            metrics=metrics,
            recent=recent,
            clock=clock,
            journal=journal,
            keeper=_keeper(config, predictor, engine),
            trainer=_trainer(trainable, engine),
        )

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.doors.urls[0]

    @property
    def urls(self) -> list[str]:
        """Where each interface listens."""
        return self.doors.urls

    async def start(self) -> None:
        """Listen, then load every configured model, all at once.

        Raises:
            LoadError: a configured model could not be loaded; the others are loaded.
            OSError: the address is taken.
        """
        await self.pool.start()
        self.front.tenants.start()
        await self.doors.start()
        self.watch.start()
        if self.devices is not None:
            self.devices.start()
        names = [ModelName(model.name) for model in self.config.models]
        ends = await asyncio.gather(
            self.generators.start(),
            *(self.front.pipelines.load(name, {}) for name in names),
            return_exceptions=True,
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
        await self.watch.stop()
        ends_at_ns = self.clock.now_ns() + grace_ns
        async with asyncio.TaskGroup() as ending:
            writing = ending.create_task(self.generators.stop(grace_ns))
            left = await self.front.pipelines.drain(grace_ns)
            left += await self.engine.drain(max(0, ends_at_ns - self.clock.now_ns()))
        left += writing.result()
        await self.doors.stop(_ANSWER_GRACE_S)
        await self.front.tenants.stop()
        await self.pool.stop()
        if self.devices is not None:
            await asyncio.to_thread(self.devices.stop)
        self.clock.close()
        if self.journal is not None:
            self.journal.close()
        if self.keeper is not None:
            await self.keeper.stop()
        if self.front.tracing is not None:
            await asyncio.to_thread(self.front.tracing.close)
        return left


def _count_answers(metrics: Metrics, doors: Doors) -> None:
    metrics.count_answers(doors.answers)
    if doors.grpc is not None:
        metrics.count_grpc(doors.grpc.answers, doors.grpc.streamed)


def _watched(tls: Tls | None, tenants: Tenants, read_again: ReadAgain | None) -> list[Watched]:
    """What is read again while the server runs."""
    watched = []
    if tls is not None:
        paths = [path for path in tls.files if path is not None]
        watched.append(Watched(paths, tls.read_again))
    if read_again is not None:
        read = read_again.read
        watched.append(Watched([read_again.path], lambda: tenants.changed(read())))
    return watched


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


def _metrics(
    config: Config,
    kernel: Kernel,
    clock: LoopClock,
    catalogue: ConfigCatalogue,
    *,
    is_emulated: bool,
) -> Metrics:
    """What is counted; every series of a configured model is there from the start."""
    metrics = Metrics(
        kernel,
        clock.now_ns,
        tiers(config),
        targets={name: tier.attainment_ratio for name, tier in tiers(config).items()},
        aliases=config.observe.aliases,
        is_emulated=is_emulated,
    )
    for name in catalogue.names():
        metrics.know(name)
    return metrics


def _device_watch(
    config: Config, pool: WorkerPool | EmulatedExecutor, metrics: Metrics, clock: LoopClock
) -> DeviceWatch | None:
    """What looks at devices and workers, and the metrics told where that is."""
    if isinstance(pool, EmulatedExecutor):
        return None
    metrics.devices.starts = pool.starts
    watch = DeviceWatch.build(config, pool.workers, clock.now_ns)
    if watch is not None:
        metrics.devices.look = watch.look
    return watch


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


def _journal(config: Config, header: JournalHeader) -> JournalObserver | None:
    if config.journal.path is None:
        return None
    return JournalObserver(Path(config.journal.path), header, bytes_max=config.journal.bytes_max)


def _observer_lost(error: Exception) -> None:
    _log.error("an observer raised and was dropped", exc_info=error)
