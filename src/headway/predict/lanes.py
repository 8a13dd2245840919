"""Rolling a device forward: batches share lanes, what waits fills slots that free, some is to come.

A running batch i has solo work W_i left, and progress per elapsed time of

    dW_i/dt = e(n, m) · w_i / Σ_lane w

where w is the weight of its class on its lane, and e(n, m) the learnt efficiency of a lane that
holds n batches while m other lanes are busy. Between starts and ends these are constant, so the
forecast is a short loop over ends, and gives every batch of the device at once.

What waits, and what is expected to arrive, is a fluid: a `Pot` holds solo work P in pieces of mean
size E, gains λE and loses what the slots it occupies get done. It occupies P/E slots, the emptiest
lanes first, never more than are free; a fraction of a slot mixes the rates with and without.
A fluid has no order of service, so no anomaly of list scheduling: more work in a pot, or one more
batch on a lane, slows everyone or no one. That is why waiting batches are not placed one by one.

Knows lanes by index and works by number. Refuses to know models, devices and clocks.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

__all__ = ["MATES_MAX", "OTHERS_MAX", "Efficiency", "Load", "Pot", "Rolling", "roll"]

MATES_MAX: Final = 4
"""Batches on one lane beyond which efficiency is taken to stay the same."""
OTHERS_MAX: Final = 7
"""Other busy lanes likewise."""
_FLUID_STEPS_MAX: Final = 12
"""Steps that follow a pot's level; beyond them only ends of batches are followed."""
_PIECES_A_STEP: Final = 0.75
"""A pot's level may move by this many pieces before the rates are looked at again..."""
_SLOTS_A_STEP: Final = 0.25
"""...or by this part of all slots, if that is more."""
_FOLLOWED_MAX: Final = 8
"""Loads up to which every end is a step of its own."""
_LUMP_RATIO: Final = 0.4
"""With more, a step is at least this part of the time that has passed."""
_PENDING_MIN: Final = 1e-3
"""Pieces, and parts of a slot, that are as good as none."""
_NEVER_NS: Final = 1e18

Efficiency = Sequence[Sequence[float]]
"""e(n, m): row m up to `OTHERS_MAX`, column n from 1 to `MATES_MAX`; never rises along either."""


class Load(NamedTuple):
    """A batch that runs, or is about to."""

    lane: int
    weight: float
    work_ns: float
    """Solo work left; positive."""


class Pot(NamedTuple):
    """Work of one weight that takes the slots which nobody else holds."""

    weight: float
    work_ns: float
    """Solo work that waits."""
    piece_ns: float
    """Mean solo work of a batch of it; positive."""
    work_rate: float
    """Solo work that arrives, per elapsed time."""


def roll(
    loads: Sequence[Load], slots: Sequence[int], pots: Sequence[Pot], efficiency: Efficiency
) -> list[float]:
    """Elapsed time until each load ends, in the order given.

    Args:
        loads: what runs; more on a lane than it has slots is taken as it is.
        slots: of each lane.
        pots: what takes free slots, the most important first.
        efficiency: e(n, m).

    Cost: O((loads + fluid steps) · lanes).
    """
    lump_ratio = _LUMP_RATIO if len(loads) > _FOLLOWED_MAX else 0.0
    rolling = Rolling(slots, pots, efficiency, lump_ratio)
    for load in loads:
        rolling.join(load.lane, load)
    while rolling.left:
        rolling.step()
    return rolling.ends


class Rolling:
    """A device that is rolled forward, step by step.

    Args:
        slots: of each lane.
        pots: what takes free slots, the most important first.
        efficiency: e(n, m).
        lump_ratio: a step is at least this part of the time that has passed; ends within it are
            told apart, but the lane is emptied of them only then.

    Progress is counted in work per weight, which is the same for all batches of a lane, so a lane's
    batches end in the order of (progress at the start + work / weight).

    Invariants: `at_ns` never falls; `counts` and `weights` are those of the queues.
    """

    __slots__ = (
        "_drains",
        "_efficiency",
        "_fluid_steps",
        "_lump_ratio",
        "_pieces_a_step",
        "_progress",
        "_queues",
        "_rates",
        "_weights",
        "at_ns",
        "counts",
        "ends",
        "left",
        "levels",
        "pots",
        "slots",
    )

    def __init__(
        self,
        slots: Sequence[int],
        pots: Sequence[Pot],
        efficiency: Efficiency,
        lump_ratio: float = 0.0,
    ) -> None:
        self.slots = slots
        self.pots = pots
        self.levels = [pot.work_ns for pot in pots]
        """What each pot holds now."""
        self.counts = [0] * len(slots)
        self.ends: list[float] = []
        """Of everything that joined, in that order; 0 while it runs."""
        self.left = 0
        """Of them that run."""
        self.at_ns = 0.0
        self._efficiency = efficiency
        self._weights = [0.0] * len(slots)
        self._progress = [0.0] * len(slots)
        self._rates = [0.0] * len(slots)
        self._drains = [0.0] * len(pots)
        self._queues: list[list[tuple[float, float, int]]] = [[] for _ in slots]
        self._fluid_steps = 0
        self._lump_ratio = lump_ratio
        self._pieces_a_step = max(_PIECES_A_STEP, _SLOTS_A_STEP * sum(slots))

    def join(self, lane: int, load: Load) -> None:
        """A load starts now on a lane, whichever it names itself."""
        queue = self._queues[lane]
        target = self._progress[lane] + load.work_ns / load.weight
        queue.append((target, load.weight, len(self.ends)))
        queue.sort(reverse=True)
        self.ends.append(0.0)
        self.counts[lane] += 1
        self._weights[lane] += load.weight
        self.left += 1

    def step(self, active: int | None = None) -> None:
        """On to the next end, or to where a pot's level has moved far.

        Args:
            active: how many of the pots take slots; all of them by default. The others fill up.
        """
        pots = self.pots if active is None else self.pots[:active]
        if len(pots) == 1:
            self._mix_one(pots[0])
        else:
            self._mix_all(pots)
        span_ns = _NEVER_NS
        rates, progress = self._rates, self._progress
        for lane, queue in enumerate(self._queues):
            if queue:
                lane_ns = (queue[-1][0] - progress[lane]) / rates[lane]
                span_ns = min(span_ns, lane_ns)
        span_ns = max(span_ns, self._lump_ratio * self.at_ns)
        if pots and (self._fluid_steps < _FLUID_STEPS_MAX or span_ns == _NEVER_NS):
            span_ns = self._shorten(span_ns, len(pots))
        self._move(max(0.0, span_ns))

    def _move(self, span_ns: float) -> None:
        """Progress everywhere; whoever has reached its end has ended."""
        self.at_ns += span_ns
        levels = self.levels
        for index, pot in enumerate(self.pots):
            level = levels[index] + (pot.work_rate - self._drains[index]) * span_ns
            levels[index] = max(0.0, level)
        for lane, queue in enumerate(self._queues):
            if queue:
                progress = self._progress[lane] + self._rates[lane] * span_ns
                self._progress[lane] = progress
                if queue[-1][0] <= progress * (1.0 + 1e-12) + 1e-6:
                    self._end(lane, progress)

    def _end(self, lane: int, progress: float) -> None:
        """Take off who has reached its end, a little before now where ends are lumped."""
        queue, reached = self._queues[lane], progress * (1.0 + 1e-12) + 1e-6
        while queue and queue[-1][0] <= reached:
            target, weight, index = queue.pop()
            since_ns = (progress - target) / self._rates[lane]
            self.ends[index] = self.at_ns - since_ns if since_ns > 0.0 else self.at_ns
            self.counts[lane] -= 1
            self._weights[lane] -= weight
            self.left -= 1

    def _shorten(self, span_ns: float, active: int) -> float:
        """The span, or less where a pot's level would change what it takes within it."""
        for index in range(active):
            pot, level = self.pots[index], self.levels[index]
            change = pot.work_rate - self._drains[index]
            moves_ns = self._pieces_a_step * pot.piece_ns
            size = change if change > 0.0 else -change
            if size * span_ns <= moves_ns:
                continue
            spare_ns = level - self._room() * pot.piece_ns
            if spare_ns > 0.0:
                # It holds more than it can place: nothing changes before that is gone.
                moves_ns = _NEVER_NS if change > 0.0 else max(moves_ns, spare_ns)
            elif change < 0.0:
                moves_ns = min(moves_ns, max(level, 0.1 * pot.piece_ns))
            if moves_ns < size * span_ns:
                self._fluid_steps += 1
                span_ns = moves_ns / size
        return span_ns

    def _room(self) -> int:
        """Free slots."""
        return sum([s - c for s, c in zip(self.slots, self.counts, strict=True) if s > c])

    def _mix_one(self, pot: Pot) -> None:
        """Rates and drain with a single pot."""
        counts, weights, rates = self.counts, self._weights, self._rates
        fills = _spread_one(counts, self.slots, self.levels[0] / pot.piece_ns)
        busy = -1
        for lane, count in enumerate(counts):
            if count + fills[lane] >= 0.5:
                busy += 1
        column = self._efficiency[0 if busy < 0 else min(OTHERS_MAX, busy)]
        pot_weight = pot.weight
        drain = 0.0
        for lane, count in enumerate(counts):
            fill = fills[lane]
            whole = int(fill)
            number = count + whole
            rate = lost = 0.0
            if number:
                step = column[min(MATES_MAX, number)]
                rate = step / (weights[lane] + whole * pot_weight)
                lost = whole * pot_weight * rate
            part = fill - whole
            if part > _PENDING_MIN:
                whole += 1
                step = column[number + 1 if number < MATES_MAX else MATES_MAX]
                more = step / (weights[lane] + whole * pot_weight)
                # With nobody there the part of the time without a filler passes without progress.
                lost += part * (whole * pot_weight * more - lost)
                rate += part * (more - rate)
            rates[lane] = rate
            drain += lost
        self._drains[0] = drain

    def _mix_all(self, pots: Sequence[Pot]) -> None:
        """Rates and drains with any number of pots, the first of which choose first."""
        heights = [float(count) for count in self.counts]
        fills: list[list[float]] = []
        for pot, level in zip(pots, self.levels, strict=False):
            fill = _spread(heights, self.slots, level / pot.piece_ns)
            heights = [height + more for height, more in zip(heights, fill, strict=True)]
            fills.append(fill)
        busy = sum([1 for height in heights if height >= 0.5])
        self._drains = [0.0] * len(self.pots)
        column = self._efficiency[min(max(busy - 1, 0), OTHERS_MAX)]
        for lane in range(len(heights)):
            self._rates[lane] = self._mix(lane, pots, [fill[lane] for fill in fills], column)

    def _mix(
        self, lane: int, pots: Sequence[Pot], fills: Sequence[float], column: Sequence[float]
    ) -> float:
        """Expected progress per weight, over whole numbers of fillers around each fill."""
        mixes: list[tuple[float, int, float, tuple[int, ...]]]
        mixes = [(1.0, self.counts[lane], self._weights[lane], ())]
        for pot, fill in zip(pots, fills, strict=True):
            whole = int(fill + _PENDING_MIN)
            part = fill - whole
            grown = [
                (chance, count + whole, weight + whole * pot.weight, (*before, whole))
                for chance, count, weight, before in mixes
            ]
            if part > _PENDING_MIN:
                grown = [(mix[0] * (1.0 - part), mix[1], mix[2], mix[3]) for mix in grown]
                whole += 1
                grown += [
                    (chance * part, count + whole, weight + whole * pot.weight, (*before, whole))
                    for chance, count, weight, before in mixes
                ]
            mixes = grown
        rate = 0.0
        for chance, count, weight, holding in mixes:
            if count:
                each = chance * column[min(MATES_MAX, count)] / weight
                rate += each
                for index, held in enumerate(holding):
                    if held:
                        self._drains[index] += held * pots[index].weight * each
        return rate


def _spread_one(counts: Sequence[int], slots: Sequence[int], pending: float) -> list[float]:
    """Pieces on free slots, one level of the lanes after the other, the emptiest first."""
    fills = [0.0] * len(counts)
    level = min(counts)
    while pending > _PENDING_MIN:
        rising = [
            lane for lane, count in enumerate(counts) if count <= level and slots[lane] > level
        ]
        if rising:
            each = pending / len(rising)
            each = min(each, 1.0)
            for lane in rising:
                fills[lane] += each
            pending -= each * len(rising)
        elif level >= max(slots):
            break
        level += 1
    return fills


def _spread(heights: Sequence[float], slots: Sequence[int], pending: float) -> list[float]:
    """The same over lanes that are filled by fractions."""
    rooms = [limit - height for height, limit in zip(heights, slots, strict=True)]
    fills = [0.0] * len(rooms)
    if pending < _PENDING_MIN:
        return fills
    if pending >= sum([room for room in rooms if room > 0.0]):
        return [max(0.0, room) for room in rooms]
    open_ = sorted([(heights[lane], lane) for lane, room in enumerate(rooms) if room > 0.0])
    edges = sorted({height for height, _ in open_} | {float(slots[lane]) for _, lane in open_})
    for level, edge in pairwise(edges):
        rising = [lane for height, lane in open_ if height <= level and slots[lane] > level]
        if not rising:
            continue
        each = min(edge - level, pending / len(rising))
        for lane in rising:
            fills[lane] += each
        pending -= each * len(rising)
        if pending <= _PENDING_MIN:
            break
    return fills
