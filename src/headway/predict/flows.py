"""Copies in flight on a tree of links, moved forward in time by their shares.

Knows what each copy engine has to do, in which order, and what is left. Refuses to know which
instant it is: time is passed in as a duration. Nothing here is learnt.

An engine works on one copy at a time: the most important first, and among equals the oldest. A copy
that runs gives way at the end of its current chunk, so a more important one waits for one chunk at
most. Every piece that an engine starts costs the launch, during which no byte flows; its share is
kept for it meanwhile, or a further copy could help the others by the pause of its launch.
"""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

from msgspec import Struct

from headway.core import DeviceName
from headway.predict.links import Direction, LinkTree
from headway.predict.pace import CROWD_COUNT, Pace

__all__ = ["Copy", "Flows", "Trace"]

_EPSILON_NS: Final = 1e-6
"""Less than this is rounding."""
_OVERDUE_RATIO: Final = 0.05
"""Part of its bytes that a copy is taken to have left when it ought to have ended."""


class Copy(Struct, frozen=True, kw_only=True, gc=False):
    """One transfer between host memory and a device."""

    copy_id: int
    device: DeviceName
    direction: Direction
    size_bytes: int
    priority: int = 0
    """Lower goes first."""


class Trace:
    """What became of one copy, in hindsight of everything that was on the way with it."""

    __slots__ = ("begun_at_ns", "crowd_ns", "ended_at_ns", "flow_ns", "gave_way")

    def __init__(self) -> None:
        self.begun_at_ns: float | None = None
        """Its engine took it up."""
        self.ended_at_ns: float | None = None
        """It ought to have ended."""
        self.flow_ns = 0.0
        self.crowd_ns = [0.0] * CROWD_COUNT
        """Who was at work with it, times how long."""
        self.gave_way = False

    def crowd(self) -> tuple[float, ...]:
        """Who was at work with it, on average while its bytes flowed, which they did."""
        return tuple(total / self.flow_ns for total in self.crowd_ns)


class _Piece:
    """What an engine does without a break: a copy, or what is left of one that gave way."""

    __slots__ = (
        "copy",
        "is_last",
        "is_overdue",
        "is_told",
        "launch_ns",
        "left_bytes",
        "sent_bytes",
        "trace",
    )

    def __init__(
        self, copy: Copy, launch_ns: float, left_bytes: float, trace: Trace | None = None
    ) -> None:
        self.copy = copy
        self.launch_ns = launch_ns
        self.left_bytes = left_bytes
        self.sent_bytes = 0.0
        self.is_last = True
        self.is_told = False
        """Its end will be reported, and until then it stays."""
        self.is_overdue = False
        """It should have ended; it is still there, and nobody knows for how long."""
        self.trace = trace

    def fork(self) -> "_Piece":
        """The same, which ends when it is due."""
        piece = _Piece(self.copy, self.launch_ns, self.left_bytes)
        piece.sent_bytes = self.sent_bytes
        piece.is_last = self.is_last
        return piece


class Flows:
    """The queues of all copy engines of a tree.

    Invariants: no link carries more than its capacity; a copy takes no less than launch + size /
    narrowest link; a further copy at the same instant lets no other end sooner.
    Cost: `run_out` some 2 us for each launch and each end of a piece on the way.
    """

    __slots__ = ("_pace", "_queues", "_tree", "now_ns")

    def __init__(
        self, tree: LinkTree, pace: Pace, *, queues: list[list[_Piece]] | None = None
    ) -> None:
        self._tree = tree
        self._pace = pace
        engine_count = pace.shares.engine_count
        self._queues = [[] for _ in range(engine_count)] if queues is None else queues
        self.now_ns = 0.0
        """Since this was made."""

    def __iter__(self) -> Iterator[Copy]:
        """Every copy that has not ended, by engine and in its order; pieces of it once."""
        for queue in self._queues:
            yield from (piece.copy for piece in queue if piece.is_last)

    def fork(self) -> "Flows":
        """The same state at its own zero of time, in which every copy ends when it is due."""
        queues = [[piece.fork() for piece in queue] for queue in self._queues]
        return Flows(self._tree, self._pace, queues=queues)

    def add(
        self,
        copy: Copy,
        *,
        stretch: float = 1.0,
        trace: Trace | None = None,
        is_told: bool = False,
    ) -> None:
        """A copy is handed to its engine.

        Args:
            stretch: factor on its launch and its bytes.
            trace: where to note what becomes of it.
            is_told: it stays, overdue, until it is removed; otherwise it ends when it is due.

        Raises:
            KeyError: the tree has no such device.
        """
        queue = self._queues[self._pace.shares.engine(copy.device, copy.direction)]
        at = len(queue)
        while at and queue[at - 1].copy.priority > copy.priority:
            at -= 1
        if at == 0 and queue:
            at = self._give_way(queue)
        size_bytes = max(1.0, copy.size_bytes * stretch)
        piece = _Piece(copy, self._tree.launch_ns * stretch, size_bytes, trace)
        piece.is_told = is_told
        queue.insert(at, piece)

    def remove(self, copy_id: int) -> None:
        """A copy has ended, or never will; unknown ones are ignored."""
        for queue in self._queues:
            if any(piece.copy.copy_id == copy_id for piece in queue):
                queue[:] = [piece for piece in queue if piece.copy.copy_id != copy_id]
                return

    def left_bytes(self) -> dict[int, float]:
        """What each copy has still to send."""
        left: dict[int, float] = {}
        for queue in self._queues:
            for piece in queue:
                copy_id = piece.copy.copy_id
                left[copy_id] = left.get(copy_id, 0.0) + piece.left_bytes
        return left

    def advance(self, duration_ns: float) -> dict[int, float]:
        """Let time pass; when, on `now_ns`'s scale, the copies that ended meanwhile did so."""
        ends: dict[int, float] = {}
        until_ns = self.now_ns + duration_ns
        while self.now_ns < until_ns and self._step(until_ns, ends):
            pass
        if until_ns != inf:
            self.now_ns = until_ns
        return ends

    def run_out(
        self, later: Sequence[tuple[float, Copy]] = (), *, until: int | None = None
    ) -> dict[int, float]:
        """When each copy ends, on `now_ns`'s scale; the state is used up.

        Args:
            later: instants on the same scale, ascending, and the copies that start then.
            until: a copy after whose end no other matters.
        """
        ends: dict[int, float] = {}
        for at_ns, copy in later:
            while self.now_ns < at_ns and until not in ends and self._step(at_ns, ends):
                pass
            if until in ends:
                return ends
            self.now_ns = max(self.now_ns, at_ns)
            self.add(copy)
        while until not in ends and self._step(inf, ends):
            pass
        return ends

    def _give_way(self, queue: list[_Piece]) -> int:
        """Cut the copy that runs at the end of its chunk; the place behind that chunk."""
        head = queue[0]
        chunk_bytes = self._tree.chunk_bytes
        held_bytes = chunk_bytes - head.sent_bytes % chunk_bytes
        if head.left_bytes > held_bytes and not head.is_overdue:
            rest_bytes = head.left_bytes - held_bytes
            rest = _Piece(head.copy, float(self._tree.launch_ns), rest_bytes, head.trace)
            rest.is_last, rest.is_told = head.is_last, head.is_told
            head.left_bytes, head.is_last = held_bytes, False
            if head.trace is not None:
                head.trace.gave_way = True
            queue.insert(1, rest)
        return 1

    def _step(self, until_ns: float, ends: dict[int, float]) -> bool:
        """Move on to the next event; False when there is none before the end of time."""
        step_ns = until_ns - self.now_ns
        heads: list[tuple[_Piece, int]] = []
        mask = 0
        for engine, queue in enumerate(self._queues):
            if queue:
                mask |= 1 << engine
                heads.append((queue[0], engine))
        rates = self._pace.rates(mask) if mask else ()
        for (head, _), rate in zip(heads, rates, strict=True):
            if head.launch_ns > 0:
                step_ns = min(step_ns, head.launch_ns)
            elif head.left_bytes < rate * step_ns and not head.is_overdue:
                step_ns = head.left_bytes / rate
        if step_ns == inf:
            return False
        self.now_ns += step_ns
        for (head, engine), rate in zip(heads, rates, strict=True):
            if head.launch_ns > 0:
                self._launch(head, step_ns)
            elif not head.is_overdue:
                self._send(head, engine, mask, rate, step_ns, ends)
        return True

    def _launch(self, head: _Piece, step_ns: float) -> None:
        if head.trace is not None and head.trace.begun_at_ns is None:
            head.trace.begun_at_ns = self.now_ns - step_ns
        head.launch_ns -= step_ns
        if head.launch_ns < _EPSILON_NS:
            head.launch_ns = 0.0

    def _send(
        self,
        head: _Piece,
        engine: int,
        mask: int,
        rate: float,
        step_ns: float,
        ends: dict[int, float],
    ) -> None:
        sent_bytes = rate * step_ns
        head.left_bytes -= sent_bytes
        head.sent_bytes += sent_bytes
        if head.trace is not None:
            self._note(head.trace, engine, mask, step_ns)
        if head.left_bytes <= rate * _EPSILON_NS:
            self._end(self._queues[engine], ends)

    def _note(self, trace: Trace, engine: int, busy: int, step_ns: float) -> None:
        if trace.begun_at_ns is None:
            trace.begun_at_ns = self.now_ns - step_ns
        trace.flow_ns += step_ns
        for index, value in enumerate(self._pace.crowd(engine, busy)):
            trace.crowd_ns[index] += value * step_ns

    def _end(self, queue: list[_Piece], ends: dict[int, float]) -> None:
        head = queue[0]
        if head.is_last and head.trace is not None:
            head.trace.ended_at_ns = self.now_ns
        if head.is_last and head.is_told:
            head.left_bytes = max(1.0, _OVERDUE_RATIO * head.copy.size_bytes)
            head.is_overdue = True
            return
        queue.pop(0)
        if head.is_last:
            ends[head.copy.copy_id] = self.now_ns
