"""The most that keys and values will take, if all that run end when they are foreseen to.

Sequences grow by a token a step and give everything back at their end. With the i-th longest to go
having r_i steps left and holding h_i tokens, at the end of the k-th exactly the first k still run:

    peak = max over k of (h_1 + ... + h_k + k r_k),   r_1 >= r_2 >= ...

Admitting by what is free now would fill the memory with sequences that then push each other out;
admitting by the cap of each would leave most of it empty.

Knows tokens. Refuses to know sequences.
"""

from bisect import insort
from collections.abc import Iterable

__all__ = ["PeakForecast"]


class PeakForecast:
    """What those that run will take at most, and with a few more.

    Cost: O(n) a question, less where it is far from the limit; O(n log n) once.
    """

    def __init__(self, running: Iterable[tuple[int, int]]) -> None:
        """Take in (tokens left to generate, tokens held) of each that runs."""
        self._entries = sorted([(-left, held) for left, held in running])
        self._held_sum = sum([held for _, held in self._entries])
        self._end_sum = self._held_sum - sum([left for left, _ in self._entries])

    def fits(self, left: int, held: int, limit: int) -> bool:
        """Whether the peak stays within a limit if this one runs, too; it is not taken in."""
        if self._end_sum + held + left <= limit:
            return True  # even if all were as long as they will be at once
        if self._held_sum + held > limit:
            return False  # even now
        return self.with_one_more(left, held) <= limit

    def with_one_more(self, left: int, held: int) -> int:
        """The peak if this one ran, too; it is not taken in."""
        entries = self._entries.copy()
        insort(entries, (-left, held))
        return _peak(entries)

    def admit(self, left: int, held: int) -> None:
        """This one runs now."""
        insort(self._entries, (-left, held))
        self._held_sum += held
        self._end_sum += held + left

    @property
    def tokens(self) -> int:
        """The peak of those that run."""
        return _peak(self._entries)


def _peak(entries: Iterable[tuple[int, int]]) -> int:
    peak = held_sum = 0
    for count, (minus_left, held) in enumerate(entries, start=1):
        held_sum += held
        tokens = held_sum - count * minus_left
        peak = max(peak, tokens)
    return peak
