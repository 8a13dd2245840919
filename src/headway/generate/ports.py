"""What a host needs of a step scheduler, whichever it is: events in, answers and plans out."""

from typing import Protocol

from headway.generate.blocks import KvAccount
from headway.generate.events import Answer, Event, StepPlan
from headway.generate.roster import Roster

__all__ = ["StepScheduler"]


class StepScheduler(Protocol):
    """Decides which sequences run in the next forward pass. Pure: instants are arguments."""

    name: str
    roster: Roster

    @property
    def pool(self) -> KvAccount:
        """The account of memory for keys and values."""

    def handle(self, event: Event, now_ns: int) -> list[Answer]:
        """Take in what has happened."""

    def plan(self, now_ns: int) -> StepPlan | None:
        """The next step, or None where there is nothing to do before the next event."""
