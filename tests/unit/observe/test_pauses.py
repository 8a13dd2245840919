"""Pauses of the host, found in steps: what proves one, and what only looks like one."""

import pytest

from headway.core import BatchFinished, BatchId, Record, RequestArrived, SetTimer, TimerFired
from headway.observe import PAUSE_NS_MIN, Pause, PauseWatch, paused_ns
from headway.testing import a_dispatch, a_request
from headway.units import NS_PER_MS, parse_duration_ns


def at(now, event, *commands):
    """One step at an instant."""
    return Record(seq=0, now_ns=parse_duration_ns(now), event=event, commands=list(commands))


def arrival(number, first_seen, *commands, now=None):
    """A request whose first bytes were seen earlier than it was handled, or just then."""
    request = a_request(number, at=first_seen)
    return at(now or first_seen, RequestArrived(request=request), *commands)


def done(number, now, execution="0ms"):
    """A batch has run."""
    execution_ns = parse_duration_ns(execution)
    return at(now, BatchFinished(batch_id=BatchId(number), execution_ns=execution_ns))


def pauses_of(*records):
    """All that were found, in milliseconds."""
    watch = PauseWatch()
    for record in records:
        watch.step(record)
    watch.finish()
    return [(p.from_ns / NS_PER_MS, p.to_ns / NS_PER_MS) for p in watch.pauses]


def test_timer_that_fires_late_is_proof():
    """Nothing but the loop itself can hold a timer up: from when it was due to when it fired."""
    assert pauses_of(
        arrival(1, "1ms", SetTimer(at_ns=10 * NS_PER_MS)), at("90ms", TimerFired())
    ) == [(10.0, 90.0)]


@pytest.mark.parametrize("due", ["86ms", "90ms"])
def test_timer_that_is_a_little_late_is_jitter(due):
    """What is shorter than a pause is none, and a timer in time is none however long it was."""
    timer = SetTimer(at_ns=parse_duration_ns(due))
    assert pauses_of(arrival(1, "1ms", timer), at("90ms", TimerFired())) == []


def test_timer_that_was_set_anew_was_due_when_it_was_set_to_last():
    """An older instant is void."""
    assert (
        pauses_of(
            arrival(1, "1ms", SetTimer(at_ns=10 * NS_PER_MS)),
            arrival(2, "2ms", SetTimer(at_ns=88 * NS_PER_MS)),
            at("90ms", TimerFired()),
        )
        == []
    )


def test_crowd_after_a_silence_is_a_pause():
    """Two things that had been due before its end, and nothing was handled meanwhile."""
    records = [
        arrival(1, "1ms", a_dispatch(1, 1)),
        done(1, "60ms", execution="9ms"),
        arrival(2, "20ms", now="60ms"),
    ]
    assert pauses_of(*records) == [(10.0, 60.0)]
    assert pauses_of(*records[:2]) == []  # one batch alone may have been slow to come back
    assert pauses_of(records[0], records[2]) == []  # one request alone may have been slow to read


def test_silence_in_which_nothing_was_due_is_rest():
    """A server without load handles nothing, and what comes then comes in time."""
    assert (
        pauses_of(
            arrival(1, "1ms", a_dispatch(1, 1)),
            done(1, "5ms", execution="4ms"),
            arrival(2, "900ms"),
            arrival(3, "900ms"),
        )
        == []
    )


def test_late_things_after_the_crowd_are_no_witnesses():
    """Whoever is handled milliseconds after the silence was not waiting for its end."""
    assert (
        pauses_of(
            arrival(1, "1ms", a_dispatch(1, 1)),
            done(1, "60ms", execution="9ms"),
            arrival(2, "20ms", now="63ms"),
        )
        == []
    )


def test_batches_without_stages_say_nothing():
    """Nobody knows when they were done."""
    assert (
        pauses_of(
            arrival(1, "1ms", a_dispatch(1, 1)), done(1, "60ms"), arrival(2, "20ms", now="60ms")
        )
        == []
    )


def test_pauses_follow_each_other():
    """Each is told apart, in order."""
    records = []
    for begin in (0, 100, 200):
        records.append(arrival(1, f"{begin + 1}ms", SetTimer(at_ns=(begin + 10) * NS_PER_MS)))
        records.append(at(f"{begin + 50}ms", TimerFired()))
    assert pauses_of(*records) == [(10.0, 50.0), (110.0, 150.0), (210.0, 250.0)]


def test_part_of_a_span_that_pauses_take():
    """Cut to the span; nothing of what is outside."""
    pauses = [Pause(10, 20), Pause(30, 60)]
    assert [paused_ns(pauses, *span) for span in [(0, 100), (15, 35), (20, 30), (60, 90)]] == [
        40,
        10,
        0,
        0,
    ]
    assert PAUSE_NS_MIN == 5 * NS_PER_MS
