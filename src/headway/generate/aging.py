"""The bound on starvation between classes: whoever waits too long is owed a floor.

Strict priority serves a lower class only while the higher ones leave something. So a class of which
somebody has been in no step for longer than `after_ns`, whether it waits or has begun and pauses,
is owed `floor_ratio` of all that is served from then on; while it has had less than that, its
prompt goes before everybody's, past the gate, and one of it decodes in any case.

**Bound.** The first in line of any class begins at the latest `after_ns` after it came there, and
then when the others have been served (x + d) / floor_ratio units, x being what it costs to begin
and d <= `owed_max` what the class is ahead by; if memory is what it lacks, nobody else begins until
it has it. Where classes take turns by themselves nobody is ever owed anything, and the order is
that of priorities.

Knows classes and units. Refuses to know tags, memory and deadlines.
"""

from typing import Final

from msgspec import Struct

from headway.units import NS_PER_S

__all__ = ["Aging", "AgingSettings"]

_CLASSES_MAX: Final = 64


class AgingSettings(Struct, frozen=True, kw_only=True):
    """When a class is owed something, and how much."""

    after_ns: int = 30 * NS_PER_S
    floor_ratio: float = 0.05
    """Of all units served; 0 for strict priority without a bound."""
    owed_max: float = 8_192.0
    """Units that a class may be owed, or be ahead by, at most."""

    def __post_init__(self) -> None:
        if self.after_ns < 0 or not 0.0 <= self.floor_ratio <= 0.5 or self.owed_max <= 0:
            raise ValueError("aging needs a time, a floor of 0 to 0.5, and a limit above 0")


class Aging:
    """What each class is owed.

    Invariants: nothing owed is beyond ``owed_max`` either way.
    """

    def __init__(self, settings: AgingSettings) -> None:
        self._settings = settings
        self._owed: dict[int, float] = {}

    def is_aged(self, waited_ns: int) -> bool:
        """Whether somebody has waited for too long."""
        return self._settings.floor_ratio > 0.0 and waited_ns > self._settings.after_ns

    def waits(self, priority: int, *, is_aged: bool) -> None:
        """The first in line of a class, seen once a step; one that is not aged is owed nothing."""
        if not is_aged:
            self._owed.pop(priority, None)
        elif priority not in self._owed and len(self._owed) < _CLASSES_MAX:
            self._owed[priority] = 0.0

    def is_owed(self, priority: int) -> bool:
        """Whether a class goes before all others now."""
        return self._owed.get(priority, 0.0) > 0.0

    def served(self, units: dict[int, float]) -> None:
        """A step was planned: units of each class."""
        if not self._owed:
            return
        total = sum(units.values())
        limit = self._settings.owed_max
        for priority, owed in self._owed.items():
            now_owed = owed + self._settings.floor_ratio * total - units.get(priority, 0.0)
            self._owed[priority] = min(max(now_owed, -limit), limit)
