"""What happened second by second, for as long as a minute, and sums over the last of them.

Knows tiers, tenants and reasons by name. Never where they came from.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from headway.observe.glance import Coverage, Kept
from headway.units import NS_PER_S

__all__ = ["KEPT_S", "Second", "Seconds", "TenantSum"]

KEPT_S: Final = 60
"""Seconds that are kept."""
_TENANTS_MAX: Final = 64
"""Tenants of one second that are told apart; a client may name any."""
OTHERS: Final = "others"
"""All further ones."""


class TenantSum:
    """What a tenant had."""

    __slots__ = ("device_ns", "ended", "in_time")

    def __init__(self) -> None:
        self.device_ns = self.ended = self.in_time = 0


class Judged:
    """Predictions whose time is over."""

    __slots__ = ("count", "covered", "error_count", "errors")

    def __init__(self) -> None:
        self.count = self.covered = self.error_count = 0
        self.errors = 0.0
        """Sum of |predicted - actual| / actual."""

    def add(self, expected_ns: int, bound_ns: int, actual_ns: int) -> None:
        """One that came true or not."""
        self.count += 1
        self.covered += actual_ns <= bound_ns
        self.error_count += 1
        self.errors += abs(expected_ns - actual_ns) / max(1, actual_ns)

    def miss(self) -> None:
        """A bound was broken by what never came to an end."""
        self.count += 1


class Second:
    """All that is counted of one second."""

    __slots__ = ("at_s", "latency", "reasons", "service", "tenants", "tiers")

    def __init__(self, at_s: int) -> None:
        self.at_s = at_s
        self.tiers: dict[str, list[int]] = {}
        """Ended, in time."""
        self.tenants: dict[str, TenantSum] = {}
        self.reasons: dict[tuple[str, str], int] = {}
        """By outcome and reason."""
        self.service = Judged()
        self.latency = Judged()

    def end(self, tier: str, tenant: str, *, is_in_time: bool) -> None:
        """A request has ended."""
        counts = self.tiers.get(tier)
        if counts is None:
            counts = self.tiers[tier] = [0, 0]
        counts[0] += 1
        counts[1] += is_in_time
        of = self.tenant(tenant)
        of.ended += 1
        of.in_time += is_in_time

    def tenant(self, name: str) -> TenantSum:
        """The sums of a tenant, or of all that are too many."""
        found = self.tenants.get(name)
        if found is None:
            if len(self.tenants) >= _TENANTS_MAX and name != OTHERS:
                return self.tenant(OTHERS)
            found = self.tenants[name] = TenantSum()
        return found


class Seconds:
    """The last seconds.

    Invariants: at most `KEPT_S` of them, in order, none twice.
    """

    def __init__(self) -> None:
        self._seconds: deque[Second] = deque(maxlen=KEPT_S)

    def at(self, now_ns: int) -> Second:
        """The second of an instant, which is never before that of the call before."""
        at_s = now_ns // NS_PER_S
        if not self._seconds or self._seconds[-1].at_s != at_s:
            self._seconds.append(Second(at_s))
        return self._seconds[-1]

    def last(self, now_ns: int, length_s: int) -> Iterator[Second]:
        """Those of so many seconds up to now, the current one included."""
        from_s = now_ns // NS_PER_S - length_s
        return (second for second in self._seconds if second.at_s > from_s)

    def clear(self) -> None:
        """Forget all."""
        self._seconds.clear()

    def kept(self, now_ns: int, length_s: int) -> dict[str, Kept]:
        """What ended in so many seconds, by tier."""
        sums: dict[str, list[int]] = {}
        for second in self.last(now_ns, length_s):
            for tier, (ended, in_time) in second.tiers.items():
                of = sums.setdefault(tier, [0, 0])
                of[0] += ended
                of[1] += in_time
        return {tier: Kept(*of) for tier, of in sums.items()}

    def tenants(self, now_ns: int) -> dict[str, TenantSum]:
        """The sums of all tenants over the whole time."""
        sums: dict[str, TenantSum] = {}
        for second in self.last(now_ns, KEPT_S):
            for name, of in second.tenants.items():
                found = sums.setdefault(name, TenantSum())
                found.device_ns += of.device_ns
                found.ended += of.ended
                found.in_time += of.in_time
        return sums

    def reasons(self, now_ns: int) -> dict[tuple[str, str], int]:
        """How many requests ended for each reason over the whole time."""
        sums: dict[tuple[str, str], int] = {}
        for second in self.last(now_ns, KEPT_S):
            for reason, count in second.reasons.items():
                sums[reason] = sums.get(reason, 0) + count
        return sums

    def coverage(self, now_ns: int) -> tuple[Coverage, Coverage]:
        """How right predictions were over the whole time: of batches, and of requests."""
        seconds = [*self.last(now_ns, KEPT_S)]
        return (
            _coverage([second.service for second in seconds]),
            _coverage([second.latency for second in seconds]),
        )


def _coverage(judged: list[Judged]) -> Coverage:
    errors = sum([each.error_count for each in judged])
    return Coverage(
        judged=sum([each.count for each in judged]),
        covered=sum([each.covered for each in judged]),
        error_ratio=round(sum([each.errors for each in judged]) / errors, 4) if errors else None,
    )
