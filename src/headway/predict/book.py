"""What runs on each device, how far it has got, and who ran beside whom.

Knows starts and ends in the order of their instants. Refuses to know what will come.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headway.core import BatchId, BucketKey, DeviceName, Forecast, ModelName, Run
from headway.predict.conformal import Group
from headway.predict.lanes import MATES_MAX, OTHERS_MAX
from headway.predict.scene import Overlap, Scene
from headway.predict.speeds import Speeds

__all__ = ["LEFT_MIN_RATIO", "Device", "Running", "Said", "Size", "Stay"]

_ENDED_MAX: Final = 128
"""Batches of a device that ended of late and may have run beside one that still runs."""
LEFT_MIN_RATIO: Final = 0.03
"""Of its work that a batch is thought to have left as long as it has not ended."""
_STRETCH_MIN: Final = 1e-3

Size = tuple[ModelName, BucketKey, int]
"""Model, bucket and rows."""


class Said(NamedTuple):
    """What was predicted of a batch when it started."""

    forecast: Forecast
    execution_ns: float
    slowdown: float
    """Of the execution, by shares of lanes, before anything learnt was applied."""
    scene: Scene
    groups: tuple[Group, ...]
    """By which its bound was taken."""


class Running:
    """One batch on a slot, or one that is considered."""

    __slots__ = (
        "base_ns",
        "cell",
        "cells",
        "done_ns",
        "feel",
        "lane",
        "left_groups",
        "look",
        "met_ns",
        "pace",
        "rate",
        "run",
        "said",
        "size",
        "speed",
        "started_at_ns",
        "weight",
    )

    def __init__(self, run: Run, lane: int, weight: float, base_ns: float) -> None:
        self.run = run
        self.size: Size = (run.model, run.bucket, run.rows)
        self.lane = lane
        """Index of the lane on its device, from 0."""
        self.weight = weight
        self.base_ns = base_ns
        """Solo execution as it was expected at the start; 0 when it was unknown."""
        self.feel = 1.0
        """Part of a slowdown that it feels."""
        self.pace = 1.0
        """Of its lane at the start."""
        self.started_at_ns = 0
        self.done_ns = 0.0
        """Solo work done up to the device's last change."""
        self.rate = 0.0
        """Solo work per elapsed time since then."""
        self.met_ns = 0.0
        """Elapsed time by share and efficiency: what an execution that feels all of it did."""
        self.speed = 0.0
        """The same per elapsed time since the last change."""
        self.cell = (0, 0)
        """Of the efficiency, since the last change."""
        self.cells: dict[tuple[int, int], float] = {}
        """`met_ns` by cell."""
        self.said: Said | None = None
        self.left_groups: tuple[Group, ...] = ()
        """By which the bound of what is left of it is taken."""
        self.look: tuple[int, Forecast] | None = None
        """A later instant at which it was looked at again, and what was said to remain."""


class Stay(NamedTuple):
    """A batch that has left its device."""

    running: Running
    slowdown: float
    """Elapsed time over what was met."""
    cells: dict[tuple[int, int], float]
    """Parts of what was met, adding up to 1."""
    overlaps: tuple[Overlap, ...]
    """Each of the others that ran meanwhile, and for which part of the stay."""


class _Past(NamedTuple):
    run: Run
    started_at_ns: int
    ended_at_ns: int


class Device:
    """One device: its lanes, and what is on them.

    Invariants: every batch of `running` has the rate that it gets among the others; rates change
    only with `start`, `end` and `drop`, so asking changes nothing.
    """

    def __init__(self, name: DeviceName, slot_lanes: Sequence[int], speeds: Speeds) -> None:
        self.name = name
        self.slot_lanes = tuple(slot_lanes)
        self.lanes = tuple(sorted(set(self.slot_lanes)))
        self.slots = [self.slot_lanes.count(lane) for lane in self.lanes]
        self.speeds = speeds
        self.running: dict[BatchId, Running] = {}
        self._ended: deque[_Past] = deque(maxlen=_ENDED_MAX)
        self._since_ns = 0

    def lane_index(self, lane: int) -> int:
        """Index of a lane; one that the device does not have is taken for its first."""
        return self.lanes.index(lane) if lane in self.lanes else 0

    def left_ns(self, running: Running, now_ns: int) -> float:
        """Solo work that a batch has left; never nothing while it runs."""
        span_ns = max(0, now_ns - self._since_ns)
        left_ns = running.base_ns - running.done_ns - span_ns * running.rate
        return max(left_ns, LEFT_MIN_RATIO * running.base_ns, 1.0)

    def elapsed_left_ns(self, running: Running, now_ns: int) -> float:
        """Elapsed time that a batch has left, going by what was said when it started."""
        if running.said is None:
            return self.left_ns(running, now_ns)
        left_ns = running.said.execution_ns - (now_ns - running.started_at_ns)
        return max(left_ns, LEFT_MIN_RATIO * running.base_ns, 1.0)

    def crowd(self, now_ns: int | None = None) -> float:
        """Solo work that what runs has left, a lane; without an instant, at the last change."""
        at_ns = self._since_ns if now_ns is None else now_ns
        left_ns = sum([self.left_ns(running, at_ns) for running in self.running.values()])
        return left_ns / len(self.lanes)

    def start(self, running: Running, now_ns: int) -> None:
        """One more."""
        self._advance(now_ns)
        running.started_at_ns = now_ns
        self.running[running.run.batch_id] = running
        self._set_rates()

    def drop(self, batch_id: BatchId, now_ns: int) -> Running | None:
        """One less, of which nothing is learnt; None if it is not known."""
        self._advance(now_ns)
        running = self.running.pop(batch_id, None)
        if running is not None:
            self._ended.append(_Past(running.run, running.started_at_ns, now_ns))
            self._set_rates()
        return running

    def end(self, batch_id: BatchId, now_ns: int) -> Stay | None:
        """One less, seen from its end; None if it is not known."""
        running = self.drop(batch_id, now_ns)
        if running is None:
            return None
        stay_ns = max(now_ns - running.started_at_ns, 1)
        met_ns = max(running.met_ns, 1.0)
        cells = {cell: part / met_ns for cell, part in running.cells.items()}
        overlaps = tuple(self._overlaps(running, now_ns, stay_ns))
        return Stay(running, max(stay_ns / met_ns, 1e-3), cells, overlaps)

    def _advance(self, now_ns: int) -> None:
        """Everyone has got on since the last change."""
        span_ns = now_ns - self._since_ns
        if span_ns <= 0:
            return
        self._since_ns = now_ns
        for running in self.running.values():
            running.done_ns += span_ns * running.rate
            met_ns = span_ns * running.speed
            running.met_ns += met_ns
            cells = running.cells
            cells[running.cell] = cells.get(running.cell, 0.0) + met_ns

    def _set_rates(self) -> None:
        """Shares by weight, times what a lane among such company has been seen to do."""
        weights = [0.0] * len(self.lanes)
        counts = [0] * len(self.lanes)
        for running in self.running.values():
            weights[running.lane] += running.weight
            counts[running.lane] += 1
        others = min(max(len(self.lanes) - counts.count(0) - 1, 0), OTHERS_MAX)
        column = self.speeds.efficiency[others]
        for running in self.running.values():
            row = min(counts[running.lane], MATES_MAX)
            running.cell = (row - 1, others)
            speed = column[row] * running.weight / weights[running.lane]
            running.speed = speed
            stretch = 1.0 + running.feel * (1.0 / speed - 1.0)
            running.rate = 1.0 / (max(stretch, _STRETCH_MIN) * running.pace)

    def _overlaps(self, running: Running, now_ns: int, stay_ns: int) -> Iterator[Overlap]:
        since_ns = running.started_at_ns
        for other in self.running.values():
            together_ns = now_ns - max(since_ns, other.started_at_ns)
            yield Overlap(other.run, min(max(together_ns / stay_ns, 0.0), 1.0))
        for past in reversed(self._ended):
            if past.run is running.run:
                continue
            if past.ended_at_ns <= since_ns:
                break
            together_ns = past.ended_at_ns - max(since_ns, past.started_at_ns)
            yield Overlap(past.run, min(together_ns / stay_ns, 1.0))
