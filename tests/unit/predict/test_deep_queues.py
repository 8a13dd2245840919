"""Queues deeper than is looked at, and streams that go before a request."""

import pytest

from headway.core import DeviceParams, ModelParams, Run, Stages
from headway.predict import HeadwayPredictor, ModelProfile, Shell, SoloTime
from headway.predict.fixed_model import FixedModel
from headway.testing import a_request

MS = 1_000_000
DEVICE = DeviceParams(name="cpu:0", slot_lanes=(0, 0, 1, 1))


class Queue:
    """Requests of models that are all on the one device."""

    def __init__(self, *waiting, batch_rows_max=8):
        self.waiting = waiting
        self.count = len(waiting)
        self.batch_rows_max = batch_rows_max

    def requests(self):
        return iter(self.waiting)

    def params(self, model):
        return ModelParams(name=model, devices=("cpu:0",), batch_rows_max=self.batch_rows_max)


def profiles():
    """Models of which eight rows take hardly longer than one."""
    solo = tuple(
        SoloTime(rows=rows, median_ns=ms * MS, p95_ns=ms * MS, runs=9)
        for rows, ms in ((1, 9), (8, 10))
    )
    return [ModelProfile(model=model, device="cpu:0", solo=solo) for model in ("first", "last")]


def after_a_batch(kind, model="first"):
    """A predictor that has seen a full batch of 10 ms."""
    predictor = (
        HeadwayPredictor([DEVICE], profiles())
        if kind == "headway"
        else Shell(FixedModel(), [DEVICE], profiles())
    )
    run = Run(
        batch_id=1,
        model=model,
        bucket="",
        rows=8,
        payload_bytes=0,
        device="cpu:0",
        slot=0,
        lane=0,
        slot_class=a_request(0).slot_class,
        priority=1,
    )
    predictor.started(run, Queue(), 0)
    stages = Stages(service_ns=10 * MS, execution_ns=10 * MS)
    predictor.finished(1, stages, 10 * MS)
    return predictor


@pytest.mark.parametrize(("kind", "slots_or_lanes"), [("headway", 2), ("fixed", 4)])
@pytest.mark.parametrize("count", [200, 1000])
def test_a_deep_queue_of_a_batching_model_is_counted_in_batches(kind, slots_or_lanes, count):
    """Eight a batch of 10 ms, on two lanes; who ignores neighbours takes four slots for four."""
    queue = Queue(*[a_request(index, model="first") for index in range(count)])
    foreseen = after_a_batch(kind).foresee(a_request(9999, model="first"), queue, 20 * MS)
    expected_ns = count / 8 * 10 * MS / slots_or_lanes
    assert foreseen.queue_ns == pytest.approx(expected_ns, rel=0.15)


def test_a_burst_of_more_important_requests_is_no_eternity():
    """Two and a half lanes' worth on two: seconds behind sixty, and longer the more wait."""
    predictor = after_a_batch("headway")
    now_ns = 10 * MS
    for index in range(60):
        now_ns += 4 * MS
        predictor.arrived(a_request(index, model="first", priority=0), now_ns)
    waits_ns = []
    for ahead in (0, 5, 10, 20, 40, 60):
        waiting = [a_request(100 + index, model="first", priority=0) for index in range(ahead)]
        request = a_request(9999, model="last", priority=5)
        foreseen = predictor.foresee(request, Queue(*waiting, batch_rows_max=1), now_ns)
        waits_ns.append(foreseen.queue_ns)
        assert foreseen.queue_ns <= 10 * (ahead + 4) * 9 * MS / 2
    assert waits_ns == sorted(waits_ns)
    assert waits_ns[-1] > 60 * 9 * MS / 2
