"""The engine on asyncio: calls become events, commands become jobs, replies find their callers.

Holds what the kernel does not: tensors and futures, by request id. Outputs are copied out of
shared memory once, in the callback that brings them; after it the slot may be used again.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import assert_never

from headway.core import (
    BatchFailed,
    BatchFinished,
    BatchId,
    Cancel,
    Complete,
    ConcludeLoad,
    ConcludeUnload,
    Dispatch,
    DrainStarted,
    Expire,
    Fail,
    KeepSegment,
    Kernel,
    LoadReplica,
    ModelLoadRequested,
    ModelName,
    ModelUnloadRequested,
    PredictorTrained,
    Reject,
    RejectReason,
    ReplicaId,
    ReplicaLoaded,
    ReplicaLoadFailed,
    ReplicasLost,
    ReplicaStopped,
    ReplicaWarmed,
    RequestArrived,
    RequestCancelled,
    RequestId,
    Tensor,
    TierName,
)
from headway.errors import (
    ExecutorError,
    HeadwayError,
    InternalError,
    InvalidRequestError,
    ModelNotFoundError,
    RequestCancelledError,
    UnavailableError,
)
from headway.executors import BatchJob, Signature, StageTimes
from headway.runtime.binding import bind, rebind
from headway.runtime.clock import Clock
from headway.runtime.driver import UNTIMED, Driver, Observer, Timings
from headway.runtime.engine import (
    InferCall,
    InferEstimate,
    InferReply,
    MetricsText,
    ModelState,
    ModelStatistics,
    ModelStatus,
    OnEnd,
)
from headway.runtime.executor import Executor, NoExecutor
from headway.runtime.models import Catalogue, Generation, Models, TierParams
from headway.runtime.outcomes import error_of
from headway.runtime.pending import Pending, resolve, wanted_by
from headway.runtime.statistics import Statistics

__all__ = ["AsyncEngine"]


class AsyncEngine:
    """An `Engine` on one event loop, an `ExecutorListener`, and the kernel's `Effects`.

    Invariants: every accepted call is in ``_pending`` until exactly one answer resolves it; a
    running batch's members are in ``_members`` in the order of its rows.
    """

    def __init__(
        self,
        kernel: Kernel,
        clock: Clock,
        catalogue: Catalogue,
        tiers: Mapping[TierName, TierParams],
        *,
        observers: Sequence[Observer] = (),
        observer_lost: Callable[[Exception], None] = lambda error: None,  # noqa: ARG005
        metrics: MetricsText | None = None,
        timings: Timings = UNTIMED,
    ) -> None:
        self._kernel = kernel
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._executor: Executor = NoExecutor()
        self._catalogue = catalogue
        self._tiers = dict(tiers)
        self._metrics = metrics
        self._models = Models(kernel, catalogue)
        self._statistics = Statistics()
        self._driver = Driver(
            kernel,
            clock,
            self,
            observers=(self._statistics, *observers),
            observer_lost=observer_lost,
            timings=timings,
        )
        self._pending: dict[RequestId, Pending] = {}
        self._members: dict[BatchId, tuple[RequestId, ...]] = {}
        self._unloads: dict[ModelName, list[asyncio.Future[None]]] = {}
        self._request_seq = 0
        self._is_draining = False
        self._idle = asyncio.Event()
        self.crash: asyncio.Future[None] = self._loop.create_future()
        """Fails when the kernel has a bug; whoever runs the server awaits it."""

    def attach(self, executor: Executor) -> None:
        """Give the engine what runs its models; the executor needs the engine to report to."""
        self._executor = executor

    # The Engine protocol.

    @property
    def is_ready(self) -> bool:
        """Every configured model is ready and no shutdown has begun."""
        if self._is_draining or self._driver.has_crashed:
            return False
        return self._models.are_configured_ready()

    def now_ns(self) -> int:
        """Nanoseconds since the engine started."""
        return self._clock.now_ns()

    async def infer(self, call: InferCall) -> InferReply:
        """Run one request to its end; see `Engine.infer`."""
        future: asyncio.Future[InferReply] = self._loop.create_future()
        request_id = self.submit(call, partial(resolve, future))
        try:
            return await future
        except asyncio.CancelledError:
            self.cancel(request_id)
            raise

    def submit(self, call: InferCall, on_end: OnEnd) -> RequestId:
        """Start one request; see `Engine.submit`."""
        pending = self._bound(call, on_end)
        request = pending.request(RequestId(self._request_seq + 1), self._tiers)
        self._request_seq += 1
        self._pending[request.request_id] = pending
        self._driver.post(RequestArrived(request=request))
        if self._driver.has_crashed and self._pending.pop(request.request_id, None) is not None:
            raise _stopped()
        return request.request_id

    def cancel(self, request_id: RequestId) -> None:
        """Take a request back; see `Engine.cancel`."""
        self._driver.post(RequestCancelled(request_id=request_id))

    def estimate(self, call: InferCall) -> InferEstimate:
        """What would become of a call; see `Engine.estimate`. No event, so no observer sees it."""
        if self._driver.has_crashed:
            raise _stopped()
        pending = self._bound(call, _tell_nobody)
        request = pending.request(RequestId(self._request_seq + 1), self._tiers)
        now_ns = self._clock.now_ns()
        found = self._kernel.estimate(request, now_ns)
        if found.reason is RejectReason.MODEL_NOT_FOUND:  # it is on its way out
            raise ModelNotFoundError(f"model `{call.model}` is not served, or not in this version")
        return InferEstimate(
            model=call.model,
            version=pending.generation.plan.params.version,
            reason=found.reason,
            retry_after_ns=found.retry_after_ns,
            foreseen=found.foreseen,
            left_ns=request.deadline_at_ns - now_ns,
            tier=pending.tier,
            budget_ns=pending.budget_ns,
            budget_source=pending.limit,
        )

    def status(self, model: ModelName, version: str = "") -> ModelStatus:
        """A model that is served now; see `Engine.status`."""
        return self._models.status(model, version, self._tiers)

    def index(self) -> Sequence[ModelState]:
        """Every model that is configured, served, or failed to load."""
        return self._models.index()

    def statistics(
        self, model: ModelName | None = None, version: str = ""
    ) -> Sequence[ModelStatistics]:
        """Counters of one model or of all; see `Engine.statistics`."""
        names = self._models.served() if model is None else [model]
        found = [self._models.serving(name, version) for name in names]
        return [
            self._statistics.of(
                g.plan.params.name,
                g.plan.params.version,
                0 if g.signature is None else g.signature.memory_bytes,
            )
            for g in found
        ]

    async def load(self, model: ModelName, overrides: Mapping[str, object]) -> None:
        """Load or reload a model; see `Engine.load`."""
        if self._driver.has_crashed:
            raise _stopped()
        plan = self._catalogue.plan(model, overrides)
        future: asyncio.Future[None] = self._loop.create_future()
        self._models.begin_load(plan, future)
        self._statistics.know(model)
        self._driver.post(ModelLoadRequested(model=plan.params))
        # The kernel concludes an unload that a load overtakes with that load, which may take long;
        # whoever asked for it is told now that the model stays.
        overtaken = UnavailableError(
            f"model `{model}` was asked for again while it was being unloaded"
        )
        self._end_unloads(model, overtaken)
        await future

    async def unload(self, model: ModelName) -> None:
        """Finish what the model holds, then free it; see `Engine.unload`."""
        if self._driver.has_crashed:
            raise _stopped()
        if model not in self._kernel.queues:
            raise ModelNotFoundError(f"model `{model}` is not served")
        future: asyncio.Future[None] = self._loop.create_future()
        self._unloads.setdefault(model, []).append(future)
        self._models.begin_unload(model)
        self._driver.post(ModelUnloadRequested(model=model))
        await future

    def metrics_text(self, *, is_openmetrics: bool = False) -> Iterator[bytes]:
        """See `Engine.metrics_text`."""
        metrics = self._metrics
        return iter(()) if metrics is None else metrics.text(is_openmetrics=is_openmetrics)

    def install(self, count: int) -> None:
        """The predictor's fit to its first `count` observations is ready to answer."""
        self._driver.post(PredictorTrained(count=count))

    # Shutting down.

    async def drain(self, grace_ns: int) -> int:
        """Refuse new work, finish what was admitted, answer the rest with 503 after the grace.

        Returns:
            How many requests were not finished in time.
        """
        self._is_draining = True
        self._driver.post(DrainStarted())
        if self._pending:
            timer = self._clock.call_at(self._clock.now_ns() + grace_ns, self._idle.set)
            self._idle.clear()
            await self._idle.wait()
            self._clock.cancel(timer)
        left_count = 0
        while self._pending:  # whoever is told may take others back
            request_id = next(iter(self._pending))
            pending = self._pending.pop(request_id)
            pending.fail(UnavailableError("the server has shut down", hint="send it again"))
            # Or a slot that frees later would be given a request whose tensors are gone.
            self._driver.post(RequestCancelled(request_id=request_id))
            left_count += 1
        self._driver.stop()
        return left_count

    # Effects: what the kernel says.

    def dispatch(self, command: Dispatch) -> None:
        """Build the batch from its members' tensors and hand it to the executor."""
        members = [self._pending[i] for i in command.request_ids]
        generation = self._models.generation_of(command.replica_id)
        assert generation is not None, "a replica that is dispatched to is known"
        for member in members:
            if member.generation is not generation and not self._rebind(member, generation):
                message = "the model was reloaded and no longer takes what the request brings"
                self._driver.post(
                    BatchFailed(batch_id=command.batch_id, code="executor_failed", message=message)
                )
                return
        if command.first_row == 0:
            members[0].start_over()  # no other member can have begun
        self._members[command.batch_id] = command.request_ids
        self._executor.run(_job_of(command, members, generation))

    def keep_segment(self, command: KeepSegment) -> None:
        """Keep what a part of a request gave until the others have run."""
        self._pending[command.request_id].keep()

    def answer(self, command: Complete | Reject | Expire | Cancel | Fail) -> None:
        """Tell the caller."""
        pending = self._pending.pop(command.request_id, None)
        if pending is not None:
            if isinstance(command, Complete):
                pending.complete(command, self._kernel.now_ns)
            else:
                error = _error_of(command, pending)
                error.request_id = command.request_id
                pending.fail(error)
        if self._is_draining and not self._pending:
            self._idle.set()

    def cancel_batch(self, batch_id: BatchId) -> None:
        """Nobody waits for the batch."""
        self._executor.cancel(batch_id)

    def load_replica(self, command: LoadReplica) -> None:
        """Have a worker load the replica's generation."""
        generation = self._models.generation_to_load(command)
        self._executor.load(command.replica_id, generation.plan.spec, command.device)

    def unload_replica(self, replica_id: ReplicaId) -> None:
        """Have the worker free it."""
        self._executor.unload(replica_id)

    def replace_worker(self, replica_id: ReplicaId) -> None:
        """Have the hung worker killed."""
        self._executor.replace(replica_id)

    def conclude(self, command: ConcludeLoad | ConcludeUnload) -> None:
        """Answer whoever asked."""
        match command:
            case ConcludeLoad():
                self._models.conclude_load(command)
            case ConcludeUnload():
                self._models.conclude_unload(command.model)
                self._end_unloads(command.model)
            case _:
                assert_never(command)

    def crashed(self, error: InternalError) -> None:
        """Answer everyone, and let the server know."""
        pending = list(self._pending.values())
        self._pending.clear()
        self._members.clear()
        for one in pending:
            one.fail(_stopped())
        self._models.abandon(_stopped())
        for model in list(self._unloads):
            self._end_unloads(model, _stopped())
        self._idle.set()
        if not self.crash.done():
            self.crash.set_exception(error)

    # ExecutorListener: what the workers say.

    def on_loaded(self, replica_id: ReplicaId, signature: Signature) -> None:
        """A model is in memory."""
        generation = self._models.generation_of(replica_id)
        if generation is not None:
            generation.learn(signature)
        self._driver.post(ReplicaLoaded(replica_id=replica_id, can_batch=signature.can_batch))

    def on_warmed(self, replica_id: ReplicaId) -> None:
        """A replica is ready."""
        self._driver.post(ReplicaWarmed(replica_id=replica_id))

    def on_load_failed(self, replica_id: ReplicaId, message: str) -> None:
        """A load raised."""
        self._driver.post(ReplicaLoadFailed(replica_id=replica_id, message=message))
        self._forget_if_gone(replica_id)

    def on_unloaded(self, replica_id: ReplicaId) -> None:
        """A replica is out of memory."""
        self._driver.post(ReplicaStopped(replica_id=replica_id))
        self._forget_if_gone(replica_id)

    def on_finished(
        self, batch_id: BatchId, replies: Sequence[Sequence[Tensor]], stages: StageTimes
    ) -> None:
        """Copy each live member's outputs, then let the kernel answer."""
        try:
            for request_id, outputs in zip(self._members.pop(batch_id, ()), replies, strict=False):
                pending = self._pending.get(request_id)
                if pending is not None:
                    pending.stages = stages
                    pending.take(outputs)
        except ExecutorError as error:
            self.on_failed(batch_id, error.code, error.message)
            return
        self._driver.post(
            BatchFinished(
                batch_id=batch_id,
                transfer_in_ns=stages.transfer_in_ns,
                execution_ns=stages.execution_ns,
                transfer_out_ns=stages.transfer_out_ns,
            )
        )

    def on_failed(self, batch_id: BatchId, code: str, message: str) -> None:
        """A batch raised."""
        self._members.pop(batch_id, None)
        self._driver.post(BatchFailed(batch_id=batch_id, code=code, message=message))

    def on_lost(self, replica_ids: tuple[ReplicaId, ...], message: str) -> None:
        """A worker died."""
        running = self._kernel.fleet.batches
        lost = set(replica_ids)
        for batch_id in list(self._members):
            batch = running.get(batch_id)
            if batch is None or batch.replica.replica_id in lost:
                del self._members[batch_id]
        # What the worker printed last follows on further lines: for the log, not for clients.
        first_line = message.partition("\n")[0]
        self._driver.post(ReplicasLost(replica_ids=replica_ids, message=first_line))
        for replica_id in replica_ids:
            self._forget_if_gone(replica_id)

    def _bound(self, call: InferCall, on_end: OnEnd) -> Pending:
        """A call, checked against the generation that would answer it."""
        generation = self._models.serving(call.model, call.version)
        assert generation.binding is not None, "a serving generation has a binding"
        return Pending(call, bind(call, generation.binding), generation, on_end)

    def _rebind(self, pending: Pending, generation: Generation) -> bool:
        """Fit a call that waited to the generation that runs it; False if it cannot be."""
        assert generation.binding is not None, "a ready replica is bound"
        try:
            bound = rebind(pending.bound, pending.call, generation.binding)
        except InvalidRequestError:
            return False
        pending.rebound(bound, generation)
        return True

    def _end_unloads(self, model: ModelName, error: HeadwayError | None = None) -> None:
        for future in self._unloads.pop(model, ()):
            if not future.done():
                future.set_result(None) if error is None else future.set_exception(error)

    def _forget_if_gone(self, replica_id: ReplicaId) -> None:
        if replica_id not in self._kernel.fleet.replicas:
            self._models.forget(replica_id)


def _error_of(command: Reject | Expire | Cancel | Fail, pending: Pending) -> HeadwayError:
    if isinstance(command, Cancel):
        return RequestCancelledError("the request was cancelled")
    return error_of(command, pending.call.model, pending.limit)


def _job_of(command: Dispatch, members: Sequence[Pending], generation: Generation) -> BatchJob:
    """A batch of whole requests, or of some rows of one."""
    assert generation.binding is not None, "a ready replica is bound"
    inputs: list[Sequence[Tensor]]
    if command.is_segment:
        inputs = [members[0].rows_from(command.first_row, command.rows)]
        member_rows = [command.rows]
    else:
        inputs = [member.bound.inputs for member in members]
        member_rows = [member.bound.rows for member in members]
    return BatchJob(
        batch_id=command.batch_id,
        replica_id=command.replica_id,
        slot=command.slot,
        slot_class=command.slot_class,
        members=inputs,
        member_rows=member_rows,
        can_batch=generation.binding.can_batch,
        outputs=wanted_by(members, counts_tokens=generation.counts_tokens),
        parameters=dict(members[0].bound.parameters),
    )


def _stopped() -> InternalError:
    return InternalError("the scheduler has stopped", hint="see the server's log; restart it")


def _tell_nobody(end: InferReply | HeadwayError) -> None:
    """For a call that never begins, and so never ends."""
