"""A policy is told of the fate of requests: each word once, in the order in which things happen."""

from tests.scripted_policy import Scripted, Told

from headway.core import (
    BatchFailed,
    ModelUnloadRequested,
    ReplicaLoadFailed,
    ReplicasLost,
    RequestCancelled,
)
from headway.policy import priority
from headway.testing import a_kernel, a_model

MS = 1_000_000
CUT = a_model(batch_rows_max=4, can_split=True)


def a_talk(script, make=priority, **setup):
    """A dialogue with a policy that writes down what it is told."""
    return a_kernel(script.policy(make), **setup)


def test_feedback_hears_a_request_from_its_admission_to_its_answer():
    """Admitted, started, ran, ended: at the instants of each."""
    script = Scripted()
    talk = a_talk(script)
    talk.arrives(1)
    talk.arrives(2, at="1ms")
    talk.finishes(1, at="5ms")
    assert script.told == [
        Told("admitted", 1, at_ns=0),
        Told("started", 1, 1, 0),
        Told("admitted", 2, at_ns=1 * MS),
        Told("ran", 1, 5 * MS, 5 * MS),
        Told("ended", 1, 1, 5 * MS),
        Told("started", 2, 1, 5 * MS),
    ]


def test_feedback_of_a_key_comes_after_the_key():
    """The order asks for the place of a request before its admission can have moved an account."""
    said = []

    class Order:
        def key(self, request):
            said.append("key")
            return (0,)

    script = Scripted()
    script.admitted = lambda request, now_ns: said.append("admitted")
    policy = script.policy()
    object.__setattr__(policy, "ordering", Order())
    a_kernel(policy).arrives(1)
    assert said[-1] == "admitted"
    assert said.count("admitted") == 1


def test_feedback_divides_the_time_of_a_batch_by_rows_to_the_last_nanosecond():
    """Three do not divide a hundred; what they are told adds up all the same."""
    script = Scripted(held={1: None})
    talk = a_talk(script, models=[a_model(batch_rows_max=8)])
    for request_id, rows in ((1, 1), (2, 4), (3, 1)):
        talk.arrives(request_id, rows=rows)
    script.held = {}
    talk.wakes(at=1 * MS)
    talk.finishes(1, at=1 * MS + 100)
    ran = {told.request_id: told.value for told in script.told if told.what == "ran"}
    assert (sum(ran.values()), ran[2]) == (100, 67)
    assert {ran[1], ran[3]} <= {16, 17}


def test_feedback_of_segments_is_one_end():
    """Each part is started and ran; the request is admitted and ends once."""
    script = Scripted(rows=2)
    talk = a_talk(script, models=[CUT])
    talk.arrives(1, rows=3)
    talk.finishes(1, at="5ms")
    talk.finishes(2, at="8ms")
    assert script.of(1) == [
        ("admitted", 0),
        ("started", 2),
        ("ran", 5 * MS),
        ("started", 1),
        ("ran", 3 * MS),
        ("ended", 1),
    ]


def test_feedback_of_an_answer_past_the_deadline_is_not_met():
    """It is answered, since late is better than never to it, but it does not count."""
    script = Scripted()
    talk = a_talk(script)
    talk.arrives(1, budget="5ms", late="20ms")
    talk.finishes(1, at="6ms")
    assert script.of(1)[-1] == ("ended", 0)


def test_feedback_of_an_answer_at_the_very_deadline_is_met():
    """The last byte is due then."""
    script = Scripted()
    talk = a_talk(script)
    talk.arrives(1, budget="5ms")
    talk.finishes(1, at="5ms")
    assert script.of(1)[-1] == ("ended", 1)


def test_feedback_of_refusals_is_an_end_without_an_admission():
    """By a limit, by the policy, for want of a model."""
    script = Scripted(refused=[2])
    talk = a_talk(script)
    talk.arrives(1, rows=9)
    talk.arrives(2)
    talk.arrives(3, model="other")
    assert script.told == [Told("ended", request_id) for request_id in (1, 2, 3)]


def test_feedback_of_a_displaced_request():
    """It was admitted, never started, and ends as not met, before the newcomer is admitted."""
    script = Scripted()
    talk = a_talk(script, models=[a_model(queue_requests_max=1)])
    talk.arrives(1)
    talk.arrives(2, priority=9)
    talk.arrives(3, priority=0)
    assert script.told[3:] == [Told("ended", 2), Told("admitted", 3)]


def test_feedback_of_one_that_is_given_up_and_one_that_expires():
    """Neither was met."""
    script = Scripted(held={1: None, 2: None})
    talk = a_talk(script, models=["m", "n"])
    talk.arrives(1)
    talk.arrives(2, model="n", budget="3ms")
    script.given_up = {1}
    talk.wakes(at="1ms")
    talk.wakes(at="3ms")
    assert script.of(1) == script.of(2) == [("admitted", 0), ("ended", 0)]


def test_feedback_of_a_run_comes_even_after_the_end():
    """A client that leaves has held its slot all the same, until its batch ends."""
    script = Scripted()
    talk = a_talk(script)
    talk.arrives(1)
    talk.handle(RequestCancelled(request_id=1), at="2ms")
    talk.finishes(1, at="5ms")
    assert script.of(1) == [("admitted", 0), ("started", 1), ("ended", 0), ("ran", 5 * MS)]


def test_feedback_of_batches_that_fail_or_are_lost():
    """The time was spent, and the request was not met."""
    script = Scripted()
    talk = a_talk(script)
    talk.arrives(1)
    talk.handle(BatchFailed(batch_id=1, code="executor_failed", message="?"), at="2ms")
    talk.arrives(2)
    talk.handle(ReplicasLost(replica_ids=(1,), message="killed"), at="6ms")
    fates = [script.of(1)[1:], script.of(2)[1:]]
    assert fates == [
        [("started", 1), ("ran", 2 * MS), ("ended", 0)],
        [("started", 1), ("ran", 4 * MS), ("ended", 0)],
    ]


def test_feedback_of_those_who_wait_for_a_model_that_is_gone():
    """Whoever waited for what cannot be loaded is told of like anyone else."""
    script = Scripted()
    talk = a_talk(script)
    talk.handle(ReplicasLost(replica_ids=(1,), message="killed"))
    talk.arrives(1, version="1")
    talk.handle(ModelUnloadRequested(model="m"))
    talk.wakes()
    talk.handle(ReplicaLoadFailed(replica_id=1, message="?"))
    talk.drain()
    assert script.of(1) == [("admitted", 0), ("ended", 0)]
