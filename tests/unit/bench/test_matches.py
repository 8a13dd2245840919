"""The contest's process: what it keeps of a run, and how it weighs a mix."""

import asyncio

import pytest
from tests.unit.bench.contest_words import SOLO_NS, a_mix

from headway.bench.inputs import ClassRequests
from headway.bench.matches import Steps, _in_proportion
from headway.core import BatchFinished, ReplicasLost, RequestArrived
from headway.testing import a_dispatch, a_request, run_virtual


def test_steps_are_kept_until_nothing_runs():
    """A batch that outlives its request is waited for, and so is one that is lost."""

    async def play():
        steps = Steps()
        await steps.until_idle()
        steps(1, RequestArrived(request=a_request(1)), [a_dispatch(1, 1), a_dispatch(2, 2)])
        loop = asyncio.get_running_loop()
        loop.call_later(1.0, steps, 2, BatchFinished(batch_id=1), [])
        loop.call_later(2.0, steps, 3, ReplicasLost(replica_ids=(1,), message="gone"), [])
        await steps.until_idle()
        return steps, loop.time()

    steps, ended_at_s = run_virtual(play())
    assert ended_at_s == 2.0
    assert [(record.seq, record.now_ns) for record in steps.records] == [(0, 1), (1, 2), (2, 3)]


def test_capacity_is_measured_in_a_mixs_own_proportions():
    """Half of the work is high here; weights say how often each class is sent."""
    mix = a_mix()
    requests = {one.name: ClassRequests(one.traffic, []) for one in mix.classes}
    weighted = _in_proportion(mix, requests, SOLO_NS)
    work = [kind.traffic.weight * SOLO_NS[kind.traffic.name] for kind in weighted]
    assert sum(work) == pytest.approx(1.0)
    assert work[0] == pytest.approx(0.5)
    low = [kind.traffic.weight for kind in weighted[1:]]
    assert low[0] == pytest.approx(3 * low[1])
