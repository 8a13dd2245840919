"""The door of `headway`: tenants that send more than their share are told at once."""

from tests.headway_rig import a_headway_talk

from headway.core import Dispatch, Reject, RejectReason, SlotClass

MS = 1_000_000
LOW = {"priority": 5, "slot_class": SlotClass.LOW}


def crowded(**settings):
    """One lane on which `calm` and `greedy` have a request of 30 ms each, the first of which runs.

    What is known of the machine is looked at when something is to be started.
    """
    talk = a_headway_talk(lanes=(0,), **settings)
    talk.arrives(1, model="long", budget="2s", tenant="calm", **LOW)
    talk.arrives(2, model="long", budget="2s", tenant="greedy", **LOW)
    talk.finishes(1, at="30ms")
    talk.arrives(3, at="31ms", model="long", budget="2s", tenant="calm", **LOW)
    return talk


def let_in(talk, tenant, *, from_id, count, late=None, budget="600ms"):
    """How many of so many requests that come at once are let in, and what the last was told."""
    rejected = []
    for number in range(from_id, from_id + count):
        ask = talk.arrives if late is None else talk.arrives_patient
        more = {} if late is None else {"late": late}
        commands = ask(
            number, at=32 * MS, model="long", budget=budget, tenant=tenant, **more, **LOW
        )
        rejected += [command for command in commands if isinstance(command, Reject)]
    assert all(each.reason is RejectReason.PREDICTED_LATE for each in rejected)
    return count - len(rejected), rejected[-1] if rejected else None


def test_whose_turn_comes_too_late_is_refused_and_told_when_to_come_again():
    """With others there it may have what its share serves before the bound; they, too."""
    talk = crowded()
    greedy, said = let_in(talk, "greedy", from_id=10, count=12)
    assert 1 <= greedy <= 4
    assert said.retry_after_ns >= 100 * MS
    calm, _ = let_in(talk, "calm", from_id=30, count=1)
    assert calm == 1


def test_who_is_alone_has_no_turn_to_wait_for():
    """The same requests of one tenant only: as many as can be in time."""
    talk = a_headway_talk(lanes=(0,))
    talk.arrives(1, model="long", budget="2s", tenant="greedy", **LOW)
    talk.finishes(1, at="30ms")
    talk.arrives(2, at="31ms", model="long", budget="2s", tenant="greedy", **LOW)
    alone, _ = let_in(talk, "greedy", from_id=10, count=12)
    assert alone > 5


def test_late_answers_that_are_wanted_are_let_in_and_so_is_everyone_where_nothing_is_refused():
    """Nobody is told to come again who would rather wait."""
    assert let_in(crowded(), "greedy", from_id=10, count=12, late=5000)[0] == 12
    assert let_in(crowded(refuses=False), "greedy", from_id=10, count=12)[0] == 12


def test_what_was_let_in_is_served():
    """The turn that was promised comes before the bound."""
    talk = crowded()
    greedy, _ = let_in(talk, "greedy", from_id=10, count=12)
    served, batch_id, at_ms = set(), 2, 60
    while batch_id is not None:
        commands = talk.finishes(batch_id, at=at_ms * MS)
        starts = [command for command in commands if isinstance(command, Dispatch)]
        served.update(request_id for start in starts for request_id in start.request_ids)
        batch_id = starts[0].batch_id if starts else None
        at_ms += 30
    assert len([request_id for request_id in served if 10 <= request_id < 30]) == greedy
