"""Who goes first, and that what cannot run holds up nobody."""

from dataclasses import replace

from headway.core import (
    Hold,
    ModelName,
    RequestArrived,
    RequestCancelled,
    RequestId,
    SlotOption,
    Start,
)
from headway.policy import fifo
from headway.testing import (
    MeanPredictor,
    a_device,
    a_dispatch,
    a_kernel,
    a_model,
    a_request,
    dispatched,
    without_timers,
)

MS = 1_000_000


def test_lower_priority_number_is_served_first():
    """One direction, documented: 0 before 1 before 2, whatever the order of arrival."""
    talk = a_kernel("priority")
    talk.arrives(1)
    for request_id, priority in ((2, 2), (3, 0), (4, 1)):
        talk.arrives(request_id, priority=priority)
    order = [dispatched(talk.finishes(batch_id)) for batch_id in (1, 2, 3)]
    assert order == [[(3,)], [(4,)], [(2,)]]


def test_equal_priority_keeps_the_order_of_arrival():
    """Ties fall to whoever came first."""
    talk = a_kernel("priority")
    for request_id in (1, 2, 3):
        talk.arrives(request_id, priority=7)
    assert dispatched(talk.finishes(1)) == [(2,)]


def test_fifo_ignores_priority():
    """The baseline knows no classes."""
    talk = a_kernel("fifo")
    talk.arrives(1)
    talk.arrives(2, priority=9)
    talk.arrives(3, priority=0)
    assert dispatched(talk.finishes(1)) == [(2,)]


def test_edf_serves_the_nearest_deadline():
    """The deadline alone decides."""
    talk = a_kernel("edf")
    talk.arrives(1)
    talk.arrives(2, budget="900ms")
    talk.arrives(3, at="10ms", budget="100ms")
    assert dispatched(talk.finishes(1)) == [(3,)]


def test_low_priority_starves_under_strict_priority():
    """`priority` promises nothing to low classes: while high work waits they never run."""
    talk = a_kernel("priority")
    talk.arrives(1, priority=0)
    talk.arrives(2, priority=9, budget="50ms")
    for step in range(10):
        talk.arrives(3 + step, at=f"{step * 10}ms", priority=0)
        talk.finishes(1 + step)
        if talk.kernel.armed_at_ns <= talk.now_ns:
            talk.wakes(at=talk.now_ns)
    assert type(talk.outcomes[2]).__name__ == "Expire"


def test_high_priority_overtakes_in_another_bucket_of_the_same_model():
    """The head of each bucket counts, and a later, higher one changes it."""
    talk = a_kernel("priority", models=[a_model(batch_rows_max=2)])
    talk.arrives(1)
    talk.arrives(2, bucket="a", priority=5)
    talk.arrives(3, bucket="b", priority=3)
    talk.arrives(4, bucket="a", priority=1)
    assert dispatched(talk.finishes(1)) == [(4, 2)]
    assert dispatched(talk.finishes(2)) == [(3,)]


def test_what_cannot_run_is_skipped():
    """A head whose device is busy does not keep the other device idle (triton#8358)."""
    talk = a_kernel(
        devices=[a_device("cpu:0"), a_device("cpu:1")],
        models=[a_model("m"), a_model("n", devices=["cpu:1"])],
    )
    talk.arrives(1)
    talk.arrives(2)
    assert without_timers(talk.arrives(3, model="n")) == [
        a_dispatch(2, 3, model="n", replica_id=2, device="cpu:1")
    ]


def test_several_that_cannot_run_are_all_skipped():
    """The first in order that can run does, however many before it cannot."""
    talk = a_kernel(
        devices=[a_device("cpu:0"), a_device("cpu:1")],
        models=["m", "o", a_model("n", devices=["cpu:1"])],
    )
    talk.arrives(1)
    talk.arrives(2, model="n")
    talk.arrives(3)
    talk.arrives(4, model="o")
    talk.arrives(5, model="n")
    assert dispatched(talk.finishes(2)) == [(5,)]


def test_due_heap_does_not_grow_below_what_is_more_important():
    """Buckets that come and go leave nothing behind, also while their offers never surface."""
    talk = a_kernel("priority")
    talk.arrives(1)
    talk.arrives(2)
    for request_id in range(3, 503):
        talk.arrives(request_id, bucket=f"shape {request_id}", priority=9)
        talk.handle(RequestCancelled(request_id=RequestId(request_id)))
    assert len(talk.kernel.queues[ModelName("m")]._due) < 100
    assert dispatched(talk.finishes(1)) == [(2,)]


def test_buckets_that_cannot_run_are_not_looked_at():
    """One model's many shapes, waiting for a busy device, cost another model nothing."""
    compared = []

    class Key(int):
        __hash__ = int.__hash__

        def __eq__(self, other):
            compared.append(other)
            return int(self) == int(other)

    class ByArrival:
        def key(self, request):
            return (Key(request.arrived_at_ns),)

    policy = replace(fifo(MeanPredictor()), ordering=ByArrival())
    devices = [a_device("cpu:0"), a_device("cpu:1")]
    talk = a_kernel(policy, devices=devices, models=["m", a_model("n", devices=["cpu:1"])])
    for request_id in range(1, 400):
        talk.arrives(request_id, bucket=f"shape {request_id}")
    compared.clear()
    arrival = RequestArrived(request=a_request(999, model="n"))
    assert dispatched(talk.kernel.handle(arrival, talk.now_ns)) == [(999,)]
    assert len(compared) < 60  # its place in the line is found by bisection


def test_policy_may_hold_work_back():
    """A placement that holds keeps the slot free until something changes."""

    class OnlyLaneOne:
        def place(self, bucket, model, options: list[SlotOption], fleet, now_ns):
            return next((Start(o) for o in options if o.lane == 1), Hold())

    policy = replace(fifo(MeanPredictor()), placement=OnlyLaneOne())
    talk = a_kernel(policy, devices=[a_device(lanes=[0, 1])])
    assert without_timers(talk.arrives(1)) == [a_dispatch(1, 1, slot=1)]
    assert without_timers(talk.arrives(2)) == []
    assert without_timers(talk.finishes(1))[1:] == [a_dispatch(2, 2, slot=1)]
