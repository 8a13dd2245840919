"""A generating engine in virtual time: any step scheduler, a law of steps, a link for copies.

The engine runs one step after another, each as long as the law says, and knows what no scheduler
is told: how long each answer will be. Copies out of the device hold the step back that needs their
blocks; copies into it share one link and run beside the steps.

Knows `generate`'s schedulers as their hosts do. Must never read a clock.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from headway.core import ModelName, TenantId, TierName, TimerQueue
from headway.errors import InternalError
from headway.generate import (
    CopyFinished,
    CopyLaw,
    PreemptWay,
    Refused,
    SequenceArrived,
    SequenceCancelled,
    SequenceId,
    SequenceParams,
    StepFinished,
    StepPlan,
    StepScheduler,
    TierTerms,
)

__all__ = ["Generation", "GenerationRequest", "GenerationRun", "SequenceSample", "StepClock"]

_FOR_EVER_NS: Final = 1 << 62
_IDLE_PLANS_MAX: Final = 4
"""Plans without work in a row at one instant: copies to begin, which are begun at once."""


class GenerationRequest(Struct, frozen=True, kw_only=True):
    """One answer that somebody wants, with the length that it will turn out to have."""

    arrived_at_ns: int
    tag: TenantId
    terms: TierTerms
    prompt_tokens: int
    output_tokens: int
    output_tokens_max: int
    """The cap that the client gives; the scheduler knows only this."""
    prefix_keys: tuple[int, ...] = ()
    cancelled_at_ns: int | None = None
    """When its client leaves; None where it stays."""
    model: ModelName = ModelName("llm")


class SequenceSample(Struct, kw_only=True):
    """What became of one."""

    request: GenerationRequest
    first_token_at_ns: int | None = None
    ended_at_ns: int | None = None
    """None where it was refused or cancelled."""
    tokens: int = 0
    preempts: int = 0
    is_refused: bool = False
    itl_ns_max: int = 0
    """The longest gap between two of its tokens."""

    @property
    def tier(self) -> TierName:
        """Of its request."""
        return self.request.terms.name

    @property
    def ttft_ns(self) -> int | None:
        """Arrival to first token; None without one."""
        if self.first_token_at_ns is None:
            return None
        return self.first_token_at_ns - self.request.arrived_at_ns

    @property
    def tpot_ns(self) -> float | None:
        """Mean of the others; None where there are none."""
        if self.ended_at_ns is None or self.first_token_at_ns is None or self.tokens < 2:
            return None
        return (self.ended_at_ns - self.first_token_at_ns) / (self.tokens - 1)


@dataclass(slots=True)
class GenerationRun:
    """A run as a whole."""

    samples: list[SequenceSample] = field(default_factory=list)
    makespan_ns: int = 0
    """First arrival to last token."""
    steps: int = 0
    busy_ns: int = 0
    stalled_ns: int = 0
    """Steps waited so long for copies out."""
    swaps: int = 0
    recomputes: int = 0
    recomputed_tokens: int = 0
    prefill_tokens: int = 0
    kv_token_ns: int = 0
    """Tokens in memory, over time."""
    resident_ns: int = 0
    """Sequences that hold memory, over time."""


class StepClock(Protocol):
    """How long a step takes: `StepLaw`, or one with more to it."""

    def step_ns(
        self, prefill_tokens: int, decode_count: int, context_tokens: int, pair_tokens: int = 0
    ) -> float:
        """Of such a step."""


class _Running(NamedTuple):
    """A step that has begun."""

    plan: StepPlan
    begun_at_ns: int
    step_ns: int

    @property
    def ended_at_ns(self) -> int:
        """When it will have ended."""
        return self.begun_at_ns + self.step_ns


class Generation:
    """Plays requests at a scheduler.

    Args:
        scheduler: decides.
        law: how long steps take; what the scheduler believes may be something else.
        copies: how long copies take.
        is_written_through: swapping out costs nothing.
        observe: is shown each plan, with the instants at which its step begins and ends.
        on_end: is told of each sequence whose answer is complete, and when.
    """

    def __init__(
        self,
        scheduler: StepScheduler,
        law: StepClock,
        copies: CopyLaw | None = None,
        *,
        is_written_through: bool = False,
        observe: Callable[[StepPlan, int, int], None] | None = None,
        on_end: Callable[[SequenceId, int], None] | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.now_ns = 0
        self._law = law
        self._copies = copies or CopyLaw()
        self._is_written_through = is_written_through
        self._observe = observe
        self.on_end = on_end
        self.expected_tokens = 0
        """Of prompts that were submitted and have not arrived; their computing counts, too."""
        self._running: _Running | None = None
        self._rests = True
        """Nothing can be planned until something happens."""
        self._idle_plans = 0
        self._queue: TimerQueue[SequenceArrived | SequenceCancelled | CopyFinished] = TimerQueue()
        self._samples: dict[SequenceId, SequenceSample] = {}
        self._last_token_at_ns: dict[SequenceId, int] = {}
        self._link_free_at_ns = 0
        self._run = GenerationRun()

    def run(self, requests: Iterable[GenerationRequest]) -> GenerationRun:
        """All of them, to the end.

        Raises:
            InternalError: the scheduler has sequences and nothing to do with them.
        """
        for number, request in enumerate(requests, start=1):
            self.submit(SequenceId(number), request)
        self.advance(_FOR_EVER_NS)
        return self.result()

    def submit(self, sequence_id: SequenceId, request: GenerationRequest) -> None:
        """One will arrive, not before what has been lived through."""
        if sequence_id in self._samples:
            raise ValueError(f"sequence `{sequence_id}` was submitted twice")
        self._samples[sequence_id] = SequenceSample(request=request)
        params = SequenceParams(
            sequence_id=sequence_id,
            model=request.model,
            tag=request.tag,
            terms=request.terms,
            arrived_at_ns=request.arrived_at_ns,
            prompt_tokens=request.prompt_tokens,
            output_tokens_max=request.output_tokens_max,
            prefix_keys=request.prefix_keys,
        )
        self.expected_tokens += 2 * request.prompt_tokens
        self._queue.push(request.arrived_at_ns, SequenceArrived(sequence=params))
        if request.cancelled_at_ns is not None:
            self._queue.push(request.cancelled_at_ns, SequenceCancelled(sequence_id=sequence_id))

    def next_at_ns(self) -> int | None:
        """When something happens here next if nobody else arrives; None for never."""
        return self._queue.head_at_ns() if self._running is None else self._running.ended_at_ns

    def advance(self, until_ns: int) -> None:
        """Live through all that happens up to an instant; a step may have begun that ends later."""
        while True:
            if self._running is not None:
                if self._running.ended_at_ns > until_ns:
                    return
                self._finish(self._running)
            elif self._rests:
                at_ns = self._queue.head_at_ns()
                if at_ns is None or at_ns > until_ns:
                    return
                self.now_ns = max(self.now_ns, at_ns)
            self._begin()

    def result(self) -> GenerationRun:
        """What it came to.

        Raises:
            InternalError: the scheduler has sequences and nothing to do with them.
        """
        if self.scheduler.roster.sequences:
            count = len(self.scheduler.roster.sequences)
            raise InternalError(f"`{count}` sequences are left and nothing is planned")
        self._run.samples = list(self._samples.values())
        return self._run

    def sample(self, sequence_id: SequenceId) -> SequenceSample:
        """What has become of one so far."""
        return self._samples[sequence_id]

    def _begin(self) -> None:
        """Have a step planned, and begin it; rest where there is none."""
        self._deliver(self.now_ns)
        plan = self.scheduler.plan(self.now_ns)
        if plan is not None:
            self._begin_copies(plan)
        if plan is not None and plan.work:
            self._idle_plans = 0
            self._rests = False
            self._step(plan)
            return
        self._idle_plans += plan is not None
        self._rests = (
            plan is None
            or self._queue.head_at_ns() is not None
            or self._idle_plans > _IDLE_PLANS_MAX
        )

    def _deliver(self, until_ns: int) -> None:
        """Hand over, in order, what happens up to an instant."""
        while True:
            at_ns = self._queue.head_at_ns()
            event = self._queue.pop_due(until_ns)
            if event is None or at_ns is None:
                return
            if isinstance(event, SequenceArrived):
                self.expected_tokens -= 2 * event.sequence.prompt_tokens
            for answer in self.scheduler.handle(event, at_ns):
                if isinstance(answer, Refused):
                    self._samples[answer.sequence_id].is_refused = True

    def _begin_copies(self, plan: StepPlan) -> None:
        run = self._run
        for preempted in plan.preempted:
            self._samples[preempted.sequence_id].preempts += 1
            if preempted.way is PreemptWay.RECOMPUTE:
                run.recomputes += 1
                run.recomputed_tokens += preempted.tokens
                continue
            run.swaps += 1
            if not self._is_written_through:
                copy_ns = int(self._copies.copy_ns(preempted.tokens))
                self.now_ns += copy_ns
                run.stalled_ns += copy_ns
                self._report_copy(preempted.sequence_id, preempted.tokens, copy_ns, is_load=False)
        for load in plan.loads:
            copy_ns = int(self._copies.copy_ns(load.tokens))
            self._link_free_at_ns = max(self._link_free_at_ns, self.now_ns) + copy_ns
            self._report_copy(load.sequence_id, load.tokens, copy_ns, is_load=True)

    def _report_copy(
        self, sequence_id: SequenceId, tokens: int, copy_ns: int, *, is_load: bool
    ) -> None:
        event = CopyFinished(
            sequence_id=sequence_id, tokens=tokens, copy_ns=copy_ns, is_load=is_load
        )
        self._queue.push(self._link_free_at_ns if is_load else self.now_ns, event)

    def _step(self, plan: StepPlan) -> None:
        """Begin a step, of which only what is known now decides how long it takes."""
        step_ns = int(
            self._law.step_ns(
                plan.prefill_tokens, plan.decode_count, plan.context_tokens, plan.pair_tokens
            )
        )
        self._running = _Running(plan, self.now_ns, step_ns)

    def _finish(self, running: "_Running") -> None:
        """End a step, handing over all that happened until then, that last."""
        plan, step_ns = running.plan, running.step_ns
        self._running = None
        self.now_ns = running.ended_at_ns
        run, roster = self._run, self.scheduler.roster
        resident = (*roster.decoding.values(), *roster.prefilling.values())
        run.kv_token_ns += step_ns * sum([each.computed_tokens for each in resident])
        run.resident_ns += step_ns * len(resident)
        run.steps += 1
        run.busy_ns += step_ns
        run.prefill_tokens += plan.prefill_tokens
        run.makespan_ns = self.now_ns
        if self._observe is not None:
            self._observe(plan, running.begun_at_ns, self.now_ns)
        self._deliver(self.now_ns)
        ended = [
            work.sequence_id
            for work in plan.work
            if work.yields
            and work.sequence_id in roster.sequences
            and self._token(self._samples[work.sequence_id], work.sequence_id)
        ]
        self.scheduler.handle(StepFinished(step_ns=step_ns, ended=tuple(ended)), self.now_ns)
        if self.on_end is not None:
            for sequence_id in ended:
                self.on_end(sequence_id, self.now_ns)

    def _token(self, sample: SequenceSample, sequence_id: SequenceId) -> bool:
        """One more; returns whether it was the last."""
        sample.tokens += 1
        if sample.first_token_at_ns is None:
            sample.first_token_at_ns = self.now_ns
        else:
            gap_ns = self.now_ns - self._last_token_at_ns[sequence_id]
            sample.itl_ns_max = max(sample.itl_ns_max, gap_ns)
        self._last_token_at_ns[sequence_id] = self.now_ns
        request = sample.request
        if sample.tokens < min(request.output_tokens, request.output_tokens_max):
            return False
        sample.ended_at_ns = self.now_ns
        return True
