"""What one tenant has under way, has left and has had."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

from headway.tenancy.buckets import Bucket
from headway.tenancy.outcomes import Ending, Outcome
from headway.tenancy.quotas import Quota
from headway.tenancy.tenants import TenantParams
from headway.units import NS_PER_MS, format_duration

__all__ = ["Account", "LimitState", "TenantCounts", "places_of"]

_LIMITS: Final = ("places", "concurrency", "requests", "rows", "tokens", "quota")
_ENDINGS: Final = ("completed", "invalid", "refused", "expired", "failed", "cancelled")


class LimitState(Struct, frozen=True, gc=False):
    """A limit, what remains of it, and when more does.

    Amounts are requests, rows or tokens; of a quota milliseconds of device time.
    """

    name: str
    """`places`, `concurrency`, `requests`, `rows`, `tokens` or `quota`."""
    limit: float
    remaining: float
    resets_ns: int
    """Until a request that was refused by it may come again; of a quota until it begins anew."""
    unit: str

    def words(self) -> str:
        """As people read it."""
        if self.name == "quota":
            limit, left = (
                format_duration(int(each * NS_PER_MS)) for each in (self.limit, self.remaining)
            )
            return f"{limit} of device time {self.unit}, of which {left} are left"
        if self.name == "places":
            return f"{self.limit:g} requests under way on the server, without what others reserve"
        if self.name == "concurrency":
            return f"{self.limit:g} requests under way"
        return f"{self.limit:g} {self.name} {self.unit}"


class TenantCounts(Struct):
    """What was counted for a tenant since the server started."""

    endings: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_ENDINGS, 0))
    """Requests that were let in, by how they ended."""
    refused: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_LIMITS, 0))
    """Requests that were not, by the limit that stood against them."""
    rows: int = 0
    tokens: int = 0
    device_ns: int = 0


def _first(pair: tuple[int, str]) -> int:
    return pair[0]


def places_of(reserve_ratio: float, places_max: int | None) -> int:
    """Places that a reserve keeps: whole ones, so that all reserves together are never too many."""
    return int((places_max or 0) * reserve_ratio + 1e-9)


class Account:
    """One tenant.

    Invariants: ``in_flight`` counts those who entered and have not left.
    """

    __slots__ = (
        "_between_ns",
        "_requests",
        "_reserved",
        "_rows",
        "_tokens",
        "counts",
        "in_flight",
        "params",
        "quota",
        "rates",
    )

    def __init__(
        self,
        params: TenantParams,
        places_max: int | None,
        now_ns: int,
        unix_ns: int,
        used_ns: int,
    ) -> None:
        self.in_flight = 0
        self.counts = TenantCounts()
        self.rates: dict[str, Bucket] = {}
        self._requests: Bucket | None = None
        self._rows: Bucket | None = None
        self._tokens: Bucket | None = None
        self.quota: Quota | None = None
        self._reserved = 0
        self._between_ns = 0.0
        """A rolling mean of how long its requests are under way."""
        self.change(params, places_max, now_ns, unix_ns, used_ns)

    def change(
        self,
        params: TenantParams,
        places_max: int | None,
        now_ns: int,
        unix_ns: int,
        used_ns: int,
    ) -> None:
        """Take other limits; what was used stays used."""
        self.params = params
        self._reserved = places_of(params.reserve_ratio, places_max)
        wanted = {
            "requests": params.requests_per_s,
            "rows": params.rows_per_s,
            "tokens": params.tokens_per_s,
        }
        before, self.rates = self.rates, {}
        for name, rate in wanted.items():
            if rate is None:
                continue
            self.rates[name] = before.get(name) or Bucket(rate, params.burst_s, now_ns)
            self.rates[name].change(rate, params.burst_s, now_ns)
        self._requests, self._rows, self._tokens = map(self.rates.get, wanted)
        limits = params.quota
        if limits is None:
            self.quota = None
            return
        terms = (limits.device_ns, limits.period, limits.burst_ns)
        if self.quota is None:
            self.quota = Quota(*terms, used_ns=used_ns, unix_ns=unix_ns)
        else:
            self.quota.change(*terms, used_ns=used_ns, unix_ns=unix_ns)

    @property
    def is_full(self) -> bool:
        """Whether it has as many requests under way as it may."""
        concurrency_max = self.params.concurrency_max
        return concurrency_max is not None and self.in_flight >= concurrency_max

    @property
    def unused_reserve(self) -> int:
        """Places that are kept for it and that it does not use."""
        unused = self._reserved - self.in_flight
        return max(0, unused)

    def enter(self, rows: int, expected_ns: int, now_ns: int) -> Quota | None:
        """A request is let in; what is expected of it is held in the quota that comes back."""
        self.in_flight += 1
        if self._requests is not None:
            self._requests.take(1.0, now_ns)
        if self._rows is not None:
            self._rows.take(rows, now_ns)
        if self.quota is not None:
            self.quota.hold(expected_ns)
        return self.quota

    def leave(self, asked_rows: int, outcome: Outcome, began_at_ns: int, now_ns: int) -> None:
        """A request has ended."""
        self.in_flight -= 1
        assert self.in_flight >= 0, "nobody leaves twice"
        self._between_ns += (now_ns - began_at_ns - self._between_ns) / 16
        ending, counts = outcome.ending, self.counts
        counts.endings[ending] += 1
        counts.device_ns += outcome.device_ns
        counts.tokens += outcome.tokens
        if outcome.tokens and self._tokens is not None:
            self._tokens.take(outcome.tokens, now_ns)
        used_rows = asked_rows
        if ending is Ending.COMPLETED:
            used_rows = outcome.rows
            counts.rows += used_rows
        elif ending.is_given_back:
            used_rows = 0
            if self._requests is not None:
                self._requests.take(-1.0, now_ns)
        if used_rows != asked_rows and self._rows is not None:
            self._rows.take(used_rows - asked_rows, now_ns)

    def next_end_ns(self) -> int:
        """Until one of its requests is likely to end."""
        return int(self._between_ns / max(1, self.in_flight))

    def concurrency(self) -> LimitState:
        """Requests under way."""
        limit = self.params.concurrency_max or 0
        return LimitState(
            "concurrency", limit, max(0, limit - self.in_flight), self.next_end_ns(), ""
        )

    def rate_reached(self, rows: int, now_ns: int) -> LimitState | None:
        """The rate by which a request must wait longest; None where it need not."""
        by_requests = by_rows = by_tokens = 0
        if self._requests is not None:
            by_requests = self._requests.wait_ns(1.0, now_ns)
        if self._rows is not None:
            by_rows = self._rows.wait_ns(rows, now_ns)
        if self._tokens is not None:
            # Paid for by those before it: it waits only where they left a debt.
            by_tokens = self._tokens.wait_ns(0.0, now_ns)
        if not (by_requests or by_rows or by_tokens):
            return None
        wait_ns, name = max(
            (by_requests, "requests"), (by_rows, "rows"), (by_tokens, "tokens"), key=_first
        )
        bucket = self.rates[name]
        remaining = max(0.0, bucket.level(now_ns))
        return LimitState(name, bucket.rate_per_s, remaining, wait_ns, "a second")

    def quota_state(self, unix_ns: int) -> LimitState:
        """Device time in this period."""
        assert self.quota is not None, "asked only of a tenant with a quota"
        assert self.params.quota is not None, "which its parameters have, too"
        return LimitState(
            "quota",
            self.quota.limit_ns / NS_PER_MS,
            max(0, self.quota.remaining_ns(unix_ns)) / NS_PER_MS,
            self.quota.resets_in_ns(unix_ns),
            f"a {self.params.quota.period}",
        )

    def limits(self, now_ns: int, unix_ns: int) -> Iterator[LimitState]:
        """Every limit that it has."""
        if self.params.concurrency_max is not None:
            yield self.concurrency()
        for name, bucket in self.rates.items():
            remaining = max(0.0, bucket.level(now_ns))
            yield LimitState(name, bucket.rate_per_s, remaining, bucket.full_ns(now_ns), "a second")
        if self.quota is not None:
            yield self.quota_state(unix_ns)
