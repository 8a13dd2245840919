"""Pipelines before an engine: a call of one becomes the requests of its steps.

Knows which names are pipelines. Refuses to schedule: each step's request is queued, batched,
predicted and placed by the engine behind, as any request is. All calls of plain models pass
through, at the cost of a look-up.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial

from headway.core import ModelName, RequestId, TierName
from headway.errors import (
    HeadwayError,
    InvalidRequestError,
    ModelNotFoundError,
    UnavailableError,
)
from headway.runtime.engine import (
    Engine,
    InferCall,
    InferEstimate,
    InferReply,
    ModelState,
    ModelStatistics,
    ModelStatus,
    OnEnd,
)
from headway.runtime.layer import EngineLayer
from headway.runtime.models import TierParams
from headway.runtime.pending import resolve
from headway.runtime.pipeline_fit import misfit_of
from headway.runtime.pipeline_plan import PipelinePlan
from headway.runtime.pipeline_run import Run
from headway.runtime.pipeline_served import (
    NOBODY,
    PATIENCE,
    Patience,
    RunObserver,
    ServedPipeline,
)
from headway.units import NS_PER_S

__all__ = ["Pipelines"]


class Pipelines(EngineLayer):
    """An `Engine` that serves pipelines of what the engine behind it serves.

    Runs count down from -1, so that they never meet the ids of requests.

    Args:
        inner: what runs the steps; functions are models that it can load.
        plans: the pipelines.
        tiers: what each tier grants.
        observer: is told what begins and ends.
        patience: between which times a refused client is told to try again.

    Invariants: a run is known here until it is over; nothing of it runs after that.
    """

    def __init__(
        self,
        inner: Engine,
        plans: Sequence[PipelinePlan],
        tiers: Mapping[TierName, TierParams],
        *,
        observer: RunObserver = NOBODY,
        patience: Patience = PATIENCE,
    ) -> None:
        super().__init__(inner)
        self._pipelines = {
            plan.name: ServedPipeline(plan, tiers, self._forget, observer, patience)
            for plan in plans
        }
        self._functions = frozenset(name for plan in plans for name in plan.functions)
        self._own_names = self._pipelines.keys() | self._functions
        self._tiers = tiers
        self._run_seq = 0
        self._runs: dict[RequestId, Run] = {}
        self._is_draining = False
        self._idle = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        """See `Engine.is_ready`; functions are models of the engine behind."""
        return not self._is_draining and self.inner.is_ready

    async def infer(self, call: InferCall) -> InferReply:
        """See `Engine.infer`."""
        if call.model not in self._own_names and not self._is_draining:
            return await self.inner.infer(call)
        future: asyncio.Future[InferReply] = asyncio.get_running_loop().create_future()
        request_id = self.submit(call, partial(resolve, future))
        try:
            return await future
        except asyncio.CancelledError:
            self.cancel(request_id)
            raise

    def submit(self, call: InferCall, on_end: OnEnd) -> RequestId:
        """See `Engine.submit`."""
        if self._is_draining:
            raise UnavailableError("the server is shutting down", hint="send it to another one")
        if call.model not in self._own_names:
            return self.inner.submit(call, on_end)
        pipeline = self._of(call.model)
        admitted = pipeline.admit(call, self.inner.now_ns())
        self._run_seq += 1
        run = Run(
            RequestId(-self._run_seq),
            call,
            on_end,
            owner=pipeline,
            engine=self.inner,
            part=admitted.part,
            terms=admitted.terms,
            ahead=admitted.ahead,
        )
        self._runs[run.run_id] = run
        pipeline.begin(run)
        run.start()
        return run.run_id

    def cancel(self, request_id: RequestId) -> None:
        """See `Engine.cancel`."""
        if request_id > 0:
            self.inner.cancel(request_id)
        elif (run := self._runs.get(request_id)) is not None:
            run.cancel()

    def estimate(self, call: InferCall) -> InferEstimate:
        """See `Engine.estimate`: what calls of these shapes took of late, step by step."""
        if call.model not in self._own_names:
            return self.inner.estimate(call)
        pipeline = self._of(call.model)
        now_ns = self.inner.now_ns()
        considered = pipeline.consider(call)
        refusal = pipeline.refusal(call, considered, now_ns)
        terms = considered.terms
        return InferEstimate(
            model=call.model,
            version=pipeline.plan.version,
            reason=None if refusal is None else refusal.reason,
            retry_after_ns=0 if refusal is None else refusal.retry_after_ns,
            foreseen=terms.foreseen,
            left_ns=terms.deadline_at_ns - now_ns,
            tier=terms.tier,
            budget_ns=terms.budget_ns,
            budget_source=terms.limit,
        )

    def status(self, model: ModelName, version: str = "") -> ModelStatus:
        """See `Engine.status`. A pipeline is ready while all its steps are."""
        if model not in self._own_names:
            return self.inner.status(model, version)
        pipeline = self._of(model)
        plan = pipeline.plan
        if version not in ("", plan.version):
            raise ModelNotFoundError(
                f"model `{model}` has no version `{version}`",
                hint=f"served versions: {plan.version}",
            )
        steps = self._steps_of(pipeline)
        return ModelStatus(
            name=model,
            version=plan.version,
            is_ready=not self._lacking(pipeline),
            platform="pipeline",
            inputs=plan.inputs,
            outputs=plan.outputs,
            can_batch=False,
            batch_rows_max=1,
            linger_ns=0,
            queue_requests_max=plan.runs_max,
            tier=plan.tier,
            budget_ns=self._tiers[plan.tier].budget_ns,
            slots=max((step.slots for step in steps.values()), default=1),
        )

    def index(self) -> Sequence[ModelState]:
        """See `Engine.index`; functions are a part of their pipeline and have no line."""
        lines = [line for line in self.inner.index() if line.name not in self._functions]
        return [*lines, *map(self._state_of, self._pipelines.values())]

    def statistics(
        self, model: ModelName | None = None, version: str = ""
    ) -> Sequence[ModelStatistics]:
        """See `Engine.statistics`."""
        if model in self._pipelines:
            self.status(model, version)
            return [self._pipelines[model].statistics()]
        found = self.inner.statistics(model, version)
        if model is not None:
            return found
        served = [each for each in self._pipelines.values() if not each.is_unloaded]
        return [*found, *(each.statistics() for each in served)]

    async def load(self, model: ModelName, overrides: Mapping[str, object]) -> None:
        """See `Engine.load`. Of a pipeline its functions are loaded; its models are not its own."""
        if model not in self._own_names:
            await self.inner.load(model, overrides)
            return
        pipeline = self._of(model)
        if overrides:
            raise InvalidRequestError(
                f"pipeline `{model}` takes no settings with a load",
                hint="change the configuration, and start the server again",
            )
        await _all_of([self.inner.load(name, {}) for name in pipeline.plan.functions])
        pipeline.is_unloaded = False

    async def unload(self, model: ModelName) -> None:
        """See `Engine.unload`. The models that a pipeline's steps run stay."""
        if model not in self._own_names:
            await self.inner.unload(model)
            return
        pipeline = self._of(model)
        if pipeline.is_unloaded:
            raise ModelNotFoundError(f"model `{model}` is not served")
        pipeline.is_unloaded = True
        try:
            while pipeline.runs:
                self._idle.clear()
                await self._idle.wait()
        except asyncio.CancelledError:
            pipeline.is_unloaded = False  # or nobody could ask again for what is still loaded
            raise
        if not pipeline.is_unloaded:
            raise UnavailableError(
                f"model `{model}` was asked for again while it was being unloaded"
            )
        await _all_of([self.inner.unload(name) for name in pipeline.plan.functions])

    async def drain(self, grace_ns: int) -> int:
        """Refuse new calls of everything, let runs end, and answer the rest with 503 after that.

        Before the engine behind is drained, for until then it takes the later steps of runs.

        Returns:
            How many runs were not finished in time.
        """
        self._is_draining = True
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_ns / NS_PER_S):
                while self._runs:
                    self._idle.clear()
                    await self._idle.wait()
        left = list(self._runs.values())
        for run in left:
            run.end(UnavailableError("the server has shut down", hint="send it again"))
        return len(left)

    def _forget(self, run: Run) -> None:
        """A run is over."""
        del self._runs[run.run_id]
        self._idle.set()

    def _of(self, model: ModelName) -> ServedPipeline:
        """A pipeline; a function is none, and nobody but its pipeline calls it."""
        pipeline = self._pipelines.get(model)
        if pipeline is None:
            raise ModelNotFoundError(
                f"`{model}` is a function of a pipeline", hint="call the pipeline"
            )
        return pipeline

    def _steps_of(self, pipeline: ServedPipeline) -> dict[str, ModelStatus]:
        """What is served of its steps."""
        found = {}
        for step in pipeline.plan.steps:
            with suppress(HeadwayError):
                found[step.name] = self.inner.status(step.model)
        return found

    def _lacking(self, pipeline: ServedPipeline) -> str:
        """What it waits for; empty where it is ready."""
        if pipeline.is_unloaded:
            return "unloaded"
        statuses, lacking = self._steps_of(pipeline), []
        for step in pipeline.plan.steps:
            status = statuses.get(step.name)
            if status is None or not status.is_ready:
                lacking.append(f"step `{step.name}`: model `{step.model}`")
            elif misfit := misfit_of(step, status, pipeline.graph.part(()).wanted):
                lacking.append(f"step `{step.name}`: {misfit}")
        return f"not ready: {'; '.join(lacking)}" if lacking else ""

    def _state_of(self, pipeline: ServedPipeline) -> ModelState:
        lacking = self._lacking(pipeline)
        state = "UNAVAILABLE" if lacking else "READY"
        plan = pipeline.plan
        return ModelState(name=plan.name, version=plan.version, state=state, reason=lacking)


async def _all_of(waits: Sequence[Coroutine[None, None, None]]) -> None:
    """Wait for all of them, then raise the first failure."""
    ends = await asyncio.gather(*waits, return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException):
            raise end
