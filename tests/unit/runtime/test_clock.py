"""The live clock: order, re-arming, and loops that wake too early."""

import asyncio

import pytest

from headway.runtime import LoopClock
from headway.testing import VirtualLoop, run_virtual


class Handle:
    """A timer of `EarlyLoop`."""

    def __init__(self, delay_s, callback):
        self.delay_s = delay_s
        self.callback = callback
        self.is_cancelled = False

    def cancel(self):
        self.is_cancelled = True


class FakeLoop:
    """A loop whose timers fire when the test says so, at whatever time it says it is."""

    def __init__(self):
        self.now_ns = 1_000
        self.handles = []

    def call_later(self, delay_s, callback):
        handle = Handle(delay_s, callback)
        self.handles.append(handle)
        return handle

    def armed(self):
        return [handle for handle in self.handles if not handle.is_cancelled]

    def fire(self, at_ns):
        """Fire the one timer that is armed."""
        self.now_ns = at_ns
        [handle] = self.armed()
        handle.cancel()
        handle.callback()


@pytest.fixture
def loop():
    return FakeLoop()


@pytest.fixture
def clock(loop):
    return LoopClock(loop, lambda: loop.now_ns)


@pytest.fixture
def calls():
    return []


def test_time_starts_at_0(clock, loop):
    """Instants count from when the clock was made, not from the machine's boot."""
    assert clock.now_ns() == 0
    loop.now_ns += 5
    assert clock.now_ns() == 5


def test_ties_fire_in_order_of_scheduling(clock, loop, calls):
    """Many calls at one instant come in the order in which they were asked for."""
    for number in range(50):
        clock.call_at(10, lambda number=number: calls.append(number))
    loop.fire(1_010)
    assert calls == list(range(50))


def test_earlier_instant_goes_first_whatever_was_asked_first(clock, loop, calls):
    """The instant decides before the age does, and one loop timer serves all."""
    for at_ns in (30, 10, 20):
        clock.call_at(at_ns, lambda at_ns=at_ns: calls.append(at_ns))
    assert [handle.delay_s for handle in loop.armed()] == [1e-8]
    loop.fire(1_030)
    assert calls == [10, 20, 30]


def test_loop_is_asked_again_only_for_an_earlier_head(clock, loop):
    """A later instant costs no loop timer; an earlier one replaces it."""
    clock.call_at(20, print)
    clock.call_at(30, print)
    assert len(loop.handles) == 1
    clock.call_at(10, print)
    assert len(loop.handles) == 2
    assert len(loop.armed()) == 1


def test_wake_up_before_the_instant_looks_again(clock, loop, calls):
    """Loops round to their own ticks: one that fires early is asked once more for the rest."""
    clock.call_at(1_000, lambda: calls.append("due"))
    loop.fire(1_999)
    assert calls == []
    assert [handle.delay_s for handle in loop.armed()] == [1e-9]
    loop.fire(2_000)
    assert calls == ["due"]
    assert loop.armed() == []


def test_call_made_later_while_firing_does_not_hide_an_earlier_one(clock, loop, calls):
    """A callback that schedules something late leaves the loop armed for the true head."""
    clock.call_at(10, lambda: clock.call_at(500, lambda: calls.append("late")))
    clock.call_at(20, lambda: calls.append("soon"))
    loop.fire(1_010)
    assert [handle.delay_s for handle in loop.armed()] == [1e-8]
    loop.fire(1_020)
    assert calls == ["soon"]
    loop.fire(1_500)
    assert calls == ["soon", "late"]


def test_call_scheduled_for_now_while_firing_is_made_at_once(clock, loop, calls):
    """It comes after what was due already."""
    clock.call_at(10, lambda: clock.call_at(10, lambda: calls.append("second")))
    clock.call_at(10, lambda: calls.append("first"))
    loop.fire(1_010)
    assert calls == ["first", "second"]
    assert loop.armed() == []


def test_cancelled_call_is_never_made(clock, loop, calls):
    """The loop's wake-up finds nothing, and arms for what remains."""
    timer = clock.call_at(10, lambda: calls.append("cancelled"))
    clock.call_at(20, lambda: calls.append("kept"))
    clock.cancel(timer)
    clock.cancel(timer)
    loop.fire(1_010)
    loop.fire(1_020)
    assert calls == ["kept"]


def test_callback_that_raises_does_not_stop_the_clock(clock, loop, calls):
    """What is due after it is made at the loop's next turn."""
    clock.call_at(10, lambda: 1 // 0)
    clock.call_at(10, lambda: calls.append("after"))
    with pytest.raises(ZeroDivisionError):
        loop.fire(1_010)
    loop.fire(1_010)
    assert calls == ["after"]


def test_closed_clock_calls_nothing(clock, loop):
    """Not what was scheduled before, and not what is scheduled after."""
    clock.call_at(10, print)
    clock.close()
    clock.call_at(20, print)
    assert loop.armed() == []


def test_instants_survive_the_loops_float_seconds():
    """On a virtual loop every call comes at its very nanosecond, also days after the start."""

    async def scenario():
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock = LoopClock(loop, loop.monotonic_ns)
        seen = []
        instants = [1, 2, 333_333_333, 10**9 + 1, 86_400 * 10**9 + 7, 30 * 86_400 * 10**9 + 1]
        for at_ns in instants:
            clock.call_at(at_ns, lambda: seen.append(clock.now_ns()))
        await asyncio.sleep(40 * 86_400)
        clock.close()
        return seen, instants

    seen, instants = run_virtual(scenario())
    assert seen == instants
