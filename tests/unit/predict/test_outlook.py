"""What waits, as batches, and the way through a queue."""

import pytest

from headway.core import ModelParams
from headway.predict.lanes import MATES_MAX, OTHERS_MAX, Load, Pot, Rolling
from headway.predict.outlook import Piece, backlog_of, roll_queue
from headway.testing import a_request

PLAIN = [[0.0] + [1.0] * MATES_MAX] * (OTHERS_MAX + 1)
NOTHING = Pot(1.0, 0.0, 1.0, 0.0)


class Queue:
    """Requests of models `a` and `b`, of which `b` cannot batch and is on two devices."""

    def __init__(self, *waiting, count=None):
        self.waiting = waiting
        self.count = len(waiting) if count is None else count

    def requests(self):
        return iter(self.waiting)

    def params(self, model):
        if model == "a":
            return ModelParams(name="a", devices=("d",), batch_rows_max=4)
        if model == "b":
            return ModelParams(name="b", devices=("d", "e"), can_batch=False)
        return None


def work_of(model, bucket, rows, payload_bytes):
    return 10.0 * rows


def requests(*models, rows=1):
    return [a_request(index, model=model, rows=rows) for index, model in enumerate(models)]


def test_requests_that_can_share_a_batch_do():
    """Five of four rows at most: a batch of four and one of one, where the first stood."""
    backlog = backlog_of(Queue(*requests("a", "b", "a", "a", "a", "a")), "d", work_of)
    assert [piece.work_ns for piece in backlog.pieces] == [40.0, 5.0, 10.0]


def test_what_runs_elsewhere_or_is_gone_does_not_wait_here():
    """Only what may come to this device counts, by how many devices it has."""
    queue = Queue(*requests("a", "b", "gone"))
    assert [p.work_ns for p in backlog_of(queue, "e", work_of).pieces] == [5.0]


def test_a_request_behind_the_queue_joins_its_kind():
    """It goes when the batch goes that has room for it, and what is behind that is not before."""
    queue = Queue(*requests("b", "a", "b"))
    backlog = backlog_of(queue, "d", work_of, a_request(9, model="a", rows=3))
    assert [piece.work_ns for piece in backlog.pieces] == [5.0]
    assert backlog.last == Piece(a_request(9).slot_class, 40.0)


def test_a_long_queue_is_counted_not_read():
    """Beyond the first few, a request brings what those bring on average, on this device."""
    backlog = backlog_of(Queue(*requests(*["b"] * 8), count=500), "d", work_of)
    assert (len(backlog.pieces), backlog.beyond_ns) == (8, 492 * 5.0)


def test_beyond_what_is_looked_at_requests_share_batches_too():
    """Eight looked at are two batches of four, of which rows are free: 20 a batch, 5 a request."""
    queue = Queue(*requests(*["a"] * 8), count=500)
    backlog = backlog_of(queue, "d", lambda model, bucket, rows, payload_bytes: 20.0)
    assert (len(backlog.pieces), backlog.beyond_ns) == (2, 492 * 5.0)
    behind = backlog_of(queue, "d", lambda *_: 20.0, a_request(9, model="a"))
    assert behind.beyond_ns == 492 * 5.0


def through(loads, slots, queue, ahead=NOTHING, *behind):
    rolling = Rolling(slots, [ahead, *behind], PLAIN)
    for load in loads:
        rolling.join(load.lane, load)
    return roll_queue(rolling, [Load(0, 1.0, work) for work in queue])


def test_a_free_slot_is_taken_at_once():
    """Nothing waits: it starts now and runs alone."""
    assert through([], [1], [5.0]) == (0.0, 5.0)


def test_behind_what_runs_and_what_waits():
    """One slot: 3 left of what runs, 4 that wait, then 5."""
    assert through([Load(0, 1.0, 3.0)], [1], [4.0, 5.0]) == (7.0, 5.0)


def test_lanes_are_shared_on_the_way():
    """Two slots on one lane: the first to end at 4 lets it in, beside what then has 6 left."""
    result = through([Load(0, 1.0, 2.0), Load(0, 1.0, 8.0)], [2], [5.0])
    assert result == (pytest.approx(4.0), pytest.approx(10.0))


def test_what_goes_ahead_is_waited_for():
    """Work of 6 that has precedence takes the only slot first."""
    result = through([], [1], [5.0], Pot(1.0, 6.0, 1.0, 0.0))
    assert result.start_ns == pytest.approx(6.0, rel=0.15)


def test_later_arrivals_slow_what_has_started():
    """With a steady stream behind it a batch on a lane of two slots takes up to twice as long."""
    result = through([], [2], [50.0], NOTHING, Pot(1.0, 0.0, 5.0, 0.9))
    assert 60.0 < result.run_ns <= 100.0


@pytest.mark.parametrize("slots", [[1], [2], [2, 2], [1, 1, 1, 1], [4, 4]])
@pytest.mark.parametrize("work_rate", [0.5, 0.9, 1.0, 2.5, 64.0])
def test_an_overload_of_precedence_is_not_for_ever(slots, work_rate):
    """At most ten times the wait without it, and some pieces; more before it is never less."""
    total = 10.0 * sum(slots)
    waits_ns = []
    for ahead in (0.0, 5.0, 30.0, 300.0, 3000.0):
        pot = Pot(1.0, ahead, 10.0, work_rate)
        waits_ns.append(through([], slots, [10.0, 10.0], pot, pot).start_ns)
        assert waits_ns[-1] <= 10.0 * (ahead + 10.0 + total) / len(slots)
    assert waits_ns == sorted(waits_ns)


def test_precedence_keeps_a_slot_only_while_it_fills_it():
    """A lane is busy nine tenths of the time with others: whoever waits gets the last tenth."""
    result = through([], [1], [10.0, 10.0], Pot(1.0, 0.0, 10.0, 0.9))
    assert 10.0 <= result.start_ns < 200.0


def test_what_is_more_than_slots_hold_drains_evenly():
    """Two slots on one lane take 1 of 100 a time, half comes back: 180 behind 100, not for ever."""
    result = through([], [2], [5.0], Pot(1.0, 100.0, 5.0, 0.5))
    assert result.start_ns == pytest.approx(180.0, rel=0.1)


def test_a_way_too_long_to_follow_is_estimated():
    """Beyond the steps that are taken: what is left over what arrivals leave of the lanes."""
    pot = Pot(1.0, 0.0, 10.0, 0.5)
    result = through([], [1], [10.0] * 200, pot)
    assert result.start_ns == pytest.approx(199 * 10.0 / 0.5, rel=0.5)
    assert result.run_ns == 10.0
