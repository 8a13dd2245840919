"""One policy, two worlds: the simulator and the live engine take the same steps at the same times.

The same seeded traffic is played through `sim.World` and through an `AsyncEngine` on a
`VirtualLoop` with scripted workers. Traffic is made of bursts on a coarse grid of instants, on
which services, lingers and budgets fall too: ties of everything with everything are the rule.
"""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from tests.engine_rig import BULK, CPU, NORMAL, PATIENT, TIERS, URGENT, Rig, a_call, a_plan, chance
from tests.moody import Impatient, Moody, moody

from headway.core import (
    BatchFinished,
    Complete,
    DeviceName,
    DeviceParams,
    Dispatch,
    Event,
    Expire,
    Hold,
    KeepSegment,
    Kernel,
    KernelParams,
    ModelLoadRequested,
    Placing,
    Policy,
    Predictor,
    Record,
    Reject,
    ReplaceWorker,
    ReplicasLost,
    Request,
    RequestArrived,
    RequestCancelled,
    RequestId,
    TenantId,
    TimerFired,
)
from headway.observe import JournalHeader, JournalObserver, read_journal, replay
from headway.policy import edf, fifo, priority
from headway.runtime import InferCall, ModelPlan
from headway.runtime.binding import Binding, bind
from headway.sim import Fault, SoloTimes, World, record_into
from headway.testing import ECHO_SIGNATURE, MeanPredictor, run_virtual
from headway.units import NS_PER_MS

SEEDS = range(20)
POLICIES = {"fifo": fifo, "priority": priority, "edf": edf, "moody": moody}
GPU = DeviceName("gpu")
LOAD_NS = 5 * NS_PER_MS
FIRST_AT_NS = 6 * LOAD_NS
"""The engine refuses calls to a model that was never warm, so a loss while loading comes first."""
BUDGETS_NS = (None, *(ms * NS_PER_MS for ms in (0, 3, 5, 10, 20, 50)))
HORIZON_S = 10_000.0
"""Long after the last event; virtual time makes it free."""
LIMITS = {
    "requests_max": 40,
    "restart_delay_ns_min": 20 * NS_PER_MS,
    "restart_delay_ns_max": 80 * NS_PER_MS,
}


class Cancellation(NamedTuple):
    at_ns: int
    request_id: RequestId


@dataclass
class Scenario:
    """Traffic and trouble, the same for both worlds."""

    seed: int
    policy: Callable[[Predictor], Policy]
    request_count: int = 150
    with_trouble: bool = False
    """Worker losses, hung batches, cancellations and a reload."""
    plans: list[ModelPlan] = field(init=False)
    devices: tuple[DeviceParams, ...] = field(init=False)
    calls: list[InferCall] = field(init=False)
    faults: list[Fault] = field(default_factory=list)
    cancellations: list[Cancellation] = field(default_factory=list)
    reload_at_ns: int | None = None

    def __post_init__(self) -> None:
        draw = chance(self.seed, "machine")
        self.devices = (
            DeviceParams(name=CPU, slot_lanes=(0, 1)[: draw.choice((1, 2))]),
            DeviceParams(name=GPU, slot_lanes=(0,)),
        )
        self.plans = [
            a_plan(
                "a",
                linger_ns=draw.choice((0, 2, 5)) * NS_PER_MS,
                queue_requests_max=12,
                batch_ns_max=30 * NS_PER_MS,
                can_split=draw.choice((False, True)),
            ),
            a_plan(
                "b",
                devices=draw.choice(((CPU,), (GPU,), (CPU, GPU))),
                batch_rows_max=draw.choice((1, 3, 8)),
                linger_ns=draw.choice((0, 3)) * NS_PER_MS,
                batch_ns_max=50 * NS_PER_MS,
                can_split=draw.choice((False, True)),
            ),
        ]
        self.calls = list(self._calls())
        if self.with_trouble:
            self._make_trouble()

    def _calls(self) -> Iterator[InferCall]:
        draw = chance(self.seed, "arrivals")
        at_ns = FIRST_AT_NS
        for number in range(self.request_count):
            at_ns += draw.choice((0, 0, 0, 1, 1, 2, 7)) * NS_PER_MS
            yield a_call(
                draw.choice("ab"),
                value=number,
                rows=draw.choice((1, 1, 1, 2, 4)),
                width=draw.choice((1, 1, 1, 2)),
                tier=draw.choice((None, NORMAL, URGENT, BULK, PATIENT)),
                budget_ns=draw.choice(BUDGETS_NS),
                arrived_at_ns=at_ns,
            )

    def _make_trouble(self) -> None:
        draw = chance(self.seed, "trouble")
        end_at_ns = self.calls[-1].arrived_at_ns
        grid = range(FIRST_AT_NS, end_at_ns, NS_PER_MS)
        self.faults = [Fault(draw.choice(grid), draw.choice((CPU, GPU))) for _ in range(4)]
        self.faults.append(Fault(LOAD_NS // 5, CPU))
        self.cancellations = [
            Cancellation(call.arrived_at_ns + draw.choice((0, 1, 3)) * NS_PER_MS, RequestId(i))
            for i, call in enumerate(self.calls, start=1)
            if draw.random() < 0.1
        ]
        self.reload_at_ns = draw.choice(grid)

    def service_ns(self, batch_id: int, rows: int) -> int:
        """By batch, so that both worlds draw alike; now and then one hangs."""
        draw = chance(self.seed, f"service/{batch_id}")
        if self.with_trouble and draw.random() < 0.03:
            return 10_000 * NS_PER_MS
        return draw.choice((1, 2, 5)) * NS_PER_MS + rows * draw.choice((0, 0, NS_PER_MS, 1_234))

    def request(self, call: InferCall, number: int) -> Request:
        """What the engine makes of a call."""
        plan = next(p for p in self.plans if p.params.name == call.model)
        bound = bind(call, Binding(ECHO_SIGNATURE, can_batch=True))
        name = plan.tier if call.tier is None else call.tier
        tier = TIERS[name]
        budget_ns = tier.budget_ns
        if call.budget_ns is not None:
            budget_ns = min(budget_ns, call.budget_ns)
        return Request(
            request_id=RequestId(number),
            model=call.model,
            bucket=bound.bucket,
            rows=bound.rows,
            payload_bytes=bound.payload_bytes,
            priority=tier.priority,
            tier=name,
            tenant=TenantId("default"),
            slot_class=tier.slot_class,
            arrived_at_ns=call.arrived_at_ns,
            budget_ns=budget_ns,
            late_ns=tier.late_ns,
        )


def simulated(scenario: Scenario) -> list[Record]:
    """The records of the simulator."""
    records: list[Record] = []
    kernel = Kernel(
        KernelParams(devices=scenario.devices, **LIMITS), scenario.policy(MeanPredictor())
    )
    times = SoloTimes(lambda dispatch: scenario.service_ns(dispatch.batch_id, dispatch.rows))
    world = World(kernel, times, observe=record_into(records), load_ns=LOAD_NS)
    world.load(plan.params for plan in scenario.plans)
    for at_ns, request_id in scenario.cancellations:
        world.schedule(at_ns, RequestCancelled(request_id=request_id))
    if scenario.reload_at_ns is not None:
        world.schedule(scenario.reload_at_ns, ModelLoadRequested(model=reloaded(scenario).params))
    world.run(
        (scenario.request(call, i) for i, call in enumerate(scenario.calls, start=1)),
        faults=scenario.faults,
    )
    return records


def live(scenario: Scenario, *observers: Any) -> list[Record]:
    """The records of the live engine."""
    return run_virtual(_live(scenario, observers))


async def _live(scenario: Scenario, observers: Sequence[Any]) -> list[Record]:
    rig = Rig(
        scenario.plans,
        policy=scenario.policy,
        devices=scenario.devices,
        service_ns=lambda job: scenario.service_ns(job.batch_id, sum(job.member_rows)),
        load_ns=LOAD_NS,
        observers=observers,
        limits=LIMITS,
    )
    answers: Counter[str] = Counter()
    for plan in scenario.plans:
        begin(rig.engine.load(plan.params.name, {}), answers)
    for cancellation in scenario.cancellations:
        event = RequestCancelled(request_id=cancellation.request_id)
        rig.clock.call_at(cancellation.at_ns, posting(rig, event))
    if scenario.reload_at_ns is not None:
        name = reloaded(scenario).params.name
        rig.clock.call_at(
            scenario.reload_at_ns,
            lambda: begin(rig.engine.load(name, {"version": "2"}), answers),
        )
    for fault in scenario.faults:
        rig.clock.call_at(fault.at_ns, losing(rig, fault.device))
    calls = iter(scenario.calls)

    def pull() -> None:
        call = next(calls, None)
        if call is not None:
            rig.clock.call_at(call.arrived_at_ns, lambda: arrive(call))

    def arrive(call: InferCall) -> None:
        pull()
        begin(rig.engine.infer(call), answers)

    pull()
    await asyncio.sleep(HORIZON_S)
    assert answers.total() == len(scenario.calls) + len(scenario.plans) + (
        scenario.reload_at_ns is not None
    )
    rig.close()
    return rig.records


def reloaded(scenario: Scenario) -> ModelPlan:
    """The plan of the second version of model `a`."""
    plan = scenario.plans[0]
    return ModelPlan(params=replace(plan.params, version="2"), spec=plan.spec, tier=plan.tier)


def posting(rig: Rig, event: Event) -> Callable[[], None]:
    return lambda: rig.engine._driver.post(event)


def losing(rig: Rig, device: DeviceName) -> Callable[[], None]:
    return lambda: rig.executor.lose(device, "simulated worker loss")


def begin(coroutine: Coroutine[Any, Any, Any], answers: "Counter[str]") -> None:
    """Run a coroutine to its first wait at once, and on from there as its futures are answered.

    A task would begin one turn of the loop later, after whatever else is due at this instant.
    """

    def step(future: "asyncio.Future[Any] | None" = None) -> None:
        try:
            waited_for = coroutine.send(None)
        except StopIteration as end:
            answers[type(end.value).__name__] += 1
        except Exception as error:  # noqa: BLE001 - every answer counts
            answers[type(error).__name__] += 1
        else:
            waited_for._asyncio_future_blocking = False
            waited_for.add_done_callback(step)

    step()


def first_difference(a: Sequence[Record], b: Sequence[Record]) -> str:
    for one, other in zip(a, b, strict=False):
        if one != other:
            return f"simulated {one}\nlive      {other}"
    return f"{len(a)} steps simulated, {len(b)} live"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_both_worlds_take_the_same_steps(policy, seed):
    """Events, instants and commands of a simulated and a live run are equal, ties included."""
    scenario = Scenario(seed, POLICIES[policy])
    simulation, engine = simulated(scenario), live(scenario)
    assert engine == simulation, first_difference(simulation, engine)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_both_worlds_suffer_alike(policy, seed):
    """They stay equal through lost workers, hung batches, cancellations and a reload."""
    scenario = Scenario(seed, POLICIES[policy], with_trouble=True)
    simulation, engine = simulated(scenario), live(scenario)
    assert engine == simulation, first_difference(simulation, engine)


def test_scenarios_are_worth_comparing():
    """Over the seeds there are refusals, expiries, shared batches, ties and every trouble."""
    kinds: Counter[type] = Counter()
    ties = members = 0
    for seed in SEEDS:
        records = simulated(Scenario(seed, priority, with_trouble=True))
        ties += sum(a.now_ns == b.now_ns for a, b in pairwise(records))
        for record in records:
            kinds[type(record.event)] += 1
            kinds.update(type(command) for command in record.commands)
            members += sum(
                len(c.request_ids) > 1 for c in record.commands if isinstance(c, Dispatch)
            )
    wanted = (
        *(BatchFinished, Complete, Expire, ModelLoadRequested, ReplaceWorker, ReplicasLost),
        *(Reject, RequestArrived, RequestCancelled, TimerFired),
    )
    assert [kind.__name__ for kind in wanted if kinds[kind] < 20] == []
    assert min(ties, members) > 200


def test_moods_are_worth_comparing():
    """Over the seeds there are segments, rows run again, holds of both kinds, give-ups, promotions.

    And answers that are late.
    """
    kinds: Counter[str] = Counter()
    for seed in SEEDS:
        scenario = Scenario(seed, counted(kinds), with_trouble=True)
        requests = {i: scenario.request(call, i) for i, call in enumerate(scenario.calls, start=1)}
        begun: set[int] = set()
        for record in simulated(scenario):
            for command in record.commands:
                kinds[type(command).__name__] += 1
                if isinstance(command, Expire):
                    kinds[command.reason] += 1
                elif isinstance(command, Complete):
                    request = requests[command.request_id]
                    kinds["late"] += record.now_ns > request.deadline_at_ns
                elif isinstance(command, KeepSegment):
                    begun.add(command.request_id)
                elif isinstance(command, Dispatch) and command.first_row == 0:
                    kinds["over again"] += command.request_ids[0] in begun
    wanted = {"KeepSegment": 200, "predicted_late": 50, "late": 50, "promoted": 200}
    wanted |= {"held until": 50, "held": 50, "over again": 1}
    assert {kind: kinds[kind] for kind, least in wanted.items() if kinds[kind] < least} == {}


def counted(kinds: "Counter[str]") -> Callable[[Predictor], Policy]:
    """The moody policy, its moods counted."""

    class Counting(Moody):
        def place(self, *asked: Any) -> Placing:
            placing = super().place(*asked)
            if isinstance(placing, Hold):
                kinds["held" if placing.until_ns is None else "held until"] += 1
            return placing

    class CountingAge(Impatient):
        def promoted_key(self, request: Request) -> tuple[int, ...]:
            kinds["promoted"] += 1
            return super().promoted_key(request)

    return lambda predictor: dataclasses.replace(
        moody(predictor), placement=Counting(), aging=CountingAge()
    )


@pytest.mark.parametrize(("seed", "policy"), [(0, priority), (7, priority), (3, moody)])
def test_live_journal_replays(tmp_path, seed, policy):
    """A fresh kernel fed a live run's journal says what the live one said, to the last step."""
    count, divergence = replayed(a_journal(tmp_path, seed, policy), policy)
    assert divergence is None
    assert count == len(live(Scenario(seed, policy, with_trouble=True)))


def test_replay_under_another_policy_diverges(tmp_path):
    """A kernel that decides otherwise is caught at the first step where it does."""
    count, divergence = replayed(a_journal(tmp_path, 3), edf)
    assert divergence is not None
    assert divergence.record.seq == count
    assert divergence.replayed != divergence.record.commands
    assert divergence.error is None


CORRUPTIONS = {
    "id": (b'"Complete","request_id":', b'"Complete","request_id":1'),
    "number": (b'"service_ns":', b'"service_ns":1'),
    "event": (b'"BatchFinished","batch_id":', b'"BatchFinished","batch_id":9'),
}


@pytest.mark.parametrize("what", CORRUPTIONS)
def test_corrupted_journal_diverges(tmp_path, what):
    """A journal in which one number was changed does not replay as if nothing had happened."""
    old, new = CORRUPTIONS[what]
    path = a_journal(tmp_path, 5)
    text = path.read_bytes()
    at = text.index(old, len(text) // 2)
    path.write_bytes(text[:at] + new + text[at + len(old) :])
    count, divergence = replayed(path, priority)
    assert divergence is not None
    assert divergence.record.seq == count


def test_journal_that_breaks_the_kernel_diverges(tmp_path):
    """Where the kernel itself raises, the replay says at which step and what."""
    path = a_journal(tmp_path, 5)
    lines = path.read_bytes().splitlines(keepends=True)
    arrival = next(i for i, line in enumerate(lines) if b"RequestArrived" in line)
    path.write_bytes(b"".join([*lines[: arrival + 1], lines[arrival]]))
    count, divergence = replayed(path, priority)
    assert divergence is not None
    assert count == arrival
    assert "request ids are never used again" in (divergence.error or "")


def replayed(path, policy):
    """What a replay of the file says under a policy."""
    header, records = read_journal(path)
    with closing(records):
        return replay(Kernel(header.params, policy(MeanPredictor())), records)


def a_journal(folder, seed, policy=priority):
    """A live run's, in a file."""
    scenario = Scenario(seed, policy, with_trouble=True)
    header = JournalHeader(
        headway="0",
        started_at="2024-01-01T00:00:00+00:00",
        params=KernelParams(devices=scenario.devices, **LIMITS),
        policy={"kind": "priority"},
    )
    path = folder / "run.journal"
    journal = JournalObserver(path, header)
    live(scenario, journal)
    journal.close()
    return path
