"""The words of generation: a sequence, the terms it was promised, the phases it goes through.

Rule 1: everything that decides what may happen to a sequence next stands in `SEQUENCE_TRANSITIONS`.
Rule 2: this file does not know why it happens.
"""

from enum import StrEnum
from typing import Final, NewType

from msgspec import Struct

from headway.core import ModelName, TenantId, TierName

__all__ = [
    "SEQUENCE_TRANSITIONS",
    "Phase",
    "PhaseStep",
    "SequenceId",
    "SequenceParams",
    "TierTerms",
]

SequenceId = NewType("SequenceId", int)
"""One answer being generated. A client's call that asks for several is as many sequences."""


class Phase(StrEnum):
    """Where a sequence stands."""

    WAITING = "waiting"
    """It holds no keys and values: it has not begun, or what it had was dropped."""
    PREFILL = "prefill"
    """Tokens that are known already go through the model, a chunk a step."""
    DECODE = "decode"
    """One new token a step."""
    SWAPPED = "swapped"
    """Its keys and values lie in host memory."""
    LOADING = "loading"
    """They are on their way back."""
    ENDED = "ended"
    __hash__ = str.__hash__


class PhaseStep(StrEnum):
    """What may be done to a sequence."""

    START = "start"
    PREFILLED = "prefilled"
    DROP = "drop"
    """Preempted by recomputation: what it holds is given up."""
    SWAP_OUT = "swap_out"
    LOAD = "load"
    LOADED = "loaded"
    END = "end"
    __hash__ = str.__hash__


_P = Phase
_S = PhaseStep

SEQUENCE_TRANSITIONS: Final[dict[tuple[Phase, PhaseStep], Phase]] = {
    (_P.WAITING, _S.START): _P.PREFILL,
    (_P.WAITING, _S.END): _P.ENDED,
    (_P.PREFILL, _S.PREFILLED): _P.DECODE,
    (_P.PREFILL, _S.DROP): _P.WAITING,
    (_P.PREFILL, _S.SWAP_OUT): _P.SWAPPED,
    (_P.PREFILL, _S.END): _P.ENDED,
    (_P.DECODE, _S.DROP): _P.WAITING,
    (_P.DECODE, _S.SWAP_OUT): _P.SWAPPED,
    (_P.DECODE, _S.END): _P.ENDED,
    (_P.SWAPPED, _S.LOAD): _P.LOADING,
    (_P.SWAPPED, _S.DROP): _P.WAITING,
    (_P.SWAPPED, _S.END): _P.ENDED,
    (_P.LOADING, _S.LOADED): _P.PREFILL,
    (_P.LOADING, _S.END): _P.ENDED,
}


class TierTerms(Struct, frozen=True, kw_only=True):
    """What a tier promises the sequences in it."""

    name: TierName
    priority: int = 0
    """Lower is served first."""
    ttft_ns: int | None = None
    """Target from arrival to the first token; None for none."""
    tpot_ns: int | None = None
    """Target for each token after the first, on average; None for none."""
    is_gated: bool = False
    """New sequences wait while the keys and values in use are above the high watermark."""
    refuses_unreachable: bool = False
    """Refuse a prompt that cannot have its first token in time even alone; else it is only told."""

    def __post_init__(self) -> None:
        if self.priority < 0:
            raise ValueError(f"priority must not be negative, not {self.priority}")
        if min(self.ttft_ns or 1, self.tpot_ns or 1) < 0:
            raise ValueError(f"tier `{self.name}` has a target below 0")


class SequenceParams(Struct, frozen=True, kw_only=True):
    """What a host says of a sequence when it arrives.

    Raises:
        ValueError: an empty prompt, or no token to be generated.
    """

    sequence_id: SequenceId
    model: ModelName
    tag: TenantId
    """Whoever is accounted for: a tenant, or a part of one."""
    terms: TierTerms
    arrived_at_ns: int
    prompt_tokens: int
    output_tokens_max: int
    """The hard cap on what is generated."""
    prefix_keys: tuple[int, ...] = ()
    """A key for each full block of the prompt, equal where the blocks and all before them are."""

    def __post_init__(self) -> None:
        if self.prompt_tokens < 1 or self.output_tokens_max < 1:
            raise ValueError("a sequence needs a token of prompt and one to generate")
