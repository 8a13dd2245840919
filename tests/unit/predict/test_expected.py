"""Rates of arrivals."""

import pytest

from headway.core import SlotClass
from headway.predict.expected import ArrivalRates

MS = 1_000_000
HIGH, LOW = SlotClass.HIGH, SlotClass.LOW


def fed(gaps_ns, work_ns=5 * MS, priority=1, slot_class=HIGH, model="m"):
    """Rates after arrivals at these gaps, of a model that runs on `d`; and the last instant."""
    rates, now_ns = ArrivalRates(), 0
    rates.went(model, "d")
    for gap_ns in gaps_ns:
        now_ns += gap_ns
        rates.arrive(model, priority, slot_class, work_ns, now_ns)
    return rates, now_ns


def test_nothing_is_expected_before_there_is_a_rate():
    """One arrival is no rate."""
    rates, now_ns = fed([0])
    assert rates.inflow("d", now_ns).work_rate == 0.0


def test_steady_arrivals_give_their_rate_and_size():
    """5 ms of work each 10 ms is half a lane."""
    rates, now_ns = fed([10 * MS] * 100)
    inflow = rates.inflow("d", now_ns)
    assert inflow.work_rate == pytest.approx(0.5, rel=0.01)
    assert inflow.piece_ns == pytest.approx(5 * MS)


def test_a_doubled_rate_is_believed_within_fifty_arrivals():
    """Most of the way after fifty."""
    rates, now_ns = fed([10 * MS] * 100 + [5 * MS] * 50)
    assert rates.inflow("d", now_ns).work_rate > 0.75


def test_silence_fades():
    """Ten seconds without an arrival, and hardly any is expected."""
    rates, now_ns = fed([10 * MS] * 100)
    assert rates.inflow("d", now_ns + 10_000 * MS).work_rate < 0.05


def test_classes_and_priorities_are_told_apart():
    """Only what is asked for is counted."""
    rates, now_ns = fed([0])
    for _ in range(100):
        now_ns += 10 * MS
        rates.arrive("m", 0, HIGH, 2 * MS, now_ns)
        rates.arrive("m", 5, LOW, 8 * MS, now_ns)
    high = rates.inflow("d", now_ns, classes=(HIGH,)).work_rate
    both = rates.inflow("d", now_ns).work_rate
    assert high == pytest.approx(both / 5, rel=0.05)
    assert rates.inflow("d", now_ns, above=5).work_rate == pytest.approx(high, rel=0.05)
    assert rates.inflow("d", now_ns, above=0).work_rate == 0.0
    assert rates.inflow("elsewhere", now_ns).work_rate == 0.0


def test_arrivals_follow_where_batches_went():
    """A model that runs half here and half there brings half of its work to each."""
    rates, now_ns = fed([0])
    for turn in range(400):
        now_ns += 10 * MS
        rates.went("m", ("d", "e")[turn % 2])
        rates.arrive("m", 1, HIGH, 5 * MS, now_ns)
    assert rates.inflow("d", now_ns).work_rate == pytest.approx(0.25, rel=0.1)
    assert rates.device_of("m") in {"d", "e"}
    assert rates.device_of("other") is None


def test_levels_are_bounded():
    """A priority for each request does not grow the tables without end."""
    rates, now_ns = fed([0])
    for priority in range(500):
        now_ns += MS
        rates.arrive("m", priority, HIGH, MS, now_ns)
    assert len(rates._parts) <= 64


def test_asking_for_every_priority_grows_nothing():
    """Estimates are no arrivals, and clients choose the priority."""
    rates, now_ns = fed([10 * MS] * 100, priority=5)
    asked = [rates.inflow("d", now_ns, above=above).work_rate for above in range(1000)]
    assert [rate > 0.0 for rate in asked] == [above > 5 for above in range(1000)]
    assert len(rates._totals) <= 64


def test_models_are_bounded():
    """Of a model beyond the limit nobody knows where it goes, and its work counts nowhere."""
    rates = ArrivalRates()
    for number in range(1_100):
        rates.went(f"m{number}", "d")
    assert (rates.device_of("m1023"), rates.device_of("m1024")) == ("d", None)
