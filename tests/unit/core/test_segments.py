"""A request's rows in several batches: one answer, one end, and its place kept in between."""

import pytest
from msgspec.structs import replace
from tests.scripted_policy import Scripted

from headway.core import (
    BatchFailed,
    BatchFinished,
    Cancel,
    CancelBatch,
    Complete,
    ConcludeUnload,
    Dispatch,
    Expire,
    ExpireReason,
    Fail,
    KeepSegment,
    LoadReplica,
    ModelLoadRequested,
    ModelUnloadRequested,
    Reject,
    RejectReason,
    ReplicasLost,
    ReplicaStopped,
    RequestCancelled,
    Stage,
    UnloadReplica,
)
from headway.policy import edf, fifo, priority
from headway.testing import a_dispatch, a_kernel, a_model, dispatched, without_timers

MS = 1_000_000


def a_talk(rows=2, *, make=fifo, script=None, models=None, **model):
    """A dialogue about a model of eight rows a batch that may be cut, and a script of so many."""
    script = Scripted() if script is None else script
    script.rows = rows
    models = [a_model(**{"batch_rows_max": 8, "can_split": True} | model)] + (models or [])
    return a_kernel(script.policy(make), models=models)


def a_segment(batch_id, *, first_row, rows, **what):
    """So many rows of request 1."""
    return a_dispatch(batch_id, 1, rows=rows, first_row=first_row, is_segment=True, **what)


def said(commands):
    """What was said besides timers, and how long batches were expected to take."""
    return [
        replace(command, expected_ns=0, bound_ns=0) if isinstance(command, Dispatch) else command
        for command in without_timers(commands)
    ]


def kept(batch_id):
    """The outputs of a segment of request 1 are to be kept."""
    return KeepSegment(request_id=1, batch_id=batch_id)


def loaded_beside(talk, model):
    """Load another version, or the same once more, and let it take over."""
    commands = talk.handle(ModelLoadRequested(model=model))
    for load in [c for c in commands if isinstance(c, LoadReplica)]:
        commands = talk.warm(load.replica_id)
    return commands


# --- the way through ------------------------------------------------------------------------------


def test_three_segments_are_one_answer():
    """Five rows, two at a time: two segments are kept, the third answers, with all times."""
    talk = a_talk()
    assert said(talk.arrives(1, at="1ms", rows=5)) == [a_segment(1, first_row=0, rows=2)]
    assert said(talk.finishes(1, at="5ms")) == [
        kept(1),
        a_segment(2, first_row=2, rows=2),
    ]
    last = said(talk.finishes(2, at="8ms"))
    assert last == [kept(2), a_segment(3, first_row=4, rows=1)]
    assert talk.finishes(3, at="10ms") == [
        Complete(request_id=1, batch_id=3, batch_rows=1, queue_delay_ns=0, service_ns=9 * MS)
    ]
    assert len(talk.kernel.timers) == 1  # the look for hung batches


def test_more_rows_than_a_batch_takes_run_in_full_batches():
    """Where a request may be cut, no number of rows is too many, and no segment is too large."""
    talk = a_talk(rows=100, batch_rows_max=2)
    assert said(talk.arrives(1, rows=3)) == [a_segment(1, first_row=0, rows=2)]
    assert said(talk.finishes(1, at="1ms")) == [
        kept(1),
        a_segment(2, first_row=2, rows=1),
    ]


def test_more_rows_than_a_batch_takes_are_refused_where_they_may_not_be_cut():
    """The same request, without `can_split`."""
    talk = a_talk(batch_rows_max=2, can_split=False)
    (reject,) = talk.arrives(1, rows=3)
    assert reject.reason is RejectReason.TOO_MANY_ROWS


def test_urgent_arrival_waits_for_one_segment():
    """The rest of the long request waits behind it."""
    talk = a_talk(make=priority)
    talk.arrives(1, rows=6, priority=5)
    talk.arrives(2, at="1ms", priority=0)
    assert dispatched(talk.finishes(1, at="5ms")) == [(2,)]
    assert said(talk.finishes(2, at="6ms"))[1:] == [a_segment(3, first_row=2, rows=2)]


def test_rest_of_a_request_waits_at_its_old_place():
    """Whoever came meanwhile is behind it."""
    talk = a_talk()
    talk.arrives(1, rows=4)
    talk.arrives(2, at="1ms")
    assert dispatched(talk.finishes(1, at="5ms")) == [(1,)]
    assert dispatched(talk.finishes(2, at="9ms")) == [(2,)]


def test_segment_is_alone_in_its_batch():
    """Neither the rest of a request nor what was cut off takes anyone along."""
    talk = a_talk(rows=4)
    talk.arrives(1, rows=6)
    talk.arrives(2, at="1ms")
    commands = said(talk.finishes(1, at="5ms"))
    assert commands == [kept(1), a_segment(2, first_row=4, rows=2)]


def test_one_that_began_in_segments_joins_nobodys_batch():
    """It waits behind a more important one that has room for its rest."""
    talk = a_talk(make=priority)
    talk.arrives(1, rows=4, priority=5)
    talk.arrives(2, at="1ms", priority=0)
    talk.kernel.policy.placement.rows = 8
    assert said(talk.finishes(1, at="5ms")) == [kept(1), a_dispatch(2, 2)]


def test_segments_are_as_many_as_the_model_allows():
    """A policy that asks for single rows gets halves where two segments are the limit."""
    talk = a_talk(rows=1, segments_max=2)
    assert said(talk.arrives(1, rows=7)) == [a_segment(1, first_row=0, rows=4)]
    assert said(talk.finishes(1, at="5ms")) == [
        kept(1),
        a_segment(2, first_row=4, rows=3),
    ]


def test_segments_of_what_fits_no_batch_are_limited_for_each_full_batch():
    """Sixteen rows through eight at a time, two segments a batch: four at least."""
    talk = a_talk(rows=1, segments_max=2)
    assert said(talk.arrives(1, rows=16)) == [a_segment(1, first_row=0, rows=4)]


# --- limits ---------------------------------------------------------------------------------------


def test_place_of_one_that_is_away_is_kept():
    """While its segment runs nobody else gets its room, in its own queue or the server's."""
    talk = a_talk(queue_requests_max=1)
    talk.arrives(1, rows=4)
    (reject,) = talk.arrives(2, at="1ms")
    assert reject.reason is RejectReason.MODEL_QUEUE_FULL
    talk.finishes(1, at="5ms")
    assert said(talk.arrives(3, at="6ms")) == []  # the last segment comes back no more


def test_bytes_of_one_that_is_away_are_kept():
    """Its payload is still in memory."""
    talk = a_talk(queue_size_max=100)
    talk.arrives(1, rows=4, payload=60)
    (reject,) = talk.arrives(2, at="1ms", payload=60)
    assert reject.reason is RejectReason.MODEL_BYTES_FULL


def test_one_that_came_back_is_not_the_newest():
    """Among equals whoever came last gives its place away, though another came back later."""
    script = Scripted()
    talk = a_talk(make=priority, script=script, queue_requests_max=2)
    talk.arrives(1, rows=4, priority=5)
    talk.arrives(2, at="1ms", priority=5)
    script.held = {1: None, 2: None}
    talk.finishes(1, at="5ms")
    rejects = [c for c in talk.arrives(3, at="6ms", priority=0) if isinstance(c, Reject)]
    assert [(c.request_id, c.reason) for c in rejects] == [(2, RejectReason.DISPLACED)]


def test_one_that_came_back_frees_its_bytes_once():
    """Both of the low class together do not make enough room; one counted twice would."""
    script = Scripted(held={1: None, 2: None, 3: None})
    talk = a_talk(make=priority, script=script, queue_size_max=100)
    talk.arrives(1, rows=4, priority=5, payload=40)
    talk.arrives(2, priority=5, payload=40)
    talk.arrives(3, priority=0, payload=20, bucket="other")
    script.held = {2: None, 3: None}
    talk.wakes(at="1ms")
    script.held = {1: None, 2: None, 3: None}
    talk.finishes(1, at="5ms")
    (reject,) = [c for c in talk.arrives(4, priority=0, payload=90) if isinstance(c, Reject)]
    assert (reject.request_id, reject.reason) == (4, RejectReason.MODEL_BYTES_FULL)


def test_bucket_knows_its_oldest_after_one_came_back():
    """An older request of a lower class has waited all the time."""
    script = Scripted(held={1: None})
    talk = a_talk(make=priority, script=script)
    talk.arrives(1, at="1ms", priority=5)
    talk.arrives(2, at="9ms", rows=4, priority=0)
    script.held = {1: None, 2: None}
    talk.finishes(1, at="12ms")
    (bucket,) = talk.kernel.queues["m"].buckets.values()
    assert bucket.oldest_arrived_at_ns == 1 * MS
    assert (bucket.count, bucket.rows, bucket.head_rows_left) == (2, 3, 2)


# --- early ends -----------------------------------------------------------------------------------


def test_deadline_ends_a_request_while_a_segment_runs():
    """Its batch is stopped, its place is free at once, and nothing more of it starts."""
    talk = a_talk(queue_requests_max=1)
    talk.arrives(1, rows=6, budget="9ms")
    talk.finishes(1, at="4ms")
    assert said(talk.wakes()) == [
        Expire(request_id=1, stage=Stage.RUNNING, reason=ExpireReason.DEADLINE_PAST),
        CancelBatch(batch_id=2),
    ]
    assert said(talk.arrives(2, at="9ms")) == []
    assert dispatched(talk.finishes(2, at="10ms")) == [(2,)]


def test_deadline_ends_a_request_between_two_segments():
    """It waits when it expires, whatever part of it has run."""
    script = Scripted()
    talk = a_talk(script=script)
    talk.arrives(1, rows=6, budget="9ms")
    script.held = {1: None}
    talk.finishes(1, at="2ms")
    assert said(talk.wakes()) == [
        Expire(request_id=1, stage=Stage.WAITING, reason=ExpireReason.DEADLINE_PAST)
    ]


def test_what_cannot_make_it_in_the_batches_that_are_left_is_hopeless():
    """Two segments of 10 ms each are to run, and 19 ms are left."""
    talk = a_talk(rows=8)
    talk.arrives(1, rows=8)
    talk.finishes(1, at="10ms")
    commands = talk.arrives(2, at="20ms", rows=16, budget="19ms")
    assert said(commands) == [
        Expire(request_id=2, stage=Stage.WAITING, reason=ExpireReason.HOPELESS)
    ]
    assert dispatched(talk.arrives(3, at="30ms", rows=16, budget="21ms")) == [(3,)]


def test_segment_that_would_itself_be_too_late_is_not_started():
    """Nothing is known of four rows, but two have taken 5 ms, and 4 ms are left."""
    talk = a_talk()
    talk.arrives(1, rows=6, budget="9ms")
    assert said(talk.finishes(1, at="5ms")) == [
        kept(1),
        Expire(request_id=1, stage=Stage.WAITING, reason=ExpireReason.HOPELESS),
    ]


def test_rows_that_have_run_do_not_make_the_rest_hopeless():
    """Of sixteen rows eight are left, which take 10 ms, and 12 ms are left as well."""
    talk = a_talk(rows=8)
    talk.arrives(1, rows=16, budget="22ms")
    commands = said(talk.finishes(1, at="10ms"))
    assert commands == [kept(1), a_segment(2, first_row=8, rows=8)]


@pytest.mark.parametrize("is_held", [False, True])
def test_client_that_leaves_in_the_middle_is_cancelled_once(is_held):
    """While a segment runs its batch is stopped as well; in between there is none."""
    script = Scripted()
    talk = a_talk(script=script)
    talk.arrives(1, rows=6)
    script.held = {1: None} if is_held else {}
    talk.finishes(1, at="5ms")
    commands = said(talk.handle(RequestCancelled(request_id=1), at="6ms"))
    stage = Stage.WAITING if is_held else Stage.RUNNING
    stopped = [] if is_held else [CancelBatch(batch_id=2)]
    assert commands == [Cancel(request_id=1, stage=stage), *stopped]
    for batch_id in list(talk.kernel.fleet.batches):
        assert said(talk.finishes(batch_id, at="7ms")) == []


def test_segment_that_fails_fails_its_request():
    """Nothing of a request runs after one of its parts could not."""
    talk = a_talk()
    talk.arrives(1, rows=6)
    talk.finishes(1, at="5ms")
    failed = talk.handle(BatchFailed(batch_id=2, code="executor_failed", message="?"), at="6ms")
    assert said(failed) == [
        Fail(request_id=1, stage=Stage.RUNNING, code="executor_failed", message="?")
    ]


def test_worker_that_is_lost_takes_the_request_of_its_segment_along():
    """Some of its rows are gone in the middle; its client is told, and its place is free."""
    talk = a_talk(queue_requests_max=1)
    talk.arrives(1, rows=6)
    talk.finishes(1, at="5ms")
    commands = talk.handle(ReplicasLost(replica_ids=(1,), message="killed"), at="6ms")
    assert said(commands) == [
        Fail(request_id=1, stage=Stage.RUNNING, code="worker_lost", message="killed")
    ]
    assert said(talk.arrives(2, at="7ms")) == []


def test_worker_that_is_lost_between_two_segments_costs_nothing_that_has_run():
    """The same load comes back and goes on where it was."""
    script = Scripted()
    talk = a_talk(script=script)
    talk.arrives(1, rows=4)
    script.held = {1: None}
    talk.finishes(1, at="5ms")
    talk.handle(ReplicasLost(replica_ids=(1,), message="killed"), at="6ms")
    script.held = {}
    talk.wakes()
    commands = said(talk.warm(1))
    assert commands[-1:] == [a_segment(2, first_row=2, rows=2)]


# --- models that come and go ----------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1", "2"])
def test_reload_between_segments_starts_over(version):
    """All rows of an answer are of one load, be its version called the same."""
    talk = a_talk()
    talk.arrives(1, rows=4)
    model = a_model(version=version, batch_rows_max=8, can_split=True)
    loaded_beside(talk, model)
    (again,) = [c for c in said(talk.finishes(1, at="5ms")) if isinstance(c, Dispatch)]
    assert again == a_segment(2, first_row=0, rows=2, replica_id=2)
    rest = said(talk.finishes(2, at="9ms"))
    assert (again.replica_id, rest[0], rest[1].first_row) == (2, kept(2), 2)
    talk.finishes(3, at="13ms")
    assert talk.outcomes[1].service_ns == 13 * MS


def test_reload_of_what_cannot_be_cut_runs_the_whole():
    """The settings of the new load hold from then on, for what has begun as well."""
    talk = a_talk()
    talk.arrives(1, rows=4)
    loaded_beside(talk, a_model(batch_rows_max=8))
    commands = said(talk.finishes(1, at="5ms"))
    assert a_dispatch(2, 1, rows=4, replica_id=2) in commands


def test_version_that_was_asked_for_finishes_what_it_has_begun():
    """The old replica serves on for it, and runs what is left, though the new one cannot cut."""
    talk = a_talk()
    talk.arrives(1, rows=6, version="1")
    loaded_beside(talk, a_model(version="2", batch_rows_max=8))
    commands = said(talk.finishes(1, at="5ms"))
    assert commands == [kept(1), a_segment(2, first_row=2, rows=4)]
    assert [type(c) for c in said(talk.finishes(2, at="9ms"))] == [
        Complete,
        UnloadReplica,
    ]


def test_unload_waits_for_all_segments_of_what_was_let_in():
    """A request that is away is as good as one that waits."""
    talk = a_talk()
    talk.arrives(1, rows=4)
    assert said(talk.handle(ModelUnloadRequested(model="m"), at="1ms")) == []
    talk.finishes(1, at="5ms")
    answered, unload = said(talk.finishes(2, at="9ms"))
    assert (type(answered), unload) == (Complete, UnloadReplica(replica_id=1))
    assert talk.handle(ReplicaStopped(replica_id=1)) == [ConcludeUnload(model="m")]


def test_unload_goes_on_when_who_was_away_is_cancelled():
    """The batch that nobody waits for is the last thing that holds the replica."""
    talk = a_talk()
    talk.arrives(1, rows=4)
    talk.handle(ModelUnloadRequested(model="m"), at="1ms")
    talk.handle(RequestCancelled(request_id=1), at="2ms")
    commands = talk.handle(BatchFinished(batch_id=1), at="3ms")
    assert said(commands) == [UnloadReplica(replica_id=1)]


def test_segment_lingers_no_longer_than_its_request_has_waited():
    """The rest of one that has waited its turn is due at once."""
    talk = a_talk(rows=2, linger="4ms")
    talk.arrives(1, rows=6)
    assert dispatched(talk.wakes(at="4ms")) == [(1,)]
    assert dispatched(talk.finishes(1, at="9ms")) == [(1,)]


def test_order_by_deadline_holds_between_segments():
    """A later arrival with a nearer deadline goes before the rest."""
    talk = a_talk(make=edf)
    talk.arrives(1, rows=4, budget="500ms")
    talk.arrives(2, at="1ms", budget="100ms")
    assert dispatched(talk.finishes(1, at="5ms")) == [(2,)]
