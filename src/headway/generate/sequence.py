"""A sequence as a step scheduler keeps it: how far it is, what it holds, when a token is due.

Knows tokens and instants. Refuses to know who goes first.
"""

from typing import Final

from headway.core import TenantId
from headway.errors import InvalidTransitionError
from headway.generate.names import (
    SEQUENCE_TRANSITIONS,
    Phase,
    PhaseStep,
    SequenceId,
    SequenceParams,
)

__all__ = ["ALLOWANCE_MAX", "Sequence", "urgency_of"]

ALLOWANCE_MAX: Final = 3
"""Targets that one token may take where a sequence is ahead of its time: others wait so long."""


class Sequence:
    """One answer being generated.

    Invariants: ``computed_tokens <= known_tokens``; only PREFILL, DECODE and LOADING hold blocks.
    """

    __slots__ = (
        "account",
        "computed_tokens",
        "due_ttft_at_ns",
        "first_foreseen",
        "first_token_at_ns",
        "foreseen_tokens",
        "generated",
        "host_start",
        "host_tokens",
        "is_long",
        "known_tokens",
        "paid_tokens",
        "params",
        "phase",
        "preempt_count",
        "preempted_at_ns",
        "priority",
        "ran_steps",
        "room_tokens",
        "sequence_id",
        "tag",
        "tpot_ns",
        "waits_since_ns",
    )

    def __init__(self, params: SequenceParams, due_ttft_at_ns: int | None) -> None:
        self.params = params
        self.sequence_id: SequenceId = params.sequence_id
        self.tag: TenantId = params.tag
        self.priority = params.terms.priority
        self.account = (self.priority, self.tag)
        """Who pays for it."""
        self.tpot_ns = params.terms.tpot_ns
        self.phase = Phase.WAITING
        self.generated = 0
        self.known_tokens = params.prompt_tokens
        """Prompt and what was generated."""
        self.computed_tokens = 0
        """Of the known tokens, those whose keys and values are there."""
        self.paid_tokens = 0
        """Of its prompt, what its tag was charged; to be a victim's sequence costs nothing more."""
        self.room_tokens = 0
        """That its blocks have room for."""
        self.foreseen_tokens = params.output_tokens_max
        """Generated tokens that it is expected to end with."""
        self.first_foreseen = params.output_tokens_max
        """The same as it was said first."""
        self.is_long = False
        self.preempt_count = 0
        self.preempted_at_ns: int | None = None
        """Since when it waits to go on; None where it was not preempted, or goes on already."""
        self.ran_steps = 0
        """Steps since it began, or went on."""
        self.host_start = 0
        self.host_tokens = 0
        """While it is swapped: tokens that the host has, and the first of them."""
        self.due_ttft_at_ns = due_ttft_at_ns
        self.first_token_at_ns: int | None = None
        self.waits_since_ns = params.arrived_at_ns
        """Since when it has been in no step."""

    def become(self, step: PhaseStep) -> None:
        """Go to the next phase.

        Raises:
            InvalidTransitionError: there is none from here by this step.
        """
        phase = SEQUENCE_TRANSITIONS.get((self.phase, step))
        if phase is None:
            message = f"sequence `{self.sequence_id}` in `{self.phase}` met `{step}`"
            raise InvalidTransitionError(message)
        self.phase = phase

    @property
    def remaining_tokens(self) -> int:
        """Known tokens that must go through the model before the next one comes."""
        return self.known_tokens - self.computed_tokens

    @property
    def left_foreseen(self) -> int:
        """Tokens that it is expected to generate yet; one at least."""
        return max(1, self.foreseen_tokens - self.generated)

    @property
    def is_resident(self) -> bool:
        """Whether it holds blocks that a step may use."""
        return self.phase is Phase.DECODE or self.phase is Phase.PREFILL

    def due_at_ns(self) -> int | None:
        """When its next token is due; None where nothing was promised."""
        if self.first_token_at_ns is None:
            return self.due_ttft_at_ns
        if self.tpot_ns is None:
            return None
        return self.first_token_at_ns + self.generated * self.tpot_ns

    def allowance_ns(self, now_ns: int) -> int | None:
        """How long the step that gives its next token may take; below 0 where it is late."""
        if self.tpot_ns is None or self.first_token_at_ns is None:
            return None
        left_ns = self.first_token_at_ns + self.generated * self.tpot_ns - now_ns
        return min(left_ns, ALLOWANCE_MAX * self.tpot_ns)


def urgency_of(sequence: Sequence) -> tuple[int, int, int]:
    """Class, then arrival."""
    return (sequence.priority, sequence.params.arrived_at_ns, sequence.sequence_id)
