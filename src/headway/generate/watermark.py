"""The gate on memory for keys and values: shut above a high mark, open again below a low one.

Above the high mark no new sequence of a gated tier begins; those that run go on, and end. The two
marks keep it from opening for one sequence and shutting again: between them it stays as it is.

The textbook form evicts running sequences at the high mark until the low one is reached. It is kept
by name, to be compared with: what it evicts has to be computed again, and the memory that it frees
is filled again at once by what waits. ADR 0022 has what that costs.
"""

from enum import StrEnum

from msgspec import Struct

__all__ = ["MarkAction", "Watermark", "WatermarkFigures", "WatermarkSettings"]


class MarkAction(StrEnum):
    """What happens at the high mark."""

    GATE = "gate"
    EVICT = "evict"


class WatermarkSettings(Struct, frozen=True, kw_only=True):
    """The marks, as parts of the memory for keys and values."""

    high_ratio: float = 0.85
    low_ratio: float = 0.70
    action: MarkAction = MarkAction.GATE

    def __post_init__(self) -> None:
        if not 0.0 < self.low_ratio <= self.high_ratio <= 1.0:
            raise ValueError(f"0 < `{self.low_ratio}` <= `{self.high_ratio}` <= 1 does not hold")


class WatermarkFigures(Struct, frozen=True):
    """What a monitor shows."""

    use_ratio: float
    is_open: bool
    shut_count: int
    """Times that the high mark was reached."""


class Watermark:
    """Whether gated tiers may begin."""

    def __init__(self, settings: WatermarkSettings) -> None:
        self.settings = settings
        self.is_open = True
        self._use_ratio = 0.0
        self._shut_count = 0

    def look(self, use_ratio: float) -> bool:
        """Take in how much is used; returns whether the gate is open."""
        self._use_ratio = use_ratio
        if self.is_open and use_ratio >= self.settings.high_ratio:
            self.is_open = False
            self._shut_count += 1
        elif not self.is_open and use_ratio <= self.settings.low_ratio:
            self.is_open = True
        return self.is_open

    @property
    def figures(self) -> WatermarkFigures:
        """As of the last look."""
        return WatermarkFigures(self._use_ratio, self.is_open, self._shut_count)
