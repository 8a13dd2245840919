"""Metrics from kernel steps: complete from the start, conserving, bounded, and well-formed."""

import asyncio
import math
from collections import Counter

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families
from tests.counted import listen, samples, series, value
from tests.engine_rig import (
    BULK,
    CPU,
    ECHO,
    NORMAL,
    PATIENT,
    TIERS,
    URGENT,
    Rig,
    a_plan,
    chance,
    random_calls,
)
from tests.scripted_policy import Scripted

from headway.core import (
    BatchFailed,
    BatchId,
    BucketKey,
    DeviceParams,
    ExpireReason,
    Kernel,
    KernelParams,
    ModelLoadRequested,
    ModelName,
    RejectReason,
    ReplicaState,
    Request,
    RequestArrived,
    RequestCancelled,
    RequestId,
    TenantId,
    TierName,
)
from headway.observe import Metrics
from headway.policy import edf, fifo, priority
from headway.testing import MeanPredictor, ScriptedError, a_kernel, run_virtual
from headway.units import NS_PER_MS

MS = NS_PER_MS
SEEDS = range(20)
CANCELLED = ("cancelled", "")
ROWS_OF_A_TIER = (
    "queue_depth",
    "queue_oldest_age_seconds",
    "requests_arrived_total",
    "requests_in_flight",
    "deadline_violations_total",
    "late_answers_total",
    "promotions_total",
)
LATENCIES = ("1e-05", "0.0002", "0.005", "+Inf")
ENDS = {
    ("completed", ""),
    CANCELLED,
    *(("rejected", reason) for reason in RejectReason),
    *(("expired", reason) for reason in ExpireReason),
    *(
        ("failed", code)
        for code in ("executor_failed", "out_of_memory", "worker_lost", "load_failed", "other")
    ),
}


def play(scenario, **setup):
    """Run a scenario on a loaded engine with metrics, which must never be lost."""

    async def main():
        found = []

        def observe(kernel, clock):
            metrics = Metrics(kernel, clock.now_ns, TIERS)
            metrics.know(ECHO)
            found.append(metrics)
            return found

        rig = Rig(observe=observe, **setup)
        await rig.load_all()
        await scenario(rig, found[0])
        await rig.until_ms(rig.loop.time() * 1_000 + 60_000)
        rig.close()
        assert found[0]._live == {}
        assert found[0]._batches == {}

    run_virtual(main())


def idle_metrics():
    kernel = Kernel(
        KernelParams(devices=(DeviceParams(name=CPU, slot_lanes=(0, 1)),)), fifo(MeanPredictor())
    )
    return Metrics(kernel, lambda: 0, TIERS)


def total(metrics, name):
    return sum(series(metrics, name).values())


def test_every_series_of_a_known_model_exists_at_0():
    """A rate over a counter needs its 0, and an alert on a missing series never fires."""
    metrics = idle_metrics()
    metrics.know(ECHO)
    found = samples(metrics)
    ours = {key: number for key, number in found.items() if key[0].startswith("headway_")}
    assert {key[0] for key, number in ours.items() if number} == {
        "headway_slots",
        "headway_tier_budget_seconds",
    }
    for model in (ECHO, "unknown"):
        for tier in TIERS:
            labels = {("model", model), ("tier", tier)}
            for name in ROWS_OF_A_TIER:
                assert (f"headway_{name}", frozenset(labels)) in ours
            for name in ("queue_delay", "service", "latency"):
                assert (f"headway_{name}_seconds_count", frozenset(labels)) in ours
            ends = {
                (dict(key[1])["outcome"], dict(key[1])["reason"])
                for key in ours
                if key[0] == "headway_requests_total" and labels <= key[1]
            }
            assert ends == ENDS
        states = {
            dict(key[1])["state"]
            for key in ours
            if key[0] == "headway_replicas" and ("model", model) in key[1]
        }
        assert states == set(ReplicaState)
    assert ("headway_worker_losses_total", frozenset()) in ours


@pytest.mark.parametrize("is_emulated", [False, True])
def test_emulated_figures_are_recognisable(is_emulated):
    """Whoever scrapes an emulated server finds it marked, and a real one marked as such."""
    kernel = Kernel(
        KernelParams(devices=(DeviceParams(name=CPU, slot_lanes=(0,)),)), fifo(MeanPredictor())
    )
    metrics = Metrics(kernel, lambda: 0, TIERS, is_emulated=is_emulated)
    assert value(metrics, "headway_emulated") == int(is_emulated)


def test_completed_request_is_in_every_histogram():
    """Queue delay, service and latency of the request; rows and stages of the batch."""

    async def scenario(rig, metrics):
        rig.infer()
        await asyncio.sleep(0)
        await rig.infer(rows=3, tier=URGENT)
        urgent = {"model": "echo", "tier": "urgent"}
        end = {"outcome": "completed", "reason": ""}
        assert value(metrics, "headway_requests_total", **end, **urgent) == 1
        assert value(metrics, "headway_queue_delay_seconds_sum", **urgent) == 0.01
        assert value(metrics, "headway_service_seconds_sum", **urgent) == 0.01
        assert value(metrics, "headway_latency_seconds_sum", **urgent) == 0.02
        assert value(metrics, "headway_latency_seconds_bucket", le="0.01", **urgent) == 0
        assert value(metrics, "headway_latency_seconds_bucket", le="0.025", **urgent) == 1
        assert value(metrics, "headway_batches_total", model="echo") == 2
        assert value(metrics, "headway_batch_rows_sum", model="echo") == 4
        stage = {"model": "echo", "stage": "execution"}
        assert value(metrics, "headway_stage_seconds_sum", **stage) == 0.02

    play(scenario)


def test_depth_age_and_slots_are_those_of_now():
    """Gauges tell what waits and runs at the moment of asking, the oldest by its arrival."""

    async def scenario(rig, metrics):
        rig.infer()
        rig.infer()
        await rig.until_ms(4)
        rig.infer(tier=BULK)
        await rig.until_ms(7)
        normal, bulk = ({"model": "echo", "tier": tier} for tier in (NORMAL, BULK))
        assert value(metrics, "headway_queue_depth", **normal) == 1
        assert value(metrics, "headway_queue_depth", **bulk) == 1
        assert value(metrics, "headway_queue_oldest_age_seconds", **normal) == 0.007
        assert value(metrics, "headway_queue_oldest_age_seconds", **bulk) == 0.003
        assert value(metrics, "headway_requests_oldest_age_seconds", **bulk) == 0.003
        assert value(metrics, "headway_slots_busy", device="cpu") == 1
        assert value(metrics, "headway_replicas", model="echo", state="ready") == 1
        await rig.until_ms(12)
        assert total(metrics, "headway_queue_depth") == 0
        assert total(metrics, "headway_queue_oldest_age_seconds") == 0
        assert value(metrics, "headway_requests_oldest_age_seconds", **normal) == 0.012
        await rig.until_ms(30)
        assert total(metrics, "headway_slots_busy") == 0
        assert total(metrics, "headway_requests_oldest_age_seconds") == 0

    play(scenario)


def test_request_is_counted_when_it_arrives_and_in_flight_until_it_ends():
    """Arrivals show at once, not when they end; waiting or running, a request is in flight."""

    async def scenario(rig, metrics):
        calls = [rig.infer(), rig.infer()]
        await rig.until_ms(5)
        normal = {"model": "echo", "tier": NORMAL}
        assert value(metrics, "headway_requests_arrived_total", **normal) == 2
        assert value(metrics, "headway_requests_in_flight", **normal) == 2
        assert total(metrics, "headway_requests_total") == 0
        await calls[0]
        assert value(metrics, "headway_requests_in_flight", **normal) == 1
        await calls[1]
        assert total(metrics, "headway_requests_in_flight") == 0
        assert value(metrics, "headway_requests_arrived_total", **normal) == 2

    play(scenario)


def test_promotions_count_those_who_waited_for_it():
    """Who gets a better place while it waits; not who has started or left before its time."""
    ages = {2: 5 * MS, 3: 5 * MS, 4: 6 * MS, 5: 50 * MS}
    talk = a_kernel(Scripted(promotes_after_ns=ages).policy())
    metrics = listen(talk, knows=["m"])
    for request_id in range(1, 6):
        talk.arrives(request_id, tier="bulk" if request_id == 3 else "normal")
    talk.handle(RequestCancelled(request_id=4))
    assert total(metrics, "headway_promotions_total") == 0
    talk.wakes(at=5 * MS)
    normal, bulk = ({"model": "m", "tier": tier} for tier in ("normal", "bulk"))
    assert value(metrics, "headway_promotions_total", **normal) == 1
    assert value(metrics, "headway_promotions_total", **bulk) == 1
    talk.wakes(at=6 * MS)
    talk.drain()
    talk.wakes(at=60 * MS)
    assert total(metrics, "headway_promotions_total") == 2


def test_request_in_segments_waits_again_between_them():
    """It is in the queue depth while its rest waits, and its age counts from its arrival."""

    async def scenario(rig, metrics):
        long = rig.infer(rows=5)
        await asyncio.sleep(0)
        normal = {"model": "echo", "tier": NORMAL}
        assert value(metrics, "headway_queue_depth", **normal) == 0
        await rig.until_ms(5)
        rig.infer(tier=URGENT)
        await rig.until_ms(15)
        assert value(metrics, "headway_queue_depth", **normal) == 1
        assert value(metrics, "headway_queue_oldest_age_seconds", **normal) == 0.015
        await long
        assert total(metrics, "headway_queue_depth") == 0
        assert value(metrics, "headway_segments_total", model="echo") == 3
        assert value(metrics, "headway_batches_total", model="echo") == 4
        end = {"outcome": "completed", "reason": ""}
        assert value(metrics, "headway_requests_total", **end, **normal) == 1

    play(scenario, plans=[a_plan(batch_rows_max=2, can_split=True)], policy=priority)


def test_late_answer_is_counted_and_is_a_violation():
    """Completed, late, and a violation; one in time is neither of the last two."""

    async def scenario(rig, metrics):
        await rig.infer(tier=PATIENT)
        await rig.infer(tier=PATIENT, budget_ns=5 * MS)
        patient = {"model": "echo", "tier": PATIENT}
        end = {"outcome": "completed", "reason": ""}
        assert value(metrics, "headway_requests_total", **end, **patient) == 2
        assert value(metrics, "headway_late_answers_total", **patient) == 1
        assert value(metrics, "headway_deadline_violations_total", **patient) == 1
        assert value(metrics, "headway_latency_seconds_count", **patient) == 2

    play(scenario)


def test_decisions_and_lags_are_histograms_without_labels():
    """What the driver tells is counted at its length; buckets are fine enough for microseconds."""
    metrics = idle_metrics()
    for duration_ns in (9_000, 150_000, 3_000_000):
        metrics.loop.decided(duration_ns)
    metrics.loop.woke(40_000)
    found = {le: value(metrics, "headway_decision_seconds_bucket", le=le) for le in LATENCIES}
    assert found == {"1e-05": 1, "0.0002": 2, "0.005": 3, "+Inf": 3}
    assert value(metrics, "headway_decision_seconds_sum") == pytest.approx(0.003159)
    assert value(metrics, "headway_loop_lag_seconds_count") == 1
    assert value(metrics, "headway_loop_lag_seconds_sum") == pytest.approx(4e-05)


def test_oldest_is_by_arrival_not_by_admission():
    """A large body begins to arrive early and is handed on late."""
    metrics = idle_metrics()
    metrics.know(ECHO)
    for number, arrived_at_ns in enumerate((-3_000_000, -9_000_000)):
        event = RequestArrived(request=a_request(number, ECHO, NORMAL, arrived_at_ns))
        metrics(0, event, [])
    age = value(metrics, "headway_queue_oldest_age_seconds", model="echo", tier="normal")
    assert age == 0.009


def test_violations_are_what_was_promised_and_not_kept():
    """Refused, expired and failed count; a client that left does not."""

    def service_ns(job):
        if job.parameters:
            raise ScriptedError("no", code="something new")
        return 10 * MS

    async def scenario(rig, metrics):
        calls = [rig.infer()]
        await asyncio.sleep(0)
        calls += [rig.infer(budget_ns=4 * MS), rig.infer(parameters={"x": 1}), rig.infer()]
        await rig.until_ms(2)
        calls[0].cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        labels = {"model": "echo", "tier": "normal"}
        ends = {
            (dict(key)["outcome"], dict(key)["reason"]): number
            for key, number in series(metrics, "headway_requests_total").items()
            if number
        }
        assert ends == {
            ("cancelled", ""): 1,
            ("expired", "deadline_past"): 1,
            ("failed", "other"): 1,
            ("rejected", "model_queue_full"): 1,
        }
        assert value(metrics, "headway_deadline_violations_total", **labels) == 3
        assert value(metrics, "headway_batches_failed_total", model="echo") == 1

    play(scenario, service_ns=service_ns, plans=[a_plan(queue_requests_max=2)])


def test_cancelled_batch_is_no_failed_one():
    """Nobody waited for it any more, so the back end did as it was told."""

    async def scenario(rig, metrics):
        call = rig.infer()
        await asyncio.sleep(0)
        call.cancel()
        await rig.until_ms(1)
        rig.executor.fail(BatchId(1), "cancelled", "cancelled before it began")
        assert value(metrics, "headway_batches_failed_total", model="echo") == 0
        rig.infer()
        await rig.until_ms(2)
        rig.executor.lose(CPU)
        await rig.until_ms(3)
        assert value(metrics, "headway_batches_failed_total", model="echo") == 1
        assert total(metrics, "headway_worker_losses_total") == 1

    play(scenario)


@pytest.mark.parametrize("seed", SEEDS)
def test_arrivals_are_outcomes_and_what_waits_and_runs(seed):
    """At every moment of a random run nothing is counted twice, and nothing is lost."""

    async def scenario(rig, metrics):
        draw = chance(seed, "metrics")
        ends = await random_calls(rig, draw, lambda: conserved(rig, metrics))
        kinds = Counter(type(end).__name__ for end in ends)
        assert conserved(rig, metrics) == rig.kernel.ledger.arrived_count
        completed = value_of_outcome(metrics, "completed")
        assert kinds["InferReply"] <= completed <= kinds["InferReply"] + kinds["CancelledError"]

    def conserved(rig, metrics):
        waiting = total(metrics, "headway_queue_depth")
        running = sum(batch.live_count for batch in rig.kernel.fleet.batches.values())
        ended = total(metrics, "headway_requests_total")
        assert waiting == rig.kernel.room.count
        assert rig.kernel.ledger.arrived_count == ended + waiting + running
        return ended

    play(scenario, policy=edf, plans=[a_plan(queue_requests_max=8, linger_ns=2 * MS)])


def value_of_outcome(metrics, outcome):
    found = series(metrics, "headway_requests_total")
    return sum(number for key, number in found.items() if ("outcome", outcome) in key)


def a_request(number, model, tier, arrived_at_ns=0):
    return Request(
        request_id=RequestId(number),
        model=ModelName(model),
        bucket=BucketKey(""),
        priority=1,
        tier=TierName(tier),
        tenant=TenantId("default"),
        arrived_at_ns=arrived_at_ns,
        budget_ns=1,
    )


def test_names_that_nobody_configured_make_no_series():
    """Requests for made-up models and tiers are counted, all under `unknown`."""
    metrics = idle_metrics()
    metrics.know(ECHO)
    before = set(samples(metrics))
    for number in range(1_000):
        tier = NORMAL if number % 2 else f"tier-{number}"
        model = f"model-{number}" if number % 3 else ECHO
        request = a_request(number, model, tier)
        event = RequestArrived(request=request)
        metrics(0, event, idle_metrics()._kernel.handle(event, 0))
    assert set(samples(metrics)) == before
    found = series(metrics, "headway_requests_total")
    known = sum(number for key, number in found.items() if ("model", "echo") in key)
    unknown = sum(number for key, number in found.items() if ("model", "unknown") in key)
    assert (known, unknown) == (167, 833)


def test_unknown_model_counts_in_the_tier_of_its_requests():
    """A violation of one tier is none of another's, whoever it is of: alerts are about tiers."""
    metrics = idle_metrics()
    for number, tier in enumerate((NORMAL, BULK, BULK, "tier-x")):
        event = RequestArrived(request=a_request(number, "nobody's", tier))
        metrics(0, event, idle_metrics()._kernel.handle(event, 0))
    found = series(metrics, "headway_deadline_violations_total")
    assert {dict(key)["tier"]: number for key, number in found.items() if number} == {
        NORMAL: 2,
        BULK: 2,
    }


def test_model_that_is_loaded_later_gets_its_own_series():
    """An administrator may load what was not in the configuration; within reason."""
    metrics = idle_metrics()
    for number in range(1_000):
        event = ModelLoadRequested(model=a_plan(f"model-{number}").params)
        metrics(0, event, [])
    models = {dict(key)["model"] for key in series(metrics, "headway_batches_total")}
    assert {"model-0", "unknown"} <= models
    assert len(models) == 257


def test_events_of_batches_that_nobody_knows_are_ignored():
    """A late report of a lost batch counts for nothing."""
    metrics = idle_metrics()
    before = whole(metrics)
    metrics(0, BatchFailed(batch_id=BatchId(9), code="executor_failed", message=""), [])
    assert series(metrics, "headway_batches_failed_total") == {frozenset({("model", "unknown")}): 0}
    assert before.count("\n") == whole(metrics).count("\n")


@pytest.mark.parametrize("aliases", [(), ("triton", "vllm")])
def test_openmetrics_says_the_same(aliases):
    """Its strict parser takes it, and each sample has the value that it has in the other format."""
    talk = a_kernel()
    metrics = listen(talk, knows=["m"], aliases=aliases, has_tenants=True)
    talk.arrives(1)
    talk.arrives(2)
    talk.finishes(1, at=3 * MS)
    text = whole(metrics, is_openmetrics=True)
    assert text.endswith("# EOF\n")
    opened = {of(s): s.value for f in openmetrics_families(text) for s in f.samples}
    plain = {
        of(s): s.value
        for family in text_string_to_metric_families(whole(metrics))
        for s in family.samples
    }
    ours = ("headway_", "nv_", "vllm:")
    assert {key: number for key, number in opened.items() if key[0].startswith(ours)} == {
        key: number for key, number in plain.items() if key[0].startswith(ours)
    }


def whole(metrics, **how):
    return b"".join(metrics.text(**how)).decode()


def of(sample):
    return sample.name, frozenset(sample.labels.items())


def test_exposition_is_what_prometheus_reads():
    """Each family has help and type, histograms rise to their count, and values are numbers."""

    async def scenario(rig, metrics):
        await asyncio.gather(*(rig.infer(rows=rows) for rows in (1, 2, 3)))
        families = list(text_string_to_metric_families(whole(metrics)))
        for family in families:
            assert family.documentation
            assert family.type in {"counter", "gauge", "histogram"}
            assert all(math.isfinite(sample.value) for sample in family.samples)
            if family.type == "histogram":
                check_histogram(family)
        names = [family.name for family in families]
        assert len(names) == len(set(names))
        assert "process_resident_memory_bytes" in names

    def check_histogram(family):
        by_labels = {}
        for sample in family.samples:
            labels = frozenset(pair for pair in sample.labels.items() if pair[0] != "le")
            by_labels.setdefault((labels, sample.name), []).append(sample.value)
        for (labels, name), values in by_labels.items():
            if name.endswith("_bucket"):
                assert values == sorted(values)
                assert values[-1] == by_labels[labels, f"{family.name}_count"][0]

    play(scenario)
