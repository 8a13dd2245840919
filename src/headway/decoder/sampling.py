"""Which token comes next: greedily, or by chance of one's own seed.

A sequence has a stream of chance of its own, from which each token takes one number. So what it
says depends on its seed alone: not on who shares its steps, nor on whether it was preempted, as a
token is drawn once and then known.

Knows logits. Refuses to know where they come from.
"""

from collections.abc import Mapping
from random import Random
from typing import Final

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from headway.decoder.weights import Floats
from headway.errors import InvalidRequestError

__all__ = ["TOP_LOGPROBS_MAX", "Drawn", "Sampler", "SamplingParams", "bias_of"]

TOP_LOGPROBS_MAX: Final = 20
_TEMPERATURE_MAX: Final = 2.0
_PENALTY_MAX: Final = 2.0
_BIAS_MAX: Final = 100.0
_KEY_CHARS_MAX: Final = 20
"""Of a token's number as text; Python reads no number of thousands of digits."""
_LIKELY: Final = 256
"""Tokens that are sorted first; nearly always they are enough."""


class SamplingParams(Struct, frozen=True, kw_only=True):
    """How a sequence draws.

    Raises:
        InvalidRequestError: a value beyond its limits.
    """

    temperature: float = 1.0
    """0 for the likeliest token, always."""
    top_p: float = 1.0
    """Only the likeliest tokens that have so much probability together."""
    frequency_penalty: float = 0.0
    """Taken off a token's logit for each time that it was said."""
    presence_penalty: float = 0.0
    """Taken off once it was said."""
    logit_bias: dict[int, float] = field(default_factory=dict)
    logprobs: int | None = None
    """Give the logarithm of each token's probability, and those of so many likeliest."""

    def __post_init__(self) -> None:
        _demand("temperature", self.temperature, 0.0, _TEMPERATURE_MAX)
        _demand("top_p", self.top_p, 0.0, 1.0)
        _demand("frequency_penalty", self.frequency_penalty, -_PENALTY_MAX, _PENALTY_MAX)
        _demand("presence_penalty", self.presence_penalty, -_PENALTY_MAX, _PENALTY_MAX)
        for bias in self.logit_bias.values():
            _demand("logit_bias", bias, -_BIAS_MAX, _BIAS_MAX)
        if self.logprobs is not None:
            _demand("logprobs", self.logprobs, 0, TOP_LOGPROBS_MAX)


class Drawn(Struct, frozen=True, gc=False):
    """A token, and how likely it was before it was tampered with by any parameter."""

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    """The likeliest tokens with theirs, the likeliest first."""


class Sampler:
    """Draws the tokens of one sequence, one after another.

    Args:
        params: how.
        chance: a stream of its own.
    """

    def __init__(self, params: SamplingParams, chance: Random) -> None:
        self._params = params
        self._chance = chance
        self._said: dict[int, int] = {}
        biases = params.logit_bias
        self._biased_at = np.fromiter(biases.keys(), np.int64, len(biases))
        self._biases = np.fromiter(biases.values(), np.float32, len(biases))

    def draw(self, logits: Floats) -> Drawn:
        """The next token, given logits (vocabulary), which are left as they are."""
        params = self._params
        token = self._choose(self._biased(logits))
        self._said[token] = self._said.get(token, 0) + 1
        if params.logprobs is None:
            return Drawn(token)
        high = float(logits.max())
        total = high + float(np.log(np.exp(logits - high, dtype=np.float64).sum()))
        top = _likeliest(logits, params.logprobs)
        return Drawn(
            token,
            float(logits[token]) - total,
            tuple([(int(each), float(logits[each]) - total) for each in top]),
        )

    def _biased(self, logits: Floats) -> Floats:
        params = self._params
        penalized = params.frequency_penalty or params.presence_penalty
        if not params.logit_bias and not (penalized and self._said):
            return logits
        changed = logits.copy()
        if penalized:
            for token, count in self._said.items():
                changed[token] -= params.frequency_penalty * count + params.presence_penalty
        changed[self._biased_at] += self._biases
        return changed

    def _choose(self, logits: Floats) -> int:
        params = self._params
        if params.temperature == 0.0 or params.top_p == 0.0:
            return int(logits.argmax())
        point = self._chance.random()
        # Doubles, as FP32 has no temperature below 1e-45 and would divide by zero.
        with np.errstate(over="ignore"):
            weights = np.exp((logits - logits.max()).astype(np.float64) / params.temperature)
        if params.top_p >= 1.0:
            sums = weights.cumsum()
            return int(min(np.searchsorted(sums, point * sums[-1], "right"), len(sums) - 1))
        order = _nucleus(weights, params.top_p)
        sums = weights[order].cumsum()
        return int(order[min(np.searchsorted(sums, point * sums[-1], "right"), len(order) - 1)])


def _nucleus(weights: NDArray[np.float64], top_p: float) -> NDArray[np.int64]:
    """The fewest likeliest tokens that have so much of the weight, the likeliest first."""
    wanted = top_p * weights.sum()
    for count in (_LIKELY, len(weights)):
        order = _likeliest(weights, count)
        sums = weights[order].cumsum()
        if sums[-1] >= wanted or len(order) == len(weights):
            return order[: int(np.searchsorted(sums, wanted, "left")) + 1]
    raise AssertionError("all tokens have all of the weight")


def _likeliest(values: NDArray[np.floating], count: int) -> NDArray[np.int64]:
    """The indices of the largest, the largest first, the lower index first among equals."""
    if count >= len(values):
        return np.argsort(-values, kind="stable")
    if count == 0:
        return np.empty(0, np.int64)
    found = np.sort(np.argpartition(values, -count)[-count:])
    return found[np.argsort(-values[found], kind="stable")]


def _demand(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InvalidRequestError(f"`{name}` must be from {low:g} to {high:g}, not `{value}`")


def bias_of(given: Mapping[str, float], vocabulary: int) -> dict[int, float]:
    """Biases by token, from keys that are numbers as text.

    Raises:
        InvalidRequestError: a key is no token.
    """
    found: dict[int, float] = {}
    for key, bias in given.items():
        is_number = len(key) <= _KEY_CHARS_MAX and key.isascii() and key.isdigit()
        if not is_number or int(key) >= vocabulary:
            raise InvalidRequestError(f"`logit_bias` has `{key[:40]}`, which is no token")
        found[int(key)] = bias
    return found
