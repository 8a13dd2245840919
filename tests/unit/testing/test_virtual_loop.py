"""Virtual time: exact, free, and honest about waiting for nothing."""

import asyncio

import pytest

from headway.testing import DeadlockError, VirtualLoop, run_virtual
from headway.units import NS_PER_S


def now_ns():
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop.monotonic_ns()


def test_sleep_jumps_to_its_instant():
    """A year takes no time, and a nanosecond is not lost."""

    async def scenario():
        seen = [now_ns()]
        for sleep_s in (1e-9, 0.1, 0.2, 3_600.0):
            await asyncio.sleep(sleep_s)
            seen.append(now_ns())
        return seen

    assert run_virtual(scenario()) == [0, 1, 100_000_001, 300_000_001, 3_600_300_000_001]


def test_time_stands_still_while_anything_is_ready():
    """Callbacks run to the end before a timer fires, however many there are."""

    async def scenario():
        async with asyncio.TaskGroup() as group:
            sleeper = group.create_task(asyncio.sleep(1e-9))
            for _ in range(1_000):
                await asyncio.sleep(0)
            return now_ns(), sleeper.done()

    assert run_virtual(scenario()) == (0, False)


def test_timers_fire_in_order_and_cancelled_ones_not_at_all():
    """Neither does a cancelled timer move the time."""

    async def scenario():
        loop = asyncio.get_running_loop()
        seen = []
        for second in (3, 1, 2):
            loop.call_later(second, lambda second=second: seen.append((second, loop.time())))
        loop.call_later(2.5, seen.append, "cancelled").cancel()
        loop.call_later(99.0, seen.append, "cancelled").cancel()
        await asyncio.sleep(10)
        return seen

    assert run_virtual(scenario()) == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_timers_of_a_nanosecond_apart_are_told_apart():
    """Neither fires early, nor does the loop spin between them."""

    async def scenario():
        loop = asyncio.get_running_loop()
        seen = []
        for ns in (1_000_000_000, 1_000_000_001, 1_000_000_002):
            loop.call_at(ns / NS_PER_S, lambda: seen.append(now_ns()))
        await asyncio.sleep(2)
        return seen

    assert run_virtual(scenario()) == [1_000_000_000, 1_000_000_001, 1_000_000_002]


def test_slow_code_lets_time_pass():
    """What fell due meanwhile fires after it, late as it would be."""

    async def scenario():
        loop = asyncio.get_running_loop()
        seen = []
        loop.call_later(1, lambda: loop.advance(5 * NS_PER_S))
        loop.call_later(2, lambda: seen.append(now_ns()))
        await asyncio.sleep(10)
        return seen

    assert run_virtual(scenario()) == [6 * NS_PER_S]


def test_timeouts_work():
    """Asyncio's own tools know nothing of the trick."""

    async def scenario():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        return now_ns()

    assert run_virtual(scenario()) == 5 * NS_PER_S


async def waits_for_ever():
    await asyncio.get_running_loop().create_future()


def test_deadlock_is_an_error_that_names_who_waits():
    """A test that can never end says so at once, and ends."""
    with pytest.raises(DeadlockError, match=r"can happen any more; waiting: `waits_for_ever`$"):
        run_virtual(waits_for_ever())


def test_deadlock_of_many_names_a_few():
    """The message stays readable."""

    async def scenario():
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(waits_for_ever())

    with pytest.raises(DeadlockError, match=r"and 13 more$"):
        run_virtual(scenario())
