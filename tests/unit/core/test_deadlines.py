"""Deadlines end requests wherever they are, and what cannot make it is not started."""

import pytest

from headway.core import (
    CancelBatch,
    Complete,
    Expire,
    ExpireReason,
    ReplaceWorker,
    ReplicasLost,
    SetTimer,
    Stage,
)
from headway.testing import a_dispatch, a_kernel, a_model, dispatched, without_timers

MS = 1_000_000


def an_expiry(request_id, stage=Stage.WAITING, reason=ExpireReason.DEADLINE_PAST):
    """The end of a request whose time is up."""
    return Expire(request_id=request_id, stage=stage, reason=reason)


def a_slow_batch_was_seen(talk, service="50ms"):
    """Let the predictor learn that one row takes this long."""
    talk.arrives(1)
    talk.finishes(1, at=service)


def test_waiting_request_expires_by_timer_while_a_long_batch_runs():
    """The one that waits is told at its own deadline, not when the slot frees (triton#7512)."""
    talk = a_kernel()
    talk.arrives(1, budget="90s")
    commands = talk.arrives(2, at="1ms", budget="200ms")
    assert commands == [SetTimer(at_ns=201 * MS)]
    assert without_timers(talk.wakes()) == [an_expiry(2)]
    assert (talk.now_ns, list(talk.kernel.ledger.live)) == (201 * MS, [1])


def test_running_request_expires_and_its_batch_is_cancelled():
    """A deadline ends a request in the middle of its batch too, and nobody is left to run for."""
    talk = a_kernel()
    talk.arrives(1, budget="10ms")
    commands = talk.wakes()
    assert without_timers(commands) == [an_expiry(1, Stage.RUNNING), CancelBatch(batch_id=1)]
    assert without_timers(talk.finishes(1, at="20ms")) == []


def test_one_late_member_leaves_its_batch_running():
    """One late request costs nobody else anything: no cancel, no restart."""
    talk = a_kernel(models=[a_model(batch_rows_max=2)])
    talk.arrives(1)
    talk.arrives(2, budget="10ms")
    talk.arrives(3, budget="20ms")
    talk.finishes(1, at="1ms")
    assert without_timers(talk.wakes(at="10ms")) == [an_expiry(2, Stage.RUNNING)]
    assert without_timers(talk.finishes(2, at="15ms")) == [
        Complete(
            request_id=3,
            batch_id=2,
            batch_rows=2,
            queue_delay_ns=1 * MS,
            service_ns=14 * MS,
        )
    ]


def test_expired_request_is_never_dispatched_when_the_timer_is_late():
    """A slot that frees at the very deadline, before the timer fires, is not given to it."""
    talk = a_kernel()
    talk.arrives(1)
    talk.arrives(2, budget="10ms")
    commands = talk.finishes(1, at="10ms")
    assert [c for c in commands if isinstance(c, Expire)] == [an_expiry(2)]
    assert dispatched(commands) == []


def test_hopeless_request_is_not_dispatched():
    """What would be late even alone gives its place to the next."""
    talk = a_kernel()
    a_slow_batch_was_seen(talk)
    commands = talk.arrives(2, budget="40ms")
    assert commands == [an_expiry(2, reason=ExpireReason.HOPELESS)]
    assert dispatched(talk.arrives(3, budget="60ms")) == [(3,)]


def test_hopeless_requests_make_way_in_one_step():
    """All hopeless ones at the head go at once, and the first that can make it is started."""
    talk = a_kernel()
    a_slow_batch_was_seen(talk)
    talk.arrives(2, budget="1s")
    talk.arrives(3, budget="90ms")
    talk.arrives(4, budget="95ms")
    talk.arrives(5, budget="1s")
    commands = without_timers(talk.finishes(2, at="110ms"))
    assert commands[1:] == [
        an_expiry(3, reason=ExpireReason.HOPELESS),
        an_expiry(4, reason=ExpireReason.HOPELESS),
        a_dispatch(3, 5, expected=50_625_000),
    ]


def test_hopeless_for_ever_is_tried_again():
    """A floor measured in a bad moment cannot refuse a model's requests for ever (bentoml#3646)."""
    talk = a_kernel()
    a_slow_batch_was_seen(talk)
    outcomes = [dispatched(talk.arrives(i, budget="40ms")) for i in range(2, 19)]
    assert outcomes == [*[[]] * 16, [(18,)]]
    talk.finishes(2, at="60ms")
    assert dispatched(talk.arrives(19, budget="40ms")) == [(19,)]


def test_expiry_of_the_last_that_lingers_leaves_no_timer():
    """An empty bucket wakes nobody."""
    talk = a_kernel(models=[a_model(batch_rows_max=2, linger="1s")])
    talk.arrives(1, budget="10ms")
    assert talk.wakes() == [an_expiry(1)]
    assert (len(talk.kernel.timers), talk.kernel.queues["m"].buckets) == (0, {})


def test_completion_past_the_deadline_is_still_delivered():
    """When the end of a batch overtakes a late timer, the answer is there and is given."""
    talk = a_kernel()
    talk.arrives(1, budget="10ms")
    commands = without_timers(talk.finishes(1, at="11ms"))
    assert [c.request_id for c in commands] == [1]
    assert isinstance(commands[0], Complete)


def test_late_is_served_until_it_expires():
    """Who would rather be late than not served waits beyond its deadline, and is answered."""
    talk = a_kernel()
    talk.arrives(1)
    assert talk.arrives(2, budget="5ms", late="10ms") == [SetTimer(at_ns=15 * MS)]
    assert dispatched(talk.finishes(1, at="6ms")) == [(2,)]
    (answer,) = talk.finishes(2, at="14ms")
    assert (type(answer), answer.request_id) == (Complete, 2)


def test_late_has_an_end():
    """From then on an answer is of no use to it, wherever it is."""
    talk = a_kernel()
    talk.arrives(1, budget="1ms", late="4ms")
    talk.arrives(2, budget="1ms", late="5ms")
    assert without_timers(talk.wakes()) == [an_expiry(1, Stage.RUNNING), CancelBatch(batch_id=1)]
    assert without_timers(talk.wakes()) == [an_expiry(2)]
    assert talk.now_ns == 6 * MS


@pytest.mark.parametrize(("late", "is_started"), [("90ms", True), ("89ms", False)])
def test_late_is_hopeless_only_when_it_would_expire(late, is_started):
    """What could still be done before it is of no use is started, past its deadline or not."""
    talk = a_kernel()
    a_slow_batch_was_seen(talk)
    talk.arrives(2, at="100ms", budget="60ms")
    talk.arrives(3, at="101ms", budget="10ms", late=late)
    assert bool(dispatched(talk.finishes(2, at="150ms"))) == is_started
    assert is_started or talk.outcomes[3].reason is ExpireReason.HOPELESS


def test_late_on_arrival_is_let_in():
    """Its deadline has passed, but not the time until which it may be answered."""
    talk = a_kernel()
    assert dispatched(talk.arrives(1, budget=0, late="5ms")) == [(1,)]


def test_set_timer_only_when_the_earliest_instant_moves_forward():
    """The driver is bothered only for an earlier instant than the one it was asked for."""
    talk = a_kernel(models=[a_model(batch_rows_max=2)])
    assert talk.arrives(1, budget="500ms")[1:] == [SetTimer(at_ns=500 * MS)]
    assert talk.arrives(2, budget="700ms") == []
    assert talk.arrives(3, budget="300ms") == [SetTimer(at_ns=300 * MS)]


def test_timer_that_fires_early_is_asked_for_again():
    """A driver whose clock rounds down loses no wake-up."""
    talk = a_kernel()
    talk.arrives(1, budget="10ms")
    assert talk.wakes(at="9ms") == [SetTimer(at_ns=10 * MS)]
    assert without_timers(talk.wakes())[0] == an_expiry(1, Stage.RUNNING)


def test_timer_that_fires_without_cause_does_nothing():
    """A stale wake-up is harmless."""
    talk = a_kernel()
    assert talk.wakes(at="5ms") == []


def test_ties_expire_in_order_of_arrival():
    """Two deadlines at one instant end in the order in which they were set."""
    talk = a_kernel()
    talk.arrives(1)
    talk.arrives(2, budget="10ms")
    talk.arrives(3, budget="10ms")
    assert without_timers(talk.wakes()) == [an_expiry(2), an_expiry(3)]


def test_hung_batch_has_its_worker_replaced_once():
    """A batch past its limit is taken for hung; the worker is asked for once, then lost."""
    talk = a_kernel(models=[a_model(hung_after="100ms")])
    talk.arrives(1, budget="10s")
    assert without_timers(talk.wakes()) == [ReplaceWorker(replica_id=1, batch_id=1)]
    assert talk.wakes(at="5s") == [SetTimer(at_ns=10_000 * MS)]


def test_batch_that_ends_in_time_is_not_hung():
    """The hang timer of a finished batch is forgotten."""
    talk = a_kernel(models=[a_model(hung_after="100ms")])
    talk.arrives(1, budget="10s")
    talk.finishes(1, at="99ms")
    assert talk.wakes(at="200ms") == []


def test_batch_that_ends_after_all_is_taken_though_its_worker_is_being_replaced():
    """A hung batch that reports late still answers; its worker's loss then takes nobody along."""
    talk = a_kernel(models=[a_model(hung_after="100ms")])
    talk.arrives(1, budget="10s")
    talk.wakes()
    assert [type(c) for c in without_timers(talk.finishes(1, at="101ms"))] == [Complete]
    assert without_timers(talk.handle(ReplicasLost(replica_ids=(1,), message="killed"))) == []


def test_hung_batch_fails_with_its_worker():
    """Whoever waits for a hung batch is answered when the worker is gone."""
    talk = a_kernel(models=[a_model(hung_after="100ms")])
    talk.arrives(1, budget="10s")
    talk.wakes()
    (failure,) = without_timers(talk.handle(ReplicasLost(replica_ids=(1,), message="killed")))
    assert (failure.request_id, failure.code) == (1, "worker_lost")
