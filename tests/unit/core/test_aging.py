"""Who waits long gets the place that its policy promised, wherever it is then."""

from tests.scripted_policy import Scripted

from headway.core import RequestCancelled, SetTimer
from headway.policy import priority
from headway.testing import a_kernel, a_model, dispatched

MS = 1_000_000


def a_talk(promotes_after_ns, *, models=("m",), **script):
    """Strict priority, with a promise to some."""
    script = Scripted(promotes_after_ns=promotes_after_ns, **script)
    return a_kernel(script.policy(priority), models=models)


def test_promoted_request_goes_before_more_important_ones():
    """At its instant it moves to the front of those that wait."""
    talk = a_talk({2: 5 * MS})
    talk.arrives(1)
    assert talk.arrives(2, priority=9) == [SetTimer(at_ns=5 * MS)]
    talk.arrives(3, priority=0)
    assert dispatched(talk.wakes()) == []
    assert dispatched(talk.finishes(1, at="6ms")) == [(2,)]


def test_request_that_is_served_in_time_is_not_promoted():
    """Before its instant the order is that of its class, and no timer is left behind."""
    talk = a_talk({2: 5 * MS})
    talk.arrives(1)
    talk.arrives(2, priority=9)
    talk.arrives(3, priority=0)
    assert dispatched(talk.finishes(1, at="4ms")) == [(3,)]
    talk.finishes(2, at="4ms")
    talk.finishes(3, at="4ms")
    assert len(talk.kernel.timers) == 1  # the look for hung batches


def test_promoted_requests_keep_the_order_of_arrival_among_themselves():
    """Ties fall as ever."""
    talk = a_talk({2: 7 * MS, 3: 5 * MS})
    talk.arrives(1)
    talk.arrives(2, priority=8)
    talk.arrives(3, priority=9)
    talk.arrives(4, priority=0)
    talk.wakes(at="7ms")
    order = [dispatched(talk.finishes(batch_id, at="8ms")) for batch_id in (1, 2, 3)]
    assert order == [[(2,)], [(3,)], [(4,)]]


def test_promotion_moves_a_bucket_to_the_front_of_its_model():
    """The bucket of the promoted is tried before that of whoever was first."""
    talk = a_talk({2: 5 * MS})
    talk.arrives(1)
    talk.arrives(2, priority=9, bucket="low")
    talk.arrives(3, priority=0, bucket="high")
    talk.wakes()
    assert dispatched(talk.finishes(1, at="6ms")) == [(2,)]


def test_promotion_between_models():
    """So is a model's whole queue."""
    talk = a_talk({2: 5 * MS}, models=["m", "n"])
    talk.arrives(1)
    talk.arrives(2, priority=9, model="n")
    talk.arrives(3, priority=0)
    talk.wakes()
    assert dispatched(talk.finishes(1, at="6ms")) == [(2,)]


def test_promotion_of_a_request_whose_segment_runs_holds_for_the_rest_of_it():
    """Its place is better when it is back."""
    model = a_model(batch_rows_max=4, can_split=True)
    talk = a_talk({1: 5 * MS}, models=[model], rows=2)
    talk.arrives(1, rows=4, priority=9)
    talk.arrives(2, at="1ms", priority=0)
    assert dispatched(talk.wakes()) == []
    assert dispatched(talk.finishes(1, at="6ms")) == [(1,)]


def test_promotion_after_the_last_start_changes_nothing():
    """Whoever runs to its end has no use for a place."""
    talk = a_talk({1: 5 * MS})
    talk.arrives(1, priority=9)
    assert talk.wakes(at="5ms")[:-1] == []
    assert [type(c).__name__ for c in talk.finishes(1, at="6ms")] == ["Complete"]


def test_promotion_is_not_waited_for_beyond_the_end():
    """Whoever expires first, or at that very instant, is never promoted; no timer is kept."""
    talk = a_talk({2: 10 * MS})
    talk.arrives(1)
    assert talk.arrives(2, budget="10ms") == [SetTimer(at_ns=10 * MS)]
    assert len(talk.kernel.timers) == 3  # two ends, and the look for hung batches


def test_promise_ends_with_the_request():
    """A client that leaves takes the timer along."""
    talk = a_talk({2: 5 * MS})
    talk.arrives(1)
    timers = len(talk.kernel.timers)
    talk.arrives(2, priority=9)
    talk.handle(RequestCancelled(request_id=2), at="1ms")
    assert len(talk.kernel.timers) == timers


def test_promise_that_is_due_on_arrival_is_kept_at_once():
    """An instant in the past is now."""
    talk = a_talk({2: -5 * MS})
    talk.arrives(1)
    talk.arrives(3, priority=0, at="1ms")
    assert talk.arrives(2, priority=9, at="1ms") == [SetTimer(at_ns=1 * MS)]
    talk.wakes()
    assert dispatched(talk.finishes(1, at="6ms")) == [(2,)]


def test_promotion_asks_batching_anew_where_the_bucket_lingers():
    """A batching that goes by who is first may find the bucket due."""

    class DueForTheImpatient:
        def due_at_ns(self, bucket, model, now_ns):
            (head,) = bucket.front(1)
            return now_ns if head.request_id == 2 else 70 * MS

        def rows_max(self, bucket, model):
            return 1

    script = Scripted(promotes_after_ns={2: 5 * MS})
    policy = script.policy(priority)
    object.__setattr__(policy, "batching", DueForTheImpatient())
    talk = a_kernel(policy)
    talk.arrives(1, priority=0)
    talk.arrives(2, priority=9)
    assert dispatched(talk.wakes()) == [(2,)]
    assert talk.now_ns == 5 * MS
