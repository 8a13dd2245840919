"""Tag credits: what each tenant of a class may have served before the others have had theirs.

Every round each tag is given `quantum` units times its weight. Tokens cost: an input token
`input_weight` units, an output token `output_weight`, for an output token takes more device time
than one of a prompt. Whoever has saved more credit goes before whoever has saved less; when
none of those who want something has any, the next round begins. So nothing is ever held back while
there is work: a tag that is alone goes through rounds as fast as it is served, and has no debt for
it afterwards.

Credit that is not used is carried over, up to `carry_rounds` rounds: a tag that comes back from a
pause has that much before the others, and no more. What a step takes is known only when it is
planned, so a balance may fall below zero, by what one look costs at most; that is a debt, and is
paid from later rounds.

**Bounds.** Let Q be the quantum, w the weights, k the carried rounds and M the most that a tag is
charged for one choice: a prompt, and the tokens that whoever was let in may yet generate, for it is
not stopped when credit ends; in an engine at most the output weight times the tokens that memory
has room for. A balance stays within -M and (k + 1) Q w. Therefore, over any time in which two tags
want something all along,

    |S_i / w_i - S_j / w_j|  <=  2 ((k + 1) Q + M / min(w_i, w_j)),                        (1)

and a tag that wants something is chosen before any other j has had more than

    (k + 1) Q w_j + M + w_j (k + 1 + M / (Q w_i)) Q,                                       (2)

for it is in debt by M at most, which M / (Q w_i) rounds pay off, in each of which j has Q w_j.
Virtual token counters (Sheng et al., OSDI 2024) are what this becomes with a quantum near 0 and
nothing carried: always the least served, and 2 M as the bound.

Knows tags and units. Refuses to know sequences, deadlines and priorities.
"""

from collections.abc import Iterable, Mapping
from math import floor
from typing import Final

from msgspec import Struct

from headway.core import TenantId

__all__ = ["CreditSettings", "TagCredits"]

_TAGS_MAX: Final = 10_000
"""Accounts; those that lie idle go first, and come back with what a newcomer has."""


_PARTS: Final = 4
"""Of a round of saved credit, that are told apart."""


class CreditSettings(Struct, frozen=True, kw_only=True):
    """How tags share what there is."""

    quantum: float = 1_024.0
    """Units that weight 1 is given in a round."""
    carry_rounds: float = 2.0
    """Of what a tag does not use, rounds that are carried over."""
    input_weight: float = 1.0
    """Units of a token of prompt that goes through the model; one that is shared costs none."""
    output_weight: float = 2.0
    """Units of a generated token."""
    weights: Mapping[TenantId, float] = {}
    """Of tags; those not named have 1."""

    def __post_init__(self) -> None:
        if self.quantum <= 0 or self.carry_rounds < 0:
            raise ValueError("a round needs a quantum above 0, and carries 0 rounds or more")
        if min([self.input_weight, self.output_weight, *self.weights.values()]) <= 0:
            raise ValueError("weights must be above 0")


class _Account:
    """One tag."""

    __slots__ = ("balance", "forfeited", "granted", "spent", "weight")

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.balance = 0.0
        self.granted = 0.0
        self.spent = 0.0
        self.forfeited = 0.0
        """Granted beyond what may be carried over, and lost."""


class TagCredits:
    """The accounts of one class.

    Invariants: of each tag, granted = balance + spent + forfeited; no balance is above what a
    round and the carried ones make.
    """

    def __init__(self, settings: CreditSettings) -> None:
        self._settings = settings
        self._accounts: dict[TenantId, _Account] = {}
        self.round_index = 0

    def has_credit(self, tag: TenantId) -> bool:
        """Whether a tag has something left of this round or those before."""
        return self._account(tag).balance > 0.0

    def level(self, tag: TenantId) -> int:
        """How much a tag has left: 0 without credit, 1 within the round, then quarters of rounds.

        More goes first. Whoever has all that can be carried is thus before whoever has used some,
        and those who keep to their share are all alike.
        """
        account = self._account(tag)
        if account.balance <= 0.0:
            return 0
        rounds = account.balance / (self._settings.quantum * account.weight)
        return 1 + max(0, int(_PARTS * (rounds - 1.0)))

    def carried(self, tag: TenantId) -> int:
        """Quarters of rounds beyond the one being served: what a tag saved up while it was away."""
        return max(0, self.level(tag) - 1)

    def rank(self, tag: TenantId) -> float:
        """As `level`, but saved credit to the unit: more goes first."""
        return min(1, self.level(tag)) + self.saved(tag)

    def saved(self, tag: TenantId) -> float:
        """The same as `carried`, to the unit: rounds beyond the one being served."""
        account = self._account(tag)
        return max(0.0, account.balance / (self._settings.quantum * account.weight) - 1.0)

    def balance(self, tag: TenantId) -> float:
        """Units that a tag may have served before its turn is over; below 0 a debt."""
        return self._account(tag).balance

    def spend(self, tag: TenantId, units: float) -> None:
        """A tag was served."""
        account = self._account(tag)
        account.balance -= units
        account.spent += units

    def spend_tokens(self, tag: TenantId, input_tokens: int, output_tokens: int) -> float:
        """A tag was served these tokens; returns the units that they cost."""
        settings = self._settings
        units = input_tokens * settings.input_weight + output_tokens * settings.output_weight
        self.spend(tag, units)
        return units

    def begin_round(self, wanting: Iterable[TenantId]) -> None:
        """If nobody who wants something has credit, begin as many rounds as it takes."""
        accounts = [self._account(tag) for tag in wanting]
        if not accounts or any(account.balance > 0.0 for account in accounts):
            return
        quantum = self._settings.quantum
        rounds = 1 + min([floor(-each.balance / (quantum * each.weight)) for each in accounts])
        self.round_index += rounds
        for account in self._accounts.values():
            self._grant(account, rounds)

    def figures(self) -> dict[TenantId, float]:
        """Units that each tag has been served."""
        return {tag: account.spent for tag, account in self._accounts.items()}

    def is_conserved(self) -> bool:
        """Whether every unit that was granted is spent, lost, or still there."""
        return all(
            abs(each.granted - each.spent - each.forfeited - each.balance)
            <= 1e-9 * max(1.0, each.granted)
            for each in self._accounts.values()
        )

    def _grant(self, account: _Account, rounds: int) -> None:
        units = self._settings.quantum * account.weight
        balance_max = (1.0 + self._settings.carry_rounds) * units
        account.granted += rounds * units
        account.balance += rounds * units
        if account.balance > balance_max:
            account.forfeited += account.balance - balance_max
            account.balance = balance_max

    def _account(self, tag: TenantId) -> _Account:
        account = self._accounts.get(tag)
        if account is None:
            if len(self._accounts) >= _TAGS_MAX:
                idlest = max(self._accounts, key=lambda each: self._accounts[each].balance)
                del self._accounts[idlest]
            account = self._accounts[tag] = _Account(self._settings.weights.get(tag, 1.0))
            # A newcomer has what one has who was away for long: all that can be carried.
            self._grant(account, 1 + floor(self._settings.carry_rounds))
        return account
