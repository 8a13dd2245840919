"""Laws that every forecast keeps, whatever a predictor has been told.

A history is drawn as numbers, nonsense among them: ends before starts, batches that are never
heard of again, times of zero or of days. The laws are then asked of the predictor that came of it.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core import (
    UNKNOWN,
    BatchId,
    DeviceName,
    DeviceParams,
    Forecast,
    ModelName,
    ModelParams,
    Request,
    Run,
    SlotClass,
    SlotIndex,
    Stages,
)
from headway.predict import HeadwayPredictor, ModelProfile, Pressures, Scene, Shell, SoloTime
from headway.testing import a_request

CPU = DeviceName("cpu:0")
MODELS = tuple(ModelName(f"m{index}") for index in range(4))
MS = 1_000_000
WEIGHTS = {SlotClass.HIGH: 1024.0, SlotClass.LOW: 15.0}
LANES = ((0, 1, 0, 1), (0, 1, 2, 3), (0,), (0, 0, 0), (0, 0, 1, 1, 2, 2))

STEP_RATIO = {False: 0.98, True: 0.8}
"""Rates are followed in steps, so a law of them holds but for the error of a step: small with equal
weights, larger where one class starves another and a little of it makes a great difference."""


@dataclass
class Queue:
    """What waits."""

    waiting: list[Request] = field(default_factory=list)
    gone: frozenset[ModelName] = frozenset()

    @property
    def count(self) -> int:
        return len(self.waiting)

    def requests(self) -> Iterator[Request]:
        return iter(self.waiting)

    def params(self, model: ModelName) -> ModelParams | None:
        if model in self.gone:
            return None
        return ModelParams(name=model, devices=(CPU,), batch_rows_max=8)


@dataclass(frozen=True)
class Step:
    """One thing that happens."""

    what: str
    model: int
    rows: int
    slot: int
    gap_ns: int
    took_ns: int
    is_low: bool


steps = st.builds(
    Step,
    what=st.sampled_from(["start", "start", "finish", "finish", "admit", "drop", "answer"]),
    model=st.integers(0, len(MODELS) - 1),
    rows=st.integers(1, 9),
    slot=st.integers(0, 7),
    gap_ns=st.integers(0, 60 * MS),
    took_ns=st.one_of(
        st.integers(MS, 90 * MS), st.sampled_from([-5, 0, 1, 86_400 * 10**9, 1 << 62])
    ),
    is_low=st.booleans(),
)
histories = st.lists(steps, max_size=60)


def a_run(
    predictor_lanes: Sequence[int], step: Step, batch_id: int = 0, slot: int | None = None
) -> Run:
    """A batch on a slot that the device has."""
    at = (step.slot if slot is None else slot) % len(predictor_lanes)
    return Run(
        batch_id=BatchId(batch_id),
        model=MODELS[step.model],
        bucket="",
        rows=step.rows,
        payload_bytes=step.rows * 100,
        device=CPU,
        slot=SlotIndex(at),
        lane=predictor_lanes[at],
        slot_class=SlotClass.LOW if step.is_low else SlotClass.HIGH,
        priority=2 if step.is_low else 1,
    )


def a_profile(index: int) -> ModelProfile:
    """Of a model that takes (5, 20, 45, 80) ms a row."""
    solo = tuple(
        SoloTime(rows=rows, median_ns=5 * (index + 1) ** 2 * MS * rows, p95_ns=1, runs=9)
        for rows in (1, 4)
    )
    pressures = Pressures(bandwidth_demand=0.1 * index, bandwidth_sensitivity=0.2 * index)
    return ModelProfile(model=MODELS[index], device=CPU, solo=solo, pressures=pressures)


class Halved:
    """A model of execution times that says what it should not."""

    name = "halved"

    def __init__(self, answer: float) -> None:
        self.answer = answer

    def execution_ns(self, scene: Scene) -> float:
        return self.answer

    def learn(self, ended: object) -> None:
        pass

    def state(self) -> dict[str, object]:
        return {"answer": self.answer}

    def restore(self, state: dict[str, object]) -> None:
        pass


class Told:
    """A predictor and what it was told."""

    def __init__(self, predictor: HeadwayPredictor | Shell, lanes: Sequence[int]) -> None:
        self.predictor = predictor
        self.lanes = lanes
        self.queue = Queue()
        self.running: dict[BatchId, Run] = {}
        self.now_ns = 0
        self.count = 0

    def tell(self, history: Sequence[Step]) -> None:
        for step in history:
            self.now_ns += step.gap_ns
            self.count += 1
            getattr(self, f"_{step.what}")(step)

    def request(self, step: Step, *, rows: int | None = None) -> Request:
        self.count += 1
        return a_request(
            self.count,
            at=self.now_ns,
            model=MODELS[step.model],
            rows=step.rows if rows is None else rows,
            priority=2 if step.is_low else 1,
            slot_class=SlotClass.LOW if step.is_low else SlotClass.HIGH,
        )

    def free_slots(self) -> list[int]:
        taken = {run.slot for run in self.running.values()}
        return [slot for slot in range(len(self.lanes)) if slot not in taken]

    def _start(self, step: Step) -> None:
        free = self.free_slots()
        if free:
            run = a_run(self.lanes, step, self.count, free[step.slot % len(free)])
            self.running[run.batch_id] = run
            forecast = self.predictor.started(run, self.queue, self.now_ns)
            check(forecast)

    def _pop(self, step: Step) -> BatchId:
        if not self.running:
            return BatchId(10**9)
        batch_id = list(self.running)[step.model % len(self.running)]
        del self.running[batch_id]
        return batch_id

    def _finish(self, step: Step) -> None:
        stages = Stages(
            service_ns=step.took_ns + step.rows * 1000,
            transfer_in_ns=step.rows * 100,
            execution_ns=step.took_ns,
            transfer_out_ns=-step.rows,
        )
        self.predictor.finished(self._pop(step), stages, self.now_ns)

    def _drop(self, step: Step) -> None:
        self.predictor.dropped(self._pop(step), self.now_ns)

    def _admit(self, step: Step) -> None:
        request = self.request(step)
        self.predictor.arrived(request, self.now_ns)
        self.queue.waiting = [*self.queue.waiting, request][-20:]

    def _answer(self, step: Step) -> None:
        if self.queue.waiting:
            request = self.queue.waiting.pop(0)
            foreseen = self.predictor.foresee(request, self.queue, self.now_ns)
            self.predictor.answered(request, foreseen, self.now_ns + step.took_ns)


def check(forecast: Forecast) -> None:
    """0 <= mean <= bound, and no part is negative."""
    parts = (
        forecast.queue_ns,
        forecast.overhead_ns,
        forecast.base_ns,
        forecast.transfer_ns,
        forecast.interference_ns,
    )
    assert all(isinstance(part, int) and part >= 0 for part in parts)
    assert 0 <= forecast.mean_ns <= forecast.bound_ns


def a_headway(lanes: Sequence[int], *, niced: bool, profiled: bool) -> HeadwayPredictor:
    """On one device."""
    return HeadwayPredictor(
        [DeviceParams(name=CPU, slot_lanes=tuple(lanes))],
        [a_profile(index) for index in range(len(MODELS))] if profiled else (),
        weights=WEIGHTS if niced else None,
    )


@settings(max_examples=60)
@given(histories, st.sampled_from(LANES), st.booleans(), st.booleans(), steps)
def test_forecasts_are_sound_whatever_was_told(history, lanes, niced, profiled, step):
    """No number is negative, bounds are above means, and the parts of a start add up."""
    told = Told(a_headway(lanes, niced=niced, profiled=profiled), lanes)
    told.tell(history)
    predictor, queue, now_ns = told.predictor, told.queue, told.now_ns
    forecasts = predictor.forecast(a_run(lanes, step), CPU, queue, now_ns)
    for forecast in [*forecasts, *predictor.forecast(None, CPU, queue, now_ns)]:
        check(forecast)
    foreseen = predictor.foresee(told.request(step), queue, now_ns)
    check(foreseen)
    for whole in (forecasts[0], foreseen):
        total = whole.queue_ns + whole.overhead_ns + whole.transfer_ns + whole.execution_ns
        assert total == whole.mean_ns
    assert len(forecasts) == len(told.running) + 1
    assert predictor.service_ns(MODELS[step.model], step.rows) >= 0
    assert predictor.floor_ns(MODELS[step.model], step.rows) >= 0


@settings(max_examples=40)
@given(histories, st.sampled_from(LANES), steps)
def test_asking_changes_nothing(history, lanes, step):
    """Whoever asks twice hears the same, and what was learnt is as before."""
    told = Told(a_headway(lanes, niced=False, profiled=True), lanes)
    told.tell(history)
    predictor, queue = told.predictor, told.queue
    before = json.dumps(predictor.state())
    now_ns = told.now_ns + 1000
    candidate, request = a_run(lanes, step), told.request(step)
    first = list(predictor.forecast(candidate, CPU, queue, now_ns))
    foreseen = predictor.foresee(request, queue, now_ns)
    assert list(predictor.forecast(candidate, CPU, queue, now_ns)) == first
    assert predictor.foresee(request, queue, now_ns) == foreseen
    assert json.dumps(predictor.state()) == before


@settings(max_examples=80)
@given(histories, st.sampled_from(LANES), st.booleans(), steps, steps)
def test_one_more_request_that_waits_shortens_nothing(history, lanes, niced, step, more):
    """Added load never lowers a mean: here a request at the end of the queue."""
    told = Told(a_headway(lanes, niced=niced, profiled=True), lanes)
    told.tell(history)
    candidate = a_run(lanes, step)
    before = told.predictor.forecast(candidate, CPU, told.queue, told.now_ns)
    longer = Queue([*told.queue.waiting, told.request(more)])
    after = told.predictor.forecast(candidate, CPU, longer, told.now_ns)
    for less, greater in zip(before, after, strict=True):
        assert greater.mean_ns >= less.mean_ns * STEP_RATIO[niced] - 1000


@settings(max_examples=80)
@given(histories, st.sampled_from(LANES), st.booleans(), steps, steps)
def test_one_more_neighbour_shortens_nothing(history, lanes, niced, step, more):
    """Added load never lowers a mean: here a batch on a free slot of the device."""
    told = Told(a_headway(lanes, niced=niced, profiled=True), lanes)
    told.tell(history)
    free = told.free_slots()
    if not free:
        return
    without = told.predictor.forecast(None, CPU, told.queue, told.now_ns)
    candidate = a_run(lanes, more, slot=free[step.slot % len(free)])
    beside = told.predictor.forecast(candidate, CPU, told.queue, told.now_ns)[1:]
    for less, greater in zip(without, beside, strict=True):
        assert greater.mean_ns >= less.mean_ns * STEP_RATIO[niced] - 1000


@settings(max_examples=30)
@given(histories, st.sampled_from(LANES), st.booleans())
def test_state_survives_json(history, lanes, niced):
    """What was learnt comes back from JSON as it was, on the same slots."""
    told = Told(a_headway(lanes, niced=niced, profiled=True), lanes)
    told.tell(history)
    state = json.loads(json.dumps(told.predictor.state()))
    fresh = a_headway(lanes, niced=niced, profiled=True)
    assert fresh.restore(state)
    assert json.loads(json.dumps(fresh.state())) == state


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


@settings(max_examples=60)
@given(histories, st.data())
def test_a_broken_state_is_harmless(history, data):
    """Any part of a stored state may be anything; forecasts stay sound."""
    lanes = (0, 1, 0, 1)
    told = Told(a_headway(lanes, niced=False, profiled=True), lanes)
    told.tell(history)
    state = json.loads(json.dumps(told.predictor.state()))
    part = data.draw(st.sampled_from(["ground", "services", "executions", "bounds", "responses"]))
    inner = state[part]
    if isinstance(inner, dict) and inner and data.draw(st.booleans()):
        inner[data.draw(st.sampled_from(sorted(inner)))] = data.draw(json_values)
    else:
        state[part] = data.draw(json_values)
    fresh = Told(a_headway(lanes, niced=False, profiled=True), lanes)
    assert fresh.predictor.restore(state)
    fresh.tell(history)
    step = Step("start", 1, 2, 0, 0, 0, is_low=False)
    for forecast in fresh.predictor.forecast(a_run(lanes, step), CPU, fresh.queue, fresh.now_ns):
        check(forecast)


@settings(max_examples=40)
@given(histories, st.floats() | st.sampled_from([0.0, -1.0, 1e300]), steps)
def test_a_shell_clamps_what_its_model_says(history, answer, step):
    """Whatever a model of execution times answers, a forecast is sound and not below the floor."""
    lanes = (0, 1, 0, 1)
    devices = [DeviceParams(name=CPU, slot_lanes=lanes)]
    told = Told(Shell(Halved(answer), devices, [a_profile(index) for index in range(4)]), lanes)
    told.tell(history)
    forecasts = told.predictor.forecast(a_run(lanes, step), CPU, told.queue, told.now_ns)
    for forecast in forecasts:
        check(forecast)
    check(told.predictor.foresee(told.request(step), told.queue, told.now_ns))
    assert forecasts[0].base_ns > 0


def test_an_unknown_model_is_unknown():
    """Without a profile and before its first batch nothing is said of a model."""
    told = Told(a_headway((0, 1), niced=False, profiled=False), (0, 1))
    step = Step("start", 0, 1, 0, 0, 0, is_low=False)
    assert told.predictor.forecast(a_run((0, 1), step), CPU, told.queue, 0) == [UNKNOWN]
    assert told.predictor.foresee(told.request(step), told.queue, 0) == UNKNOWN
    assert told.predictor.service_ns(MODELS[0], 1) == 0


@pytest.mark.parametrize("what", ["forecast", "foresee"])
def test_a_model_that_is_gone_or_a_device_that_is_not_there_is_no_trouble(what):
    """A queue may hold requests of a model that was unloaded meanwhile."""
    told = Told(a_headway((0, 1), niced=False, profiled=True), (0, 1))
    step = Step("start", 0, 1, 0, 0, 0, is_low=False)
    queue = Queue([told.request(step)], gone=frozenset(MODELS))
    if what == "foresee":
        assert told.predictor.foresee(told.request(step), queue, 0) == UNKNOWN
    else:
        assert list(told.predictor.forecast(None, DeviceName("gpu"), queue, 0)) == []
        assert told.predictor.forecast(a_run((0, 1), step), CPU, queue, 0)[0].mean_ns > 0
