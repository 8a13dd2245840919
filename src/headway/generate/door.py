"""The door: who is let in to wait, and what a sequence is told when it comes.

A first token cannot come before the prompt has been through the model. A tier's target therefore
holds up to some length of prompt; beyond it no scheduler can keep it, and whoever asks is told so,
at once, with the time that physics allows. Its due time is then that, with as much room for others
as the target leaves at the length up to which it holds, so that it is not late from the start.

Knows limits and a law. Refuses to know who else waits, but for how many.
"""

from headway.generate.events import Accepted, Answer, Refused, RefuseReason
from headway.generate.names import SequenceParams
from headway.generate.settings import EngineLimits
from headway.generate.step_times import StepLaw

__all__ = ["Door", "ttft_due_at_ns", "ttft_prompt_tokens_max"]

_REACH_RATIO = 0.8
"""Of a target that a prompt may take alone; the rest is for what it meets."""


def ttft_prompt_tokens_max(law: StepLaw, limits: EngineLimits, ttft_ns: int) -> int:
    """The length of prompt up to which a target holds, on an engine that is free for it."""
    return law.prompt_tokens_within(int(_REACH_RATIO * ttft_ns), limits.step_tokens_max)


def ttft_due_at_ns(params: SequenceParams, ttft_ns_min: int) -> int | None:
    """When its first token is due: its tier's target, or what physics allows if that is later."""
    ttft_ns = params.terms.ttft_ns
    if ttft_ns is None:
        return None
    return params.arrived_at_ns + max(ttft_ns, int(ttft_ns_min / _REACH_RATIO))


class Door:
    """Judges arrivals."""

    def __init__(self, limits: EngineLimits) -> None:
        self._limits = limits

    def judge(self, params: SequenceParams, law: StepLaw, waiting_count: int) -> Answer:
        """Let a sequence in, or say why not."""
        limits = self._limits
        ttft_ns_min = law.ttft_ns_min(params.prompt_tokens, limits.step_tokens_max)
        ttft_ns = params.terms.ttft_ns
        is_reachable = ttft_ns is None or ttft_ns_min <= _REACH_RATIO * ttft_ns
        reason: RefuseReason | None = None
        if params.prompt_tokens + params.output_tokens_max > limits.kv_tokens:
            reason = RefuseReason.NEVER_FITS
        elif waiting_count >= limits.waiting_max:
            reason = RefuseReason.WAITING_FULL
        elif params.terms.refuses_unreachable and not is_reachable:
            reason = RefuseReason.TTFT_UNREACHABLE
        if reason is not None:
            return Refused(sequence_id=params.sequence_id, reason=reason, ttft_ns_min=ttft_ns_min)
        return Accepted(
            sequence_id=params.sequence_id,
            ttft_ns_min=ttft_ns_min,
            is_ttft_reachable=is_reachable,
        )
