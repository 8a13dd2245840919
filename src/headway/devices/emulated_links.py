"""How an emulated machine moves bytes: the law of its buses, written to differ from any predictor.

Knows copies, chunks, engines and links. Refuses to know batches, and what anybody expects of it.

A predictor divides a link's rated capacity exactly and evenly. Here a link loses capacity with each
further copy on it and with traffic the other way, small copies never reach its rate, the arbiter
prefers some copies to others by chance, each copy has a pace of its own, and there is a gap between
chunks. How much of each is in the accelerator's file; with all of it 0 the even division is left.
"""

from collections.abc import Mapping
from math import inf
from random import Random
from typing import Final

from msgspec import Struct

from headway.core import DeviceName
from headway.predict import Direction, LinkTree

__all__ = ["BusLaw", "Buses", "Move"]

_EPSILON_NS: Final = 1e-3


class BusLaw(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What buses do beyond dividing their rated capacity; all of it may be 0."""

    crowd_loss_ratio: float = 0.0
    """A link with n copies has its capacity over ``1 + this * (n - 1)``."""
    duplex_loss_ratio: float = 0.0
    """Part of a link's capacity that traffic the other way costs."""
    ramp_bytes: float = 0.0
    """A copy of this size reaches half of the rate; one of s bytes ``s / (s + this)`` of it."""
    chunk_gap_ns: float = 0.0
    """Pause before each further chunk of a copy."""
    arbiter_sigma: float = 0.0
    """Of the log-normal weight that a copy has when a link is divided."""
    pace_sigma: float = 0.0
    """Of the log-normal factor on a copy's own rate."""
    launch_sigma: float = 0.0
    """Of the log-normal factor on a copy's launch."""


class Move:
    """One copy on its way; its chance was drawn when it started."""

    __slots__ = (
        "chunk_left_bytes",
        "device",
        "direction",
        "key",
        "left_bytes",
        "pace",
        "priority",
        "ramp",
        "seq",
        "wait_ns",
        "weight",
    )

    def __init__(
        self, key: int, device: DeviceName, direction: Direction, size_bytes: int, priority: int
    ) -> None:
        self.key = key
        self.device = device
        self.direction = direction
        self.priority = priority
        self.left_bytes = float(size_bytes)
        self.chunk_left_bytes = 0.0
        self.wait_ns = 0.0
        """Launch or gap, before the next byte."""
        self.weight = 1.0
        self.pace = 1.0
        self.ramp = 1.0
        self.seq = 0

    def fork(self) -> "Move":
        """The same copy, to be moved on its own."""
        move = Move.__new__(Move)
        for name in Move.__slots__:
            setattr(move, name, getattr(self, name))
        return move


class Buses:
    """All copies of a machine.

    Invariants: a link never carries more than its rated capacity; an engine sends one chunk at a
    time, of the most important copy, the oldest among equals. The same seed and calls give the
    same times.
    """

    def __init__(
        self,
        tree: LinkTree,
        law: BusLaw,
        chance: Random,
        queues: Mapping[tuple[DeviceName, Direction], list[Move]] | None = None,
    ) -> None:
        self._tree = tree
        self._law = law
        self._chance = chance
        self._paths = {device: tree.path(device) for device in tree.devices}
        self._queues = (
            {} if queues is None else {e: [m.fork() for m in q] for e, q in queues.items() if q}
        )
        self._seq = max((move.seq for queue in self._queues.values() for move in queue), default=0)
        self._rates: dict[int, float] | None = None
        """Of the copies that flow, until one begins or ends to."""

    @property
    def chance(self) -> Random:
        """What copies draw from when they are made."""
        return self._chance

    def fork(self, chance: Random | None = None) -> "Buses":
        """The same state, to be moved on its own; without its own chance it makes no copies."""
        return Buses(self._tree, self._law, chance or self._chance, self._queues)

    def move(
        self, key: int, device: DeviceName, direction: Direction, size_bytes: int, priority: int
    ) -> Move:
        """A copy that will be made, with its chance drawn.

        Raises:
            KeyError: the tree has no such device.
        """
        law, draw = self._law, self._chance.lognormvariate
        if device not in self._paths:
            raise KeyError(f"there is no device `{device}` on this machine")
        move = Move(key, device, direction, max(1, size_bytes), priority)
        move.weight = draw(0.0, law.arbiter_sigma)
        move.pace = min(1.0, draw(0.0, law.pace_sigma))
        move.ramp = move.left_bytes / (move.left_bytes + law.ramp_bytes) if law.ramp_bytes else 1.0
        move.wait_ns = self._tree.launch_ns * draw(0.0, law.launch_sigma)
        move.chunk_left_bytes = min(move.left_bytes, self._tree.chunk_bytes)
        return move

    def add(self, move: Move) -> None:
        """A copy is handed to its engine."""
        self._rates = None
        self._seq += 1
        move.seq = self._seq
        queue = self._queues.setdefault((move.device, move.direction), [])
        # The head's chunk is on the wire: whoever comes waits for its end.
        queue[1:] = sorted([*queue[1:], move], key=lambda m: (m.priority, m.seq))

    def remove(self, key: int) -> None:
        """A copy is called off; unknown ones are ignored."""
        self._rates = None
        for queue in self._queues.values():
            queue[:] = [move for move in queue if move.key != key]

    def next_ns(self) -> float:
        """How long until something changes if nothing is added; infinite when all is still."""
        soonest = inf
        rates = self.rates()
        for queue in self._queues.values():
            if queue:
                move = queue[0]
                if move.wait_ns > 0:
                    soonest = min(soonest, move.wait_ns)
                else:
                    soonest = min(soonest, move.chunk_left_bytes / rates[move.key])
        return soonest

    def advance(self, duration_ns: float) -> list[int]:
        """Let time pass, no more than `next_ns`; the keys of copies that ended."""
        rates = self.rates()
        ended: list[int] = []
        for queue in self._queues.values():
            if not queue:
                continue
            move = queue[0]
            if move.wait_ns > 0:
                move.wait_ns = max(0.0, move.wait_ns - duration_ns)
                if move.wait_ns < _EPSILON_NS:
                    move.wait_ns = 0.0
                    self._rates = None
                continue
            sent = rates[move.key] * duration_ns
            move.left_bytes -= sent
            move.chunk_left_bytes -= sent
            if move.chunk_left_bytes <= rates[move.key] * _EPSILON_NS:
                self._end_chunk(queue, ended)
        return ended

    def rates(self) -> dict[int, float]:
        """Bytes per nanosecond of every copy whose bytes flow now, by key."""
        if self._rates is None:
            self._rates = self._divide()
        return self._rates

    def _divide(self) -> dict[int, float]:
        """Weighted filling: every rate rises in proportion to its weight until a link is full."""
        flowing = [q[0] for q in self._queues.values() if q and q[0].wait_ns <= 0]
        capacities = self._capacities(flowing)
        rates: dict[int, float] = {}
        rising = {move.key: move for move in flowing}
        while rising:
            level = min(self._level(limit, rising, capacities) for limit in capacities)
            full = [c for c in capacities if self._level(c, rising, capacities) <= level * 1.000001]
            done = [m for m in rising.values() if any(c in full for c in self._limits(m))]
            for move in done:
                del rising[move.key]
                share = level * move.weight
                rates[move.key] = share * move.pace * move.ramp
                for limit in self._limits(move):
                    capacities[limit] = max(0.0, capacities[limit] - share)
        return rates

    def _level(
        self,
        limit: tuple[str, str],
        rising: Mapping[int, Move],
        capacities: Mapping[tuple[str, str], float],
    ) -> float:
        """How far the weights of those that still rise could rise under one limit."""
        weight = sum(m.weight for m in rising.values() if limit in self._limits(m))
        return capacities[limit] / weight if weight else inf

    def _limits(self, move: Move) -> list[tuple[str, str]]:
        limits = []
        for link in self._paths[move.device]:
            limits.append((link.name, str(move.direction)))
            if link.both_bytes_per_s:
                limits.append((link.name, "both"))
        return limits

    def _capacities(self, flowing: list[Move]) -> dict[tuple[str, str], float]:
        """What is left of each link in use after crowding and traffic the other way."""
        law = self._law
        counts: dict[tuple[str, str], int] = {}
        rated: dict[tuple[str, str], float] = {}
        for move in flowing:
            for link in self._paths[move.device]:
                is_in = move.direction is Direction.IN
                key = (link.name, str(move.direction))
                rated[key] = link.in_bytes_per_s if is_in else link.out_bytes_per_s
                counts[key] = counts.get(key, 0) + 1
                if link.both_bytes_per_s:
                    both = (link.name, "both")
                    rated[both] = link.both_bytes_per_s
                    counts[both] = counts.get(both, 0) + 1
        capacities: dict[tuple[str, str], float] = {}
        for (name, kind), rate in rated.items():
            crowd = 1 + law.crowd_loss_ratio * (counts[name, kind] - 1)
            against = {"in": "out", "out": "in"}.get(kind, "")
            duplex = 1 - law.duplex_loss_ratio if (name, against) in counts else 1.0
            capacities[name, kind] = rate / 1e9 / crowd * duplex
        return capacities

    def _end_chunk(self, queue: list[Move], ended: list[int]) -> None:
        move = queue[0]
        self._rates = None
        if move.left_bytes <= 1e-3:
            queue.pop(0)
            ended.append(move.key)
            return
        move.chunk_left_bytes = min(move.left_bytes, self._tree.chunk_bytes)
        move.wait_ns = self._law.chunk_gap_ns
        queue.sort(key=lambda m: (m.priority, m.seq))
