"""Counts of what became of requests, per tier."""

import pytest

from headway.core import (
    Expire,
    ExpireReason,
    ReplicasLost,
    RequestArrived,
    RequestCancelled,
    Stage,
)
from headway.sim import Tally, TierTally
from headway.testing import a_kernel, a_model, a_request

MS = 1_000_000


def tallied(talk):
    """The tiers of a dialogue."""
    tally = Tally()
    for record in talk.records:
        tally(record.now_ns, record.event, record.commands)
    return dict(tally)


def test_every_fate_is_counted_in_its_tier():
    """One of each: completed, expired, cancelled, refused; they sum up to what arrived."""
    talk = a_kernel(models=[a_model(queue_requests_max=2)])
    talk.arrives(1, tier="gold")
    talk.arrives(2, tier="gold", budget="10ms")
    talk.arrives(3)
    talk.arrives(4)
    talk.handle(RequestCancelled(request_id=3))
    talk.wakes(at="10ms")
    talk.finishes(1, at="20ms")
    tiers = tallied(talk)
    gold, normal = tiers["gold"], tiers["normal"]
    assert (gold.arrived, gold.completed, gold.expired, gold.violations) == (2, 1, 1, 1)
    assert (normal.arrived, normal.cancelled, normal.rejected) == (2, 1, 1)
    assert (gold.violation_ratio, normal.violation_ratio) == (0.5, 1.0)


def test_latency_is_within_a_bucket_of_the_truth():
    """Percentiles come from a histogram whose buckets are two per cent wide."""
    talk = a_kernel()
    for request_id in range(1, 101):
        talk.arrives(request_id, at=request_id * 1_000 * MS)
        talk.finishes(request_id, at=(request_id * 1_000 + request_id) * MS)
    (tier,) = tallied(talk).values()
    for quantile in (0.01, 0.5, 0.99, 1.0):
        assert tier.latency_ns(quantile) == pytest.approx(quantile * 100 * MS, rel=0.011)


def test_instant_completion_is_counted():
    """A latency of zero has a bucket too."""
    talk = a_kernel()
    talk.arrives(1)
    talk.finishes(1)
    (tier,) = tallied(talk).values()
    assert tier.completed == 1
    assert tier.latency_ns(0.5) is not None


def test_late_completion_is_a_violation():
    """An answer past its deadline was given, and was late."""
    talk = a_kernel()
    talk.arrives(1, budget="10ms")
    talk.finishes(1, at="11ms")
    (tier,) = tallied(talk).values()
    assert (tier.completed, tier.late, tier.violations) == (1, 1, 1)


def test_failed_requests_are_violations():
    """An executor's error is not what was asked for."""
    talk = a_kernel(models=["m"])
    talk.arrives(1)
    talk.handle(ReplicasLost(replica_ids=(1,), message="killed"))
    (tier,) = tallied(talk).values()
    assert (tier.failed, tier.violations) == (1, 1)


def test_empty_tier_has_no_ratio_and_no_latency():
    """Nothing asked is nothing missed."""
    tier = TierTally()
    assert (tier.violation_ratio, tier.latency_ns(0.5)) == (0.0, None)


def test_given_up_are_among_the_expired():
    """What was ended before a start, because it would have been late, is told apart."""
    tally = Tally()
    for number, reason in enumerate(ExpireReason, start=1):
        request = a_request(number, tier="gold", budget="10ms")
        expire = Expire(request_id=number, stage=Stage.WAITING, reason=reason)
        tally(0, RequestArrived(request=request), [expire])
    gold = tally.tiers["gold"]
    assert (gold.expired, gold.given_up) == (len(ExpireReason), len(ExpireReason) - 1)


def test_tallies_are_added_up():
    """Counts and histograms together say what one tally of both would have."""
    first = TierTally(arrived=3, completed=2, late=1, expired=1, histogram={500: 1, 600: 1})
    second = TierTally(arrived=2, completed=1, rejected=1, histogram={600: 1})
    both = TierTally.merged([first, second])
    assert (both.arrived, both.completed, both.violations) == (5, 3, 3)
    assert both.histogram == {500: 1, 600: 2}
    assert first.histogram == {500: 1, 600: 1}
