"""`oracle`: the policy that knows the future. Only a simulator has it; it is a yardstick.

Whenever a slot could be used it plays a handful of plans on a copy of the very devices, with the
arrivals that will come and the times that batches will take, and acts by the one that lets the
fewest down: a high request counts 1, a low one `LOW_COST`. A plan is a limit on the batches of each
class that run at once on a device; the one in use, its neighbours, and a few that are always tried
compete. What a plan would start although it ends late is given up where nobody is the worse for it.

It is a real schedule and no bound: it looks one horizon ahead, through plans of one kind, so that
a better schedule may exist. Another policy may do better on one class by letting the other pay.
It cares for deadlines alone: what a tier would rather serve late than never is given up as well.
"""

from collections.abc import Sequence
from math import inf
from typing import Final

from headway.core import (
    BatchId,
    BatchView,
    BucketView,
    DeviceName,
    Dispatch,
    FleetView,
    Forecast,
    GiveUp,
    Hold,
    LoadView,
    ModelParams,
    Placing,
    Policy,
    Refusal,
    Request,
    RequestId,
    SlotClass,
    SlotOption,
    Start,
)
from headway.predict import Recipe, build_predictor
from headway.sim.devices import Finish
from headway.sim.futures import Foreseeable
from headway.sim.rollout import (
    Facilities,
    Plan,
    PlanRun,
    Rollout,
    RunningBatch,
    Situation,
    dispatch_of,
)
from headway.sim.scenario import Scenario

__all__ = ["Oracle"]

_HORIZON_BUDGETS: Final = 2.0
"""It looks ahead for so many times the shortest budget of a high request, or longer:"""
_HORIZON_SERVICES: Final = 1.5
"""for so many times what the longest batch takes alone."""
_HELD_STEPS: Final = (1, 3)
"""Plans that hold low work back for so many events compete too."""


class Oracle:
    """Four of a policy's five decisions, its memory, and the devices that it looks at.

    The world runs its batches on this object, which hands them on and keeps who is in them.

    Invariants: what it knows to wait and to run is what the kernel has waiting and running.
    """

    def __init__(self, scenario: Scenario, executor: Foreseeable) -> None:
        self._executor = executor
        self._scenario = scenario
        self._arrivals = list(scenario.requests())
        self._facilities = Facilities(
            {device.name: device for device in scenario.params.devices},
            {model.params.name: model.params for model in scenario.models},
            {model.params.name: model.profile for model in scenario.models},
        )
        self._slots_max = max(len(device.slot_lanes) for device in scenario.params.devices)
        self._lanes_max = max(len(set(device.slot_lanes)) for device in scenario.params.devices)
        self._horizon_ns = _horizon_ns(scenario)
        self._plan = Plan(self._slots_max, self._slots_max)
        self._waiting: dict[RequestId, Request] = {}
        self._members: dict[BatchId, tuple[Request, ...]] = {}
        """Of batches that the executor has."""
        self._segments: set[BatchId] = set()
        """Those that hold a part of a request, the rest of which waits."""
        self._started: list[Request] = []
        """Members of batches that it has not been told of yet, in order."""
        self._alive: set[RequestId] = set()
        """Members of running batches whose clients still wait."""
        self._seen = 0
        """Requests that have come."""
        self._planned: tuple[int, int] | None = None
        """State and instant for which the plan was chosen."""
        self._state = 0
        self._run: PlanRun | None = None

    def policy(self) -> Policy:
        """Itself as a policy."""
        recipe = Recipe(kind="fixed", profiles=self._scenario.profiles())
        return Policy(
            name="oracle",
            ordering=self,
            admission=self,
            batching=self,
            placement=self,
            predictor=build_predictor(recipe, self._scenario.params.devices),
            feedback=self,
        )

    # --- the world's devices ----------------------------------------------------------------------

    def start(self, dispatch: Dispatch, now_ns: int) -> Sequence[Finish]:
        """Hand a batch on."""
        self._state += 1
        count = len(dispatch.request_ids)
        self._members[dispatch.batch_id] = tuple(self._started[:count])
        del self._started[:count]
        if dispatch.is_segment:
            self._segments.add(dispatch.batch_id)
        return self._executor.start(dispatch, now_ns)

    def end(self, batch_id: BatchId, now_ns: int) -> Sequence[Finish]:
        """A batch has left its slot."""
        self._state += 1
        for request in self._members.pop(batch_id, ()):
            is_alive = request.request_id in self._alive
            self._alive.discard(request.request_id)
            if batch_id in self._segments and is_alive:
                self._waiting[request.request_id] = request
        self._segments.discard(batch_id)
        return self._executor.end(batch_id, now_ns)

    # --- decisions --------------------------------------------------------------------------------

    def key(self, request: Request) -> tuple[int, ...]:
        """Classes in order, in each the earliest deadline."""
        return (int(request.slot_class is SlotClass.LOW), request.deadline_at_ns)

    def refuse(
        self, request: Request, foreseen: Forecast, load: LoadView, now_ns: int
    ) -> Refusal | None:
        """Never: it gives up later, once that is known to help."""
        return None

    def due_at_ns(self, bucket: BucketView, model: ModelParams, now_ns: int) -> int:
        """At once: whether to wait is what plans are for."""
        return 0

    def rows_max(self, bucket: BucketView, model: ModelParams) -> int:
        """Whatever the model can take."""
        return model.batch_rows_max if model.can_batch else 1

    def place(
        self,
        bucket: BucketView,
        model: ModelParams,
        options: Sequence[SlotOption],
        fleet: FleetView,
        now_ns: int,
    ) -> Placing:
        """Start what the best plan starts, hold what it holds."""
        (head,) = bucket.front(1)
        alone_ns = self._facilities.profiles[head.model].service_ns(head.rows)
        if now_ns + alone_ns > head.deadline_at_ns:
            return GiveUp()
        if self._planned != (self._state, now_ns):
            self._choose(fleet, now_ns)
            self._planned = (self._state, now_ns)
        option = self._option(head, options, fleet)
        if option is None:
            return Hold()
        if self._run is not None and head.request_id in self._run.missed:
            run = self._roll(
                self._situation(fleet, now_ns),
                self._plan,
                without=head.request_id,
                cost_max=self._run.cost,
            )
            if run.cost <= self._run.cost:
                return GiveUp()
        return Start(option, self._rows(bucket, model, head, now_ns))

    # --- what it is told --------------------------------------------------------------------------

    def admitted(self, request: Request, now_ns: int) -> None:
        """It waits from now on."""
        self._state += 1
        self._seen = max(self._seen, int(request.request_id))
        self._waiting[request.request_id] = request

    def started(self, request: Request, rows: int, now_ns: int) -> None:
        """It waits no more."""
        self._state += 1
        self._waiting.pop(request.request_id, None)
        self._alive.add(request.request_id)
        self._started.append(request)

    def ran(self, request: Request, device_ns: int, now_ns: int) -> None:
        """Of no consequence."""

    def ended(self, request: Request, is_met: bool, now_ns: int) -> None:
        """Wherever it was."""
        self._state += 1
        self._waiting.pop(request.request_id, None)
        self._alive.discard(request.request_id)

    # --- plans ------------------------------------------------------------------------------------

    def _choose(self, fleet: FleetView, now_ns: int) -> None:
        """The plan that lets the fewest down; among equals the one that holds back least."""
        situation = self._situation(fleet, now_ns)
        best: tuple[float, int, Plan] | None = None
        for plan in self._candidates():
            run = self._roll(situation, plan, cost_max=inf if best is None else best[0])
            rank = (run.cost, plan.held_steps - plan.high_max - plan.low_max, plan)
            if best is None or rank < best:
                best, self._run = rank, run
            if best[:2] == (0.0, -2 * self._slots_max):
                break  # nobody is let down and nothing held back
        assert best is not None, "the plan in use is among the candidates"
        self._plan = best[2]

    def _candidates(self) -> list[Plan]:
        """The plan in use, its neighbours, those that hold low work back, and two for any mix."""
        high, low, _ = self._plan
        most, lanes = self._slots_max, self._lanes_max
        wanted = [
            Plan(most, most),
            Plan(high, low),
            *(Plan(high, low, steps) for steps in _HELD_STEPS),
            Plan(high, 0),
            Plan(high, low - 1),
            Plan(high, low + 1),
            Plan(high - 1, low),
            Plan(high + 1, low),
            Plan(lanes, lanes),
        ]
        allowed = [p for p in wanted if 1 <= p.high_max <= most and 0 <= p.low_max <= most]
        return list(dict.fromkeys(allowed))

    def _roll(
        self,
        situation: Situation,
        plan: Plan,
        *,
        without: RequestId | None = None,
        cost_max: float = inf,
    ) -> PlanRun:
        future = self._executor.future()
        for batch in situation.running:
            if batch.batch_id not in self._members:
                future.start(dispatch_of(batch), situation.now_ns)
        horizon_at_ns = situation.now_ns + self._horizon_ns
        rollout = Rollout(self._facilities, situation, future, horizon_at_ns)
        return rollout.play(plan, without=without, cost_max=cost_max)

    def _situation(self, fleet: FleetView, now_ns: int) -> Situation:
        started = list(self._started)
        running = []
        batches = [
            (name, b) for name in self._facilities.devices for b in fleet.device(name).running()
        ]
        # Members were told of batch by batch, in the order of the batches' numbers.
        for name, batch in sorted(batches, key=lambda pair: pair[1].batch_id):
            members: Sequence[Request] | None = self._members.get(batch.batch_id)
            if members is None:
                members = _first_rows(started, batch.rows)
            running.append(self._running(name, batch, members))
        return Situation(now_ns, list(self._waiting.values()), running, self._arrivals, self._seen)

    def _running(
        self, device: DeviceName, batch: BatchView, members: Sequence[Request]
    ) -> RunningBatch:
        alive = [request for request in members if request.request_id in self._alive]
        return RunningBatch(
            batch.batch_id, device, batch.slot, batch.slot_class, batch.model, batch.rows, alive
        )

    def _option(
        self, head: Request, options: Sequence[SlotOption], fleet: FleetView
    ) -> SlotOption | None:
        """Where the plan has room: the device that runs least, the lane with least of its class."""
        limit = self._plan.limit(head.slot_class, steps=0)
        best: tuple[tuple[int, int, int], SlotOption] | None = None
        for option in options:
            running = fleet.device(option.device).running()
            alike = [batch for batch in running if batch.slot_class is head.slot_class]
            if len(alike) >= limit:
                continue
            on_lane = sum(batch.lane == option.lane for batch in alike)
            rank = (len(running), on_lane, option.lane_running)
            if best is None or rank < best[0]:
                best = (rank, option)
        return None if best is None else best[1]

    def _rows(self, bucket: BucketView, model: ModelParams, head: Request, now_ns: int) -> int:
        """As many rows as are in time with it, were they alone on the device."""
        profile = self._facilities.profiles[head.model]
        rows_max = self._facilities.rows_max(head.model)
        rows, tightest_ns = 0, head.deadline_at_ns
        for request in bucket.front(rows_max):
            grown = rows + request.rows
            tightest_ns = min(tightest_ns, request.deadline_at_ns)
            is_late = now_ns + profile.service_ns(grown) > tightest_ns
            if rows and (grown > rows_max or is_late):
                break
            rows = grown
        return min(rows, rows_max) if model.can_split else rows


def _first_rows(requests: list[Request], rows: int) -> list[Request]:
    """Take as many requests off a list as have so many rows."""
    taken: list[Request] = []
    while requests and sum(request.rows for request in taken) < rows:
        taken.append(requests.pop(0))
    return taken


def _horizon_ns(scenario: Scenario) -> int:
    budgets = scenario.budgets()
    high = [
        budget.min_ns
        for name, budget in budgets.items()
        if scenario.tiers[name].slot_class is SlotClass.HIGH
    ]
    longest_ns = max(
        model.profile.service_ns(model.params.batch_rows_max if model.params.can_batch else 1)
        for model in scenario.models
    )
    return round(max(_HORIZON_BUDGETS * min(high, default=0), _HORIZON_SERVICES * longest_ns))
