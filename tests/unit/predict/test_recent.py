"""The latest values of each key."""

import math

import pytest

from headway.predict.recent import Recent


def test_recent_is_bounded_both_ways():
    """Old values leave, a new key beyond the bound is not kept, and what is no value is refused."""
    recent = Recent(2)
    for at in range(5_000):
        recent.add((at,), at)
    for value in (7.0, 8.0, math.nan, math.inf, -1.0):
        recent.add((0,), value)
    assert list(recent.of((0,))) == [7.0, 8.0]
    assert (recent.mean((0,), 2), recent.mean((0,), 3)) == (7.5, None)
    assert list(recent.of((4_999,))) == []
    assert len(recent.state()) == 4_096


def test_recent_mean_of_huge_values_is_finite():
    """A sum that would overflow is not taken."""
    recent = Recent(3)
    for _ in range(3):
        recent.add(("k",), 1.7e308)
    assert recent.mean(("k",), 1) == pytest.approx(1.7e308)
