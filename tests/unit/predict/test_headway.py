"""The `headway` predictor in a world of shared lanes whose law is known."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from statistics import mean

import pytest

from headway.core import DeviceParams, ModelParams, Run, SlotClass, Stages
from headway.predict import ExecutionModel, HeadwayPredictor, ModelProfile, Shell, SoloTime
from headway.predict.residual import Residual
from headway.sim import SharedLanes
from headway.testing import a_dispatch, a_request

MS = 1_000_000
LANES = (0, 1, 0, 1)
SOLO_MS = {"small": 5.0, "middle": 20.0, "large": 60.0}
DEVICE = DeviceParams(name="cpu:0", slot_lanes=LANES)
OVERHEAD_NS = 300_000


class Solo:
    """The model of a fixed profile: neighbours do not matter."""

    name = "solo"

    def execution_ns(self, scene):
        return scene.base_ns

    def learn(self, ended):
        pass

    def state(self):
        return {}

    def restore(self, state):
        pass


def profiles():
    return [
        ModelProfile(
            model=model,
            device="cpu:0",
            solo=(SoloTime(rows=1, median_ns=int(ms * MS), p95_ns=int(ms * MS), runs=9),),
        )
        for model, ms in SOLO_MS.items()
    ]


def a_headway(profiled: bool = True, **options) -> HeadwayPredictor:
    return HeadwayPredictor([DEVICE], profiles() if profiled else (), **options)


def a_shell(model: ExecutionModel | None = None) -> Shell:
    return Shell(model or Solo(), [DEVICE], profiles())


@dataclass
class Outcome:
    """What was said of a batch or a request, and what it took."""

    said_ns: int
    bound_ns: int
    took_ns: int

    @property
    def error(self) -> float:
        return abs(self.said_ns - self.took_ns) / self.took_ns


@dataclass
class World:
    """Open-loop arrivals on shared lanes, first come first served; told to a predictor."""

    predictor: HeadwayPredictor | Shell
    seed: str = "world"
    load: float = 0.85
    noise: float = 0.05
    pace: Callable[[int, int], float] = lambda lane, now_ns: 1.0
    """By how much work is longer on a lane."""
    executions: list[Outcome] = field(default_factory=list)
    responses: list[Outcome] = field(default_factory=list)

    def __post_init__(self):
        self.chance = random.Random(self.seed)
        self.waiting, self.running, self.ends, self.foreseen = [], {}, {}, {}
        self.params_of = {m: ModelParams(name=m, devices=("cpu:0",)) for m in SOLO_MS}
        self.works = {}
        self.lanes = SharedLanes(
            lambda dispatch: self.works[dispatch.batch_id], [DEVICE], dict.fromkeys(SlotClass, 1.0)
        )
        self.ids = count(1)
        self.now_ns = 0

    # The queue, as predictors see it.
    @property
    def count(self):
        return len(self.waiting)

    def requests(self):
        return iter(self.waiting)

    def params(self, model):
        return self.params_of[model]

    def play(self, arrivals):
        gap_ns = mean(SOLO_MS.values()) * MS / (self.load * len(set(LANES)))
        for _ in range(arrivals):
            until_ns = self.now_ns + int(self.chance.expovariate(1 / gap_ns)) + 1
            self._run_until(until_ns)
            self.now_ns = until_ns
            self._arrive(self.chance.choice(list(SOLO_MS)))
        return self

    def _arrive(self, model):
        request = a_request(next(self.ids), at=self.now_ns, model=model)
        self.foreseen[request.request_id] = self.predictor.foresee(request, self, self.now_ns)
        self.predictor.arrived(request, self.now_ns)
        self.waiting.append(request)
        self._fill()

    def _fill(self):
        taken = {run.slot for run, _, _, _ in self.running.values()}
        free = [slot for slot in range(len(LANES)) if slot not in taken]
        if not free or not self.waiting:
            return
        busy = [LANES[slot] for slot in taken]
        slot = min(free, key=lambda slot: (busy.count(LANES[slot]), slot))
        request = self.waiting.pop(0)
        batch_id = next(self.ids)
        run = Run(
            batch_id=batch_id,
            model=request.model,
            bucket=request.bucket,
            rows=1,
            payload_bytes=0,
            device="cpu:0",
            slot=slot,
            lane=LANES[slot],
            slot_class=SlotClass.HIGH,
            priority=1,
        )
        noise = self.chance.lognormvariate(0.0, self.noise)
        work_ns = SOLO_MS[request.model] * MS * noise * self.pace(LANES[slot], self.now_ns)
        self.works[batch_id] = int(work_ns)
        forecast = self.predictor.started(run, self, self.now_ns)
        self.running[batch_id] = (run, request, self.now_ns, forecast)
        dispatch = a_dispatch(batch_id, 1, device="cpu:0", slot=slot)
        self._move(self.lanes.start(dispatch, self.now_ns))
        self._fill()

    def _move(self, finishes):
        for finish in finishes:
            self.ends[finish.batch_id] = finish.at_ns

    def _run_until(self, until_ns):
        while self.ends and min(self.ends.values()) <= until_ns:
            batch_id = min(self.ends, key=lambda each: (self.ends[each], each))
            self.now_ns = self.ends.pop(batch_id)
            self._end(batch_id)
            self._move(self.lanes.end(batch_id, self.now_ns))
            self._fill()

    def _end(self, batch_id):
        _, request, started_at_ns, forecast = self.running.pop(batch_id)
        execution_ns = self.now_ns - started_at_ns
        service_ns = execution_ns + OVERHEAD_NS
        stages = Stages(service_ns=service_ns, execution_ns=execution_ns)
        self.predictor.finished(batch_id, stages, self.now_ns)
        if forecast.mean_ns:
            outcome = Outcome(forecast.execution_ns, forecast.bound_ns, execution_ns)
            self.executions.append(outcome)
        foreseen = self.foreseen.pop(request.request_id)
        self.predictor.answered(request, foreseen, self.now_ns + OVERHEAD_NS)
        if foreseen.mean_ns:
            took_ns = self.now_ns + OVERHEAD_NS - request.arrived_at_ns
            self.responses.append(Outcome(foreseen.mean_ns, foreseen.bound_ns, took_ns))


def error(outcomes: list[Outcome]) -> float:
    """Mean relative error."""
    return mean(outcome.error for outcome in outcomes)


@cache
def a_long_day(kind: str) -> World:
    """A thousand arrivals, told to one of the predictors."""
    predictor = {"headway": a_headway, "solo": a_shell}[kind]()
    return World(predictor).play(1000)


def test_it_is_several_times_better_than_a_fixed_profile():
    """On lanes that are shared by time, with five percent of noise on each work."""
    assert error(a_long_day("headway").executions) < error(a_long_day("solo").executions) / 3


def test_it_is_good_from_the_first_batches_on_with_a_profile():
    """Cold, the first thirty are predicted about as well as by one that has seen a thousand."""
    cold, warm = a_headway(), a_headway()
    assert warm.restore(a_long_day("headway").predictor.state())
    first = [World(predictor, seed="other").play(60).executions[:30] for predictor in (cold, warm)]
    assert error(first[0]) < 1.2 * error(first[1])


def test_it_learns_models_of_which_nothing_is_known():
    """After sixty batches it is as good as with a profile, or nearly."""
    world = World(a_headway(profiled=False)).play(400)
    known = a_long_day("headway").executions[60:400]
    assert error(world.executions[60:]) < 1.25 * error(known)


def test_bounds_hold_as_often_as_they_should():
    """Of executions and of responses, 95 of 100 stay within."""
    day = a_long_day("headway")
    within = [outcome.took_ns + OVERHEAD_NS <= outcome.bound_ns for outcome in day.executions]
    assert mean(within) == pytest.approx(0.95, abs=0.02)
    responses = [outcome.took_ns <= outcome.bound_ns for outcome in day.responses]
    assert mean(responses) == pytest.approx(0.95, abs=0.025)


def test_responses_are_foreseen_at_arrival_without_bias():
    """Queue and execution together, within a fifth on average and five percent in sum."""
    responses = a_long_day("headway").responses
    assert error(responses) < 0.2
    said, took = sum(r.said_ns for r in responses), sum(r.took_ns for r in responses)
    assert said / took == pytest.approx(1.0, abs=0.05)


def test_a_core_taken_away_by_another_program_is_noticed():
    """From one instant on, lane 1 is a third slower: fifty batches later errors are as before."""
    world = World(a_headway(), load=0.7)
    world.pace = lambda lane, now_ns: 1.5 if lane == 1 and now_ns > 12_000 * MS else 1.0
    while world.now_ns < 12_000 * MS:
        world.play(10)
    before = error(world.executions[-150:])
    shifted = len(world.executions)
    world.play(350)
    assert error(world.executions[shifted + 50 : shifted + 250]) < 1.25 * before


def test_a_forecast_shows_what_a_candidate_does_to_others():
    """A batch on the same lane delays the one that runs, on the other lane it does not."""
    predictor, world = a_headway(), World(a_headway())
    predictor.started(_run(1, slot=0), world, 0)
    alone = predictor.forecast(None, "cpu:0", world, MS)[0]
    same = predictor.forecast(_run(0, slot=2), "cpu:0", world, MS)
    other = predictor.forecast(_run(0, slot=1), "cpu:0", world, MS)
    assert same[1].mean_ns > 1.8 * alone.mean_ns
    assert other[1].mean_ns == alone.mean_ns
    assert same[0].interference_ns > 0 == other[0].interference_ns


def test_what_load_has_taught_does_not_count_beside():
    """What forecasts among arrivals were wrong by says nothing of two batches and no arrivals."""
    residual = Residual()
    for _ in range(300):
        residual.learn(("middle", "", 1), 1.0, 10 * MS, 20 * MS)
    predictor, world = a_headway(), World(a_headway())
    assert predictor.restore(predictor.state() | {"executions": residual.state()})
    (among,) = predictor.forecast(_run(0, slot=0), "cpu:0", world, 0)
    (alone,) = predictor.beside(_run(0, slot=0), "cpu:0", 0)
    assert among.execution_ns > 25 * MS
    assert alone.execution_ns == pytest.approx(20 * MS, rel=0.01)
    predictor.started(_run(1, slot=0), world, 0)
    own, other = predictor.beside(_run(0, slot=2), "cpu:0", 0)
    assert own.execution_ns == pytest.approx(40 * MS, rel=0.01)
    assert other.mean_ns == pytest.approx(40 * MS, rel=0.01)


def test_a_light_class_yields_to_a_heavy_one():
    """With niced slots a high batch is hardly slowed by a low one, and the low one waits."""
    weights = {SlotClass.HIGH: 1024.0, SlotClass.LOW: 15.0}
    predictor, world = a_headway(weights=weights), World(a_headway())
    predictor.started(_run(1, slot=0, slot_class=SlotClass.LOW), world, 0)
    high, low = predictor.forecast(_run(0, slot=2), "cpu:0", world, 0)
    assert high.execution_ns == pytest.approx(20 * MS, rel=0.03)
    assert low.mean_ns == pytest.approx(40 * MS, rel=0.03)


def test_a_batch_that_is_dropped_leaves_its_slot():
    """And nothing is learnt of it."""
    predictor, world = a_headway(), World(a_headway())
    before = predictor.state()
    predictor.started(_run(1, slot=0), world, 0)
    predictor.dropped(1, 5 * MS)
    assert list(predictor.forecast(None, "cpu:0", world, 6 * MS)) == []
    assert predictor.state()["services"] == before["services"]


def test_state_of_other_slots_is_discarded():
    """What was learnt with other threads or lanes does not hold."""
    state = a_long_day("headway").predictor.state()
    assert a_headway().restore(state)
    other = HeadwayPredictor([DeviceParams(name="cpu:0", slot_lanes=(0, 1))])
    assert not other.restore(state)
    assert not a_shell().restore(state)
    assert not a_headway().restore("nonsense")


class Links:
    """A transfer model that says 7 ms and notes what it is told."""

    def __init__(self):
        self.told = []

    def transfer_ns(self, run, neighbours, now_ns):
        return 7.0 * MS

    def started(self, run, execution_ns, now_ns):
        self.told.append("started")

    def finished(self, batch_id, stages, now_ns):
        self.told.append("finished")

    def dropped(self, batch_id, now_ns):
        self.told.append("dropped")

    def state(self):
        return {"links": 1}

    def restore(self, state):
        self.told.append(state)


def test_a_transfer_model_has_the_word_on_transfers():
    """It is told every start and end, and its answer is the transfer part."""
    links = Links()
    predictor, world = a_headway(transfers=links), World(a_headway())
    assert predictor.started(_run(1, slot=0), world, 0).transfer_ns == 7 * MS
    predictor.finished(1, Stages(service_ns=30 * MS, execution_ns=20 * MS), 30 * MS)
    predictor.dropped(2, 31 * MS)
    assert predictor.restore(predictor.state())
    assert links.told == ["started", "finished", "dropped", {"links": 1}]


def _run(batch_id: int, slot: int, slot_class: SlotClass = SlotClass.HIGH) -> Run:
    return Run(
        batch_id=batch_id,
        model="middle",
        bucket="",
        rows=1,
        payload_bytes=0,
        device="cpu:0",
        slot=slot,
        lane=LANES[slot],
        slot_class=slot_class,
        priority=1,
    )
