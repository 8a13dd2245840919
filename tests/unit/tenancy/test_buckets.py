"""A rate with a burst."""

import pytest

from headway.tenancy.buckets import Bucket
from headway.units import NS_PER_S


def test_bucket_lets_the_burst_in_at_once_and_then_the_rate():
    """Ten a second saved up for half a second: five at once, then one every 100 ms."""
    bucket = Bucket(10.0, 0.5, 0)
    for _ in range(5):
        assert bucket.wait_ns(1, 0) == 0
        bucket.take(1, 0)
    assert bucket.wait_ns(1, 0) == pytest.approx(NS_PER_S / 10, rel=1e-6)
    assert bucket.wait_ns(1, NS_PER_S // 10) == 0


def test_bucket_does_not_save_up_more_than_its_burst():
    """An hour of nothing is worth no more than the burst."""
    bucket = Bucket(10.0, 0.5, 0)
    assert bucket.level(3600 * NS_PER_S) == 5.0


def test_bucket_lets_what_is_larger_than_it_pass_when_it_is_full_and_owe():
    """Refused for ever it would never be told why; so it pays afterwards."""
    bucket = Bucket(10.0, 1.0, 0)
    assert bucket.wait_ns(64, 0) == 0
    bucket.take(64, 0)
    assert bucket.level(0) == -54.0
    assert bucket.wait_ns(1, 0) == pytest.approx(5.5 * NS_PER_S, rel=1e-6)


def test_bucket_of_a_slow_rate_holds_one():
    """One request in ten seconds is a rate, too, though no second has one."""
    bucket = Bucket(0.1, 1.0, 0)
    assert bucket.wait_ns(1, 0) == 0
    bucket.take(1, 0)
    assert bucket.wait_ns(1, 0) == pytest.approx(10 * NS_PER_S, rel=1e-6)


def test_bucket_takes_back_no_more_than_it_holds():
    """What is given back cannot be saved beyond the burst."""
    bucket = Bucket(10.0, 1.0, 0)
    bucket.take(-7, 0)
    assert bucket.level(0) == 10.0
    assert bucket.full_ns(0) == 0


def test_bucket_waits_no_longer_than_it_says():
    """Whoever comes back when told to is let in: rounding is in favour of the client's wait."""
    bucket = Bucket(3.0, 1.0, 0)
    now_ns = 0
    for _ in range(100):
        now_ns += bucket.wait_ns(1, now_ns)
        assert bucket.wait_ns(1, now_ns) == 0
        bucket.take(1, now_ns)


def test_bucket_is_as_full_as_time_has_made_it_when_something_is_taken():
    """What is taken late comes out of the level of now, not out of that of long ago."""
    bucket = Bucket(100.0, 1.0, 0)
    bucket.take(3000, 30 * NS_PER_S)
    assert bucket.level(30 * NS_PER_S) == -2900.0
    assert bucket.wait_ns(0, 30 * NS_PER_S) == 29 * NS_PER_S


def test_bucket_that_is_changed_keeps_its_debt():
    """Another rate or burst is no new beginning."""
    bucket = Bucket(10.0, 1.0, 0)
    bucket.take(30, 0)
    bucket.change(20.0, 5.0, 0)
    assert (bucket.level(0), bucket.size) == (-20.0, 100.0)
    assert bucket.wait_ns(0, 0) == NS_PER_S
