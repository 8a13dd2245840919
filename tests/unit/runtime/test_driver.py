"""The driver between kernel and world: observers, re-entrance, and the end after a bug."""

from typing import get_args

import pytest

from headway.core import (
    BatchId,
    Command,
    DrainStarted,
    KeepSegment,
    Reject,
    RejectReason,
    ReplicaId,
    ReplicaWarmed,
    RequestId,
    SetTimer,
    TimerFired,
    UnloadReplica,
)
from headway.errors import InternalError, InvariantError
from headway.runtime import Driver, Timings
from headway.runtime.driver import UNTIMED


class FakeClock:
    """Time stands where the test puts it."""

    def __init__(self):
        self.at_ns = 0
        self.calls = []
        self.cancelled = []

    def now_ns(self):
        return self.at_ns

    def call_at(self, at_ns, callback):
        self.calls.append((at_ns, callback))
        return len(self.calls) - 1

    def cancel(self, timer):
        self.cancelled.append(timer)


class FakeKernel:
    """Answers each event with the next of its scripted lists; an exception is raised."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.events = []

    def handle(self, event, now_ns):
        self.events.append(event)
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            raise answer
        return answer


class FakeEffects:
    """Notes what it is told to do, and may do something else besides."""

    def __init__(self):
        self.done = []
        self.on_answer = lambda command: None
        self.crashes = []

    def answer(self, command):
        self.done.append(command)
        self.on_answer(command)

    def dispatch(self, command):
        self.done.append(command)

    def keep_segment(self, command):
        self.done.append(command)

    def cancel_batch(self, batch_id):
        self.done.append(("cancel", batch_id))

    def load_replica(self, command):
        self.done.append(command)

    def unload_replica(self, replica_id):
        self.done.append(("unload", replica_id))

    def replace_worker(self, replica_id):
        self.done.append(("replace", replica_id))

    def conclude(self, command):
        self.done.append(command)

    def crashed(self, error):
        self.crashes.append(error)


REFUSAL = Reject(request_id=RequestId(1), reason=RejectReason.DRAINING, retry_after_ns=0)
DRAIN = DrainStarted()
WARMED = ReplicaWarmed(replica_id=ReplicaId(1))


class Play:
    """A driver with everything about it fake."""

    def __init__(self, *answers, observers=(), timings=UNTIMED):
        self.kernel = FakeKernel(*answers)
        self.clock = FakeClock()
        self.effects = FakeEffects()
        self.lost = []
        self.driver = Driver(
            self.kernel,
            self.clock,
            self.effects,
            observers=observers,
            observer_lost=self.lost.append,
            timings=timings,
        )


def test_every_command_has_an_effect():
    """The driver knows what to do for each kind of command."""
    assert set(Play().driver._actions) == set(get_args(Command))


def test_observers_see_each_step_before_it_is_carried_out():
    """Instant, event and commands; the effect follows."""
    seen = []
    play = Play([REFUSAL], observers=[lambda *step: seen.append((*step, list(play.effects.done)))])
    play.clock.at_ns = 7
    play.driver.post(DRAIN)
    assert seen == [(7, DRAIN, [REFUSAL], [])]
    assert play.effects.done == [REFUSAL]


def test_observer_that_raises_is_dropped_without_harm():
    """It is reported once; the others, and what the kernel said, go on."""
    bug = ValueError("observer")
    before, after = [], []

    def broken(now_ns, event, commands):
        raise bug

    play = Play(
        [REFUSAL],
        [REFUSAL],
        observers=[
            lambda *step: before.append(step),
            broken,
            lambda *step: after.append(step),
        ],
    )
    play.driver.post(DRAIN)
    play.driver.post(DRAIN)
    assert play.lost == [bug]
    assert (len(before), len(after)) == (2, 2)
    assert play.effects.done == [REFUSAL, REFUSAL]
    assert not play.driver.has_crashed


def test_event_posted_from_an_effect_waits_its_turn():
    """One event is carried out to the end before the next is handled."""
    play = Play([REFUSAL, REFUSAL], [])
    handled = []

    def post_again(command):
        play.driver.post(WARMED)
        handled.append(len(play.kernel.events))

    play.effects.on_answer = post_again
    play.driver.post(DRAIN)
    assert handled == [1, 1]
    assert play.kernel.events == [DRAIN, WARMED, WARMED]


def test_timer_replaces_the_one_before():
    """The kernel has one alarm; firing it posts `TimerFired`."""
    play = Play([SetTimer(at_ns=50)], [SetTimer(at_ns=20)])
    play.driver.post(DRAIN)
    play.driver.post(DRAIN)
    assert [at_ns for at_ns, _ in play.clock.calls] == [50, 20]
    assert play.clock.cancelled == [0]
    play.clock.calls[1][1]()
    assert play.kernel.events[-1] == TimerFired()


def test_stop_drops_the_timer():
    """Nothing wakes a driver that was stopped."""
    play = Play([SetTimer(at_ns=50)])
    play.driver.stop()
    play.driver.post(DRAIN)
    play.driver.stop()
    assert play.clock.cancelled == [0]


def test_kernel_bug_is_reported_once_and_ends_everything():
    """The error is internal, knows its cause and its event, and nothing is handled after it."""
    bug = KeyError("lost")
    seen = []
    play = Play(bug, observers=[lambda *step: seen.append(step)])
    play.driver.post(DRAIN)
    play.driver.post(WARMED)
    [error] = play.effects.crashes
    assert type(error) is InternalError
    assert error.__cause__ is bug
    assert error.__notes__ == [f"while handling {DRAIN!r}"]
    assert play.kernel.events == [DRAIN]
    assert play.driver.has_crashed
    assert seen == [(0, DRAIN, [])], "the journal ends with the step that a replay fails on"


def test_internal_error_of_the_kernel_is_passed_on_as_it_is():
    """Its class, words and cause say more than a wrapping would."""
    bug = InvariantError("a law")
    bug.__cause__ = cause = ValueError()
    play = Play(bug)
    play.driver.post(DRAIN)
    assert play.effects.crashes == [bug]
    assert bug.__cause__ is cause


def test_effect_that_raises_ends_everything_too():
    """Kernel and world no longer agree, so the rest is not carried out."""
    play = Play([REFUSAL, UnloadReplica(replica_id=ReplicaId(1))])

    def broken(command):
        raise RuntimeError("effect")

    play.effects.on_answer = broken
    play.driver.post(DRAIN)
    [error] = play.effects.crashes
    assert error.message == "RuntimeError('effect')"
    assert play.effects.done == [REFUSAL]
    assert play.driver.has_crashed


def test_events_waiting_when_it_crashes_are_dropped():
    """Also those that the crashing step itself had posted."""
    play = Play([REFUSAL], ValueError())
    play.effects.on_answer = lambda command: [play.driver.post(WARMED) for _ in range(3)]
    play.driver.post(DRAIN)
    assert play.kernel.events == [DRAIN, WARMED]
    assert len(play.effects.crashes) == 1
    assert not play.driver._pending


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_interruption_is_not_taken_for_a_bug(signal):
    """Whoever ends the process is obeyed."""
    play = Play()
    play.kernel.handle = lambda event, now_ns: (_ for _ in ()).throw(signal())
    with pytest.raises(signal):
        play.driver.post(DRAIN)
    assert not play.driver.has_crashed


def test_driver_tells_how_long_each_decision_took_and_how_late_it_woke():
    """One length a step, crashes included; a timer that fires on time is 0 late."""
    decided, woke = [], []
    timings = Timings(decided=decided.append, woke=woke.append)
    play = Play([SetTimer(at_ns=50)], [], timings=timings)
    play.driver.post(DRAIN)
    assert (len(decided), woke) == (1, [])
    play.clock.at_ns = 58
    play.driver._fire()
    assert (len(decided), woke) == (2, [8])
    assert min(decided) >= 0


def test_kept_segment_is_handed_on():
    """What a part of a request gave is kept by whoever holds its outputs."""
    kept = KeepSegment(request_id=RequestId(1), batch_id=BatchId(2))
    play = Play([kept])
    play.driver.post(DRAIN)
    assert play.effects.done == [kept]
