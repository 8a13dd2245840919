"""`lane-edf`: one high and one low batch a lane, nearest deadline first, the hopeless given up."""

import pytest

from headway.core import Dispatch, Expire, ExpireReason, SlotClass
from headway.policy import ClassThenDeadline, lane_edf
from headway.predict import Profile
from headway.testing import MeanPredictor, a_device, a_kernel, a_request, dispatched

MS = 1_000_000
LOW = {"priority": 5, "slot_class": SlotClass.LOW}
HIGH = {"priority": 0}


def a_talk(lanes, alone_ms=10, *, shares_all=False):
    """A kernel on one device, and how long model `m` takes alone."""
    policy = lane_edf(MeanPredictor({"m": Profile({1: alone_ms * MS})}))
    return a_kernel(
        policy, devices=[a_device(lanes=lanes, shares_all=shares_all)], models=["m", "other"]
    )


def slots_of(commands):
    """Slots of the batches that start."""
    return [command.slot for command in commands if isinstance(command, Dispatch)]


def test_lane_runs_one_of_each_class():
    """Two of each class fill two lanes; a third of either waits, whatever slots are free."""
    talk = a_talk((0, 0, 0, 1, 1, 1))
    assert slots_of(talk.arrives(1, **HIGH)) == [0]
    assert slots_of(talk.arrives(2, **HIGH)) == [3]
    assert slots_of(talk.arrives(3, **LOW)) == [1]
    assert slots_of(talk.arrives(4, **LOW)) == [4]
    assert slots_of(talk.arrives(5, **HIGH)) == []
    assert slots_of(talk.arrives(6, model="other", **LOW)) == []
    assert slots_of(talk.finishes(3)) == [1]
    assert slots_of(talk.finishes(2)) == [3]
    talk.drain()


def test_empty_lane_is_preferred():
    """A high batch goes where nothing runs before it goes beside a low one."""
    talk = a_talk((0, 0, 1, 1))
    assert slots_of(talk.arrives(1, **LOW)) == [0]
    assert slots_of(talk.arrives(2, **HIGH)) == [2]
    assert slots_of(talk.arrives(3, **HIGH)) == [1]
    talk.drain()


def test_class_comes_before_the_deadline():
    """High by deadline, then low by deadline; priorities inside a class do not count."""
    key = ClassThenDeadline().key
    order = [
        a_request(1, budget="20ms", priority=3),
        a_request(2, budget="30ms", priority=0),
        a_request(3, budget="10ms", **LOW),
    ]
    assert sorted(order, key=key) == order


def test_what_cannot_make_it_alone_is_given_up_before_it_starts():
    """10 ms alone: with 9 left it is expired as predicted late, and the next one starts."""
    talk = a_talk((0,))
    talk.arrives(1, budget="1s")
    talk.arrives(2, budget="24ms")
    talk.arrives(3, budget="31ms")
    commands = talk.finishes(1, at="15ms")
    assert dispatched(commands) == [(3,)]
    (expired,) = [command for command in commands if isinstance(command, Expire)]
    assert (expired.request_id, expired.reason) == (2, ExpireReason.PREDICTED_LATE)
    talk.drain()


def test_estimate_that_is_too_long_is_put_to_the_test():
    """Where nothing is ever started nothing can be learnt, so one in seventeen is."""
    talk = a_talk((0,), alone_ms=50)
    starts = [dispatched(talk.arrives(i, budget="40ms")) for i in range(1, 18)]
    assert starts == [[]] * 16 + [[(17,)]]
    talk.drain()


@pytest.mark.parametrize(("slots", "low_max"), [(1, 1), (2, 1), (3, 2), (4, 2)])
def test_slots_that_share_all_of_a_device_are_half_for_low_work(slots, low_max):
    """Low work has at most half of them, rounded up; high work has any that is free."""
    talk = a_talk(tuple(range(slots)), shares_all=True)
    started = [dispatched(talk.arrives(i, **LOW)) for i in range(slots)]
    assert sum(len(batches) for batches in started) == low_max
    started = [dispatched(talk.arrives(i, **HIGH)) for i in range(slots, 2 * slots)]
    assert sum(len(batches) for batches in started) == slots - low_max
    talk.drain()


def test_slots_that_are_cores_are_for_anyone():
    """One slot a core: nothing shares anything, so any of them may have low work."""
    talk = a_talk((0, 1))
    assert [slots_of(talk.arrives(i, **LOW)) for i in (1, 2)] == [[0], [1]]
    talk.drain()
