"""Streams of requests, and several of them merged into one workload.

Knows what is asked for and when. Sends nothing, and holds one arrival a stream at a time.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from random import Random
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from headway.core import ModelName, TenantId, TierName
from headway.workload.arrivals import Arrivals
from headway.workload.rows import FixedRows, Rows

__all__ = ["Arrival", "Stream", "Workload"]


class Arrival(Struct, frozen=True, gc=False):
    """One request that is due to be sent."""

    at_ns: int
    """From the start of the workload."""
    stream: int
    """Index of the stream it belongs to."""
    model: ModelName
    tier: TierName
    tenant: TenantId
    rows: int
    budget_ns: int | None
    """None leaves it to the tier."""
    priority: int | None
    """Lower is served first; None leaves it to the tier."""


class Stream(Struct, frozen=True, kw_only=True):
    """Requests of one kind from one source.

    Raises:
        ValueError: a budget of nothing, or a stop that is not after the start.
    """

    model: ModelName
    tier: TierName
    arrivals: Arrivals
    tenant: TenantId = TenantId("default")
    rows: Rows = FixedRows()
    budget_ns: int | None = None
    """Overrides the tier's."""
    priority: int | None = None
    """Overrides the tier's."""
    start_at_ns: int = 0
    """When its first request may come; its arrival process begins there."""
    stop_at_ns: int | None = None
    """No request at or after this; None is the end of the workload."""

    def __post_init__(self) -> None:
        if self.budget_ns is not None and self.budget_ns <= 0:
            raise ValueError(f"a budget must be above 0, not {self.budget_ns} ns")
        if self.stop_at_ns is not None and self.stop_at_ns <= self.start_at_ns:
            raise ValueError(f"it stops at {self.stop_at_ns} ns, not after {self.start_at_ns} ns")

    def scaled(self, ratio: float) -> Self:
        """The same stream at `ratio` times the rate."""
        return replace(self, arrivals=self.arrivals.scaled(ratio))

    def play(self, index: int, seed: int, duration_ns: int) -> Iterator[Arrival]:
        """Its arrivals in order, numbered as stream `index`.

        Each stream and each purpose has a chance of its own: another stream, or rows drawn another
        way, changes nothing else.
        """
        stop_at_ns = duration_ns if self.stop_at_ns is None else min(self.stop_at_ns, duration_ns)
        model, tier, tenant = self.model, self.tier, self.tenant
        budget_ns, priority, start_at_ns = self.budget_ns, self.priority, self.start_at_ns
        rows = self.rows.draws(Random(f"{seed}/rows/{index}"))
        for offset_ns in self.arrivals.instants(Random(f"{seed}/arrivals/{index}")):
            at_ns = start_at_ns + offset_ns
            if at_ns >= stop_at_ns:
                return
            yield Arrival(at_ns, index, model, tier, tenant, next(rows), budget_ns, priority)


class Workload(Struct, frozen=True, kw_only=True):
    """Several streams for a while; the same seed is the same workload, everywhere.

    Cost: O(log streams) an arrival, in constant memory.

    Raises:
        ValueError: no streams, or no duration.
    """

    streams: tuple[Stream, ...]
    duration_ns: int
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.streams:
            raise ValueError("a workload needs a stream")
        if self.duration_ns <= 0:
            raise ValueError(f"a workload must last, not {self.duration_ns} ns")

    @property
    def rate_rps(self) -> float:
        """Requests a second in the long run, were every stream to send all the time."""
        return sum(stream.arrivals.rate_rps for stream in self.streams)

    def arrivals(self) -> Iterator[Arrival]:
        """Every arrival in time order; at one instant, by index of the stream."""
        players = [
            stream.play(index, self.seed, self.duration_ns)
            for index, stream in enumerate(self.streams)
        ]
        if len(players) == 1:
            return players[0]
        return _merge(players)

    def count(self) -> int:
        """How many arrivals there are, found by counting them."""
        return sum(1 for _ in self.arrivals())

    def scaled(self, ratio: float) -> Self:
        """The same mix at `ratio` times the rate."""
        return replace(self, streams=tuple(stream.scaled(ratio) for stream in self.streams))


def _merge(players: list[Iterator[Arrival]]) -> Iterator[Arrival]:
    """By instant, then by stream; no two heads share a stream, so arrivals are never compared."""
    heads = [
        (first.at_ns, index, first)
        for index, player in enumerate(players)
        if (first := next(player, None)) is not None
    ]
    heapify(heads)
    while heads:
        _, index, arrival = heads[0]
        yield arrival
        later = next(players[index], None)
        if later is None:
            heappop(heads)
        else:
            heapreplace(heads, (later.at_ns, index, later))
