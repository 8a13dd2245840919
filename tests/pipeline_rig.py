"""Pipelines before an engine whose models are Python functions of tensors, in virtual time.

`FunctionEngine` computes what a test says after as long as a test says; it keeps every call, and
what was taken back. A deadline ends nothing there: what deadlines do is tested on the real kernel.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tests.engine_rig import NORMAL, TIERS, floats, values_of

from headway.core import UNKNOWN, Datatype, Forecast, ModelName, RequestId, Tensor
from headway.errors import HeadwayError, RequestCancelledError
from headway.executors import TensorSpec, count_name, item_name
from headway.runtime import (
    InferCall,
    InferReply,
    ModelState,
    ModelStatus,
    Patience,
    PipelinePlan,
    Pipelines,
    Source,
    StepPlan,
)
from headway.units import NS_PER_MS

MS = NS_PER_MS
PIPE = ModelName("pipe")

Compute = Callable[[InferCall], Sequence[Tensor]]


@dataclass
class Asked:
    """A call that the engine was given."""

    call: InferCall
    asked_at_ns: int
    on_end: Callable[[InferReply | HeadwayError], None]
    is_over: bool = False
    was_cancelled: bool = False


@dataclass
class FunctionEngine:
    """An `Engine` that computes; only what pipelines ask of one."""

    models: Mapping[str, Compute]
    took_ns: Callable[[InferCall], int] = lambda call: MS
    foreseen: Callable[[InferCall], Forecast] = lambda call: UNKNOWN
    is_ready: bool = True
    missing: set[str] = field(default_factory=set)
    signatures: dict[str, tuple[Sequence[TensorSpec], Sequence[TensorSpec]]] = field(
        default_factory=dict
    )
    """What models declare; those that are not here declare nothing."""

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.asked: dict[RequestId, Asked] = {}
        self.loads: list[str] = []
        self.unloads: list[str] = []

    def now_ns(self) -> int:
        return self.loop.monotonic_ns()

    def submit(self, call, on_end) -> RequestId:
        if call.model not in self.models:
            from headway.errors import ModelNotFoundError

            raise ModelNotFoundError(f"model `{call.model}` is not served")
        request_id = RequestId(len(self.asked) + 1)
        self.asked[request_id] = Asked(call, self.now_ns(), on_end)
        took_ns = self.took_ns(call)
        self.loop.call_at((self.now_ns() + took_ns) / 1e9, partial(self._end, request_id))
        return request_id

    async def infer(self, call):
        future = self.loop.create_future()
        self.submit(call, future.set_result)
        return await future

    def cancel(self, request_id) -> None:
        asked = self.asked[request_id]
        if not asked.is_over:
            asked.is_over = asked.was_cancelled = True
            asked.on_end(RequestCancelledError("the request was cancelled"))

    def status(self, model, version="") -> ModelStatus:
        return ModelStatus(
            name=model,
            version="1",
            is_ready=model not in self.missing,
            platform="scripted",
            inputs=self.signatures.get(model, ((), ()))[0],
            outputs=self.signatures.get(model, ((), ()))[1],
            can_batch=True,
            batch_rows_max=1,
            linger_ns=0,
            queue_requests_max=1,
            tier=NORMAL,
            budget_ns=1,
            slots=3,
        )

    def index(self):
        return [ModelState(name=n, version="1", state="READY", reason="") for n in self.models]

    async def load(self, model, overrides) -> None:
        self.loads.append(model)

    async def unload(self, model) -> None:
        self.unloads.append(model)

    @property
    def under_way(self) -> list[Asked]:
        return [asked for asked in self.asked.values() if not asked.is_over]

    def calls_of(self, model: str) -> list[InferCall]:
        return [asked.call for asked in self.asked.values() if asked.call.model == model]

    def _end(self, request_id: RequestId) -> None:
        asked = self.asked[request_id]
        if asked.is_over:
            return
        asked.is_over = True
        asked.on_end(self._outcome(asked))

    def _outcome(self, asked: Asked) -> InferReply | HeadwayError:
        call = asked.call
        try:
            outputs = self.models[call.model](call)
        except HeadwayError as error:
            return error
        return InferReply(
            model=call.model,
            version="1",
            outputs=outputs,
            queue_delay_ns=0,
            service_ns=self.now_ns() - asked.asked_at_ns,
            batch_rows=1,
            tier=call.tier,
            budget_ns=call.budget_ns,
            budget_source=call.budget_source,
            foreseen=self.foreseen(call),
        )


class Tally:
    """An observer that adds up."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.ends: list[tuple[str, bool, int, int]] = []
        self.refusals = 0

    def started(self, pipeline) -> None:
        self.now["runs"] += 1

    def ended(self, pipeline, tier, outcome, *, is_met, wall_ns, busy_ns) -> None:
        self.now["runs"] -= 1
        self.ends.append((outcome, is_met, wall_ns, busy_ns))

    def refused(self, pipeline, tier) -> None:
        self.refusals += 1

    def held(self, pipeline, delta_bytes) -> None:
        self.now["bytes"] += delta_bytes

    def asked(self, pipeline, delta) -> None:
        self.now["steps"] += delta


def a_number(value: float, name: str = "x") -> Tensor:
    """A tensor of one element."""
    return floats(name, [[value]])


def the_number(tensor: Tensor) -> float:
    """What is in it."""
    (value,) = values_of(tensor)
    return value


def a_list(name: str, values: Sequence[float]) -> list[Tensor]:
    """As a function's list travels."""
    count = Tensor(count_name(name), Datatype.INT64, (1,), len(values).to_bytes(8, "little"))
    return [count, *(a_number(value, item_name(name, i)) for i, value in enumerate(values))]


def numbers_of(call: InferCall) -> dict[str, float]:
    """The inputs of a call."""
    return {t.name: the_number(t) for t in call.inputs if t.datatype is Datatype.FP32}


def maps(function: Callable[..., float], output: str = "y") -> Compute:
    """A model that computes one number of its inputs, by name."""
    return lambda call: [a_number(function(**numbers_of(call)), output)]


def a_step(name: str, *, each: str | None = None, model: str = "", **inputs: str) -> StepPlan:
    """A step whose inputs are written as in a file."""
    return StepPlan(
        name=name,
        model=ModelName(model or name),
        is_function=not model,
        inputs={key: a_source(text) for key, text in inputs.items()},
        each=None if each is None else a_source(each),
    )


def a_source(text: str) -> Source:
    """`step.output`, or `input.name`."""
    step, _, name = text.partition(".")
    return Source("" if step == "input" else step, name)


def a_pipeline(*steps: StepPlan, inputs: Sequence[str] = ("x",), **fields) -> PipelinePlan:
    """One whose outputs are given as keyword arguments that begin with `out_`."""
    outputs = {k.removeprefix("out_"): v for k, v in fields.items() if k.startswith("out_")}
    limits = {k: v for k, v in fields.items() if not k.startswith("out_")}
    return PipelinePlan(
        name=PIPE,
        tier=NORMAL,
        inputs=tuple(_spec(name) for name in inputs),
        outputs=tuple(_spec(name) for name in outputs),
        sources={name: a_source(text) for name, text in outputs.items()},
        steps=steps,
        **limits,
    )


def _spec(name: str) -> TensorSpec:
    return TensorSpec(name=name, datatype=Datatype.FP32, shape=(-1, -1))


def pipelines_on(engine, *plans: PipelinePlan, tally: Tally | None = None) -> Pipelines:
    """A layer before the engine."""
    return Pipelines(
        engine, plans, TIERS, observer=tally or Tally(), patience=Patience(10 * MS, 1_000 * MS)
    )


def a_pipe_call(engine, value: float = 1.0, **fields) -> InferCall:
    """A call of the pipeline, arriving now."""
    fields.setdefault("inputs", (a_number(value),))
    return InferCall(model=PIPE, arrived_at_ns=engine.now_ns(), **fields)
