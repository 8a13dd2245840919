"""One request's story: what it says of each fate, in values and in sentences."""

import pytest
from msgspec.structs import replace
from tests.unit.report.written_steps import LOAD, Steps

from headway.core import (
    BatchFailed,
    BatchId,
    Cancel,
    CancelBatch,
    Expire,
    ExpireReason,
    Fail,
    Forecast,
    Reject,
    RejectReason,
    ReplicasLost,
    ReplicaWarmed,
    RequestArrived,
    RequestCancelled,
    RequestId,
    Stage,
    TimerFired,
)
from headway.report import Cause, story_lines, tell, tell_worst
from headway.testing import a_dispatch, a_request
from headway.units import NS_PER_MS, format_duration


def told(steps, number):
    """The story."""
    return tell(lambda: steps.records, steps.devices, number)


def words(steps, number):
    """The story as it is read, without what only aligns it."""
    return "\n".join(" ".join(line.split()) for line in story_lines(told(steps, number)))


def blocked():
    """A live request behind two long batches of lower priority, answered late."""
    steps = Steps(lanes=(0, 0))
    steps.arrives(1, "1ms", a_dispatch(1, 1, model="bulk", replica_id=2), model="bulk", priority=5)
    steps.arrives(
        2, "2ms", a_dispatch(2, 2, slot=1, model="bulk", replica_id=2), model="bulk", priority=5
    )
    steps.arrives(3, "5ms", budget="40ms", late="1s", tier="live", tenant="acme")
    run = a_dispatch(3, 3, expected="8ms", bound="9ms")
    steps.ends(1, "45ms", run, execution="44ms", answers=[1])
    foreseen = Forecast(
        queue_ns=30 * NS_PER_MS,
        overhead_ns=0,
        base_ns=8 * NS_PER_MS,
        mean_ns=38 * NS_PER_MS,
        bound_ns=60 * NS_PER_MS,
    )
    steps.ends(3, "55ms", execution="7ms", transfer="1ms", answers=[3], foreseen=foreseen)
    steps.ends(2, "62ms", execution="60ms", answers=[2])
    return steps


def test_story_of_a_late_one_says_why_and_what_would_have_saved_it():
    """Its wait, who held the slots, its batch, who ran beside it, and what was predicted."""
    story = told(blocked(), 3)
    assert (story.outcome, story.is_violation) == ("completed", True)
    assert story.latency_ns == 50 * NS_PER_MS
    assert story.late_ns == 10 * NS_PER_MS
    assert next(iter(story.parts_ns.items())) == (Cause.BLOCKED_LOWER, 40 * NS_PER_MS)
    (blocker,) = story.blocked_by
    assert (blocker.model, blocker.priority, blocker.batches) == ("bulk", 5, 2)
    assert blocker.blocked_ns == 40 * NS_PER_MS
    (run,) = story.runs
    assert (run.took_ns, run.bound_ns) == (10 * NS_PER_MS, 9 * NS_PER_MS)
    assert [(one.model, one.beside_ns) for one in run.beside] == [("bulk", 10 * NS_PER_MS)]
    saving = [rescue for rescue in story.rescues if rescue.would_save]
    assert saving[0].gains_ns == 40 * NS_PER_MS
    assert "low-priority" in saving[0].what


def test_words_of_a_late_one():
    """Each number of the story in a sentence."""
    said = words(blocked(), 3)
    for line in (
        "Request 3 of m: 1 row, tier live, priority 1, tenant acme",
        "It came 5ms after the start with a budget of 40ms. It was answered after 50ms, 10ms late.",
        "blocked by lower priority 40ms 80.0%",
        "transfers 1ms 2.0%",
        "40ms 2 batches of bulk, priority 5, of lower priority",
        "Its batch, batch 3: 1 row, alone, on cpu:0 slot 0, took 10ms",
        "execution 7ms, transfers 1ms, overhead 2ms; alone such a batch takes 7ms",
        "predicted at its start 8ms, at most 9ms, which it broke",
        "beside it 1 batch of bulk, priority 5, for 10ms in all",
        "At its admission 38ms was expected, at most 60ms. Its parts, beside what they took:",
        "queue 30ms 40ms",
        "What would have saved it:",
        "- less low-priority work at once: batches of lower priority held the slots for 40ms "
        "(enough alone)",
        "- a budget larger by 10ms, 50ms in all (enough alone)",
    ):
        assert line in said.splitlines(), said


def test_one_that_was_in_time_says_what_would_have_made_it_faster():
    """It needed no saving."""
    steps = Steps(linger="6ms")
    steps.arrives(1, "1ms", budget="100ms")
    steps.at("7ms", TimerFired(), a_dispatch(1, 1))
    steps.ends(1, "11ms", execution="4ms", answers=[1])
    said = words(steps, 1)
    assert "It was answered after 10ms, with 90ms to spare." in said
    assert "What would have made it faster:" in said
    assert "- no linger: a slot was free for 6ms while its batch waited for company" in said
    assert "enough alone" not in said
    assert told(steps, 1).is_violation is False


def test_part_as_long_as_it_was_late_would_have_been_enough():
    """To the nanosecond; a part that is shorter would not."""
    for budget, says in (("4ms", "(enough alone)"), ("3ms", "(not enough alone)")):
        steps = Steps(linger="6ms")
        steps.arrives(1, "1ms", budget=budget, late="1s")
        steps.at("7ms", TimerFired(), a_dispatch(1, 1))
        steps.ends(1, "11ms", execution="4ms", answers=[1])
        line = next(line for line in words(steps, 1).splitlines() if "no linger" in line)
        assert line.endswith(says)


def test_refused_one_says_what_it_met_and_when_another_was_let_in():
    """The queue then, when it was told to come back, and when that would have worked."""
    steps = Steps()
    steps.arrives(1, "1ms", a_dispatch(1, 1))
    steps.arrives(2, "2ms")
    refusal = Reject(
        request_id=RequestId(3),
        reason=RejectReason.MODEL_QUEUE_FULL,
        retry_after_ns=20 * NS_PER_MS,
    )
    steps.arrives(3, "3ms", refusal)
    steps.arrives(4, "4ms", replace(refusal, request_id=RequestId(4)))
    steps.ends(1, "11ms", a_dispatch(2, 2), execution="10ms", answers=[1])
    steps.arrives(5, "13ms", model="n")
    steps.arrives(6, "14ms")
    story = told(steps, 3)
    assert (story.outcome, story.reason) == ("rejected", "model_queue_full")
    assert (story.seen.waiting, story.seen.waiting_of_model, story.seen.running) == (1, 1, 1)
    assert story.let_in_after_ns == 11 * NS_PER_MS
    said = words(steps, 3)
    assert "It was refused: model_queue_full." in said
    assert "Then 1 other waited, 1 of them for its model, and 1 batch ran on 1 slot." in said
    assert "Its client was told to try again after 20ms." in said
    assert "- to ask again 11ms later, when one like it was let in" in said


def test_expired_one_says_what_it_waited_for():
    """What its work would have taken was still to come."""
    steps = Steps()
    steps.arrives(1, "1ms", a_dispatch(1, 1), priority=7)
    steps.arrives(2, "2ms", budget="20ms")
    expire = Expire(request_id=RequestId(2), stage=Stage.WAITING, reason=ExpireReason.DEADLINE_PAST)
    steps.at("22ms", TimerFired(), expire)
    steps.ends(1, "31ms", execution="30ms", answers=[1])
    story = told(steps, 2)
    assert (story.outcome, story.stage) == ("expired", "waiting")
    assert story.parts_ns == {Cause.BLOCKED_LOWER: 20 * NS_PER_MS}
    assert "Its time was up after 20ms, while it was waiting." in words(steps, 2)


@pytest.mark.parametrize("reason", [ExpireReason.PREDICTED_LATE, ExpireReason.HOPELESS])
def test_one_that_was_given_up_says_so(reason):
    """Before its time; on what ground."""
    steps = Steps()
    steps.arrives(1, "1ms", a_dispatch(1, 1))
    steps.arrives(2, "2ms", budget="20ms")
    expire = Expire(request_id=RequestId(2), stage=Stage.WAITING, reason=reason)
    steps.at("9ms", TimerFired(), expire)
    steps.ends(1, "31ms", execution="30ms", answers=[1])
    said = words(steps, 2)
    assert f"It was given up after 7ms: {reason}." in said
    assert "a budget larger by at least" in said


def test_failed_cancelled_and_lost_ones_say_what_befell_them():
    """The error of their batch, or that their client left."""
    steps = Steps()
    steps.arrives(1, "1ms", a_dispatch(1, 1))
    fail = Fail(
        request_id=RequestId(1), stage=Stage.RUNNING, code="executor_failed", message="no memory"
    )
    event = BatchFailed(batch_id=BatchId(1), code="executor_failed", message="no memory")
    steps.at("5ms", event, fail)
    steps.arrives(2, "6ms", a_dispatch(2, 2))
    cancel = Cancel(request_id=RequestId(2), stage=Stage.RUNNING)
    steps.at("8ms", RequestCancelled(request_id=RequestId(2)), cancel, CancelBatch(batch_id=2))
    steps.ends(2, "9ms")
    steps.arrives(3, "10ms", a_dispatch(3, 3))
    lost = replace(fail, request_id=RequestId(3), code="worker_lost", message="killed")
    steps.at("12ms", ReplicasLost(replica_ids=(1,), message="killed"), lost, LOAD)
    said = words(steps, 1)
    assert "It failed after 4ms: executor_failed, no memory" in said
    assert "failed after 4ms" in said
    assert "it ended with: no memory" in said
    assert "It failed for what it met, not for its time; see the error." in said
    assert "Its client took it back after 2ms, while it was running." in words(steps, 2)
    assert "lost after 2ms" in words(steps, 3)


def test_bound_of_a_batch_that_was_not_seen_to_end_is_not_said_to_hold():
    """It was cut short by the request's end; only that it is broken can be known by then."""
    for bound_ms, said in ((20, ""), (4, ", which it broke")):
        steps = Steps()
        run = a_dispatch(1, 1, expected="3ms", bound=f"{bound_ms}ms")
        steps.arrives(1, "0ms", run, budget="8ms")
        over = ExpireReason.DEADLINE_PAST
        expire = Expire(request_id=RequestId(1), stage=Stage.RUNNING, reason=over)
        steps.at("8ms", TimerFired(), expire)
        lines = words(steps, 1).splitlines()
        (line,) = [line for line in lines if "predicted at its start" in line]
        assert line.endswith(f"at most {format_duration(bound_ms * NS_PER_MS)}{said}")


def test_unfinished_one_is_told_as_far_as_it_has_come():
    """A live server is asked about what still waits."""
    steps = Steps()
    steps.arrives(1, "1ms", a_dispatch(1, 1))
    steps.arrives(2, "2ms")
    steps.arrives(3, "9ms", model="other")
    story = told(steps, 2)
    assert (story.outcome, story.latency_ns) == ("unfinished", None)
    assert story.parts_ns == {Cause.BLOCKED_EQUAL: 7 * NS_PER_MS}
    assert "It had not ended when the records did." in words(steps, 2)
    assert "had run for 8ms then" in words(steps, 1)


def test_one_that_came_before_the_records_is_told_from_there():
    """What came before is not known, and that is said."""
    steps = blocked()
    at = next(i for i, record in enumerate(steps.records) if record.now_ns == 45 * NS_PER_MS)
    steps.records = steps.records[at:]
    story = told(steps, 3)
    assert story.is_whole is False
    assert story.tier is None
    said = words(steps, 3)
    assert "The records begin after its arrival, so what came before is not known." in said
    assert "Its batch, batch 3" in said


def test_segments_are_told_one_by_one():
    """With the row at which each began."""
    steps = Steps()
    first = a_dispatch(1, 1, rows=2, is_segment=True)
    second = a_dispatch(2, 1, rows=2, is_segment=True, first_row=2)
    steps.arrives(1, "1ms", first, rows=4)
    steps.ends(1, "11ms", second, execution="10ms")
    steps.ends(2, "21ms", execution="10ms", answers=[1])
    said = words(steps, 1)
    assert "A part of it ran in batch 1: 2 rows of it, from row 0 on" in said
    assert "A part of it ran in batch 2: 2 rows of it, from row 2 on" in said


def pipeline():
    """A call of three steps, of which two ran at once."""
    steps = Steps(lanes=(0, 1))
    call = RequestId(-7)

    def step(number, now, *commands, **what):
        request = replace(a_request(number, at=now, **what), origin=call)
        steps.at(now, RequestArrived(request=request), *commands)

    step(1, "1ms", a_dispatch(1, 1))
    steps.ends(1, "5ms", execution="4ms", answers=[1])
    step(2, "6ms", a_dispatch(2, 2))
    step(3, "6ms", a_dispatch(3, 3, slot=1))
    steps.ends(2, "9ms", execution="3ms", answers=[2])
    steps.ends(3, "26ms", execution="20ms", answers=[3])
    return steps


def test_call_of_a_pipeline_is_told_by_its_steps():
    """From the first that came to the last that ended, and the slowest in full."""
    steps = pipeline()
    story = told(steps, -7)
    assert story.is_pipeline_call
    assert [step.request_id for step in story.steps] == [1, 2, 3]
    assert story.latency_ns == 25 * NS_PER_MS
    said = words(steps, -7)
    assert "Call -7 of a pipeline, of which the records tell 3 requests" in said
    assert "2 of m: 5ms to 8ms, completed, most of it its own work" in said
    assert "The one that took longest:" in said
    assert "Request 3 of m" in said
    assert "a step of pipeline call -7" in words(steps, 2)


def test_call_of_a_pipeline_without_an_answer_says_which_step_had_none():
    """What became of it decides what became of the call."""
    steps = pipeline()
    steps.records.pop()
    story = told(steps, -7)
    assert (story.outcome, story.latency_ns, story.is_violation) == ("unfinished", None, False)
    assert "It has no answer there: request 3 had not ended." in words(steps, -7)
    expire = Expire(request_id=RequestId(3), stage=Stage.RUNNING, reason=ExpireReason.DEADLINE_PAST)
    steps.at("20ms", TimerFired(), expire)
    story = told(steps, -7)
    assert (story.outcome, story.latency_ns, story.is_violation) == (
        "expired",
        19 * NS_PER_MS,
        True,
    )
    assert "request 3 ended expired (deadline_past)." in words(steps, -7)


def test_nobody_is_told_of_whom_the_records_know_nothing():
    """Neither a request nor a call."""
    assert told(blocked(), 99) is None
    assert told(pipeline(), -1) is None
    assert told(Steps(), 1) is None


def test_worst_are_those_that_took_longest_for_their_budgets():
    """Not those that took longest; no more than there are."""
    steps = Steps()
    for number, (took, budget) in enumerate([(40, "1s"), (9, "10ms"), (30, "40ms")], start=1):
        at = 100 * number
        steps.arrives(number, f"{at}ms", a_dispatch(number, number), budget=budget)
        steps.ends(number, f"{at + took}ms", answers=[number])
    worst = tell_worst(lambda: steps.records, steps.devices, 2)
    assert [story.request_id for story in worst] == [2, 3]
    assert len(tell_worst(lambda: steps.records, steps.devices, 50)) == 3


def test_loss_shows_as_a_cold_start():
    """The wait for the worker to come back, with what would have helped."""
    steps = Steps()
    steps.at("5ms", ReplicasLost(replica_ids=(1,), message="killed"), LOAD)
    steps.arrives(2, "7ms", budget="10ms", late="1s")
    steps.at("40ms", ReplicaWarmed(replica_id=1), a_dispatch(2, 2))
    steps.ends(2, "44ms", execution="4ms", answers=[2])
    said = words(steps, 2)
    assert "cold start 33ms 89.2%" in said
    assert "- a warm replica: it waited or ran cold for 33ms (enough alone)" in said
