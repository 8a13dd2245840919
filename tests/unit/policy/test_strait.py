"""`strait`: slack order in two classes; low work without harm; the starved promoted."""

import pytest

from headway.core import Forecast, SlotClass
from headway.policy import ClassThenSlack, HalfOfBudget, HighBacklog, strait
from headway.predict import Profile
from headway.testing import MeanPredictor, a_device, a_kernel, a_model, a_request, dispatched

MS = 1_000_000
LOW = {"priority": 5, "slot_class": SlotClass.LOW}
HIGH = {"priority": 0}


class Slowing(MeanPredictor):
    """Each batch takes as much longer as others run beside it; knows what runs by its ends."""

    def __init__(self):
        super().__init__({"m": Profile({1: 10 * MS}), "n": Profile({1: 30 * MS})})
        self.begun = {}

    def beside(self, candidate, device, now_ns):
        (own,) = super().beside(candidate, device, now_ns)
        others = [
            Forecast(batch_id=batch_id, mean_ns=left_ns, bound_ns=left_ns)
            for batch_id, (run, at_ns) in self.begun.items()
            if run.device == device
            for left_ns in [2 * (at_ns + self.service_ns(run.model, 1) - now_ns)]
        ]
        mean_ns = own.mean_ns * (1 + len(others))
        return (Forecast(mean_ns=mean_ns, bound_ns=mean_ns), *others)

    def started(self, run, queue, now_ns):
        self.begun[run.batch_id] = (run, now_ns)
        return super().started(run, queue, now_ns)

    def finished(self, batch_id, stages, now_ns):
        del self.begun[batch_id]
        super().finished(batch_id, stages, now_ns)


def a_talk(lanes=(0, 0)):
    """Models of 10 and 30 ms on one device."""
    return a_kernel(strait(Slowing()), devices=[a_device(lanes=lanes)], models=["m", "n"])


def test_order_is_by_class_then_slack():
    """Priorities inside a class do not count."""
    key = ClassThenSlack(Slowing()).key
    order = [
        a_request(1, model="n", budget="60ms", priority=3),
        a_request(2, model="m", budget="50ms", priority=0),
        a_request(3, model="m", budget="20ms", **LOW),
    ]
    assert sorted(order, key=key) == order


@pytest.mark.parametrize(("budget", "starts"), [("21ms", True), ("19ms", False)])
def test_low_work_starts_where_high_work_stays_in_time(budget, starts):
    """Beside a low batch the high one needs 20 ms: with 21 left the low one starts, else waits."""
    talk = a_talk()
    talk.arrives(1, budget=budget, **HIGH)
    assert dispatched(talk.arrives(2, model="n", **LOW)) == ([(2,)] if starts else [])
    if not starts:
        assert dispatched(talk.finishes(1, at="10ms")) == [(2,)]
    talk.drain()


def test_low_work_that_would_itself_be_late_waits():
    """Beside another it needs 60 ms of its 50, alone 30."""
    talk = a_talk()
    talk.arrives(1, **HIGH)
    assert dispatched(talk.arrives(2, model="n", budget="50ms", **LOW)) == []
    assert dispatched(talk.finishes(1, at="10ms")) == [(2,)]
    talk.drain()


def test_high_work_starts_whatever_it_breaks():
    """It is not asked."""
    talk = a_talk()
    talk.arrives(1, budget="11ms", **HIGH)
    assert dispatched(talk.arrives(2, budget="11ms", **HIGH)) == [(2,)]
    talk.drain()


def test_batch_that_is_late_already_has_no_say():
    """Nothing is saved by waiting for it."""
    talk = a_talk()
    talk.arrives(1, budget="5ms", **HIGH)
    talk.wakes(at="5ms")
    assert dispatched(talk.arrives(2, at="6ms", model="n", **LOW)) == [(2,)]
    talk.drain()


def test_starved_work_is_promoted_after_half_of_its_budget():
    """Held beside a high batch that it would make late, it starts there at half of its budget."""
    talk = a_talk()
    talk.arrives(1, budget="1s", model="n", **HIGH)
    talk.arrives(2, budget="50ms", model="n", **LOW)
    assert dispatched(talk.wakes(at="25ms")) == [(2,)]
    talk.drain()


def test_promoted_key_is_one_of_the_high_class():
    """High work is never promoted; low work then has its place by slack among the high."""
    aging = HalfOfBudget(ClassThenSlack(Slowing()))
    assert aging.promotes_at_ns(a_request(**HIGH)) is None
    low = a_request(at="10ms", budget="60ms", **LOW)
    assert aging.promotes_at_ns(low) == 40 * MS
    assert aging.promoted_key(low) == (0, 60 * MS)


def test_backlog_is_the_high_work_that_waits():
    """Admitted it counts, started or ended it does not; low work never does."""
    backlog = HighBacklog(Slowing())
    first, second = a_request(1, **HIGH), a_request(2, model="n", **HIGH)
    for request in (first, second, a_request(3, **LOW)):
        backlog.admitted(request, 0)
    assert backlog.total_ns == 40 * MS
    backlog.started(first, 1, 0)
    backlog.ran(first, 5, 0)
    backlog.ended(first, True, 0)
    assert backlog.total_ns == 30 * MS
    backlog.ended(second, False, 0)
    assert backlog.total_ns == 0


def test_high_work_that_waits_counts_against_low_work():
    """A free device is no use to low work whose time the waiting high work will take."""
    devices = [a_device("cpu:0", lanes=(0,)), a_device("cpu:1", lanes=(0,))]
    models = [a_model("m", devices=("cpu:0",)), a_model("n", devices=("cpu:1",))]
    talk = a_kernel(strait(Slowing()), devices=devices, models=models)
    for request_id in range(1, 6):
        talk.arrives(request_id, **HIGH)
    assert dispatched(talk.arrives(6, model="n", budget="49ms", **LOW)) == []
    assert dispatched(talk.arrives(7, model="n", bucket="b", budget="51ms", **LOW)) == [(7,)]
    talk.drain()
