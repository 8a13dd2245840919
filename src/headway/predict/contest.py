"""A contest of two predictors over the same executions: whose rolling error is the lower.

Knows predicted and actual times. Refuses to know who made them.
"""

from typing import Final, NamedTuple

from headway.predict.stored import number_of

__all__ = ["Contest"]

_TRIAL: Final = 50
"""Executions before the challenger may win."""
_MEMORY: Final = 0.005
"""Weight of the newest error, once there are two hundred."""
_LOSS_MAX: Final = 3.0
"""No single error counts for more: one hung execution decides nothing."""


class Contest(NamedTuple):
    """Rolling means of |predicted - actual| / actual, each error taken at most for 3.

    Invariants: a challenger with less than 50 executions, or that is no better, has not won.
    """

    scored: int = 0
    challenger: float = 0.0
    champion: float = 0.0

    @property
    def is_won(self) -> bool:
        """The challenger is the better one now."""
        return self.scored >= _TRIAL and self.challenger < self.champion

    def after(self, *, challenger_ns: float, champion_ns: float, actual_ns: float) -> "Contest":
        """The contest with one more execution, which took `actual_ns` > 0."""
        weight = max(_MEMORY, 1.0 / (self.scored + 1))
        challenger = _loss(challenger_ns, actual_ns) - self.challenger
        champion = _loss(champion_ns, actual_ns) - self.champion
        return Contest(
            self.scored + 1,
            self.challenger + weight * challenger,
            self.champion + weight * champion,
        )

    @staticmethod
    def restored(state: object) -> "Contest":
        """From the list of its three numbers; a fresh one from anything else."""
        match state:
            case [int() as scored, challenger, champion] if scored >= 0:
                errors = number_of(challenger), number_of(champion)
                if errors[0] is not None and errors[1] is not None:
                    return Contest(scored, errors[0], errors[1])
        return Contest()


def _loss(predicted_ns: float, actual_ns: float) -> float:
    # In this order, what is not a number counts as the worst.
    return min(_LOSS_MAX, abs(predicted_ns - actual_ns) / actual_ns)
