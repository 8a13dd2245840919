"""`fixed`: a model's service time depends on its batch size and nothing else.

The baseline of every comparison, and what the first policies use: it is wrong by as much as the
neighbours make it (35-50 % on shared cores), which is what the other predictors are for.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping

from headway.core import ModelName
from headway.predict.profile import Profile

__all__ = ["FixedPredictor"]

_WEIGHT = 16
"""A new observation counts for a sixteenth of the running mean."""
_SIZES_MAX = 4096
"""Distinct (model, rows) pairs that are remembered."""


class _Seen:
    """Running mean and minimum of one batch size."""

    __slots__ = ("floor_ns", "mean_ns")

    def __init__(self, service_ns: int) -> None:
        self.mean_ns = service_ns
        self.floor_ns = service_ns


class FixedPredictor:
    """Profiles where there are any, else the running mean of what was seen of the same size.

    A size that was never seen is taken for the next larger one that was, or the largest.

    Invariants: 0 <= floor <= every observation of that size; the mean stays within the
    observations' range; at most `_SIZES_MAX` sizes are kept, later ones share their model's.
    """

    def __init__(self, profiles: Mapping[ModelName, Profile] | None = None) -> None:
        self._profiles = dict(profiles or {})
        self._seen: dict[tuple[ModelName, int], _Seen] = {}
        self._sizes: dict[ModelName, list[int]] = {}
        """Sizes seen of each model, ascending."""

    def service_ns(self, model: ModelName, rows: int) -> int:
        """Expected dispatch-to-done time; 0 while nothing is known."""
        profile = self._profiles.get(model)
        if profile is not None:
            return profile.service_ns(rows)
        seen = self._seen.get((model, rows))
        if seen is None and (sizes := self._sizes.get(model)):
            nearest = sizes[min(bisect_left(sizes, rows), len(sizes) - 1)]
            seen = self._seen[model, nearest]
        return 0 if seen is None else seen.mean_ns

    def floor_ns(self, model: ModelName, rows: int) -> int:
        """The fastest batch of this size so far; 0 before the first."""
        seen = self._seen.get((model, rows))
        return 0 if seen is None else seen.floor_ns

    def observe(self, model: ModelName, rows: int, service_ns: int) -> None:
        """Blend one observation in."""
        service_ns = max(0, service_ns)
        seen = self._seen.get((model, rows))
        if seen is not None:
            seen.mean_ns += (service_ns - seen.mean_ns) // _WEIGHT
            seen.floor_ns = min(seen.floor_ns, service_ns)
        elif len(self._seen) < _SIZES_MAX:
            self._seen[model, rows] = _Seen(service_ns)
            insort(self._sizes.setdefault(model, []), rows)
