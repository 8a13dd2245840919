"""Pauses of the host: spans in which the scheduler handled nothing although things were due.

A process that is stopped, starved of its core or held by the collector shows in Records as a
silence that ends with a crowd: a timer that fires late, batches that are reported long after their
stages say they were done, requests whose first bytes had been seen before. A late timer alone is
proof, for nothing but the loop itself can hold it up. Of the other things two are asked for: a
single batch may have been slow to come back, and a single large request slow to be read.

Knows Records. Refuses to know why the host paused.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from headway.core import (
    BatchFailed,
    BatchFinished,
    BatchId,
    Dispatch,
    Record,
    ReplicaId,
    ReplicasLost,
    RequestArrived,
    SetTimer,
    TimerFired,
)

__all__ = ["PAUSE_NS_MIN", "Pause", "PauseWatch", "paused_ns"]

PAUSE_NS_MIN: Final = 5_000_000
"""What is shorter is jitter: messages between processes take up to a millisecond or two."""
_CROWD_NS: Final = 1_000_000
"""What is handled within this after a silence was waiting for its end."""
_WITNESSES_MIN: Final = 2
_PAUSES_MAX: Final = 65_536


class Pause(NamedTuple):
    """From the first thing that was due to the first that was handled."""

    from_ns: int
    to_ns: int


class PauseWatch:
    """Follows a run, one Record after another, and keeps its pauses.

    Invariants: `pauses` are in order of time, none overlaps another, none is shorter than
    `PAUSE_NS_MIN`, and there are at most 65,536 of them, the first.
    """

    def __init__(self) -> None:
        self.pauses: list[Pause] = []
        self._now_ns: int | None = None
        self._armed_at_ns: int | None = None
        self._running: dict[BatchId, tuple[ReplicaId, int]] = {}
        """Where each batch runs, and since when."""
        self._silent_since_ns = 0
        self._woke_at_ns: int | None = None
        """End of the last silence, while its crowd may still come."""
        self._due_at_ns: list[int] = []
        """Of each witness."""
        self._is_proven = False

    def step(self, record: Record) -> None:
        """Take one step."""
        now_ns = record.now_ns
        if self._now_ns is not None and now_ns - self._now_ns >= PAUSE_NS_MIN:
            self._settle()
            self._silent_since_ns, self._woke_at_ns = self._now_ns, now_ns
        elif self._woke_at_ns is not None and now_ns - self._woke_at_ns > _CROWD_NS:
            self._settle()
        self._now_ns = now_ns
        if self._woke_at_ns is not None:
            self._hear(record, self._woke_at_ns)
        self._follow(record)

    def finish(self) -> None:
        """The records end."""
        self._settle()

    def _hear(self, record: Record, woke_at_ns: int) -> None:
        """Whether this should have been handled earlier."""
        due_at_ns = self._due_of(record)
        if due_at_ns is not None and due_at_ns <= woke_at_ns - PAUSE_NS_MIN:
            self._due_at_ns.append(max(due_at_ns, self._silent_since_ns))
            self._is_proven = self._is_proven or isinstance(record.event, TimerFired)

    def _due_of(self, record: Record) -> int | None:
        event = record.event
        match event:
            case TimerFired():
                return self._armed_at_ns
            case RequestArrived():
                return event.request.arrived_at_ns
            case BatchFinished():
                run = self._running.get(event.batch_id)
                if run is None or not event.execution_ns:
                    return None
                stages_ns = event.transfer_in_ns + event.execution_ns + event.transfer_out_ns
                return run[1] + stages_ns
            case _:
                return None

    def _follow(self, record: Record) -> None:
        """Remember what will be due."""
        match event := record.event:
            case TimerFired():
                self._armed_at_ns = None
            case BatchFinished() | BatchFailed():
                self._running.pop(event.batch_id, None)
            case ReplicasLost():
                lost = set(event.replica_ids)
                self._running = {b: run for b, run in self._running.items() if run[0] not in lost}
            case _:
                pass
        for command in record.commands:
            if isinstance(command, Dispatch):
                self._running[command.batch_id] = (command.replica_id, record.now_ns)
            elif isinstance(command, SetTimer):
                self._armed_at_ns = max(record.now_ns, command.at_ns)

    def _settle(self) -> None:
        """The crowd has passed: was it one?"""
        due, woke_at_ns = self._due_at_ns, self._woke_at_ns
        is_pause = self._is_proven or len(due) >= _WITNESSES_MIN
        if woke_at_ns is not None and is_pause and len(self.pauses) < _PAUSES_MAX:
            self.pauses.append(Pause(min(due), woke_at_ns))
        self._due_at_ns, self._woke_at_ns, self._is_proven = [], None, False


def paused_ns(pauses: Iterable[Pause], from_ns: int, to_ns: int) -> int:
    """How much of a span the pauses take."""
    return sum(max(0, min(to_ns, p.to_ns) - max(from_ns, p.from_ns)) for p in pauses)
