"""Simulated executors: alone, and sharing a lane."""

from headway.core import SlotClass
from headway.sim import Finish, SharedLanes, SoloTimes
from headway.testing import a_device, a_dispatch

MS = 1_000_000
EQUAL = {SlotClass.HIGH: 1.0, SlotClass.LOW: 1.0}


def shared(weights=EQUAL, lanes=(0, 0), rows_ns=10 * MS):
    """A device whose batches take 10 ms a row."""
    return SharedLanes(lambda d: d.rows * rows_ns, [a_device(lanes=lanes)], weights)


def test_solo_batch_takes_its_own_time():
    """Neighbours do not matter to `SoloTimes`."""
    executor = SoloTimes(lambda d: d.rows * 5)
    assert list(executor.start(a_dispatch(1, 1, 2), 100)) == [Finish(1, 110)]
    assert list(executor.end(1, 110)) == []


def test_lone_batch_has_the_lane_for_itself():
    """Alone, a shared lane is as fast as a solo one."""
    assert shared().start(a_dispatch(1, 1), 0) == [Finish(1, 10 * MS)]


def test_equal_batches_share_equally_and_speed_up_when_one_ends():
    """Two on a lane take twice as long, and the last one regains what is left."""
    executor = shared()
    executor.start(a_dispatch(1, 1), 0)
    both = executor.start(a_dispatch(2, 2, 3, slot=1), 0)
    assert both == [Finish(1, 20 * MS), Finish(2, 40 * MS)]
    assert executor.end(1, 20 * MS) == [Finish(2, 30 * MS)]
    assert executor.end(2, 30 * MS) == []


def test_lanes_do_not_slow_each_other():
    """Only who shares a lane is a neighbour."""
    executor = shared(lanes=(0, 1))
    executor.start(a_dispatch(1, 1), 0)
    assert executor.start(a_dispatch(2, 2, slot=1), 0) == [Finish(2, 10 * MS)]


def test_high_class_takes_its_weight():
    """Nine to one: the high one hardly notices, the low one waits."""
    executor = shared({SlotClass.HIGH: 9.0, SlotClass.LOW: 1.0})
    executor.start(a_dispatch(1, 1, slot_class=SlotClass.LOW), 0)
    both = executor.start(a_dispatch(2, 2, 3, 4, 5, 6, 7, 8, 9, 10, slot=1), 0)
    assert both == [Finish(1, 100 * MS), Finish(2, 100 * MS)]


def test_finish_is_rounded_up():
    """A batch never ends before its work is done, not by a nanosecond."""
    executor = shared({SlotClass.HIGH: 2.0, SlotClass.LOW: 1.0}, rows_ns=7)
    executor.start(a_dispatch(1, 1), 0)
    both = executor.start(a_dispatch(2, 2, slot=1, slot_class=SlotClass.LOW), 0)
    assert both == [Finish(1, 11), Finish(2, 21)]
