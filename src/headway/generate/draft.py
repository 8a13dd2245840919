"""A step plan while it is being made.

Knows which sequences are in it with how many tokens. Refuses to know why.
"""

from collections.abc import Iterator

from headway.generate.events import Load, Preempted, StepPlan, Work
from headway.generate.names import SequenceId
from headway.generate.sequence import Sequence, urgency_of

__all__ = ["Draft"]


class Draft:
    """What the next step will do.

    Invariants: a sequence is in it once at most; ``tokens`` is the sum of what is in it.
    """

    def __init__(self, step_index: int) -> None:
        self.step_index = step_index
        self.decodes: dict[SequenceId, Sequence] = {}
        self.chunks: dict[SequenceId, tuple[Sequence, int]] = {}
        self.preempted: list[Preempted] = []
        self.loads: list[Load] = []
        self.prefill_tokens = 0
        self.tokens_max = 0
        self._latest_first: list[Sequence] | None = None

    @property
    def count(self) -> int:
        """Sequences in the step."""
        return len(self.decodes) + len(self.chunks)

    @property
    def tokens(self) -> int:
        """Tokens in the step."""
        return len(self.decodes) + self.prefill_tokens

    def chunk(self, sequence: Sequence, tokens: int) -> None:
        """A part of what a sequence has to have computed, or the rest."""
        assert tokens > 0
        assert sequence.sequence_id not in self.chunks
        self.chunks[sequence.sequence_id] = (sequence, tokens)
        self.prefill_tokens += tokens

    def leave(self, sequence: Sequence) -> None:
        """A sequence is not in the step after all."""
        self.decodes.pop(sequence.sequence_id, None)
        chunk = self.chunks.pop(sequence.sequence_id, None)
        if chunk is not None:
            self.prefill_tokens -= chunk[1]

    def cut(self, sequence: Sequence, start: int, tokens: int) -> None:
        """A sequence has fewer tokens in the step than planned, or begins elsewhere."""
        self.leave(sequence)
        if tokens > 0:
            sequence.computed_tokens = start
            self.chunk(sequence, tokens)

    def latest_first(self) -> Iterator[Sequence]:
        """Those who decode in the step, the least urgent first."""
        if self._latest_first is None:
            self._latest_first = sorted(self.decodes.values(), key=urgency_of, reverse=True)
        for sequence in self._latest_first:
            if sequence.sequence_id in self.decodes:
                yield sequence

    def plan(self) -> StepPlan:
        """What the host is told."""
        work = []
        context_tokens = pair_tokens = 0
        for sequence_id, sequence in self.decodes.items():
            context_tokens += sequence.known_tokens
            work.append(Work(sequence_id, sequence.computed_tokens, 1, True))
        for sequence_id, (sequence, tokens) in self.chunks.items():
            start = sequence.computed_tokens
            context_tokens += start + tokens
            pair_tokens += tokens * start + tokens * tokens // 2
            is_last = start + tokens == sequence.known_tokens
            work.append(Work(sequence_id, start, tokens, is_last))
        return StepPlan(
            step_index=self.step_index,
            preempted=tuple(self.preempted),
            loads=tuple(self.loads),
            work=tuple(work),
            prefill_tokens=self.prefill_tokens,
            decode_count=len(self.decodes),
            context_tokens=context_tokens,
            pair_tokens=pair_tokens,
            tokens_max=self.tokens_max,
        )
