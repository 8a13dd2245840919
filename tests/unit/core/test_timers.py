"""Instants in order, ties by age, and no room for what was cancelled."""

from headway.core import TimerQueue


def test_earliest_is_taken_first():
    """Order is by instant, whatever the order of pushing."""
    queue = TimerQueue()
    for at_ns in (30, 10, 20):
        queue.push(at_ns, f"at {at_ns}")
    assert [queue.pop() for _ in range(4)] == [(10, "at 10"), (20, "at 20"), (30, "at 30"), None]


def test_ties_fall_by_age():
    """At one instant the older entry goes first, always."""
    queue = TimerQueue()
    for name in ("first", "second", "third"):
        queue.push(5, name)
    assert [queue.pop_due(5) for _ in range(3)] == ["first", "second", "third"]


def test_nothing_is_due_early():
    """What lies ahead stays."""
    queue = TimerQueue()
    queue.push(10, "later")
    assert queue.pop_due(9) is None
    assert queue.pop_due(10) == "later"
    assert queue.pop_due(99) is None


def test_cancelled_is_never_seen():
    """A cancelled entry is neither head nor popped, and does not count."""
    queue = TimerQueue()
    timer = queue.push(1, "gone")
    queue.push(2, "here")
    queue.cancel(timer)
    assert (len(queue), queue.head_at_ns(), timer.item) == (1, 2, None)
    assert queue.pop() == (2, "here")
    assert queue.head_at_ns() is None


def test_cancel_twice_or_after_the_pop_does_nothing():
    """A late cancel takes nobody else's place."""
    queue = TimerQueue()
    timer = queue.push(1, "a")
    queue.push(2, "b")
    queue.cancel(timer)
    queue.cancel(timer)
    taken = queue.push(0, "c")
    queue.pop()
    queue.cancel(taken)
    assert len(queue) == 1


def test_cancelled_entries_take_bounded_room():
    """A million set and cancelled timers leave a heap of a constant size."""
    queue = TimerQueue()
    queue.push(10**9, "stays")
    for at_ns in range(1_000):
        queue.cancel(queue.push(at_ns, "goes"))
    assert len(queue._heap) <= 2 * len(queue) + 64


def test_room_is_bounded_when_the_live_ones_are_taken():
    """Taking live entries from before cancelled ones shrinks the heap as well."""
    queue = TimerQueue()
    for at_ns in range(500):
        queue.push(at_ns, "taken")
    for timer in [queue.push(1_000 + at_ns, "goes") for at_ns in range(500)]:
        queue.cancel(timer)
    for _ in range(500):
        queue.pop()
    assert (len(queue), len(queue._heap) <= 64, queue.pop()) == (0, True, None)
