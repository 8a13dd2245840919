"""`headway`: its six rules as dialogues, with a predictor that starts from exact profiles."""

import pytest
from tests.headway_rig import LOW, MS, NICED, a_headway_talk, expecting_high, given_up, started

from headway.core import Reject, RejectReason
from headway.testing import dispatched, without_timers

# --- 1: who goes first, who is given up ----------------------------------------------------------


def test_high_goes_before_low_and_the_earliest_deadline_first():
    """Priorities inside a class do not count, nor do arrivals."""
    talk = a_headway_talk(lanes=(0,))
    talk.arrives(1, model="short")
    talk.arrives(2, model="short", budget="500ms", **LOW)
    talk.arrives(3, model="short", budget="900ms", priority=0)
    talk.arrives(4, model="short", budget="700ms", priority=3)
    order = [started(talk.finishes(batch_id)).request_ids for batch_id in (1, 2, 3)]
    assert order == [(4,), (3,), (2,)]


def test_where_not_all_can_be_in_time_the_least_important_is_given_up():
    """After 30 ms the two of 30 ms are due at 65 and 80: one of them, by priority, not both."""
    for last in (2, 3):
        talk = a_headway_talk(lanes=(0,))
        talk.arrives(1, model="long", budget="100ms")
        talk.arrives(2, model="long", budget="65ms", priority=2 if last == 2 else 0)
        talk.arrives(3, model="long", budget="80ms", priority=2 if last == 3 else 0)
        talk.arrives(4, model="short", budget="90ms", priority=1)
        said = talk.finishes(1, at="30ms") + talk.finishes(2, at="60ms")
        said += talk.finishes(3, at="70ms")
        assert given_up(said) == [last]
        assert sorted(dispatched(said)) == sorted({(2,), (3,), (4,)} - {(last,)})


def test_among_equals_the_longest_is_given_up():
    """It is worth no more than the two of 10 ms that have a chance without it."""
    talk = a_headway_talk(lanes=(0,))
    talk.arrives(1, model="short")
    talk.arrives(2, model="long", budget="45ms")
    talk.arrives(3, model="short", budget="46ms")
    talk.arrives(4, model="short", budget="47ms")
    said = talk.finishes(1, at="10ms")
    assert (given_up(said), dispatched(said)) == ([2], [(3,)])
    talk.drain()


def test_low_work_is_given_up_for_who_waits_behind_it():
    """With half of the lane expected to go to high work, one of two in 140 ms is too many."""
    talk = a_headway_talk()
    talk.arrives(1, model="long")
    assert given_up(talk.arrives(2, at="1ms", model="long", budget="140ms", **LOW)) == []
    assert given_up(talk.arrives(3, at="1ms", model="long", budget="140ms", **LOW)) == [2]
    talk.drain()


def test_who_would_rather_be_late_is_passed_over_instead_of_given_up():
    """It waits while those who can be in time go first, and is served in the end."""
    talk = a_headway_talk(lanes=(0,))
    talk.arrives(1, model="short")
    talk.arrives_patient(2, at=0, late=500, model="long", budget="45ms")
    talk.arrives(3, model="short", budget="46ms")
    talk.arrives(4, model="short", budget="47ms")
    order = [started(talk.finishes(1, at="10ms")).request_ids]
    order += [started(talk.finishes(batch, at=10 * batch * MS)).request_ids for batch in (2, 3)]
    assert order == [(3,), (4,), (2,)]
    talk.drain()


def test_nobody_is_given_up_for_others_where_that_is_switched_off():
    """`drops: false` gives up only what cannot be in time whatever happens."""
    talk = a_headway_talk(lanes=(0,), drops=False)
    talk.arrives(1, model="short")
    talk.arrives(2, model="long", budget="45ms")
    talk.arrives(3, model="short", budget="46ms")
    talk.arrives(4, model="short", budget="47ms")
    said = talk.finishes(1, at="10ms")
    assert (given_up(said), dispatched(said)) == ([], [(2,)])
    assert given_up(talk.finishes(2, at="40ms")) == [3, 4]


def test_low_work_that_nobody_waits_behind_is_given_up_only_when_it_is_late():
    """Alone in its queue it keeps nobody from anything, however little time is left."""
    talk = a_headway_talk(lanes=(0, 0, 0), low_weight=NICED, starvation_ratio=0.0)
    talk.arrives(1, model="short", **LOW)
    assert without_timers(talk.arrives(2, model="long", budget="35ms", **LOW)) == []
    said = talk.arrives(3, at="6ms", bucket="other", model="short", budget="500ms")
    assert given_up(said) == [2]
    talk.drain()


# --- 2: in time, and harmless --------------------------------------------------------------------


@pytest.mark.parametrize(("budget", "starts"), [("100ms", True), ("39ms", False)])
def test_batch_starts_only_if_those_it_would_slow_stay_in_time(budget, starts):
    """A 10 ms batch with 25 left cannot wait for 30: beside it the long one needs 40."""
    talk = a_headway_talk()
    talk.arrives(1, model="long", budget=budget)
    said = talk.arrives(2, model="short", budget="25ms")
    assert dispatched(said) == ([(2,)] if starts else [])
    assert given_up(said) == ([] if starts else [2])
    talk.drain()


def test_batch_that_is_late_already_has_no_say():
    """Nothing is saved by sparing it."""
    talk = a_headway_talk()
    talk.arrives_patient(1, at=0, late=500, model="long", budget="30ms")
    talk.arrives(2, at="1ms", model="short", budget="60ms")
    assert dispatched(talk.arrives(3, at="29ms", model="long", budget="32ms")) == []
    talk.drain()


def test_what_is_late_even_alone_is_refused_at_the_door():
    """While something runs; the time to come again is at least the least there is."""
    talk = a_headway_talk()
    talk.arrives(1, model="long", budget="100ms")
    (no,) = without_timers(talk.arrives(2, at="1ms", model="long", budget="29ms"))
    assert isinstance(no, Reject)
    assert no.reason is RejectReason.PREDICTED_LATE
    assert no.retry_after_ns > 0
    talk.drain()


def test_door_refuses_who_would_be_given_up_and_says_when_the_queue_is_worked_off():
    """Two of 30 ms wait, due at 70 and 85: a less important third, due at 80, would be given up."""
    talk = a_headway_talk(lanes=(0, 0))
    talk.arrives(1, model="short", budget="60ms")
    for request_id, budget in ((2, "70ms"), (3, "85ms")):
        assert dispatched(talk.arrives(request_id, model="long", budget=budget)) == []
    (no,) = without_timers(talk.arrives(4, at="1ms", model="long", budget="79ms", priority=2))
    assert isinstance(no, Reject)
    assert no.retry_after_ns == 60 * MS
    talk.drain()


def test_door_says_to_come_again_soon_where_nothing_is_known_of_the_queue():
    """No low work was looked at so far: the least time to try again."""
    talk = a_headway_talk(lanes=(0,))
    talk.arrives(1, model="long")
    (no,) = without_timers(talk.arrives(2, model="long", budget="1ms", **LOW))
    assert no.retry_after_ns == 10 * MS
    talk.drain()


def test_door_lets_in_who_would_rather_be_late_than_not_served():
    """A tier with `late: serve` is never refused; it waits for a free lane and is served late."""
    talk = a_headway_talk()
    talk.arrives(1, model="long", budget="100ms")
    assert dispatched(talk.arrives_patient(2, at=MS, late=500, model="long", budget="5ms")) == []
    assert dispatched(talk.finishes(1, at="30ms")) == [(2,)]
    talk.drain()
    assert len(talk.outcomes) == 2


def test_door_lets_everyone_in_where_that_is_wanted():
    """`refuses: false` ends them later, when it is sure."""
    talk = a_headway_talk(refuses=False)
    talk.arrives(1, model="long", budget="100ms")
    said = talk.arrives(2, at="1ms", model="long", budget="29ms")
    assert (given_up(said), talk.outcomes.keys()) == ([2], {2})
    talk.drain()


def test_model_that_always_fails_its_deadline_is_tried_now_and_then():
    """An estimate that is too long must be able to come down: one in seventeen starts."""
    talk = a_headway_talk(refuses=False, lanes=(0, 0))
    talk.arrives(999, model="rows", rows=8, budget="10s")
    said = []
    for request_id in range(1, 18):
        said += talk.arrives(request_id, model="long", budget="20ms")
    assert given_up(said) == list(range(1, 17))
    assert dispatched(said) == [(17,)]
    talk.drain()


# --- 3: sharing a lane ---------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "starts"), [("short", True), ("middle", False)])
def test_high_work_shares_a_lane_only_if_it_gains_more_than_it_costs(model, starts):
    """Beside 30 ms, 10 ms end twenty earlier for a delay of ten; 15 ms gain too little."""
    talk = a_headway_talk()
    talk.arrives(1, model="long", budget="200ms")
    assert dispatched(talk.arrives(2, model=model, budget="200ms")) == ([(2,)] if starts else [])
    talk.drain()


def test_high_work_does_not_share_where_the_others_would_lose_what_it_gains():
    """Two short ones are in the way already: a third would cost both."""
    talk = a_headway_talk(lanes=(0, 0, 0))
    talk.arrives(1, model="long", budget="200ms")
    talk.arrives(2, model="short", budget="200ms")
    assert dispatched(talk.arrives(3, model="short", budget="200ms")) == []
    talk.drain()


def test_short_high_work_finds_a_place_while_no_lane_is_free_in_time():
    """In 22 ms no lane is free, and beside one of 30 ms it is done in 20: it is not given up."""
    talk = a_headway_talk(lanes=(0, 0, 1, 1))
    talk.arrives(1, model="long", budget="60ms")
    talk.arrives(2, model="long", budget="60ms")
    talk.arrives(3, at="1ms", model="long", budget="200ms")
    said = talk.arrives(4, at="1ms", model="short", budget="22ms")
    assert (given_up(said), dispatched(said)) == ([], [(4,)])


@pytest.mark.parametrize(
    ("model", "budget", "starts"),
    [("batch", "200ms", []), ("batch", "39ms", [(2,)]), ("short", "200ms", [(2,)])],
)
def test_who_would_go_into_a_larger_batch_waits_for_a_device_that_all_slots_share(
    model, budget, starts
):
    """Unless it must start now, or there is no larger batch."""
    talk = a_headway_talk(lanes=(0, 1), shares_all=True)
    talk.arrives(1, model="batch", budget="60ms")
    assert dispatched(talk.arrives(2, model=model, budget=budget)) == starts
    if not starts:
        talk.arrives(3, model=model, budget=budget)
        assert dispatched(talk.finishes(1, at="20ms")) == [(2, 3)]


@pytest.mark.parametrize(("budget", "rows"), [("100ms", 4), ("66ms", 2), ("62ms", 1)])
def test_batch_is_smaller_where_a_larger_one_would_be_late_beside_others(budget, rows):
    """Alone four take 26 ms, two 22 and one 20; beside another, twice as long."""
    talk = a_headway_talk(lanes=(0, 0))
    talk.arrives(1, model="rows", rows=8, budget="10s")
    talk.arrives(2, model="short", budget="30ms")
    for request_id in range(3, 7):
        talk.arrives(request_id, at="1ms", model="batch", budget=budget)
    assert started(talk.finishes(2, at="20ms")).rows == rows


def test_nobody_waits_for_a_core_that_is_free():
    """One slot a core is no device that is shared: a second batch costs the first nothing."""
    talk = a_headway_talk(lanes=(0, 1))
    talk.arrives(1, model="batch", budget="60ms")
    assert dispatched(talk.arrives(2, model="batch", budget="200ms")) == [(2,)]
    talk.drain()


def test_lanes_without_a_slot_do_not_count():
    """One is full; the other's batch of 30 ms is not worth sharing with 15."""
    talk = a_headway_talk(lanes=(0, 1, 1))
    talk.arrives(1, model="long")
    talk.arrives(2, model="long")
    assert dispatched(talk.arrives(3, model="middle")) == []
    talk.drain()


def test_free_lane_is_never_kept_from_work():
    """Work takes the lane without neighbours, and low work waits where there is none."""
    talk = a_headway_talk(lanes=(0, 0, 1, 1))
    talk.arrives(1, model="long", **LOW)
    first, second = (
        started(talk.arrives(2, model="long")),
        talk.arrives(3, model="long", budget="900ms", **LOW),
    )
    assert first.slot % 2 == 1 or first.slot >= 2
    assert dispatched(second) == []
    assert dispatched(talk.finishes(2, at="30ms")) == [(3,)]
    talk.drain()


def test_low_work_lies_beneath_high_work_where_slots_all_but_preempt():
    """With niced slots it takes only what is left, so it starts at once, one a lane."""
    talk = a_headway_talk(low_weight=NICED)
    talk.arrives(1, model="short", budget="12ms")
    assert dispatched(talk.arrives(2, model="long", **LOW)) == [(2,)]
    talk.drain()


def test_two_low_batches_never_share_a_lane():
    """Else an urgent arrival might find no slot there, not even by preempting."""
    talk = a_headway_talk(low_weight=NICED, lanes=(0, 0))
    talk.arrives(1, model="long", **LOW)
    assert dispatched(talk.arrives(2, model="short", budget="33ms", **LOW)) == []
    assert dispatched(talk.arrives(3, model="short", budget="12ms")) == [(3,)]
    talk.drain()


def test_low_work_leaves_the_last_slot_of_a_lane_even_where_it_has_to_start_now():
    """In time beside the low one, harm beside the high one; but an urgent one must find a slot."""
    talk = a_headway_talk(lanes=(0, 1, 0, 1), starvation_ratio=0.0, segment_ns=0)
    talk.arrives(1, model="rows", rows=8, budget="165ms")
    talk.arrives(2, model="rows", rows=8, budget="2s", **LOW)
    assert dispatched(talk.arrives(3, model="short", budget="100ms", **LOW)) == []
    talk.drain()


def test_unknown_work_starts_as_soon_as_a_slot_is_free():
    """Nothing can be foreseen of a model without a profile, so nothing is held against it."""
    talk = a_headway_talk()
    talk.serve_unknown("new")
    talk.arrives(1, model="long", budget="31ms")
    assert dispatched(talk.arrives(2, model="new", budget="1ms", **LOW)) == [(2,)]
    talk.drain()


# --- 4: segments ---------------------------------------------------------------------------------


def test_low_rows_run_whole_where_no_high_work_is_expected():
    """Splitting costs and gains nothing then."""
    talk = a_headway_talk()
    assert started(talk.arrives(1, model="rows", rows=8, **LOW)).rows == 8
    talk.drain()


def test_low_rows_run_in_segments_where_high_work_is_expected():
    """Of eight rows of 20 ms one at a time, and an urgent arrival gets the lane in between."""
    talk = expecting_high(a_headway_talk(lanes=(0,)))
    batch = started(talk.arrives(1, at="1s", model="rows", rows=8, budget="2s", **LOW))
    assert (batch.rows, batch.is_segment) == (1, True)
    talk.arrives(2, at="1005ms", model="short", budget="30ms")
    assert dispatched(talk.finishes(batch.batch_id, at="1020ms")) == [(2,)]
    talk.drain()


def test_low_rows_are_split_beneath_high_work_too():
    """Into segments four times as long: only other low work waits for them."""
    talk = expecting_high(a_headway_talk(low_weight=NICED))
    assert started(talk.arrives(1, at="1s", model="rows", rows=8, budget="2s", **LOW)).rows == 2


@pytest.mark.parametrize("settings", [{"segment_ns": 0}, {"segment_ns": 200 * MS}])
def test_low_rows_are_not_split_where_that_is_useless(settings):
    """Where it is off, and where all is one segment."""
    talk = expecting_high(a_headway_talk(**settings))
    assert started(talk.arrives(1, at="1s", model="rows", rows=8, budget="2s", **LOW)).rows == 8
    talk.drain()


def test_high_rows_are_never_split():
    """Whoever is urgent is not made to wait behind its own segments."""
    talk = expecting_high(a_headway_talk())
    assert started(talk.arrives(1, at="1s", model="rows", rows=8, budget="2s")).rows == 8
    talk.drain()


# --- 5: reserve ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reserve", "lanes", "starts"), [(0.0, (0, 0), True), (8.0, (0, 0), False), (8.0, (0, 1), True)]
)
def test_lane_is_held_free_where_a_low_start_is_expected_to_cost_more(reserve, lanes, starts):
    """Of 20 high requests a second with 5 ms to spare, a 30 ms batch makes half of one late."""
    talk = expecting_high(a_headway_talk(lanes, reserve_ratio=reserve), budget="15ms")
    said = talk.arrives(1, at="1s", model="long", budget="1s", **LOW)
    assert dispatched(said) == ([(1,)] if starts else [])
    talk.drain()


def test_reserve_does_not_count_where_high_work_can_wait_for_the_lane():
    """With 90 ms to spare nobody is made late by 30."""
    talk = expecting_high(a_headway_talk(reserve_ratio=100.0), budget="100ms")
    assert dispatched(talk.arrives(1, at="1s", model="long", **LOW)) == [(1,)]
    talk.drain()


def test_reserve_grows_where_high_deadlines_are_missed():
    """The same start is let through while all is well, and held after a row of misses."""
    for misses, starts in ((0, True), (40, False)):
        talk = expecting_high(a_headway_talk(reserve_ratio=1.5), budget="15ms")
        batch = started(talk.arrives(1, at="962ms", model="long", budget="100ms"))
        for number in range(2, misses + 2):
            talk.arrives(number, model="short", budget="1ms")  # refused: its deadline is missed
        talk.finishes(batch.batch_id, at="992ms")
        assert len(talk.outcomes) == 20 + 1 + misses
        said = talk.arrives(500, at="1s", model="long", budget="1s", **LOW)
        assert dispatched(said) == ([(500,)] if starts else [])
        talk.drain()
