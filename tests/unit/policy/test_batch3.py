"""`batch3`: at once, after a linger, only on an idle device."""

from headway.core import SlotClass
from headway.policy import batch3
from headway.testing import MeanPredictor, a_kernel, a_model, dispatched

LOW = {"priority": 5, "slot_class": SlotClass.LOW}
MODEL = a_model(batch_rows_max=4, linger="5ms")


def a_talk(slots=2, **settings):
    """A kernel with a model that lingers, and a plain one."""
    policy = batch3(MeanPredictor(), **settings)
    return a_kernel(policy, slots=slots, models=[MODEL, "plain"])


def test_high_work_starts_at_once():
    """It does not linger for company."""
    talk = a_talk()
    assert dispatched(talk.arrives(1, priority=0)) == [(1,)]
    talk.drain()


def test_normal_work_lingers():
    """Two that arrive within the model's linger are one batch when it is over."""
    talk = a_talk()
    assert dispatched(talk.arrives(1, priority=1)) == []
    assert dispatched(talk.arrives(2, priority=1, at="2ms")) == []
    assert dispatched(talk.wakes(at="5ms")) == [(1, 2)]
    talk.drain()


def test_high_batch_takes_no_rows_of_other_tiers():
    """What lingers in the same bucket would make it longer; it lingers on."""
    talk = a_talk()
    talk.arrives(1, priority=1)
    assert dispatched(talk.arrives(2, priority=0, at="1ms")) == [(2,)]
    assert dispatched(talk.wakes(at="5ms")) == [(1,)]
    talk.drain()


def test_high_work_that_waits_together_is_one_batch():
    """Rows are taken as they are: all of the tier that wait when a slot frees."""
    talk = a_talk(slots=1)
    talk.arrives(1, priority=0)
    for request_id, priority in ((2, 0), (3, 0), (4, 1)):
        talk.arrives(request_id, priority=priority)
    assert dispatched(talk.finishes(1)) == [(2, 3)]
    talk.drain()


def test_low_work_waits_for_an_idle_device():
    """Not beside others, not beside its like; others may start beside it."""
    talk = a_talk(slots=3)
    talk.arrives(1, model="plain", priority=1)
    assert dispatched(talk.arrives(2, model="plain", **LOW)) == []
    assert dispatched(talk.finishes(1)) == [(2,)]
    assert dispatched(talk.arrives(3, model="plain", **LOW)) == []
    assert dispatched(talk.arrives(4, model="plain", priority=1)) == [(4,)]
    talk.drain()


def test_tiers_are_where_they_are_configured():
    """With `high_max: 1` and `low_min: 2` there is nothing between."""
    talk = a_talk(high_max=1, low_min=2)
    assert dispatched(talk.arrives(1, priority=1)) == [(1,)]
    assert dispatched(talk.arrives(2, priority=2)) == []
    assert dispatched(talk.finishes(1)) == [(2,)]
    talk.drain()
