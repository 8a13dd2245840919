"""Who goes first under `headway`, and until when anyone may be made to wait.

Knows classes, rounds, deadlines and a bound on waiting. Refuses to know what runs.
"""

from typing import Final

from headway.core import Request, RequestId, SlotClass
from headway.policy.accounts import Accounts

__all__ = ["Promotion", "Urgency"]

_RANK_PROMOTED: Final = 0
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

    When it has passed the request goes to the front of everyone and starts, on the lane where that
    costs the high requests least.

    Whoever's tenant has had more than its share is not entitled to that: it keeps its place, and is
    told no when its time has passed. Who has begun to run in segments is starved no more, and waits
    for the others by the usual rules. As `Feedback` it sees who has begun.

    Args:
        accounts: of tenants.
        bound_ratio: of the budget; 0 for no promotion.
    """

    def __init__(self, accounts: Accounts, bound_ratio: float) -> None:
        self._accounts = accounts
        self._bound_ratio = bound_ratio
        self._begun: set[RequestId] = set()
        """Those of which some rows have run, or run."""

    def admitted(self, request: Request, now_ns: int) -> None:
        """Of no consequence."""

    def started(self, request: Request, rows: int, now_ns: int) -> None:
        """Nobody who has begun is starved any more."""
        if rows < request.rows:
            self._begun.add(request.request_id)

    def ran(self, request: Request, device_ns: int, now_ns: int) -> None:
        """Of no consequence."""

    def ended(self, request: Request, is_met: bool, now_ns: int) -> None:
        """It is gone."""
        self._begun.discard(request.request_id)

    def is_entitled(self, request: Request) -> bool:
        """Whether it starts whatever that costs, once it has waited for so long."""
        return self._accounts.is_within_share(request)

    def promotes_at_ns(self, request: Request) -> int | None:
        """Instant by which it is started, or told that it will not be; None for no such bound."""
        if request.slot_class is SlotClass.HIGH or self._bound_ratio <= 0.0:
            return None
        if request.request_id in self._begun:
            return None
        return request.arrived_at_ns + int(request.budget_ns * self._bound_ratio)

    def promoted_key(self, request: Request) -> tuple[int, ...]:
        """Before everyone; among the promoted the earliest deadline."""
        round_index = self._accounts.round_index(request)
        begun = request.request_id in self._begun
        rank = (
            _RANK_PROMOTED
            if self.is_entitled(request) and not begun
            else _RANKS[request.slot_class]
        )
        return (rank, round_index, request.deadline_at_ns)
