"""A device rolled forward: shares of lanes, by hand."""

import pytest

from headway.predict.lanes import MATES_MAX, OTHERS_MAX, Load, Pot, Rolling, roll

PLAIN = [[0.0] + [1.0] * MATES_MAX] * (OTHERS_MAX + 1)


def test_alone_a_batch_takes_its_work():
    """Nothing slows what has the device to itself."""
    assert roll([Load(0, 1.0, 7.0)], [2, 2], [], PLAIN) == [7.0]


def test_two_on_a_lane_get_half_until_the_first_ends():
    """Works 10 and 4 on one lane: the short one ends at 8, the long one at 14."""
    assert roll([Load(0, 1.0, 10.0), Load(0, 1.0, 4.0)], [2], [], PLAIN) == [14.0, 8.0]


def test_lanes_do_not_share():
    """A batch on another lane costs nothing while efficiencies are plain."""
    assert roll([Load(0, 1.0, 10.0), Load(1, 1.0, 4.0)], [1, 1], [], PLAIN) == [10.0, 4.0]


def test_weights_share_a_lane_in_proportion():
    """Weights 3 and 1, works 9 and 9: the heavy ends at 12, the light did 3 and needs 6 more."""
    ends = roll([Load(0, 3.0, 9.0), Load(0, 1.0, 9.0)], [2], [], PLAIN)
    assert ends == [pytest.approx(12.0), pytest.approx(18.0)]


def test_efficiency_is_that_of_mates_and_other_busy_lanes():
    """A lane that does three quarters beside a busy one takes a third longer, until that ends."""
    table = [[0.0] + [1.0] * MATES_MAX, *[[0.0] + [0.75] * MATES_MAX] * OTHERS_MAX]
    assert roll([Load(0, 1.0, 9.0), Load(1, 1.0, 3.0)], [1, 1], [], table) == [10.0, 4.0]


def test_what_waits_takes_the_slot_that_is_free():
    """Six of waiting work beside nine, one free slot: 15 as one batch, a little less as a fluid."""
    ends = roll([Load(0, 1.0, 9.0)], [2], [Pot(1.0, 6.0, 6.0, 0.0)], PLAIN)
    assert 13.0 < ends[0] <= 15.0
    finer = roll([Load(0, 1.0, 9.0)], [2], [Pot(1.0, 6.0, 0.1, 0.0)], PLAIN)
    assert finer[0] == pytest.approx(15.0, rel=0.02)


def test_what_waits_goes_to_the_emptier_lane_first():
    """With a lane free, a single waiting batch does not slow the one that runs."""
    ends = roll([Load(0, 1.0, 10.0)], [2, 2], [Pot(1.0, 5.0, 5.0, 0.0)], PLAIN)
    assert ends == [10.0]


def test_expected_arrivals_slow_by_the_share_they_will_have():
    """A single lane that always has someone else on it is half as fast."""
    full = roll([Load(0, 1.0, 10.0)], [2], [Pot(1.0, 100.0, 1.0, 1.0)], PLAIN)
    assert full == [pytest.approx(20.0)]
    some = roll([Load(0, 1.0, 10.0)], [2], [Pot(1.0, 0.0, 1.0, 0.2)], PLAIN)
    assert 11.0 < some[0] < 15.0


def test_a_light_class_starves_beside_a_heavy_one_that_waits():
    """Heavy waiting work of 5 goes first even where the light batch came first."""
    pots = [Pot(1000.0, 5.0, 5.0, 0.0), Pot(1.0, 0.0, 5.0, 0.0)]
    ends = roll([Load(0, 1.0, 2.0)], [2], pots, PLAIN)
    assert ends[0] == pytest.approx(7.0, rel=0.25)
    assert roll([Load(0, 1000.0, 2.0)], [2], pots, PLAIN)[0] == pytest.approx(4.0, rel=0.1)


def test_many_loads_are_lumped_but_near_the_exact():
    """Beyond a few loads ends are taken together; each is told within a few percent."""
    loads = [Load(lane, 1.0, 10.0 + lane) for lane in range(12)]
    loads += [Load(lane, 1.0, 10.0 + lane) for lane in range(12)]
    ends = roll(loads, [2] * 12, [], PLAIN)
    for load, end in zip(loads, ends, strict=True):
        assert end == pytest.approx(2.0 * load.work_ns, rel=0.03)


def test_a_load_may_join_while_rolling():
    """What starts at 4 beside what has 6 left ends when it has had its share."""
    rolling = Rolling([2], [], PLAIN)
    rolling.join(0, Load(0, 1.0, 10.0))
    rolling.join(0, Load(0, 1.0, 2.0))
    rolling.step()
    assert (rolling.at_ns, rolling.counts, rolling.left) == (4.0, [1], 1)
    rolling.join(0, Load(0, 1.0, 1.0))
    rolling.step()
    rolling.step()
    assert rolling.ends == [13.0, 4.0, 6.0]
