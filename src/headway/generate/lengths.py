"""How long an answer will be: a quantile of what the same tenant's have been, corrected as it goes.

Lengths fall into buckets a fifth of an octave wide, counted per model and tag, with an old half
that fades: when a histogram has `_COUNT_MAX` entries all are halved. A tag with few answers borrows
those of its model; a model with none is taken to write as much as it may.

A quantile of the past is only right if the future is like it, so the level itself is corrected:
each answer that was longer than foreseen raises it a little, each that was not lowers it, by steps
whose ratio makes the wanted part come out in the long run.

Knows counts of tokens. Refuses to know what is written.
"""

from math import ceil, log2
from typing import Final

from headway.core import ModelName, TenantId

__all__ = ["OutputLengths"]

_BUCKETS_PER_OCTAVE: Final = 5
_BUCKETS: Final = _BUCKETS_PER_OCTAVE * 20 + 1
_COUNT_MAX: Final = 512.0
_TRUSTED: Final = 16.0
"""Answers of its own from which a tag is told apart from its model."""
_TAGS_MAX: Final = 10_000
_STEP: Final = 0.02
_LEVEL_MIN, _LEVEL_MAX = 0.05, 0.99


class _Histogram:
    """Counts by bucket."""

    __slots__ = ("count", "counts", "level")

    def __init__(self, level: float) -> None:
        self.counts = [0.0] * _BUCKETS
        self.count = 0.0
        self.level = level

    def add(self, tokens: int) -> None:
        """One more answer."""
        self.counts[_bucket_of(tokens)] += 1.0
        self.count += 1.0
        if self.count >= _COUNT_MAX:
            self.counts = [each / 2 for each in self.counts]
            self.count /= 2

    def quantile(self, beyond: int) -> int | None:
        """Among answers longer than `beyond` tokens; None where there was none."""
        first = _bucket_of(beyond + 1)
        total = sum(self.counts[first:])
        if total <= 0.0:
            return None
        left = self.level * total
        for bucket in range(first, _BUCKETS):
            left -= self.counts[bucket]
            if left <= 0.0:
                return max(beyond + 1, _tokens_of(bucket))
        return max(beyond + 1, _tokens_of(_BUCKETS - 1))


class OutputLengths:
    """Foresees how many tokens a sequence will generate in all.

    Args:
        level: of the quantile, 0 to 1: the part of answers that shall be no longer than foreseen.
    """

    def __init__(self, level: float = 0.6) -> None:
        if not 0.0 < level < 1.0:
            raise ValueError(f"a quantile lies between 0 and 1, not at `{level}`")
        self._level = level
        self._models: dict[ModelName, _Histogram] = {}
        self._tags: dict[tuple[ModelName, TenantId], _Histogram] = {}

    def foresee(
        self, model: ModelName, tag: TenantId, *, generated: int = 0, tokens_max: int
    ) -> int:
        """Tokens in all, given that so many are there and it goes on; at most the cap."""
        if generated >= tokens_max:
            return tokens_max
        for histogram in (self._tags.get((model, tag)), self._models.get(model)):
            if histogram is not None and histogram.count >= _TRUSTED:
                tokens = histogram.quantile(generated)
                if tokens is not None:
                    return min(tokens, tokens_max)
        return tokens_max

    def ended(self, model: ModelName, tag: TenantId, tokens: int, foreseen: int) -> None:
        """An answer is complete; `foreseen` is what was said of it at first."""
        if tokens < 1:
            return
        of_model = self._models.setdefault(model, _Histogram(self._level))
        of_tag = self._tags.get((model, tag))
        if of_tag is None:
            if len(self._tags) >= _TAGS_MAX:
                del self._tags[next(iter(self._tags))]
            of_tag = self._tags[model, tag] = _Histogram(self._level)
        for histogram in (of_model, of_tag):
            histogram.add(tokens)
            step = self._level if tokens > foreseen else self._level - 1.0
            histogram.level = min(max(histogram.level + _STEP * step, _LEVEL_MIN), _LEVEL_MAX)


def _bucket_of(tokens: int) -> int:
    return min(_BUCKETS - 1, ceil(_BUCKETS_PER_OCTAVE * log2(max(tokens, 1))))


def _tokens_of(bucket: int) -> int:
    """The longest that falls into a bucket."""
    return int(2 ** (bucket / _BUCKETS_PER_OCTAVE))
