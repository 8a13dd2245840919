"""Devices moved on by themselves: what would happen is what then happens."""

from copy import deepcopy

import pytest

from headway.core import BatchId
from headway.sim import scenario_from_dict
from headway.testing import a_dispatch

LANES = {
    "devices": [{"name": "cpu:0", "slots": 3, "lanes": 1}],
    "sharing": "lanes",
    "tiers": {"only": {"budget": "1s"}},
    "models": [{"name": "m", "service": "10ms", "noise_cv": 0.3}],
    "workload": {
        "duration": "1s",
        "streams": [
            {"model": "m", "tier": "only", "arrivals": {"kind": "poisson", "rate_rps": 10}}
        ],
    },
}
CARDS = {
    **LANES,
    "accelerator": "a100-pcie4",
    "devices": [{"name": "cpu:0"}],
    "models": [{"name": "m", "options": {"solo": "10ms", "bandwidth": 0.6, "in_bytes": 9_000_000}}],
}
del CARDS["sharing"]


def ends_of(future, *starts):
    """Ends of batches that are started one by one, each at its instant."""
    ends = []
    for dispatch, at_ns in starts:
        while (end := future.next_end(at_ns)) is not None:
            ends.append(end)
        future.start(dispatch, at_ns)
    while (end := future.next_end(1 << 60)) is not None:
        ends.append(end)
    return ends


STARTS = [
    (a_dispatch(1, 1, model="m", slot=0), 0),
    (a_dispatch(2, 2, model="m", slot=1), 2_000_000),
    (a_dispatch(3, 3, model="m", slot=2), 30_000_000),
]


@pytest.mark.parametrize("plain", [LANES, {**LANES, "sharing": "solo"}, CARDS])
def test_future_is_what_happens(plain):
    """Noise included, whoever starts the same batches sees the same ends, any number of times."""
    executor = scenario_from_dict(deepcopy(plain)).foreseeable()
    first, second = ends_of(executor.future(), *STARTS), ends_of(executor.future(), *STARTS)
    assert first == second
    assert {end.batch_id for end in first} == {1, 2, 3}
    dispatch, at_ns = STARTS[0]
    ends_ns = {f.batch_id: f.at_ns for f in executor.start(dispatch, at_ns)}
    for dispatch, at_ns in STARTS[1:2]:
        ends_ns |= {f.batch_id: f.at_ns for f in executor.start(dispatch, at_ns)}
    from_now = ends_of(executor.future(), STARTS[2])
    assert [end.batch_id for end in from_now] == [end.batch_id for end in first]
    for end, earlier in zip(from_now, first, strict=True):
        assert end.at_ns == pytest.approx(earlier.at_ns, abs=2)
    soonest = min(ends_ns, key=ends_ns.__getitem__)
    assert from_now[0].at_ns == ends_ns[soonest]


@pytest.mark.parametrize("plain", [LANES, CARDS])
def test_future_stops_where_it_is_told(plain):
    """Before the first end there is none, and looking changes nothing of the devices."""
    executor = scenario_from_dict(deepcopy(plain)).foreseeable()
    executor.start(*STARTS[0])
    future = executor.future()
    assert future.next_end(1_000_000) is None
    late = future.next_end(1 << 60)
    assert late is not None
    assert late == executor.future().next_end(1 << 60)
    assert late.batch_id == BatchId(1)


def test_ended_batch_is_in_no_future():
    """What has left its slot does not come again."""
    executor = scenario_from_dict(deepcopy(LANES)).foreseeable()
    (finish,) = executor.start(*STARTS[0])
    executor.end(BatchId(1), finish.at_ns)
    assert executor.future().next_end(1 << 60) is None
