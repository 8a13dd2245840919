"""A full queue makes room for the more important: who goes, and when nobody does."""

from headway.core import Dispatch, Reject, RejectReason, SetTimer
from headway.testing import a_kernel, a_model


def _rejects(commands):
    return [(c.request_id, c.reason) for c in commands if isinstance(c, Reject)]


def _full(policy="priority", **model):
    """One slot, held by request 1, and room for two that wait."""
    return a_kernel(policy, slots=1, models=[a_model(queue_requests_max=2, **model), "other"])


def test_newest_of_the_least_important_goes():
    """Among those who may go it is the lowest class, and in it who has waited least."""
    talk = _full()
    talk.arrives(1)
    talk.arrives(2, priority=5)
    talk.arrives(3, priority=5)
    commands = talk.arrives(4, priority=0)
    assert _rejects(commands) == [(3, RejectReason.DISPLACED)]
    assert sorted(talk.kernel.ledger.live) == [1, 2, 4]


def test_equals_are_not_displaced():
    """A newcomer of the same class finds the queue full."""
    talk = _full()
    talk.arrives(1)
    talk.arrives(2, priority=5)
    talk.arrives(3, priority=5)
    assert _rejects(talk.arrives(4, priority=5)) == [(4, RejectReason.MODEL_QUEUE_FULL)]


def test_fifo_displaces_nobody():
    """A policy without classes gives room by arrival alone."""
    talk = _full("fifo")
    talk.arrives(1)
    talk.arrives(2, priority=5)
    talk.arrives(3, priority=5)
    assert _rejects(talk.arrives(4, priority=0)) == [(4, RejectReason.MODEL_QUEUE_FULL)]


def test_nobody_goes_in_vain():
    """Where all who may go would not free enough bytes, the newcomer is refused and they stay."""
    talk = _full(queue_size_max=100)
    talk.arrives(1)
    talk.arrives(2, priority=5, payload=40)
    talk.arrives(3, priority=0, payload=60)
    commands = talk.arrives(4, priority=0, payload=80)
    assert _rejects(commands) == [(4, RejectReason.MODEL_QUEUE_FULL)]
    assert sorted(talk.kernel.ledger.live) == [1, 2, 3]


def test_as_many_go_as_the_bytes_need():
    """Several small ones make room for a large one."""
    talk = a_kernel("priority", slots=1, models=[a_model(queue_size_max=100)])
    talk.arrives(1)
    for request_id in (2, 3, 4):
        talk.arrives(request_id, priority=5, payload=30)
    commands = talk.arrives(5, priority=0, payload=60)
    assert _rejects(commands) == [(4, RejectReason.DISPLACED), (3, RejectReason.DISPLACED)]


def test_servers_own_limit_is_freed_by_any_model():
    """Room in all is made by the least important of all models."""
    talk = a_kernel("priority", slots=1, models=["m", "other"], requests_max=2)
    talk.arrives(1)
    talk.arrives(2, model="other", priority=7)
    talk.arrives(3, priority=5)
    commands = talk.arrives(4, priority=0)
    assert _rejects(commands) == [(2, RejectReason.DISPLACED)]


def test_what_runs_is_not_displaced():
    """Only waiting work gives way."""
    talk = _full()
    talk.arrives(1, priority=9)
    talk.arrives(2, priority=0)
    talk.arrives(3, priority=0)
    assert _rejects(talk.arrives(4, priority=0)) == [(4, RejectReason.MODEL_QUEUE_FULL)]


def test_batch_stops_growing_before_a_member_would_be_late():
    """Two rows take longer than the first request has left, so it runs alone."""
    talk = a_kernel("priority", slots=1, models=[a_model(batch_rows_max=2)])
    talk.arrives(1, rows=2)
    talk.finishes(1, at="50ms")
    talk.arrives(2, rows=2, at="50ms")
    talk.arrives(3, budget="70ms", at="60ms")
    talk.arrives(4, at="60ms")
    commands = [c for c in talk.finishes(2, at="100ms") if not isinstance(c, SetTimer)]
    assert [c.request_ids for c in commands if isinstance(c, Dispatch)] == [(3,)]
