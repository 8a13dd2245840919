"""Room for key-value caches, and what to do with one that must go: compute it again, or move it.

Knows the shape of a transformer and rates that were measured. A cache of L tokens, of which a
prefix of p is there for others anyway, is computed again in

    T_recompute = a (L - p) + b (L² - p²)

for each token takes its share of the matrices and attends to all before it, and comes back over the
link in

    T_swap = c + s (L - p)

with the bytes of a token over the link's rate, out and in, for s. The first grows faster than the
second, so below the crossover it is quicker to compute, and above it to move.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from headway.generate import kv_bytes_per_token, tokens_to_outgrow

__all__ = [
    "Crossover",
    "PreemptionPoint",
    "PrefillLaw",
    "SwapLaw",
    "TransformerShape",
    "crossover",
    "fitted_prefill",
    "preemption_curve",
    "swap_law",
]

_TOKENS_MAX: Final = 1 << 40
_LENGTHS_MIN: Final = 2
"""That a law with two parts is fitted to."""


class TransformerShape(Struct, frozen=True, kw_only=True):
    """What of a model decides the size of its cache."""

    layers: int
    kv_heads: int
    """Heads that have keys and values: with grouped queries fewer than heads."""
    head_dim: int
    value_bytes: float = 2.0
    """Of one number: 2 for half precision, 1 for eight bits."""

    @property
    def layer_token_bytes(self) -> float:
        """Of one token in one layer."""
        return kv_bytes_per_token(1, self.kv_heads, self.head_dim, self.value_bytes)

    @property
    def token_bytes(self) -> float:
        """Of one token in all layers."""
        return self.layers * self.layer_token_bytes

    def tokens_in(self, memory_bytes: int, block_tokens: int = 1) -> int:
        """Tokens whose cache a memory holds, in whole blocks."""
        blocks = int(memory_bytes // (self.token_bytes * block_tokens))
        return blocks * block_tokens


class PrefillLaw(NamedTuple):
    """How long the prompt pass over tokens takes."""

    token_ns: float
    """For each token: a."""
    pair_ns: float
    """For each token and token before it, counted as tokens squared: b."""

    def time_ns(self, tokens: int, prefix: int = 0) -> float:
        """Of the tokens behind a prefix that is there."""
        return self.token_ns * (tokens - prefix) + self.pair_ns * (tokens**2 - prefix**2)


class SwapLaw(NamedTuple):
    """How long moving the cache takes, out and back."""

    fixed_ns: float
    """Of one move there and back, whatever its size: c."""
    token_ns: float
    """For each token: s."""

    def time_ns(self, tokens: int, prefix: int = 0) -> float:
        """Of the tokens behind a prefix that stays."""
        return self.fixed_ns + self.token_ns * (tokens - prefix)


class Crossover(NamedTuple):
    """Where moving begins to be quicker."""

    tokens: int | None
    """The first length at which it is; None if it never is."""


class PreemptionPoint(Struct, frozen=True, kw_only=True):
    """One length."""

    tokens: int
    cache_bytes: int
    recompute_ns: float
    swap_ns: float


def swap_law(
    shape: TransformerShape,
    *,
    out_bytes_per_s: float,
    in_bytes_per_s: float,
    fixed_ns: float = 0.0,
) -> SwapLaw:
    """Over a link with such rates; both ways are waited for."""
    per_token_s = shape.token_bytes / out_bytes_per_s + shape.token_bytes / in_bytes_per_s
    return SwapLaw(fixed_ns, per_token_s * 1e9)


def fitted_prefill(measured: Sequence[tuple[int, float]]) -> PrefillLaw:
    """The law that fits times of prompt passes, by least squares of the relative errors.

    Neither part may be negative: where the best fit has one that is, the other is fitted alone.

    Args:
        measured: tokens and nanoseconds, at two lengths at least.

    Raises:
        ValueError: fewer than two lengths, or a time or a length that is not positive.
    """
    if len({tokens for tokens, _ in measured}) < _LENGTHS_MIN:
        raise ValueError("a law of prompt passes needs times at two lengths at least")
    if any(tokens < 1 or time_ns <= 0 for tokens, time_ns in measured):
        raise ValueError("lengths and times of prompt passes are above 0")
    # Relative errors: each row is divided by its time, so that short prompts count, too.
    rows = [(tokens / time_ns, tokens**2 / time_ns) for tokens, time_ns in measured]
    aa = sum(x * x for x, _ in rows)
    ab = sum(x * y for x, y in rows)
    bb = sum(y * y for _, y in rows)
    a1, b1 = sum(x for x, _ in rows), sum(y for _, y in rows)
    determinant = aa * bb - ab * ab
    token_ns = (a1 * bb - b1 * ab) / determinant if determinant > 0 else -1.0
    pair_ns = (b1 * aa - a1 * ab) / determinant if determinant > 0 else -1.0
    if token_ns < 0:
        return PrefillLaw(0.0, b1 / bb)
    if pair_ns < 0:
        return PrefillLaw(a1 / aa, 0.0)
    return PrefillLaw(token_ns, pair_ns)


def crossover(prefill: PrefillLaw, swap: SwapLaw, prefix: int = 0) -> Crossover:
    """The first length, above a prefix, at which moving is quicker than computing again.

    a (L - p) + b (L² - p²) = c + s (L - p), with x = L - p:  b x² + (a + 2 b p - s) x - c = 0.
    """
    linear = prefill.token_ns + 2 * prefill.pair_ns * prefix - swap.token_ns
    first = tokens_to_outgrow(linear, prefill.pair_ns, swap.fixed_ns)
    if first is None or first > _TOKENS_MAX:
        return Crossover(None)
    tokens = prefix + int(first) + 1
    while tokens - 1 > prefix and swap.time_ns(tokens - 1, prefix) < prefill.time_ns(
        tokens - 1, prefix
    ):
        tokens -= 1
    return Crossover(tokens)


def preemption_curve(
    shape: TransformerShape,
    prefill: PrefillLaw,
    swap: SwapLaw,
    lengths: Sequence[int],
    prefix: int = 0,
) -> list[PreemptionPoint]:
    """Both times at some lengths above the prefix."""
    return [
        PreemptionPoint(
            tokens=tokens,
            cache_bytes=round(shape.token_bytes * tokens),
            recompute_ns=prefill.time_ns(tokens, prefix),
            swap_ns=swap.time_ns(tokens, prefix),
        )
        for tokens in lengths
        if tokens > prefix
    ]
