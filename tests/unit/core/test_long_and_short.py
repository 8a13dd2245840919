"""One model, short and long requests: each shape waits in a queue of its own."""

from dataclasses import replace

import pytest

from headway.core import Hold, SetTimer, Start
from headway.policy import edf, fifo, priority
from headway.testing import MeanPredictor, a_dispatch, a_kernel, a_model, dispatched, without_timers

MS = 1_000_000
LONG, SHORT = "512", "32"


class HoldsLong:
    """Starts everything but long requests."""

    def __init__(self, until_ns=None):
        self.until_ns = until_ns

    def place(self, bucket, model, options, fleet, now_ns):
        if bucket.front(1)[0].bucket == LONG and (self.until_ns is None or now_ns < self.until_ns):
            return Hold(self.until_ns)
        return Start(options[0])


def a_talk(placement, **setup):
    policy = replace(fifo(MeanPredictor()), placement=placement)
    return a_kernel(policy, models=[a_model(batch_rows_max=8)], **setup)


def test_long_head_that_is_held_does_not_block_a_short_one():
    """The short request came later and starts at once; the long one keeps its place."""
    talk = a_talk(HoldsLong(until_ns=50 * MS), slots=2)
    assert dispatched(talk.arrives(1, bucket=LONG, at="1ms")) == []
    assert dispatched(talk.arrives(2, bucket=SHORT, at="2ms")) == [(2,)]
    assert dispatched(talk.finishes(1, at="3ms")) == []
    assert dispatched(talk.arrives(3, bucket=SHORT, at="4ms")) == [(3,)]
    assert dispatched(talk.wakes(at="50ms")) == [(1,)]


def test_long_head_that_lingers_does_not_block_a_short_one():
    """A full batch of short requests starts while the long one still waits for company."""
    talk = a_kernel(models=[a_model(batch_rows_max=2, linger="20ms")])
    assert talk.arrives(1, bucket=LONG, at="1ms") == [SetTimer(at_ns=21 * MS)]
    assert talk.arrives(2, bucket=SHORT, at="2ms") == []
    assert without_timers(talk.arrives(3, bucket=SHORT, at="3ms")) == [a_dispatch(1, 2, 3)]


@pytest.mark.parametrize("make", [fifo, priority, edf], ids=lambda make: make.__name__)
def test_short_and_long_run_side_by_side(make):
    """With a slot free beside a long batch, short requests take it: they never join the long."""
    talk = a_kernel(make(MeanPredictor()), models=[a_model(batch_rows_max=8)], slots=2)
    assert dispatched(talk.arrives(1, bucket=LONG)) == [(1,)]
    assert dispatched(talk.arrives(2, bucket=LONG)) == [(2,)]
    talk.arrives(3, bucket=LONG)
    talk.arrives(4, bucket=SHORT)
    talk.arrives(5, bucket=SHORT)
    assert dispatched(talk.finishes(1)) == [(3,)]
    assert dispatched(talk.finishes(2)) == [(4, 5)]


def test_urgent_short_request_does_not_wait_behind_a_queue_of_long_ones():
    """By deadline, the queue of the long shape is no queue for the short one."""
    talk = a_kernel("edf", models=[a_model(batch_rows_max=1)])
    talk.arrives(1, bucket=LONG, budget="10s")
    for request_id in range(2, 12):
        talk.arrives(request_id, bucket=LONG, budget="10s")
    talk.arrives(12, bucket=SHORT, budget="100ms")
    assert dispatched(talk.finishes(1, at="5ms")) == [(12,)]
