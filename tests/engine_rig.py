"""A live engine in virtual time, with scripted workers: what tests of the runtime are played on.

Every kernel step is kept as a Record and followed by a check of the kernel's laws; `close` fails
the test if a law was broken, an observer was lost, or anything of an ended request was kept.
"""

import asyncio
from array import array
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from msgspec.structs import replace

from headway.core import (
    Datatype,
    DeviceName,
    DeviceParams,
    Kernel,
    KernelParams,
    ModelName,
    ModelParams,
    Policy,
    Predictor,
    Record,
    SlotClass,
    Tensor,
    TierName,
    check_invariants,
)
from headway.errors import ModelNotFoundError
from headway.executors import BatchJob, ModelSpec, Signature
from headway.policy import fifo
from headway.runtime import (
    AsyncEngine,
    InferCall,
    InferReply,
    LoopClock,
    ModelPlan,
    Observer,
    TierParams,
)
from headway.testing import ECHO_SIGNATURE, MeanPredictor, ScriptedExecutor, VirtualLoop
from headway.units import NS_PER_MS, NS_PER_S

CPU = DeviceName("cpu")
ECHO = ModelName("echo")
NORMAL = TierName("normal")
URGENT = TierName("urgent")
BULK = TierName("bulk")
PATIENT = TierName("patient")
TIERS: Mapping[TierName, TierParams] = {
    NORMAL: TierParams(priority=10, budget_ns=NS_PER_S, slot_class=SlotClass.HIGH),
    URGENT: TierParams(priority=1, budget_ns=100 * NS_PER_MS, slot_class=SlotClass.HIGH),
    BULK: TierParams(priority=50, budget_ns=10 * NS_PER_S, slot_class=SlotClass.LOW),
    PATIENT: TierParams(
        priority=20,
        budget_ns=20 * NS_PER_MS,
        slot_class=SlotClass.HIGH,
        late_ns=100 * NS_PER_MS,
    ),
}


def a_plan(
    name: str = ECHO,
    *,
    version: str = "1",
    tier: TierName = NORMAL,
    devices: Sequence[DeviceName] = (CPU,),
    batch_rows_max: int = 4,
    **limits: Any,
) -> ModelPlan:
    """A model that the rig can load."""
    params = ModelParams(
        name=ModelName(name),
        version=version,
        devices=tuple(devices),
        batch_rows_max=batch_rows_max,
        **limits,
    )
    spec = ModelSpec(name=name, version=version, backend="python", path="scripted")
    return ModelPlan(params=params, spec=spec, tier=tier)


def floats(name: str, rows: Sequence[Sequence[float]]) -> Tensor:
    """A matrix of FP32."""
    data = array("f", [value for row in rows for value in row]).tobytes()
    return Tensor(name, Datatype.FP32, (len(rows), len(rows[0]) if rows else 1), data)


def values_of(tensor: Tensor) -> list[float]:
    """What is in it."""
    return list(array("f", bytes(tensor.data)))


def a_call(
    model: str = ECHO,
    *,
    value: float = 0.0,
    rows: int = 1,
    width: int = 1,
    arrived_at_ns: int = 0,
    inputs: Sequence[Tensor] | None = None,
    **fields: Any,
) -> InferCall:
    """A request whose every element is ``value``."""
    given = [floats("INPUT", [[value] * width] * rows)] if inputs is None else inputs
    return InferCall(
        model=ModelName(model), inputs=tuple(given), arrived_at_ns=arrived_at_ns, **fields
    )


class PlanCatalogue:
    """Models by name; an override replaces a field of the parameters."""

    def __init__(self, plans: Sequence[ModelPlan]) -> None:
        self.plans = {plan.params.name: plan for plan in plans}

    def names(self) -> Sequence[ModelName]:
        """All of them."""
        return list(self.plans)

    def plan(self, model: ModelName, overrides: Mapping[str, object]) -> ModelPlan:
        """One of them."""
        if model not in self.plans:
            raise ModelNotFoundError(f"model `{model}` is not configured")
        plan = self.plans[model]
        params = replace(plan.params, **overrides)
        spec = replace(plan.spec, version=params.version)
        return ModelPlan(params=params, spec=spec, tier=plan.tier)


@dataclass
class Rig:
    """One engine and all that hangs on it; needs a running `VirtualLoop`."""

    plans: Sequence[ModelPlan] = field(default_factory=lambda: [a_plan()])
    policy: Callable[[Predictor], Policy] = fifo
    devices: Sequence[DeviceParams] = (DeviceParams(name=CPU, slot_lanes=(0,)),)
    service_ns: int | Callable[[BatchJob], int | None] = 10 * NS_PER_MS
    load_ns: int = 0
    signature: Signature | Callable[[ModelSpec], Signature] = ECHO_SIGNATURE
    observers: Sequence[Observer] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    observe: Callable[[Kernel, LoopClock], Sequence[Observer]] = lambda kernel, clock: ()
    """For observers that need the kernel or the clock."""

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        params = KernelParams(devices=tuple(self.devices), **self.limits)
        self.kernel = Kernel(params, self.policy(MeanPredictor()))
        self.clock = LoopClock(loop, loop.monotonic_ns)
        self.catalogue = PlanCatalogue(self.plans)
        self.records: list[Record] = []
        self.lost_observers: list[Exception] = []
        self.engine = AsyncEngine(
            self.kernel,
            self.clock,
            self.catalogue,
            TIERS,
            observers=(self._record, *self.observers, *self.observe(self.kernel, self.clock)),
            observer_lost=self.lost_observers.append,
        )
        self.executor = ScriptedExecutor(
            self.clock,
            self.engine,
            service_ns=self.service_ns,
            load_ns=self.load_ns,
            signature=self.signature,
        )
        self.engine.attach(self.executor)

    def _record(self, now_ns, event, commands) -> None:
        self.records.append(
            Record(seq=len(self.records), now_ns=now_ns, event=event, commands=commands)
        )
        check_invariants(self.kernel)

    async def load_all(self) -> None:
        """Load every model of the catalogue."""
        for name in self.catalogue.names():
            await self.engine.load(name, {})

    def task(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Let something go on beside the test; the test awaits it."""
        return self.loop.create_task(coroutine)

    def infer(self, **call: Any) -> "asyncio.Task[InferReply]":
        """Send a request that arrives now."""
        return self.task(self.engine.infer(a_call(arrived_at_ns=self.clock.now_ns(), **call)))

    async def until_ms(self, at_ms: float) -> None:
        """Let everything before this instant happen, and what is due at it."""
        await asyncio.sleep(at_ms / 1_000 - self.loop.time())
        await asyncio.sleep(0)

    def close(self) -> None:
        """Nothing was lost, nothing is left."""
        self.clock.close()
        assert self.lost_observers == []
        assert leftovers(self) == {}


def leftovers(rig: Rig) -> dict[str, object]:
    """What engine, statistics and workers keep though nothing lives, by where it is."""
    engine = rig.engine
    models = engine._models
    kept = {
        "kernel.ledger.live": rig.kernel.ledger.live,
        "kernel.batches": rig.kernel.fleet.batches,
        "engine.pending": engine._pending,
        "engine.members": engine._members,
        "engine.unloads": engine._unloads,
        "statistics.live": engine._statistics._live,
        "statistics.batches": engine._statistics._batches,
        "driver.pending": engine._driver._pending,
        "models.by_replica": set(models._by_replica) - set(rig.kernel.fleet.replicas),
        "models.loading": [m.loading for m in models._models.values() if m.loading],
        "models.waiters": [m.waiters for m in models._models.values() if m.waiters],
        "executor.running": rig.executor.running,
        "executor.replicas": set(rig.executor._devices) - set(rig.kernel.fleet.replicas),
    }
    return {name: what for name, what in kept.items() if what}


def chance(seed: int, purpose: str) -> Random:
    """A stream of its own for each purpose."""
    return Random(f"{seed}/{purpose}")


async def random_calls(
    rig: Rig, draw: Random, after_each: Callable[[], object]
) -> list[InferReply | BaseException]:
    """Sixty requests, some of which are taken back; now and then a worker dies. Gives their ends.

    Args:
        rig: whose models are loaded.
        draw: all chance.
        after_each: called after each request.
    """
    calls = []
    for _ in range(60):
        budget_ns = draw.choice((None, 5, 20, 100, 0))
        calls.append(
            rig.infer(
                rows=draw.choice((1, 2, 5)),
                tier=draw.choice((None, URGENT, BULK)),
                budget_ns=None if budget_ns is None else budget_ns * NS_PER_MS,
            )
        )
        await asyncio.sleep(draw.choice((0, 0, 0.001, 0.005)))
        if draw.random() < 0.1:
            draw.choice(calls).cancel()
            await asyncio.sleep(0)
        if draw.random() < 0.03:
            rig.executor.lose(CPU)
        after_each()
    return await asyncio.gather(*calls, return_exceptions=True)
