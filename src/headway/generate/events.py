"""What a host tells a step scheduler, and what it is told: facts in, answers and a plan out.

A host carries out one `StepPlan` at a time. It asks for a plan when the step before has finished,
runs what the plan says, and reports with `StepFinished`. Copies of keys and values run beside the
steps and are reported on their own.
"""

from enum import StrEnum

from msgspec import Struct

from headway.generate.names import SequenceId, SequenceParams

__all__ = [
    "Accepted",
    "Answer",
    "CopyFinished",
    "Event",
    "Load",
    "PreemptWay",
    "Preempted",
    "RefuseReason",
    "Refused",
    "SequenceArrived",
    "SequenceCancelled",
    "SequenceLost",
    "StepCut",
    "StepFinished",
    "StepPlan",
    "Work",
]


class SequenceArrived(Struct, frozen=True, kw_only=True, tag=True):
    """Somebody wants an answer generated."""

    sequence: SequenceParams


class SequenceCancelled(Struct, frozen=True, kw_only=True, tag=True):
    """Nobody wants it any more. Unknown and ended ones are ignored."""

    sequence_id: SequenceId


class StepFinished(Struct, frozen=True, kw_only=True, tag=True):
    """The last plan was carried out: all its work whose `yields` is true gave one token."""

    step_ns: int
    """How long the model ran, without copies that it waited for; 0 where nobody timed it."""
    ended: tuple[SequenceId, ...] = ()
    """Of those that gave a token, whose answer is complete by it."""


class StepCut(Struct, frozen=True, kw_only=True, tag=True):
    """Of the plan that is being carried out, the engine does less than these would have been.

    An engine has limits of its own that no plan knows. What stays out has 0 tokens; what is left of
    a chunk begins where the engine says.
    """

    work: tuple["Work", ...]


class SequenceLost(Struct, frozen=True, kw_only=True, tag=True):
    """The engine does not hold what it was thought to hold: it begins again, and is no victim."""

    sequence_id: SequenceId


class CopyFinished(Struct, frozen=True, kw_only=True, tag=True):
    """Keys and values of a sequence have been copied between device and host."""

    sequence_id: SequenceId
    tokens: int
    copy_ns: int
    """0 where nobody timed it."""
    is_load: bool
    """To the device; else from it."""


Event = SequenceArrived | SequenceCancelled | SequenceLost | StepCut | StepFinished | CopyFinished


class RefuseReason(StrEnum):
    """Why a sequence was refused at the door."""

    WAITING_FULL = "waiting_full"
    NEVER_FITS = "never_fits"
    """Prompt and cap together are more than the whole memory for keys and values."""
    TTFT_UNREACHABLE = "ttft_unreachable"
    """Alone on an idle engine its first token would be late, and its tier refuses such."""


class Accepted(Struct, frozen=True, kw_only=True, tag=True):
    """A sequence waits for its turn."""

    sequence_id: SequenceId
    ttft_ns_min: int
    """To its first token if the engine did nothing else: what physics allows."""
    is_ttft_reachable: bool = True
    """Whether that is within its tier's target. Where not, its due time is what physics allows."""


class Refused(Struct, frozen=True, kw_only=True, tag=True):
    """A sequence will not be served."""

    sequence_id: SequenceId
    reason: RefuseReason
    ttft_ns_min: int = 0


Answer = Accepted | Refused


class PreemptWay(StrEnum):
    """What becomes of a victim's keys and values."""

    RECOMPUTE = "recompute"
    """Dropped; its tokens go through the model again."""
    SWAP = "swap"
    """Copied to host memory and back."""
    __hash__ = str.__hash__


class Work(Struct, frozen=True, gc=False):
    """A sequence's part of one step."""

    sequence_id: SequenceId
    start: int
    """Tokens whose keys and values are there already: computed, loaded, or a shared prefix."""
    tokens: int
    yields: bool
    """All its known tokens are through by then, so the step gives its next one."""


class Preempted(Struct, frozen=True, gc=False):
    """A victim; its blocks may be reused once this has been done."""

    sequence_id: SequenceId
    way: PreemptWay
    tokens: int
    """To be copied where it is swapped, given up where it is recomputed."""


class Load(Struct, frozen=True, gc=False):
    """Bring a swapped sequence back; its blocks are set aside. Report with `CopyFinished`."""

    sequence_id: SequenceId
    tokens: int


class StepPlan(Struct, frozen=True, kw_only=True):
    """One forward pass, and what must be done before it: preempt, then begin to load, then run."""

    step_index: int
    preempted: tuple[Preempted, ...] = ()
    loads: tuple[Load, ...] = ()
    work: tuple[Work, ...] = ()
    prefill_tokens: int = 0
    decode_count: int = 0
    context_tokens: int = 0
    """Keys and values that the step reads: of each sequence in it, all up to its last token."""
    pair_tokens: int = 0
    """Of prefill, pairs of a token and one before it: what attention computes."""
    tokens_max: int = 0
    """The budget that prefill and decode together were kept to."""

    @property
    def tokens(self) -> int:
        """All that go through the model in this step."""
        return self.prefill_tokens + self.decode_count
