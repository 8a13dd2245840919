"""The outer loop: how much is held in reserve, by how many high deadlines were missed of late.

Predictions are wrong now and then, and not all that matters is predicted. So the share of high
requests that miss is measured, and where it is above its target more is kept free for them at once;
where it is not, the reserve shrinks slowly back to what was configured.

Knows outcomes. Refuses to know their reasons.
"""

from typing import Final

from headway.core import Request, SlotClass

__all__ = ["Guard"]

_MEMORY: Final = 1.0 / 50.0
_TIGHTEN: Final = 1.15
_RELAX: Final = 0.995
_TIMES_MAX: Final = 4.0


class Guard:
    """A factor on the reserve.

    Args:
        target_ratio: of high requests that may miss their deadline.

    Invariants: the factor is within 1 and `_TIMES_MAX`.
    """

    def __init__(self, target_ratio: float) -> None:
        self._target_ratio = target_ratio
        self._missed_ratio = 0.0
        self.times = 1.0
        """What the configured reserve is multiplied by."""

    def admitted(self, request: Request, now_ns: int) -> None:
        """Of no consequence."""

    def started(self, request: Request, rows: int, now_ns: int) -> None:
        """Of no consequence."""

    def ran(self, request: Request, device_ns: int, now_ns: int) -> None:
        """Of no consequence."""

    def ended(self, request: Request, is_met: bool, now_ns: int) -> None:
        """One more high request met its deadline or did not."""
        if request.slot_class is SlotClass.LOW:
            return
        self._missed_ratio += _MEMORY * (float(not is_met) - self._missed_ratio)
        if not is_met and self._missed_ratio > self._target_ratio:
            self.times = min(_TIMES_MAX, self.times * _TIGHTEN)
        elif self._missed_ratio <= self._target_ratio:
            self.times = max(1.0, self.times * _RELAX)
