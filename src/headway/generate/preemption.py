"""Preempting: for whom, whom, and by which way, with the books of all that are touched.

Knows the roster, the rules for victims and the rule of recomputing or swapping. Refuses to know who
asks for memory, but for how important that one is.
"""

from collections.abc import Callable, Iterator

from headway.generate.draft import Draft
from headway.generate.events import PreemptWay
from headway.generate.roster import Roster
from headway.generate.sequence import Sequence, urgency_of
from headway.generate.step_times import StepLaw
from headway.generate.swap import CopyLaw, SwapRule, SwapSettings
from headway.generate.victims import Candidate, VictimSettings, choose_victims

__all__ = ["Preemption"]


class Preemption:
    """Takes memory from some for others.

    Args:
        roster: who is in the engine.
        victims: who may be taken.
        swap: how.
        copies: what a copy takes, until it has been seen.
        requeue: told of each victim, which then waits again.
    """

    def __init__(
        self,
        roster: Roster,
        victims: VictimSettings,
        swap: SwapSettings,
        copies: CopyLaw,
        requeue: Callable[[Sequence], None],
    ) -> None:
        self.rule = SwapRule(swap, copies)
        self._roster = roster
        self._victims = victims
        self._requeue = requeue

    def is_protected(self, sequence: Sequence) -> bool:
        """Whether it was a victim so often that it must not be one again.

        It is given room up to its cap before it goes on, and so never needs a block that could be
        missing.
        """
        return sequence.preempt_count >= self._victims.preempts_max

    def make_room(
        self, sequence: Sequence, blocks: int, draft: Draft, law: StepLaw, now_ns: int
    ) -> bool:
        """Free so many blocks for a sequence that is to begin, from less important ones."""
        candidates = [
            self._candidate(each, law)
            for each in self._residents(draft)
            if each.priority > sequence.priority and self._victims.may_take(each)
        ]
        chosen = choose_victims(candidates, blocks)
        for victim in chosen:
            self.preempt(victim, draft, law, now_ns)
        return bool(chosen)

    def make_room_to_grow(
        self, sequence: Sequence, draft: Draft, law: StepLaw, now_ns: int
    ) -> bool:
        """Free a block for one that decodes.

        From the less important, as for a beginner; else from whoever comes after it in order of
        urgency, for one of the two has to go without.
        """
        if self.make_room(sequence, 1, draft, law, now_ns):
            return True
        own = urgency_of(sequence)
        after = [
            self._candidate(each, law)
            for each in self._residents(draft)
            if urgency_of(each) > own and not self.is_protected(each)
        ]
        after = [candidate for candidate in after if candidate.blocks > 0]
        if not after:
            return False
        last = max(after, key=lambda candidate: urgency_of(candidate.sequence))
        self.preempt(last.sequence, draft, law, now_ns)
        return True

    def evict_to(self, low_ratio: float, draft: Draft, law: StepLaw, now_ns: int) -> None:
        """The textbook form: the least important with the most memory, down to the low mark."""
        order = sorted(
            self._residents(draft), key=lambda each: (-each.priority, -each.known_tokens)
        )
        for sequence in order[:-1]:
            if self._roster.pool.use_ratio <= low_ratio:
                return
            self.preempt(sequence, draft, law, now_ns)

    def preempt(self, sequence: Sequence, draft: Draft, law: StepLaw, now_ns: int) -> None:
        """Stop a sequence by the cheaper way; it waits again."""
        kept_tokens = self._kept_tokens(sequence)
        way = self.rule.choose(sequence.computed_tokens, kept_tokens, law)
        self._roster.preempt(sequence, way, draft, now_ns, kept_tokens=kept_tokens)
        if way is PreemptWay.SWAP:
            self.rule.swapped_out(sequence.host_tokens)
        self._requeue(sequence)

    def _residents(self, draft: Draft) -> Iterator[Sequence]:
        """All that hold memory and have no prompt in the step that is being planned."""
        for home in (self._roster.decoding, self._roster.prefilling):
            for sequence_id, sequence in home.items():
                if sequence_id not in draft.chunks:
                    yield sequence

    def _candidate(self, sequence: Sequence, law: StepLaw) -> Candidate:
        kept_tokens = self._kept_tokens(sequence)
        lost_ns = min(
            [
                self.rule.cost_ns(way, sequence.computed_tokens, kept_tokens, law)
                for way in self.rule.settings.ways
            ]
        )
        return Candidate(sequence, self._roster.pool.freed_by(sequence.sequence_id), lost_ns)

    def _kept_tokens(self, sequence: Sequence) -> int:
        """Of what it has computed, what others hold as well."""
        return min(
            self._roster.pool.prefix_with_others(sequence.sequence_id), sequence.computed_tokens
        )
