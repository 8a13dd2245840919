"""The last kernel steps, as whoever asks for them gets them."""

from headway.core import Command, SetTimer, TimerFired
from headway.observe import RecentSteps


def _steps(count: int, steps_max: int) -> RecentSteps:
    recent = RecentSteps(steps_max)
    for at_ns in range(0, count * 10, 10):
        recent(at_ns, TimerFired(), [SetTimer(at_ns=at_ns + 5)])
    return recent


def test_recent_steps_keep_the_last_ones_and_their_numbers() -> None:
    """What is kept are the last steps, numbered as the journal numbers them."""
    recent = _steps(10, steps_max=4)
    kept = list(recent.since(0))
    assert [record.seq for record in kept] == [6, 7, 8, 9]
    assert [record.now_ns for record in kept] == [60, 70, 80, 90]
    assert kept[0].commands == [SetTimer(at_ns=65)]
    assert (recent.first_seq, recent.next_seq, len(recent)) == (6, 10, 4)


def test_recent_steps_since_a_number_are_those_from_it_on() -> None:
    """Who has seen some of them asks for the rest, and gets nothing twice."""
    recent = _steps(10, steps_max=4)
    assert [record.seq for record in recent.since(8)] == [8, 9]
    assert list(recent.since(10)) == []
    assert list(recent.since(99)) == []


def test_recent_steps_are_the_same_from_whichever_end_they_are_reached() -> None:
    """From each number on: those that are kept, in order, with their own instants."""
    recent = _steps(20, steps_max=9)
    for seq in range(22):
        found = [(record.seq, record.now_ns) for record in recent.since(seq)]
        assert found == [(at, at * 10) for at in range(max(seq, 11), 20)]


def test_recent_steps_after_an_instant_start_with_it() -> None:
    """A part of the past is asked for by its instant, which itself belongs to it."""
    recent = _steps(10, steps_max=4)
    assert [record.now_ns for record in recent.after(75)] == [80, 90]
    assert [record.now_ns for record in recent.after(80)] == [80, 90]
    assert [record.now_ns for record in recent.after(0)] == [60, 70, 80, 90]
    assert list(recent.after(91)) == []


def test_recent_steps_of_none_keep_none() -> None:
    """With room for none nothing is kept, and the numbers go on."""
    recent = _steps(3, steps_max=0)
    assert (len(recent), recent.first_seq, recent.next_seq) == (0, 3, 3)
    assert list(recent.since(0)) == []


def test_recent_steps_do_not_hold_a_list_that_its_maker_changes() -> None:
    """Commands are kept as they were when the step was made."""
    recent = RecentSteps(2)
    commands: list[Command] = [SetTimer(at_ns=1)]
    recent(0, TimerFired(), commands)
    commands.clear()
    assert next(recent.since(0)).commands == [SetTimer(at_ns=1)]


def test_held_steps_stay_as_they_were() -> None:
    """Steps made afterwards neither join them nor push them out."""
    recent = _steps(10, steps_max=4)
    held = recent.hold(75)
    recent(100, TimerFired(), [])
    recent(110, TimerFired(), [])
    assert [record.seq for record in held.records()] == [8, 9]
    assert [record.now_ns for record in held.records()] == [80, 90]
    assert (held.first_seq, len(held)) == (8, 2)


def test_held_steps_are_read_in_pieces() -> None:
    """Pieces one after another are the whole, each step once."""
    held = _steps(10, steps_max=8).hold(0)
    pieces = [list(held.records(start, start + 3)) for start in (0, 3, 6, 9)]
    assert [len(piece) for piece in pieces] == [3, 3, 2, 0]
    assert [record for piece in pieces for record in piece] == list(held.records())


def test_held_steps_of_an_instant_to_come_are_none() -> None:
    """There is nothing after the last step, and that is no error."""
    held = _steps(3, steps_max=3).hold(1_000)
    assert (len(held), held.first_seq, list(held.records())) == (0, 3, [])
