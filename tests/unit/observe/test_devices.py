"""Devices and workers as Prometheus sees them: what is unknown has no series, and is never 0."""

from tests.counted import listen, samples, series, value

from headway.devices import THROTTLE_REASONS, DeviceReading
from headway.observe import Look
from headway.testing import a_kernel

WHOLE = DeviceReading(
    name="cuda:0",
    uuid="GPU-1",
    utilization_ratio=0.0,
    memory_used_bytes=5,
    memory_total_bytes=10,
    pcie_sent_bytes=100,
    pcie_received_bytes=0,
    pcie_width=8,
    pcie_width_max=16,
    can_tell_throttling=True,
    throttle_reasons=("sw_thermal",),
    power_w=300.5,
    power_limit_w=700.0,
    energy_j=12.5,
    temperature_c=70.0,
)


def seen(*readings, **more):
    """Metrics with this as the last look."""
    metrics = listen(a_kernel())
    metrics.devices.look = lambda: Look(readings=readings, **more)
    return metrics


def test_whole_reading_is_told_in_base_units():
    """An idle device is 0, which is not the same as an unknown one."""
    metrics = seen(WHOLE)
    device = {"device": "cuda:0"}
    assert value(metrics, "headway_device_utilization_ratio", **device) == 0
    assert value(metrics, "headway_device_memory_used_bytes", **device) == 5
    assert value(metrics, "headway_device_memory_total_bytes", **device) == 10
    pcie = "headway_device_pcie_bytes_total"
    assert value(metrics, pcie, direction="sent", **device) == 100
    assert value(metrics, pcie, direction="received", **device) == 0
    assert value(metrics, "headway_device_pcie_width", **device) == 8
    assert value(metrics, "headway_device_pcie_width_max", **device) == 16
    assert value(metrics, "headway_device_power_watts", **device) == 300.5
    assert value(metrics, "headway_device_power_limit_watts", **device) == 700
    assert value(metrics, "headway_device_energy_joules_total", **device) == 12.5
    assert value(metrics, "headway_device_temperature_celsius", **device) == 70
    held = series(metrics, "headway_device_throttled")
    assert {dict(key)["reason"]: number for key, number in held.items()} == {
        reason: int(reason == "sw_thermal") for reason in THROTTLE_REASONS
    }


def test_unknown_has_no_series():
    """A slice whose utilisation nobody counts is not idle, nor is it known not to be throttled."""
    found = {name for name, _ in samples(seen(DeviceReading(name="cuda:0/mig:0")))}
    assert not {name for name in found if name.startswith("headway_device_")} - {
        "headway_device_seconds_total",
        "headway_device_wasted_seconds_total",
    }


def test_devices_are_told_side_by_side():
    """Each with what it knows."""
    metrics = seen(WHOLE, DeviceReading(name="cpu:0", utilization_ratio=0.5))
    assert value(metrics, "headway_device_utilization_ratio", device="cpu:0") == 0.5
    assert len(series(metrics, "headway_device_utilization_ratio")) == 2
    assert len(series(metrics, "headway_device_power_watts")) == 1


def test_workers_are_told_by_what_they_work_for():
    """Starts from a live table; memory of the last look, in RAM and on devices."""
    metrics = seen(worker_bytes={"cpu:0": 7}, worker_device_bytes={("cpu:0", "cuda:0"): 3})
    starts = metrics.devices.starts = {"cpu:0": 1}
    starts["cpu:0"] += 1
    assert value(metrics, "headway_worker_starts_total", worker="cpu:0") == 2
    assert value(metrics, "headway_worker_memory_bytes", worker="cpu:0") == 7
    on_device = "headway_worker_device_memory_bytes"
    assert value(metrics, on_device, worker="cpu:0", device="cuda:0") == 3
