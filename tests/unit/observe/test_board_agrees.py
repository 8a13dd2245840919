"""The board and the metrics read the same steps in two ways, and say the same of them."""

import pytest
from tests.engine_rig import ECHO, TIERS, Rig, a_plan, chance, random_calls

from headway.observe import About, Board, Metrics, RecentSteps, Sources, TierGoal
from headway.policy import edf
from headway.testing import run_virtual
from headway.units import NS_PER_MS

MS = NS_PER_MS
ABOUT = About(version="1", policy="edf", predictor="mean", is_emulated=False, can_load=True)
GOALS = {
    name: TierGoal(priority=tier.priority, budget_ns=tier.budget_ns, target_ratio=0.99)
    for name, tier in TIERS.items()
}


@pytest.mark.parametrize("seed", range(20))
def test_counts_are_those_of_metrics_and_kernel_at_every_moment(seed):
    """Of a random run: by tier what ended and what was in time, and how many wait and run."""

    async def play():
        seen = []

        def observe(kernel, clock):
            metrics = Metrics(kernel, clock.now_ns, TIERS)
            metrics.know(ECHO)
            recent = RecentSteps(100_000)
            sources = Sources(kernel, clock.now_ns, metrics.kept, list)
            seen.extend((metrics, Board(ABOUT, GOALS, recent, sources)))
            return [metrics, recent]

        rig = Rig(
            observe=observe,
            policy=edf,
            plans=[a_plan(queue_requests_max=8, linger_ns=2 * MS)],
        )
        await rig.load_all()
        metrics, board = seen
        await random_calls(rig, chance(seed, "board"), lambda: agree(rig, metrics, board))
        await rig.until_ms(rig.loop.time() * 1_000 + 20_000)
        assert agree(rig, metrics, board) == 60
        rig.close()

    run_virtual(play())


def agree(rig, metrics, board):
    """See that all say the same; returns how many requests have ended, those taken back too."""
    assert board.catch_up(1_000_000)
    glance = board.first()
    kept = metrics.kept()
    assert {tier.name: tier.minute for tier in glance.tiers} == kept
    assert {tier.name: tier.start for tier in glance.tiers} == kept
    assert sum(queue.depth for queue in glance.queues) == rig.kernel.room.count
    running = {(run.slot, run.rows) for device in glance.devices for run in device.running}
    assert running == {(each.slot, each.rows) for each in rig.kernel.fleet.batches.values()}
    refused = sum(reason.count for reason in glance.reasons)
    in_time = sum(each.in_time for each in kept.values())
    late = sum(each.ended for each in kept.values()) - in_time - refused
    assert late >= 0
    ledger = rig.kernel.ledger
    return ledger.arrived_count - len(ledger.live)
