"""`clockwork`: one batch at a time, latest start first, as large as the head can bear."""

import pytest

from headway.core import Dispatch, Expire, ExpireReason
from headway.policy import LatestStart, clockwork
from headway.predict import Profile
from headway.testing import MeanPredictor, a_device, a_kernel, a_model, a_request, dispatched

MS = 1_000_000
SHORT = Profile({1: 10 * MS, 2: 12 * MS, 4: 16 * MS, 8: 24 * MS})
LONG = Profile({1: 50 * MS})


def a_talk(lanes=(0,), *, shares_all=False, **settings):
    """Model `m` batches up to eight rows, `long` one."""
    policy = clockwork(MeanPredictor({"m": SHORT, "long": LONG}), **settings)
    models = [a_model(batch_rows_max=8), "long"]
    return a_kernel(policy, devices=[a_device(lanes=lanes, shares_all=shares_all)], models=models)


def test_who_must_start_soonest_goes_first():
    """50 ms of work due in 70 comes before 10 ms due in 40."""
    key = LatestStart(MeanPredictor({"m": SHORT, "long": LONG})).key
    long, short = a_request(1, model="long", budget="70ms"), a_request(2, budget="40ms")
    assert (key(long), key(short)) == ((20 * MS,), (30 * MS,))


@pytest.mark.parametrize(
    ("lanes", "shares_all", "at_once", "started"),
    [
        ((0, 0, 1, 1), False, 0, 2),
        ((0, 1, 2), False, 0, 3),
        ((0, 1, 2), True, 0, 1),
        ((0, 0), False, 0, 1),
        ((0, 0, 1, 1), False, 1, 1),
        ((0, 1), True, 2, 2),
    ],
    ids=["a lane", "a core", "a device", "one lane", "one by number", "two by number"],
)
def test_batch_has_no_neighbours(lanes, shares_all, at_once, started):
    """One a lane, or one a device that slots share, unless a number says otherwise."""
    talk = a_talk(lanes, shares_all=shares_all, at_once=at_once)
    batches = [dispatched(talk.arrives(i, model="long")) for i in range(1, 5)]
    assert sum(len(batch) for batch in batches) == started
    assert dispatched(talk.finishes(1)) != []
    talk.drain()


@pytest.mark.parametrize(
    ("budget", "rows"), [("200ms", 6), ("117ms", 4), ("113ms", 2), ("111ms", 1)]
)
def test_batch_is_the_largest_that_ends_in_time(budget, rows):
    """Of six that wait, as many as end before the first one's deadline, in powers of two."""
    talk = a_talk()
    talk.arrives(1, model="long")
    talk.arrives(2, budget=budget)
    for request_id in range(3, 8):
        talk.arrives(request_id, budget="500ms")
    (batch,) = dispatched(talk.finishes(1, at="100ms"))
    assert (batch[0], len(batch)) == (2, rows)
    talk.drain()


def test_what_would_be_late_alone_is_given_up():
    """With 9 ms left of 10 it is expired, and the next one has the device."""
    talk = a_talk()
    talk.arrives(1, model="long")
    talk.arrives(2, budget="109ms")
    talk.arrives(3, budget="900ms")
    commands = talk.finishes(1, at="100ms")
    (expired,) = [command for command in commands if isinstance(command, Expire)]
    assert (expired.request_id, expired.reason) == (2, ExpireReason.PREDICTED_LATE)
    assert dispatched(commands) == [(3,)]
    talk.drain()


def test_unknown_model_is_tried():
    """Nothing can be said of the first batch of a model, so it starts with all that waits."""
    talk = a_kernel(clockwork(MeanPredictor()), models=[a_model(batch_rows_max=8)])
    talk.arrives(1, budget="1ms")
    for request_id in (2, 3):
        talk.arrives(request_id)
    (start,) = [c for c in talk.finishes(1) if isinstance(c, Dispatch)]
    assert start.rows == 2
    talk.drain()
