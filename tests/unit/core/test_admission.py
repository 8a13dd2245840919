"""What is refused at the door, why, and when another try makes sense."""

from dataclasses import replace

import pytest
from tests.scripted_policy import Scripted

from headway.core import (
    UNKNOWN,
    DrainStarted,
    Forecast,
    LoadView,
    Refusal,
    Reject,
    RejectReason,
    RequestArrived,
)
from headway.policy import fifo, priority
from headway.predict import Profile
from headway.testing import MeanPredictor, a_dispatch, a_kernel, a_model, a_request, without_timers

MS = 1_000_000
RETRY_MIN_NS = 10 * MS


def a_reject(request_id, reason, retry_after_ns=RETRY_MIN_NS):
    """The refusal of a request."""
    return Reject(request_id=request_id, reason=reason, retry_after_ns=retry_after_ns)


def test_unknown_model_is_refused():
    """Nobody waits for a model that is not there."""
    talk = a_kernel(models=["m"])
    commands = talk.arrives(1, model="other")
    assert commands == [a_reject(1, RejectReason.MODEL_NOT_FOUND, 0)]


def test_unknown_version_is_refused():
    """A version that no replica has or will have is as good as no model."""
    talk = a_kernel()
    assert talk.arrives(1, version="9") == [a_reject(1, RejectReason.MODEL_NOT_FOUND)]


@pytest.mark.parametrize("budget_ns", [0, -5])
def test_deadline_past_at_arrival_is_refused(budget_ns):
    """A budget that is used up before arrival is never queued, even beside a free slot."""
    talk = a_kernel()
    assert talk.arrives(1, budget=budget_ns) == [a_reject(1, RejectReason.DEADLINE_PAST)]


def test_too_many_rows_are_refused():
    """A request that fits into no batch is refused at once instead of waiting for ever."""
    talk = a_kernel(models=[a_model(batch_rows_max=4)])
    assert talk.arrives(1, rows=5) == [a_reject(1, RejectReason.TOO_MANY_ROWS)]


def test_rows_are_not_counted_without_a_batch_axis():
    """Where one request is one batch its rows are its own affair."""
    talk = a_kernel(models=[a_model(can_batch=False)])
    assert without_timers(talk.arrives(1, rows=9)) == [a_dispatch(1, 1, rows=9)]


def test_queue_is_bounded_by_count_per_model():
    """A model's own limit refuses its requests and nobody else's."""
    talk = a_kernel(models=[a_model("m", queue_requests_max=1), a_model("n")])
    talk.arrives(1)
    talk.arrives(2)
    assert talk.arrives(3) == [a_reject(3, RejectReason.MODEL_QUEUE_FULL)]
    talk.arrives(4, model="n")
    assert talk.kernel.room.count == 2


def test_queue_is_bounded_by_bytes_per_model():
    """Bytes count as well as requests, and what waits is what counts."""
    talk = a_kernel(models=[a_model(queue_size_max=100)])
    talk.arrives(1, payload=100)
    talk.arrives(2, payload=60)
    assert talk.arrives(3, payload=41) == [a_reject(3, RejectReason.MODEL_BYTES_FULL)]
    assert without_timers(talk.arrives(4, payload=40)) == []


def test_server_is_bounded_by_count():
    """All models together hold no more than the server may."""
    talk = a_kernel(models=["m", "n"], requests_max=1)
    talk.arrives(1)
    talk.arrives(2, model="n")
    assert talk.arrives(3) == [a_reject(3, RejectReason.SERVER_QUEUE_FULL)]


def test_server_is_bounded_by_bytes():
    """All models together hold no more bytes than the server may."""
    talk = a_kernel(models=["m", "n"], bytes_max=100)
    talk.arrives(1, payload=100)
    talk.arrives(2, model="n", payload=60)
    assert talk.arrives(3, payload=41) == [a_reject(3, RejectReason.SERVER_BYTES_FULL)]


def test_room_returns_when_requests_leave():
    """A limit counts what waits now: an end of any kind makes room."""
    talk = a_kernel(models=[a_model(queue_requests_max=1)])
    talk.arrives(1)
    talk.arrives(2)
    talk.arrives(3)
    talk.finishes(1)
    assert without_timers(talk.arrives(4)) == []


def test_retry_time_is_the_predicted_wait():
    """Who is refused is told how long the work that waits will take on all slots, rounded up."""
    predictor = MeanPredictor({"m": Profile({4: 100 * MS})})
    model = a_model(batch_rows_max=4, queue_requests_max=6)
    talk = a_kernel(slots=2, models=[model], predictor=predictor)
    for request_id in range(1, 9):
        talk.arrives(request_id)
    assert talk.kernel.room.count == 6
    assert talk.arrives(9) == [a_reject(9, RejectReason.MODEL_QUEUE_FULL, 75 * MS)]


def test_retry_time_without_a_batch_axis_counts_each_request():
    """Where one request is one batch the wait is a batch a request."""
    predictor = MeanPredictor({"m": Profile({1: 100 * MS})})
    model = a_model(batch_rows_max=4, can_batch=False, queue_requests_max=2)
    talk = a_kernel(models=[model], predictor=predictor)
    for request_id in (1, 2, 3):
        talk.arrives(request_id)
    assert talk.arrives(4) == [a_reject(4, RejectReason.MODEL_QUEUE_FULL, 200 * MS)]


def test_retry_time_is_bounded_above():
    """However long the queue, nobody is told to stay away for ever."""
    predictor = MeanPredictor({"m": Profile({1: 10_000 * MS})})
    model = a_model(queue_requests_max=1)
    talk = a_kernel(models=[model], predictor=predictor, retry_after_ns_max=2_000 * MS)
    talk.arrives(1)
    talk.arrives(2)
    assert talk.arrives(3) == [a_reject(3, RejectReason.MODEL_QUEUE_FULL, 2_000 * MS)]


def test_policy_may_refuse():
    """A policy's no comes after the hard limits and carries its own retry time."""

    class Closed:
        def refuse(self, request, foreseen, load, now_ns):
            assert load == LoadView(0, 0, 1, 1)
            return Refusal(70 * MS)

    policy = replace(fifo(MeanPredictor()), admission=Closed())
    talk = a_kernel(policy)
    assert talk.arrives(1) == [a_reject(1, RejectReason.PREDICTED_LATE, 70 * MS)]


def test_policy_is_asked_after_the_limits():
    """Of what would not be let in anyway it hears nothing; nor does the predictor."""
    script, offered = Scripted(), []
    policy = script.policy()
    policy.predictor.admitted = lambda request, queue, now_ns: (
        offered.append(request.request_id) or UNKNOWN
    )
    script.refuse = lambda request, foreseen, load, now_ns: Refusal(50 * MS)
    talk = a_kernel(policy)
    assert talk.arrives(1, rows=2) == [a_reject(1, RejectReason.TOO_MANY_ROWS)]
    assert talk.arrives(2) == [a_reject(2, RejectReason.PREDICTED_LATE, 50 * MS)]
    assert offered == [2]


def test_policy_is_shown_what_is_foreseen():
    """It need not ask the predictor again."""
    foreseen = Forecast(mean_ns=3 * MS, bound_ns=4 * MS, base_ns=3 * MS)
    script = Scripted()
    policy = script.policy()
    policy.predictor.foresee = lambda request, queue, now_ns: foreseen
    script.refuse = lambda request, seen, load, now_ns: Refusal(seen.bound_ns * 10)
    talk = a_kernel(policy)
    estimate = talk.kernel.estimate(a_request(1), 0)
    assert talk.arrives(1) == [a_reject(1, estimate.reason, estimate.retry_after_ns)]
    assert estimate == (RejectReason.PREDICTED_LATE, 40 * MS, foreseen)


def test_policy_that_refuses_displaces_nobody():
    """Whoever would have made place stays."""
    script = Scripted(refused=[3])
    talk = a_kernel(script.policy(priority), models=[a_model(queue_requests_max=1)])
    talk.arrives(1)
    talk.arrives(2, priority=9)
    assert talk.arrives(3, priority=0) == [a_reject(3, RejectReason.PREDICTED_LATE, 50 * MS)]
    assert talk.arrives(4, priority=0)[0] == a_reject(2, RejectReason.DISPLACED)


@pytest.mark.parametrize(("asked_ns", "said_ns"), [(0, 10 * MS), (1 << 50, 30_000 * MS)])
def test_retry_time_of_a_policy_is_bounded(asked_ns, said_ns):
    """The configured range holds for it as for the limits."""
    script = Scripted()
    script.refuse = lambda request, foreseen, load, now_ns: Refusal(asked_ns)
    talk = a_kernel(script.policy())
    assert talk.arrives(1) == [a_reject(1, RejectReason.PREDICTED_LATE, said_ns)]


def test_draining_refuses_new_work_and_finishes_the_rest():
    """A server that goes away ends what it has admitted, the waiting included."""
    talk = a_kernel()
    talk.arrives(1)
    talk.arrives(2)
    assert talk.handle(DrainStarted()) == []
    assert talk.arrives(3) == [a_reject(3, RejectReason.DRAINING)]
    talk.finishes(1)
    talk.finishes(2)
    assert [type(o).__name__ for o in talk.outcomes.values()] == ["Reject", "Complete", "Complete"]


def test_request_id_used_again_raises_and_changes_nothing():
    """Two live requests of one id are a driver's bug: nothing of the second stays."""
    talk = a_kernel()
    talk.arrives(1)
    with pytest.raises(AssertionError, match="never used again"):
        talk.kernel.handle(RequestArrived(request=a_request(1)), 0)
    assert (talk.kernel.ledger.arrived_count, len(talk.kernel.ledger.live)) == (1, 1)


def test_time_that_goes_back_raises_and_changes_nothing():
    """A driver whose clock runs backwards is stopped before it does harm."""
    talk = a_kernel()
    talk.arrives(1, at="10ms")
    with pytest.raises(AssertionError, match="time went back"):
        talk.kernel.handle(RequestArrived(request=a_request(2)), 9 * MS)
    assert (talk.kernel.now_ns, talk.kernel.ledger.arrived_count) == (10 * MS, 1)
