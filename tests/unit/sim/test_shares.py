"""Who got how much of the devices, over time."""

from itertools import pairwise

import pytest

from headway.core import BatchFinished, BatchId, Dispatch, ReplicaId, RequestArrived, SlotClass
from headway.sim import ShareMeter, jain_index
from headway.testing import a_device, a_request
from headway.units import NS_PER_MS, NS_PER_S


def run(meter, batch_id, from_ms, until_ms, **rows_by_tenant):
    """Have a batch of these tenants run for a while."""
    requests = [
        a_request(batch_id * 10 + index, tenant=tenant, rows=rows, budget="9s")
        for index, (tenant, rows) in enumerate(rows_by_tenant.items())
    ]
    for request in requests:
        meter(from_ms * NS_PER_MS, RequestArrived(request=request), [])
    dispatch = Dispatch(
        batch_id=BatchId(batch_id),
        replica_id=ReplicaId(1),
        model=requests[0].model,
        device=a_device("d").name,
        slot=0,
        slot_class=SlotClass.HIGH,
        rows=sum(request.rows for request in requests),
        request_ids=tuple(request.request_id for request in requests),
    )
    meter(from_ms * NS_PER_MS, BatchFinished(batch_id=BatchId(0)), [dispatch])
    meter(until_ms * NS_PER_MS, BatchFinished(batch_id=BatchId(batch_id)), [])


def test_time_lies_evenly_between_start_and_end():
    """A batch over three bins gives each the part that lies in it."""
    meter = ShareMeter()
    run(meter, 1, 50, 250, a=1)
    assert {at: round(ns / NS_PER_MS) for at, ns in meter.given_ns["a"].items()} == {
        0: 50,
        1: 100,
        2: 50,
    }
    assert meter.given_between_ns("a", 0, NS_PER_S) == pytest.approx(200 * NS_PER_MS)


def test_members_share_a_batch_by_rows():
    """Three rows of four are three quarters of its time."""
    meter = ShareMeter()
    run(meter, 1, 0, 400, a=3, b=1)
    shares = meter.figures({"a": 1, "b": 1}, 400 * NS_PER_MS, 0, 400 * NS_PER_MS)
    assert shares.shares == pytest.approx({"a": 0.75, "b": 0.25})
    assert shares.deviation_max_ratio == pytest.approx(0.5)


def test_every_window_counts():
    """A second of one and a second of the other are even over two, and uneven within."""
    meter = ShareMeter()
    run(meter, 1, 0, 1000, a=1)
    run(meter, 2, 1000, 2000, b=1)
    whole = meter.figures({"a": 1, "b": 1}, 2 * NS_PER_S, 0, 2 * NS_PER_S)
    assert (whole.windows, whole.jain_index_min) == (1, pytest.approx(1.0))
    halves = meter.figures({"a": 1, "b": 1}, NS_PER_S, 0, 2 * NS_PER_S)
    assert halves.windows == 11
    assert halves.jain_index_min == pytest.approx(0.5)
    assert (halves.shares_min["a"], halves.shares_max["a"]) == (0.0, 1.0)


def test_weights_say_what_even_means():
    """Two thirds are what a weight of two is to get of three."""
    meter = ShareMeter()
    run(meter, 1, 0, 1000, a=2, b=1)
    shares = meter.figures({"a": 2, "b": 1}, NS_PER_S, 0, NS_PER_S)
    assert shares.deviation_max_ratio == pytest.approx(0.0, abs=1e-9)
    assert shares.jain_index_min == pytest.approx(1.0)


def test_stretch_without_a_window_is_refused():
    """There is nothing to say of it."""
    with pytest.raises(ValueError, match="no window"):
        ShareMeter().figures({"a": 1}, NS_PER_S, 0, NS_PER_S // 2)


def test_jain_index_goes_from_one_for_all_to_one_over_n_for_one():
    """And falls the more uneven the parts are."""
    assert jain_index([2, 2, 2]) == pytest.approx(1.0)
    assert jain_index([1, 0, 0]) == pytest.approx(1 / 3)
    assert jain_index([0, 0]) == 1.0
    steps = [jain_index([1, 1 + step]) for step in range(5)]
    assert all(later < earlier for earlier, later in pairwise(steps))
