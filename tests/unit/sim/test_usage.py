"""What a run made of its devices: busy time, waste, and how right forecasts were."""

import pytest

from headway.core import (
    BatchFailed,
    BatchFinished,
    BatchId,
    Complete,
    Dispatch,
    Expire,
    ExpireReason,
    ReplicaId,
    ReplicasLost,
    RequestArrived,
    SlotClass,
    Stage,
)
from headway.sim import Usage
from headway.testing import a_device, a_request

MS = 1_000_000


def start(batch_id, *requests, slot=0, expected_ms=0, bound_ms=0):
    """The command that starts these requests as one batch on the device `d`."""
    return Dispatch(
        batch_id=BatchId(batch_id),
        replica_id=ReplicaId(1),
        model=requests[0].model,
        device=a_device("d").name,
        slot=slot,
        slot_class=SlotClass.HIGH,
        rows=sum(request.rows for request in requests),
        request_ids=tuple(request.request_id for request in requests),
        expected_ns=expected_ms * MS,
        bound_ns=bound_ms * MS,
    )


def done(request, batch_id=1):
    """The command that answers a request."""
    return Complete(
        request_id=request.request_id,
        batch_id=BatchId(batch_id),
        batch_rows=1,
        queue_delay_ns=0,
        service_ns=0,
    )


def expired(request):
    """The command that ends a request whose time is up."""
    return Expire(
        request_id=request.request_id, stage=Stage.RUNNING, reason=ExpireReason.DEADLINE_PAST
    )


def watching(*requests, lanes=(0, 0)):
    """A meter that saw these arrive."""
    usage = Usage([a_device("d", lanes=lanes)], work_ns=lambda request: request.rows * 5 * MS)
    for request in requests:
        usage(0, RequestArrived(request=request), [])
    return usage


def ended(batch_id):
    """A batch has run."""
    return BatchFinished(batch_id=BatchId(batch_id))


def test_time_of_a_batch_is_useful_where_its_members_were_answered_in_time():
    """A batch's time is divided by rows; what went to the one that was late is waste."""
    quick = a_request(1, rows=3, budget="1s")
    late = a_request(2, rows=1, budget="5ms")
    usage = watching(quick, late)
    usage(0, ended(9), [start(1, quick, late)])
    usage(8 * MS, ended(1), [done(quick), done(late)])
    assert (usage.useful_ns, usage.wasted_ns) == (6 * MS, 2 * MS)
    assert usage.figures(10 * MS).waste_ratio == pytest.approx(0.25)


def test_member_that_left_early_is_waste_to_the_end_of_its_batch():
    """The batch runs on for nobody, and all of that counts."""
    request = a_request(1, budget="5ms")
    usage = watching(request)
    usage(0, ended(9), [start(1, request)])
    usage(5 * MS, ended(9), [expired(request)])
    usage(20 * MS, ended(1), [])
    assert (usage.useful_ns, usage.wasted_ns, usage.spent_ns) == (0, 20 * MS, 20 * MS)


def test_failed_and_lost_batches_are_waste():
    """Whatever had been spent on them came to nothing."""
    first, second = a_request(1, budget="1s"), a_request(2, budget="1s")
    usage = watching(first, second)
    usage(0, ended(9), [start(1, first), start(2, second, slot=1)])
    usage(3 * MS, BatchFailed(batch_id=BatchId(1), code="x", message="x"), [expired(first)])
    lost = ReplicasLost(replica_ids=(ReplicaId(1),), message="killed")
    usage(4 * MS, lost, [expired(second)])
    assert usage.wasted_ns == usage.spent_ns == 7 * MS


def test_lanes_and_devices_are_busy_while_anything_runs():
    """Two batches on one lane keep it busy once; the other lane was idle."""
    first, second = a_request(1, budget="1s"), a_request(2, budget="1s")
    usage = watching(first, second, lanes=(0, 0, 1))
    usage(0, ended(9), [start(1, first)])
    usage(2 * MS, ended(9), [start(2, second, slot=1)])
    usage(4 * MS, ended(1), [done(first)])
    usage(6 * MS, ended(2), [done(second)])
    figures = usage.figures(10 * MS)
    assert figures.devices_busy_ratio == pytest.approx(0.6)
    assert figures.lanes_busy_ratio == pytest.approx(0.3)
    assert (figures.batches, figures.batch_rows_mean) == (2, 1.0)


def test_forecasts_are_judged_by_what_came():
    """Half of it is an error of a half; what came after its bound is not covered."""
    first, second = a_request(1, budget="1s"), a_request(2, budget="1s")
    usage = watching(first, second)
    usage(0, ended(9), [start(1, first, expected_ms=5, bound_ms=12)])
    usage(10 * MS, ended(1), [done(first), start(2, second, expected_ms=10, bound_ms=11)])
    usage(30 * MS, ended(2), [done(second)])
    figures = usage.figures(30 * MS)
    assert figures.error_mean_ratio == pytest.approx(0.5)
    assert figures.error_median_ratio == pytest.approx(0.5, rel=0.02)
    assert figures.covered_ratio == 0.5


def test_nothing_predicted_is_nothing_judged():
    """A predictor that knows nothing yet says nothing."""
    request = a_request(1, budget="1s")
    usage = watching(request)
    usage(0, ended(9), [start(1, request)])
    usage(10 * MS, ended(1), [done(request)])
    assert usage.figures(10 * MS).error_mean_ratio is None


def test_work_done_is_that_of_requests_in_time():
    """By class, at what each takes alone."""
    high = a_request(1, rows=2, budget="1s")
    low = a_request(2, rows=1, budget="5ms", slot_class=SlotClass.LOW)
    usage = watching(high, low)
    usage(0, ended(9), [start(1, high, low)])
    usage(8 * MS, ended(1), [done(high), done(low)])
    assert usage.work_done_ns == {SlotClass.HIGH: 10 * MS, SlotClass.LOW: 0}
