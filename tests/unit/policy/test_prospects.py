"""`Prospects`: what a start does to others, and how seldom a predictor is asked for that."""

from types import SimpleNamespace

import pytest

from headway.core import Forecast, SlotClass
from headway.policy.prospects import Prospects

MS = 1_000_000
SECOND = 1_000 * MS


def takes(batch_id, time_ms):
    """What is left of a batch, as it is forecast."""
    return Forecast(batch_id=batch_id, mean_ns=time_ms * MS, bound_ns=time_ms * MS)


class Beside:
    """Says that what runs takes 20 ms from now, and 30 beside a start, which takes 10."""

    def __init__(self, device):
        self._device = device
        self.asked = []

    def beside(self, candidate, device, now_ns):
        """Of all that runs on the one device."""
        self.asked.append(candidate)
        ids = [batch.batch_id for batch in self._device.running()]
        if candidate is None:
            return [takes(each, 20) for each in ids]
        return [takes(0, 10), *(takes(each, 30) for each in ids)]


class Talk:
    """A device, the batches that run there, and the prospects of both."""

    def __init__(self, *batches, shares_all=False):
        self.batches = list(batches)
        self.device = SimpleNamespace(
            name="cpu:0", shares_all=shares_all, running=lambda: tuple(self.batches)
        )
        self.predictor = Beside(self.device)
        self.prospects = Prospects(self.predictor, 0.0)

    def start(self, run, at_ms=0):
        """What would become of the device, were it started."""
        return self.prospects.of(run, None, self.device, (), at_ms * MS)

    def left_ms(self, batch, at_ms):
        """Until a batch ends."""
        return self.prospects.left_ns(self.device, batch, at_ms * MS) / MS


def a_batch(batch_id, *, slot=0, due_ms=1_000, slot_class=SlotClass.LOW, at_ms=0, model="m"):
    """One that runs."""
    return SimpleNamespace(
        batch_id=batch_id,
        slot=slot,
        model=model,
        rows=1,
        slot_class=slot_class,
        deadline_at_ns=due_ms * MS,
        started_at_ns=at_ms * MS,
    )


def a_run(slot=3, slot_class=SlotClass.LOW, model="m"):
    """One that would."""
    return SimpleNamespace(slot=slot, slot_class=slot_class, model=model, rows=1)


def test_stretch_of_a_start_is_what_those_that_run_take_with_it_over_what_they_take_without():
    """Thirty milliseconds over twenty; with nobody there nobody takes longer."""
    assert Talk(a_batch(1), a_batch(2, slot=1)).start(a_run()).stretch_ratio == 1.5
    assert Talk().start(a_run()).stretch_ratio == 1.0


@pytest.mark.parametrize(
    ("due_ms", "own", "harmless"),
    [(25, "low", False), (35, "low", True), (15, "low", True), (25, "high", True)],
    ids=["late for it", "in time all the same", "late in any case", "less important"],
)
def test_start_is_harmless_unless_it_makes_someone_late(due_ms, own, harmless):
    """Of those that are not less important, who would be in time without it."""
    talk = Talk(a_batch(1, due_ms=due_ms))
    assert talk.start(a_run(slot_class=SlotClass(own))).is_harmless is harmless


def test_while_the_same_runs_a_forecast_comes_nearer():
    """Until most of the way to the next end has passed; then the predictor is asked again."""
    batch = a_batch(1)
    talk = Talk(batch)
    assert [talk.left_ms(batch, at) for at in (0, 5, 14)] == [20, 15, 6]
    assert talk.predictor.asked == [None]
    assert talk.left_ms(batch, 15) == 20
    talk.batches.append(a_batch(2, slot=1, at_ms=15))
    talk.left_ms(batch, 16)
    assert talk.predictor.asked == [None, None, None]


def test_what_was_forecast_for_a_start_holds_once_it_is_made():
    """It is not asked for again; but it is for another start, or in another slot."""
    batch = a_batch(1)
    for started, asked in [
        (a_batch(2, slot=3, at_ms=1), 0),
        (a_batch(2, slot=2, at_ms=1), 1),
        (a_batch(2, slot=3, at_ms=1, model="other"), 1),
    ]:
        talk = Talk(batch)
        talk.start(a_run(slot=3), at_ms=1)
        talk.predictor.asked.clear()
        talk.batches.append(started)
        left = [talk.left_ms(each, 1) for each in (batch, started)]
        assert left == ([20, 20] if asked else [30, 10])
        assert len(talk.predictor.asked) == asked


@pytest.mark.parametrize(
    ("due_ms", "own_left_ms", "shares_all", "easy"),
    [
        (40, 20, False, True),
        (39, 20, False, False),
        (19, 20, False, True),
        (40, 19, False, False),
        (40, 20, True, False),
    ],
    ids=["time to spare", "theirs is short", "late in any case", "own is short", "shares all"],
)
def test_start_is_easy_where_everyone_has_twice_the_time_that_it_takes(
    due_ms, own_left_ms, shares_all, easy
):
    """Ten milliseconds beside twenty, on a lane of its own."""
    talk = Talk(a_batch(1, due_ms=due_ms), shares_all=shares_all)
    device, low = talk.device, SlotClass.LOW
    assert talk.prospects.is_easy(device, low, own_left_ms * MS, 10 * MS, 0) is easy
    assert talk.predictor.asked in ([], [None])


def test_high_work_has_no_regard_for_low_work_that_runs():
    """It is in a hurry, and so is easy beside anything less important."""
    talk = Talk(a_batch(1, due_ms=30))
    for slot_class, easy in ((SlotClass.HIGH, True), (SlotClass.LOW, False)):
        assert talk.prospects.is_easy(talk.device, slot_class, 20 * MS, 10 * MS, 0) is easy
