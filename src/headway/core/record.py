"""One kernel step, written down. Journal, metrics, reports and replay all read Records."""

from msgspec import Struct

from headway.core.commands import Command
from headway.core.events import Event

__all__ = ["Record"]


class Record(Struct, frozen=True, kw_only=True, gc=False):
    """`handle(event, now_ns)` returned ``commands``; ``seq`` counts steps from 0."""

    seq: int
    now_ns: int
    event: Event
    commands: list[Command]
