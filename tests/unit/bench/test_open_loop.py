"""Sending the requests of a mix, in virtual time."""

import asyncio

import pytest

from headway.bench.inputs import ClassRequests
from headway.bench.mix import TrafficClass
from headway.bench.open_loop import OpenLoop
from headway.bench.plan import Arrival
from headway.errors import InvalidRequestError, RejectedError
from headway.testing import run_virtual
from headway.units import NS_PER_MS

REQUESTS = [ClassRequests(TrafficClass(n, n, 1, 0.5), [[f"{n}'s input"]]) for n in ("a", "b")]
BORN_AT_NS = 7_000


class Slow:
    """Takes everything and ends each after as long, with an error where there is one to give."""

    def __init__(self, service_ms, *, end=None, refusal=None):
        self.service_ms = service_ms
        self.end = end
        self.refusal = refusal
        self.sent = []
        self.running = 0

    def now_ns(self):
        return BORN_AT_NS + round(asyncio.get_running_loop().time() * 1e9)

    def send(self, call, on_end):
        if self.refusal is not None:
            raise self.refusal
        self.sent.append((self.now_ns() - BORN_AT_NS, call))
        self.running += 1
        asyncio.get_running_loop().call_later(self.service_ms / 1000, self._end, on_end)

    def _end(self, on_end):
        self.running -= 1
        on_end(self.end)


def played(sender, plan):
    """Play a plan; what was told."""
    told = []
    loop = OpenLoop(sender, REQUESTS, ["high-0", "low"], [20 * NS_PER_MS, 90 * NS_PER_MS], seed=1)
    run_virtual(loop.play(plan, told.append))
    return told


def test_requests_leave_when_they_are_due_with_what_their_class_is_granted():
    """Whatever became of those before; they count as arrived when they were due."""
    sender = Slow(1000)
    told = played(sender, [Arrival(10 * NS_PER_MS, 0), Arrival(30 * NS_PER_MS, 1)])
    assert [(at_ns, call.model, call.tier, call.budget_ns) for at_ns, call in sender.sent] == [
        (10 * NS_PER_MS, "a", "high-0", 20 * NS_PER_MS),
        (30 * NS_PER_MS, "b", "low", 90 * NS_PER_MS),
    ]
    assert [call.arrived_at_ns - BORN_AT_NS for _, call in sender.sent] == [
        10 * NS_PER_MS,
        30 * NS_PER_MS,
    ]
    assert told == [0.0, 0.5]


def test_all_have_ended_when_it_is_over():
    """Also those that end after the last was sent, however they end."""
    sender = Slow(500, end=RejectedError("no", reason="displaced", retry_after_ns=1))
    played(sender, [Arrival(index * NS_PER_MS, 0) for index in range(5)])
    assert sender.running == 0
    assert len(sender.sent) == 5


def test_request_that_no_engine_takes_ends_the_run():
    """It would be a mistake of the benchmark, not the fate of a request."""
    with pytest.raises(InvalidRequestError):
        played(Slow(1, refusal=InvalidRequestError("no")), [Arrival(0, 0)])
