"""`static-cap`: strict priority, and no more low batches at once than the limit says."""

from dataclasses import replace

import pytest

from headway.core import SlotClass
from headway.policy import static_cap
from headway.testing import MeanPredictor, a_device, a_kernel, a_model, dispatched

LOW = {"priority": 5, "slot_class": SlotClass.LOW}
HIGH = {"priority": 0}


def a_talk(lanes, **settings):
    """A kernel on one device."""
    policy = static_cap(MeanPredictor(), **settings)
    return a_kernel(policy, devices=[a_device(lanes=lanes)])


def slots_of(commands):
    """Slots of the batches that start."""
    return [command.slot for command in commands if hasattr(command, "slot")]


def test_low_work_beyond_the_limit_waits_for_a_low_batch_to_end():
    """With two at once the third waits, though two slots are free, and starts when one ends."""
    talk = a_talk((0, 0, 1, 1), low_max=2)
    assert [dispatched(talk.arrives(i, **LOW)) for i in (1, 2, 3)] == [[(1,)], [(2,)], []]
    assert dispatched(talk.finishes(1)) == [(3,)]
    talk.drain()


def test_high_work_is_never_held():
    """It takes every slot there is, past low work that waits."""
    talk = a_talk((0, 0, 1, 1), low_max=1)
    for request_id in (1, 2):
        talk.arrives(request_id, **LOW)
    started = [dispatched(talk.arrives(i, **HIGH)) for i in (3, 4, 5)]
    assert started == [[(3,)], [(4,)], [(5,)]]
    assert dispatched(talk.finishes(2)) == []
    assert dispatched(talk.finishes(1)) == [(2,)]
    talk.drain()


def test_without_a_number_a_lane_has_one_low_batch():
    """The second goes to the other lane, though two high batches run there, a third one waits."""
    talk = a_talk((0, 0, 0, 1, 1, 1))
    assert slots_of(talk.arrives(1, **LOW)) == [0]
    assert slots_of(talk.arrives(2, **HIGH)) == [3]
    assert slots_of(talk.arrives(5, **HIGH)) == [1]
    assert slots_of(talk.arrives(6, **HIGH)) == [4]
    assert slots_of(talk.arrives(3, **LOW)) == [5]
    assert dispatched(talk.arrives(4, **LOW)) == []
    talk.drain()


def test_limit_holds_for_slots_that_are_not_told_a_class():
    """What counts as low is the work, whether or not its slot is told."""
    policy = replace(static_cap(MeanPredictor(), low_max=1), class_slots=False)
    talk = a_kernel(policy, slots=2)
    commands = talk.arrives(1, **LOW)
    assert [c.slot_class for c in commands if hasattr(c, "slot_class")] == [SlotClass.HIGH]
    assert dispatched(talk.arrives(2, **LOW)) == []
    assert dispatched(talk.arrives(3, **HIGH)) == [(3,)]
    talk.drain()


@pytest.mark.parametrize("low_max", [1, 2, 3])
def test_limit_is_per_device(low_max):
    """Two devices run twice as many."""
    devices = [a_device(name, lanes=(0, 0, 0, 0)) for name in ("cpu:0", "cpu:1")]
    policy = static_cap(MeanPredictor(), low_max=low_max)
    talk = a_kernel(policy, devices=devices, models=[a_model(devices=("cpu:0", "cpu:1"))])
    started = [dispatched(talk.arrives(i, **LOW)) for i in range(1, 9)]
    assert sum(len(batches) for batches in started) == 2 * low_max
    talk.drain()
