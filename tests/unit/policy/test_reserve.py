"""`Reserve` on devices whose slots share all of it: what expected high work may lose by a start."""

from types import SimpleNamespace

import pytest

from headway.core import Forecast
from headway.policy.lanes_now import LaneNow
from headway.policy.prospects import Prospect
from headway.policy.reserve import LowStart, Reserve
from headway.policy.waiting_list import Stream
from headway.testing import a_request

MS = 1_000_000
NOW_NS = 1_500 * MS


class Sayer:
    """A predictor that says one thing of everything, and remembers of what it was asked."""

    def __init__(self, mean_ms, bound_ms):
        self.said = Forecast(mean_ns=int(mean_ms * MS), bound_ns=int(bound_ms * MS))
        self.asked = []

    def beside(self, candidate, device, now_ns):
        """The same whatever runs."""
        self.asked.append((candidate.model, candidate.slot, device))
        return [self.said]


def a_device(name="gpu:0", slots=(0,)):
    """Four slots with a lane each, of which some run a batch."""
    batches = [SimpleNamespace(batch_id=(name, slot), slot=slot, lane=slot) for slot in slots]
    return SimpleNamespace(
        name=name, slot_lanes=(0, 1, 2, 3), shares_all=True, running=lambda: batches
    )


def a_stream(count, work_ms):
    """So many high requests of 20 ms have arrived in the last 1.5 s."""
    stream = Stream(a_request(1, model="high", budget="20ms"), 0)
    for index in range(count):
        at_ns = NOW_NS * (index + 1) // count
        stream.arrive(a_request(1, at=at_ns, model="high", budget="20ms"), work_ms * MS, at_ns)
    return stream


def allows(predictor, *, count=75, stretch=1.2, devices=None, harm_ratio=0.2, work_ms=5.0):
    """Whether low work of 40 ms may start on the first device."""
    devices = devices or [a_device()]
    streams = [a_stream(count, work_ms)]
    outlook = SimpleNamespace(waiting=SimpleNamespace(streams=lambda slot_class: iter(streams)))
    guard = SimpleNamespace(times=1.0)
    reserve = Reserve(outlook, predictor, guard, lane_ratio=0.0, harm_ratio=harm_ratio)
    lane = LaneNow(devices[0], 1, (), 0.0, has_low=False, lies_beneath=False)
    start = LowStart(lane, Prospect(None, 40.0 * MS, 0.0, stretch, is_harmless=True))
    return reserve.allows(start, SimpleNamespace(all_devices=lambda: devices), NOW_NS)


@pytest.mark.parametrize(
    ("mean_ms", "stretch", "allowed"), [(8, 1.2, True), (18, 1.2, False), (18, 1.0, True)]
)
def test_low_work_starts_only_where_few_expected_requests_would_be_late_for_it(
    mean_ms, stretch, allowed
):
    """Far from their budget nobody is; near it many are, but not for who slows nobody."""
    assert allows(Sayer(mean_ms, 1.3 * mean_ms), stretch=stretch) is allowed


def test_requests_that_hardly_come_are_not_waited_for():
    """One in 1.5 s may be late all the same."""
    assert allows(Sayer(18, 23), count=1)


def test_who_is_late_in_any_case_loses_nothing():
    """What takes twice its budget alone is not protected."""
    assert allows(Sayer(40, 44))


def test_the_more_devices_the_fewer_come_to_this_one():
    """What one device must not do, one of eight may."""
    devices = [a_device(f"gpu:{index}") for index in range(8)]
    assert not allows(Sayer(18, 23))
    assert allows(Sayer(18, 23), devices=devices)


def test_a_device_that_does_nothing_always_starts_something():
    """And no forecast is made for it."""
    predictor = Sayer(18, 23)
    assert allows(predictor, devices=[a_device(slots=())])
    assert predictor.asked == []


def test_no_limit_where_that_is_switched_off():
    """A ratio of 0 asks nobody."""
    predictor = Sayer(18, 23)
    assert allows(predictor, harm_ratio=0.0)
    assert predictor.asked == []


def test_unknown_work_is_not_reserved_for():
    """A forecast of 0 says that nothing is known."""
    assert allows(Sayer(0, 0))


def test_a_free_slot_is_looked_at_and_the_scatter_has_a_default():
    """A bound that is no larger than the mean says nothing of how far things scatter."""
    predictor = Sayer(18, 18)
    assert not allows(predictor, devices=[a_device(slots=(0, 1, 3))])
    assert predictor.asked == [("high", 2, "gpu:0")]


def test_what_has_ample_time_is_not_forecast():
    """Ten times its time alone is enough beside one other."""
    predictor = Sayer(18, 23)
    assert allows(predictor, work_ms=2.0)
    assert predictor.asked == []
