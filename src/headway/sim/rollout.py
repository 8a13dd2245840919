"""What would come of a plan, played on the devices' own future and the arrivals that will be.

Knows everything: how long each batch takes, its scatter included, and who arrives when. Refuses to
serve a policy that runs live. A plan is simple: classes in order, in each the earliest deadline
first, and no more batches of a class on a device at once than it says. It is judged by whom it
lets down.
"""

from bisect import insort
from collections.abc import Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

from headway.core import (
    BatchId,
    DeviceName,
    DeviceParams,
    Dispatch,
    ModelName,
    ModelParams,
    ReplicaId,
    Request,
    RequestId,
    SlotClass,
    SlotIndex,
)
from headway.predict import Profile
from headway.sim.futures import Future, FutureEnd

__all__ = [
    "LOW_COST",
    "Facilities",
    "Plan",
    "PlanRun",
    "Rollout",
    "RunningBatch",
    "Situation",
    "dispatch_of",
]

LOW_COST: Final = 0.1
"""What a low request that is let down counts beside a high one."""
_NO_REPLICA: Final = ReplicaId(0)
_NEVER_NS: Final = 1 << 62


class Facilities(NamedTuple):
    """What does not change: where batches run, and how long they take alone."""

    devices: Mapping[DeviceName, DeviceParams]
    models: Mapping[ModelName, ModelParams]
    profiles: Mapping[ModelName, Profile]

    def rows_max(self, model: ModelName) -> int:
        """Of one batch."""
        params = self.models[model]
        return params.batch_rows_max if params.can_batch else 1


class RunningBatch(NamedTuple):
    """A batch on a slot, and those in it who still wait for an answer."""

    batch_id: BatchId
    device: DeviceName
    slot: SlotIndex
    slot_class: SlotClass
    model: ModelName
    rows: int
    requests: Sequence[Request]


class Situation(NamedTuple):
    """Everything at one instant."""

    now_ns: int
    waiting: Sequence[Request]
    running: Sequence[RunningBatch]
    arrivals: Sequence[Request]
    """All of the run, in order of time."""
    next_arrival: int
    """Index of the first that has not come yet."""


class Plan(NamedTuple):
    """How many batches of each class may run at once on a device."""

    high_max: int
    low_max: int
    held_steps: int = 0
    """Arrivals and ends to come before any low batch starts."""

    def limit(self, slot_class: SlotClass, steps: int) -> int:
        """Of one class after so many arrivals and ends."""
        if slot_class is SlotClass.HIGH:
            return self.high_max
        return self.low_max if steps >= self.held_steps else 0


class PlanRun(NamedTuple):
    """What came of a plan."""

    cost: float
    """High requests let down, and low ones at `LOW_COST`."""
    missed: frozenset[RequestId]


class _Place:
    """A device: its free slots and what runs on it, by lane and class."""

    __slots__ = ("free", "of_class", "on_lane", "params")

    def __init__(self, params: DeviceParams) -> None:
        self.params = params
        self.free = list(range(len(params.slot_lanes)))
        self.on_lane = {lane: dict.fromkeys(SlotClass, 0) for lane in params.slot_lanes}
        self.of_class = dict.fromkeys(SlotClass, 0)

    def take(self, slot: SlotIndex, slot_class: SlotClass) -> None:
        self.free.remove(slot)
        self.on_lane[self.params.slot_lanes[slot]][slot_class] += 1
        self.of_class[slot_class] += 1

    def give(self, slot: SlotIndex, slot_class: SlotClass) -> None:
        insort(self.free, slot)
        self.on_lane[self.params.slot_lanes[slot]][slot_class] -= 1
        self.of_class[slot_class] -= 1

    def best(self, slot_class: SlotClass) -> SlotIndex:
        """The free slot whose lane runs the fewest of that class, and of those the fewest."""

        def rank(slot: int) -> tuple[int, int, int]:
            here = self.on_lane[self.params.slot_lanes[slot]]
            return (here[slot_class], sum(here.values()), slot)

        return SlotIndex(min(self.free, key=rank))

    @property
    def running(self) -> int:
        return len(self.params.slot_lanes) - len(self.free)


class Rollout:
    """One plan, from a situation to a horizon.

    Requests that arrive by the horizon count. What runs then is run to its end; what waits then
    counts as let down if it could not make it alone.
    Cost: some tens of microseconds a batch on lanes, some hundreds on an emulated machine.
    """

    def __init__(
        self, facilities: Facilities, situation: Situation, future: Future, horizon_at_ns: int
    ) -> None:
        self._facilities = facilities
        self._future = future
        self._now_ns = situation.now_ns
        self._horizon_at_ns = horizon_at_ns
        self._arrivals = situation.arrivals
        self._next = situation.next_arrival
        self._places = {name: _Place(params) for name, params in facilities.devices.items()}
        self._running = {batch.batch_id: batch for batch in situation.running}
        for batch in situation.running:
            self._places[batch.device].take(batch.slot, batch.slot_class)
        self._waiting = sorted(((_key(r), r) for r in situation.waiting), key=lambda pair: pair[0])
        self._batch_seq = -1
        self._steps = 0
        self._missed: set[RequestId] = set()
        self._cost = 0.0

    def play(
        self, plan: Plan, *, without: RequestId | None = None, cost_max: float = inf
    ) -> PlanRun:
        """Play it, once.

        Args:
            plan: which.
            without: a request that is given up at the start.
            cost_max: no need to go on once it has cost more than this.
        """
        for _, request in self._waiting:
            if request.request_id == without:
                self._miss(request)
        self._waiting = [pair for pair in self._waiting if pair[1].request_id != without]
        self._start_all(plan)
        while (
            self._now_ns < self._horizon_at_ns
            and self._cost <= cost_max
            and (self._waiting or self._comes_ns() < _NEVER_NS)
        ):
            self._step(plan)
        if self._cost <= cost_max:
            self._settle()
        return PlanRun(self._cost, frozenset(self._missed))

    def _step(self, plan: Plan) -> None:
        """On to the next arrival or end, or the horizon."""
        self._steps += 1
        comes_ns = self._comes_ns()
        end = self._future.next_end(min(comes_ns, self._horizon_at_ns))
        if end is not None:
            self._end(end)
        elif comes_ns < self._horizon_at_ns:
            self._now_ns = comes_ns
            request = self._arrivals[self._next]
            self._next += 1
            insort(self._waiting, (_key(request), request), key=lambda pair: pair[0])
        else:
            self._now_ns = self._horizon_at_ns
            return
        self._start_all(plan)

    def _comes_ns(self) -> int:
        """The next arrival that counts."""
        if self._next >= len(self._arrivals):
            return _NEVER_NS
        at_ns = self._arrivals[self._next].arrived_at_ns
        return max(at_ns, self._now_ns) if at_ns < self._horizon_at_ns else _NEVER_NS

    def _end(self, end: FutureEnd) -> None:
        self._now_ns = max(self._now_ns, end.at_ns)
        batch = self._running.pop(end.batch_id)
        self._places[batch.device].give(batch.slot, batch.slot_class)
        for request in batch.requests:
            if end.at_ns > request.deadline_at_ns:
                self._miss(request)

    def _settle(self) -> None:
        """Run out what runs; judge what waits."""
        while (end := self._future.next_end(_NEVER_NS)) is not None:
            self._end(end)
        for _, request in self._waiting:
            if self._horizon_at_ns + self._alone_ns(request) > request.deadline_at_ns:
                self._miss(request)

    def _start_all(self, plan: Plan) -> None:
        """Start whatever the plan lets start, in order; drop who cannot make it even alone."""
        at = 0
        while at < len(self._waiting):
            request = self._waiting[at][1]
            if self._now_ns + self._alone_ns(request) > request.deadline_at_ns:
                self._miss(request)
                del self._waiting[at]
                continue
            place = self._place_for(request, plan)
            if place is None:
                if not any(place.free for place in self._places.values()):
                    return
                at += 1
                continue
            self._start(self._taken(at), place)

    def _place_for(self, request: Request, plan: Plan) -> _Place | None:
        """The device that runs least, of those where the plan has room for this class."""
        limit = plan.limit(request.slot_class, self._steps)
        best: _Place | None = None
        for device in self._facilities.models[request.model].devices:
            place = self._places[device]
            if (
                place.free
                and place.of_class[request.slot_class] < limit
                and (best is None or place.running < best.running)
            ):
                best = place
        return best

    def _taken(self, at: int) -> list[Request]:
        """The request and those behind it of its kind that fit in a batch in time."""
        head = self._waiting.pop(at)[1]
        taken, rows, tightest_ns = [head], head.rows, head.deadline_at_ns
        rows_max = self._facilities.rows_max(head.model)
        profile = self._facilities.profiles[head.model]
        index = at
        while index < len(self._waiting) and rows < rows_max:
            other = self._waiting[index][1]
            is_alike = other.model == head.model and other.slot_class is head.slot_class
            grown = rows + other.rows
            tightest_ns = min(tightest_ns, other.deadline_at_ns) if is_alike else tightest_ns
            if not is_alike or grown > rows_max:
                index += 1
                continue
            if self._now_ns + profile.service_ns(grown) > tightest_ns:
                break
            del self._waiting[index]
            taken.append(other)
            rows = grown
        return taken

    def _start(self, requests: list[Request], place: _Place) -> None:
        head = requests[0]
        slot = place.best(head.slot_class)
        batch = RunningBatch(
            BatchId(self._batch_seq),
            place.params.name,
            slot,
            head.slot_class,
            head.model,
            sum(request.rows for request in requests),
            requests,
        )
        self._batch_seq -= 1
        place.take(slot, head.slot_class)
        self._running[batch.batch_id] = batch
        self._future.start(dispatch_of(batch), self._now_ns)

    def _alone_ns(self, request: Request) -> int:
        return self._facilities.profiles[request.model].service_ns(request.rows)

    def _miss(self, request: Request) -> None:
        self._missed.add(request.request_id)
        self._cost += 1.0 if request.slot_class is SlotClass.HIGH else LOW_COST


def dispatch_of(batch: RunningBatch) -> Dispatch:
    """The start of a batch, as an executor is told of it."""
    return Dispatch(
        batch_id=batch.batch_id,
        replica_id=_NO_REPLICA,
        model=batch.model,
        device=batch.device,
        slot=batch.slot,
        slot_class=batch.slot_class,
        rows=batch.rows,
        request_ids=tuple(request.request_id for request in batch.requests),
    )


def _key(request: Request) -> tuple[int, int, int]:
    """Classes in order, in each the earliest deadline."""
    is_low = request.slot_class is SlotClass.LOW
    return (int(is_low), request.deadline_at_ns, request.request_id)
