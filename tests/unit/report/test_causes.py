"""Where a request's time went: each cause alone, by hand, to the nanosecond."""

import pytest
from tests.unit.report.written_steps import LOAD, Steps, taken_apart

from headway.core import (
    Expire,
    ExpireReason,
    ReplicasLost,
    ReplicaWarmed,
    RequestId,
    SetTimer,
    Stage,
    TimerFired,
)
from headway.observe import Lives
from headway.report import Cause, TypicalTimes, parts_of
from headway.report.causes import beside
from headway.testing import a_dispatch
from headway.units import NS_PER_MS, parse_duration_ns

# --- on the way -----------------------------------------------------------------------------------


def test_reading_and_decoding_is_intake():
    """From its first bytes to its arrival at the scheduler."""
    steps = Steps()
    steps.arrives(1, "5ms", a_dispatch(1, 1), first_seen="2ms")
    steps.ends(1, "9ms", execution="4ms", answers=[1])
    assert steps.parts(1) == {Cause.INTAKE: 3, Cause.OWN_WORK: 4}


def test_stages_are_told_apart():
    """What is in none of the stages is overhead."""
    steps = Steps()
    steps.arrives(1, "1ms", a_dispatch(1, 1))
    steps.ends(1, "11ms", transfer="2ms", execution="5ms", answers=[1])
    assert steps.parts(1) == {Cause.TRANSFER: 2, Cause.OVERHEAD: 3, Cause.OWN_WORK: 5}


def test_batch_whose_stages_nobody_timed_is_all_work():
    """Rather that than an overhead that nobody has seen."""
    steps = Steps()
    steps.arrives(1, "1ms", a_dispatch(1, 1))
    steps.ends(1, "11ms", answers=[1])
    assert steps.parts(1) == {Cause.OWN_WORK: 10}


# --- waits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("priority", "comes", "cause"),
    [
        (5, "2ms", Cause.BLOCKED_LOWER),
        (5, "9ms", Cause.BLOCKED_LOWER),
        (1, "2ms", Cause.BLOCKED_EQUAL),
        (0, "2ms", Cause.BLOCKED_EQUAL),
    ],
)
def test_batch_that_ran_before_it_came_blocks(priority, comes, cause):
    """A lower one is called so; one of its class or a higher one was simply there first."""
    steps = Steps()
    steps.arrives(1, "1ms", a_dispatch(1, 1), priority=priority)
    steps.arrives(2, comes, priority=1)
    steps.ends(1, "11ms", a_dispatch(2, 2), execution="10ms", answers=[1])
    steps.ends(2, "21ms", execution="10ms", answers=[2])
    waited_ms = 11 - parse_duration_ns(comes) / NS_PER_MS
    assert steps.parts(2) == {cause: waited_ms, Cause.OWN_WORK: 10}


def test_batch_that_started_after_it_came_was_before_it_in_the_queue():
    """Of its class or above; a lower one that was let in then blocks, like any lower one."""
    for priority, cause in ((1, Cause.QUEUE), (0, Cause.QUEUE), (5, Cause.BLOCKED_LOWER)):
        steps = Steps()
        steps.arrives(1, "1ms", a_dispatch(1, 1))
        steps.arrives(2, "2ms", priority=priority)
        steps.arrives(3, "3ms")
        steps.ends(1, "11ms", a_dispatch(2, 2), execution="10ms", answers=[1])
        steps.ends(2, "21ms", a_dispatch(3, 3), execution="10ms", answers=[2])
        steps.ends(3, "31ms", execution="10ms", answers=[3])
        assert steps.parts(3) == {Cause.BLOCKED_EQUAL: 8, cause: 10, Cause.OWN_WORK: 10}


def test_batch_that_starts_as_it_comes_was_before_it_in_the_queue():
    """Of two that came at one instant the other went first; it did not run before."""
    steps = Steps()
    steps.arrives(1, "1ms", a_dispatch(1, 1))
    steps.arrives(2, "1ms")
    steps.ends(1, "11ms", a_dispatch(2, 2), execution="10ms", answers=[1])
    steps.ends(2, "21ms", execution="10ms", answers=[2])
    assert steps.parts(2) == {Cause.QUEUE: 10, Cause.OWN_WORK: 10}


def test_holders_of_several_slots_share_the_blame():
    """In equal parts while every slot is taken, to the last nanosecond."""
    steps = Steps(lanes=(0, 1))
    steps.arrives(1, "1ms", a_dispatch(1, 1), priority=5)
    steps.arrives(2, "1ms", a_dispatch(2, 2, slot=1), priority=1)
    steps.arrives(3, "2ms", priority=1)
    steps.ends(1, "9ms", a_dispatch(3, 3), execution="8ms", answers=[1])
    steps.ends(2, "19ms", execution="18ms", answers=[2])
    steps.ends(3, "27ms", execution="18ms", answers=[3])
    parts = steps.parts(3)
    assert parts[Cause.BLOCKED_LOWER] == parts[Cause.BLOCKED_EQUAL] == 3.5
    taken = taken_apart(steps.records, steps.devices, 3)
    assert sorted(blocker.batch.dispatch.batch_id for blocker in taken.blockers) == [1, 2]


def test_free_slot_within_the_linger_is_a_wait_for_company():
    """And after it the policy holds it back."""
    steps = Steps(linger="6ms")
    steps.arrives(1, "1ms")
    steps.at("11ms", TimerFired(), a_dispatch(1, 1))
    steps.ends(1, "15ms", execution="4ms", answers=[1])
    assert steps.parts(1) == {Cause.BATCH_WAIT: 6, Cause.HELD: 4, Cause.OWN_WORK: 4}


def test_free_slot_of_a_model_that_does_not_linger_is_held():
    """There is nothing else that could have kept it free."""
    steps = Steps()
    steps.arrives(1, "1ms")
    steps.at("11ms", TimerFired(), a_dispatch(1, 1))
    steps.ends(1, "15ms", execution="4ms", answers=[1])
    assert steps.parts(1) == {Cause.HELD: 10, Cause.OWN_WORK: 4}


def test_wait_without_a_warm_replica_is_a_cold_start():
    """From the loss to the warm-up, also with free slots."""
    steps = Steps()
    steps.arrives(1, "1ms", a_dispatch(1, 1))
    steps.at("5ms", ReplicasLost(replica_ids=(1,), message="it died"), LOAD)
    steps.arrives(2, "7ms")
    steps.at("40ms", ReplicaWarmed(replica_id=1), a_dispatch(2, 2))
    steps.ends(2, "44ms", execution="4ms", answers=[2])
    assert steps.parts(2) == {Cause.COLD_START: 33, Cause.OWN_WORK: 4}


def test_wait_in_which_the_host_paused_is_its_pause():
    """Whatever else held it up then."""
    steps = Steps()
    steps.arrives(1, "1ms", a_dispatch(1, 1), SetTimer(at_ns=15 * NS_PER_MS))
    steps.arrives(2, "2ms")
    steps.at("45ms", TimerFired())
    steps.ends(1, "45ms", a_dispatch(2, 2), execution="10ms", answers=[1])
    steps.ends(2, "55ms", execution="10ms", answers=[2])
    parts = steps.parts(2)
    assert parts == {Cause.BLOCKED_EQUAL: 9, Cause.HOST_PAUSE: 34, Cause.OWN_WORK: 10}
    assert steps.parts(1) == {Cause.HOST_PAUSE: 34, Cause.OWN_WORK: 10}


def test_slots_of_a_device_that_nobody_named_are_those_that_were_used():
    """A journal's header may know fewer devices than its steps."""
    steps = Steps()
    steps.arrives(1, "1ms", a_dispatch(1, 1), priority=5)
    steps.arrives(2, "2ms")
    steps.ends(1, "11ms", a_dispatch(2, 2), execution="10ms", answers=[1])
    steps.ends(2, "21ms", execution="10ms", answers=[2])
    steps.devices = []
    assert steps.parts(2) == {Cause.BLOCKED_LOWER: 9, Cause.OWN_WORK: 10}


def test_request_that_expires_in_the_queue_is_all_wait():
    """Up to its end; it never ran."""
    steps = Steps()
    steps.arrives(1, "1ms", a_dispatch(1, 1))
    steps.arrives(2, "2ms", budget="5ms")
    expire = Expire(request_id=RequestId(2), stage=Stage.WAITING, reason=ExpireReason.DEADLINE_PAST)
    steps.at("7ms", TimerFired(), expire)
    steps.ends(1, "11ms", execution="10ms", answers=[1])
    assert steps.parts(2) == {Cause.BLOCKED_EQUAL: 5}


# --- execution ------------------------------------------------------------------------------------


def alone(steps, count, *, first=1, begin=0, each="10ms", rows=1, **what):
    """Some requests, one after the other, alone on the device."""
    for number in range(first, first + count):
        now_ms = begin + 20 * (number - first)
        steps.arrives(
            number, f"{now_ms}ms", a_dispatch(number, number, rows=rows), rows=rows, **what
        )
        took_ms = parse_duration_ns(each) / NS_PER_MS
        steps.ends(number, f"{now_ms + took_ms}ms", execution=each, answers=[number])
    return first + count


def test_rows_of_others_are_its_company():
    """What its batch takes beyond what its own rows would have taken."""
    steps = Steps()
    alone(steps, 3)
    steps.arrives(4, "100ms")
    steps.arrives(5, "100ms", a_dispatch(4, 4, 5))
    steps.ends(4, "116ms", execution="16ms", answers=[4, 5])
    assert steps.parts(4) == {Cause.OWN_WORK: 10, Cause.COMPANY: 6}


def test_padding_is_its_part_of_the_work():
    """By bytes, of the whole batch."""
    steps = Steps()
    steps.arrives(1, "1ms", a_dispatch(1, 1), payload=1_000, padding=250)
    steps.ends(1, "9ms", execution="8ms", answers=[1])
    assert steps.parts(1) == {Cause.PADDING: 2, Cause.OWN_WORK: 6}


def test_time_beyond_the_usual_is_interference_as_far_as_neighbours_explain_it():
    """At the rate at which such neighbours slow such batches down on average."""
    steps = Steps(lanes=(0, 0))
    number = alone(steps, 3)
    for _ in range(3):  # beside a batch of the other slot it takes 15 ms instead of 10
        now_ms = 20 * number
        beside = number + 1
        other = a_dispatch(beside, beside, slot=1, model="n", replica_id=2)
        steps.arrives(beside, f"{now_ms}ms", other, model="n")
        steps.arrives(number, f"{now_ms}ms", a_dispatch(number, number))
        steps.ends(number, f"{now_ms + 15}ms", execution="15ms", answers=[number])
        steps.ends(beside, f"{now_ms + 15}ms", execution="15ms", answers=[beside])
        number += 2
    assert steps.parts(4)[Cause.INTERFERENCE] == pytest.approx(5, rel=1e-6)
    assert steps.parts(4)[Cause.OWN_WORK] == 10


@pytest.mark.parametrize(
    ("shares_all", "lanes", "found"),
    [(False, (0, 1), (0, 6)), (False, (0, 0), (6, 0)), (True, (0, 1), (6, 0))],
)
def test_neighbours_are_those_of_its_lane_or_of_all_of_a_device(shares_all, lanes, found):
    """Slots that share all of a device have no lanes of their own."""
    steps = Steps(lanes=lanes, shares_all=shares_all)
    steps.arrives(1, "1ms", a_dispatch(1, 1))
    steps.arrives(2, "5ms", a_dispatch(2, 2, slot=1))
    steps.ends(1, "11ms", execution="10ms", answers=[1])
    lives = Lives(steps.devices)
    batches = [batch for record in steps.records for batch in lives.step(record).batches]
    assert beside(batches[0], lives) == tuple(ms * NS_PER_MS for ms in found)


def test_time_beyond_the_usual_without_a_neighbour_is_variance():
    """Nobody is to blame."""
    steps = Steps()
    number = alone(steps, 5)
    alone(steps, 1, first=number, begin=200, each="17ms")
    assert steps.parts(number) == {Cause.OWN_WORK: 10, Cause.VARIANCE: 7}


def test_first_batch_of_a_size_that_takes_twice_as_long_is_cold():
    """A little longer is only variance."""
    for first, cause in (("40ms", Cause.COLD_START), ("17ms", Cause.VARIANCE)):
        steps = Steps()
        alone(steps, 1, each=first)
        alone(steps, 5, first=2, begin=100)
        assert set(steps.parts(1)) == {cause, Cause.OWN_WORK}
        assert steps.parts(1)[Cause.OWN_WORK] == 10


def test_size_that_never_ran_is_between_its_neighbours():
    """Beyond the least and the most, theirs is taken; of another shape nothing is known."""
    steps = Steps()
    number = alone(steps, 3, rows=2, each="12ms")
    alone(steps, 3, first=number, begin=200, rows=4, each="18ms")
    lives, times = Lives(steps.devices), TypicalTimes()
    for record in steps.records:
        for batch in lives.step(record).batches:
            times.add(batch, lives)
    typical = times.typical([])
    found = [typical.base_ns("m", "", rows) for rows in (1, 2, 3, 4, 9)]
    assert [ns / NS_PER_MS for ns in found] == [12, 12, 15, 18, 18]
    assert typical.base_ns("m", "other", 1) is None
    assert typical.base_ns("other", "", 1) is None


def test_what_is_typical_is_known_from_some_of_many():
    """Of thousands of batches every second, fourth, ... is kept; the median stays where it is."""
    steps = Steps()
    number = alone(steps, 5_000)
    alone(steps, 1, first=number, begin=200_000, each="17ms")
    assert steps.parts(number) == {Cause.OWN_WORK: 10, Cause.VARIANCE: 7}


def test_segments_are_runs_with_waits_between():
    """A request that ran in parts waits again after each."""
    steps = Steps()
    first = a_dispatch(1, 1, rows=2, is_segment=True)
    second = a_dispatch(3, 1, rows=2, is_segment=True, first_row=2)
    steps.arrives(1, "1ms", first, rows=4)
    steps.arrives(2, "2ms", rows=2)
    steps.ends(1, "11ms", a_dispatch(2, 2, rows=2), execution="10ms")
    steps.ends(2, "21ms", second, execution="10ms", answers=[2])
    steps.ends(3, "31ms", execution="10ms", answers=[1])
    assert steps.parts(1) == {Cause.QUEUE: 10, Cause.OWN_WORK: 20}


def test_request_whose_arrival_is_not_known_is_not_taken_apart():
    """Neither it nor its dispatch was recorded."""
    steps = Steps()
    steps.arrives(1, "1ms", a_dispatch(1, 1))
    steps.ends(1, "9ms", execution="8ms", answers=[1])
    lives, times = Lives(steps.devices), TypicalTimes()
    (life,) = lives.step(steps.records[-1]).requests
    assert parts_of(life, lives, times.typical([])) is None
