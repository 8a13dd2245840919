"""The last kernel steps, kept for whoever asks what has just happened.

Knows Records. Refuses to know what is asked of them: the page of the server, a timeline, a
diagnosis each read the same steps, as a journal has them.

Cost: two small tuples a step. They hold nothing that the collector of cycles has to walk, for
events and commands are none of its business, and tuples of such things leave it at its first look.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from headway.core import Command, Event, Record

__all__ = ["HeldSteps", "RecentSteps"]

_Step = tuple[int, Event, tuple[Command, ...]]


class HeldSteps:
    """Some of the last steps, as they were when they were asked for: to be read at leisure.

    Invariants: steps that are made or dropped meanwhile change nothing of it.
    """

    __slots__ = ("_steps", "first_seq")

    def __init__(self, steps: Sequence[_Step], first_seq: int) -> None:
        self._steps = steps
        self.first_seq = first_seq
        """Number of the first of them, as a journal counts."""

    def __len__(self) -> int:
        return len(self._steps)

    def records(self, start: int = 0, stop: int | None = None) -> Iterator[Record]:
        """Those of these places, counted from 0."""
        for index, (now_ns, event, commands) in enumerate(self._steps[start:stop], start):
            yield Record(
                seq=self.first_seq + index, now_ns=now_ns, event=event, commands=list(commands)
            )


class RecentSteps:
    """An observer that keeps the last steps.

    Args:
        steps_max: how many; 0 keeps none.

    Invariants: the steps kept are the last ones, without a gap, and the last of them has the number
    ``next_seq - 1``.
    """

    def __init__(self, steps_max: int) -> None:
        self._steps: deque[_Step] = deque(maxlen=steps_max)
        self.next_seq = 0
        """Number of the step that comes next, as a journal counts them."""

    def __len__(self) -> int:
        return len(self._steps)

    def __call__(self, now_ns: int, event: Event, commands: list[Command]) -> None:
        """Keep one step."""
        self._steps.append((now_ns, event, tuple(commands)))
        self.next_seq += 1

    @property
    def first_seq(self) -> int:
        """Number of the oldest step that is kept."""
        return self.next_seq - len(self._steps)

    def since(self, seq: int) -> Iterator[Record]:
        """The steps from this number on, or from the oldest that is kept.

        Take all of them before the next step is made: the deque must not change meanwhile.
        """
        start_seq = min(max(seq, self.first_seq), self.next_seq)
        for index, (now_ns, event, commands) in enumerate(self.steps_since(start_seq)):
            yield Record(seq=start_seq + index, now_ns=now_ns, event=event, commands=list(commands))

    def steps_since(self, seq: int) -> Iterable[_Step]:
        """The same without a Record of each: instant, event and commands.

        Args:
            seq: of a step that is kept, or the number that comes next.

        Cost: the deque is walked from its nearer end.
        """
        skipped, count = seq - self.first_seq, self.next_seq - seq
        if skipped <= count:
            return islice(self._steps, skipped, None)
        last = list(islice(reversed(self._steps), count))
        last.reverse()
        return last

    def after(self, at_ns: int) -> Iterator[Record]:
        """The steps at this instant and later, as `since` gives them."""
        count = 0
        for now_ns, _, _ in reversed(self._steps):
            if now_ns < at_ns:
                break
            count += 1
        return self.since(self.next_seq - count)

    def hold(self, at_ns: int) -> HeldSteps:
        """The steps at this instant and later, to be read while further ones are made.

        Cost: a pointer for each step that is kept, and a bisection.
        """
        steps = list(self._steps)
        start = bisect_left(steps, at_ns, key=_instant_of)
        return HeldSteps(steps[start:], self.first_seq + start)


def _instant_of(step: _Step) -> int:
    return step[0]
