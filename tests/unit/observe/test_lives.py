"""Lives of requests and batches out of steps: whole runs, runs that are cut, and what is let go."""

import pytest

from headway.core import (
    BatchFailed,
    BatchFinished,
    BatchId,
    Cancel,
    Complete,
    Expire,
    LoadReplica,
    ModelUnloadRequested,
    ReplicaLoaded,
    ReplicasLost,
    ReplicaWarmed,
    RequestCancelled,
    RequestId,
)
from headway.observe import BatchEnding, Lives
from headway.testing import a_device, a_kernel, a_model
from headway.units import NS_PER_MS

DEVICES = [a_device(lanes=[0, 0])]


def followed(records, devices=DEVICES, **settings):
    """All steps taken: the lives as they are then, and what ended, in order."""
    lives = Lives(devices, **settings)
    requests, batches = [], []
    for record in records:
        ended = lives.step(record)
        requests += ended.requests
        batches += ended.batches
    return lives, requests, batches


def test_life_leads_from_arrival_through_its_batch_to_its_answer():
    """Instants, members and stages are those of the steps."""
    talk = a_kernel()
    talk.arrives(1, at="1ms")
    talk.arrives(2, at="2ms")
    talk.finishes(1, at="5ms")
    talk.handle(BatchFinished(batch_id=BatchId(2), execution_ns=3 * NS_PER_MS), at="9ms")
    lives, requests, batches = followed(talk.records)
    first, second = requests
    assert [life.request_id for life in requests] == [1, 2]
    assert isinstance(second.outcome, Complete)
    assert (second.arrived_at_ns, second.ended_at_ns) == (2 * NS_PER_MS, 9 * NS_PER_MS)
    assert (first.latency_ns, second.latency_ns) == (4 * NS_PER_MS, 7 * NS_PER_MS)
    (run,) = second.runs
    assert run is batches[1]
    assert run.members == (second,)
    assert (run.started_at_ns, run.ended_at_ns) == (5 * NS_PER_MS, 9 * NS_PER_MS)
    assert run.ending is BatchEnding.FINISHED
    assert [batch.has_stages for batch in batches] == [False, True]
    assert lives.is_whole
    assert (lives.requests, lives.running) == ({}, {})


def test_what_ran_or_waited_at_the_end_is_told_as_unfinished():
    """Neither has an end, and neither is forgotten."""
    talk = a_kernel()
    talk.arrives(1, at="1ms")
    talk.arrives(2, at="2ms")
    lives, requests, batches = followed(talk.records)
    assert (requests, batches) == ([], [])
    left = lives.finish()
    assert [life.request_id for life in left.requests] == [1, 2]
    assert [life.latency_ns for life in left.requests] == [None, None]
    (batch,) = left.batches
    assert batch.ending is BatchEnding.RUNNING
    assert batch.upto_ns(lives.now_ns) == 2 * NS_PER_MS


def test_batches_say_how_they_ended():
    """Failed and lost ones with their error, and one that nobody waits for any more."""
    talk = a_kernel()
    talk.arrives(1, at="1ms", budget="3ms")
    talk.wakes()
    talk.finishes(1, at="5ms")
    talk.arrives(2, at="6ms")
    talk.handle(BatchFailed(batch_id=BatchId(2), code="executor_failed", message="no"), at="7ms")
    talk.arrives(3, at="8ms")
    talk.handle(ReplicasLost(replica_ids=(1,), message="it died"), at="9ms")
    _, requests, batches = followed(talk.records)
    assert [batch.ending for batch in batches] == ["finished", "failed", "lost"]
    assert [batch.error for batch in batches] == [None, "no", "it died"]
    assert [batch.is_abandoned for batch in batches] == [True, False, False]
    assert isinstance(requests[0].outcome, Expire)
    assert [life.is_violation for life in requests] == [True, True, True]


def test_one_that_was_taken_back_is_no_violation():
    """Its client did not want it any more; late is only who was answered late."""
    talk = a_kernel()
    talk.arrives(1, at="1ms")
    talk.arrives(2, at="1ms")
    talk.handle(RequestCancelled(request_id=RequestId(2)), at="2ms")
    talk.finishes(1, at="5ms")
    talk.arrives(3, at="6ms", budget="1ms", late="1s")
    talk.finishes(2, at="9ms")
    _, requests, _ = followed(talk.records)
    assert [type(life.outcome) for life in requests] == [Cancel, Complete, Complete]
    assert [life.is_late for life in requests] == [False, False, True]
    assert [life.is_violation for life in requests] == [False, False, True]


@pytest.mark.parametrize("skipped", range(1, 7))
def test_records_may_begin_anywhere(skipped):
    """What is told of a cut run is what is told of the whole one, as far as it goes."""
    talk = a_kernel(slots=2)
    for number in range(1, 4):
        talk.arrives(number, at=f"{number}ms")
    for number in range(1, 4):
        talk.finishes(number, at=f"{10 + number}ms")
    _, whole, whole_batches = followed(talk.records)
    begin = len(talk.records) - skipped
    lives, requests, batches = followed(talk.records[begin:])
    assert not lives.is_whole
    assert [life.request_id for life in requests] == [life.request_id for life in whole][
        -len(requests) :
    ]
    by_id = {life.request_id: life for life in whole}
    for life in requests:
        full = by_id[life.request_id]
        assert life.ended_at_ns == full.ended_at_ns
        assert life.arrived_at_ns in (None, full.arrived_at_ns)
        assert life.model == (full.model if life.request or life.runs else None)
    starts = {batch.dispatch.batch_id: batch.started_at_ns for batch in whole_batches}
    for batch in batches:
        assert batch.started_at_ns == starts[batch.dispatch.batch_id]


def test_arrival_before_the_records_follows_from_the_answer():
    """Its dispatch was recorded, and its answer says how long it had waited then."""
    talk = a_kernel()
    talk.arrives(1, at="1ms")
    talk.arrives(2, at="2ms")
    talk.finishes(1, at="5ms")
    talk.finishes(2, at="9ms")
    _, requests, _ = followed(talk.records[-2:])
    assert [life.request for life in requests] == [None, None]
    assert [life.arrived_at_ns for life in requests] == [None, 2 * NS_PER_MS]
    assert requests[1].latency_ns == 7 * NS_PER_MS


def test_batches_of_a_span_are_those_that_overlap_it():
    """Running ones too; one that ended as the span began, or began as it ended, is not in it."""
    talk = a_kernel(slots=2)
    talk.arrives(9, at="0ms")  # lives to the end, so that nothing is forgotten
    for number in range(1, 4):
        talk.arrives(number, at=f"{10 * number}ms")
        talk.finishes(number + 1, at=f"{10 * number + 10}ms")
    talk.arrives(4, at="50ms")
    lives, _, _ = followed(talk.records)
    device = DEVICES[0].name

    def found(from_ms, to_ms):
        between = lives.batches_between(device, from_ms * NS_PER_MS, to_ms * NS_PER_MS)
        return sorted(batch.dispatch.batch_id for batch in between)

    assert found(0, 60) == [1, 2, 3, 4, 5]
    assert found(20, 30) == [1, 3]
    assert found(15, 21) == [1, 2, 3]
    assert found(40, 50) == [1]
    assert list(lives.batches_between("cpu:7", 0, 60 * NS_PER_MS)) == []


def test_what_ended_before_all_that_lives_is_forgotten():
    """A long run keeps nothing but what somebody who lives may have waited for."""
    talk = a_kernel()
    for number in range(1, 50):
        talk.arrives(number, at=f"{10 * number}ms")
        talk.finishes(number, at=f"{10 * number + 5}ms")
    lives, requests, _ = followed(talk.records)
    assert len(requests) == 49
    assert len(lives.ended) == 1
    assert lives.forgotten_until_ns is None


def test_what_ran_beside_a_batch_that_runs_is_not_forgotten():
    """Also where nobody waits for it any more."""
    talk = a_kernel(slots=2)
    talk.arrives(1, at="1ms")
    talk.handle(RequestCancelled(request_id=RequestId(1)), at="2ms")
    for number in range(2, 6):
        talk.arrives(number, at=f"{10 * number}ms")
        talk.finishes(number, at=f"{10 * number + 5}ms")
    talk.finishes(1, at="90ms")
    lives, _, batches = followed(talk.records)
    last = batches[-1]
    assert (last.dispatch.batch_id, last.is_abandoned) == (1, True)
    beside = lives.batches_between(DEVICES[0].name, last.started_at_ns, last.ended_at_ns)
    assert sorted(batch.dispatch.batch_id for batch in beside) == [1, 2, 3, 4, 5]


def test_too_many_batches_are_forgotten_and_that_is_said():
    """One request that waits for ever does not make the memory grow."""
    talk = a_kernel(slots=2)
    talk.arrives(1, at="0ms", budget="10s")
    for number in range(2, 50):
        talk.arrives(number, at=f"{10 * number}ms")
        talk.finishes(number, at=f"{10 * number + 5}ms")
    lives, _, _ = followed(talk.records, batches_max=10)
    assert len(lives.ended) <= 11
    assert lives.forgotten_until_ns is not None
    oldest = lives.ended[0].ended_at_ns
    assert lives.forgotten_until_ns < oldest


def test_model_is_served_between_its_warm_up_and_its_loss():
    """And again when it is back, and no longer when it is unloaded."""
    talk = a_kernel()
    talk.handle(ReplicasLost(replica_ids=(1,), message="it died"), at="5ms")
    talk.wakes()
    back_at_ns = talk.now_ns
    (again,) = [c for c in talk.records[-1].commands if isinstance(c, LoadReplica)]
    talk.handle(ReplicaLoaded(replica_id=again.replica_id), at=back_at_ns + NS_PER_MS)
    talk.handle(ReplicaWarmed(replica_id=again.replica_id))
    talk.handle(ModelUnloadRequested(model="m"), at="900ms")
    lives, _, _ = followed(talk.records)
    spans = [(span.from_ns, span.to_ns) for span in lives.served]
    assert spans == [(0, 5 * NS_PER_MS), (back_at_ns + NS_PER_MS, 900 * NS_PER_MS)]
    assert lives.served_between("m", 6 * NS_PER_MS, back_at_ns) == []
    assert len(lives.served_between("m", 0, back_at_ns + 2 * NS_PER_MS)) == 2


def test_first_batch_of_a_size_on_a_fresh_replica_is_the_first():
    """Of each size once; of a replica whose load was not recorded none is."""
    talk = a_kernel(models=[a_model(batch_rows_max=4)])
    warmed = len(talk.records)
    for number, rows in enumerate((1, 2, 1, 2), start=1):
        talk.arrives(number, at=f"{10 * number}ms", rows=rows)
        talk.finishes(number, at=f"{10 * number + 5}ms")
    _, _, batches = followed(talk.records)
    assert [batch.is_first for batch in batches] == [True, True, False, False]
    _, _, batches = followed(talk.records[warmed:])
    assert [batch.is_first for batch in batches] == [False] * 4
    talk.handle(ReplicasLost(replica_ids=(1,), message="it died"), at="100ms")
    talk.wakes()
    talk.warm(1)
    talk.arrives(9, at="900ms")
    talk.finishes(5, at="905ms")
    _, _, batches = followed(talk.records)
    assert batches[-1].is_first  # it came back cold
