"""The parts of `headway`: whom to give up, batch sizes, what waits, lanes, the outer loop."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from headway.core import SlotClass
from headway.core.fleet import Fleet
from headway.policy.accounts import Accounts
from headway.policy.guard import Guard
from headway.policy.hopefuls import Wish, hopeless_among
from headway.policy.sizes import Sizes
from headway.policy.urgency import Promotion
from headway.policy.waiting_list import WaitingList
from headway.predict import Profile
from headway.testing import MeanPredictor, a_device, a_model, a_request

MS = 1_000_000
LOW, HIGH = {"priority": 5, "slot_class": SlotClass.LOW}, {"priority": 0}
SECOND = 1_000 * MS
CROWDED = SimpleNamespace(is_crowded_out=lambda now_ns: True)


def wishes(*each):
    """By deadline; each is a deadline, a work, and maybe a priority and a round."""
    return sorted(
        Wish(deadline, number, work, *rest or (1,))
        for number, (deadline, work, *rest) in enumerate(each, start=1)
    )


# --- whom to give up -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        (wishes((10, 10), (20, 10)), set()),
        (wishes((10, 10), (19, 10)), {1}),
        (wishes((30, 30), (31, 10), (32, 10)), {1}),
        (wishes((30, 30, 0), (31, 10, 5), (32, 10, 5)), {2, 3}),
        (wishes((10, 10, 1, 3), (11, 10, 1, 0)), {1}),
        (wishes((10, 10, 1, 3), (11, 10, 2, 0)), {2}),
        (wishes((5, 10)), {1}),
        (wishes((10, 5, 5), (11, 20, 0)), {2}),
    ],
)
def test_the_less_important_the_greedier_and_the_longer_are_given_up(waiting, expected):
    """In that order; nobody is where all can be in time."""
    assert hopeless_among(waiting, start_at_ns=0, lanes_rate=1.0) == expected


def test_lanes_are_one_machine_that_is_so_many_times_as_fast():
    """From the instant on average at which they are free."""
    waiting = wishes((20, 20), (30, 20), (40, 20))
    assert hopeless_among(waiting, start_at_ns=0, lanes_rate=2.0) == set()
    assert len(hopeless_among(waiting, start_at_ns=11, lanes_rate=2.0)) == 1


# --- the outer loop ------------------------------------------------------------------------------


def tell(guard, count, *, is_met, **what):
    """So many requests ended; the factor after each."""
    factors = []
    for _ in range(count):
        guard.ended(a_request(**what), is_met, 0)
        factors.append(guard.times)
    return factors


def test_guard_tightens_at_once_and_relaxes_slowly():
    """One miss in a hundred is the target: a row of misses raises the factor, hits lower it."""
    guard = Guard(0.01)
    tightened = tell(guard, 10, is_met=False)
    assert all(earlier < later for earlier, later in pairwise(tightened))
    held = tell(guard, 50, is_met=True)
    assert held[0] == tightened[-1]  # the share of misses is still above its target
    relaxed = tell(guard, 300, is_met=True)
    assert 1.0 < relaxed[-1] < tightened[-1]
    steps = [later / earlier for earlier, later in pairwise(relaxed) if later < earlier]
    assert min(steps) > 0.99


def test_guard_stays_within_its_bounds():
    """However long things go well or badly."""
    guard = Guard(0.01)
    assert tell(guard, 500, is_met=False)[-1] == 4.0
    assert tell(guard, 5_000, is_met=True)[-1] == 1.0


def test_guard_does_not_count_low_work():
    """Nothing is held free for it."""
    assert tell(Guard(0.01), 50, is_met=False, **LOW)[-1] == 1.0


# --- sizes ---------------------------------------------------------------------------------------


class ABucket:
    """Requests in order, and how many rows of the first are left."""

    def __init__(self, *rows, head_rows_left=None):
        self.count = len(rows)
        self.rows = sum(rows)
        self.head_rows_left = rows[0] if head_rows_left is None else head_rows_left


GAINS = {1: 20 * MS, 2: 22 * MS, 4: 26 * MS, 8: 60 * MS, 16: 115 * MS}
NO_GAIN = {1: 10 * MS, 2: 20 * MS, 4: 40 * MS, 8: 80 * MS}


def sizes_of(times, *, segment_ns=12 * MS):
    """Sizes of a model `m`, and the list that says how much high work comes."""
    predictor = MeanPredictor({"m": Profile(times)})
    waiting = WaitingList(predictor, Accounts(predictor, {}, {}, SECOND))
    return Sizes(predictor, waiting, segment_ns), waiting


@pytest.mark.parametrize(
    ("times", "rows", "budget", "expected"),
    [
        (GAINS, 8, "1s", 4),  # four in 26 ms are 6.5 ms each, eight in 60 are 7.5
        (GAINS, 16, "1s", 4),
        (GAINS, 3, "1s", 3),
        (GAINS, 8, "23ms", 2),
        (GAINS, 8, "21ms", 1),
        (NO_GAIN, 8, "1s", 1),
    ],
)
def test_batch_is_as_large_as_serves_most_rows_a_time(times, rows, budget, expected):
    """And as its head's deadline allows; where batching gains nothing it is the head alone."""
    sizes, _ = sizes_of(times)
    model = a_model(batch_rows_max=max(times))
    assert sizes.rows(ABucket(*[1] * rows), model, a_request(budget=budget), 0) == expected


def test_batch_is_never_smaller_than_its_head():
    """A request of three rows is not cut short for the sake of company."""
    sizes, _ = sizes_of(NO_GAIN)
    head = a_request(rows=3)
    assert sizes.rows(ABucket(3, 1), a_model(batch_rows_max=8), head, 0) == 3


@pytest.mark.parametrize(
    ("times", "head_rows", "count", "expected"),
    [
        ({1: 20, 2: 22, 4: 26, 8: 30, 16: 36}, 1, 8, 8),  # 35 ms are allowed
        ({1: 20, 2: 22, 4: 26, 8: 30, 16: 36}, 1, 16, 8),
        ({1: 20, 2: 36, 4: 68, 8: 130, 16: 250}, 1, 16, 1),
        ({1: 20, 2: 36, 4: 50, 8: 60, 16: 70}, 2, 7, 8),  # the head alone takes 36 ms
    ],
    ids=["short", "too long", "no room", "a larger head"],
)
def test_low_batch_is_not_much_longer_than_its_head_where_all_is_shared(
    times, head_rows, count, expected
):
    """Whoever comes meanwhile lies beside all of it."""
    sizes, _ = sizes_of({rows: time_ms * MS for rows, time_ms in times.items()})
    model, head = a_model(batch_rows_max=16), a_request(rows=head_rows, budget="1s")
    bucket = ABucket(head_rows, *[1] * (count - 1))
    assert sizes.shared_rows(bucket, model, head, 0) == expected


def test_model_without_a_batch_axis_takes_one_request():
    """However many wait."""
    sizes, _ = sizes_of(GAINS)
    model = a_model(batch_rows_max=8, can_batch=False)
    assert sizes.rows(ABucket(1, 1, 1), model, a_request(), 0) == 1


def test_head_that_is_too_large_for_a_batch_fills_one():
    """What is left of it, where its model can split."""
    sizes, _ = sizes_of(NO_GAIN)
    model = replace(a_model(batch_rows_max=8), can_split=True)
    head = a_request(rows=20)
    assert sizes.rows(ABucket(20), model, head, 0) == 8
    assert sizes.rows(ABucket(20, head_rows_left=4), model, head, 0) == 4


def segment(sizes, rows, *, can_split=True, segments_max=8, left=None, times=1, now_ns=SECOND):
    model = replace(a_model(batch_rows_max=8), can_split=can_split, segments_max=segments_max)
    head = a_request(rows=rows, **LOW)
    return sizes.segment_rows(ABucket(rows, head_rows_left=left), model, head, times, now_ns)


def arrive(waiting, count, *, until_ns=SECOND, **what):
    """So many arrivals, evenly until an instant."""
    for number in range(count):
        at_ns = until_ns * (number + 1) // count
        request = a_request(number + 1, at=at_ns, **what)
        waiting.admitted(request, at_ns)
        waiting.ended(request, True, at_ns)


def test_segments_are_as_long_as_is_aimed_at():
    """Eight rows of 10 ms each: a segment of 30 ms has three, and at most so many segments."""
    sizes, waiting = sizes_of(NO_GAIN, segment_ns=30 * MS)
    arrive(waiting, 20, **HIGH)
    assert segment(sizes, 8) == 3
    assert segment(sizes, 8, times=2) == 6
    assert segment(sizes, 8, left=2) == 2
    assert segment(sizes, 8, segments_max=2) == 4
    assert segment(sizes, 2) == 2


def test_nothing_is_split_where_that_is_useless():
    """No high work comes, only low work comes, rows depend on one another, or it is off."""
    sizes, waiting = sizes_of(NO_GAIN, segment_ns=30 * MS)
    assert segment(sizes, 8) == 8
    arrive(waiting, 20, **LOW)
    assert segment(sizes, 8) == 8
    arrive(waiting, 20, **HIGH)
    assert segment(sizes, 8, can_split=False) == 8
    assert segment(sizes, 8, now_ns=60 * SECOND) == 8  # the last came a minute ago
    off, waiting = sizes_of(NO_GAIN, segment_ns=0)
    arrive(waiting, 20, **HIGH)
    assert segment(off, 8) == 8


# --- what waits ----------------------------------------------------------------------------------


def a_list(times=NO_GAIN):
    """What waits, of a model `m`."""
    predictor = MeanPredictor({"m": Profile(times)})
    return WaitingList(predictor, Accounts(predictor, {}, {}, SECOND))


def test_list_holds_who_was_admitted_and_neither_runs_nor_has_ended():
    """By deadline, a class each; whatever alters it is counted."""
    waiting = a_list()
    requests = [a_request(number, budget=f"{90 - 10 * number}ms") for number in (1, 2, 3)]
    for request in requests:
        waiting.admitted(request, 0)
    waiting.admitted(a_request(4, **LOW), 0)
    assert [w.request_id for w in waiting.front(SlotClass.HIGH, 2)] == [3, 2]
    assert (waiting.count(SlotClass.HIGH), waiting.count(SlotClass.LOW)) == (3, 1)
    before = waiting.changes
    waiting.started(requests[1], 1, 0)
    waiting.ended(requests[2], False, 0)
    waiting.ran(requests[1], 10 * MS, 0)
    waiting.ended(requests[1], True, 0)
    assert [w.request_id for w in waiting.front(SlotClass.HIGH, 9)] == [1]
    assert waiting.changes == before + 2
    waiting.started(a_request(77), 1, 0)
    waiting.ran(a_request(77), 1, 0)
    waiting.ended(a_request(77), True, 0)
    assert waiting.changes == before + 2


def test_rest_of_a_request_waits_again_with_the_work_that_is_left():
    """After a segment of two of eight rows six are left, at its old place."""
    waiting = a_list()
    request = a_request(1, rows=8)
    waiting.admitted(request, 0)
    assert waiting.left_ns(request) == 80 * MS
    waiting.started(request, 2, 0)
    assert waiting.count(SlotClass.HIGH) == 0
    waiting.ran(request, 20 * MS, 0)
    assert waiting.left_ns(request) == 60 * MS
    assert [w.work_ns for w in waiting.front(SlotClass.HIGH, 1)] == [60 * MS]


def test_rates_of_arrivals_fade():
    """Twenty a second are seen as about that, and as none a minute later."""
    waiting = a_list()
    arrive(waiting, 20, **HIGH)
    assert waiting.work_rate(SlotClass.HIGH, SECOND) == pytest.approx(0.2, rel=0.35)
    assert waiting.work_rate(SlotClass.HIGH, 60 * SECOND) < 1e-6
    assert waiting.work_rate(SlotClass.LOW, SECOND) == 0.0


def test_one_arrival_is_no_rate():
    """The first is averaged over a time that is not nothing."""
    waiting = a_list()
    waiting.admitted(a_request(1), 0)
    assert waiting.work_rate(SlotClass.HIGH, 0) <= 0.2


def test_kinds_beyond_the_limit_are_not_foreseen(monkeypatch):
    """They wait and are served all the same."""
    monkeypatch.setattr("headway.policy.waiting_list._STREAMS_MAX", 1)
    waiting = a_list()
    waiting.admitted(a_request(1), 0)
    waiting.admitted(a_request(2, rows=2), 0)
    assert len(list(waiting.streams(SlotClass.HIGH))) == 1
    assert waiting.count(SlotClass.HIGH) == 2


def test_unknown_work_is_none():
    """A model without a profile has work of 0, which nobody weighs."""
    waiting = a_list()
    request = a_request(1, model="new")
    waiting.admitted(request, 0)
    assert (waiting.left_ns(request), waiting.wish_of(request).work_ns) == (0.0, 0.0)


# --- the bound on waiting -------------------------------------------------------------------------


def test_who_has_begun_is_promoted_no_more():
    """Until it has ended; a request that started whole has nothing left to wait for."""
    accounts = Accounts(MeanPredictor({"m": Profile(NO_GAIN)}), {}, {}, SECOND)
    promotion = Promotion(accounts, CROWDED, 0.5, share_ratio=0.05)
    request = a_request(1, rows=8, budget="1s", **LOW)
    assert promotion.promotes_at_ns(request) == 475 * MS
    promotion.started(request, 1, 0)
    assert promotion.promotes_at_ns(request) is None
    promotion.ended(request, is_met=False, now_ns=0)
    assert promotion.promotes_at_ns(request) == 475 * MS


def test_low_work_is_owed_a_share_of_the_time_that_all_of_it_takes():
    """A quarter second either way is remembered, and what it had counts when it had it."""
    accounts = Accounts(MeanPredictor({"m": Profile(NO_GAIN)}), {}, {}, SECOND)
    promotion = Promotion(accounts, CROWDED, 0.5, share_ratio=0.05)
    fleet = Fleet((a_device(lanes=(0, 1)),))
    low, high = a_request(1, **LOW), a_request(2, **HIGH)
    assert promotion.is_owed(fleet, 0)
    promotion.ran(high, 10 * SECOND, 100 * SECOND)
    assert promotion.is_owed(fleet, 100 * SECOND)
    promotion.ran(low, 10 * SECOND, 200 * SECOND)
    assert not promotion.is_owed(fleet, 200 * SECOND)
    assert not promotion.is_owed(fleet, 202 * SECOND + SECOND // 2)
    assert promotion.is_owed(fleet, 202 * SECOND + SECOND // 2 + 1_000)
