"""Who waits in one class, and who of them is next.

Preempted sequences go first, the earliest arrived before others. New ones wait in a line for each
tag, in order of arrival, short ones apart from long ones. Between tags credits decide: whoever has
saved more up goes first, then whoever has some left, and among equals the one whose first token
must be begun soonest. So those who keep to their share are served by deadline alone, and whoever
asks for more is put off to later rounds, behind nobody else's.

Knows sequences, credits and slack. Refuses to know memory and budgets.
"""

from collections import deque
from collections.abc import Iterator
from math import inf

from headway.core import TenantId
from headway.generate.credits import CreditSettings, TagCredits
from headway.generate.sequence import Sequence

__all__ = ["ClassLine"]


class ClassLine:
    """The line of one priority.

    Invariants: a sequence is in it once; ``count`` is how many are.
    """

    def __init__(self, settings: CreditSettings) -> None:
        self.credits = TagCredits(settings)
        self.count = 0
        self._resumed: list[Sequence] = []
        self._lanes: tuple[dict[TenantId, deque[Sequence]], dict[TenantId, deque[Sequence]]]
        self._lanes = ({}, {})

    def add(self, sequence: Sequence) -> None:
        """A sequence waits: behind those of its tag, or, preempted, before all who are new."""
        self.count += 1
        if sequence.preempted_at_ns is not None:
            self._resumed.append(sequence)
            self._resumed.sort(key=lambda each: (each.params.arrived_at_ns, each.sequence_id))
            return
        self._lanes[sequence.is_long].setdefault(sequence.tag, deque()).append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """A sequence waits no more."""
        self.count -= 1
        if sequence.preempted_at_ns is not None:
            self._resumed.remove(sequence)
            return
        lane = self._lanes[sequence.is_long]
        waiting = lane[sequence.tag]
        waiting.remove(sequence)
        if not waiting:
            del lane[sequence.tag]

    def next(self, prefill_ns: float, *, is_long: bool) -> Sequence | None:
        """Whose turn it is in a lane; None where nobody waits there."""
        for sequence in self._resumed:
            if sequence.is_long == is_long:
                return sequence
        lane = self._lanes[is_long]
        if not lane:
            return None
        if len(lane) > 1:
            self.credits.begin_round(lane)
        best: Sequence | None = None
        best_key: tuple[float, float, int, int] | None = None
        for tag, waiting in lane.items():
            head = waiting[0]
            due_at_ns = head.due_ttft_at_ns
            slack_at_ns = inf if due_at_ns is None else due_at_ns - prefill_ns * head.known_tokens
            key = (
                -self.credits.rank(tag),
                slack_at_ns,
                head.params.arrived_at_ns,
                head.sequence_id,
            )
            if best_key is None or key < best_key:
                best, best_key = head, key
        return best

    def has_waiting(self, *, is_long: bool) -> bool:
        """Whether anybody waits in a lane."""
        return bool(self._lanes[is_long]) or any(
            sequence.is_long == is_long for sequence in self._resumed
        )

    def oldest(self) -> Sequence | None:
        """The one that has waited longest; None where nobody waits."""
        return min(
            self._heads(), key=lambda each: (each.waits_since_ns, each.sequence_id), default=None
        )

    def waits_since_ns(self) -> int | None:
        """Since when that one does."""
        oldest = self.oldest()
        return None if oldest is None else oldest.waits_since_ns

    def _heads(self) -> Iterator[Sequence]:
        yield from self._resumed
        for lane in self._lanes:
            for waiting in lane.values():
                yield waiting[0]
