"""What the kernel makes of a placement's answer: so many rows, not now, or never."""

from tests.scripted_policy import Scripted

from headway.core import (
    Expire,
    ExpireReason,
    Forecast,
    ModelUnloadRequested,
    Reject,
    RejectReason,
    RequestCancelled,
    SetTimer,
    Stage,
    UnloadReplica,
)
from headway.policy import priority
from headway.testing import a_dispatch, a_kernel, a_model, dispatched, without_timers

MS = 1_000_000


def given_up(request_id):
    """The end of a request that the policy foresaw to be late."""
    return Expire(request_id=request_id, stage=Stage.WAITING, reason=ExpireReason.PREDICTED_LATE)


def a_talk(script, make=priority, **setup):
    """A dialogue with a scripted policy that otherwise orders as another does."""
    return a_kernel(script.policy(make), **setup)


# --- so many rows ---------------------------------------------------------------------------------


def test_start_says_how_many_rows_the_batch_has_at_most():
    """Batching would take all four; placement wants two, and the rest stays in order."""
    script = Scripted(held={1: None})
    talk = a_talk(script, models=[a_model(batch_rows_max=4)])
    for request_id in range(1, 5):
        talk.arrives(request_id)
    script.held, script.rows = {}, 2
    assert dispatched(talk.wakes(at="1ms")) == [(1, 2)]
    assert dispatched(talk.finishes(1, at="2ms")) == [(3, 4)]


def test_start_never_makes_a_batch_larger_than_the_model_takes():
    """A placement may ask for any number of rows."""
    script = Scripted(held={1: None}, rows=100)
    talk = a_talk(script, models=[a_model(batch_rows_max=2)])
    for request_id in range(1, 5):
        talk.arrives(request_id)
    script.held = {}
    assert dispatched(talk.wakes(at="1ms")) == [(1, 2)]


def test_start_of_rows_makes_no_batch_where_there_is_no_axis():
    """A model that takes one request at a time takes one, whatever placement says."""
    script = Scripted(held={1: None}, rows=8)
    talk = a_talk(script, models=[a_model(batch_rows_max=8, can_batch=False)])
    talk.arrives(1)
    talk.arrives(2)
    script.held = {}
    assert dispatched(talk.wakes(at="1ms")) == [(1,)]


def test_whole_requests_are_not_cut_where_rows_may_not_be():
    """A head larger than what placement wants runs whole, alone."""
    script = Scripted(rows=2)
    talk = a_talk(script, models=[a_model(batch_rows_max=4)])
    assert without_timers(talk.arrives(1, rows=3)) == [a_dispatch(1, 1, rows=3)]


# --- not now --------------------------------------------------------------------------------------


def test_hold_ends_at_the_instant_that_was_named():
    """The kernel asks to be woken then, and starts what was held."""
    script = Scripted(held={1: 7 * MS})
    talk = a_talk(script)
    commands = talk.arrives(1, at="1ms")
    assert commands == [SetTimer(at_ns=7 * MS)]
    assert dispatched(talk.wakes()) == [(1,)]
    assert talk.now_ns == 7 * MS


def test_hold_is_asked_about_again_when_a_batch_ends():
    """Long before its instant, since something has changed."""
    script = Scripted(held={2: 70 * MS})
    talk = a_talk(script, slots=2)
    talk.arrives(1)
    assert dispatched(talk.arrives(2)) == []
    script.held = {}
    assert dispatched(talk.finishes(1, at="5ms")) == [(2,)]


def test_hold_is_asked_about_again_when_another_joins_its_bucket():
    """It may make the batch that was waited for."""
    script = Scripted(held={1: None})
    talk = a_talk(script, models=[a_model(batch_rows_max=4)])
    talk.arrives(1)
    script.held = {}
    assert dispatched(talk.arrives(2, at="1ms")) == [(1, 2)]


def test_hold_is_not_asked_about_for_what_comes_for_others():
    """With a thousand buckets held a decision would else cost a thousand questions."""
    script = Scripted(held={1: None})
    talk = a_talk(script, models=["m", "other"])
    talk.arrives(1)
    script.held = {}
    assert dispatched(talk.arrives(2, at="1ms", model="other")) == [(2,)]
    talk = a_talk(script := Scripted(held={1: None, 2: None}), models=["m", "other"])
    talk.arrives(1)
    script.held = {2: None}
    assert dispatched(talk.arrives(2, at="1ms", model="other")) == []
    assert dispatched(talk.wakes(at="2ms")) == [(1,)]


def test_hold_is_asked_about_again_when_a_running_request_is_cancelled():
    """Its batch is stopped at the next safe point, which a policy may count on."""
    script = Scripted(held={2: None})
    talk = a_talk(script, slots=2)
    talk.arrives(1)
    talk.arrives(2)
    script.held = {}
    assert dispatched(talk.handle(RequestCancelled(request_id=1), at="1ms")) == [(2,)]


def test_hold_does_not_keep_those_behind_it_from_another_bucket():
    """A head that is held lets the next bucket have the slot."""
    script = Scripted(held={1: None})
    talk = a_talk(script, models=["m", "n"])
    talk.arrives(1, priority=0)
    assert dispatched(talk.arrives(2, model="n", priority=5)) == [(2,)]


def test_hold_leaves_no_timer_behind():
    """Whoever was held and leaves takes the wake-up along."""
    script = Scripted(held={1: 70 * MS})
    talk = a_talk(script)
    talk.arrives(1)
    talk.handle(RequestCancelled(request_id=1), at="1ms")
    assert len(talk.kernel.timers) == 0


def test_later_hold_replaces_the_earlier():
    """A policy that changes its mind is asked at the new instant only."""
    script = Scripted(held={1: 70 * MS})
    talk = a_talk(script, models=["m", "n"])
    talk.arrives(1, priority=0)
    script.held = {1: 90 * MS}
    talk.arrives(2, model="n")
    script.asked.clear()
    talk.finishes(1, at="5ms")
    script.asked.clear()
    assert talk.kernel.timers.head_at_ns() == 90 * MS
    talk.wakes(at="70ms")
    assert dispatched(talk.wakes(at="90ms")) == [(1,)]


# --- never ----------------------------------------------------------------------------------------


def test_head_that_is_given_up_ends_and_the_next_starts():
    """In one step: the slot was free all along."""
    script = Scripted(held={1: None}, given_up=[2])
    talk = a_talk(script)
    for request_id in (1, 2, 3):
        talk.arrives(request_id)
    script.given_up = {1, 2}
    commands = without_timers(talk.wakes(at="1ms"))
    assert commands == [given_up(1), given_up(2), a_dispatch(1, 3)]


def test_whoever_is_next_of_all_is_asked_about_after_a_giving_up():
    """The place of a head that was given up is not its bucket's: others may come first."""
    script = Scripted(held={1: None, 2: None, 3: None})
    talk = a_talk(script, models=["m", "n"])
    talk.arrives(1, priority=0)
    talk.arrives(2, priority=9)
    talk.arrives(3, model="n", priority=5)
    script.held, script.given_up = {}, {1}
    assert without_timers(talk.wakes(at="1ms")) == [
        given_up(1),
        a_dispatch(1, 3, model="n", replica_id=2),
    ]


def test_everyone_may_be_given_up():
    """A slot stays free, and nothing waits, nor any timer."""
    script = Scripted(held={1: 70 * MS, 2: None})
    talk = a_talk(script)
    talk.arrives(1)
    talk.arrives(2)
    script.given_up = {1, 2}
    assert without_timers(talk.wakes(at="1ms")) == [given_up(1), given_up(2)]
    assert (talk.kernel.room.count, len(talk.kernel.timers)) == (0, 0)


def test_unload_goes_on_when_the_last_that_waited_is_given_up():
    """Nothing else would ever happen to that model."""
    script = Scripted(held={1: 70 * MS})
    talk = a_talk(script)
    talk.arrives(1)
    assert without_timers(talk.handle(ModelUnloadRequested(model="m"))) == []
    script.given_up = {1}
    assert without_timers(talk.wakes()) == [given_up(1), UnloadReplica(replica_id=1)]


def test_unload_goes_on_when_the_last_that_waited_is_displaced():
    """It gave its place to a request for another model."""
    script = Scripted(held={1: None, 2: None})
    talk = a_talk(script, models=["m", "n"], requests_max=1)
    talk.arrives(1, priority=9)
    talk.handle(ModelUnloadRequested(model="m"))
    commands = talk.arrives(2, at="1ms", model="n", priority=0)
    assert [c for c in commands if isinstance(c, Reject | UnloadReplica)] == [
        Reject(request_id=1, reason=RejectReason.DISPLACED, retry_after_ns=10 * MS),
        UnloadReplica(replica_id=1),
    ]


def test_what_was_foreseen_is_told_with_the_giving_up():
    """The client learns why: what was expected of its request when it was let in."""
    script = Scripted(held={1: None})
    policy = script.policy()
    foreseen = Forecast(mean_ns=3 * MS, bound_ns=4 * MS, base_ns=3 * MS)
    policy.predictor.admitted = lambda request, queue, now_ns: foreseen
    talk = a_kernel(policy)
    talk.arrives(1)
    script.given_up = {1}
    (expiry,) = without_timers(talk.wakes(at="1ms"))
    assert expiry.foreseen == foreseen
