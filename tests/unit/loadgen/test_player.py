"""Open-loop sending, with a clock and a server that do what the test says."""

import asyncio

import pytest

from headway.loadgen import Answer, Body, LoadLimits, play
from headway.units import NS_PER_MS, NS_PER_S
from headway.workload import Outcome, Recorded, Stream, Workload

BODY = Body(b"{}", 2)
STEP_NS = 100 * NS_PER_MS


class ManualClock:
    """Time that passes only when someone waits, or a test moves it."""

    def __init__(self):
        self.at_ns = 0

    def now_ns(self):
        return self.at_ns

    async def sleep_until(self, at_ns):
        for _ in range(3):  # whoever is ready goes on before time does
            await asyncio.sleep(0)
        self.at_ns = max(self.at_ns, at_ns)


class Bodies:
    """The same body every time."""

    def body(self, arrival):
        return BODY


def a_workload(count, **stream):
    """`count` requests, one every 100 ms."""
    arrivals = Recorded((STEP_NS,), NS_PER_S / STEP_NS)
    fields = {"model": "m", "tier": "live", "arrivals": arrivals} | stream
    return Workload(streams=(Stream(**fields),), duration_ns=STEP_NS * count + 1)


def run(workload, send, **more):
    """Play it on a manual clock."""
    given = {"clock": ManualClock()} | more
    return asyncio.run(play(workload, given.pop("bodies", Bodies()), send, **given))


async def at_once(arrival, body):
    """A server that takes no time."""
    return Answer(Outcome.COMPLETED, 200)


def test_every_request_is_sent_when_it_is_due():
    """With a quick server each sample is due, sent and answered at one instant."""
    result = run(a_workload(5), at_once)
    assert [s.intended_at_ns for s in result.samples] == [STEP_NS * n for n in range(1, 6)]
    assert all(sample.send_delay_ns == 0 for sample in result.samples)
    assert (result.unsent, {s.outcome for s in result.samples}) == (0, {Outcome.COMPLETED})


def test_a_stall_shows_in_every_request_due_meanwhile():
    """A server that hangs delays no sending, and its stall is in each latency, not only the first.

    A client that waited for each answer would send one request into the stall and measure it once.
    """
    clock = ManualClock()
    received, release = [], asyncio.Event()

    async def hang(arrival, body):
        received.append(clock.now_ns())
        if len(received) == 10:
            release.set()
        await release.wait()
        return Answer(Outcome.COMPLETED, 200)

    result = run(a_workload(10, budget_ns=STEP_NS), hang, clock=clock)
    last_due_at_ns = 10 * STEP_NS
    assert received == [STEP_NS * n for n in range(1, 11)]
    for sample in result.samples:
        assert sample.send_delay_ns == 0
        assert sample.latency_ns >= last_due_at_ns - sample.intended_at_ns
    assert sum(sample.is_violation for sample in result.samples) == 8


def test_a_slow_sender_counts_against_the_latency():
    """When the sender itself stalls, what was due meanwhile is late from its intended instant."""
    clock = ManualClock()

    class SlowOnce(Bodies):
        def body(self, arrival):
            if arrival.at_ns == STEP_NS:
                clock.at_ns += NS_PER_S
            return BODY

    first, second, *_ = run(a_workload(5), at_once, bodies=SlowOnce(), clock=clock).samples
    assert first.send_delay_ns >= NS_PER_S
    assert second.send_delay_ns >= NS_PER_S - STEP_NS
    assert second.latency_ns == second.send_delay_ns


def test_beyond_the_limit_a_request_is_given_up_and_counted():
    """At the limit in flight nothing waits to be sent: it is unsent, and a violation."""

    async def never(arrival, body):
        await asyncio.Event().wait()

    limits = LoadLimits(requests_in_flight_max=2, drain_ns=1)
    result = run(a_workload(5), never, limits=limits)
    outcomes = [sample.outcome for sample in result.samples]
    assert outcomes == [Outcome.UNANSWERED] * 2 + [Outcome.UNSENT] * 3
    assert result.unsent == 3
    assert all(sample.is_violation for sample in result.samples)


def test_a_budget_comes_from_the_stream_then_the_tier_then_the_reply():
    """What the client asked for judges first; the server's word is the last resort."""

    async def tell(arrival, body):
        return Answer(Outcome.COMPLETED, 200, budget_ns=3)

    def budget_of(workload, tiers):
        return run(workload, tell, tier_budgets_ns=tiers).samples[0].budget_ns

    assert budget_of(a_workload(1, budget_ns=1), {"live": 2}) == 1
    assert budget_of(a_workload(1), {"live": 2}) == 2
    assert budget_of(a_workload(1), {"other": 2}) == 3


def test_progress_counts_to_the_end():
    """Progress is told as it goes, and the last word has everything."""
    told = []

    def note(progress):
        told.append((progress.planned, progress.done, progress.tiers["live"].violations))

    async def refuse(arrival, body):
        return Answer(Outcome.REJECTED, 429)

    limits = LoadLimits(progress_every_ns=2 * STEP_NS)
    run(a_workload(6), refuse, limits=limits, on_progress=note)
    assert told[-1] == (6, 6, 6)
    assert len(told) >= 3


def test_a_bug_in_sending_ends_the_run():
    """An error that is no lost connection is not taken for an answer."""

    async def broken(arrival, body):
        raise KeyError("bug")

    with pytest.raises(ExceptionGroup):
        run(a_workload(1), broken)
