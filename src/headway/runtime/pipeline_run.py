"""One call of a pipeline on its way: which steps run, what they gave, and how the call ends.

A step is asked for as soon as those that it waits for have ended, within the callback that brings
the last of them; each of its requests is one of the engine's, so who goes first, what is batched
with what and where it runs is decided there, as for any request. The call ends once: with its
outputs, with the first error of a step, or because its client is gone. What then still runs is
taken back.

A step's deadline is its part of what is left of the call's, in proportion to what the longest path
to the end is expected to take. It is not given up at that instant, though: it is wanted until the
steps after it could not make it in time, however fast they were.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from headway.core import UNKNOWN, Forecast, RequestId, Tensor, TierName
from headway.errors import (
    DeadlineExceededError,
    ExecutorError,
    HeadwayError,
    InternalError,
    InvalidRequestError,
    ModelNotFoundError,
    RequestCancelledError,
    UnavailableError,
)
from headway.executors import TensorSpec
from headway.runtime.engine import Engine, InferCall, InferReply, OnEnd
from headway.runtime.pending import tell
from headway.runtime.pipeline_plan import Part, PipelinePlan, Source, StepPlan
from headway.runtime.pipeline_times import Ahead
from headway.runtime.pipeline_values import Values, checked, outputs_of

__all__ = ["Run", "RunOwner", "Terms"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a call was granted when it arrived."""

    tier: TierName
    priority: int
    budget_ns: int
    limit: str
    """What set the budget."""
    deadline_at_ns: int
    expires_at_ns: int
    """The deadline, or where late answers are wanted some time after it."""
    foreseen: Forecast = UNKNOWN


class RunOwner(Protocol):
    """Who keeps the runs of a pipeline, and is told how they fare."""

    plan: PipelinePlan

    def holds(self, run: "Run", delta_bytes: int) -> None:
        """A run keeps so many bytes more, or fewer.

        Raises:
            RejectedError: all runs together hold too many.
        """

    def asked(self, delta: int) -> None:
        """So many requests of steps more are under way, or fewer."""

    def ran(self, run: "Run", step: StepPlan, ended: "StepEnd") -> None:
        """A step of a run has ended well."""

    def over(self, run: "Run", end: InferReply | HeadwayError, wall_ns: int) -> None:
        """A run has ended, so long after its arrival; its client is told next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnd:
    """Where the time of a step went."""

    took_ns: int
    queue_ns: int
    busy_ns: int
    """Of all its requests, added up: more than it took where they ran side by side."""
    foreseen: Forecast


@dataclass(slots=True, eq=False)
class _Asked:
    """A step whose requests are under way."""

    step: StepPlan
    asked_at_ns: int
    left: int
    replies: list[InferReply | None]
    request_ids: dict[int, RequestId] = field(default_factory=dict)
    """Of those that have not ended, by their place among the replies."""


class Run:
    """A call that has not been answered.

    Invariants: until it is over, some request of some step is under way; it is told to end once.
    """

    __slots__ = (
        "_ahead",
        "_asked",
        "_device_ns",
        "_engine",
        "_missing",
        "_on_end",
        "_owner",
        "_queue_ns",
        "_tokens",
        "_values",
        "busy_ns",
        "call",
        "is_over",
        "part",
        "run_id",
        "terms",
    )

    def __init__(
        self,
        run_id: RequestId,
        call: InferCall,
        on_end: OnEnd,
        *,
        owner: RunOwner,
        engine: Engine,
        part: Part,
        terms: Terms,
        ahead: Ahead,
    ) -> None:
        self.run_id = run_id
        self.call = call
        self.part = part
        self.terms = terms
        self.busy_ns = 0
        """Slots' time that its steps took, added up."""
        self._device_ns = 0
        """Of that the call's own part, with what was done for steps that failed."""
        self._tokens = 0
        self.is_over = False
        self._on_end = on_end
        self._owner = owner
        self._engine = engine
        self._ahead = ahead
        self._values = Values(part.uses)
        self._missing = dict(part.needs)
        self._asked: dict[str, _Asked] = {}
        self._queue_ns: int | None = None
        """From the call's arrival until the first of its requests had a slot."""

    def start(self) -> None:
        """Ask for the steps that wait for none; the call may be over when this returns."""
        for tensor in self.call.inputs:
            self._values.put(Source("", tensor.name), tensor)
        self._guarded(self._start)

    def cancel(self) -> None:
        """Its client is gone."""
        self.end(RequestCancelledError("the request was cancelled"))

    def end(self, end: InferReply | HeadwayError) -> None:
        """Answer, once, and take back what still runs."""
        if self.is_over:
            return
        self.is_over = True
        if isinstance(end, HeadwayError):
            end.device_ns = self._device_ns
            end.request_id = self.run_id
        asked, self._asked = self._asked, {}
        under_way = [i for step in asked.values() for i in step.request_ids.values()]
        self._owner.asked(-sum(step.left for step in asked.values()))
        self._owner.holds(self, -self._values.held_bytes)
        self._values.clear()
        self._owner.over(self, end, self._engine.now_ns() - self.call.arrived_at_ns)
        for request_id in under_way:
            self._engine.cancel(request_id)
        tell(self._on_end, end)

    def _guarded(self, go_on: Callable[[], None]) -> None:
        """What goes wrong ends this call and no other: whoever brings an answer must not suffer."""
        try:
            go_on()
        except HeadwayError as error:
            self.end(error)
        except Exception as error:  # noqa: BLE001 - a bug here must be told, or the client waits on
            internal = InternalError(f"pipeline `{self._owner.plan.name}`: {error!r}")
            internal.__cause__ = error
            self.end(internal)

    def _start(self) -> None:
        self._owner.holds(self, self._values.held_bytes)
        self._begin([name for name, count in self._missing.items() if not count])

    def _begin(self, names: list[str]) -> None:
        """Ask for steps whose inputs are there."""
        for name in names:
            if self.is_over:
                return
            step = self.part.steps[name]
            try:
                asked = self._ask(step)
            except HeadwayError as error:
                raise self._told(error, step) from error
            if not asked.replies:  # a list without items: nobody will bring an answer
                self._step_ended(asked)

    def _ask(self, step: StepPlan) -> _Asked:
        inputs = self._values.requests_of(step)
        items_max = self._owner.plan.items_max
        if step.each is not None and len(inputs) > items_max:
            raise InvalidRequestError(
                f"it would run for `{len(inputs)}` items",
                hint=f"{items_max} are allowed: raise pipeline.items_max, or send less at once",
            )
        now_ns = self._engine.now_ns()
        asked = _Asked(step, now_ns, len(inputs), [None] * len(inputs))
        self._asked[step.name] = asked
        self._owner.asked(len(inputs))
        call = self._call_of(step, now_ns)
        for index, tensors in enumerate(inputs):
            if self.is_over:
                break
            on_end = partial(self._answered, asked, index)
            request_id = self._engine.submit(call(inputs=tensors), on_end)
            if asked.replies[index] is None:
                self._follow(asked, index, request_id)
        return asked

    def _follow(self, asked: _Asked, index: int, request_id: RequestId) -> None:
        """Remember a request, to be able to take it back; at once, where all was over meanwhile."""
        if self.is_over:
            self._engine.cancel(request_id)
        else:
            asked.request_ids[index] = request_id

    def _call_of(self, step: StepPlan, now_ns: int) -> Callable[..., InferCall]:
        """All requests of a step have the same deadline."""
        call, terms = self.call, self.terms
        left_ns = terms.deadline_at_ns - now_ns
        budget_ns = self._ahead.share_ns(step.name, left_ns) if left_ns > 0 else left_ns
        wanted_until_ns = terms.expires_at_ns - self._ahead.least_after_ns[step.name]
        late_ns = max(0, wanted_until_ns - now_ns - budget_ns)
        return partial(
            InferCall,
            model=step.model,
            outputs=() if step.is_function else self.part.wanted[step.name],
            parameters=call.parameters,
            arrived_at_ns=now_ns,
            priority=call.priority,
            tier=terms.tier,
            tenant=call.tenant,
            budget_ns=budget_ns,
            budget_source=terms.limit,
            traceparent=call.traceparent,
            origin=self.run_id,
            late_ns=late_ns,
        )

    def _answered(self, asked: _Asked, index: int, end: InferReply | HeadwayError) -> None:
        """A request of a step has ended."""
        if self.is_over:
            return
        asked.request_ids.pop(index, None)
        asked.left -= 1
        self._owner.asked(-1)
        if isinstance(end, HeadwayError):
            self.end(self._told(end, asked.step))
            return
        asked.replies[index] = end
        self._device_ns += end.device_ns
        self._tokens += end.tokens
        if not asked.left:
            self._guarded(lambda: self._step_ended(asked))

    def _step_ended(self, asked: _Asked) -> None:
        """Hand on what a step gave, and ask for those that waited for it alone."""
        step = asked.step
        del self._asked[step.name]
        replies = [reply for reply in asked.replies if reply is not None]
        try:
            self._take(step, replies)
        except HeadwayError as error:
            raise self._told(error, step) from error
        self._note(asked, replies)
        ready = []
        for taker in self.part.takers[step.name]:
            self._missing[taker] -= 1
            if not self._missing[taker]:
                ready.append(taker)
        del self._missing[step.name]
        if self._missing:
            self._begin(ready)
        else:
            self.end(self._reply())

    def _take(self, step: StepPlan, replies: list[InferReply]) -> None:
        wanted = self.part.wanted[step.name]
        before_bytes = self._values.held_bytes
        given = outputs_of(step, wanted, [reply.outputs for reply in replies])
        for name, value in given.items():
            self._values.put(Source(step.name, name), value)
        self._values.used(step.sources)
        self._owner.holds(self, self._values.held_bytes - before_bytes)

    def _note(self, asked: _Asked, replies: list[InferReply]) -> None:
        """Where the step's time went."""
        busy_ns = sum([reply.service_ns for reply in replies])
        self.busy_ns += busy_ns
        if not replies:
            return
        queue_ns = min([reply.queue_delay_ns for reply in replies])
        queued_ns = asked.asked_at_ns + queue_ns - self.call.arrived_at_ns
        self._queue_ns = queued_ns if self._queue_ns is None else min(self._queue_ns, queued_ns)
        ended = StepEnd(
            took_ns=self._engine.now_ns() - asked.asked_at_ns,
            queue_ns=queue_ns,
            busy_ns=busy_ns,
            foreseen=replies[0].foreseen if asked.step.each is None else UNKNOWN,
        )
        self._owner.ran(self, asked.step, ended)

    def _reply(self) -> InferReply:
        plan, terms = self._owner.plan, self.terms
        outputs = [self._output(spec) for spec in self.part.outputs]
        now_ns = self._engine.now_ns()
        wall_ns = now_ns - self.call.arrived_at_ns
        queue_ns = self._queue_ns or 0
        return InferReply(
            model=plan.name,
            version=plan.version,
            outputs=outputs,
            queue_delay_ns=queue_ns,
            service_ns=wall_ns - queue_ns,
            batch_rows=1,
            tier=terms.tier,
            budget_ns=terms.budget_ns,
            budget_source=terms.limit,
            request_id=self.run_id,
            foreseen=terms.foreseen,
            late_ns=max(0, now_ns - terms.deadline_at_ns),
            device_ns=self._device_ns,
            tokens=self._tokens,
        )

    def _output(self, spec: TensorSpec) -> Tensor:
        source = self._owner.plan.sources[spec.name]
        try:
            return checked(spec, self._values[source])
        except ExecutorError as error:
            raise self._told(error, self.part.steps[source.step]) from error

    def _told(self, error: HeadwayError, step: StepPlan) -> HeadwayError:
        """An error of a step, as the client of the pipeline should read it."""
        where = f"step `{step.name}` of pipeline `{self._owner.plan.name}`"
        if isinstance(error, ModelNotFoundError):
            # The client's model is there: what it is made of is not, which may change.
            gone = UnavailableError(f"{where}: {error.message}", hint=error.hint)
            gone.__cause__ = error
            return gone
        is_early = self._engine.now_ns() < self.terms.deadline_at_ns
        if isinstance(error, DeadlineExceededError) and is_early:
            message = f"{where}: given up, for the steps after it could no longer be in time"
            return error.retold(message)
        return error.retold(f"{where}: {error.message}")
