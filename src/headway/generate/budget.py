"""How many tokens a step may have: from the time that those in it can spare, not from a constant.

A step lasts as long for whoever decodes in it as its prompts make it. So prompt tokens join only as
far as the tightest decoding sequence allows, one that is as important as the prompt or more: a
batch job's pace does not slow an urgent prompt down, and an urgent one's pace slows a batch job's
prompt. Sarathi-Serve (Agrawal et al., OSDI 2024) sets its budget by such a target once; here it is
computed for each step and each class.

And no step lasts longer than half of the tightest target for first tokens (`step_ratio`): whoever
comes while it runs can do nothing but wait for its end.

Below that limit there are three speeds:

- *What rides for nothing.* Some prompt tokens cost a decoding step no time (`StepLaw.free_tokens`).
  They always join: work that is spread over steps like this is work that costs nothing.
- *What its target asks for.* A prompt that would not be through in time at that pace has more; one
  of a gated tier that is late by more than its whole target has lost what haste would buy.
- *Everything, where memory stands empty.* A prompt that waits keeps one more sequence from
  decoding. With m of n sequences in prefill, a step of time t and a prompt token costing a, F
  tokens more a step bring those m on by a step, worth t m / n, and cost a F: so all speed up once m
  / n >= a F / t.

Knows dues and a law. Refuses to know tags and memory.
"""

from collections.abc import Iterable
from math import ceil
from typing import Final

from headway.generate.sequence import ALLOWANCE_MAX, Sequence
from headway.generate.settings import StepSettings
from headway.generate.step_times import StepLaw

__all__ = ["StepBudget"]

_FOR_EVER_NS: Final = 1 << 62


class StepBudget:
    """Tokens of one step.

    Args:
        law: how long a step takes.
        settings: what can be tuned.
        tokens_max: of the engine.
        now_ns: when the step begins.
        ttft_ns: the tightest target for first tokens; None where there is none.
    """

    def __init__(
        self,
        law: StepLaw,
        settings: StepSettings,
        tokens_max: int,
        now_ns: int,
        ttft_ns: int | None = None,
    ) -> None:
        self._law = law
        self._settings = settings
        self._tokens_max = tokens_max
        self._now_ns = now_ns
        self._step_ns_max = None if ttft_ns is None else settings.step_ratio * ttft_ns
        self._allowances: dict[int, int] = {}
        """Priority -> the least that one of it can wait for its next token."""
        self._decode_ns = max(1.0, law.base_ns)
        self._decode_count = 0
        self._ride_tokens = max(law.free_tokens, settings.chunk_tokens_min)
        """Prompt tokens that always join."""
        self.is_rush = False

    def decodes(self, decoding: Iterable[Sequence]) -> None:
        """These decode in the step."""
        due_at_ns: dict[int, int] = {}
        tpots_ns: dict[int, int] = {}
        context_tokens = count = 0
        for sequence in decoding:
            context_tokens += sequence.known_tokens
            count += 1
            # The least `Sequence.allowance_ns`, written out: this is the inmost loop of a plan.
            tpot_ns, first_at_ns = sequence.tpot_ns, sequence.first_token_at_ns
            if tpot_ns is None or first_at_ns is None:
                continue
            priority = sequence.priority
            next_at_ns = first_at_ns + sequence.generated * tpot_ns
            if next_at_ns < due_at_ns.get(priority, _FOR_EVER_NS):
                due_at_ns[priority] = next_at_ns
            if tpot_ns != tpots_ns.get(priority):
                tpots_ns[priority] = min(tpot_ns, tpots_ns.get(priority, tpot_ns))
        for priority, at_ns in due_at_ns.items():
            most_ns = ALLOWANCE_MAX * tpots_ns[priority]
            self._allowances[priority] = min(at_ns - self._now_ns, most_ns)
        self._decode_count = count
        law = self._law
        self._decode_ns = max(1.0, law.base_ns, law.step_ns(0, count, context_tokens))
        self._ride_tokens = max(law.riding_tokens(count), self._settings.chunk_tokens_min)

    def judge_rush(self, prefilling_count: int) -> None:
        """So many have, or could have, memory and wait for their prompt to be computed."""
        count = prefilling_count + self._decode_count
        law = self._law
        self.is_rush = (
            count > 0
            and prefilling_count * self._decode_ns
            >= law.prefill_ns * law.riding_tokens(self._decode_count) * count
        )

    def tokens_of(self, priority: int) -> int:
        """Prompt tokens that the step may have for a class, with those of the classes before it."""
        room = self._tokens_max - self._decode_count
        if self._step_ns_max is not None:
            spare_ns = self._step_ns_max - self._decode_ns
            tokens = self._law.prefill_within(spare_ns, self._decode_count)
            room = min(room, max(tokens, self._ride_tokens))
        least = [
            allowance_ns for each, allowance_ns in self._allowances.items() if each <= priority
        ]
        if not least:
            return room
        tokens = self._law.prefill_within(min(least) - self._decode_ns, self._decode_count)
        return min(room, max(tokens, self._ride_tokens))

    def chunk_of(
        self, sequence: Sequence, used_tokens: int, *, begun_at: int = 0, part: float = 1.0
    ) -> int:
        """Tokens of a prompt in this step, when others have had so many; 0 for none.

        Args:
            sequence: whose prompt.
            used_tokens: prompt tokens that the step has already.
            begun_at: that it had when the turn of the class began.
            part: of what is left for the class from there, what the sequence's lane may have.
        """
        limit = self.tokens_of(sequence.priority)
        if not self.is_rush:
            limit = min(limit, max(self._ride_tokens, used_tokens + self._hurried(sequence)))
        if part < 1.0:
            limit = begun_at + ceil((limit - begun_at) * part)
        return max(0, min(limit - used_tokens, sequence.remaining_tokens))

    def _hurried(self, sequence: Sequence) -> int:
        """Tokens that its target asks for in this step."""
        due_at_ns = sequence.due_ttft_at_ns
        if due_at_ns is None or sequence.first_token_at_ns is not None:
            return 0
        left_ns = due_at_ns - self._now_ns
        remaining = sequence.remaining_tokens
        if left_ns <= 0:
            late_most_ns = due_at_ns - sequence.params.arrived_at_ns
            is_lost = sequence.params.terms.is_gated and -left_ns >= late_most_ns
            return 0 if is_lost else remaining
        steps = int(left_ns * self._settings.haste_ratio / self._decode_ns)
        return remaining if steps <= 1 else -(-remaining // steps)
