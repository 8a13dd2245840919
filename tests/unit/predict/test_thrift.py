"""Looks are rationed, and what is not looked at repeats the last answer."""

import pytest

from headway.core import UNKNOWN, Forecast, Run, Stages
from headway.predict import ModelProfile, Recipe, SoloTime, build_predictor
from headway.predict.thrift import Thrifty
from headway.testing import MeanPredictor, a_device, a_request
from headway.units import NS_PER_MS, NS_PER_S


class Empty:
    """A queue in which nobody waits."""

    count = 0

    def requests(self):
        """Nobody."""
        return iter(())

    def params(self, model):
        """Nothing is known of any model."""


class Counting(MeanPredictor):
    """Says how often it was asked, and what it was told."""

    def __init__(self, service_ns):
        super().__init__()
        self.says_ns = service_ns
        self.looks = []
        self.ends = []
        self.answers = 0
        self.arrivals = 0
        self.unseen = []
        self.gone = 0
        self.lost = []

    def started(self, run, queue, now_ns):
        """One look."""
        super().started(run, queue, now_ns)
        self.looks.append(run.batch_id)
        ns = self.says_ns
        return Forecast(batch_id=run.batch_id, mean_ns=ns, bound_ns=2 * ns, base_ns=ns)

    def finished(self, batch_id, stages, now_ns):
        """Told of an end."""
        super().finished(batch_id, stages, now_ns)
        self.ends.append(batch_id)

    def admitted(self, request, queue, now_ns):
        """Told of an arrival, and looks."""
        self.arrived(request, now_ns)
        self.looks.append(request.request_id)
        return Forecast(mean_ns=self.says_ns, bound_ns=self.says_ns, base_ns=self.says_ns)

    def arrived(self, request, now_ns):
        """Told of an arrival."""
        self.arrivals += 1

    def began(self, run, now_ns):
        """Told of a start."""
        self.unseen.append(run.batch_id)

    def went(self, batch_id, stages, now_ns):
        """Told of the end of one that it did not look at."""
        self.unseen.remove(batch_id)
        self.gone += 1

    def dropped(self, batch_id, now_ns):
        """Told of a loss."""
        self.lost.append(batch_id)

    def answered(self, request, foreseen, now_ns):
        """Told of an answer."""
        self.answers += 1


def a_run(batch_id, model="m", rows=1, slot=0):
    """A batch on the first slot."""
    request = a_request(1, model=model)
    return Run(
        batch_id=batch_id,
        model=request.model,
        bucket=request.bucket,
        rows=rows,
        payload_bytes=0,
        device="cpu:0",
        slot=slot,
        lane=0,
        slot_class=request.slot_class,
        priority=1,
    )


def play(inner, seconds, per_second, looks_per_s=100):
    """Batches of one size, each over before the next begins."""
    thrifty = Thrifty(inner, looks_per_s)
    said = []
    for number in range(1, int(seconds * per_second) + 1):
        now_ns = number * NS_PER_S // per_second
        said.append(thrifty.started(a_run(number), Empty(), now_ns))
        thrifty.finished(number, Stages(service_ns=10 * NS_PER_MS - number), now_ns + 1000)
    return thrifty, said


@pytest.mark.parametrize(("per_second", "looks"), [(50, 150), (1_000, 310), (10_000, 310)])
def test_looks_are_limited_by_time(per_second, looks):
    """What comes slower than the ration is always looked at; what comes faster is not."""
    inner = Counting(NS_PER_MS)
    play(inner, 3, per_second)
    assert abs(len(inner.looks) - looks) <= 1


def test_repeated_answers_name_their_own_batch():
    """An answer that is repeated differs from the first in nothing but the batch."""
    inner = Counting(NS_PER_MS)
    _, said = play(inner, 1, 1_000)
    assert [forecast.batch_id for forecast in said] == list(range(1, 1_001))
    assert {(forecast.mean_ns, forecast.bound_ns) for forecast in said} == {(10**6, 2 * 10**6)}


def test_ends_are_told_of_what_was_looked_at():
    """The inner predictor hears of every start and end, and which of them it looked at."""
    inner = Counting(NS_PER_MS)
    play(inner, 1, 1_000)
    assert inner.ends == inner.looks
    assert (inner.unseen, len(inner.looks) + inner.gone) == ([], 1_000)
    assert inner.gone > 800


def test_fastest_counts_all():
    """What is hopeless is judged by every batch, looked at or not."""
    inner = Counting(NS_PER_MS)
    thrifty, _ = play(inner, 1, 1_000)
    assert thrifty.floor_ns("m", 1) == 10 * NS_PER_MS - 1_000
    assert thrifty.floor_ns("n", 1) == 0


def test_long_work_is_looked_at_whatever_the_short_does():
    """A flood of short batches takes no look from a long one."""
    inner = Counting(NS_PER_MS)
    thrifty, _ = play(inner, 1, 10_000)
    inner.says_ns = 50 * NS_PER_MS
    looked = len(inner.looks)
    for number in range(20_001, 20_004):
        thrifty.started(a_run(number, "long"), Empty(), NS_PER_S)
    assert len(inner.looks) == looked + 3


def test_dropped_batches_are_dropped_where_they_are_known():
    """A batch that fails is forgotten, looked at or not."""
    inner = Counting(NS_PER_MS)
    thrifty = Thrifty(inner, 10)
    for number in (1, 2, 3):
        thrifty.started(a_run(number), Empty(), 0)
    assert (inner.looks, inner.unseen) == ([1, 2], [3])
    for number in (1, 2, 3):
        thrifty.dropped(number, 1)
    assert inner.lost == [1, 2, 3]


def test_arrivals_are_all_told_and_answers_rationed():
    """The rate of arrivals is what it is; of the answers a sample is enough."""
    inner = Counting(NS_PER_MS)
    thrifty = Thrifty(inner, 100)
    for number in range(1_000):
        request = a_request(number + 1)
        foreseen = thrifty.admitted(request, Empty(), 0)
        thrifty.answered(request, foreseen, 0)
        assert foreseen.mean_ns == NS_PER_MS
    assert (inner.arrivals, inner.answers) == (1_000, 10)
    assert len(inner.looks) == 11  # the first of a kind is always looked at


def test_answers_are_repeated_to_their_own_class_only():
    """What a bulk request was told is not what an urgent one is."""
    inner = Counting(100 * NS_PER_MS)
    thrifty = Thrifty(inner, 10)
    bulk, urgent = a_request(1, priority=9), a_request(2, priority=0)
    assert thrifty.admitted(bulk, Empty(), 0).mean_ns == 100 * NS_PER_MS
    assert thrifty.admitted(urgent, Empty(), 0) is UNKNOWN  # no look is left, and nothing said
    assert thrifty.admitted(bulk, Empty(), 0).mean_ns == 100 * NS_PER_MS
    assert thrifty.admitted(urgent, Empty(), NS_PER_S).mean_ns == 100 * NS_PER_MS


def test_asking_takes_no_look():
    """Whoever only asks takes nothing from those who are served, and is asked for always."""

    class Asked(Counting):
        def foresee(self, request, queue, now_ns):
            return Forecast(mean_ns=7, bound_ns=7)

    inner = Asked(NS_PER_MS)
    thrifty = Thrifty(inner, 10)
    for number in range(50):
        assert thrifty.foresee(a_request(number + 1), Empty(), 0).mean_ns == 7
    assert inner.looks == []
    assert thrifty.admitted(a_request(99), Empty(), 0).mean_ns == NS_PER_MS


def test_kinds_are_bounded_and_new_ones_are_kept():
    """Shapes without end push out the oldest, and are remembered themselves."""
    inner = Counting(NS_PER_MS)
    thrifty = Thrifty(inner, 10_000_000)
    for number in range(5_000):
        thrifty.admitted(a_request(number + 1, bucket=f"shape {number}"), Empty(), number)
    last = thrifty.admitted(a_request(9_999, bucket="shape 4999"), Empty(), 0)
    assert last.mean_ns == NS_PER_MS
    assert len(thrifty._said_of_arrivals) == 4_096


def test_short_neighbours_that_are_not_looked_at_are_seen():
    """A long batch is not taken for a slower model because of short ones beyond the ration."""
    profile = ModelProfile(
        model="long",
        device="cpu:0",
        solo=(SoloTime(rows=1, median_ns=50 * NS_PER_MS, p95_ns=50 * NS_PER_MS, runs=9),),
    )
    device = a_device(lanes=[0, 0])
    predictor = build_predictor(Recipe(kind="headway", profiles=(profile,)), (device,))
    now_ns, ids = 0, iter(range(1, 10**6))
    for _ in range(20):
        slow = next(ids)
        predictor.started(a_run(slow, "long"), Empty(), now_ns)
        for _ in range(100):  # each takes half the lane while it runs
            short = next(ids)
            predictor.started(a_run(short, "short", slot=1), Empty(), now_ns)
            now_ns += NS_PER_MS
            times = Stages(service_ns=NS_PER_MS, execution_ns=NS_PER_MS)
            predictor.finished(short, times, now_ns)
        times = Stages(service_ns=100 * NS_PER_MS, execution_ns=100 * NS_PER_MS)
        predictor.finished(slow, times, now_ns)
        now_ns += NS_PER_MS
    alone = predictor.forecast(a_run(0, "long"), "cpu:0", Empty(), now_ns)[0]
    assert alone.base_ns == pytest.approx(50 * NS_PER_MS, rel=0.1)


def test_forecast_covers_batches_that_were_not_looked_at():
    """Whoever decides is told of each batch on the device, whatever was said when it started."""
    device = a_device(lanes=[0, 0, 1])
    predictor = build_predictor(Recipe(kind="headway", looks_per_s=1), (device,))
    predictor.started(a_run(1), Empty(), 0)
    predictor.finished(
        1, Stages(service_ns=9 * NS_PER_MS, execution_ns=9 * NS_PER_MS), 9 * NS_PER_MS
    )
    for number in (2, 3):
        predictor.started(a_run(number, slot=number - 1), Empty(), 9 * NS_PER_MS)
    told = predictor.forecast(a_run(0), "cpu:0", Empty(), 10 * NS_PER_MS)
    assert [forecast.batch_id for forecast in told] == [0, 2, 3]
    assert all(forecast.mean_ns > NS_PER_MS for forecast in told)
