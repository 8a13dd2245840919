"""Sends each request of a workload when it is due, whatever became of the ones before.

Knows a clock, a way to send and limits. Never HTTP: `rest` is one way to send.

The load is open: the schedule never waits for the server. A request whose turn came while the
sender was busy leaves late, but its latency counts from when it was due, see `Sample`. What would
break this is a bound on how many are under way; there has to be one, so a request that meets it is
not delayed but given up, and stands in the result as `unsent`: a violation that everyone can see.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic_ns
from typing import Protocol

from msgspec import Struct

from headway.core import TierName
from headway.loadgen.bodies import BodySource
from headway.loadgen.wire import Answer, Body
from headway.units import NS_PER_MS, NS_PER_S
from headway.workload import Arrival, Outcome, Sample, Workload

__all__ = [
    "Clock",
    "LoadLimits",
    "LoadRun",
    "MonotonicClock",
    "OnProgress",
    "Progress",
    "Send",
    "TierProgress",
    "play",
]

Send = Callable[[Arrival, Body], Awaitable[Answer]]
"""Sends one request and waits for its answer; a lost connection is an answer too."""


class Clock(Protocol):
    """Time, counted from when the clock was made."""

    def now_ns(self) -> int:
        """Never decreases."""

    async def sleep_until(self, at_ns: int) -> None:
        """Let others run until then; an instant that has passed lets them run once."""


class MonotonicClock:
    """Real time."""

    def __init__(self) -> None:
        self._origin_ns = monotonic_ns()

    def now_ns(self) -> int:
        """See `Clock`."""
        return monotonic_ns() - self._origin_ns

    async def sleep_until(self, at_ns: int) -> None:
        """See `Clock`."""
        await asyncio.sleep(max(0, at_ns - self.now_ns()) / NS_PER_S)


class LoadLimits(Struct, frozen=True, kw_only=True):
    """What bounds a run."""

    requests_in_flight_max: int = 2_000
    """A request that is due while so many wait for their answers is not sent."""
    drain_ns: int = 10 * NS_PER_S
    """How long to wait for the last answers after the last request."""
    progress_every_ns: int = 200 * NS_PER_MS


class TierProgress(Struct, kw_only=True):
    """Counts of one tier so far."""

    done: int = 0
    violations: int = 0


class Progress(Struct, kw_only=True):
    """Where a run stands; one object that changes as it goes."""

    planned: int
    """Requests of the whole run."""
    done: int = 0
    """Requests that have ended, unsent ones included."""
    unsent: int = 0
    in_flight: int = 0
    elapsed_ns: int = 0
    tiers: dict[TierName, TierProgress] = {}


OnProgress = Callable[[Progress], None]
"""Called on the event loop while requests are due: it must return at once."""


class LoadRun(Struct, frozen=True, kw_only=True):
    """A run's result."""

    samples: list[Sample]
    """One a request, in the order in which they were due."""
    elapsed_ns: int
    """First due instant to last answer."""
    unsent: int
    """Requests that met the limit on requests in flight; all of them are violations."""


async def play(
    workload: Workload,
    bodies: BodySource,
    send: Send,
    *,
    limits: LoadLimits | None = None,
    tier_budgets_ns: dict[TierName, int] | None = None,
    clock: Clock | None = None,
    on_progress: OnProgress | None = None,
) -> LoadRun:
    """Play a workload and return one sample a request.

    Args:
        workload: what to ask for and when.
        bodies: where the bytes come from.
        send: how they travel.
        limits: None takes the defaults.
        tier_budgets_ns: judges requests that have no budget of their own; what the server says in
            its reply is the last resort, because a refusal does not say.
        clock: None starts a real one now.
        on_progress: called every `progress_every_ns` while requests are sent or answered, and once
            at the end.
    """
    limits = limits or LoadLimits()
    progress = Progress(planned=workload.count())
    clock = clock or MonotonicClock()
    player = _Player(clock, bodies, send, limits, tier_budgets_ns or {}, progress, on_progress)
    await player.play(workload)
    player.report_progress()
    samples = sorted(player.samples, key=lambda sample: (sample.intended_at_ns, sample.stream))
    return LoadRun(samples=samples, elapsed_ns=progress.elapsed_ns, unsent=progress.unsent)


class _Player:
    """One run.

    Invariants: every arrival that was due is in `_open` or has one sample, never both.
    """

    def __init__(
        self,
        clock: Clock,
        bodies: BodySource,
        send: Send,
        limits: LoadLimits,
        tier_budgets_ns: dict[TierName, int],
        progress: Progress,
        on_progress: OnProgress | None,
    ) -> None:
        self.samples: list[Sample] = []
        self._clock = clock
        self._bodies = bodies
        self._send = send
        self._limits = limits
        self._tier_budgets_ns = tier_budgets_ns
        self._progress = progress
        self._on_progress = on_progress
        self._progress_at_ns = limits.progress_every_ns
        self._open: dict[int, Arrival] = {}

    async def play(self, workload: Workload) -> None:
        """Send everything, then wait for what is still open, but not for ever."""
        try:
            async with asyncio.timeout(None) as patience, asyncio.TaskGroup() as tasks:
                await self._send_all(workload, tasks)
                now_s = asyncio.get_running_loop().time()
                patience.reschedule(now_s + self._limits.drain_ns / NS_PER_S)
        except TimeoutError:
            now_ns = self._clock.now_ns()
            for number in list(self._open):
                self._end(number, now_ns, Answer(Outcome.UNANSWERED))

    async def _send_all(self, workload: Workload, tasks: asyncio.TaskGroup) -> None:
        for number, arrival in enumerate(workload.arrivals()):
            await self._clock.sleep_until(arrival.at_ns)
            self._open[number] = arrival
            if len(self._open) > self._limits.requests_in_flight_max:
                self._progress.unsent += 1
                self._end(number, self._clock.now_ns(), Answer(Outcome.UNSENT))
            else:
                tasks.create_task(self._exchange(number, arrival))

    async def _exchange(self, number: int, arrival: Arrival) -> None:
        body = self._bodies.body(arrival)
        sent_at_ns = self._clock.now_ns()
        answer = await self._send(arrival, body)
        self._end(number, sent_at_ns, answer)

    def _end(self, number: int, sent_at_ns: int, answer: Answer) -> None:
        arrival = self._open.pop(number)
        now_ns = self._clock.now_ns()
        sample = Sample(
            stream=arrival.stream,
            model=arrival.model,
            tier=answer.tier or arrival.tier,
            tenant=arrival.tenant,
            rows=arrival.rows,
            intended_at_ns=arrival.at_ns,
            sent_at_ns=sent_at_ns,
            done_at_ns=now_ns,
            outcome=answer.outcome,
            status=answer.status,
            budget_ns=(
                arrival.budget_ns or self._tier_budgets_ns.get(arrival.tier) or answer.budget_ns
            ),
            queue_delay_ns=answer.queue_delay_ns,
            service_ns=answer.service_ns,
            batch_rows=answer.batch_rows,
            expected_ns=answer.expected_ns,
            bound_ns=answer.bound_ns,
        )
        self.samples.append(sample)
        self._count(sample, now_ns)

    def _count(self, sample: Sample, now_ns: int) -> None:
        progress = self._progress
        progress.done += 1
        tier = progress.tiers.setdefault(sample.tier, TierProgress())
        tier.done += 1
        tier.violations += sample.is_violation
        if now_ns >= self._progress_at_ns:
            self.report_progress()

    def report_progress(self) -> None:
        """Tell whoever asked how far it is."""
        now_ns = self._clock.now_ns()
        self._progress_at_ns = now_ns + self._limits.progress_every_ns
        self._progress.elapsed_ns = now_ns
        self._progress.in_flight = len(self._open)
        if self._on_progress is not None:
            self._on_progress(self._progress)
