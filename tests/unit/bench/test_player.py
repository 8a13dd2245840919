"""Sending a plan, in virtual time: open loop, held back at first, and what ends it."""

import asyncio

import pytest

from headway.bench.inputs import ClassRequests
from headway.bench.mix import TrafficClass
from headway.bench.orders import RunOrder
from headway.bench.plan import Arrival, Shift
from headway.bench.player import Player
from headway.bench.setups import SETUPS
from headway.errors import RejectedError
from headway.testing import run_virtual
from headway.units import NS_PER_MS, NS_PER_S

REQUESTS = [
    ClassRequests(TrafficClass(name, name, 1, 0.5), [[f"{name}'s input"]]) for name in ("a", "b")
]


class Slow:
    """Takes everything and answers each after as long; an error where there is one to give."""

    def __init__(self, service_ms, error=None):
        self.service_ms = service_ms
        self.error = error
        self.sent = []
        self.running = 0
        self.running_max_by_second = {}

    def now_ns(self):
        return 7

    def submit(self, model, inputs, on_end):
        loop = asyncio.get_running_loop()
        self.sent.append((round(loop.time() * 1000), model, inputs))
        self.running += 1
        second = int(loop.time())
        most = self.running_max_by_second.get(second, 0)
        self.running_max_by_second[second] = max(most, self.running)
        loop.call_later(self.service_ms / 1000, self._end, on_end)

    def _end(self, on_end):
        self.running -= 1
        on_end(self.error)


def played(sender, plan, shift=Shift.NONE):
    """Play a plan of two seconds; the player and the news."""
    news = []
    run = RunOrder(path="p", utilisation=0.5, seed=1, duration_ns=2 * NS_PER_S, shift=shift)

    async def play():
        player = Player(sender, REQUESTS, run, SETUPS["pinned"], news.append)
        await player.play(plan)
        return player

    return run_virtual(play()), news


def every(ms, count, class_index=0):
    """An arrival each so many milliseconds."""
    return [Arrival(index * ms * NS_PER_MS, class_index) for index in range(count)]


def test_requests_leave_when_they_are_due_whatever_became_of_others():
    """A server that takes a second each does not slow the sender down."""
    sender = Slow(1000)
    player, news = played(sender, [*every(100, 10), Arrival(1500 * NS_PER_MS, 1)])
    assert [(at_ms, model) for at_ms, model, _ in sender.sent] == [
        *((100 * index, "a") for index in range(10)),
        (1500, "b"),
    ]
    assert sender.sent[-1][2] == ["b's input"]
    assert sender.running == 0
    assert player.began_at_ns == 7
    assert [one.done_ratio for one in news] == sorted(one.done_ratio for one in news)


def test_slots_are_held_back_until_half_way():
    """Two at once in the first second, in the order of their turn; then all that are due."""
    sender = Slow(300)
    plan = [Arrival(index * 50 * NS_PER_MS, index % 2) for index in range(40)]
    played(sender, plan, Shift.SLOTS)
    assert sender.running_max_by_second[0] == 2
    assert sender.running_max_by_second[1] > 2
    assert [model for _, model, _ in sender.sent] == ["a", "b"] * 20


def test_failure_ends_the_recording():
    """A request that was refused would leave a gap that nobody sees."""
    sender = Slow(10, RejectedError("no", reason="x", retry_after_ns=1))
    with pytest.raises(RejectedError):
        played(sender, every(100, 3))


def test_change_is_not_made_once_all_is_over():
    """A plan that ends early leaves no timer that would start something later."""
    sender = Slow(10)
    started = []
    run = RunOrder(path="p", utilisation=0.5, seed=1, duration_ns=2 * NS_PER_S)

    async def play():
        player = Player(sender, REQUESTS, run, SETUPS["pinned"], lambda _: None)
        player._turn = started.append
        await player.play(every(10, 3))
        await asyncio.sleep(5)

    run_virtual(play())
    assert started == []
