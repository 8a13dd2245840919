"""Device time in a period of the calendar: held while work runs, paid for when it has run.

Knows amounts and instants of UTC. Refuses to know where the time came from.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from headway.units import NS_PER_S

__all__ = ["Period", "Quota", "period_bounds"]

_HOUR_S: Final = 3600


class Period(StrEnum):
    """When a quota begins anew, in UTC."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


def period_bounds(period: Period, unix_ns: int) -> tuple[int, int]:
    """The first instant of the period around an instant, and that of the next one."""
    unix_s = unix_ns // NS_PER_S
    if period is Period.MONTH:
        now = datetime.fromtimestamp(unix_s, UTC)
        start = datetime(now.year, now.month, 1, tzinfo=UTC)
        end = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
        return int(start.timestamp()) * NS_PER_S, int(end.timestamp()) * NS_PER_S
    length_s = _HOUR_S if period is Period.HOUR else 24 * _HOUR_S
    start_s = unix_s - unix_s % length_s
    return start_s * NS_PER_S, (start_s + length_s) * NS_PER_S


class Quota:
    """One tenant's device time.

    Invariants: what is held is never negative; what is used beyond the quota of a period is taken
    off the next.
    """

    __slots__ = ("_burst_ns", "_held_ns", "_limit_ns", "_period", "_resets_at_ns", "_used_ns")

    def __init__(
        self, limit_ns: int, period: Period, burst_ns: int, *, used_ns: int, unix_ns: int
    ) -> None:
        self._limit_ns = limit_ns
        self._burst_ns = burst_ns
        self._period = period
        self._used_ns = used_ns
        self._held_ns = 0
        self._resets_at_ns = period_bounds(period, unix_ns)[1]

    @property
    def limit_ns(self) -> int:
        """What may be used in a period, without the burst."""
        return self._limit_ns

    def remaining_ns(self, unix_ns: int) -> int:
        """What may still be used in this period, the burst included."""
        self._roll(unix_ns)
        return self._limit_ns + self._burst_ns - self._used_ns - self._held_ns

    def resets_in_ns(self, unix_ns: int) -> int:
        """Until the next period."""
        self._roll(unix_ns)
        return self._resets_at_ns - unix_ns

    def hold(self, expected_ns: int) -> None:
        """Set aside what work is expected to take."""
        self._held_ns += expected_ns

    def settle(self, expected_ns: int, actual_ns: int, unix_ns: int) -> None:
        """Pay for what it took, as far as that is owed."""
        self._roll(unix_ns)
        self._held_ns -= expected_ns
        assert self._held_ns >= 0, "what is settled was held"
        self._used_ns += actual_ns

    def change(
        self, limit_ns: int, period: Period, burst_ns: int, *, used_ns: int, unix_ns: int
    ) -> None:
        """Take other limits. What was used stays used; of another period, what its book says."""
        self._roll(unix_ns)
        self._limit_ns = limit_ns
        self._burst_ns = burst_ns
        if period is not self._period:
            self._period = period
            self._used_ns = used_ns
            self._resets_at_ns = period_bounds(period, unix_ns)[1]

    def _roll(self, unix_ns: int) -> None:
        while unix_ns >= self._resets_at_ns:
            self._used_ns = max(0, self._used_ns - self._limit_ns)
            if self._used_ns:
                self._resets_at_ns = period_bounds(self._period, self._resets_at_ns)[1]
            else:
                self._resets_at_ns = period_bounds(self._period, unix_ns)[1]
