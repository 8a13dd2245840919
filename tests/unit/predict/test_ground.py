"""What all predictors stand on: devices, and where a request's work goes."""

from headway.core import Run, SlotClass
from headway.predict.ground import Ground
from headway.testing import a_device, a_request


def a_run(device, slot=0, lane=0):
    """A batch on a device."""
    return Run(
        model="m",
        bucket="",
        rows=1,
        payload_bytes=0,
        device=device,
        slot=slot,
        lane=lane,
        slot_class=SlotClass.HIGH,
        priority=1,
    )


def test_device_that_was_not_named_is_made_of_its_first_run():
    """Its slots up to that run's are taken to be on that run's lane."""
    ground = Ground()
    device = ground.device_for(a_run("new", slot=2, lane=5))
    assert (device.slot_lanes, ground.device_for(a_run("new"))) == ((5, 5, 5), device)


def test_devices_are_bounded():
    """Beyond the limit a run is taken to be on the first."""
    ground = Ground([a_device("first")])
    for number in range(1_100):
        ground.device_for(a_run(f"d{number}"))
    assert len(ground.devices) == 1_024
    assert ground.device_for(a_run("one more")) is ground.devices["first"]


def test_without_a_device_no_work_is_expected():
    """A request is worth nothing where it cannot run."""
    assert Ground().work_ns(a_request(1)) == 0.0


def test_state_of_a_device_that_is_gone_is_ignored():
    """Another machine's lanes are not made up."""
    ground, other = Ground([a_device("a")]), Ground([a_device("b")])
    other.restore(ground.state())
    assert list(other.devices) == ["b"]
