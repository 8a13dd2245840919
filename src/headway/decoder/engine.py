"""The engine: sequences in, a step at a time, tokens out; who is in a step is decided elsewhere.

One `step` asks the step scheduler (`headway.generate`) for a plan and carries it out: victims are
copied out of their rows or dropped, those that come back are copied in, then one token goes through
the model for each sequence that decodes, all in few runs, and then each prompt's part in a run of
its own. New tokens are drawn, turned into text, and told.

A preempted sequence says the same as it would have said: its tokens are known and are computed
again, or its keys and values come back as they were.

Not thread-safe: whoever owns it calls it from one thread. Knows tokens and a clock that it is
handed. Refuses to know processes, sockets and people.
"""

from collections.abc import Callable
from enum import StrEnum
from random import Random
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from headway.core import ModelName, TenantId
from headway.decoder.model import DecoderModel
from headway.decoder.rows import RowPool, SwappedKv
from headway.decoder.sampling import Drawn, Sampler, SamplingParams
from headway.decoder.session import runs_of
from headway.decoder.stops import StopWatch
from headway.decoder.tokenizer import Detokenizer
from headway.decoder.weights import Floats
from headway.errors import InvalidRequestError, InvariantError
from headway.generate import (
    Answer,
    CopyFinished,
    HeadwayScheduler,
    PreemptWay,
    SequenceArrived,
    SequenceCancelled,
    SequenceId,
    SequenceParams,
    StepFinished,
    StepLaw,
    StepPlan,
    StepScheduler,
    StepSettings,
    TierTerms,
    Work,
)

__all__ = ["DecoderEngine", "FinishReason", "SequenceAsk", "StepReport", "TokenOut"]

_PADDING: Final = 0
"""The token of a row that only rides along."""


class FinishReason(StrEnum):
    """Why an answer ended."""

    STOP = "stop"
    """The model ended it, or a text to stop at came up."""
    LENGTH = "length"
    """It has all the tokens that it may have."""


class SequenceAsk(Struct, frozen=True, kw_only=True):
    """One answer that somebody wants."""

    sequence_id: SequenceId
    prompt: tuple[int, ...]
    tokens_max: int
    """Of the answer."""
    sampling: SamplingParams
    seed: str
    """The name of its stream of chance."""
    tag: TenantId
    terms: TierTerms
    arrived_at_ns: int
    stops: tuple[str, ...] = ()
    ignores_end: bool = False
    """Go on to the last token, whatever the model says; for measurements."""


class TokenOut(Struct, frozen=True, kw_only=True):
    """One more token of an answer."""

    sequence_id: SequenceId
    text: str
    """That can be shown by it; may be empty."""
    drawn: Drawn
    is_end: bool = False
    """The token is one that ends answers, and no part of the text."""
    finish: FinishReason | None = None
    """Not None for the last."""


class StepReport(Struct, frozen=True, kw_only=True):
    """What a step has done."""

    plan: StepPlan
    step_ns: int
    tokens: list[TokenOut]


class _Live:
    """A sequence with what the scheduler does not know of it."""

    __slots__ = ("ask", "detokenizer", "ids", "row", "sampler", "stops", "swapped")

    def __init__(self, ask: SequenceAsk, model: DecoderModel) -> None:
        self.ask = ask
        self.ids = list(ask.prompt)
        self.sampler = Sampler(ask.sampling, Random(ask.seed))
        self.detokenizer = Detokenizer(model.tokenizer)
        self.stops = StopWatch(ask.stops)
        self.row: int | None = None
        self.swapped: SwappedKv | None = None


class DecoderEngine:
    """Runs one model.

    Args:
        model: loaded.
        now_ns: a clock.
        law: what steps take, as far as is known; measured by `DecoderModel.measure`.
        settings: of the scheduler.
        scheduler: another one than headway's, with the account of memory that it is to use.

    Invariants: a row belongs to one sequence; a sequence that has ended holds nothing.
    """

    def __init__(
        self,
        model: DecoderModel,
        now_ns: Callable[[], int],
        law: StepLaw,
        settings: StepSettings | None = None,
        scheduler: Callable[[RowPool], StepScheduler] | None = None,
    ) -> None:
        self.model = model
        self._now_ns = now_ns
        limits = model.engine_limits(law)
        self.pool = RowPool(limits.blocks, limits.block_tokens, model.rows.rows)
        self.scheduler: StepScheduler
        if scheduler is not None:
            self.scheduler = scheduler(self.pool)
        else:
            self.scheduler = HeadwayScheduler(
                limits, _bounded(settings or StepSettings(), model.host_tokens), self.pool
            )
        self._live: dict[SequenceId, _Live] = {}
        self._ends = frozenset(model.card.vocabulary.ends)

    @property
    def count(self) -> int:
        """Sequences that have not ended."""
        return len(self._live)

    def tokens_max_of(self, prompt_tokens: int, wanted: int | None) -> int:
        """How long an answer may be: what is wanted, or all that there is room for.

        Raises:
            InvalidRequestError: prompt and answer have no room.
        """
        room = self.model.context - prompt_tokens
        if prompt_tokens < 1:
            raise InvalidRequestError("the prompt is empty", hint="it needs a token at least")
        if room < (wanted or 1):
            raise InvalidRequestError(
                f"the prompt has `{prompt_tokens}` tokens and the answer may have "
                f"`{wanted or 1}`, and the model takes `{self.model.context}` together",
                hint="shorten the prompt, or ask for fewer tokens",
            )
        return wanted or room

    def submit(self, ask: SequenceAsk) -> Answer:
        """Let a sequence in, or hear why not; its tokens come from `step`."""
        if ask.sequence_id in self._live:
            raise InvariantError(f"sequence `{ask.sequence_id}` was submitted twice")
        params = SequenceParams(
            sequence_id=ask.sequence_id,
            model=ModelName(self.model.card.name),
            tag=ask.tag,
            terms=ask.terms,
            arrived_at_ns=ask.arrived_at_ns,
            prompt_tokens=len(ask.prompt),
            output_tokens_max=ask.tokens_max,
        )
        (answer,) = self.scheduler.handle(SequenceArrived(sequence=params), self._now_ns())
        if ask.sequence_id in self.scheduler.roster.sequences:
            self._live[ask.sequence_id] = _Live(ask, self.model)
        return answer

    def cancel(self, sequence_id: SequenceId) -> None:
        """Nobody wants it any more: what it holds is free at once. Unknown ones are ignored."""
        live = self._live.pop(sequence_id, None)
        if live is None:
            return
        self.scheduler.handle(SequenceCancelled(sequence_id=sequence_id), self._now_ns())
        self._leave_row(live)

    def step(self) -> StepReport | None:
        """Run one step; None where there is nothing to do."""
        plan = self.scheduler.plan(self._now_ns())
        if plan is None:
            return None
        self._move_memory(plan)
        if not plan.work:
            return StepReport(plan=plan, step_ns=0, tokens=[])
        began_at_ns = self._now_ns()
        tokens = self._run(plan)
        ended_at_ns = self._now_ns()
        ended = tuple([each.sequence_id for each in tokens if each.finish is not None])
        step_ns = ended_at_ns - began_at_ns
        self.scheduler.handle(StepFinished(step_ns=step_ns, ended=ended), ended_at_ns)
        for sequence_id in ended:
            self._leave_row(self._live.pop(sequence_id))
        return StepReport(plan=plan, step_ns=step_ns, tokens=tokens)

    def check(self) -> None:
        """Demand the invariants.

        Raises:
            InvariantError: one does not hold.
        """
        self.scheduler.roster.check()
        if self._live.keys() != self.scheduler.roster.sequences.keys():
            raise InvariantError("engine and scheduler know different sequences")
        rows = {key: live.row for key, live in self._live.items() if live.row is not None}
        held = {key: row for key, row in self.pool.row_of.items() if key in rows}
        if rows != held or len(set(rows.values())) != len(rows):
            raise InvariantError("a row belongs to nobody, or to two")

    # -- memory ------------------------------------------------------------------------------------

    def _move_memory(self, plan: StepPlan) -> None:
        """Victims leave first, as others may be in their rows already."""
        rows = self.model.rows
        for victim in plan.preempted:
            live = self._live[victim.sequence_id]
            if victim.way is PreemptWay.SWAP and live.row is not None:
                began_at_ns = self._now_ns()
                live.swapped = rows.copy_out(live.row, victim.tokens)
                self._copied(victim.sequence_id, victim.tokens, began_at_ns, is_load=False)
            self._leave_row(live)
        for load in plan.loads:
            live = self._live[load.sequence_id]
            live.row = self.pool.row_of[load.sequence_id]
            assert live.swapped is not None, "what comes back was swapped out"
            began_at_ns = self._now_ns()
            rows.copy_in(live.row, live.swapped)
            live.swapped = None
            self._copied(load.sequence_id, load.tokens, began_at_ns, is_load=True)

    def _copied(
        self, sequence_id: SequenceId, tokens: int, began_at_ns: int, *, is_load: bool
    ) -> None:
        now_ns = self._now_ns()
        copy_ns = now_ns - began_at_ns
        event = CopyFinished(
            sequence_id=sequence_id, tokens=tokens, copy_ns=copy_ns, is_load=is_load
        )
        self.scheduler.handle(event, now_ns)

    def _leave_row(self, live: _Live) -> None:
        if live.row is not None:
            self.model.rows.give_back(live.row)
            live.row = None

    # -- a step ------------------------------------------------------------------------------------

    def _run(self, plan: StepPlan) -> list[TokenOut]:
        """All work of a plan. Single tokens first: a row that rides along is written to."""
        singles: dict[int, Work] = {}
        chunks: list[Work] = []
        for work in plan.work:
            live = self._live[work.sequence_id]
            live.row = self.pool.row_of[work.sequence_id]
            if work.tokens == 1:
                singles[live.row] = work
            else:
                chunks.append(work)
        tokens: list[TokenOut] = []
        starts = self._row_starts()
        for rows in runs_of(list(singles)):
            tokens += self._run_rows(rows, singles, starts)
        for work in chunks:
            live = self._live[work.sequence_id]
            assert live.row is not None
            ids = live.ids[work.start : work.start + work.tokens]
            logits = self.model.session.prefill(live.row, ids, work.start)
            if work.yields:
                tokens.append(self._draw(live, logits))
        return tokens

    def _run_rows(
        self, rows: range, singles: dict[int, Work], starts: dict[int, int]
    ) -> list[TokenOut]:
        ids = []
        for row in rows:
            work = singles.get(row)
            ids.append(_PADDING if work is None else self._live[work.sequence_id].ids[work.start])
        logits = self.model.session.step_rows(rows.start, ids, [starts.get(row, 0) for row in rows])
        drawn = []
        for index, row in enumerate(rows):
            work = singles.get(row)
            if work is not None and work.yields:
                drawn.append(self._draw(self._live[work.sequence_id], logits[index]))
        return drawn

    def _row_starts(self) -> dict[int, int]:
        """Tokens that each row holds; the next one is written after them."""
        sequences = self.scheduler.roster.sequences
        return {
            row: sequences[sequence_id].computed_tokens
            for sequence_id, row in self.pool.row_of.items()
            if sequence_id in sequences
        }

    def _draw(self, live: _Live, logits: Floats) -> TokenOut:
        """The next token of a sequence, with the text that it makes whole."""
        ask = live.ask
        drawn = live.sampler.draw(logits)
        live.ids.append(drawn.token)
        is_end = drawn.token in self._ends and not ask.ignores_end
        text = "" if is_end else live.stops.add(live.detokenizer.add(drawn.token))
        finish: FinishReason | None = None
        if is_end or live.stops.has_stopped:
            finish = FinishReason.STOP
        elif len(live.ids) - len(ask.prompt) >= ask.tokens_max:
            finish = FinishReason.LENGTH
        if finish is not None and not live.stops.has_stopped:
            text += live.stops.add(live.detokenizer.finish())
            text += live.stops.finish()
        return TokenOut(
            sequence_id=ask.sequence_id, text=text, drawn=drawn, is_end=is_end, finish=finish
        )


def _bounded(settings: StepSettings, host_tokens: int) -> StepSettings:
    """No more is swapped out than there is memory for."""
    swap = settings.swap
    host_tokens_max = min(swap.host_tokens_max, host_tokens)
    return replace(settings, swap=replace(swap, host_tokens_max=host_tokens_max))
