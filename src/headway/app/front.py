"""What stands between clients and the engine: tenants, traces and pipelines, in this order.

Each is an engine itself and hands on what it does not change, so a call passes them all and none
knows the others. Knows which class stands behind which section. Decides nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from headway import __version__
from headway.app.pipelines import pipeline_plans
from headway.app.tenants import Tenants
from headway.config import Config
from headway.core import TierName
from headway.frontends import TracedEngine
from headway.observe import Metrics, Sampling, Tracing, open_tracing
from headway.runtime import AsyncEngine, Engine, LoopClock, Patience, Pipelines, TierParams

__all__ = ["Front"]


@dataclass(slots=True)
class Front:
    """The layers before an engine."""

    engine: Engine
    """The outermost, which clients meet."""
    tenants: Tenants
    tracing: Tracing | None
    pipelines: Pipelines

    @classmethod
    def build(
        cls,
        config: Config,
        engine: AsyncEngine,
        clock: LoopClock,
        metrics: Metrics,
        tiers: Mapping[TierName, TierParams],
    ) -> "Front":
        """Wire them; the ledger of tenants is opened, nothing else happens yet.

        Raises:
            ConfigError: the ledger or the tracing cannot be had.
        """
        tenants = Tenants.build(config, clock.now_ns, clock.started_at_unix_ns)
        if tenants.gate is not None:
            metrics.count_tenants(tenants.gate.counts, tenants.gate.in_flight)
        pipelines = _pipelines(config, engine, metrics, tiers)
        tracing = _tracing(config, clock)
        front: Engine = pipelines
        if tracing is not None:
            # Of the system's own entropy: two servers must not make the same traces.
            front = TracedEngine(front, Sampling(config.tracing.ratio, Random()), tracing)
        return cls(tenants.before(front, config), tenants, tracing, pipelines)


def _pipelines(
    config: Config, engine: AsyncEngine, metrics: Metrics, tiers: Mapping[TierName, TierParams]
) -> Pipelines:
    plans = pipeline_plans(config)
    for plan in plans:
        metrics.pipelines.know(plan.name)
    limits = config.limits
    return Pipelines(
        engine,
        plans,
        tiers,
        observer=metrics.pipelines,
        patience=Patience(limits.retry_after_min, limits.retry_after_max),
    )


def _tracing(config: Config, clock: LoopClock) -> Tracing | None:
    section = config.tracing
    if section.otlp is None:
        return None
    return open_tracing(
        section.otlp,
        service=section.service,
        version=__version__,
        started_at_unix_ns=clock.started_at_unix_ns,
    )
