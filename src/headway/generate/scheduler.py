"""`headway` inside an engine: which sequences run in the next step, and with how many tokens.

A plan is made in four moves:

1. Who decodes (`decoding`): all that memory, slots and the pace of the more important allow. Each
   takes the block that its next token needs.
2. How many prompt tokens may join (`budget`), by class.
3. Class by class, the most important first: prompts that were begun go on, then those that wait
   begin (`lines`), short ones before long ones but for the long lane's part. To begin, a
   sequence needs memory for its whole prompt; a gated tier also an open gate (`watermark`) and a
   peak that fits (`peak`). A sequence that lacks memory may take it from less important ones
   (`victims`), each of which is recomputed or swapped (`swap`), or a slot, whose owner pauses.
4. What the step serves is charged to tags (`credits`) and classes (`aging`).

Whoever heads a line and does not fit holds back those behind it and all less important ones: to
let smaller ones pass would starve the large. Only the other lane of its class goes on, until it
has waited for too long.

Knows all rules of this folder. Refuses to know an engine, a clock, and what tokens say.
"""

from typing import Final

from headway.core import TenantId
from headway.generate.aging import Aging
from headway.generate.blocks import BlockPool, KvAccount
from headway.generate.budget import StepBudget
from headway.generate.decoding import pick_for_slots, trim_for_pace, with_owed
from headway.generate.door import Door, ttft_due_at_ns
from headway.generate.draft import Draft
from headway.generate.events import (
    Answer,
    CopyFinished,
    Event,
    Refused,
    SequenceArrived,
    SequenceCancelled,
    SequenceLost,
    StepCut,
    StepFinished,
    StepPlan,
    Work,
)
from headway.generate.lengths import OutputLengths
from headway.generate.lines import ClassLine
from headway.generate.names import Phase, SequenceId, SequenceParams
from headway.generate.peak import PeakForecast
from headway.generate.preemption import Preemption
from headway.generate.roster import Roster
from headway.generate.sequence import Sequence, urgency_of
from headway.generate.settings import EngineLimits, StepSettings
from headway.generate.step_times import StepTimes
from headway.generate.watermark import MarkAction, Watermark

__all__ = ["HeadwayScheduler"]

_ROUNDS_OF_VICTIMS: Final = 3
"""Victims that shared a prefix with whoever needs room leave it a little short; then more go."""
_PROMPTS_FOR_A_RULE: Final = 64
"""Of fewer prompts nobody can say what is the rule."""


class HeadwayScheduler:
    """The step scheduler that keeps tiers, shares and targets.

    Args:
        limits: of the engine.
        settings: what can be tuned.
        pool: the account of memory, where the engine has one of its own.

    Invariants: those of `Roster`; a step has no more tokens and sequences than the engine takes;
    no sequence is preempted more often than its settings say, evictions at the mark apart.
    """

    name = "headway"

    def __init__(
        self,
        limits: EngineLimits,
        settings: StepSettings | None = None,
        pool: KvAccount | None = None,
    ) -> None:
        self.limits = limits
        self.settings = settings = settings or StepSettings()
        self.roster = Roster(pool or BlockPool(limits.blocks, limits.block_tokens))
        self.times = StepTimes(limits.law)
        self.lengths = OutputLengths(settings.output_level)
        self.watermark = Watermark(settings.watermark)
        self.aging = Aging(settings.aging)
        self.preemption = Preemption(
            self.roster, settings.victims, settings.swap, limits.copies, self._requeue
        )
        self._door = Door(limits)
        self._lines: dict[int, ClassLine] = {}
        self._ttfts_ns: dict[int, int | None] = {}
        """Priority -> its target for first tokens, as last heard."""
        self._step: tuple[Draft, StepPlan] | None = None
        self._step_count = 0
        self._prompts = 0
        self._prompt_tokens = 0
        self._long_prompts = 0
        self._peak: PeakForecast | None = None

    @property
    def pool(self) -> KvAccount:
        """The account of memory for keys and values."""
        return self.roster.pool

    @property
    def waiting_count(self) -> int:
        """Sequences that hold no memory."""
        return sum([line.count for line in self._lines.values()])

    def line(self, priority: int) -> ClassLine:
        """Who waits in a class."""
        line = self._lines.get(priority)
        if line is None:
            line = self._lines[priority] = ClassLine(self.settings.credits)
            self._lines = dict(sorted(self._lines.items()))
        return line

    # -- events ------------------------------------------------------------------------------------

    def handle(self, event: Event, now_ns: int) -> list[Answer]:
        """Take in what has happened."""
        match event:
            case SequenceArrived(sequence=params):
                return [self._arrive(params)]
            case SequenceCancelled(sequence_id=sequence_id):
                sequence = self.roster.sequences.get(sequence_id)
                if sequence is not None:
                    self._end(sequence)
            case SequenceLost(sequence_id=sequence_id):
                self._lose(sequence_id, now_ns)
            case StepCut(work=work):
                self._cut(work)
            case StepFinished():
                self._finish_step(event, now_ns)
            case CopyFinished():
                self._finish_copy(event)
        return []

    def _arrive(self, params: SequenceParams) -> Answer:
        answer = self._door.judge(params, self.times.law, self.waiting_count)
        if isinstance(answer, Refused):
            return answer
        sequence = Sequence(params, ttft_due_at_ns(params, answer.ttft_ns_min))
        foreseen = self.lengths.foresee(
            params.model, params.tag, tokens_max=params.output_tokens_max
        )
        sequence.foreseen_tokens = sequence.first_foreseen = foreseen
        is_long = params.prompt_tokens + foreseen >= self.settings.long_tokens
        self._prompts += 1
        self._prompt_tokens += params.prompt_tokens
        self._long_prompts += is_long
        # Where long ones are the rule they have no lane: it would only put the longest off.
        exceptions = max(_PROMPTS_FOR_A_RULE, self._prompts) * self.settings.long_part_max
        sequence.is_long = is_long and self._long_prompts <= exceptions
        self._ttfts_ns[sequence.priority] = params.terms.ttft_ns
        self.roster.add(sequence)
        self.line(sequence.priority).add(sequence)
        return answer

    def _cut(self, work: tuple[Work, ...]) -> None:
        assert self._step is not None, "a step was cut that was not planned"
        for each in work:
            sequence = self.roster.sequences.get(each.sequence_id)
            if sequence is not None:
                self._step[0].cut(sequence, each.start, each.tokens)

    def _lose(self, sequence_id: SequenceId, now_ns: int) -> None:
        sequence = self.roster.sequences.get(sequence_id)
        if sequence is None or not sequence.is_resident:
            return
        if self._step is not None:
            self._step[0].leave(sequence)
        self.roster.lose(sequence, now_ns)
        self._requeue(sequence)

    def _finish_step(self, event: StepFinished, now_ns: int) -> None:
        assert self._step is not None, "a step finished that was not planned"
        (draft, plan), self._step = self._step, None
        ended = set(event.ended)
        for sequence in self.roster.advance(draft, now_ns):
            params = sequence.params
            is_capped = sequence.generated >= params.output_tokens_max
            if is_capped or sequence.sequence_id in ended:
                self._complete(sequence)
            elif sequence.generated >= sequence.foreseen_tokens:
                sequence.foreseen_tokens = self.lengths.foresee(
                    params.model,
                    params.tag,
                    generated=sequence.generated,
                    tokens_max=params.output_tokens_max,
                )
        if self.settings.learns and event.step_ns > 0:
            self.times.finished(
                event.step_ns,
                prefill_tokens=plan.prefill_tokens,
                decode_count=plan.decode_count,
                context_tokens=plan.context_tokens,
                pair_tokens=plan.pair_tokens,
            )

    def _finish_copy(self, event: CopyFinished) -> None:
        if self.settings.learns and event.copy_ns > 0:
            self.preemption.rule.copied(event.tokens, event.copy_ns)
        if event.is_load:
            sequence = self.roster.loaded(event.sequence_id)
            if sequence is not None:
                self.preemption.rule.left_host(event.tokens)

    def _complete(self, sequence: Sequence) -> None:
        params = sequence.params
        self.lengths.ended(params.model, params.tag, sequence.generated, sequence.first_foreseen)
        self._end(sequence)

    def _end(self, sequence: Sequence) -> None:
        if sequence.phase in (Phase.WAITING, Phase.SWAPPED):
            self.line(sequence.priority).remove(sequence)
        if sequence.phase in (Phase.SWAPPED, Phase.LOADING):
            self.preemption.rule.left_host(sequence.host_tokens)
        self.roster.end(sequence)

    def _requeue(self, sequence: Sequence) -> None:
        self.line(sequence.priority).add(sequence)

    # -- plans -------------------------------------------------------------------------------------

    def plan(self, now_ns: int) -> StepPlan | None:
        """The next step; one without work has only copies to begin, and is not reported."""
        assert self._step is None, "the last step has not finished"
        draft = Draft(self._step_count)
        law = self.times.law
        self._peak = None
        marks = self.settings.watermark
        if marks.action is MarkAction.EVICT and self.pool.use_ratio >= marks.high_ratio:
            self.preemption.evict_to(marks.low_ratio, draft, law, now_ns)
        self._decode(draft, now_ns)
        self.watermark.look(self.pool.use_ratio)
        ttft_ns = min([each for each in self._ttfts_ns.values() if each is not None], default=None)
        budget = StepBudget(law, self.settings, self.limits.step_tokens_max, now_ns, ttft_ns)
        budget.decodes(draft.decodes.values())
        budget.judge_rush(len(self.roster.prefilling) + self._could_begin())
        may_begin = self._promote(draft, budget, now_ns)
        for priority in tuple(self._lines):
            may_begin = self._prefill(priority, draft, budget, now_ns, may_begin=may_begin)
        return self._settle(draft, budget)

    def _decode(self, draft: Draft, now_ns: int) -> None:
        """Who decodes, each with a block for its token."""
        law, roster = self.times.law, self.roster
        decoding = list(roster.decoding.values())
        if len(decoding) > self.limits.sequences_max:
            decoding = pick_for_slots(
                decoding, lambda priority: self.line(priority).credits, self.limits.sequences_max
            )
        decoding = trim_for_pace(decoding, law, now_ns)
        if len(decoding) < len(roster.decoding):
            decoding = with_owed(decoding, roster.decoding.values(), self.aging.is_owed)
        draft.decodes = {sequence.sequence_id: sequence for sequence in decoding}
        needy = [each for each in decoding if each.known_tokens > each.room_tokens]
        for sequence in sorted(needy, key=urgency_of):
            while sequence.sequence_id in draft.decodes:
                if roster.grow(sequence, sequence.known_tokens):
                    break
                if not self.preemption.make_room_to_grow(sequence, draft, law, now_ns):
                    draft.leave(sequence)

    def _could_begin(self) -> int:
        """About how many of those that wait there is memory for."""
        count = self.waiting_count
        if count == 0 or not self.watermark.is_open:
            return 0
        slots = self.limits.sequences_max - len(self.roster.decoding) - len(self.roster.prefilling)
        blocks_each = self.pool.blocks_of(max(1, self._prompt_tokens // max(1, self._prompts)))
        return max(0, min(count, slots, self.pool.free_count // blocks_each))

    def _promote(self, draft: Draft, budget: StepBudget, now_ns: int) -> bool:
        """A class that is owed something goes first; returns whether others may begin then.

        One that has begun its prompt goes on with it, else whoever has waited longest begins.
        """
        roster = self.roster
        aged = {each for each in self._lines if self._is_aged(each, now_ns)}
        for home in (roster.prefilling, roster.decoding):
            if home is roster.decoding and len(draft.decodes) == len(home):
                continue  # nobody pauses
            for sequence in home.values():
                if self.aging.is_aged(now_ns - sequence.waits_since_ns):
                    aged.add(sequence.priority)
        for priority, line in self._lines.items():
            self.aging.waits(priority, is_aged=priority in aged)
            if not self.aging.is_owed(priority):
                continue
            begun = [each for each in roster.prefilling.values() if each.priority == priority]
            oldest = line.oldest() if not begun else min(begun, key=urgency_of)
            if oldest is None:
                continue
            if not begun and not self._begin(oldest, draft, now_ns, is_promoted=True):
                return False
            self._chunk(oldest, draft, budget)
        return True

    def _prefill(
        self, priority: int, draft: Draft, budget: StepBudget, now_ns: int, *, may_begin: bool
    ) -> bool:
        """The prompts of a class; returns whether less important ones may begin."""
        line = self._lines[priority]
        begun: tuple[list[Sequence], list[Sequence]] = ([], [])
        for sequence in self.roster.prefilling.values():
            if sequence.priority == priority and sequence.sequence_id not in draft.chunks:
                begun[sequence.is_long].append(sequence)
        if not line.count and not begun[0] and not begun[1]:
            return may_begin
        has_both = self._has_work(line, begun[0], is_long=False) and self._has_work(
            line, begun[1], is_long=True
        )
        begun_at, held_back = draft.prefill_tokens, False
        for is_long in (False, True):
            part = 1.0 - self.settings.long_ratio if has_both and not is_long else 1.0
            for sequence in begun[is_long]:
                self._chunk(sequence, draft, budget, begun_at=begun_at, part=part)
            while may_begin and not (held_back and self._is_aged(priority, now_ns)):
                head = line.next(self.times.law.prefill_ns, is_long=is_long)
                if head is None:
                    break
                used = draft.prefill_tokens
                if not budget.chunk_of(head, used, begun_at=begun_at, part=part):
                    break
                if not self._begin(head, draft, now_ns):
                    held_back = True
                    break
                self._chunk(head, draft, budget, begun_at=begun_at, part=part)
        return may_begin and not held_back

    def _has_work(self, line: ClassLine, begun: list[Sequence], *, is_long: bool) -> bool:
        return bool(begun) or line.has_waiting(is_long=is_long)

    def _is_aged(self, priority: int, now_ns: int) -> bool:
        since_ns = self._lines[priority].waits_since_ns()
        return since_ns is not None and self.aging.is_aged(now_ns - since_ns)

    def _chunk(
        self,
        sequence: Sequence,
        draft: Draft,
        budget: StepBudget,
        *,
        begun_at: int = 0,
        part: float = 1.0,
    ) -> None:
        """Give a resident sequence its prompt tokens of this step, if there are any, and a slot."""
        if sequence.phase is not Phase.PREFILL:
            return
        tokens = budget.chunk_of(sequence, draft.prefill_tokens, begun_at=begun_at, part=part)
        if tokens <= 0:
            return
        if draft.count >= self.limits.sequences_max:
            paused = self._pauses_for(sequence, draft)
            if paused is None:
                return
            draft.leave(paused)
            budget.decodes(draft.decodes.values())  # whose pace counts, and what rides, has changed
            tokens = budget.chunk_of(sequence, draft.prefill_tokens, begun_at=begun_at, part=part)
        draft.chunk(sequence, tokens)

    def _begin(
        self, sequence: Sequence, draft: Draft, now_ns: int, *, is_promoted: bool = False
    ) -> bool:
        """Give a waiting sequence memory and a slot; False where it must wait on."""
        params, pool = sequence.params, self.pool
        room_tokens = sequence.known_tokens + 1
        if self.preemption.is_protected(sequence):
            room_tokens = params.prompt_tokens + params.output_tokens_max
        if params.terms.is_gated and not is_promoted and not self._is_let_in(sequence):
            return False
        if draft.count >= self.limits.sequences_max and not self._pauses_for(sequence, draft):
            return False
        for _ in range(_ROUNDS_OF_VICTIMS + 1):
            blocks = pool.blocks_to_start(params.prefix_keys, sequence.known_tokens, room_tokens)
            short = blocks - pool.free_count
            if short <= 0:
                break
            law = self.times.law
            if not self.preemption.make_room(sequence, short, draft, law, now_ns):
                return False
        else:
            return False
        self.line(sequence.priority).remove(sequence)
        if sequence.phase is Phase.SWAPPED:
            prefix_tokens = pool.prefix_tokens(params.prefix_keys, sequence.known_tokens)
            if prefix_tokens >= sequence.host_start:
                self.roster.load(sequence, room_tokens, draft)
                return True
            self.preemption.rule.left_host(sequence.host_tokens)
            self.roster.forget_host(sequence)
        has_begun = self.roster.start(sequence, room_tokens)
        assert has_begun
        if self._peak is not None:
            self._peak.admit(sequence.left_foreseen, sequence.known_tokens)
        return True

    def _is_let_in(self, sequence: Sequence) -> bool:
        """Whether the gate is open, and the peak with this one fits."""
        if not self.watermark.look(self.pool.use_ratio):
            return False
        roster = self.roster
        if not roster.decoding and not roster.prefilling and not roster.loading:
            return True
        if self._peak is None:
            homes = (roster.decoding, roster.prefilling, roster.loading)
            self._peak = PeakForecast(
                [
                    (each.left_foreseen, each.known_tokens)
                    for home in homes
                    for each in home.values()
                ]
            )
        return self._peak.fits(sequence.left_foreseen, sequence.known_tokens, self.limits.kv_tokens)

    def _pauses_for(self, sequence: Sequence, draft: Draft) -> Sequence | None:
        """Who would give up a slot in this step; None where nobody would.

        The last in order of urgency of those who are less important, or whose tag has saved up
        less credit. Tags that have work all the time save nothing up, so they do not push each
        other out of their slots.
        """
        of_tags = self.line(sequence.priority).credits
        saved = of_tags.saved(sequence.tag)
        for each in draft.latest_first():
            if each.priority > sequence.priority:
                return each
            if each.priority < sequence.priority or not saved:
                return None
            if of_tags.saved(each.tag) < saved:
                return each
        return None

    def _settle(self, draft: Draft, budget: StepBudget) -> StepPlan | None:
        """Charge for the step and hand it out."""
        if draft.count == 0 and not draft.loads and not draft.preempted:
            return None
        draft.tokens_max = self.limits.step_tokens_max
        plan = draft.plan()
        assert plan.tokens <= self.limits.step_tokens_max
        self._step_count += 1
        if draft.count == 0:
            return plan
        self._step = (draft, plan)
        riding_tokens = self.times.law.riding_tokens(len(draft.decodes))
        self.preemption.rule.stepped(draft.count, is_full=draft.prefill_tokens > riding_tokens)
        self._charge(draft)
        return plan

    def _charge(self, draft: Draft) -> None:
        """Prompt tokens that are computed for the first time, and tokens that will be there."""
        output: dict[tuple[int, TenantId], int] = {}
        prompt: dict[tuple[int, TenantId], int] = {}
        for sequence in draft.decodes.values():
            account = sequence.account
            output[account] = output.get(account, 0) + 1
        for sequence, tokens in draft.chunks.values():
            account = sequence.account
            through = sequence.computed_tokens + tokens
            unpaid = min(through, sequence.params.prompt_tokens) - sequence.paid_tokens
            paid = min(tokens, max(0, unpaid))
            sequence.paid_tokens += paid
            prompt[account] = prompt.get(account, 0) + paid
            output[account] = output.get(account, 0) + (through == sequence.known_tokens)
        units: dict[int, float] = {}
        for account, output_tokens in output.items():
            priority, tag = account
            of_tags = self.line(priority).credits
            spent = of_tags.spend_tokens(tag, prompt.get(account, 0), output_tokens)
            units[priority] = units.get(priority, 0.0) + spent
        self.aging.served(units)
