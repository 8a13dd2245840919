"""How long requests waited for their first start."""

import pytest

from headway.core import (
    BatchFinished,
    BatchId,
    Dispatch,
    Expire,
    ExpireReason,
    Reject,
    RejectReason,
    ReplicaId,
    RequestArrived,
    SlotClass,
    Stage,
)
from headway.sim import WaitMeter
from headway.testing import a_device, a_request

MS = 1_000_000


def arrives(meter, request, *commands):
    """A request comes, and this is said at once."""
    meter(request.arrived_at_ns, RequestArrived(request=request), list(commands))


def low(number, at="0ms"):
    """A low request with 100 ms."""
    return a_request(number, at=at, budget="100ms", slot_class=SlotClass.LOW)


def start(*requests):
    """The command that starts these."""
    return Dispatch(
        batch_id=BatchId(1),
        replica_id=ReplicaId(1),
        model=requests[0].model,
        device=a_device("d").name,
        slot=0,
        slot_class=SlotClass.LOW,
        rows=len(requests),
        request_ids=tuple(request.request_id for request in requests),
    )


def refusal(request):
    """The command that refuses it."""
    reason = RejectReason.DISPLACED
    return Reject(request_id=request.request_id, reason=reason, retry_after_ns=0)


NEWS = BatchFinished(batch_id=BatchId(0))


def test_wait_is_counted_to_the_first_start_in_parts_of_the_budget():
    """30 of 100 ms are within half of the budget, 70 are 20 ms beyond it."""
    meter = WaitMeter(SlotClass.LOW, 0.5)
    first, second = low(1), low(2)
    arrives(meter, first)
    arrives(meter, second)
    meter(30 * MS, NEWS, [start(first)])
    meter(70 * MS, NEWS, [start(second)])
    figures = meter.figures()
    assert (figures.requests, figures.beyond_bound) == (2, 1)
    assert figures.wait_max_ratio == pytest.approx(0.7)
    assert figures.longest_over_bound_ns == 20 * MS


def test_wait_without_a_start_is_a_wait():
    """Whoever expired or was displaced waited until then."""
    meter = WaitMeter(SlotClass.LOW, 0.5)
    first, second = low(1), low(2)
    arrives(meter, first)
    arrives(meter, second)
    reason = ExpireReason.DEADLINE_PAST
    expire = Expire(request_id=first.request_id, stage=Stage.WAITING, reason=reason)
    meter(100 * MS, NEWS, [expire])
    meter(100 * MS, NEWS, [refusal(second)])
    figures = meter.figures()
    assert (figures.never_started, figures.beyond_bound, figures.refused) == (2, 2, 0)
    assert figures.wait_max_ratio == 1.0


def test_refused_at_once_has_not_waited():
    """It is counted apart."""
    meter = WaitMeter(SlotClass.LOW, 0.5)
    request = low(1)
    arrives(meter, request, refusal(request))
    figures = meter.figures()
    assert (figures.requests, figures.refused, figures.beyond_bound) == (1, 1, 0)
    assert figures.wait_p50_ratio is None


def test_other_class_is_not_looked_at():
    """A high request may wait as it likes."""
    meter = WaitMeter(SlotClass.LOW, 0.5)
    request = a_request(1, budget="100ms")
    arrives(meter, request)
    meter(90 * MS, NEWS, [start(request)])
    assert meter.figures().requests == 0
