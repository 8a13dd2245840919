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
from math import exp
from typing import Final, NamedTuple

__all__ = ["MATES_MAX", "OTHERS_MAX", "Efficiency", "Load", "Pot", "Rolling", "roll"]

MATES_MAX: Final = 4
"""Batches on one lane beyond which efficiency is taken to stay the same."""
OTHERS_MAX: Final = 7
"""Other busy lanes likewise."""
_STEP_PIECES: Final = 0.7
"""The rates are looked at again when so much of a piece could have been done,"""
_STEP_GROWTH: Final = 2.0
"""then after a span so many times as long, for what is far off is not worth many steps."""
_FOLLOWED_MAX: Final = 8
"""Loads up to which every end is a step of its own."""
_LUMP_RATIO: Final = 0.4
"""With more, a step is at least this part of the time that has passed."""
_PENDING_MIN: Final = 1e-3
"""Pieces, and parts of a slot, that are as good as none."""
_SETTLED_RATIO: Final = 0.8
"""A pot has settled when it gains at least this part of what it loses."""
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
        "_heaviest",
        "_heavy",
        "_lump_ratio",
        "_progress",
        "_queues",
        "_rates",
        "_step_pieces",
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
        self._heaviest = pots[0].weight if pots else 0.0
        self._heavy = [0] * len(slots)
        """Of the counts, those as heavy as the first pot."""
        self._weights = [0.0] * len(slots)
        self._progress = [0.0] * len(slots)
        self._rates = [0.0] * len(slots)
        self._drains = [0.0] * len(pots)
        self._queues: list[list[tuple[float, float, int]]] = [[] for _ in slots]
        self._lump_ratio = lump_ratio
        self._step_pieces = _STEP_PIECES

    def join(self, lane: int, load: Load) -> None:
        """A load starts now on a lane, whichever it names itself."""
        queue = self._queues[lane]
        target = self._progress[lane] + load.work_ns / load.weight
        queue.append((target, load.weight, len(self.ends)))
        queue.sort(reverse=True)
        self.ends.append(0.0)
        self.counts[lane] += 1
        self._heavy[lane] += load.weight >= self._heaviest
        self._weights[lane] += load.weight
        self.left += 1

    @property
    def full_rate(self) -> float:
        """Solo work per elapsed time that is done while every slot is taken."""
        column = self._efficiency[min(OTHERS_MAX, len(self.slots) - 1)]
        return sum([column[min(MATES_MAX, slots)] for slots in self.slots])

    def hold_first(self, ratio: float) -> None:
        """The first pot gains at most this part of what full lanes get done."""
        first = self.pots[0]
        work_rate = min(first.work_rate, ratio * self.full_rate)
        self.pots = [first._replace(work_rate=work_rate), *self.pots[1:]]

    @property
    def is_settled(self) -> bool:
        """The first pot is being emptied, and hardly falls or does not."""
        return self.pots[0].work_rate >= _SETTLED_RATIO * self._drains[0] > 0.0

    def step(self, active: int | None = None) -> None:
        """On to the next end, or to where a pot's level has moved far.

        Args:
            active: how many of the pots take slots; all of them by default. The others fill up.
        """
        pots = self.pots if active is None else self.pots[:active]
        self._mix(pots)
        span_ns = _NEVER_NS
        rates, progress = self._rates, self._progress
        for lane, queue in enumerate(self._queues):
            if queue:
                lane_ns = (queue[-1][0] - progress[lane]) / rates[lane]
                if lane_ns < span_ns:  # noqa: PLR1730 - a call to min() would be most of the cost
                    span_ns = lane_ns
        span_ns = max(span_ns, self._lump_ratio * self.at_ns)
        room_ns = self._room() * pots[0].piece_ns if len(pots) == 1 else 0.0
        if pots:
            span_ns = self._shorten(span_ns, len(pots), room_ns)
        self._move(max(0.0, span_ns), room_ns)

    def _move(self, span_ns: float, room_ns: float) -> None:
        """Progress everywhere; whoever has reached its end has ended."""
        self.at_ns += span_ns
        levels, drains = self.levels, self._drains
        for index, pot in enumerate(self.pots):
            full_ns = 0.0 if index else room_ns
            levels[index] = _later(levels[index], pot.work_rate, drains[index], span_ns, full_ns)
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
            self._heavy[lane] -= weight >= self._heaviest
            self._weights[lane] -= weight
            self.left -= 1

    def _shorten(self, span_ns: float, active: int, room_ns: float) -> float:
        """The span, or less where what the pots take would change within it.

        How long a step may be depends on the pieces alone, not on what runs: two devices that
        differ by a batch are followed at the same instants, and no law is lost between them.
        """
        step_ns = self._step_pieces * min([pot.piece_ns for pot in self.pots[:active]])
        if active == 1:
            change = self.pots[0].work_rate - self._drains[0]
            spare_ns = self.levels[0] - room_ns
            if self.left and (change == 0.0 or (spare_ns >= 0.0 and change > 0.0)):
                return span_ns
            if spare_ns > 0.0 > change:
                # It holds more than it can place: nothing changes before that is gone.
                step_ns = max(spare_ns / -change, 0.25 * step_ns)
        if step_ns >= span_ns:
            return span_ns
        self._step_pieces *= _STEP_GROWTH
        return step_ns

    def _room(self) -> int:
        """Slots that the first pot may take."""
        return sum([s - c for s, c in zip(self.slots, self._heavy, strict=True) if s > c])

    def _mix(self, pots: Sequence[Pot]) -> None:
        """Rates and drains: the pots as heavy as the first choose first, the lighter after them.

        A part of a heavy filler mixes the rates with and without it; light ones hardly move the
        others and count by their parts. What is lighter than the first pot does not keep it from
        a lane, even where it holds the last slot: else one more light batch would shut heavy ones
        out, and all be the faster for it. That errs on the side of the light ones being slower.
        """
        heavy_weight = self._heaviest
        levels = self.levels
        if len(pots) == 1:
            fills = _spread_one(self._heavy, self.slots, levels[0] / pots[0].piece_ns)
            self._drains[0] = self._mix_even(fills, heavy_weight)
            return
        pending = [levels[index] / pot.piece_ns for index, pot in enumerate(pots)]
        is_heavy = [pot.weight >= heavy_weight for pot in pots]
        heavy = sum([each for each, is_so in zip(pending, is_heavy, strict=True) if is_so])
        light = sum(pending) - heavy
        fills = _spread_one(self._heavy, self.slots, heavy)
        if light < _PENDING_MIN:
            drain = self._mix_even(fills, heavy_weight)
            self._share(drain, pending, is_heavy, sum(fills), kind=True)
            return
        heights = [count + fill for count, fill in zip(self.counts, fills, strict=True)]
        light_fills, light_weight = self._light(pots, pending, heights, light)
        busy = -1
        for height, fill in zip(heights, light_fills, strict=True):
            if height + fill >= 0.5:
                busy += 1
        column = self._efficiency[0 if busy < 0 else min(OTHERS_MAX, busy)]
        drains = [0.0, 0.0]
        for lane, count in enumerate(self.counts):
            self._rates[lane] = _rate(
                _Lane(count, self._weights[lane], fills[lane], light_fills[lane]),
                heavy_weight,
                light_weight,
                column,
                drains,
            )
        self._share(drains[0], pending, is_heavy, sum(fills), kind=True)
        self._share(drains[1], pending, is_heavy, sum(light_fills), kind=False)

    def _mix_even(self, fills: Sequence[float], pot_weight: float) -> float:
        """Rates with heavy fillers only, as `_rate` has them, and what these get done in all."""
        counts, weights, rates = self.counts, self._weights, self._rates
        busy = -1
        for count, fill in zip(counts, fills, strict=True):
            if count + fill >= 0.5:
                busy += 1
        column = self._efficiency[0 if busy < 0 else min(OTHERS_MAX, busy)]
        drain = 0.0
        for lane, count in enumerate(counts):
            fill = fills[lane]
            if fill <= _PENDING_MIN:
                if count:
                    step = column[count if count < MATES_MAX else MATES_MAX]  # noqa: FURB136
                    rates[lane] = step / weights[lane]
                else:
                    rates[lane] = 0.0
                continue
            whole = int(fill)
            number = count + whole
            rate = done = 0.0
            if number:
                step = column[number if number < MATES_MAX else MATES_MAX]  # noqa: FURB136
                rate = step / (weights[lane] + whole * pot_weight)
                done = whole * pot_weight * rate
            part = fill - whole
            if part > _PENDING_MIN:
                more_weight = (whole + 1) * pot_weight
                step = column[number + 1 if number < MATES_MAX else MATES_MAX]
                more = step / (weights[lane] + more_weight)
                done += part * (more_weight * more - done)
                rate += part * (more - rate)
            rates[lane] = rate
            drain += done
        return drain

    def _light(
        self, pots: Sequence[Pot], pending: Sequence[float], heights: Sequence[float], light: float
    ) -> tuple[list[float], float]:
        """Where light fillers go, and their mean weight."""
        heaviest = self._heaviest
        weight = sum(
            [n * p.weight for n, p in zip(pending, pots, strict=True) if p.weight < heaviest]
        )
        return _spread(heights, self.slots, light), weight / light

    def _share(
        self,
        drain: float,
        pending: Sequence[float],
        is_heavy: Sequence[bool],
        placed: float,
        *,
        kind: bool,
    ) -> None:
        """A kind's drain among its pots, in proportion to what each has placed, the first first."""
        left = placed
        for index, each in enumerate(pending):
            if is_heavy[index] is kind:
                taken = min(each, left)
                left -= taken
                self._drains[index] = drain * taken / placed if placed > 0.0 else 0.0


class _Lane(NamedTuple):
    """What is on a lane, and what fills it up."""

    loads: int
    weight: float
    heavy_fill: float
    light_fill: float


def _rate(
    lane: _Lane,
    heavy_weight: float,
    light_weight: float,
    column: Sequence[float],
    drains: list[float],
) -> float:
    """Progress per weight on a lane, expected over a heavy filler that is there part of the time.

    Args:
        drains: of heavy and of light fillers; what they get done here is added.
    """
    count, weight, fill, light_fill = lane
    whole = int(fill)
    part = fill - whole
    mates = count + whole + int(light_fill + 0.5)
    if light_fill > 0.0:
        # Alone, a part of a light filler is there part of the time, not part of a share.
        weight += light_weight * (light_fill if count or whole else max(1.0, light_fill))
    rate = heavy_done = 0.0
    if count or whole or light_fill > _PENDING_MIN:
        rate = column[min(MATES_MAX, mates or 1)] / (weight + whole * heavy_weight)
        heavy_done = whole * heavy_weight * rate
    if part > _PENDING_MIN:
        more_weight = (whole + 1) * heavy_weight
        more = column[min(MATES_MAX, mates + 1)] / (weight + more_weight)
        # With nobody there the part of the time without a filler passes without progress.
        heavy_done += part * (more_weight * more - heavy_done)
        rate += part * (more - rate)
    drains[0] += heavy_done
    drains[1] += light_fill * light_weight * rate
    return rate


def _later(level: float, gain: float, drain: float, span_ns: float, full_ns: float = 0.0) -> float:
    """A pot's level after a while.

    With nothing to come it drains evenly, as batches do; else in proportion to what it holds:
    dL/dt = gain − (drain / level) L, which neither overshoots nor falls below nothing.

    Args:
        full_ns: what the slots hold, where known; what is above it drains evenly, and first.
    """
    if level > full_ns > 0.0:
        change = gain - drain
        if level + change * span_ns >= full_ns:
            return level + change * span_ns
        span_ns -= (level - full_ns) / -change
        level = full_ns
    if level <= 0.0 or drain <= 0.0 or gain <= 0.0:
        return max(0.0, level + (gain - drain) * span_ns)
    pull = drain / level
    rest = gain / pull
    return rest + (level - rest) * exp(-pull * span_ns)


def _spread_one(counts: Sequence[int], slots: Sequence[int], pending: float) -> list[float]:
    """Pieces on free slots, one level of the lanes after the other, the emptiest first."""
    fills = [0.0] * len(counts)
    if pending <= _PENDING_MIN:
        return fills
    lanes = range(len(counts))
    for level in range(min(counts), max(slots)):
        rising = [lane for lane in lanes if counts[lane] <= level < slots[lane]]
        if not rising:
            continue
        each = pending / len(rising)
        if each <= 1.0:
            for lane in rising:
                fills[lane] += each
            return fills
        for lane in rising:
            fills[lane] += 1.0
        pending -= len(rising)
    return fills


def _spread(heights: Sequence[float], slots: Sequence[int], pending: float) -> list[float]:
    """The same over lanes that are filled by fractions."""
    rooms = [limit - height for height, limit in zip(heights, slots, strict=True)]
    fills = [0.0] * len(rooms)
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
