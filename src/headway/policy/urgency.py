"""Who goes first under `headway`, and until when anyone may be made to wait.

Knows classes, rounds, deadlines and a bound on waiting. Refuses to know what runs.
"""

from typing import Final

from headway.core import FleetView, Request, RequestId, SlotClass
from headway.policy.accounts import Accounts
from headway.policy.outlook import Outlook
from headway.policy.running import lanes_of
from headway.units import NS_PER_S

__all__ = ["Promotion", "Urgency"]

_RANK_PROMOTED: Final = 0
_LEAD_RATIO: Final = 0.95
"""Part of the bound after which it is acted on."""
_OWED_MAX_NS: Final = 0.25 * NS_PER_S
"""Neither side can save up more."""
_RANKS: Final = {SlotClass.HIGH: 1, SlotClass.LOW: 2}


class Urgency:
    """Class, then the round of the tenant, then the deadline.

    Priorities inside a class do not decide who goes first, but who is given up where not all can be
    in time: to serve by deadline keeps most deadlines, and a place before others is worth nothing
    to whoever is in time behind them.
    """

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def key(self, request: Request) -> tuple[int, ...]:
        """High before low; inside, the tenants' rounds; in a round the earliest deadline."""
        round_index = self._accounts.round_of(request)
        return (_RANKS[request.slot_class], round_index, request.deadline_at_ns)


class Promotion:
    """The bound on starvation: a part of a low request's own budget.

    When it has passed, and high work alone takes all there is, the request goes to the front of
    everyone and starts, on the lane where that costs the high requests least.

    Whoever's tenant has had more than its share is not entitled to that: it keeps its place, and is
    told no when its time has passed. Who has begun to run in segments is starved no more, and waits
    for the others by the usual rules. As `Feedback` it sees who has begun.

    Args:
        accounts: of tenants.
        outlook: says whether high work alone takes all there is; else nobody is promoted.
        bound_ratio: of the budget; 0 for no promotion.
        share_ratio: part of the devices' time that low work is owed, whatever that costs others.
    """

    def __init__(
        self, accounts: Accounts, outlook: Outlook, bound_ratio: float, *, share_ratio: float
    ) -> None:
        self._accounts = accounts
        self._outlook = outlook
        self._bound_ratio = bound_ratio
        self._share_ratio = share_ratio
        self._owed_ns = _OWED_MAX_NS
        """Device time that low work may have: time adds to it, all low work that runs takes it."""
        self._owed_at_ns = 0
        self._lanes = 1
        """Of all devices, when they were last looked at."""
        self._begun: set[RequestId] = set()
        """Those of which some rows have run, or run."""

    def admitted(self, request: Request, now_ns: int) -> None:
        """Of no consequence."""

    def started(self, request: Request, rows: int, now_ns: int) -> None:
        """Nobody who has begun is starved any more."""
        if rows < request.rows:
            self._begun.add(request.request_id)

    def ran(self, request: Request, device_ns: int, now_ns: int) -> None:
        """Low work has had that much of what it was owed."""
        if request.slot_class is SlotClass.LOW:
            self._refill(now_ns)
            self._owed_ns = max(-_OWED_MAX_NS, self._owed_ns - device_ns)

    def ended(self, request: Request, is_met: bool, now_ns: int) -> None:
        """It is gone."""
        self._begun.discard(request.request_id)

    def is_owed(self, fleet: FleetView, now_ns: int) -> bool:
        """Whether low work has had less of the devices' time than it should at least."""
        self._lanes = sum([lanes_of(device) for device in fleet.all_devices()])
        self._refill(now_ns)
        return self._share_ratio > 0.0 and self._owed_ns > 0.0

    def _refill(self, now_ns: int) -> None:
        passed_ns = (now_ns - self._owed_at_ns) * self._share_ratio * self._lanes
        self._owed_at_ns = now_ns
        self._owed_ns = min(_OWED_MAX_NS, self._owed_ns + passed_ns)

    def is_entitled(self, request: Request) -> bool:
        """Whether it starts whatever that costs, once it has waited for so long."""
        return self._accounts.is_within_share(request)

    def promotes_at_ns(self, request: Request) -> int | None:
        """A little before it has waited for as long as it may: then it starts or is told no.

        A little before, for a slot must be free for that. None where there is no such bound.
        """
        if request.slot_class is SlotClass.HIGH or self._bound_ratio <= 0.0:
            return None
        if request.request_id in self._begun:
            return None
        return request.arrived_at_ns + int(request.budget_ns * self._bound_ratio * _LEAD_RATIO)

    def promoted_key(self, request: Request) -> tuple[int, ...]:
        """Before everyone; among the promoted the earliest deadline."""
        round_index = self._accounts.round_index(request)
        at_ns = self.promotes_at_ns(request)
        is_starved = at_ns is not None and self._outlook.is_crowded_out(at_ns)
        rank = _RANKS[request.slot_class]
        if is_starved and self.is_entitled(request):
            rank = _RANK_PROMOTED
        return (rank, round_index, request.deadline_at_ns)
