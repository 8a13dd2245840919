"""Device time in a period of the calendar."""

from datetime import UTC, datetime

import pytest

from headway.tenancy import Period
from headway.tenancy.quotas import Quota, period_bounds
from headway.units import NS_PER_S


def at(*fields):
    """An instant of UTC in nanoseconds."""
    return int(datetime(*fields, tzinfo=UTC).timestamp()) * NS_PER_S


NOON = at(2026, 12, 31, 12, 30)


@pytest.mark.parametrize(
    ("period", "start", "end"),
    [
        (Period.HOUR, at(2026, 12, 31, 12), at(2026, 12, 31, 13)),
        (Period.DAY, at(2026, 12, 31), at(2027, 1, 1)),
        (Period.MONTH, at(2026, 12, 1), at(2027, 1, 1)),
    ],
)
def test_period_is_one_of_the_calendar(period, start, end):
    """At the end of a year, too."""
    assert period_bounds(period, NOON) == (start, end)
    assert period_bounds(period, start) == (start, end)
    assert period_bounds(period, end - 1) == (start, end)


def a_quota(limit_ns=100, burst_ns=0, used_ns=0):
    """Of an hour."""
    return Quota(limit_ns, Period.HOUR, burst_ns, used_ns=used_ns, unix_ns=NOON)


def test_quota_holds_what_is_expected_and_pays_what_it_took():
    """Held while it runs, settled by the true time; for nothing where nothing came of it."""
    quota = a_quota()
    quota.hold(60)
    assert quota.remaining_ns(NOON) == 40
    quota.settle(60, 25, NOON)
    assert quota.remaining_ns(NOON) == 75
    quota.hold(60)
    quota.settle(60, 0, NOON)
    assert quota.remaining_ns(NOON) == 75


def test_quota_begins_anew_with_the_period():
    """And says when that is."""
    quota = a_quota(used_ns=90)
    assert quota.resets_in_ns(NOON) == 1800 * NS_PER_S
    assert quota.remaining_ns(NOON) == 10
    assert quota.remaining_ns(at(2026, 12, 31, 13)) == 100


def test_quota_lends_a_burst_and_takes_it_off_the_next_period():
    """A burst moves device time from one period to another; it makes none."""
    quota = a_quota(burst_ns=50)
    quota.hold(140)
    quota.settle(140, 140, NOON)
    assert quota.remaining_ns(NOON) == 10
    assert quota.remaining_ns(at(2026, 12, 31, 13)) == 110
    assert quota.remaining_ns(at(2026, 12, 31, 14)) == 150


def test_quota_that_nobody_asked_for_hours_forgets_them_all():
    """Each period that passed had its own."""
    quota = a_quota(burst_ns=50, used_ns=140)
    assert quota.remaining_ns(at(2027, 1, 15)) == 150
    assert quota.resets_in_ns(at(2027, 1, 15)) == 3600 * NS_PER_S


def test_quota_that_is_changed_keeps_what_was_used_and_held():
    """Another limit is no new beginning; what runs is settled against the new one."""
    quota = a_quota(used_ns=30)
    quota.hold(20)
    quota.change(200, Period.HOUR, 0, used_ns=99, unix_ns=NOON)
    assert quota.remaining_ns(NOON) == 150
    quota.settle(20, 20, NOON)
    assert quota.remaining_ns(NOON) == 150


def test_quota_of_another_period_begins_with_what_its_book_says():
    """A day's use is none of an hour's business; what runs is settled all the same."""
    quota = a_quota(used_ns=90)
    quota.hold(20)
    quota.change(200, Period.DAY, 0, used_ns=95, unix_ns=NOON)
    assert quota.remaining_ns(NOON) == 85
    assert quota.resets_in_ns(NOON) == at(2027, 1, 1) - NOON
    quota.settle(20, 20, NOON)
    assert quota.remaining_ns(NOON) == 85


def test_quota_is_paid_for_in_the_period_in_which_work_ends():
    """Also where nobody has asked since it began anew."""
    quota = a_quota(limit_ns=100)
    quota.hold(90)
    quota.settle(90, 90, at(2026, 12, 31, 13, 30))
    assert quota.remaining_ns(at(2026, 12, 31, 13, 30)) == 10
