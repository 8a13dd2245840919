"""What a server lets its operator see: the board, the last steps, and timelines of them.

Knows which object says what. Decides nothing.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from headway import __version__
from headway.app.front import Front
from headway.config import Config, HeadwayPolicyConfig, policy_of, tiers
from headway.core import DeviceParams, Kernel, TenantId
from headway.frontends import Insight, Viewers
from headway.observe import (
    About,
    Board,
    HeldSteps,
    JournalHeader,
    Metrics,
    ModelNow,
    RecentSteps,
    Sources,
    TierGoal,
)
from headway.runtime import LoopClock
from headway.tenancy import TenantCounts

__all__ = ["insight_of"]


def insight_of(
    config: Config,
    kernel: Kernel,
    clock: LoopClock,
    recent: RecentSteps,
    header: JournalHeader,
    metrics: Metrics,
    front: Front,
    *,
    is_emulated: bool,
) -> Insight:
    """Wire it; nothing is read before somebody looks."""
    gate = front.tenants.gate
    section = policy_of(config)
    weights = section.shares if isinstance(section, HeadwayPolicyConfig) else {}
    board = Board(
        About(
            version=__version__,
            policy=section.kind,
            predictor=header.predictor.kind,
            is_emulated=is_emulated,
            can_load=config.server.admin.can_load,
        ),
        {
            name: TierGoal(
                priority=tier.priority,
                budget_ns=tier.budget_ns,
                target_ratio=tier.attainment_ratio,
            )
            for name, tier in tiers(config).items()
        },
        recent,
        Sources(
            kernel,
            clock.now_ns,
            metrics.kept,
            models=partial(_models_of, front),
            refused=dict if gate is None else lambda: _refused(gate.counts()),
            weights=lambda: {TenantId(name): weight for name, weight in weights.items()},
        ),
    )
    devices = header.params.devices
    notes = {
        "policy": section.kind,
        "started_at": header.started_at,
        "headway": header.headway,
        "emulated": is_emulated,
    }
    return Insight(
        recent=recent,
        header=header,
        now_ns=clock.now_ns,
        timeline=partial(_timeline_of, devices, notes),
        viewers=Viewers(board, viewers_max=config.observe.viewers_max),
    )


def _models_of(front: Front) -> Sequence[ModelNow]:
    return [
        ModelNow(name=line.name, version=line.version, state=line.state, reason=line.reason)
        for line in front.engine.index()
    ]


def _refused(counts: Mapping[TenantId, TenantCounts]) -> dict[TenantId, int]:
    return {tenant: sum(of.refused.values()) for tenant, of in counts.items()}


def _timeline_of(
    devices: Sequence[DeviceParams], notes: Mapping[str, object], held: HeldSteps, from_ns: int
) -> bytes:
    """The steps as a trace."""
    # Here, for a server of which nobody asks a timeline has no need of it.
    from headway.report import Window, timeline_bytes

    return timeline_bytes(held.records(), devices, window=Window(from_ns), notes=notes)
