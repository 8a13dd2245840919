"""A scripted `Engine`: what a frontend meets in place of a server.

It echoes: each output is an input of the same name with `OUTPUT` for `INPUT`, bytes and all. A test
may set `outcome` to have the next calls raise or answer something else, or `gate` to keep them
waiting until it lets them go.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from headway.core import (
    UNKNOWN,
    Datatype,
    Forecast,
    ModelName,
    RejectReason,
    RequestId,
    Tensor,
    TierName,
)
from headway.errors import (
    HeadwayError,
    ModelNotFoundError,
    RequestCancelledError,
    UnavailableError,
)
from headway.executors import StageTimes, TensorSpec
from headway.runtime import (
    InferCall,
    InferEstimate,
    InferReply,
    ModelState,
    ModelStatistics,
    ModelStatus,
    OnEnd,
    StageStatistics,
)

ECHO = ModelName("echo")
Outcome = InferReply | Exception | Callable[[InferCall], Awaitable[InferReply]]


def a_status(
    name: str = ECHO,
    *,
    inputs: Sequence[TensorSpec] | None = None,
    outputs: Sequence[TensorSpec] | None = None,
    can_batch: bool = True,
    is_ready: bool = True,
) -> ModelStatus:
    """A served model; states only what a test cares for."""
    spec = TensorSpec(name="INPUT", datatype=Datatype.FP32, shape=(-1, 16))
    output = TensorSpec(name="OUTPUT", datatype=Datatype.FP32, shape=(-1, 16))
    return ModelStatus(
        name=ModelName(name),
        version="1",
        is_ready=is_ready,
        platform="onnxruntime_onnx",
        inputs=tuple(inputs or [spec]),
        outputs=tuple(outputs or [output]),
        can_batch=can_batch,
        batch_rows_max=8,
        linger_ns=2_000_000,
        queue_requests_max=100,
        tier=TierName("normal"),
        budget_ns=1_000_000_000,
        slots=2,
    )


def a_reply(
    *outputs: Tensor,
    model: str = ECHO,
    budget_ns: int = 1_000_000_000,
    source: str = "tier",
    foreseen: Forecast = UNKNOWN,
    late_ns: int = 0,
    segments: int = 1,
    stages: StageTimes | None = None,
    request_id: int = 0,
) -> InferReply:
    """A reply with these outputs."""
    return InferReply(
        model=ModelName(model),
        version="1",
        outputs=outputs,
        queue_delay_ns=1_500_000,
        service_ns=250_000,
        batch_rows=4,
        tier=TierName("normal"),
        budget_ns=budget_ns,
        budget_source=source,
        request_id=RequestId(request_id),
        foreseen=foreseen,
        late_ns=late_ns,
        segments=segments,
        stages=stages,
    )


@dataclass
class FakeEngine:
    """An `Engine` that does as it is told and remembers what it was asked."""

    models: dict[str, ModelStatus] = field(default_factory=lambda: {ECHO: a_status()})
    loading: set[str] = field(default_factory=set)
    """Models that load for the first time: there is no more to say of them yet."""
    states: list[ModelState] = field(default_factory=list)
    """Lines of the index besides the served models."""
    is_ready: bool = True
    outcome: Outcome | None = None
    foreseen: Forecast = UNKNOWN
    """Of every request."""
    late_ns: int = 0
    """Of every answer."""
    request_id: int = 0
    """Of every answer."""
    refusal: RejectReason | None = None
    """Of every request that is only asked about."""
    asked: list[InferCall] = field(default_factory=list)
    """What estimates were made of."""
    gate: asyncio.Event | None = None
    calls: list[InferCall] = field(default_factory=list)
    loads: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)
    unloads: list[str] = field(default_factory=list)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by each call."""
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the task of a call was cancelled."""
    load_error: Exception | None = None
    tasks: "dict[RequestId, asyncio.Future[InferReply]]" = field(default_factory=dict)
    """What `submit` has started."""

    def now_ns(self) -> int:
        """Time stands still here."""
        return 42

    async def infer(self, call: InferCall) -> InferReply:
        """Echo, or what the test has scripted."""
        self.calls.append(call)
        self.started.set()
        if self.gate is not None:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        if isinstance(self.outcome, Exception):
            raise self.outcome
        if isinstance(self.outcome, InferReply):
            return self.outcome
        if self.outcome is not None:
            return await self.outcome(call)
        self.status(call.model, call.version)
        return self._echo(call)

    def submit(self, call: InferCall, on_end: OnEnd) -> RequestId:
        """`infer` in a task of its own."""
        request_id = RequestId(len(self.calls) + 1)
        task = asyncio.get_running_loop().create_task(self.infer(call))
        self.tasks[request_id] = task
        task.add_done_callback(lambda done: on_end(_end_of(done)))
        return request_id

    def cancel(self, request_id: RequestId) -> None:
        """End the task."""
        self.tasks[request_id].cancel()

    def estimate(self, call: InferCall) -> InferEstimate:
        """What the test has scripted, with a budget of the call or of a second."""
        self.asked.append(call)
        status = self.status(call.model, call.version)
        budget_ns = status.budget_ns if call.budget_ns is None else call.budget_ns
        return InferEstimate(
            model=call.model,
            version=status.version,
            reason=self.refusal,
            retry_after_ns=0 if self.refusal is None else 2_500_000,
            foreseen=self.foreseen,
            left_ns=call.arrived_at_ns + budget_ns - self.now_ns(),
            tier=call.tier or status.tier,
            budget_ns=budget_ns,
            budget_source="tier" if call.budget_ns is None else call.budget_source,
        )

    def _echo(self, call: InferCall) -> InferReply:
        outputs = [
            Tensor(
                tensor.name.replace("INPUT", "OUTPUT"),
                tensor.datatype,
                tensor.shape,
                bytes(tensor.data),
            )
            for tensor in call.inputs
        ]
        wanted = [output for output in outputs if not call.outputs or output.name in call.outputs]
        reply = a_reply(
            *wanted,
            model=call.model,
            foreseen=self.foreseen,
            late_ns=self.late_ns,
            request_id=self.request_id,
        )
        if call.budget_ns is None:
            return reply
        return replace(reply, budget_ns=call.budget_ns, budget_source=call.budget_source)

    def status(self, model: ModelName, version: str = "") -> ModelStatus:
        """A model of `models`; there is version 1 of each."""
        if model in self.loading:
            raise UnavailableError(f"model `{model}` is still loading")
        if model not in self.models or version not in {"", "1"}:
            raise ModelNotFoundError(
                f"model `{model}` is not served", hint="`headway models` lists those that are"
            )
        return self.models[model]

    def index(self) -> Sequence[ModelState]:
        """The served models, then `states`."""
        served = [
            ModelState(
                name=status.name,
                version=status.version,
                state="READY" if status.is_ready else "LOADING",
                reason="",
            )
            for status in self.models.values()
        ]
        return [*served, *self.states]

    def statistics(
        self, model: ModelName | None = None, version: str = ""
    ) -> Sequence[ModelStatistics]:
        """Made-up counters."""
        names = list(self.models) if model is None else [self.status(model, version).name]
        stage = StageStatistics(count=3, total_ns=3_000)
        return [
            ModelStatistics(
                name=ModelName(name),
                version="1",
                last_inference_ms=1_700_000_000_000,
                inference_count=6,
                execution_count=3,
                success=stage,
                fail=StageStatistics(),
                queue=stage,
                compute_input=stage,
                compute_infer=stage,
                compute_output=stage,
                batch_stats={2: (stage, stage, stage)},
                memory_bytes=1024,
            )
            for name in names
        ]

    async def load(self, model: ModelName, overrides: Mapping[str, object]) -> None:
        """Serve a model of this name."""
        if self.load_error is not None:
            raise self.load_error
        self.loads.append((model, overrides))
        self.models[model] = a_status(model)

    async def unload(self, model: ModelName) -> None:
        """Serve it no more."""
        self.status(model)
        self.unloads.append(model)
        del self.models[model]

    def metrics_text(self, *, is_openmetrics: bool = False) -> Iterator[bytes]:
        """One metric."""
        yield b"# TYPE headway_up gauge\n"
        yield b"headway_up 1\n"
        if is_openmetrics:
            yield b"# EOF\n"


def _end_of(task: "asyncio.Future[InferReply]") -> InferReply | HeadwayError:
    if task.cancelled():
        return RequestCancelledError("cancelled")
    error = task.exception()
    if error is None:
        return task.result()
    # A real engine tells of nothing but its own errors; a test may script any, and see it answered.
    return error  # type: ignore[return-value]
