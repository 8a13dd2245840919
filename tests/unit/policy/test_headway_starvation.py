"""`headway`: the bound on waiting while high work takes all there is, as dialogues."""

import pytest
from tests.headway_rig import LOW, MS, NICED, a_headway_talk, expecting_high, given_up, started

from headway.core import SlotClass
from headway.testing import dispatched, without_timers


@pytest.fixture(autouse=True)
def crowded_out(monkeypatch):
    """High work counts as taking all there is, until a test undoes that."""
    monkeypatch.setattr("headway.policy.outlook._CROWDED_RATIO", 0.0)


@pytest.mark.parametrize(("every_ms", "told_no"), [(100, []), (12, [2])])
def test_low_work_is_starved_only_where_high_work_takes_about_all_there_is(
    monkeypatch, every_ms, told_no
):
    """Else it waits on by the usual rules, after the high work, and may still be served."""
    monkeypatch.undo()
    talk = a_headway_talk(lanes=(0,), starvation_share_ratio=0.0)
    talk.arrive_often(80, every_ms=every_ms, model="short", budget="90ms")
    begun_ms = 80 * every_ms + 10
    first = started(talk.arrives(1, at=begun_ms * MS, model="long", budget="2s"))
    talk.arrives(2, at=(begun_ms + 1) * MS, model="middle", budget="300ms", **LOW)
    talk.arrives(3, at=(begun_ms + 2) * MS, model="short", budget="2s")
    said = talk.finishes_late(first.batch_id, at_ms=begun_ms + 160)
    batch = started(said)
    assert (given_up(said), dispatched(said)) == (told_no, [(3,)])
    said = talk.finishes_late(batch.batch_id, at_ms=begun_ms + 170)
    assert dispatched(said) == ([] if told_no else [(2,)])
    talk.drain()


def test_low_work_starts_before_it_has_waited_for_half_of_its_budget():
    """Beside a high batch if need be; the kernel is asked again at that very instant."""
    talk = a_headway_talk()
    talk.arrives(1, model="rows", rows=8, budget="2s")
    assert dispatched(talk.arrives(2, at="1ms", model="long", budget="220ms", **LOW)) == []
    assert talk.kernel.armed_at_ns == 105 * MS + 500_000
    assert dispatched(talk.wakes()) == [(2,)]
    talk.drain()


def test_who_has_begun_is_not_overdue_any_more():
    """Its other rows wait by the usual rules: high work goes first, and it is not told no."""
    talk = expecting_high(a_headway_talk(lanes=(0,), starvation_share_ratio=0.0))
    low = started(talk.arrives(1, at="1s", model="rows", rows=8, budget="500ms", **LOW))
    assert low.is_segment
    talk.arrives(2, at="1255ms", model="short", budget="90ms")
    talk.arrives(3, at="1255ms", model="short", budget="90ms")
    said = talk.finishes(low.batch_id, at="1260ms")
    assert (given_up(said), dispatched(said)) == ([], [(2,)])


def test_overdue_work_starts_where_it_makes_nobody_late():
    """Of two lanes with a high batch the one whose batch has time to spare."""
    for tight, slots in (((165, 800), {1, 3}), ((800, 165), {0, 2})):
        talk = a_headway_talk(lanes=(0, 1, 0, 1))
        for request_id, budget_ms in enumerate(tight, start=1):
            talk.arrives(request_id, model="rows", rows=8, budget=budget_ms * MS)
        talk.arrives(3, at="1ms", model="long", budget="220ms", **LOW)
        assert started(talk.wakes()).slot in slots
        talk.drain()


def test_overdue_work_waits_where_low_work_is_on_every_lane():
    """It starts when that has ended: two low batches never share a lane."""
    talk = a_headway_talk()
    talk.arrives(1, model="rows", rows=8, budget="2s", **LOW)
    talk.arrives(2, at="1ms", model="long", budget="220ms", **LOW)
    assert dispatched(talk.wakes()) == []
    assert dispatched(talk.finishes(1, at="160ms")) == [(2,)]
    talk.drain()


def test_overdue_work_together_takes_a_part_of_the_time_at_most():
    """Of starts that harm a burst and a twentieth; the rest is told at once that it is too late."""
    talk = a_headway_talk(drops=False)
    talk.arrive_often(1, every_ms=1, model="rows", rows=8)  # what it takes alone is seen once
    talk.arrive_often(1, every_ms=1, from_ms=160, first_id=1001, model="long")
    starts = []
    for number in range(1, 25, 2):
        begun_ms = 100 * (number + 1)
        high = started(talk.arrives(number, at=begun_ms * MS, model="rows", rows=8, budget="175ms"))
        talk.arrives(number + 1, at=(begun_ms + 1) * MS, model="long", budget="120ms", **LOW)
        said = talk.wakes(at=(begun_ms + 61) * MS)
        assert bool(dispatched(said)) != bool(given_up(said))
        starts.append(bool(dispatched(said)))
        if starts[-1]:
            talk.finishes_late(started(said).batch_id, at_ms=begun_ms + 121)
        talk.finishes_late(high.batch_id, at_ms=begun_ms + (190 if starts[-1] else 160))
    taken_ms = 60 * sum(starts)
    assert starts[:4] == [True] * 4
    assert 250 < taken_ms <= 250 + 0.05 * 200 * len(starts) + 60


def overdue_starts(share_ratio, others_ms=0):
    """Which of fourteen overdue requests start before high work that waits for the only slot.

    Before each, low work of so long has the device while nobody else wants it.
    """
    talk = a_headway_talk(
        lanes=(0,), low_weight=NICED, drops=False, starvation_share_ratio=share_ratio
    )
    starts = []
    for number in range(1, 43, 3):
        begun_ms = 1000 * number
        if others_ms:
            other = talk.arrives(1000 + number, at=(begun_ms - 500) * MS, model="long", **LOW)
            talk.finishes_late(started(other).batch_id, at_ms=begun_ms - 500 + others_ms)
        first = started(talk.arrives(number, at=begun_ms * MS, model="rows", rows=8, budget="2s"))
        talk.arrives(number + 1, at=(begun_ms + 1) * MS, model="long", budget="220ms", **LOW)
        talk.arrives(number + 2, at=(begun_ms + 2) * MS, model="short", budget="2s")
        said = talk.finishes_late(first.batch_id, at_ms=begun_ms + 160)
        starts.append(dispatched(said) == [(number + 1,)])
        if starts[-1]:
            said = talk.finishes_late(started(said).batch_id, at_ms=begun_ms + 190)
        assert dispatched(said) == [(number + 2,)]
        talk.finishes_late(started(said).batch_id, at_ms=begun_ms + 200)
    return starts


def test_overdue_work_before_high_work_that_waits_is_owed():
    """Where a lane has one slot nothing lies beneath: low work takes it from whoever waits for it.

    A burst of such starts is let through; after it hardly any at so small a share, and none ever
    where low work is owed nothing.
    """
    starts = overdue_starts(1e-6)
    assert starts == sorted(starts, reverse=True)
    assert 5 <= sum(starts) <= 9
    assert not any(overdue_starts(0.0))


def test_overdue_work_whose_answer_is_wanted_late_is_not_told_no():
    """It waits on, and starts when the device has nothing else to do."""
    talk = a_headway_talk(lanes=(0,), low_weight=NICED, drops=False, starvation_share_ratio=0.0)
    talk.arrives(1, model="rows", rows=8, budget="2s")
    talk.arrives_patient(2, at=MS, late=500, model="long", budget="220ms", **LOW)
    talk.arrives(3, at="2ms", model="short", budget="2s")
    assert dispatched(talk.finishes(1, at="160ms")) == [(3,)]
    assert dispatched(talk.finishes(2, at="170ms")) == [(2,)]
    talk.drain()


def test_low_work_that_has_had_its_share_is_owed_nothing():
    """What it was given while nobody else wanted the device counts as well."""
    assert all(overdue_starts(0.05))
    assert sum(overdue_starts(0.05, others_ms=400)) <= 1


def test_overdue_work_beneath_high_work_goes_before_nobody_and_is_told_no():
    """There a start costs nobody anything, so nobody has to go before who is due earlier."""
    talk = a_headway_talk(low_weight=NICED)
    talk.arrives(1, model="rows", rows=8, budget="5s", **LOW)
    talk.arrives(2, model="long", budget="1s", **LOW)
    talk.arrives(3, at="400ms", model="long", bucket="other", budget="400ms", **LOW)
    assert given_up(talk.wakes(at="500ms")) == [2]
    assert dispatched(talk.finishes(1, at="550ms")) == [(3,)]
    talk.drain()


def test_overdue_work_beneath_high_work_starts_where_it_is_first():
    """No slot is free when its time has passed; the next one is its own, beneath the high batch."""
    talk = a_headway_talk(low_weight=NICED)
    talk.arrives(1, model="rows", rows=8, budget="5s", **LOW)
    talk.arrives(2, model="long", budget="1s", **LOW)
    talk.arrives(3, at="495ms", model="long", budget="100ms")
    assert without_timers(talk.wakes(at="500ms")) == []
    assert dispatched(talk.finishes(1, at="510ms")) == [(2,)]


def test_overdue_work_of_a_tenant_beyond_its_share_is_told_no():
    """The second of the greedy one is in a later round; the others may wait for their bound."""
    talk = a_headway_talk(quantum_ns=10 * MS, drops=False)
    talk.arrives(1, model="rows", rows=8, budget="2s")
    talk.arrives(2, model="long", budget="900ms", tenant="calm", **LOW)
    talk.arrives(3, model="long", budget="900ms", tenant="greedy", **LOW)
    talk.arrives(4, model="long", bucket="b", budget="220ms", tenant="greedy", **LOW)
    assert given_up(talk.wakes(at="110ms")) == [4]
    talk.drain()


def test_no_bound_on_waiting_where_that_is_switched_off():
    """`starvation_ratio: 0` lets low work wait until its deadline."""
    talk = a_headway_talk(starvation_ratio=0.0)
    talk.arrives(1, model="rows", rows=8, budget="2s")
    talk.arrives(2, at="1ms", model="long", budget="319ms", **LOW)
    assert talk.kernel.armed_at_ns == 320 * MS
    assert dispatched(talk.finishes(1, at="160ms")) == [(2,)]
    talk.drain()


def test_high_work_is_never_promoted():
    """There is nothing above it."""
    talk = a_headway_talk()
    aging = talk.kernel.policy.aging
    talk.arrives(1, model="short")
    (request,) = [entry.request for entry in talk.kernel.ledger.live.values()]
    assert request.slot_class is SlotClass.HIGH
    assert aging.promotes_at_ns(request) is None
    talk.drain()
