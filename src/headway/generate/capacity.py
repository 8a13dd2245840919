"""How many sequences run at once, and what rate they make: Little's law, with two corrections.

In the long run the number of sequences in the engine is rate times residence. What makes the plain
form useless for token-by-token models is what one puts in:

- *Memory is weighted by residence.* A sequence with prompt p and output o holds p + o/2 tokens on
  average, for o steps; a long answer is there for longer. The mean that a look into memory finds is
  sum((p + o/2) o) / sum(o), not mean(p) + mean(o)/2.
- *Prompts take engine time.* A request takes its prefill, and its part of o decode steps that it
  shares with the N - 1 others: without the prefill the rate comes out twice too high.

With N sequences at the residence-weighted context k, a step lasts base + decode N + context N k,
and a request takes of the engine

    E(N) = prefill + o step(N) / N,     so the rate is at most 1 / E(N).

N is bounded by memory / k and by the engine's own limit. Then everybody is late, prompts are
hurried, and have for nothing only what rides in their own few steps. For a rate below that, prompts
ride in the steps of others as far as there is room, and N solves rate W(N) = N, W being prefill
plus o steps that are stretched by the prefills of others.

Knows lengths and a law of steps. Refuses to know policies, arrivals and queues: what it says holds
for an engine that is kept busy, and a rate close to the highest has queues that it knows nothing
of.
"""

from collections.abc import Sequence as Row
from math import ceil

from msgspec import Struct

from headway.generate.step_times import StepLaw
from headway.units import NS_PER_S

__all__ = ["Capacity", "EngineLoad", "RequestMix"]


class RequestMix(Struct, frozen=True):
    """What requests are like, reduced to what the law needs; see `of` for how."""

    prompt_tokens: float
    """Mean."""
    output_tokens: float
    """Mean."""
    resident_tokens: float
    """Of a sequence met in memory, weighted by how long each is there."""
    pair_tokens: float = 0.0
    """Mean of half the square of the prompt."""

    @classmethod
    def of(cls, prompts: Row[int], outputs: Row[int]) -> "RequestMix":
        """From recorded lengths.

        Raises:
            ValueError: none, or not as many of one as of the other.
        """
        count = len(prompts)
        if count == 0 or count != len(outputs):
            raise ValueError("a mix needs prompts and as many outputs")
        output_sum = sum(outputs)
        held = sum([(p + o / 2) * o for p, o in zip(prompts, outputs, strict=True)])
        return cls(
            sum(prompts) / count,
            output_sum / count,
            held / output_sum if output_sum else sum(prompts) / count,
            sum([p * p for p in prompts]) / 2 / count,
        )


class EngineLoad(Struct, frozen=True, kw_only=True):
    """An engine at a rate."""

    rate_rps: float
    sequences: float
    """In the engine at once."""
    kv_tokens: float
    residence_ns: float
    """From the first prefill to the last token."""
    step_ns: float
    """Of a step that only decodes."""
    busy_ratio: float
    """Part of the engine's time that the rate takes."""


class Capacity(Struct, frozen=True, kw_only=True):
    """An engine: its law, its memory, its limit of sequences in a step."""

    law: StepLaw
    kv_tokens: int
    sequences_max: int = 256
    step_tokens_max: int = 2_048
    use_ratio: float = 0.8
    """Part of the memory that is in use on average when as many are let in as fit: admission leaves
    room for what those that run will grow by, and a gate lies between its marks."""

    def at_most(self, mix: RequestMix) -> EngineLoad:
        """The highest rate that memory and engine bear in the long run."""
        sequences = min(
            self.sequences_max, max(1.0, self.kv_tokens * self.use_ratio / mix.resident_tokens)
        )
        return self._load(mix, sequences, NS_PER_S / self._engine_ns(mix, sequences))

    def at_rate(self, mix: RequestMix, rate_rps: float) -> EngineLoad | None:
        """What a rate takes; None where it is more than the engine bears."""
        most = self.at_most(mix)
        if rate_rps >= most.rate_rps:
            return None
        # N - rate W(N) rises with N between an idle engine and a full one: halve the interval.
        low, high = 0.0, most.sequences
        for _ in range(60):
            middle = (low + high) / 2
            if middle * NS_PER_S < rate_rps * self._residence_ns(mix, middle, rate_rps):
                low = middle
            else:
                high = middle
        return self._load(mix, high, rate_rps)

    def _load(self, mix: RequestMix, sequences: float, rate_rps: float) -> EngineLoad:
        return EngineLoad(
            rate_rps=rate_rps,
            sequences=sequences,
            kv_tokens=sequences * mix.resident_tokens,
            residence_ns=sequences / rate_rps * NS_PER_S,
            step_ns=self._step_ns(mix, sequences),
            busy_ratio=min(1.0, rate_rps * self._engine_ns(mix, sequences) / NS_PER_S),
        )

    def _step_ns(self, mix: RequestMix, sequences: float) -> float:
        law = self.law
        each_ns = law.decode_ns + law.context_ns * mix.resident_tokens
        return law.base_ns + each_ns * sequences

    def _prefill_ns(self, mix: RequestMix, sequences: float, steps: float) -> float:
        """Of one prompt, beyond what rides for nothing in so many steps."""
        law = self.law
        free_tokens = max(0.0, law.free_tokens - sequences) * steps
        paid_tokens = max(0.0, mix.prompt_tokens - free_tokens)
        return law.prefill_ns * paid_tokens + law.pair_ns * mix.pair_tokens

    def _engine_ns(self, mix: RequestMix, sequences: float) -> float:
        """Of one request, when all are hurried."""
        own_steps = ceil(mix.prompt_tokens / self.step_tokens_max)
        decode_ns = mix.output_tokens * self._step_ns(mix, sequences) / max(sequences, 1.0)
        return self._prefill_ns(mix, sequences, own_steps) + decode_ns

    def _residence_ns(self, mix: RequestMix, sequences: float, rate_rps: float) -> float:
        """Its own prefill, and its steps, which the prefills of others stretch."""
        step_ns = self._step_ns(mix, sequences)
        prefill_ns = self._prefill_ns(mix, sequences, mix.output_tokens / max(sequences, 1.0))
        stretch = 1.0 / max(1e-6, 1.0 - rate_rps * prefill_ns / NS_PER_S)
        riding_tokens = self.law.free_tokens - sequences
        if riding_tokens >= 1.0:
            prefill_ns += mix.prompt_tokens / riding_tokens * step_ns
        return prefill_ns + mix.output_tokens * step_ns * stretch
