"""Metrics of pipelines: complete from the start, whole calls beside slots' time, and back to 0."""

from prometheus_client.parser import text_string_to_metric_families
from tests.engine_rig import CPU, TIERS, URGENT

from headway.core import DeviceParams, Kernel, KernelParams
from headway.observe import Metrics
from headway.policy import fifo
from headway.testing import MeanPredictor
from headway.units import NS_PER_MS

MS = NS_PER_MS


def metrics_of_one():
    kernel = Kernel(
        KernelParams(devices=(DeviceParams(name=CPU, slot_lanes=(0,)),)), fifo(MeanPredictor())
    )
    metrics = Metrics(kernel, lambda: 0, TIERS)
    metrics.pipelines.know("ocr")
    return metrics


def samples(metrics):
    families = text_string_to_metric_families(b"".join(metrics.text()).decode())
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
        if family.name.startswith("headway_pipeline")
    }


def test_every_series_of_a_pipeline_exists_from_the_start():
    """All are 0 before the first call, in every tier."""
    found = samples(metrics_of_one())
    assert set(found.values()) == {0.0}
    calls = [key for key in found if key[0] == "headway_pipeline_calls_total"]
    assert len(calls) == 5 * len(TIERS)


def test_wall_time_and_busy_time_are_two_numbers():
    """Latency is the call's, busy seconds are the slots': more than it, where branches overlap."""
    metrics = metrics_of_one()
    pipelines = metrics.pipelines
    pipelines.started("ocr")
    pipelines.ended("ocr", URGENT, "completed", is_met=True, wall_ns=20 * MS, busy_ns=30 * MS)
    found = samples(metrics)
    assert found["headway_pipeline_latency_seconds_sum", "ocr", "urgent"] == 0.02
    assert found["headway_pipeline_busy_seconds_total", "ocr"] == 0.03
    assert found["headway_pipeline_calls_running", "ocr"] == 0


def test_violations_are_all_but_what_was_in_time_or_taken_back():
    """Refused, expired, failed and late calls count; those whose client left do not."""
    metrics = metrics_of_one()
    pipelines = metrics.pipelines
    pipelines.refused("ocr", URGENT)
    for outcome, is_met in (
        ("completed", True),
        ("completed", False),
        ("expired", False),
        ("failed", False),
        ("cancelled", False),
    ):
        pipelines.started("ocr")
        pipelines.ended("ocr", URGENT, outcome, is_met=is_met, wall_ns=MS, busy_ns=0)
    found = samples(metrics)
    assert found["headway_pipeline_violations_total", "ocr", "urgent"] == 4
    ends = {
        next(label for label in labels if label not in ("ocr", "urgent")): value
        for (name, *labels), value in found.items()
        if name == "headway_pipeline_calls_total" and value
    }
    assert ends == {"completed": 2, "rejected": 1, "expired": 1, "failed": 1, "cancelled": 1}
