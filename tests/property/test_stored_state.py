"""A stored state with any of its numbers replaced by an absurd one, for every predictor."""

import json
from collections.abc import Iterator
from copy import deepcopy
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core import DeviceParams, ModelParams, Request, Run, SlotClass, Stages
from headway.predict import ModelProfile, Recipe, SoloTime, build_predictor
from headway.testing import a_request

MS = 1_000_000
YEAR_NS = 365 * 86_400 * 10**9
DEVICES = (DeviceParams(name="cpu:0", slot_lanes=(0, 0, 1, 1)),)
ABSURD = (0, -1, 0.0, -1.0, 5e-324, 1e308, -1e308, 10**400, 2**31, float("nan"), float("inf"))
LINES_MAX = 8
"""Of a table, whose lines are alike."""
SPARED = {"version", "key"}
"""They decide whether a state is taken at all."""
KINDS = ("headway", "fixed", "max10", "pairwise", "rls", "windowed-pcie")


class Line:
    """Requests that wait, of a model that takes eight rows at once."""

    def __init__(self, waiting: list[Request]) -> None:
        self.waiting = waiting

    @property
    def count(self) -> int:
        return len(self.waiting)

    def requests(self) -> Iterator[Request]:
        return iter(self.waiting)

    def params(self, model: str) -> ModelParams:
        return ModelParams(name=model, devices=("cpu:0",), batch_rows_max=8)


LINE = Line([a_request(index, model="m", rows=1 + index % 3) for index in range(100)])


def a_predictor(kind, state=None):
    solo = (SoloTime(rows=1, median_ns=3 * MS, p95_ns=3 * MS, runs=9),)
    profile = ModelProfile(model="m", device="cpu:0", bucket="b", solo=solo, overhead_ns=MS)
    recipe = Recipe(kind=kind, profiles=(profile,), looks_per_s=10**6, state=state or {})
    return build_predictor(recipe, DEVICES)


def a_run(batch_id, model, rows, bucket=""):
    return Run(
        batch_id=batch_id,
        model=model,
        bucket=bucket,
        rows=rows,
        payload_bytes=100 * rows,
        device="cpu:0",
        slot=batch_id % 4,
        lane=batch_id % 4 // 2,
        slot_class=SlotClass.HIGH,
        priority=1,
    )


def go_on(predictor, since_ns=0):
    """Two batches at a time; every forecast on the way."""
    said = []
    for turn in range(12):
        now_ns = since_ns + turn * 10 * MS
        first = a_run(2 * turn, "m", 1 + turn % 3, "b" if turn % 2 else "c")
        second = a_run(2 * turn + 1, "n", 1 + turn % 2)
        said.append(predictor.foresee(a_request(turn, at=now_ns, model="m"), LINE, now_ns))
        said.extend(predictor.forecast(first, "cpu:0", LINE, now_ns))
        said.extend([predictor.started(run, LINE, now_ns) for run in (first, second)])
        for run in (first, second):
            now_ns += 4 * MS
            stages = Stages(service_ns=4 * MS, transfer_in_ns=MS // 2, execution_ns=3 * MS)
            predictor.finished(run.batch_id, stages, now_ns)
        request = a_request(turn, at=now_ns - 9 * MS, model="m")
        predictor.answered(request, said[0], now_ns)
        services = [predictor.service_ns(model, 5) for model in ("m", "n")]
        assert all(0 <= service_ns < YEAR_NS for service_ns in services)
    return said


def numbers_of(value, path=()):
    """Where in a state there are numbers."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in islice(items, LINES_MAX):
            yield from numbers_of(item, (*path, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def put(state, path, number):
    inner = state
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = number


def check(predictor):
    """Forecasts are of this century, and what was learnt since can be stored."""
    for forecast in go_on(predictor, 10_000 * MS):
        parts = (forecast.queue_ns, forecast.base_ns, forecast.transfer_ns, forecast.overhead_ns)
        assert min(parts) >= 0
        assert 0 <= forecast.mean_ns <= forecast.bound_ns < 1000 * YEAR_NS
    json.dumps(predictor.state(), allow_nan=False)


def taught(kind):
    """What is stored of a predictor after a while."""
    predictor = a_predictor(kind)
    go_on(predictor)
    return json.loads(json.dumps(predictor.state()))


STATES = {kind: taught(kind) for kind in KINDS}
PATHS = {
    kind: [path for path in numbers_of(state) if not SPARED.intersection(path)]
    for kind, state in STATES.items()
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100)
@given(st.data())
def test_no_number_of_a_stored_state_can_do_harm(kind, data):
    """A few of its numbers are absurd; forecasts stay sound, and nothing crashes."""
    state = deepcopy(STATES[kind])
    changes = st.tuples(st.sampled_from(PATHS[kind]), st.sampled_from(ABSURD))
    for path, number in data.draw(st.lists(changes, min_size=1, max_size=4)):
        put(state, path, number)
    check(a_predictor(kind, state))


@pytest.mark.parametrize(
    ("part", "line"),
    [
        (("services", "sizes"), ["m", 1, 1e6, 1e308, 1]),
        (("services", "overheads"), ["m", 1.7e308]),
        (("ground", "solo", "sizes"), ["cpu:0", "m2", "x", 10**400, 10.0, 0.1, 0]),
        (("ground", "solo", "floors"), ["m", 1, 1e308]),
    ],
)
def test_an_absurd_line_in_an_otherwise_empty_state_does_no_harm(part, line):
    """What nothing better stands beside is taken for a day at most, or left out."""
    state = a_predictor("headway").state()
    inner = state
    for key in part:
        inner = inner[key]
    inner.append(line)
    check(a_predictor("headway", state))


def test_the_mean_of_what_started_is_a_day_at_most():
    """Absurd, it would be the size of whatever waits beyond those that are looked at."""
    state = a_predictor("headway").state()
    state["ground"]["piece_ns"] = 1e308
    predictor = a_predictor("headway", state)
    assert predictor.state()["ground"]["piece_ns"] == 86_400e9
    check(predictor)
