"""One pipeline as it is served: who is let in, what is under way, what was learnt, what is counted.

Knows limits and times. Refuses to know how a run goes on (`pipeline_run.py`).

A call is refused at once when the steps it needs are expected to take longer than its budget. What
they are expected to wait counts only while a run is under way, whose end will correct that; and of
calls that would be refused so, every so many-th is let in, whoever comes between: a wrong belief
about some shapes would else never be mended.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from headway.core import UNKNOWN, Forecast, Reject, RejectReason, RequestId, TierName
from headway.errors import (
    HeadwayError,
    InvalidRequestError,
    ModelNotFoundError,
)
from headway.executors import Signature
from headway.runtime.binding import Binding, bind
from headway.runtime.engine import InferCall, InferReply, ModelStatistics, StageStatistics
from headway.runtime.models import TierParams
from headway.runtime.outcomes import error_of, outcome_of
from headway.runtime.pipeline_plan import Graph, Part, PipelinePlan, StepPlan
from headway.runtime.pipeline_run import Run, StepEnd, Terms
from headway.runtime.pipeline_times import Ahead, PathTimes, ShapesKey, longest

__all__ = ["NOBODY", "PATIENCE", "Patience", "RunObserver", "ServedPipeline"]

_BARREN_MAX: Final = 16
"""Calls refused for what is expected of them, before one such is let in."""


class Patience(NamedTuple):
    """Between which times a refused client is told to try again."""

    least_ns: int
    most_ns: int


PATIENCE: Final = Patience(10_000_000, 30_000_000_000)


class RunObserver(Protocol):
    """Who counts; every change is told once, so that what is added up is 0 when nothing is left."""

    def started(self, pipeline: str) -> None:
        """A run began."""

    def ended(
        self, pipeline: str, tier: str, outcome: str, *, is_met: bool, wall_ns: int, busy_ns: int
    ) -> None:
        """A run ended.

        Args:
            pipeline: its name.
            tier: of the call.
            outcome: completed, rejected, expired, cancelled or failed.
            is_met: completed by its deadline.
            wall_ns: from arrival to the answer.
            busy_ns: slots' time of its steps, added up: branches that ran side by side count each.
        """

    def refused(self, pipeline: str, tier: str) -> None:
        """A call was not let in."""

    def held(self, pipeline: str, delta_bytes: int) -> None:
        """Runs hold so many bytes more, or fewer."""

    def asked(self, pipeline: str, delta: int) -> None:
        """So many requests of steps more are under way, or fewer."""


class _Nobody:
    """Counts nothing."""

    def started(self, pipeline: str) -> None: ...

    def ended(
        self, pipeline: str, tier: str, outcome: str, *, is_met: bool, wall_ns: int, busy_ns: int
    ) -> None: ...

    def refused(self, pipeline: str, tier: str) -> None: ...

    def held(self, pipeline: str, delta_bytes: int) -> None: ...

    def asked(self, pipeline: str, delta: int) -> None: ...


NOBODY: Final[RunObserver] = _Nobody()


class Considered(NamedTuple):
    """A call that fits its pipeline."""

    part: Part
    terms: Terms
    ahead: Ahead
    needed_ns: int
    """What it is expected to take; 0 while that is not known."""


class ServedPipeline:
    """A pipeline and its runs.

    Args:
        plan: the pipeline.
        tiers: what each tier grants.
        forget: is told of each run that is over.
        observer: counts.
        patience: between which times a refused client is told to try again.

    Invariants: ``runs`` are those that are not over, oldest first; ``held_bytes`` is what they
    hold, and never stays above the limit: whoever exceeds it ends less important runs, or its own.
    """

    def __init__(
        self,
        plan: PipelinePlan,
        tiers: Mapping[TierName, TierParams],
        forget: Callable[[Run], None],
        observer: RunObserver = NOBODY,
        patience: Patience = PATIENCE,
    ) -> None:
        self.plan = plan
        self.graph = Graph(plan)
        self.runs: dict[RequestId, Run] = {}
        self.held_bytes = 0
        self.is_unloaded = False
        self._tiers = tiers
        self._forget = forget
        self._observer = observer
        self._patience = patience
        signature = Signature(
            platform="pipeline", inputs=plan.inputs, outputs=plan.outputs, can_batch=False
        )
        self._binding = Binding(signature, can_batch=False)
        self._times = PathTimes()
        self._barren = 0
        self._by_priority: dict[int, dict[RequestId, Run]] = {}
        self._counts: Counter[str] = Counter()
        self._last_ms = 0

    # Who is let in.

    def consider(self, call: InferCall) -> Considered:
        """Check a call, and say what it was granted and what lies before it. Changes nothing.

        Raises:
            InvalidRequestError: it does not fit the pipeline, or there is no such tier.
            ModelNotFoundError: there is no such version, or it was unloaded.
        """
        plan = self.plan
        if self.is_unloaded:
            raise ModelNotFoundError(f"model `{plan.name}` is not served: unloaded")
        if call.version not in ("", plan.version):
            raise ModelNotFoundError(
                f"model `{plan.name}` has no version `{call.version}`",
                hint=f"served versions: {plan.version}",
            )
        bind(call, self._binding)
        terms = self._terms_of(call)
        part = self.graph.part(call.outputs)
        shapes = _shapes_of(call)
        ahead = Ahead(part, self._times.of(shapes, part), self._times.met(shapes))
        foreseen = self._foreseen(shapes, part)
        needed_ns = foreseen.mean_ns if self.runs else foreseen.mean_ns - foreseen.queue_ns
        return Considered(part, replace(terms, foreseen=foreseen), ahead, needed_ns)

    def refusal(self, call: InferCall, considered: Considered, now_ns: int) -> Reject | None:
        """Why a call would not be let in now; None where it would."""
        left_ns = considered.terms.expires_at_ns - now_ns
        if left_ns <= 0:
            return self._no(RejectReason.DEADLINE_PAST)
        if len(self.runs) >= self.plan.runs_max and not self._victim(considered.terms.priority):
            return self._no(RejectReason.MODEL_QUEUE_FULL, considered.needed_ns)
        size_bytes = sum([tensor.size_bytes for tensor in call.inputs])
        if self.held_bytes + size_bytes > self.plan.bytes_max:
            return self._no(RejectReason.MODEL_BYTES_FULL, considered.needed_ns)
        if considered.needed_ns > left_ns and self._barren < _BARREN_MAX:
            return self._no(RejectReason.PREDICTED_LATE, considered.needed_ns - left_ns)
        return None

    def admit(self, call: InferCall, now_ns: int) -> Considered:
        """Let a call in, in place of a less important run if need be.

        Raises:
            HeadwayError: it is refused.
        """
        considered = self.consider(call)
        refusal = self.refusal(call, considered, now_ns)
        if refusal is not None:
            self._barren += refusal.reason is RejectReason.PREDICTED_LATE
            self._counts["refused"] += 1
            self._observer.refused(self.plan.name, considered.terms.tier)
            raise error_of(refusal, self.plan.name, considered.terms.limit)
        if considered.needed_ns > considered.terms.expires_at_ns - now_ns:
            self._barren = 0  # calls that nothing speaks against mend no belief about others
        if len(self.runs) >= self.plan.runs_max:
            victim = self._victim(considered.terms.priority)
            assert victim is not None, "else the call would have been refused"
            reject = self._no(RejectReason.DISPLACED, considered.needed_ns)
            victim.end(error_of(reject, self.plan.name, victim.terms.limit))
        return considered

    def retry_after_ns(self, wait_ns: int) -> int:
        """Within what clients may be told."""
        return max(self._patience.least_ns, min(self._patience.most_ns, wait_ns))

    def _no(self, reason: RejectReason, wait_ns: int = 0) -> Reject:
        return Reject(
            request_id=RequestId(0), reason=reason, retry_after_ns=self.retry_after_ns(wait_ns)
        )

    def _victim(self, priority: int) -> Run | None:
        """The newest of the least important runs, if that is less important."""
        least = max(self._by_priority, default=priority)
        return next(reversed(self._by_priority[least].values())) if least > priority else None

    def _terms_of(self, call: InferCall) -> Terms:
        name = self.plan.tier if call.tier is None else call.tier
        tier = self._tiers.get(name)
        if tier is None:
            raise InvalidRequestError(
                f"there is no tier `{name}`", hint=f"tiers: {', '.join(self._tiers)}"
            )
        budget_ns, limit = tier.budget_ns, "tier"
        if call.budget_ns is not None and call.budget_ns < budget_ns:
            budget_ns, limit = call.budget_ns, call.budget_source
        deadline_at_ns = call.arrived_at_ns + budget_ns
        return Terms(
            tier=name,
            priority=tier.priority if call.priority is None else call.priority,
            budget_ns=budget_ns,
            limit=limit,
            deadline_at_ns=deadline_at_ns,
            expires_at_ns=deadline_at_ns + tier.late_ns,
        )

    def _foreseen(self, shapes: ShapesKey, part: Part) -> Forecast:
        """Of the longest path, as calls of these shapes went; unknown while one did not."""
        if not self._times.knows(shapes, part):
            return UNKNOWN
        times = self._times.of(shapes, part)
        service_ns = _whole(part, {name: times[name].service_ns for name in part.steps})
        mean_ns = _whole(
            part, {name: times[name].service_ns + times[name].queue_ns for name in part.steps}
        )
        most_ns = _whole(part, {name: float(times[name].most_ns) for name in part.steps})
        return Forecast(
            mean_ns=mean_ns,
            bound_ns=max(mean_ns, most_ns),
            queue_ns=mean_ns - service_ns,
            base_ns=service_ns,
        )

    # What runs tell: `RunOwner`.

    def begin(self, run: Run) -> None:
        """A run is under way."""
        self.runs[run.run_id] = run
        self._by_priority.setdefault(run.terms.priority, {})[run.run_id] = run
        self._observer.started(self.plan.name)

    def holds(self, run: Run, delta_bytes: int) -> None:
        """See `RunOwner.holds`."""
        self.held_bytes += delta_bytes
        self._observer.held(self.plan.name, delta_bytes)
        wait_ns = run.terms.foreseen.mean_ns
        while delta_bytes > 0 and self.held_bytes > self.plan.bytes_max:
            victim = self._victim(run.terms.priority)
            if victim is None:
                reject = self._no(RejectReason.MODEL_BYTES_FULL, wait_ns)
                raise error_of(reject, self.plan.name, run.terms.limit)
            reject = self._no(RejectReason.DISPLACED, wait_ns)
            victim.end(error_of(reject, self.plan.name, victim.terms.limit))

    def asked(self, delta: int) -> None:
        """See `RunOwner.asked`."""
        self._observer.asked(self.plan.name, delta)

    def ran(self, run: Run, step: StepPlan, ended: StepEnd) -> None:
        """See `RunOwner.ran`."""
        self._times.learn(
            _shapes_of(run.call), step.name, ended.queue_ns, ended.took_ns, ended.foreseen
        )
        self._counts["queue_ns"] += ended.queue_ns

    def over(self, run: Run, end: InferReply | HeadwayError, wall_ns: int) -> None:
        """See `RunOwner.over`."""
        del self.runs[run.run_id]
        equals = self._by_priority[run.terms.priority]
        del equals[run.run_id]
        if not equals:
            del self._by_priority[run.terms.priority]
        outcome = outcome_of(end)
        counts = self._counts
        counts[outcome] += 1
        counts[f"{outcome}_ns"] += wall_ns
        counts["busy_ns"] += run.busy_ns
        self._forget(run)
        if outcome == "completed":
            self._last_ms = time.time_ns() // 1_000_000
        self._observer.ended(
            self.plan.name,
            run.terms.tier,
            outcome,
            is_met=isinstance(end, InferReply) and not end.late_ns,
            wall_ns=wall_ns,
            busy_ns=run.busy_ns,
        )

    def statistics(self) -> ModelStatistics:
        """Wall time under `success`, and under `compute_infer` the slots' time of all steps."""
        counts = self._counts
        done = counts["completed"]
        failures = ("failed", "expired", "rejected")
        failed = sum(counts[outcome] for outcome in failures) + counts["refused"]
        return ModelStatistics(
            name=self.plan.name,
            version=self.plan.version,
            last_inference_ms=self._last_ms,
            inference_count=done,
            execution_count=done,
            success=StageStatistics(count=done, total_ns=counts["completed_ns"]),
            fail=StageStatistics(
                count=failed, total_ns=sum(counts[f"{outcome}_ns"] for outcome in failures)
            ),
            queue=StageStatistics(count=done, total_ns=counts["queue_ns"]),
            compute_input=StageStatistics(),
            compute_infer=StageStatistics(count=done, total_ns=counts["busy_ns"]),
            compute_output=StageStatistics(),
            batch_stats={},
            memory_bytes=0,
        )


def _shapes_of(call: InferCall) -> ShapesKey:
    return tuple([tensor.shape for tensor in call.inputs])


def _whole(part: Part, lengths_ns: Mapping[str, float]) -> int:
    return int(max(longest(part, lengths_ns.__getitem__).values()))
