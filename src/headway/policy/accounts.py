"""Fairness between the tenants of a class: an account of device time for each, and rounds.

Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) with deadlines inside a round. A
request is charged to its tenant when it is admitted: what it is expected to take, over the tenant's
weight. The charge before its own, over the quantum, is its round; rounds go one after another, and
inside one the order is the policy's. So whoever stays within its share is always in the round that
is being served, and its requests go by deadline alone; whoever sends more than its share is put
off to later rounds, behind nobody else's. What was charged and did not run is given back, and what
ran longer or shorter than was expected is settled when it has.

An account that has lain idle starts again at the round being served: time that was not used is not
saved up. While only one tenant of a class has anything to be served, there is one round, so a
server without tenants is never reordered, and capacity that others leave is used by whoever comes.

Knows tenants and charges. Refuses to know deadlines.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Final

from headway.core import Predictor, Request, RequestId, SlotClass, TenantId

__all__ = ["Accounts"]

_TENANTS_MAX: Final = 10_000
"""Accounts of a class; those that are idle go first."""
_FREE_MIN_RATIO: Final = 1e-3
"""Of the time, which floors leave to the others even where they add up to all of it."""
_BUSY_LOOKED_AT: Final = 64


class _Account:
    """One tenant in one class."""

    __slots__ = ("charged_ns", "live_count", "weight")

    def __init__(self, weight: float, charged_ns: float) -> None:
        self.weight = weight
        self.charged_ns = charged_ns
        """All that was charged so far, over the weight: the deficit is what this is ahead of the
        round being served."""
        self.live_count = 0


class _Class:
    """The accounts of a class."""

    __slots__ = ("accounts", "busy", "served_ns")

    def __init__(self) -> None:
        self.accounts: dict[TenantId, _Account] = {}
        self.busy: dict[TenantId, _Account] = {}
        """Those with requests that have not ended."""
        self.served_ns = 0.0
        """Where the class is: never ahead of a tenant that has something to be served, so that
        what it has not had yet is not forgotten when another is served instead."""

    def least_ns(self) -> float:
        """The least that any of the busy has been charged; of some of them, where they are many."""
        return min([each.charged_ns for each in islice(self.busy.values(), _BUSY_LOOKED_AT)])


class _Charge:
    """What one request was charged, until it is settled."""

    __slots__ = ("expected_ns", "has_ended", "ran_ns", "round_ns", "running_count")

    def __init__(self, round_ns: float, expected_ns: float) -> None:
        self.round_ns = round_ns
        self.expected_ns = expected_ns
        self.ran_ns = 0
        self.running_count = 0
        """Batches with rows of it that run."""
        self.has_ended = False


class Accounts:
    """Device time of each tenant, by class.

    Args:
        predictor: says what a request is expected to take.
        weights: of tenants; those not named have weight 1.
        floors: part of a class's device time that a tenant is to have whatever its weight says, 0
            to 1; what it asks for beyond that is by weight.
        quantum_ns: device time, at weight 1, that makes a round.

    Invariants: a request is charged once, and settled once: when it has ended and nothing of it
    runs any more.
    """

    def __init__(
        self,
        predictor: Predictor,
        weights: Mapping[TenantId, float],
        floors: Mapping[TenantId, float],
        quantum_ns: int,
    ) -> None:
        self._predictor = predictor
        self._weights = _with_floors(weights, floors)
        self._quantum_ns = quantum_ns
        self._classes: Mapping[SlotClass, _Class] = {each: _Class() for each in SlotClass}
        self._charges: dict[RequestId, _Charge] = {}

    def round_of(self, request: Request) -> int:
        """The round that a request would be in, were it admitted now."""
        of_class = self._classes[request.slot_class]
        return int(self._start_ns(of_class, request.tenant) // self._quantum_ns)

    def ahead_ns(self, request: Request) -> float:
        """Device time that others of its class are to have before the next of its tenant."""
        of_class = self._classes[request.slot_class]
        ahead_ns = self._start_ns(of_class, request.tenant) - of_class.served_ns
        if ahead_ns <= 0.0:
            return 0.0
        weights = [each.weight for each in islice(of_class.busy.values(), _BUSY_LOOKED_AT)]
        return ahead_ns * sum(weights)

    def is_within_share(self, request: Request) -> bool:
        """Whether its round is being served, or was: its tenant has not had more than its part."""
        served_ns = self._classes[request.slot_class].served_ns
        return self.round_index(request) <= int(served_ns // self._quantum_ns)

    def round_index(self, request: Request) -> int:
        """The round that a request is in, once it was admitted; before, the one it would be in."""
        charge = self._charges.get(request.request_id)
        return (
            self.round_of(request) if charge is None else int(charge.round_ns // self._quantum_ns)
        )

    def admitted(self, request: Request, now_ns: int) -> None:
        """It is charged."""
        of_class = self._classes[request.slot_class]
        start_ns = self._start_ns(of_class, request.tenant)
        account = of_class.accounts.get(request.tenant)
        if account is None:
            if len(of_class.accounts) >= _TENANTS_MAX:
                _forget_idle(of_class)
            weight = self._weights.get(request.tenant, 1.0)
            account = of_class.accounts[request.tenant] = _Account(weight, start_ns)
        expected_ns = float(self._predictor.solo_ns(request.model, request.rows))
        of_class.busy[request.tenant] = account
        account.live_count += 1
        account.charged_ns = start_ns + expected_ns / account.weight
        self._charges[request.request_id] = _Charge(start_ns, expected_ns)

    def started(self, request: Request, rows: int, now_ns: int) -> None:
        """Its round is being served."""
        charge = self._charges.get(request.request_id)
        if charge is not None:
            charge.running_count += 1
            of_class = self._classes[request.slot_class]
            of_class.served_ns = max(of_class.served_ns, min(charge.round_ns, of_class.least_ns()))

    def ran(self, request: Request, device_ns: int, now_ns: int) -> None:
        """Some of it, or all, was executed; its batch may outlast it."""
        charge = self._charges.get(request.request_id)
        if charge is not None:
            charge.ran_ns += device_ns
            charge.running_count -= 1
            self._settle(request, charge)

    def ended(self, request: Request, is_met: bool, now_ns: int) -> None:
        """Its tenant waits for it no longer; what still runs of it is paid for when it has run."""
        charge = self._charges.get(request.request_id)
        if charge is None:
            return
        charge.has_ended = True
        of_class = self._classes[request.slot_class]
        account = of_class.accounts[request.tenant]
        account.live_count -= 1
        if account.live_count == 0:
            del of_class.busy[request.tenant]
        self._settle(request, charge)

    def _settle(self, request: Request, charge: _Charge) -> None:
        """Give back what was charged too much, charge what was too little, once that is known."""
        if not charge.has_ended or charge.running_count > 0:
            return
        del self._charges[request.request_id]
        account = self._classes[request.slot_class].accounts.get(request.tenant)
        if account is not None:  # else it lay idle and was forgotten meanwhile
            account.charged_ns += (charge.ran_ns - charge.expected_ns) / account.weight

    def _start_ns(self, of_class: _Class, tenant: TenantId) -> float:
        """Where a tenant's next request begins."""
        account = of_class.accounts.get(tenant)
        if account is None:
            return of_class.served_ns
        others_count = len(of_class.busy) - (account.live_count > 0)
        if others_count == 0:
            return of_class.served_ns
        return max(of_class.served_ns, account.charged_ns)


def _with_floors(
    weights: Mapping[TenantId, float], floors: Mapping[TenantId, float]
) -> dict[TenantId, float]:
    """Weights such that a tenant with a floor has that part at least among all that are named.

    Those whose weight gives them less than their floor get the floor; what that leaves is shared by
    weight among the others, which may put one more of them below its own.
    """
    given = {tenant: weights.get(tenant, 1.0) for tenant in {**weights, **floors}}
    raised: dict[TenantId, float] = {}
    while True:
        rest = sum([weight for tenant, weight in given.items() if tenant not in raised]) or 1.0
        free = max(_FREE_MIN_RATIO, 1.0 - sum(raised.values()))
        below = {
            tenant: floor
            for tenant, floor in floors.items()
            if tenant not in raised and given[tenant] / rest * free < floor
        }
        if not below:
            return given | {tenant: rest * floor / free for tenant, floor in raised.items()}
        raised |= below


def _forget_idle(of_class: _Class) -> None:
    """Make place for one more account."""
    for tenant, account in of_class.accounts.items():
        if account.live_count == 0:
            del of_class.accounts[tenant]
            return
