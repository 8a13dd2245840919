"""A client that leaves frees what it held, in every state."""

from headway.core import Cancel, CancelBatch, Complete, RequestCancelled, Stage
from headway.testing import a_dispatch, a_kernel, a_model, dispatched, without_timers

MS = 1_000_000


def a_cancel(request_id, stage):
    """The close of a request whose client is gone."""
    return Cancel(request_id=request_id, stage=stage)


def test_waiting_request_is_cancelled_and_never_dispatched():
    """What nobody waits for is not computed."""
    talk = a_kernel()
    talk.arrives(1)
    talk.arrives(2)
    talk.arrives(3)
    assert talk.handle(RequestCancelled(request_id=2)) == [a_cancel(2, Stage.WAITING)]
    assert dispatched(talk.finishes(1)) == [(3,)]


def test_last_member_cancels_its_batch():
    """When all have left, the executor is told to stop, once; the slot frees at its report."""
    talk = a_kernel(models=[a_model(batch_rows_max=2)])
    talk.arrives(1)
    talk.arrives(2)
    talk.arrives(3)
    talk.finishes(1)
    assert talk.handle(RequestCancelled(request_id=2)) == [a_cancel(2, Stage.RUNNING)]
    assert talk.handle(RequestCancelled(request_id=3)) == [
        a_cancel(3, Stage.RUNNING),
        CancelBatch(batch_id=2),
    ]
    assert without_timers(talk.arrives(4)) == []
    assert without_timers(talk.finishes(2)) == [a_dispatch(3, 4)]


def test_member_that_left_keeps_its_place_in_the_batch():
    """Rows stay where they are, so that each other row still goes to its own caller."""
    talk = a_kernel(models=[a_model(batch_rows_max=8)])
    talk.arrives(1)
    talk.arrives(2, rows=2)
    talk.arrives(3, rows=3)
    talk.finishes(1)
    talk.handle(RequestCancelled(request_id=2))
    batch = talk.kernel.fleet.batches[2]
    assert [e.request.request_id for e in batch.members] == [2, 3]
    assert without_timers(talk.finishes(2, at="5ms")) == [
        Complete(request_id=3, batch_id=2, batch_rows=5, queue_delay_ns=0, service_ns=5 * MS)
    ]


def test_cancel_of_an_ended_or_unknown_request_is_ignored():
    """A cancel that comes late says nothing new."""
    talk = a_kernel()
    talk.arrives(1)
    talk.finishes(1)
    assert talk.handle(RequestCancelled(request_id=1)) == []
    assert talk.handle(RequestCancelled(request_id=99)) == []


def test_cancel_twice_is_one_outcome():
    """The second cancel of a running request changes nothing."""
    talk = a_kernel()
    talk.arrives(1)
    talk.handle(RequestCancelled(request_id=1))
    assert talk.handle(RequestCancelled(request_id=1)) == []


def test_cancel_of_the_head_lets_the_rest_be_served_in_order():
    """A head that left is skipped, wherever it lies in the heap."""
    talk = a_kernel("priority")
    talk.arrives(1)
    for request_id, priority in ((2, 0), (3, 5), (4, 2)):
        talk.arrives(request_id, priority=priority)
    talk.handle(RequestCancelled(request_id=2))
    assert dispatched(talk.finishes(1)) == [(4,)]


def test_many_that_leave_do_not_stay_in_memory():
    """Requests that come and go behind a long batch leave nothing that grows."""
    talk = a_kernel()
    talk.arrives(1, budget="1000s")
    talk.arrives(2, budget="1000s")
    for request_id in range(3, 1_003):
        talk.arrives(request_id)
        talk.handle(RequestCancelled(request_id=request_id))
    (bucket,) = talk.kernel.queues["m"].buckets.values()
    assert (len(bucket._entries), len(bucket._keys)) == (1, 1)
    assert len(bucket._by_age) <= 70
    assert len(talk.kernel.timers._heap) <= 2 * len(talk.kernel.timers) + 64
