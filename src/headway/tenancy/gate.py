"""The gate before the scheduler: whose request is this, may it, and has it anything left?

Asked once when a request arrives, told once how it ended. What it refuses costs the scheduler
nothing. Four kinds of limit, looked at in the order in which they are cheap to lift:

- places: the server has so many requests under way over all tenants, and leaves each tenant with a
  reserve as many as that is; a reserve that its owner does not use is used by nobody else, or it
  would be gone when its owner comes;
- concurrency: requests of one tenant under way;
- rates: requests, rows and tokens a second, each a bucket (`buckets`). Tokens are known only when
  they have been counted, so they are paid for afterwards: who owes some waits;
- quota: device time in a period (`quotas`). What a request is expected to take is held while it
  runs, so many at once cannot overdraw what one could not; what it took is paid for when it ends.

Work that was cancelled or failed is not paid for. What the scheduler refused has not been used: its
request and rows are given back.

Knows keys by their hashes. Refuses to know a wire, and what any tier means.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

from msgspec.structs import replace

from headway.core import ModelName, TenantId, TierName
from headway.errors import NotAllowedError, RejectedError
from headway.tenancy.account import Account, LimitState, TenantCounts
from headway.tenancy.keys import KeyRing
from headway.tenancy.outcomes import Ask, Ending, Outcome
from headway.tenancy.quotas import Quota
from headway.tenancy.tenants import TenantParams
from headway.units import NS_PER_MS, format_duration

__all__ = ["Gate", "Pass"]

_RETRY_NS_MIN: Final = 10 * NS_PER_MS
_UNKNOWN: Final = ModelName("unknown")


class Pass:
    """A request that was let in; what is held for it is given back with `Gate.leave`."""

    __slots__ = ("account", "ask", "at_ns", "expected_ns", "quota")

    def __init__(
        self, account: Account, ask: Ask, quota: Quota | None, expected_ns: int, at_ns: int
    ) -> None:
        self.account = account
        self.ask = ask
        self.quota = quota
        """In which the device time that is expected of it is held; it may have another by now."""
        self.expected_ns = expected_ns
        self.at_ns = at_ns

    @property
    def tenant(self) -> TenantId:
        """Whose it is."""
        return self.account.params.tenant

    @property
    def tier(self) -> TierName | None:
        """The tier of its tenant, for a request that names none."""
        return self.account.params.tier

    @property
    def has_tiers(self) -> bool:
        """Whether its tenant may have some tiers only."""
        return bool(self.account.params.tiers)

    def check_tier(self, tier: TierName) -> None:
        """See that its tenant may have a tier.

        Raises:
            NotAllowedError: it may not.
        """
        params = self.account.params
        if params.tiers and tier not in params.tiers:
            raise NotAllowedError(
                f"tenant `{params.tenant}` may not have tier `{tier}`",
                hint=f"it may ask for {', '.join(sorted(params.tiers))}",
            )


class Book(Protocol):
    """Where use is written down."""

    def note(self, tenant: TenantId, ask: Ask, outcome: Outcome, unix_ns: int) -> None:
        """Write down a request that came to something: whose, what, how it ended, when."""


class Gate:
    """All tenants.

    Args:
        tenants: who there is.
        anonymous: whose a request without a key is; None refuses it.
        places_max: requests under way over all tenants; None for no limit.
        started_at_unix_ns: the wall clock at the instant 0 of `now_ns`. It is read once, so that
            a clock that is set meanwhile moves no period.
        models: whose names are written down; a request that is refused may name anything.
        used: device time that tenants have used of their quota already.
        book: is told of every request that ended, and of those refused here; None where no book
            is kept.

    Invariants: what is under way is the sum over the accounts; a place of a reserve that its owner
    does not use is counted in ``_unused_reserve``.
    """

    def __init__(
        self,
        tenants: Sequence[TenantParams],
        *,
        anonymous: TenantId | None = None,
        places_max: int | None = None,
        models: frozenset[ModelName] = frozenset(),
        started_at_unix_ns: int,
        used: Mapping[TenantId, int] = MappingProxyType({}),
        book: Book | None = None,
    ) -> None:
        self._places_max = places_max
        self._models = models
        self._started_at_unix_ns = started_at_unix_ns
        self._book = book
        self._in_flight = 0
        self._unused_reserve = 0
        self._row_ns: dict[ModelName, float] = {}
        """Device time of a row, of what has ended; a rolling mean."""
        self._accounts: dict[TenantId, Account] = {}
        self._keys: KeyRing[Account] = KeyRing(())
        self._anonymous: Account | None = None
        self.replace(tenants, anonymous, started_at_unix_ns, used)

    def replace(
        self,
        tenants: Sequence[TenantParams],
        anonymous: TenantId | None,
        unix_ns: int,
        used: Mapping[TenantId, int] = MappingProxyType({}),
    ) -> None:
        """Take other tenants, keys and limits; what is counted for those who stay is kept."""
        now_ns = unix_ns - self._started_at_unix_ns
        before, self._accounts = self._accounts, {}
        for params in tenants:
            terms = (self._places_max, now_ns, unix_ns, used.get(params.tenant, 0))
            account = before.get(params.tenant)
            if account is None:
                account = Account(params, *terms)
            else:
                account.change(params, *terms)
            self._accounts[params.tenant] = account
        self._keys = KeyRing((each, each.params.keys) for each in self._accounts.values())
        self._anonymous = None if anonymous is None else self._accounts[anonymous]
        self._unused_reserve = sum(account.unused_reserve for account in self._accounts.values())

    def identify(self, credential: str, now_ns: int) -> Account:
        """Whose a key is.

        Raises:
            NotAuthenticatedError: there is no key where one is needed, or nobody's.
        """
        if not credential and self._anonymous is not None:
            return self._anonymous
        return self._keys.owner_of(credential, self._unix_ns(now_ns))

    def enter(self, credential: str, ask: Ask, now_ns: int) -> Pass:
        """Let a request in; `leave` must follow.

        Cost: 5 us with limits of every kind; `leave` takes 3 us.

        Raises:
            NotAuthenticatedError: there is no key, or it is nobody's.
            NotAllowedError: its tenant may not use this model or tier, or is another.
            RejectedError: a limit is reached; says which, what remains, and when to come back.
        """
        account = self.identify(credential, now_ns)
        self.allow(account, ask)
        expected_ns = int(self._row_ns.get(ask.model, 0.0) * ask.rows)
        reached = self._reached(account, ask, expected_ns, now_ns)
        if reached is not None:
            account.counts.refused[reached.name] += 1
            self._tell(account, ask, Outcome(Ending.REFUSED), now_ns)
            raise _refusal(account.params.tenant, reached)
        if account.unused_reserve:
            self._unused_reserve -= 1
        quota = account.enter(ask.rows, expected_ns, now_ns)
        self._in_flight += 1
        return Pass(account, ask, quota, expected_ns, now_ns)

    def leave(self, held: Pass, outcome: Outcome, now_ns: int) -> None:
        """A request that was let in has ended."""
        account = held.account
        is_completed = outcome.ending is Ending.COMPLETED
        if held.quota is not None:
            held.quota.settle(held.expected_ns, outcome.device_ns, self._unix_ns(now_ns))
        account.leave(held.ask.rows, outcome, held.at_ns, now_ns)
        if account.unused_reserve and self._accounts.get(account.params.tenant) is account:
            self._unused_reserve += 1
        self._in_flight -= 1
        assert self._in_flight >= 0, "nobody leaves twice"
        if is_completed and outcome.rows:
            self._learn(held.ask.model, outcome.device_ns / outcome.rows)
        if outcome.ending is not Ending.INVALID:
            self._tell(account, held.ask, outcome, now_ns)

    def limits(self, account: Account, now_ns: int) -> Iterator[LimitState]:
        """Every limit of a tenant, with what remains and when more does."""
        yield from account.limits(now_ns, self._unix_ns(now_ns))
        if self._places_max is not None:
            yield self._places_of(account, self._places_max)

    def counts(self) -> Mapping[TenantId, TenantCounts]:
        """What was counted for each tenant since the server started."""
        return {tenant: account.counts for tenant, account in self._accounts.items()}

    def in_flight(self) -> Mapping[TenantId, int]:
        """Requests under way."""
        return {tenant: account.in_flight for tenant, account in self._accounts.items()}

    def allow(self, account: Account, ask: Ask) -> None:
        """See that a tenant may have what a request asks for.

        Raises:
            NotAllowedError: it may not.
        """
        params = account.params
        if ask.tenant is not None and ask.tenant != params.tenant:
            raise NotAllowedError(
                f"the request's key is of tenant `{params.tenant}`, not of `{ask.tenant}`",
                hint="leave `headway-tenant` out: the key says who it is",
            )
        if params.models and ask.model not in params.models:
            raise NotAllowedError(
                f"tenant `{params.tenant}` may not use model `{ask.model}`",
                hint=f"it may use {', '.join(sorted(params.models))}",
            )

    def _reached(
        self, account: Account, ask: Ask, expected_ns: int, now_ns: int
    ) -> LimitState | None:
        """The first limit that stands against a request."""
        places_max = self._places_max
        if places_max is not None and self._places_for(account, places_max) < 1:
            return self._places_of(account, places_max)
        if account.is_full:
            return account.concurrency()
        if account.rates:
            rate = account.rate_reached(ask.rows, now_ns)
            if rate is not None:
                return rate
        if account.quota is not None:
            unix_ns = self._unix_ns(now_ns)
            # What is larger than a quota may run when all of it is there, as with rates.
            needed_ns = max(1, min(expected_ns, account.quota.limit_ns))
            if account.quota.remaining_ns(unix_ns) < needed_ns:
                return account.quota_state(unix_ns)
        return None

    def _places_for(self, account: Account, places_max: int) -> int:
        """Places that nobody else has, or has reserved."""
        return places_max - self._in_flight - self._unused_reserve + account.unused_reserve

    def _places_of(self, account: Account, places_max: int) -> LimitState:
        free = max(0, self._places_for(account, places_max))
        return LimitState("places", places_max, free, account.next_end_ns(), "")

    def _tell(self, account: Account, ask: Ask, outcome: Outcome, now_ns: int) -> None:
        """A name that is not configured may be anything, and is told as no name."""
        if ask.model not in self._models:
            ask = replace(ask, model=_UNKNOWN)
        if self._book is None:
            return
        self._book.note(account.params.tenant, ask, outcome, self._unix_ns(now_ns))

    def _learn(self, model: ModelName, row_ns: float) -> None:
        known_ns = self._row_ns.get(model)
        if known_ns is None:
            self._row_ns[model] = row_ns
        else:
            self._row_ns[model] = known_ns + (row_ns - known_ns) / 16

    def _unix_ns(self, now_ns: int) -> int:
        return self._started_at_unix_ns + now_ns


def _refusal(tenant: TenantId, reached: LimitState) -> RejectedError:
    """What tells a client which limit fired, what remains, and when to come back."""
    resets_ns = max(_RETRY_NS_MIN, reached.resets_ns)
    return RejectedError(
        f"tenant `{tenant}` is at its limit of {reached.words()}",
        reason=f"tenant_{reached.name}",
        retry_after_ns=resets_ns,
        limit=reached.name,
        remaining=round(reached.remaining, 3),
        hint=f"try again in {format_duration(resets_ns)}",
    )
