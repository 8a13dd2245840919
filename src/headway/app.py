"""The composition root: a configuration in, wired objects out; and the life of a server.

The one place that knows which class stands behind which port. No decisions are taken here.
"""

import asyncio
import gc
import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import structs

from headway import __version__
from headway.config import (
    Config,
    LoadedConfig,
    PolicyConfig,
    WindowedPciePredictorConfig,
    kernel_params,
    model_params,
    model_spec,
    tier_of,
    tiers,
    warnings_of,
    with_model,
    worker_groups,
)
from headway.core import Kernel, KernelParams, ModelName, Policy, Predictor, TierName
from headway.devices import fingerprint
from headway.errors import (
    ConfigError,
    HeadwayError,
    InvalidRequestError,
    ModelNotFoundError,
)
from headway.executors import WorkerPool
from headway.frontends import HttpServer, OipRest
from headway.observe import JournalHeader, JournalObserver, Metrics, configure_logging
from headway.policy import edf, fifo, priority
from headway.predict import ModelProfile
from headway.predict.recipe import Recipe
from headway.predict.factory import PREDICTORS, build_predictor
from headway.profiling import read_profiles
from headway.profiling.keeper import Keeper
from headway.profiling.learnt import Circumstances, read_learnt
from headway.runtime import AsyncEngine, LoopClock, ModelPlan, Observer, TierParams
from headway.units import NS_PER_S, format_duration

__all__ = [
    "ConfigCatalogue",
    "Server",
    "build_policy",
    "circumstances",
    "journal_header",
    "kernel_of",
    "policy_from_section",
    "policy_section",
    "predictor_of",
    "recipe_of",
    "serve",
]

_POLICIES: Final[Mapping[str, Callable[[Predictor], Policy]]] = {
    "fifo": fifo,
    "priority": priority,
    "edf": edf,
}
_HTTP_GRACE_S: Final = 5.0
"""For writing the last replies, once every request has been answered."""

_log = logging.getLogger("headway")


def build_policy(section: PolicyConfig, predictor: Predictor) -> Policy:
    """The named policy with its settings."""
    return replace(_POLICIES[section.kind](predictor), class_slots=section.class_slots)


def policy_section(section: PolicyConfig) -> dict[str, object]:
    """A policy's settings as plain values, for a journal's header."""
    return section.model_dump(mode="json")


def policy_from_section(settings: Mapping[str, object]) -> PolicyConfig:
    """The inverse of `policy_section`; settings that are left out have their defaults.

    Raises:
        ConfigError: this version knows no such policy, or not these settings of it.
    """
    try:
        return Config.model_validate({"policy": dict(settings)}).policy
    except ValueError as error:
        raise ConfigError(
            f"there is no policy with the settings `{dict(settings)}` here",
            path="policy",
            value=dict(settings),
            hint=f"this version has {', '.join(_POLICIES)}",
        ) from error


def journal_header(params: KernelParams, section: PolicyConfig, recipe: Recipe) -> JournalHeader:
    """What a journal begins with, so that `kernel_of` can rebuild the kernel; starts now."""
    return JournalHeader(
        headway=__version__,
        started_at=datetime.now(UTC).isoformat(),  # noqa: TID251 - wall clock's only appearance
        params=params,
        policy=policy_section(section),
        predictor=recipe,
    )


def predictor_of(header: JournalHeader) -> Predictor:
    """A fresh predictor as the one of a journal's run was when it began.

    Raises:
        ConfigError: this version does not have it.
        HeadwayError: it needs a package that is not installed.
    """
    recipe = header.predictor
    if recipe.kind not in PREDICTORS:
        raise ConfigError(
            f"there is no predictor `{recipe.kind}` here",
            path="predictor",
            value=recipe.kind,
            hint=f"this version has {', '.join(PREDICTORS)}",
        )
    return build_predictor(recipe, header.params.devices)


def kernel_of(header: JournalHeader, predictor: Predictor | None = None) -> Kernel:
    """A fresh kernel with the limits, the policy and the predictor of a journal's run.

    Args:
        header: of the journal.
        predictor: instead of the run's own.

    Raises:
        ConfigError: this version does not have the policy or the predictor.
    """
    predictor = predictor_of(header) if predictor is None else predictor
    return Kernel(header.params, build_policy(policy_from_section(header.policy), predictor))


def circumstances(config: Config) -> Circumstances:
    """What must stay as it is for what a predictor learnt to hold."""
    threads = {model.name: model.options.get("intra_op_threads", 1) for model in config.models}
    return Circumstances(
        machine=fingerprint(),
        devices=kernel_params(config).devices,
        threads={name: count for name, count in threads.items() if isinstance(count, int)},
    )


def recipe_of(config: Config) -> Recipe:
    """The configured predictor: its settings, the profiles and what it had learnt.

    Raises:
        HeadwayError: a profile cannot be read, or was measured on other hardware.
    """
    section = config.predictor
    profiles: list[ModelProfile] = []
    for path in section.profiles:
        found = read_profiles(Path(path), fingerprint())
        profiles += found.file.profiles
        for doubt in found.doubts:
            _log.warning("profile %s: %s", path, doubt)
    state: dict[str, object] = {}
    if section.state is not None:
        recalled = read_learnt(Path(section.state), section.kind, circumstances(config))
        state = recalled.state
        if recalled.why_not is not None:
            _log.warning("starting without %s: %s", section.state, recalled.why_not)
    recipe = Recipe(
        kind=section.kind,
        confidence=section.confidence,
        profiles=tuple(profiles),
        state=state,
    )
    if isinstance(section, WindowedPciePredictorConfig):
        recipe = structs.replace(recipe, link_bytes_per_s=section.link_per_second)
    return recipe


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
    """A wired server: engine, workers and front door on the running loop."""

    config: Config
    engine: AsyncEngine
    pool: WorkerPool
    http: HttpServer
    metrics: Metrics
    clock: LoopClock
    journal: JournalObserver | None
    keeper: Keeper | None

    @classmethod
    def build(cls, config: Config) -> "Server":
        """Wire everything; nothing runs yet. Needs a running loop."""
        recipe = recipe_of(config)
        params = kernel_params(config)
        predictor = build_predictor(recipe, params.devices)
        kernel = Kernel(params, build_policy(config.policy, predictor))
        clock = LoopClock(asyncio.get_running_loop())
        catalogue = ConfigCatalogue(config)
        metrics = Metrics(kernel, clock.now_ns, tiers(config))
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
        )
        pool = WorkerPool(worker_groups(config), engine)
        engine.attach(pool)
        rest = OipRest(
            engine,
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
        keeper = _keeper(config, predictor)
        return cls(config, engine, pool, http, metrics, clock, journal, keeper)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self.config.server.host}:{self.http.port}"

    async def start(self) -> None:
        """Listen, then load every configured model, all at once.

        Raises:
            LoadError: a configured model could not be loaded; the others are loaded.
            OSError: the address is taken.
        """
        await self.pool.start()
        await self.http.start()
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

    async def stop(self, grace_ns: int) -> int:
        """Finish what was admitted, then end everything; returns how many were not finished."""
        left = await self.engine.drain(grace_ns)
        await self.http.stop(_HTTP_GRACE_S)
        await self.pool.stop()
        self.clock.close()
        if self.journal is not None:
            self.journal.close()
        if self.keeper is not None:
            await self.keeper.stop()
        return left


def serve(loaded: LoadedConfig, *, ready: Callable[[Server], None] | None = None) -> int:
    """Run a server until SIGTERM or SIGINT.

    Args:
        loaded: what to serve.
        ready: called once every model is warm.

    Returns:
        0 after an orderly end, 1 when the scheduler stopped on a bug.

    Raises:
        HeadwayError: it could not start.
    """
    if not __debug__:
        raise HeadwayError("asserts are switched off", hint="start Python without -O")
    config = loaded.config
    configure_logging(config.log.format, config.log.level)
    for warning in warnings_of(config):
        _log.warning("%s", warning)
    import uvloop  # here, for no other command needs a fast loop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(config, ready))


async def _serve(config: Config, ready: Callable[[Server], None] | None) -> int:
    server = Server.build(config)
    stop = _Stop()
    server.engine.crash.add_done_callback(lambda _: stop.asked.set())
    try:
        if await _start(server, stop):
            # What is alive now stays: the collector need not walk it again and again, which with
            # many requests waiting stops the loop for longer than an urgent one has.
            gc.collect()
            gc.freeze()
            _log.info("ready on %s", server.url)
            if ready is not None:
                ready(server)
            await stop.asked.wait()
    except BaseException:
        await server.stop(0)
        raise
    return await _stop(server)


class _Stop:
    """The first SIGTERM or SIGINT asks for an orderly end, the second ends the process at once.

    Invariants: while ``starting`` is set, asking cancels it: a start need not be waited for.
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.starting = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: int) -> None:
        if self.asked.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.asked.set()
        if self.starting is not None:
            self.starting.cancel()


async def _start(server: Server, stop: _Stop) -> bool:
    """Start; False when told to stop meanwhile."""
    try:
        await server.start()
    except asyncio.CancelledError:
        if not stop.asked.is_set() or stop.starting is None or stop.starting.uncancel():
            raise  # someone else's
    except OSError as error:
        raise HeadwayError(
            f"cannot listen on `{server.config.server.host}:{server.config.server.port}`: {error}",
            hint="choose another with --port, or stop what listens there",
        ) from error
    stop.starting = None
    return not stop.asked.is_set()


async def _stop(server: Server) -> int:
    """End in order; the exit code."""
    crash = server.engine.crash
    grace_ns = 0 if crash.done() else server.config.server.grace
    if not crash.done():
        _log.info("stopping: admitted requests have %s", format_duration(grace_ns))
    left = await server.stop(grace_ns)
    if left:
        _log.warning("%d requests were not finished in the grace time", left)
    if not crash.done():
        return 0
    _log.critical("the scheduler has a bug", exc_info=crash.exception())
    return 1


def _tier_params(config: Config) -> dict[TierName, TierParams]:
    return {
        name: TierParams(
            priority=tier.priority, budget_ns=tier.budget_ns, slot_class=tier.slot_class
        )
        for name, tier in tiers(config).items()
    }


def _keeper(config: Config, predictor: Predictor) -> Keeper | None:
    section = config.predictor
    if section.state is None:
        return None
    path = Path(section.state)
    return Keeper(
        path,
        section.kind,
        circumstances(config),
        predictor.state,
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
