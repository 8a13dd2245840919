"""What engines do today, to be compared with: `fcfs` and `priority` as vLLM's V1 has them.

Written from what that scheduler does, not from its code. One loop, with a constant budget of
tokens:

1. Those that run, in the order in which they began: each has what it lacks, within the budget.
   Where one needs a block and none is free, somebody is evicted and recomputed: the one that began
   last under `fcfs`, the least important and latest arrived under `priority`, the needy one itself
   if that is the one.
2. If nobody was evicted, those that wait, as long as there are slots, budget and blocks: under
   `fcfs` in order of arrival, evicted ones first; under `priority` by priority and arrival.

Nobody who waits ever evicts anybody. There are no tenants, no targets, no aging.

The order of the waiting is an object of its own, since that alone is what virtual token counters
(`vtc`) change.
"""

from bisect import insort
from collections import deque
from typing import Protocol

from msgspec import Struct

from headway.generate.blocks import BlockPool, KvAccount
from headway.generate.draft import Draft
from headway.generate.events import (
    Accepted,
    Answer,
    Event,
    PreemptWay,
    Refused,
    RefuseReason,
    SequenceArrived,
    SequenceCancelled,
    StepFinished,
    StepPlan,
)
from headway.generate.names import Phase
from headway.generate.roster import Roster
from headway.generate.sequence import Sequence
from headway.generate.settings import EngineLimits

__all__ = ["FcfsOrder", "PriorityOrder", "StockScheduler", "StockSettings", "WaitingOrder"]


class WaitingOrder(Protocol):
    """Who of the waiting is next, and who of the running goes when memory is short."""

    name: str

    def add(self, sequence: Sequence) -> None:
        """One waits, new or evicted."""

    def remove(self, sequence: Sequence) -> None:
        """One waits no more."""

    def peek(self) -> Sequence | None:
        """The next; None where nobody waits."""

    def victim(self, running: list[Sequence]) -> Sequence:
        """Who goes, of those that run in the order in which they began."""

    def served(self, sequence: Sequence, input_tokens: int, output_tokens: int) -> None:
        """One was served these tokens."""

    def ended(self, sequence: Sequence) -> None:
        """One has ended."""


class FcfsOrder:
    """Arrival; who was evicted goes first."""

    name = "fcfs"

    def __init__(self) -> None:
        self._waiting: deque[Sequence] = deque()

    def add(self, sequence: Sequence) -> None:
        """To the end, or, evicted, to the front."""
        if sequence.preempted_at_ns is None:
            self._waiting.append(sequence)
        else:
            self._waiting.appendleft(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Nearly always the first."""
        self._waiting.remove(sequence)

    def peek(self) -> Sequence | None:
        """The first."""
        return self._waiting[0] if self._waiting else None

    def victim(self, running: list[Sequence]) -> Sequence:
        """The one that began last."""
        return running[-1]

    def served(self, sequence: Sequence, input_tokens: int, output_tokens: int) -> None:
        """Nobody is accounted for."""

    def ended(self, sequence: Sequence) -> None:
        """Nobody is accounted for."""


class PriorityOrder(FcfsOrder):
    """Priority, then arrival, evicted or not."""

    name = "priority"

    def __init__(self) -> None:
        super().__init__()
        self._sorted: list[tuple[int, int, int, Sequence]] = []

    def add(self, sequence: Sequence) -> None:
        """To its place."""
        insort(self._sorted, (*_order_key(sequence), sequence))

    def remove(self, sequence: Sequence) -> None:
        """Nearly always the first."""
        self._sorted.remove((*_order_key(sequence), sequence))

    def peek(self) -> Sequence | None:
        """The first."""
        return self._sorted[0][3] if self._sorted else None

    def victim(self, running: list[Sequence]) -> Sequence:
        """The least important, and of those the latest arrived."""
        return max(running, key=_order_key)


class StockSettings(Struct, frozen=True, kw_only=True):
    """What these schedulers have for knobs."""

    step_tokens: int = 2_048
    """The budget of every step."""
    reserves_prompt: bool = True
    """To begin, a sequence needs blocks for its whole prompt, not only for its first chunk."""
    headroom_ratio: float = 0.0
    """Of the memory that must stay free when one begins."""


class StockScheduler:
    """The loop, with any order of the waiting."""

    def __init__(
        self,
        limits: EngineLimits,
        order: WaitingOrder,
        settings: StockSettings | None = None,
        pool: KvAccount | None = None,
    ) -> None:
        self.name = order.name
        self.limits = limits
        self.settings = settings or StockSettings()
        self.roster = Roster(pool or BlockPool(limits.blocks, limits.block_tokens))
        self._order = order
        self._running: list[Sequence] = []
        self._waiting_count = 0
        self._step: Draft | None = None
        self._step_count = 0

    @property
    def pool(self) -> KvAccount:
        """The account of memory for keys and values."""
        return self.roster.pool

    def handle(self, event: Event, now_ns: int) -> list[Answer]:
        """Take in what has happened."""
        match event:
            case SequenceArrived(sequence=params):
                if params.prompt_tokens + params.output_tokens_max > self.limits.kv_tokens:
                    reason = RefuseReason.NEVER_FITS
                    return [Refused(sequence_id=params.sequence_id, reason=reason)]
                if self._waiting_count >= self.limits.waiting_max:
                    reason = RefuseReason.WAITING_FULL
                    return [Refused(sequence_id=params.sequence_id, reason=reason)]
                sequence = Sequence(params, None)
                self.roster.add(sequence)
                self._wait(sequence)
                return [Accepted(sequence_id=params.sequence_id, ttft_ns_min=0)]
            case SequenceCancelled(sequence_id=sequence_id):
                cancelled = self.roster.sequences.get(sequence_id)
                if cancelled is not None:
                    self._end(cancelled)
            case StepFinished(ended=ended):
                assert self._step is not None, "a step finished that was not planned"
                draft, self._step = self._step, None
                done = set(ended)
                for sequence in self.roster.advance(draft, now_ns):
                    is_capped = sequence.generated >= sequence.params.output_tokens_max
                    if is_capped or sequence.sequence_id in done:
                        self._end(sequence)
            case _:
                pass  # its host does all of a plan, and nothing is ever copied
        return []

    def plan(self, now_ns: int) -> StepPlan | None:
        """The next step."""
        assert self._step is None, "the last step has not finished"
        draft = Draft(self._step_count)
        self._schedule_running(draft, now_ns)
        if not draft.preempted:
            self._schedule_waiting(draft)
        elif draft.count == 0:
            # Who needed a block was the one to go, before anybody else had a turn: an empty step,
            # after which the loop begins anew.
            self._schedule_running(draft, now_ns)
            self._schedule_waiting(draft)
        draft.tokens_max = self.settings.step_tokens
        if draft.count == 0:
            return None
        plan = draft.plan()
        self._step_count += 1
        self._step = draft
        for sequence_id, sequence in draft.decodes.items():
            assert sequence_id in self.roster.sequences
            self._order.served(sequence, 0, 1)
        for sequence, tokens in draft.chunks.values():
            through = sequence.computed_tokens + tokens
            self._order.served(sequence, 0, int(through == sequence.known_tokens))
        return plan

    def _schedule_running(self, draft: Draft, now_ns: int) -> None:
        for sequence in tuple(self._running):
            budget = self.settings.step_tokens - draft.tokens
            if budget <= 0:
                return
            if not sequence.is_resident:
                continue  # evicted meanwhile
            tokens = min(sequence.remaining_tokens, budget)
            has_room = True
            while not self.roster.grow(sequence, sequence.computed_tokens + tokens):
                victim = self._order.victim(self._running)
                self._running.remove(victim)
                self.roster.preempt(victim, PreemptWay.RECOMPUTE, draft, now_ns)
                self._wait(victim)
                if victim is sequence:
                    has_room = False
                    break
            if not has_room:
                return
            if sequence.phase is Phase.DECODE:
                draft.decodes[sequence.sequence_id] = sequence
            else:
                draft.chunk(sequence, tokens)

    def _schedule_waiting(self, draft: Draft) -> None:
        settings, pool = self.settings, self.pool
        headroom = int(settings.headroom_ratio * pool.total_count)
        while (budget := settings.step_tokens - draft.tokens) > 0:
            sequence = self._order.peek()
            if sequence is None or len(self._running) >= self.limits.sequences_max:
                return
            keys, known_tokens = sequence.params.prefix_keys, sequence.known_tokens
            prefix_tokens = pool.prefix_tokens(keys, known_tokens)
            through = min(known_tokens, prefix_tokens + budget)
            needed = known_tokens if settings.reserves_prompt else through
            blocks = pool.blocks_to_start(keys, known_tokens, needed)
            if blocks > pool.free_count - (headroom if self._running else 0):
                return
            self._order.remove(sequence)
            self._waiting_count -= 1
            has_begun = self.roster.start(sequence, through)
            assert has_begun
            if sequence.paid_tokens == 0:
                sequence.paid_tokens = sequence.params.prompt_tokens
                self._order.served(sequence, sequence.params.prompt_tokens, 0)
            self._running.append(sequence)
            draft.chunk(sequence, through - prefix_tokens)

    def _wait(self, sequence: Sequence) -> None:
        self._order.add(sequence)
        self._waiting_count += 1

    def _end(self, sequence: Sequence) -> None:
        if sequence.phase is Phase.WAITING:
            self._order.remove(sequence)
            self._waiting_count -= 1
        else:
            self._running.remove(sequence)
        self._order.ended(sequence)
        self.roster.end(sequence)


def _order_key(sequence: Sequence) -> tuple[int, int, int]:
    return (sequence.priority, sequence.params.arrived_at_ns, sequence.sequence_id)
