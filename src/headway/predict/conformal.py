"""Upper bounds that hold: quantiles of how much longer things took than was said, by group.

Split conformal prediction on the ratio actual/predicted: of n past ratios of a group the
ceil((n+1)(1-a))-th smallest is exceeded by the next with chance at most a, whatever their
distribution, as long as they are exchangeable. They are not when load drifts, so a itself moves
with each miss (adaptive conformal inference, Gibbs and Candès 2021): a += γ(α - missed), which
holds the long-run share of misses at α. Groups back off from fine to coarse while a fine one is
small; until any group is large enough for a finite quantile the bound is the largest of the last
ten ratios and a tenth, and before that a fixed wide margin.

Knows ratios and group names. Refuses to know what was predicted.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from math import ceil, exp, isfinite, log
from typing import Final

from headway.predict.stored import fields_of, number_of, rows_of

__all__ = ["Bounds", "Group"]

Group = tuple[str, ...]
"""Names; the first of the finest is what the share of misses is held within."""

_GROUPS_MAX: Final = 1024
_FINE_COUNT: Final = 40
"""Ratios that a group must hold before it is preferred to a coarser one."""
_WINDOW: Final = 300
_RECENT: Final = 10
_RECENT_MARGIN: Final = log(1.1)
_COLD_MARGIN: Final = log(3.0)
_COLD_COUNT: Final = 3
_STEP: Final = 0.02
"""γ: how far a moves with each miss."""
_LOG_RATIO_MAX: Final = log(1000.0)


class _Window:
    """The last ratios of a group, in order of time and of size."""

    __slots__ = ("ordered", "times")

    def __init__(self) -> None:
        self.times: deque[float] = deque()
        self.ordered: list[float] = []

    def add(self, ratio: float) -> None:
        if len(self.times) >= _WINDOW:
            oldest = self.times.popleft()
            self.ordered.pop(bisect_left(self.ordered, oldest))
        self.times.append(ratio)
        insort(self.ordered, ratio)

    def quantile(self, miss_ratio: float) -> float | None:
        """The ratio that is exceeded with this chance; None while there are too few."""
        count = len(self.ordered)
        rank = ceil((count + 1) * (1.0 - miss_ratio))
        return self.ordered[rank - 1] if 0 < rank <= count else None

    def recent_max(self) -> float:
        return max(list(self.times)[-_RECENT:])


class Bounds:
    """One-sided bounds at a confidence, for any number of groups.

    Args:
        confidence: share of outcomes that stay within, above 0.5 and below 1.

    Invariants: a factor is finite and at least 1; at most `_GROUPS_MAX` groups are kept,
    and of misses only theirs.
    """

    def __init__(self, confidence: float) -> None:
        if not 0.5 < confidence < 1.0:
            raise ValueError(f"confidence must be within 0.5 and 1, not {confidence}")
        self.confidence = confidence
        self._windows: dict[Group, _Window] = {}
        self._misses: dict[str, float] = {}
        """a by the first name of the finest group; only of names of groups that are kept."""
        self._factors: dict[Group, float] = {}
        """What was answered since the last outcome, by the finest group."""

    def factor(self, groups: Sequence[Group]) -> float:
        """By how much to stretch a prediction, from the first group that is large enough.

        Args:
            groups: from the finest to the coarsest.
        """
        known = self._factors.get(groups[0])
        if known is None:
            known = self._fresh_factor(groups)
            if len(self._factors) < _GROUPS_MAX:
                self._factors[groups[0]] = known
        return known

    def _fresh_factor(self, groups: Sequence[Group]) -> float:
        miss_ratio = self._misses.get(groups[0][0], 1.0 - self.confidence)
        largest: _Window | None = None
        for group in groups:
            window = self._windows.get(group)
            if window is None:
                continue
            largest = window
            if len(window.ordered) >= _FINE_COUNT:
                quantile = window.quantile(miss_ratio)
                # Where a is too small for so few, their largest is nearer than what others do.
                return exp(max(0.0, window.ordered[-1] if quantile is None else quantile))
        return exp(max(0.0, self._early(largest, miss_ratio)))

    def _early(self, window: _Window | None, miss_ratio: float) -> float:
        """The coarsest group is too small for the finer rule."""
        if window is None or len(window.ordered) < _COLD_COUNT:
            return _COLD_MARGIN
        quantile = window.quantile(miss_ratio)
        return window.recent_max() + _RECENT_MARGIN if quantile is None else quantile

    def see(
        self, groups: Sequence[Group], predicted_ns: float, bound_ns: float, actual_ns: float
    ) -> None:
        """An outcome: what had been predicted and bounded, and what it was."""
        if predicted_ns <= 0.0 or actual_ns <= 0.0 or not isfinite(predicted_ns + actual_ns):
            return
        self._factors.clear()
        ratio = min(max(log(actual_ns / predicted_ns), -_LOG_RATIO_MAX), _LOG_RATIO_MAX)
        name, is_kept = groups[0][0], False
        for group in groups:
            window = self._window(group)
            if window is not None:
                window.add(ratio)
                is_kept = is_kept or group[0] == name
        if not is_kept:
            return
        target = 1.0 - self.confidence
        miss_ratio = self._misses.get(name, target)
        self._aim(name, miss_ratio + _STEP * (target - (actual_ns > bound_ns)))

    def state(self) -> dict[str, object]:
        """The latest ratios of each group, and the share of misses that each class aims at."""
        return {
            "windows": [
                [list(group), list(window.times)[-_FINE_COUNT:]]
                for group, window in self._windows.items()
            ],
            "misses": [[name, miss_ratio] for name, miss_ratio in self._misses.items()],
        }

    def restore(self, state: object) -> None:
        """Take up what `state` gave; what does not fit is ignored."""
        fields = fields_of(state)
        windows = fields.get("windows")
        for line in windows[:_GROUPS_MAX] if isinstance(windows, list) else ():
            match line:
                case [[str(), *_] as group, [*ratios]]:
                    self._refill(tuple([str(name) for name in group]), ratios)
        names = {group[0] for group in self._windows}
        for (name,), (miss_ratio,) in rows_of(fields.get("misses"), (str,), 1):
            if name in names:
                self._aim(str(name), miss_ratio)
        self._factors.clear()

    def _window(self, group: Group) -> _Window | None:
        """A group's; None for a new one where there is no room."""
        window = self._windows.get(group)
        if window is None and len(self._windows) < _GROUPS_MAX:
            window = self._windows[group] = _Window()
        return window

    def _refill(self, group: Group, ratios: Sequence[object]) -> None:
        self._windows.pop(group, None)
        window = self._window(group)
        if window is None:
            return
        for ratio in ratios[-_WINDOW:]:
            number = number_of(ratio)
            if number is not None:
                window.add(min(max(number, -_LOG_RATIO_MAX), _LOG_RATIO_MAX))

    def _aim(self, name: str, miss_ratio: float) -> None:
        """Set a, within a tenth and four times what was configured."""
        target = 1.0 - self.confidence
        self._misses[name] = min(max(miss_ratio, 0.1 * target), min(4.0 * target, 0.5))
