"""What a request asks of a gate, and how it ended."""

from enum import StrEnum

from msgspec import Struct

from headway.core import ModelName, TenantId, TierName

__all__ = ["Ask", "Ending", "Outcome"]


class Ask(Struct, frozen=True, gc=False):
    """What a request wants, as far as it can be told before it is bound to its model."""

    model: ModelName
    rows: int
    bytes_in: int
    tier: TierName | None = None
    tenant: TenantId | None = None
    """Whom the client says it is."""


class Ending(StrEnum):
    """How a request that was let in ended."""

    COMPLETED = "completed"
    INVALID = "invalid"
    REFUSED = "refused"
    EXPIRED = "expired"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_given_back(self) -> bool:
        """Whether nothing was done for it."""
        return self is Ending.INVALID or self is Ending.REFUSED


class Outcome(Struct, frozen=True, gc=False):
    """What became of a request. Tokens and time are owed, however it ended."""

    ending: Ending
    rows: int = 0
    tokens: int = 0
    device_ns: int = 0
    bytes_out: int = 0
    is_violation: bool = False
