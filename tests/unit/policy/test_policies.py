"""What each named policy is made of, and the decisions of its parts."""

import pytest

from headway.core import UNKNOWN, LoadView, SlotOption, Start
from headway.policy import (
    AdmitAll,
    ArrivalOrder,
    EarliestDeadline,
    EmptiestLane,
    Linger,
    PriorityOrder,
    edf,
    fifo,
    priority,
)
from headway.predict import Profile
from headway.testing import MeanPredictor, a_model, a_request

MS = 1_000_000


class ABucket:
    """A bucket's three numbers."""

    def __init__(self, rows=1, oldest=0, tightest=1_000):
        self.rows = rows
        self.oldest_arrived_at_ns = oldest * MS
        self.tightest_deadline_at_ns = tightest * MS


def an_option(slot, lane_running):
    """A free slot on a lane of its own."""
    return SlotOption(1, "cpu:0", slot, slot, lane_running)


@pytest.mark.parametrize(
    ("make", "name", "ordering", "class_slots"),
    [
        (fifo, "fifo", ArrivalOrder, False),
        (priority, "priority", PriorityOrder, True),
        (edf, "edf", EarliestDeadline, True),
    ],
)
def test_policy_is_five_decisions_and_a_name(make, name, ordering, class_slots):
    """Each policy differs from the others by its ordering and by what slots are told."""
    predictor = MeanPredictor()
    policy = make(predictor)
    assert (policy.name, policy.class_slots) == (name, class_slots)
    assert type(policy.ordering) is ordering
    assert policy.predictor is predictor


def test_admit_all_never_refuses():
    """Beyond the kernel's limits everybody is welcome."""
    assert AdmitAll().refuse(a_request(), UNKNOWN, LoadView(10**6, 10**6, 1, 0), 0) is None


def test_keys_hold_what_the_policy_looks_at():
    """The kernel adds the order of arrival to each."""
    request = a_request(at="1ms", budget="2ms", priority=4)
    assert ArrivalOrder().key(request) == ()
    assert PriorityOrder().key(request) == (4,)
    assert EarliestDeadline().key(request) == (3 * MS,)


def test_emptiest_lane_is_taken():
    """The lane that runs least is the fastest now."""
    options = [an_option(0, 2), an_option(1, 0), an_option(2, 1)]
    assert EmptiestLane().place(ABucket(), a_model(), options, None, 0) == Start(options[1])


def test_first_of_equal_lanes_is_taken():
    """Ties fall to the order of replicas and slots."""
    options = [an_option(0, 1), an_option(1, 1)]
    assert EmptiestLane().place(ABucket(), a_model(), options, None, 0) == Start(options[0])


@pytest.mark.parametrize(
    ("bucket", "what", "due_ms"),
    [
        (ABucket(), {}, 0),
        (ABucket(oldest=3), {"linger": "5ms"}, 8),
        (ABucket(oldest=3, tightest=10), {"linger": "5ms"}, 6),
        (ABucket(rows=4), {"linger": "5ms"}, 0),
        (ABucket(), {"linger": "5ms", "can_batch": False}, 0),
    ],
    ids=["no linger", "linger", "latest safe start", "full", "no batch axis"],
)
def test_linger_is_over_when_company_is_no_longer_worth_it(bucket, what, due_ms):
    """Due at once when it cannot grow, else after the linger or at the latest safe start."""
    linger = Linger(MeanPredictor({"m": Profile({4: 4 * MS})}))
    model = a_model(batch_rows_max=4, **what)
    assert linger.due_at_ns(bucket, model, 0) == due_ms * MS


def test_rows_are_bounded_by_the_model():
    """As many as it takes, and a single request where it has no batch axis."""
    linger = Linger(MeanPredictor())
    assert linger.rows_max(ABucket(), a_model(batch_rows_max=8)) == 8
    assert linger.rows_max(ABucket(), a_model(batch_rows_max=8, can_batch=False)) == 1
