"""Names of other servers: the same meaning, or no series."""

import pytest
from tests.counted import listen, samples, series, value

from headway.core import (
    BatchFailed,
    BatchFinished,
    BatchId,
    ModelUnloadRequested,
    ReplicaStopped,
    RequestCancelled,
)
from headway.devices import DeviceReading
from headway.observe import Look
from headway.testing import a_kernel, a_model

MS = 1_000_000
TRITON = {"model": "m", "version": "1"}
VLLM = {"model_name": "m", "engine": "0"}


def a_talk(*aliases, **settings):
    """A model of four rows, and its metrics under other names too."""
    talk = a_kernel(models=[a_model(batch_rows_max=4, **settings)])
    return talk, listen(talk, knows=["m", "absent"], aliases=aliases)


def names(metrics, *prefixes):
    """What is exported under such names."""
    return {name for name, _ in samples(metrics) if name.startswith(prefixes)}


@pytest.mark.parametrize(
    ("aliases", "prefixes"),
    [
        ((), ()),
        (("triton",), ("nv_",)),
        (("vllm",), ("vllm:",)),
        (("triton", "vllm"), ("nv_", "vllm:")),
    ],
)
def test_names_of_others_are_there_when_they_are_asked_for(aliases, prefixes):
    """Nobody scrapes twice what it has no use for."""
    _, metrics = a_talk(*aliases)
    for prefix in ("nv_", "vllm:"):
        assert bool(names(metrics, prefix)) is (prefix in prefixes)


def test_models_that_are_not_served_have_no_series():
    """A router would send them requests."""
    talk, metrics = a_talk("triton", "vllm")
    assert series(metrics, "nv_inference_count").keys() == {frozenset(TRITON.items())}
    assert series(metrics, "vllm:num_requests_waiting").keys() == {frozenset(VLLM.items())}
    talk.handle(ModelUnloadRequested(model="m"))
    talk.handle(ReplicaStopped(replica_id=1))
    assert not series(metrics, "nv_inference_count")
    assert not series(metrics, "vllm:num_requests_waiting")


def test_waiting_and_running_are_those_of_now():
    """Over all tiers; what arrives is there at once and not when it ends."""
    talk, metrics = a_talk("triton", "vllm")
    talk.arrives(1, rows=4)
    talk.arrives(2)
    talk.arrives(3, tier="bulk")
    assert value(metrics, "vllm:num_requests_running", **VLLM) == 1
    assert value(metrics, "vllm:num_requests_waiting", **VLLM) == 2
    assert value(metrics, "nv_inference_pending_request_count", **TRITON) == 2
    talk.drain()
    assert value(metrics, "vllm:num_requests_running", **VLLM) == 0
    assert value(metrics, "vllm:num_requests_waiting", **VLLM) == 0
    assert value(metrics, "nv_inference_pending_request_count", **TRITON) == 0


def test_times_of_compute_count_for_each_request_of_a_batch():
    """As Triton has it: divided by the requests that succeeded they are a request's mean."""
    talk, metrics = a_talk("triton")
    talk.arrives(1, rows=4)
    for request_id in (2, 3, 4):
        talk.arrives(request_id)
    talk.finishes(1, at=1 * MS)
    talk.handle(RequestCancelled(request_id=4), at=2 * MS)
    ended = BatchFinished(
        batch_id=BatchId(2), transfer_in_ns=1 * MS, execution_ns=5 * MS, transfer_out_ns=2 * MS
    )
    talk.handle(ended, at=9 * MS)
    assert value(metrics, "nv_inference_request_success", **TRITON) == 3
    assert value(metrics, "nv_inference_compute_input_duration_us", **TRITON) == 2 * 1000
    assert value(metrics, "nv_inference_compute_infer_duration_us", **TRITON) == 2 * 5000
    assert value(metrics, "nv_inference_compute_output_duration_us", **TRITON) == 2 * 2000
    assert value(metrics, "nv_inference_request_duration_us", **TRITON) == 1000 + 9000 + 9000
    assert value(metrics, "nv_inference_queue_duration_us", **TRITON) == 0 + 1000 + 1000


def test_average_batch_is_rows_over_executions():
    """The quotient that dashboards show."""
    talk, metrics = a_talk("triton")
    talk.arrives(1, rows=4)
    for request_id in (2, 3, 4):
        talk.arrives(request_id)
    talk.drain()
    assert value(metrics, "nv_inference_count", **TRITON) == 7
    assert value(metrics, "nv_inference_exec_count", **TRITON) == 2


def test_failures_have_tritons_reasons():
    """Refused and expired are rejected, what the back end did is its fault, the rest is gone."""
    talk, metrics = a_talk("triton", queue_requests_max=1)
    talk.arrives(1)
    talk.arrives(2, budget="5ms")
    talk.arrives(3)
    talk.wakes(at=5 * MS)
    talk.handle(BatchFailed(batch_id=BatchId(1), code="executor_failed", message=""))
    talk.arrives(4)
    talk.handle(BatchFailed(batch_id=BatchId(2), code="something new", message=""))
    talk.arrives(5)
    talk.handle(RequestCancelled(request_id=5))
    found = series(metrics, "nv_inference_request_failure")
    assert {dict(key)["reason"]: count for key, count in found.items()} == {
        "REJECTED": 2,
        "BACKEND": 1,
        "OTHER": 1,
        "CANCELED": 1,
    }


def test_vllm_has_ends_and_histograms_of_all_tiers():
    """What was answered, who left, and how long it took."""
    talk, metrics = a_talk("vllm")
    talk.arrives(1)
    talk.arrives(2, tier="bulk")
    talk.arrives(3)
    talk.handle(RequestCancelled(request_id=3))
    talk.finishes(1, at=20 * MS)
    talk.drain()
    assert value(metrics, "vllm:request_success_total", finished_reason="stop", **VLLM) == 2
    assert value(metrics, "vllm:request_success_total", finished_reason="abort", **VLLM) == 1
    latency = "vllm:e2e_request_latency_seconds"
    assert value(metrics, f"{latency}_count", **VLLM) == 2
    assert value(metrics, f"{latency}_sum", **VLLM) == 0.04
    assert value(metrics, f"{latency}_bucket", le="0.01", **VLLM) == 0
    assert value(metrics, f"{latency}_bucket", le="0.025", **VLLM) == 2
    assert value(metrics, "vllm:request_queue_time_seconds_sum", **VLLM) == 0.02


def test_devices_are_named_by_the_drivers_names():
    """GPUs by their id; of cores the first device; what is unknown is left out."""
    _, metrics = a_talk("triton")
    gpu = DeviceReading(
        name="cuda:0", uuid="GPU-1", utilization_ratio=0.5, power_w=300.0, energy_j=7.5
    )
    cores = DeviceReading(name="cpu:0", utilization_ratio=0.25, memory_used_bytes=5)
    metrics.devices.look = lambda: Look(readings=(cores, gpu))
    assert value(metrics, "nv_gpu_utilization", gpu_uuid="GPU-1") == 0.5
    assert value(metrics, "nv_gpu_power_usage", gpu_uuid="GPU-1") == 300
    assert value(metrics, "nv_energy_consumption", gpu_uuid="GPU-1") == 7.5
    assert value(metrics, "nv_cpu_utilization") == 0.25
    assert names(metrics, "nv_gpu_", "nv_cpu_") == {
        "nv_gpu_utilization",
        "nv_gpu_power_usage",
        "nv_cpu_utilization",
        "nv_cpu_memory_used_bytes",
    }
