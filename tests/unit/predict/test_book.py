"""Who runs where, how far it has got, and beside whom."""

import pytest

from headway.core import Run, SlotClass
from headway.predict.book import Device, Running
from headway.predict.speeds import Speeds

MS = 1_000_000


def a_running(batch_id, lane=0, base_ms=10.0, model="m"):
    run = Run(
        batch_id=batch_id,
        model=model,
        bucket="",
        rows=1,
        payload_bytes=0,
        device="d",
        slot=0,
        lane=lane,
        slot_class=SlotClass.HIGH,
        priority=1,
    )
    return Running(run, lane, 1.0, base_ms * MS)


def a_device(slot_lanes=(0, 1, 0, 1)):
    return Device("d", slot_lanes, Speeds(len(set(slot_lanes))))


def test_progress_is_by_share_of_the_lane():
    """Alone for 4 ms, then in company for 4: 6 of 10 done."""
    device = a_device()
    first = a_running(1)
    device.start(first, 0)
    device.start(a_running(2), 4 * MS)
    assert device.left_ns(first, 8 * MS) == pytest.approx(4 * MS)


def test_something_is_left_as_long_as_it_runs():
    """What should have ended long ago has a little left, not nothing."""
    device = a_device()
    first = a_running(1)
    device.start(first, 0)
    assert 0 < device.left_ns(first, 500 * MS) < MS


def test_an_end_tells_the_slowdown_and_the_company():
    """4 of 12 ms with a lane mate, all of them beside another lane."""
    device = a_device()
    device.start(a_running(9, lane=1, model="other"), 0)
    device.start(a_running(1), 0)
    device.start(a_running(2, model="mate"), 8 * MS)
    stay = device.end(1, 12 * MS)
    assert stay.slowdown == pytest.approx(12 / 10)
    company = {overlap.run.model: overlap.ratio for overlap in stay.overlaps}
    assert company == {"other": 1.0, "mate": pytest.approx(1 / 3)}
    assert stay.cells == {(0, 1): pytest.approx(0.8), (1, 1): pytest.approx(0.2)}


def test_company_that_has_left_is_remembered():
    """A neighbour that came and went counts by how long it stayed."""
    device = a_device()
    device.start(a_running(1), 0)
    device.start(a_running(2, model="guest"), 2 * MS)
    device.end(2, 4 * MS)
    stay = device.end(1, 10 * MS)
    assert [(o.run.model, o.ratio) for o in stay.overlaps] == [("guest", pytest.approx(0.2))]


def test_unknown_batches_and_lanes_are_taken_calmly():
    """An end that never began is none; a lane that is not there is the first."""
    device = a_device()
    assert device.end(7, 5) is None
    assert device.drop(7, 5) is None
    assert device.lane_index(99) == 0


def test_a_device_forgets():
    """However many batches pass by, what is remembered of them is bounded."""
    device = a_device()
    device.start(a_running(0), 0)
    for batch_id in range(1, 1000):
        device.start(a_running(batch_id), batch_id * MS)
        device.end(batch_id, batch_id * MS + MS)
    assert len(device.end(0, 2000 * MS).overlaps) <= 128


def test_a_crowd_is_the_work_that_is_left_a_lane():
    """Two of 10 ms on two lanes: 10 a lane at first, 4 when six are done."""
    device = a_device()
    device.start(a_running(1), 0)
    device.start(a_running(2, lane=1), 0)
    assert device.crowd(0) == pytest.approx(10 * MS)
    assert device.crowd(6 * MS) == pytest.approx(4 * MS)
    device.drop(2, 8 * MS)
    assert device.crowd() == pytest.approx(1 * MS)
