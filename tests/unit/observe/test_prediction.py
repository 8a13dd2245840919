"""Metrics of predictions: judged when their time is over, bounded, and 0 while there are none."""

import asyncio

import pytest
from tests.engine_rig import ECHO, TIERS, URGENT, Rig
from tests.predictors import ScriptedPredictor

from headway.core import BatchId
from headway.observe import Metrics
from headway.observe.prediction import PredictionScore
from headway.policy import fifo
from headway.testing import run_virtual
from headway.units import NS_PER_MS

MS = NS_PER_MS
NORMAL = {"model": "echo", "tier": "normal"}


def play(scenario, *, each_ns, **setup):
    """Run a scenario on an engine whose predictor takes each request for `each_ns`."""

    async def main():
        found = []

        def observe(kernel, clock):
            metrics = Metrics(kernel, clock.now_ns, TIERS)
            metrics.know(ECHO)
            found.append(metrics)
            return found

        rig = Rig(observe=observe, policy=lambda _: fifo(ScriptedPredictor(each_ns)), **setup)
        await rig.load_all()
        await scenario(rig, found[0])
        await rig.until_ms(rig.loop.time() * 1_000 + 60_000)
        rig.close()
        assert found[0]._live == {}
        assert found[0]._batches == {}

    run_virtual(main())


def value(metrics, name, **labels):
    """One sample of a metric of predictions."""
    wanted = (f"headway_prediction{name}", labels)
    (found,) = [
        sample.value
        for family in metrics.collect()
        for sample in family.samples
        if (sample.name, sample.labels) == wanted
    ]
    return found


def test_service_and_latency_are_judged_apart():
    """Of two requests in turn, each batch has its service and each request its latency judged."""

    async def scenario(rig, metrics):
        rig.infer()
        await asyncio.sleep(0)
        await rig.infer()
        # Each batch: 8 ms said, 10 ms taken. The requests: 8 of 10, and 8 of 20, for none waited.
        for of, errors in (("service", (0.2, 0.2)), ("latency", (0.2, 0.6))):
            labels = {**NORMAL, "of": of}
            assert value(metrics, "_error_ratio_count", **labels) == 2
            assert value(metrics, "_error_ratio_sum", **labels) == pytest.approx(sum(errors))
            bias = value(metrics, "_bias_ratio", **labels)
            assert bias == pytest.approx(-sum(errors) / 2)
            assert value(metrics, "s_total", **labels) == 2
        assert value(metrics, "_error_ratio_bucket", le="0.15", of="service", **NORMAL) == 0
        assert value(metrics, "_error_ratio_bucket", le="0.3", of="service", **NORMAL) == 2
        assert value(metrics, "_covered_total", of="service", **NORMAL) == 2
        assert value(metrics, "_covered_total", of="latency", **NORMAL) == 1

    play(scenario, each_ns=8 * MS)


def test_batch_counts_for_the_tier_of_its_first_request():
    """Tiers that share a batch share its prediction; it is counted once."""

    async def scenario(rig, metrics):
        rig.infer()
        await asyncio.sleep(0)
        await asyncio.gather(rig.infer(tier=URGENT), rig.infer())
        counts = {
            tier: value(metrics, "s_total", model="echo", tier=tier, of="service") for tier in TIERS
        }
        assert counts == {"normal": 1, "urgent": 1, "bulk": 0, "patient": 0}

    play(scenario, each_ns=8 * MS)


def test_large_body_is_judged_from_its_admission():
    """A prediction is of what comes after it, not of the upload before."""

    async def scenario(rig, metrics):
        await rig.until_ms(50)
        await rig.engine.infer(_call_that_arrived_at(20 * MS))
        latency = {**NORMAL, "of": "latency"}
        assert value(metrics, "_error_ratio_sum", **latency) == 0
        assert value(metrics, "_error_ratio_count", **latency) == 1

    play(scenario, each_ns=10 * MS)


def _call_that_arrived_at(arrived_at_ns):
    from tests.engine_rig import a_call

    return a_call(arrived_at_ns=arrived_at_ns)


def test_expired_request_breaks_its_bound_or_says_nothing():
    """Given up after its bound it counts as a miss, given up before it does not count."""

    async def scenario(rig, metrics):
        calls = [rig.infer(), rig.infer(budget_ns=9 * MS), rig.infer(budget_ns=3 * MS)]
        await asyncio.gather(*calls, return_exceptions=True)
        latency = {**NORMAL, "of": "latency"}
        # Bounds are 4, 4 and 8 ms: the first request took 10, the second was given up after 9.
        assert value(metrics, "s_total", **latency) == 2
        assert value(metrics, "_covered_total", **latency) == 0
        assert value(metrics, "_error_ratio_count", **latency) == 1

    play(scenario, each_ns=2 * MS)


def test_batch_that_did_not_run_has_no_service():
    """What failed or was lost took no time that anything could be learnt from."""

    async def scenario(rig, metrics):
        call = rig.infer()
        await asyncio.sleep(0)
        rig.executor.fail(BatchId(1))
        await asyncio.gather(call, return_exceptions=True)
        for of in ("service", "latency"):
            assert value(metrics, "s_total", of=of, **NORMAL) == 0

    play(scenario, each_ns=8 * MS)


def test_unknown_is_not_judged():
    """While the predictor knows nothing all series stay at 0."""

    async def scenario(rig, metrics):
        await rig.infer()
        for of in ("service", "latency"):
            for name in ("s_total", "_covered_total", "_bias_ratio", "_error_ratio_count"):
                assert value(metrics, name, of=of, **NORMAL) == 0

    play(scenario, each_ns=0)


def test_bias_follows_what_is_recent():
    """It is the mean at first, and forgets what a hundred newer ones have outweighed."""
    score = PredictionScore()
    for predicted_ns in (50, 150, 200):
        score.add(predicted_ns, 1_000, 100)
    assert score.bias_ratio == pytest.approx((-0.5 + 0.5 + 1.0) / 3)
    for _ in range(1_000):
        score.add(90, 1_000, 100)
    assert score.bias_ratio == pytest.approx(-0.1, abs=1e-3)
    assert score.covered_count == score.judged_count == 1_003


def test_missed_bounds_leave_error_and_bias_alone():
    """What never ended has no error; it counts against coverage only."""
    score = PredictionScore()
    score.miss()
    score.add(50, 100, 100)
    assert (score.judged_count, score.covered_count) == (2, 1)
    assert score.bias_ratio == -0.5
    assert sum(score.errors.counts) == 1


def test_what_took_no_time_is_no_division_by_zero():
    """A batch that ended in the instant of its start is judged as if it took 1 ns."""
    score = PredictionScore()
    score.add(5, 5, 0)
    assert score.bias_ratio == 4.0
    assert score.covered_count == 1
