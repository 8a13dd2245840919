"""Who asks: arrivals that do not wait for answers, every one accounted for.

Requests come as they come, in a Poisson stream, whatever became of the earlier ones. Each ends in
one word: how it was answered, or that it was not. Those that are due to leave before their answer
do so here, too; they ask in a tier of their own, so that the others' counts can be exact.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

import grpc
import grpc.aio

from headway.errors import DeadlineExceededError, RejectedError, WorkerLostError
from headway.frontends.oip_messages import INFERENCE
from soaking.asks import (
    FICKLE,
    HIGH,
    LOW,
    Ask,
    draw,
    grpc_message,
    http_request,
    is_right,
    is_right_message,
)
from soaking.figures import percentile
from soaking.wire import HttpPool

__all__ = ["Crowd", "Tally"]

VANISH_RATIO: Final = 0.05
"""Of all arrivals, in addition: clients that leave."""
PATIENCE_S: Final = 30.0
"""An answer that takes longer is none: budgets are far shorter."""
CALL: Final = f"/{INFERENCE.service}/ModelInfer"

_OUTCOMES: Final = {
    RejectedError.code: "rejected",
    DeadlineExceededError.code: "expired",
    WorkerLostError.code: "failed",
}


@dataclass(slots=True)
class Tally:
    """What clients saw in a part of the run."""

    sent: int = 0
    vanished: int = 0
    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(tier, outcome) -> requests."""
    latencies_ms: dict[str, list[float]] = field(default_factory=lambda: {HIGH: [], LOW: []})
    """Of completed requests, by tier."""

    def of(self, outcome: str) -> int:
        """Requests of all tiers that ended so."""
        return sum(count for (_, ended), count in self.ends.items() if ended == outcome)

    def p_ms(self, tier: str, ratio: float) -> float:
        """A percentile of the latency."""
        return round(percentile(self.latencies_ms[tier], ratio), 2)


class Crowd:
    """Clients over both interfaces.

    Args:
        port: of HTTP.
        grpc_port: of gRPC.
        seed: of all chance.
    """

    def __init__(self, port: int, grpc_port: int, seed: int) -> None:
        self._port = port
        self._pool = HttpPool(port)
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{grpc_port}")
        self._call = self._channel.unary_unary(CALL)
        self._chance = Random(f"{seed}/crowd")
        self._number = 0
        self.now = Tally()
        self.parts: list[Tally] = []
        self.oddities: list[str] = []
        """What was lost or wrong, in words; the first of them."""

    @property
    def extra(self) -> int:
        """Answers that nobody waited for."""
        return self._pool.extra

    def end_part(self) -> Tally:
        """Close the books of a part."""
        ended, self.now = self.now, Tally()
        self.parts.append(ended)
        return ended

    async def capacity_rps(self, seconds: float, clients: int) -> float:
        """How many are completed in a second, each client asking again when it is answered."""
        ends_at_s = time.monotonic() + seconds

        async def keep_asking() -> None:
            while time.monotonic() < ends_at_s:
                await self._ask(self._next())

        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(keep_asking())
        return self.now.of("completed") / seconds

    async def arrive(self, rate_rps: float, until_s: float) -> None:
        """Come at a rate until an instant of the monotonic clock, then await what is due."""
        chance, at_s = self._chance, time.monotonic()
        async with asyncio.TaskGroup() as group:
            while at_s < until_s:
                at_s += chance.expovariate(rate_rps)
                wait_s = at_s - time.monotonic()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
                group.create_task(self._ask(self._next()))
                if chance.random() < VANISH_RATIO:
                    group.create_task(self._vanish(self._next(FICKLE), chance.random() * 0.04))

    async def close(self) -> None:
        """End all connections."""
        await self._pool.close()
        await self._channel.close()

    def _next(self, tier: str | None = None) -> Ask:
        self._number += 1
        return draw(self._chance, self._number, tier=tier)

    async def _ask(self, ask: Ask) -> None:
        """One request to its one end."""
        tally = self.now
        tally.sent += 1
        began_s = time.perf_counter()
        try:
            async with asyncio.timeout(PATIENCE_S):
                end = await (self._over_grpc(ask) if ask.form == "grpc" else self._over_http(ask))
        except (OSError, TimeoutError) as error:
            end = "lost"
            self._note(f"{ask}: {error!r}")
        tally.ends[ask.tier, end] += 1
        if end == "completed":
            tally.latencies_ms[ask.tier].append((time.perf_counter() - began_s) * 1e3)

    async def _over_http(self, ask: Ask) -> str:
        response = await self._pool.ask(http_request(ask))
        if response.status == 200:
            return self._judged(ask, is_right(ask, response.headers, response.body))
        code = json.loads(response.body)["code"]
        return _OUTCOMES.get(code, code)

    async def _over_grpc(self, ask: Ask) -> str:
        metadata = (("headway-tier", ask.tier),)
        try:
            body = await self._call(grpc_message(ask), metadata=metadata)
        except grpc.aio.AioRpcError as error:
            code = dict(error.trailing_metadata() or ()).get("headway-code")
            if code is None:
                raise ConnectionError(f"{error.code().name}: {error.details()}") from None
            return _OUTCOMES.get(str(code), str(code))
        return self._judged(ask, is_right_message(ask, body))

    def _judged(self, ask: Ask, is_own: bool) -> str:
        if is_own:
            return "completed"
        self._note(f"{ask}: an answer that is not its own")
        return "wrong"

    async def _vanish(self, ask: Ask, after_s: float) -> None:
        """Ask, and be gone before the answer, mostly."""
        self.now.vanished += 1
        try:
            if ask.form == "grpc":
                call = self._call(grpc_message(ask), metadata=(("headway-tier", ask.tier),))
                await asyncio.sleep(after_s)
                call.cancel()
                return
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(http_request(ask))
            await asyncio.sleep(after_s)
            writer.transport.abort()
        except OSError as error:
            self._note(f"vanishing: {error!r}")

    def _note(self, what: str) -> None:
        if len(self.oddities) < 100:
            self.oddities.append(what)


def account(parts: Sequence[Tally]) -> Counter[tuple[str, str]]:
    """(tier, outcome) -> requests, over all parts."""
    return sum((part.ends for part in parts), start=Counter())
