"""Recompute or swap: what to do with the keys and values of a victim, by what each way costs.

**Recompute.** The victim has L tokens, of which the first p are a prefix that others hold or that
is kept: they need not be computed. The rest go through the model again, each with all before it:

    R(L) = a (L - p) + b (L^2 - p^2),

a being the time of a prompt token in the linear parts of the model, 2 b that of a pair in
attention.

**Swap.** The same tokens are copied, out and in again; a copy has a fixed cost:

    S(L) = c + s (L - p),     s = bytes of a token's keys and values / bandwidth, per direction.

A token's keys and values are 2 x layers x heads for keys and values x head size x bytes of a
number.

**Crossover.** With p = 0 recomputing is cheaper as long as b L^2 + (a - s) L - c < 0, that is below

    L* = ((s - a) + sqrt((s - a)^2 + 4 b c)) / (2 b),     and with b = 0:  L* = c / (a - s) if a >
    s.

Two straight lines through the origin never cross: without c and b one way is better at any length.
Where a >= s, as with grouped heads on any fast link, L* is near c / (a - s), some tens of tokens:
swap unless the victim is short. Where s > a (many heads, a slow link) recompute up to a length at
which attention's square takes over.

**Opportunity.** That is what the victim waits for. Others wait, too: for steps that computing has
made longer, and for a copy out whose blocks the next step needs; for a copy in nobody waits, it
runs beside the steps. Tokens that ride for nothing in a step cost nobody anything, so computing is
charged to others by the part u of recent steps that had more than those. With n others in a step

    R' = (1 + u n) R,     S' = S_in + (1 + n) S_out,

which has the same form as before with larger coefficients, and so the same L*.

**Memory and hysteresis.** Without room on the host a victim is recomputed. Near L*, where both ways
cost the same, the last choice stands until the other is cheaper by a margin, so that a fit that
trembles does not have neighbours treated differently.

Coefficients are fitted while the engine runs: a and b from the times of steps, c and s from copies.
"""

from math import sqrt
from typing import Final

from msgspec import Struct

from headway.generate.events import PreemptWay
from headway.generate.fits import LinearFit
from headway.generate.step_times import StepLaw

__all__ = [
    "CopyLaw",
    "SwapRule",
    "SwapSettings",
    "crossover_tokens",
    "kv_bytes_per_token",
    "tokens_to_outgrow",
]

_BUSY_FADE: Final = 0.02


def kv_bytes_per_token(layers: int, kv_heads: int, head_size: int, number_bytes: float) -> float:
    """Keys and values of one token: both, of every layer."""
    return 2 * layers * kv_heads * head_size * number_bytes


class CopyLaw(Struct, frozen=True, kw_only=True):
    """A copy of n tokens in one direction takes ``fixed_ns + token_ns * n``."""

    fixed_ns: float = 1_000_000.0
    token_ns: float = 4_096.0
    """128 KiB, an eight-billion model with grouped heads, over 32 GB/s."""

    def copy_ns(self, tokens: int) -> float:
        """How long it takes."""
        return self.fixed_ns + self.token_ns * tokens if tokens > 0 else 0.0


class SwapSettings(Struct, frozen=True, kw_only=True):
    """What can be tuned."""

    ways: tuple[PreemptWay, ...] = (PreemptWay.RECOMPUTE, PreemptWay.SWAP)
    """Those allowed; with one, there is nothing to decide."""
    host_tokens_max: int = 1 << 20
    """Tokens of all victims together that the host has memory for."""
    margin_ratio: float = 0.1
    """By which the other way must be cheaper than the last choice."""
    is_written_through: bool = False
    """Blocks are copied out as they fill, so that nothing is left to copy at a preemption."""

    def __post_init__(self) -> None:
        if not self.ways or self.host_tokens_max < 0 or self.margin_ratio < 0:
            raise ValueError("swapping needs a way, and neither a room nor a margin below 0")


def crossover_tokens(law: StepLaw, copies: CopyLaw, *, copies_each: int = 2) -> float | None:
    """L*: below it recomputing is cheaper, from it on swapping; None where they do not cross.

    Args:
        law: of steps: a and b.
        copies: of one direction.
        copies_each: 2 for out and in, 1 where blocks are written through.
    """
    a, b = law.prefill_ns, law.pair_ns / 2
    c, s = copies_each * copies.fixed_ns, copies_each * copies.token_ns
    return tokens_to_outgrow(a - s, b, c)


def tokens_to_outgrow(linear: float, quadratic: float, fixed: float) -> float | None:
    """The x above 0 with ``quadratic x^2 + linear x = fixed``; None where there is none.

    Neither ``quadratic`` nor ``fixed`` may be below 0.
    """
    if quadratic == 0.0:
        return fixed / linear if linear > 0.0 else None
    root = sqrt(linear * linear + 4.0 * quadratic * fixed)
    # The stable one of the two forms of the larger root.
    return 2.0 * fixed / (linear + root) if linear > 0.0 else (root - linear) / (2.0 * quadratic)


class SwapRule:
    """Chooses, keeps the host's account, and learns what copies take."""

    def __init__(self, settings: SwapSettings, copies: CopyLaw) -> None:
        self.settings = settings
        self.copies = copies
        self.host_tokens = 0
        self._fit = LinearFit((copies.fixed_ns, copies.token_ns), (1.0, 1_024.0))
        self._busy_ratio = 0.0
        self._others = 0
        self._last: PreemptWay | None = None

    @property
    def busy_ratio(self) -> float:
        """Part of recent steps in which a prompt token cost time."""
        return self._busy_ratio

    def stepped(self, sequences: int, *, is_full: bool) -> None:
        """A step was planned with so many sequences, and more prompt than rides for nothing."""
        self._others = max(0, sequences - 1)
        self._busy_ratio += _BUSY_FADE * (is_full - self._busy_ratio)

    def copied(self, tokens: int, copy_ns: int) -> None:
        """One more copy was timed."""
        self._fit.learn((1.0, float(tokens)), float(copy_ns))
        fixed_ns, token_ns = self._fit.coefficients
        self.copies = CopyLaw(fixed_ns=fixed_ns, token_ns=token_ns)

    def cost_ns(self, way: PreemptWay, tokens: int, prefix_tokens: int, law: StepLaw) -> float:
        """Of a victim with so many tokens, of which the prefix stays; for it and all others."""
        left = max(0, tokens - prefix_tokens)
        if way is PreemptWay.RECOMPUTE:
            pairs = tokens * tokens - prefix_tokens * prefix_tokens
            own_ns = law.prefill_ns * left + law.pair_ns * pairs / 2
            return own_ns * (1.0 + self._busy_ratio * self._others)
        copy_ns = self.copies.copy_ns(left)
        return copy_ns if self.settings.is_written_through else copy_ns * (2.0 + self._others)

    def choose(self, tokens: int, prefix_tokens: int, law: StepLaw) -> PreemptWay:
        """The way for a victim with so many tokens; where it is a swap, say `swapped_out` too."""
        ways, own_tokens = self.settings.ways, tokens - prefix_tokens
        if PreemptWay.SWAP not in ways or own_tokens <= 0:
            return PreemptWay.RECOMPUTE
        if self.host_tokens + own_tokens > self.settings.host_tokens_max:
            return PreemptWay.RECOMPUTE
        if len(ways) == 1:
            return PreemptWay.SWAP
        costs = {way: self.cost_ns(way, tokens, prefix_tokens, law) for way in PreemptWay}
        if self._last is not None:
            costs[self._last] /= 1.0 + self.settings.margin_ratio
        self._last = min(PreemptWay, key=lambda way: costs[way])
        return self._last

    def swapped_out(self, tokens: int) -> None:
        """The host holds so many more."""
        self.host_tokens += tokens

    def left_host(self, tokens: int) -> None:
        """The host holds so many fewer."""
        self.host_tokens -= tokens
        assert self.host_tokens >= 0
