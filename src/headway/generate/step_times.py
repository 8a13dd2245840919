"""How long a step takes: a law that is linear in what the step does, fitted while it runs.

    step = base + prefill max(0, P + D - F) + pair Q + decode D + context C

P are prompt tokens in the step and D decoding sequences, a token each; F tokens ride for nothing: a
step that reads all weights for a few sequences is bound by memory, and arithmetic has room beside
it. Q are pairs of a prompt token and one before it, C the keys and values that are read.

From it follow the tokens a step may have to end in a given time, the first token that physics
allows for a prompt, and how long a prompt may be to have its first token within a target.

Knows counts and nanoseconds. Refuses to know sequences.
"""

from msgspec import Struct

from headway.generate.fits import LinearFit

__all__ = ["StepLaw", "StepTimes"]


class StepLaw(Struct, frozen=True, kw_only=True):
    """The coefficients, in nanoseconds.

    The defaults are those of a model of eight billion parameters on an accelerator of 2020.
    """

    base_ns: float = 12_000_000.0
    prefill_ns: float = 67_000.0
    """Of a token beyond the free ones."""
    pair_ns: float = 0.0
    decode_ns: float = 0.0
    context_ns: float = 65.0
    """Of a token whose keys and values are read."""
    free_tokens: int = 128
    """Tokens of a step that cost it nothing. 0 where arithmetic is what binds, as on CPUs."""

    def step_ns(
        self, prefill_tokens: int, decode_count: int, context_tokens: int, pair_tokens: int = 0
    ) -> float:
        """How long such a step takes; an empty one takes no time."""
        if prefill_tokens + decode_count == 0:
            return 0.0
        return (
            self.base_ns
            + self.prefill_ns * max(0, prefill_tokens + decode_count - self.free_tokens)
            + self.pair_ns * pair_tokens
            + self.decode_ns * decode_count
            + self.context_ns * context_tokens
        )

    def riding_tokens(self, decode_count: int) -> int:
        """Prompt tokens that cost a step with so many decoding sequences nothing."""
        return max(0, self.free_tokens - decode_count)

    def prefill_within(self, spare_ns: float, decode_count: int) -> int:
        """Prompt tokens that may join a step which takes so much less than it may; none below 0."""
        if spare_ns < 0.0:
            return 0
        if self.prefill_ns <= 0.0:
            return 1 << 31
        return self.riding_tokens(decode_count) + min(int(spare_ns / self.prefill_ns), 1 << 31)

    def ttft_ns_min(self, prompt_tokens: int, step_tokens_max: int) -> int:
        """To the first token of a prompt on an idle engine; the fewest steps, each full."""
        steps = -(-prompt_tokens // step_tokens_max)
        # Chunk i reads all before it: the sum of i chunks, i from 1 to steps.
        context_tokens = step_tokens_max * steps * (steps - 1) / 2 + prompt_tokens
        return int(
            steps * self.base_ns
            + self.prefill_ns * max(0, prompt_tokens - steps * self.free_tokens)
            + self.pair_ns * prompt_tokens * prompt_tokens / 2
            + self.context_ns * context_tokens
            + 1
        )

    def prompt_tokens_within(self, ttft_ns: int, step_tokens_max: int) -> int:
        """The longest prompt whose first token can be there by then, the engine being idle."""
        low, high = 0, 1
        while high < 1 << 24 and self.ttft_ns_min(high, step_tokens_max) <= ttft_ns:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            if self.ttft_ns_min(middle, step_tokens_max) <= ttft_ns:
                low = middle
            else:
                high = middle
        return low


class StepTimes:
    """The law as it is believed to be now.

    Args:
        prior: what is believed before the first step has been seen.
    """

    def __init__(self, prior: StepLaw) -> None:
        self._free_tokens = prior.free_tokens
        self._fit = LinearFit(
            (prior.base_ns, prior.prefill_ns, prior.pair_ns, prior.decode_ns, prior.context_ns),
            (1.0, 256.0, 65_536.0, 16.0, 8_192.0),
        )
        self.law = prior

    def finished(
        self,
        step_ns: int,
        *,
        prefill_tokens: int,
        decode_count: int,
        context_tokens: int,
        pair_tokens: int,
    ) -> None:
        """A step has taken so long."""
        paid = float(max(0, prefill_tokens + decode_count - self._free_tokens))
        self._fit.learn(
            (1.0, paid, float(pair_tokens), float(decode_count), float(context_tokens)),
            float(step_ns),
        )
        base_ns, prefill_ns, pair_ns, decode_ns, context_ns = self._fit.coefficients
        self.law = StepLaw(
            base_ns=base_ns,
            prefill_ns=prefill_ns,
            pair_ns=pair_ns,
            decode_ns=decode_ns,
            context_ns=context_ns,
            free_tokens=self._free_tokens,
        )
