"""Sends the requests of a mix when they are due, whatever became of those before.

Knows a loop and whatever takes calls. Never what is made of their ends.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from headway.bench.inputs import ClassRequests
from headway.bench.plan import Arrival
from headway.core import ModelName, TierName
from headway.errors import HeadwayError, RequestError
from headway.runtime import InferCall, InferReply, OnEnd
from headway.units import NS_PER_S

__all__ = ["CallSender", "OpenLoop"]

_NEWS_PER_RUN = 20


class CallSender(Protocol):
    """What takes calls, such as a `Rig`."""

    def now_ns(self) -> int:
        """Nanoseconds on the engine's clock."""

    def send(self, call: InferCall, on_end: OnEnd) -> None:
        """Send one call; see `Engine.submit`."""


class OpenLoop:
    """Plays a plan, each request under its class's tier and budget.

    A request counts as arrived when it was due: what the sender is late is part of its latency,
    for its client would have waited for that too.

    Invariants: every request of the plan is sent once, and has ended when `play` returns.
    """

    def __init__(
        self,
        sender: CallSender,
        requests: Sequence[ClassRequests],
        tiers: Sequence[str],
        budgets_ns: Sequence[int],
        *,
        seed: int,
    ) -> None:
        self._sender = sender
        self._requests = requests
        self._tiers = [TierName(name) for name in tiers]
        self._budgets_ns = budgets_ns
        self._chance = Random(f"{seed}/requests")
        self._running = 0
        self._idle = asyncio.Event()

    async def play(
        self, plan: Sequence[Arrival], tell: Callable[[float], None] = lambda _: None
    ) -> None:
        """Send every request when it is due, and wait until all have ended.

        Args:
            plan: in order; classes by their index.
            tell: is told from time to time which part was sent.
        """
        loop = asyncio.get_running_loop()
        began_at_ns, began_at_s = self._sender.now_ns(), loop.time()
        step = max(1, len(plan) // _NEWS_PER_RUN)
        for index, arrival in enumerate(plan):
            await asyncio.sleep(began_at_s + arrival.at_ns / NS_PER_S - loop.time())
            self._send(arrival, began_at_ns + arrival.at_ns)
            if index % step == 0:
                tell(index / len(plan))
        while self._running:
            self._idle.clear()
            await self._idle.wait()

    def _send(self, arrival: Arrival, due_at_ns: int) -> None:
        kind = self._requests[arrival.class_index]
        call = InferCall(
            model=ModelName(kind.traffic.model),
            inputs=self._chance.choice(kind.inputs),
            arrived_at_ns=due_at_ns,
            tier=self._tiers[arrival.class_index],
            budget_ns=self._budgets_ns[arrival.class_index],
        )
        self._running += 1
        try:
            self._sender.send(call, self._on_end)
        except RequestError:
            self._running -= 1
            raise

    def _on_end(self, end: InferReply | HeadwayError) -> None:
        self._running -= 1
        if not self._running:
            self._idle.set()
