"""How long copies between host memory and devices take while others are on the way.

Knows a tree of links, what is in flight on it as far as it was told, and how wrong it was. Refuses
to know models and batches: `stages.py` turns those into copies.

A copy takes launch + waiting for its engine + its bytes over its share, the share being max-min
fair and changing whenever a copy starts or ends; the duration is found by moving everything in
flight forward to its end (`flows.py`). What that leaves out (protocol overhead that grows with the
number of copies, directions that disturb each other, arrivals to come) is learnt as a bounded
factor on the bytes of a copy (`link_residual.py`).
"""

from collections.abc import Sequence
from math import log
from typing import Final, NamedTuple

import msgspec

from headway.predict.flows import Copy, Flows, Trace
from headway.predict.link_residual import LogResidual
from headway.predict.links import Direction, LinkShares, LinkTree
from headway.predict.pace import CROWD_COUNT, Pace

__all__ = ["CopyForecast", "TransferModel"]

_OPEN_MAX: Final = 256
"""Copies that are kept as in flight; of those that are never reported as ended the oldest go."""
_SURPRISE_MAX: Final = 0.05
"""What will start meanwhile is chance; the median of it is what is learnt."""
_OWN: Final = 3
"""Features of a copy itself; those of its company follow."""
_SMOOTHING: Final = 1 / 32
"""A copy's weight in the running means of what starts how often."""


class CopyForecast(NamedTuple):
    """What is expected of one copy."""

    copy_id: int
    left_ns: float
    """From the instant of asking to its last byte."""
    floor_ns: float
    """Launch and bytes over the narrowest link: as if nothing else were on the way."""


class _Open:
    """A copy that has started and not ended."""

    __slots__ = ("arrivals", "copy", "crowd", "own", "seen_ns", "started_at_ns", "stretch", "trace")

    def __init__(
        self,
        copy: Copy,
        started_at_ns: int,
        own: tuple[float, ...],
        stretch: float,
        crowd: tuple[float, ...],
    ) -> None:
        self.copy = copy
        self.started_at_ns = started_at_ns
        self.own = own
        self.stretch = stretch
        self.crowd = crowd
        """The weights of company that were in force."""
        self.trace = Trace()
        self.seen_ns = 0.0
        """What the links alone said, seeing all that started by its instant, nothing later."""
        self.arrivals: tuple[float, ...] = ()


class TransferModel:
    """Predicts copies on one tree, and learns from each that ends.

    Two things are learnt, each bounded and from a prior that leaves the formula as it is: how a
    copy and its company fall short of rated capacities, in hindsight of who was on the way with
    it; and how much the copies that will start meanwhile add.

    Args:
        learns: False leaves the formula as it is.

    Invariants: a forecast is finite and not below its floor; a further copy never makes another's
    forecast at the same instant smaller; at most `_OPEN_MAX` copies are kept.
    Cost (measured, one core of a server): `duration_ns` 10 us on idle links, 30 with four in
    flight, 55 with eight; `forecast` of all of them 12, 45 and 90; a start and an end together 50.
    """

    def __init__(self, tree: LinkTree, *, learns: bool = True) -> None:
        self.tree = tree
        self._shares = LinkShares(tree)
        self._pace = Pace(self._shares)
        self._flows = Flows(tree, self._pace)
        self._learns = learns
        self._law = LogResidual(_OWN + CROWD_COUNT, load_from=_OWN)
        self._arrivals = LogResidual(2, load_from=0, surprise_max=_SURPRISE_MAX)
        self._open: dict[int, _Open] = {}
        self._fresh: list[int] = []
        """Copies that started at the present instant."""
        self._at_ns: int | None = None
        self._last_started_at_ns: int | None = None
        self._gap_ns = 0.0
        self._alone_ns = 0.0
        """Running means: from one start to the next, and of floors."""

    def floor_ns(self, copy: Copy) -> float:
        """No copy of this size is faster on this tree.

        Raises:
            KeyError: the tree has no such device.
        """
        engine = self._shares.engine(copy.device, copy.direction)
        return self.tree.launch_ns + copy.size_bytes / self._shares.alone_bytes_per_ns(engine)

    def forecast(
        self, candidate: Copy | None, now_ns: int, later: Sequence[tuple[int, Copy]] = ()
    ) -> list[CopyForecast]:
        """Were the candidate started now: its own, then that of each copy in flight.

        Args:
            candidate: None for things as they stand.
            later: how long from now further copies will start, ascending; they are not told of.

        Raises:
            KeyError: the tree has no such device.
        """
        self._move_to(now_ns)
        asked = [] if candidate is None else [candidate]
        asked += [self._open[copy.copy_id].copy for copy in self._flows]
        flows = self._flows.fork()
        left_bytes = flows.left_bytes()
        if candidate is not None:
            left_bytes[candidate.copy_id] = float(candidate.size_bytes)
            flows.add(candidate, stretch=self._stretch(self._own(candidate)))
        ends_ns = flows.run_out([(float(in_ns), copy) for in_ns, copy in later])
        return [self._told(copy, left_bytes[copy.copy_id], ends_ns[copy.copy_id]) for copy in asked]

    def duration_ns(
        self, candidate: Copy, now_ns: int, later: Sequence[tuple[int, Copy]] = ()
    ) -> float:
        """The candidate's own part of `forecast`, for less.

        Raises:
            KeyError: the tree has no such device.
        """
        self._move_to(now_ns)
        flows = self._flows.fork()
        flows.add(candidate, stretch=self._stretch(self._own(candidate)))
        ends_ns = flows.run_out(
            [(float(in_ns), copy) for in_ns, copy in later], until=candidate.copy_id
        )
        own = self._told(candidate, float(candidate.size_bytes), ends_ns[candidate.copy_id])
        return own.left_ns

    def started(self, copy: Copy, now_ns: int, *, is_told: bool = True) -> float:
        """A copy was handed to its engine; how long it is expected to take, in ns.

        Args:
            is_told: its end will be reported when it comes; otherwise it is taken to be off the
                links when it is due, and `finished` says later how long it took.

        Raises:
            KeyError: the tree has no such device.
        """
        predicted_ns = self.duration_ns(copy, now_ns)
        own = self._own(copy)
        found = _Open(copy, now_ns, own, self._stretch(own), self._law.weights[_OWN:])
        self._open[copy.copy_id] = found
        self._flows.add(copy, stretch=found.stretch, trace=found.trace, is_told=is_told)
        self._fresh.append(copy.copy_id)
        self._count(copy, now_ns)
        if len(self._open) > _OPEN_MAX:
            self.dropped(next(iter(self._open)), now_ns)
        return predicted_ns

    def finished(self, copy_id: int, now_ns: int, *, took_ns: int | None = None) -> None:
        """A copy has ended; unknown ones are ignored.

        Args:
            took_ns: how long it took, where its end is learnt of late; otherwise since its start.
        """
        found = self._open.pop(copy_id, None)
        if found is None:
            return
        self._move_to(now_ns)
        left_bytes = self._flows.left_bytes().get(copy_id, 0.0)
        self._flows.remove(copy_id)
        if self._learns:
            took_ns = now_ns - found.started_at_ns if took_ns is None else took_ns
            self._learn_law(found, now_ns, took_ns, left_bytes)
            self._learn_arrivals(found, took_ns)

    def dropped(self, copy_id: int, now_ns: int) -> None:
        """A copy failed: it is off the links, and its time says nothing."""
        if self._open.pop(copy_id, None) is not None:
            self._move_to(now_ns)
            self._flows.remove(copy_id)

    def state(self) -> dict[str, object]:
        """All that was learnt, as plain JSON values; what is in flight is not of it."""
        return {
            "tree": msgspec.to_builtins(self.tree),
            "law": self._law.state(),
            "arrivals": self._arrivals.state(),
        }

    def restore(self, state: dict[str, object]) -> None:
        """Take up what `state` gave; that of another tree, or what does not fit, is ignored."""
        if state.get("tree") != msgspec.to_builtins(self.tree):
            return
        for residual, name in ((self._law, "law"), (self._arrivals, "arrivals")):
            found = state.get(name)
            if isinstance(found, dict):
                residual.restore(found)
        self._pace.weigh(self._law.weights[_OWN:])

    def _move_to(self, now_ns: int) -> None:
        if self._fresh and now_ns > (self._at_ns or 0):
            self._see_fresh()
        if self._at_ns is not None and now_ns > self._at_ns:
            self._flows.advance(float(now_ns - self._at_ns))
        if self._at_ns is None or now_ns > self._at_ns:
            self._at_ns = now_ns

    def _see_fresh(self) -> None:
        """Those that have just started, with all that started at the same instant in view."""
        ends_ns = self._flows.fork().run_out()
        for copy_id in self._fresh:
            found = self._open.get(copy_id)
            if found is not None and copy_id in ends_ns:
                found.seen_ns = ends_ns[copy_id]
                found.arrivals = self._arrival_features(found.seen_ns)
        self._fresh.clear()

    def _told(self, copy: Copy, left_bytes: float, left_ns: float) -> CopyForecast:
        """Never less than what is left over the narrowest link; more if others will come."""
        floor_ns = self.floor_ns(copy)
        left_ns *= self._arrivals.factor(self._arrival_features(left_ns))
        if left_bytes >= copy.size_bytes:
            left_ns = max(left_ns, floor_ns)
        return CopyForecast(copy.copy_id, left_ns, floor_ns)

    def _own(self, copy: Copy) -> tuple[float, ...]:
        """Of a copy itself: one, its direction, and how much of it is launch."""
        is_out = copy.direction is Direction.OUT
        return (1.0, 0.5 if is_out else -0.5, self.tree.launch_ns / max(1.0, self.floor_ns(copy)))

    def _stretch(self, own: tuple[float, ...]) -> float:
        return self._law.factor((*own, *(0.0,) * CROWD_COUNT)) if self._learns else 1.0

    def _arrival_features(self, left_ns: float) -> tuple[float, ...]:
        """How many copies will start meanwhile, and how much of the time there is one."""
        if self._gap_ns <= 0 or not self._learns:
            return (0.0, 0.0)
        share = left_ns / (left_ns + self._gap_ns)
        return (share, share * min(1.0, self._alone_ns / self._gap_ns / 4))

    def _count(self, copy: Copy, now_ns: int) -> None:
        alone_ns = self.floor_ns(copy)
        if self._last_started_at_ns is None:
            self._alone_ns = alone_ns
        else:
            gap_ns = max(0, now_ns - self._last_started_at_ns)
            self._gap_ns += (gap_ns - self._gap_ns) * (_SMOOTHING if self._gap_ns else 1.0)
            self._alone_ns += (alone_ns - self._alone_ns) * _SMOOTHING
        self._last_started_at_ns = max(now_ns, self._last_started_at_ns or now_ns)

    def _learn_arrivals(self, found: _Open, took_ns: int) -> None:
        if found.seen_ns > 0 and any(found.arrivals):
            self._arrivals.learn(found.arrivals, log(max(1, took_ns) / found.seen_ns))

    def _learn_law(self, found: _Open, now_ns: int, took_ns: int, left_bytes: float) -> None:
        """Compare its time on the engine with what the links as they were would have made it."""
        trace = found.trace
        if trace.begun_at_ns is None or trace.flow_ns <= 0 or trace.gave_way:
            return
        age_ns = self._flows.now_ns - (now_ns - found.started_at_ns)
        actual_ns = took_ns - (trace.begun_at_ns - age_ns)
        if trace.ended_at_ns is not None:
            due_ns = trace.ended_at_ns - trace.begun_at_ns
        else:
            sent_bytes = found.copy.size_bytes * found.stretch - left_bytes
            spent_ns = self._flows.now_ns - trace.begun_at_ns - trace.flow_ns
            due_ns = spent_ns + trace.flow_ns * (sent_bytes + left_bytes) / sent_bytes
        if actual_ns <= 0:
            return
        crowd = trace.crowd()
        applied = log(found.stretch) + sum(
            max(0.0, w) * c for w, c in zip(found.crowd, crowd, strict=True)
        )
        self._law.learn((*found.own, *crowd), log(actual_ns / due_ns) + applied)
        self._pace.weigh(self._law.weights[_OWN:])
