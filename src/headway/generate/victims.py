"""Whom to preempt, for whom: only for somebody more important, and no more than that one needs.

Of those that may be taken the least important go first, and among them whoever loses the least work
for each block it frees. Nobody is taken before it has had its quantum of steps since it began or
went on, nor more often than `preempts_max` times: one request must not be the victim for ever, and
work that is thrown away again and again is the most expensive there is.

If all that may be taken together would not free enough, nobody is taken: a victim for nothing helps
nobody.

Knows candidates with their figures. Refuses to know how they are preempted.
"""

from collections.abc import Iterable

from msgspec import Struct

from headway.generate.sequence import Sequence

__all__ = ["Candidate", "VictimSettings", "choose_victims"]


class VictimSettings(Struct, frozen=True, kw_only=True):
    """Who may be taken."""

    quantum_steps: int = 8
    """Steps that a sequence has after it began, or went on."""
    preempts_max: int = 2
    """Times that a sequence is preempted at most. Then it goes on only with room up to its cap."""

    def __post_init__(self) -> None:
        if min(self.quantum_steps, self.preempts_max) < 0:
            raise ValueError("neither a quantum nor a number of preemptions is below 0")

    def may_take(self, sequence: Sequence) -> bool:
        """Whether it may be preempted for somebody more important."""
        return (
            sequence.preempt_count < self.preempts_max and sequence.ran_steps >= self.quantum_steps
        )


class Candidate(Struct, frozen=True, gc=False):
    """Somebody who may be preempted."""

    sequence: Sequence
    blocks: int
    """That would be free."""
    lost_ns: float
    """What the cheaper way of preempting it costs."""


def choose_victims(candidates: Iterable[Candidate], blocks_needed: int) -> list[Sequence]:
    """The fewest good victims that free so many blocks; none where all would not be enough."""
    if blocks_needed <= 0:
        return []
    order = sorted(
        [each for each in candidates if each.blocks > 0],
        key=lambda each: (
            -each.sequence.priority,
            each.lost_ns / each.blocks,
            -each.sequence.params.arrived_at_ns,
            -each.sequence.sequence_id,
        ),
    )
    taken: list[Candidate] = []
    freed = 0
    for candidate in order:
        if freed >= blocks_needed:
            break
        taken.append(candidate)
        freed += candidate.blocks
    if freed < blocks_needed:
        return []
    # Those taken first may be more than the last one left to be done: give back who is not needed,
    # the most important first.
    for candidate in reversed(taken[:-1]):
        if freed - candidate.blocks >= blocks_needed:
            taken.remove(candidate)
            freed -= candidate.blocks
    return [candidate.sequence for candidate in taken]
