"""Looks are rationed, and what is not looked at repeats the last answer."""

import pytest

from headway.core import Forecast, Run, Stages
from headway.predict import FixedPredictor
from headway.predict.thrift import Thrifty
from headway.testing import a_request
from headway.units import NS_PER_MS, NS_PER_S


class Empty:
    """A queue in which nobody waits."""

    count = 0

    def requests(self):
        """Nobody."""
        return iter(())

    def params(self, model):
        """Nothing is known of any model."""


class Counting(FixedPredictor):
    """Says how often it was asked, and what it was told."""

    def __init__(self, service_ns):
        super().__init__()
        self.says_ns = service_ns
        self.looks = []
        self.ends = []
        self.answers = 0
        self.arrivals = 0

    def started(self, run, queue, now_ns):
        """One look."""
        super().started(run, queue, now_ns)
        self.looks.append(run.batch_id)
        ns = self.says_ns
        return Forecast(batch_id=run.batch_id, mean_ns=ns, bound_ns=2 * ns, base_ns=ns)

    def foresee(self, request, queue, now_ns):
        """One look."""
        self.looks.append(request.request_id)
        return Forecast(mean_ns=self.says_ns, bound_ns=self.says_ns, base_ns=self.says_ns)

    def finished(self, batch_id, stages, now_ns):
        """Told of an end."""
        super().finished(batch_id, stages, now_ns)
        self.ends.append(batch_id)

    def admitted(self, request, now_ns):
        """Told of an arrival."""
        self.arrivals += 1

    def answered(self, request, foreseen, now_ns):
        """Told of an answer."""
        self.answers += 1


def a_run(batch_id, model="m", rows=1):
    """A batch on the first slot."""
    request = a_request(1, model=model)
    return Run(
        batch_id=batch_id,
        model=request.model,
        bucket=request.bucket,
        rows=rows,
        payload_bytes=0,
        device="cpu:0",
        slot=0,
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
    """The inner predictor hears of the end of each batch that it heard the start of, no others."""
    inner = Counting(NS_PER_MS)
    play(inner, 1, 1_000)
    assert inner.ends == inner.looks
    assert len(inner.looks) < 1_000


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
    """A batch that fails is forgotten by whoever follows it."""
    inner = Counting(NS_PER_MS)
    thrifty = Thrifty(inner, 10)
    for number in (1, 2, 3):
        thrifty.started(a_run(number), Empty(), 0)
    assert inner.looks == [1, 2]
    for number in (1, 2, 3):
        thrifty.dropped(number, 1)
    with pytest.raises(KeyError):
        thrifty.dropped(3, 2)


def test_arrivals_are_all_told_and_answers_rationed():
    """The rate of arrivals is what it is; of the answers a sample is enough."""
    inner = Counting(NS_PER_MS)
    thrifty = Thrifty(inner, 100)
    for number in range(1_000):
        request = a_request(number + 1)
        foreseen = thrifty.foresee(request, Empty(), 0)
        thrifty.admitted(request, 0)
        thrifty.answered(request, foreseen, 0)
        assert foreseen.mean_ns == NS_PER_MS
    assert (inner.arrivals, inner.answers) == (1_000, 10)
    assert len(inner.looks) == 11  # the first of a kind is always looked at
