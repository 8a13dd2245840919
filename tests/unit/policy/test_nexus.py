"""`nexus`: a window of the size aimed at slides over heads that it would make late."""

import pytest

from headway.core import Expire, ExpireReason
from headway.policy import nexus
from headway.predict import Profile
from headway.testing import MeanPredictor, a_device, a_kernel, a_model, dispatched

MS = 1_000_000
TIMES = Profile({rows: (8 + 2 * rows) * MS for rows in (1, 8)})
"""10 ms alone, 24 for eight rows."""


def a_talk(lanes=(0,), **model):
    """A model that batches up to eight rows, and one that keeps the device busy."""
    policy = nexus(MeanPredictor({"m": TIMES, "long": Profile({1: 50 * MS})}))
    models = [a_model(**{"batch_rows_max": 8, **model}), "long"]
    return a_kernel(policy, devices=[a_device(lanes=lanes, shares_all=True)], models=models)


def expired(commands):
    """Who was given up as predicted late."""
    return [
        command.request_id
        for command in commands
        if isinstance(command, Expire) and command.reason is ExpireReason.PREDICTED_LATE
    ]


def test_heads_that_would_spoil_the_batch_are_dropped():
    """Four are aimed at, 16 ms: the two with 12 ms left go, though one of them alone would fit."""
    talk = a_talk()
    talk.arrives(1, model="long")
    for request_id in (2, 3):
        talk.arrives(request_id, budget="35ms", at="10ms")
    for request_id in (4, 5, 6, 7, 8):
        talk.arrives(request_id, budget="35ms", at="20ms")
    commands = talk.finishes(1, at="33ms")
    assert expired(commands) == [2, 3]
    assert dispatched(commands) == [(4, 5, 6, 7)]
    talk.drain()


def test_window_is_what_waits_where_less_does():
    """A lone request with 12 ms left needs 10, so it runs."""
    talk = a_talk()
    talk.arrives(1, model="long")
    talk.arrives(2, budget="35ms", at="10ms")
    commands = talk.finishes(1, at="33ms")
    assert (expired(commands), dispatched(commands)) == ([], [(2,)])
    talk.drain()


@pytest.mark.parametrize(
    ("budget", "rows"), [("20ms", 1), ("27ms", 2), ("36ms", 5), ("48ms", 8), ("1s", 8)]
)
def test_size_aimed_at_fits_the_budget_twice(budget, rows):
    """The largest batch of which two in a row are in time."""
    talk = a_talk()
    talk.arrives(1, model="long")
    for request_id in range(2, 12):
        talk.arrives(request_id, budget=budget)
    (batch,) = dispatched(talk.finishes(1))
    assert len(batch) == rows
    talk.drain()


def test_window_holds_whole_requests():
    """Six rows are aimed at: two and three fit, four more would not."""
    talk = a_talk()
    talk.arrives(1, model="long")
    for request_id, rows in ((2, 2), (3, 3), (4, 4)):
        talk.arrives(request_id, rows=rows, budget="40ms")
    commands = talk.finishes(1, at="1ms")
    assert dispatched(commands) == [(2, 3)]
    talk.drain()


def test_order_is_that_of_arrival_and_one_runs_at_a_time():
    """Models and classes make no difference, and a device with free slots waits."""
    talk = a_talk((0, 1))
    talk.arrives(1, model="long")
    assert dispatched(talk.arrives(2, model="long", priority=5)) == []
    assert dispatched(talk.arrives(3, priority=0)) == []
    assert dispatched(talk.finishes(1)) == [(2,)]
    assert dispatched(talk.finishes(2)) == [(3,)]
    talk.drain()


def test_model_without_a_batch_axis_has_a_window_of_one():
    """One request is one batch, and late if it alone is."""
    talk = a_talk(can_batch=False)
    talk.arrives(1, model="long")
    talk.arrives(2, budget="55ms")
    talk.arrives(3, budget="65ms")
    commands = talk.finishes(1, at="50ms")
    assert (expired(commands), dispatched(commands)) == ([2], [(3,)])
    talk.drain()
