"""What the demo and its load generator say to each other: one order in, lines of news out.

Pure: messages only.
"""

from typing import Final

import msgspec
from msgspec import Struct

__all__ = [
    "NEWS",
    "ORDERS",
    "Finished",
    "MeasureCapacity",
    "Order",
    "PlayWorkload",
    "Playing",
    "Started",
]


class PlayWorkload(Struct, frozen=True, kw_only=True, tag="play"):
    """Send a workload as it is written, whatever becomes of the answers."""

    url: str
    cache: str
    workload: dict[str, object]
    budgets_ns: dict[str, int]
    """By tier, to judge what was refused, because a refusal does not say."""
    samples: str
    """File to write a sample a request to."""


class MeasureCapacity(Struct, frozen=True, kw_only=True, tag="capacity"):
    """Send a workload's requests in their order, so many at a time, as fast as they are done."""

    url: str
    cache: str
    workload: dict[str, object]
    duration_ns: int
    in_flight: int


Order = PlayWorkload | MeasureCapacity


class Started(Struct, frozen=True, tag="started"):
    """All requests are prepared; time runs."""

    planned: int


class Playing(Struct, frozen=True, kw_only=True, tag="playing"):
    """Counts so far."""

    elapsed_ns: int
    done: int
    tiers: dict[str, tuple[int, int]]
    """By tier: requests that ended, and how many of them were let down."""


class Finished(Struct, frozen=True, kw_only=True, tag="finished"):
    """The end."""

    done: int
    elapsed_ns: int


ORDERS: Final = msgspec.json.Decoder(Order)
NEWS: Final[msgspec.json.Decoder[Started | Playing | Finished]] = msgspec.json.Decoder(
    Started | Playing | Finished
)
