"""What waiting for a fuller batch costs: facts of queueing theory, seen in simulated runs.

Slots are many and batches short, so that what a request waits for is company and nothing else.
"""

from random import Random

import pytest

from headway.core import Complete, Dispatch, Kernel, KernelParams, RequestArrived
from headway.policy import fifo
from headway.sim import SoloTimes, World
from headway.testing import MeanPredictor, a_device, a_model, a_request
from headway.units import NS_PER_MS, NS_PER_S

SERVICE_NS = 10_000
REQUESTS = 16_000


class Waits:
    """Of a run: from the first arrival of each batch to its start, and each request's own wait."""

    def __init__(self, rps, *, rows_max, linger, seed=1):
        device = a_device(lanes=range(8))
        kernel = Kernel(KernelParams(devices=(device,)), fifo(MeanPredictor()))
        self.fills_ns, self.delays_ns, self.rows = [], [], []
        self._arrived_at_ns = {}
        executor = SoloTimes(lambda _: SERVICE_NS)
        world = World(kernel, executor, observe=self._observe)
        world.load([a_model(batch_rows_max=rows_max, linger=linger)])
        world.run(poisson(rps, seed))
        self.delays_ns.sort()

    def _observe(self, now_ns, event, commands):
        if isinstance(event, RequestArrived):
            self._arrived_at_ns[event.request.request_id] = event.request.arrived_at_ns
        for command in commands:
            if isinstance(command, Dispatch):
                first_at_ns = min(self._arrived_at_ns.pop(i) for i in command.request_ids)
                self.fills_ns.append(now_ns - first_at_ns)
                self.rows.append(command.rows)
            elif isinstance(command, Complete):
                self.delays_ns.append(command.queue_delay_ns)

    @property
    def p99_ns(self):
        """Nearest rank."""
        return self.delays_ns[-(-99 * len(self.delays_ns) // 100) - 1]


def poisson(rps, seed):
    """Requests of one row with all the time in the world."""
    chance = Random(f"{seed}/arrivals")
    now_ns = 0
    for request_id in range(1, REQUESTS + 1):
        now_ns += round(chance.expovariate(rps) * NS_PER_S)
        yield a_request(request_id, at=now_ns, budget="3600s")


@pytest.mark.parametrize("rps", [20, 200])
@pytest.mark.parametrize("rows", [2, 4, 8])
def test_batch_of_b_fills_in_b_less_one_over_the_rate(rows, rps):
    """Its first request waits for the other b - 1, each 1/rate after the one before."""
    run = Waits(rps, rows_max=rows, linger="600s")
    full = [fill for fill, size in zip(run.fills_ns, run.rows, strict=True) if size == rows]
    assert len(full) == REQUESTS // rows
    wanted_ns = (rows - 1) / rps * NS_PER_S
    assert sum(full) / len(full) == pytest.approx(wanted_ns, rel=0.04)


def test_window_that_no_batch_fills_in_is_added_whole():
    """Where the next request is far, the 99th percentile grows by the window, to the last ns."""
    window_ns = 20 * NS_PER_MS
    with_window = Waits(5, rows_max=32, linger="20ms")
    without = Waits(5, rows_max=32, linger=0)
    assert with_window.p99_ns - without.p99_ns == window_ns


@pytest.mark.parametrize("rps", [20, 200, 2000])
@pytest.mark.parametrize("window_ms", [5, 20])
def test_window_never_adds_more_than_itself(rps, window_ms):
    """Whatever the rate, and for every request, not only at the 99th percentile."""
    run = Waits(rps, rows_max=8, linger=f"{window_ms}ms")
    assert run.delays_ns[-1] <= window_ms * NS_PER_MS


def test_window_adds_less_where_batches_fill_before_it_ends():
    """At a rate that fills a batch in a fraction of the window, the fill time is what is added."""
    run = Waits(4000, rows_max=8, linger="20ms")
    assert run.p99_ns < 6 * NS_PER_MS
    assert sum(run.rows) / len(run.rows) == pytest.approx(8, rel=0.01)
