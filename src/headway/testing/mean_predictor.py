"""A predictor for tests of what asks predictors: running means and floors, and no foresight.

No server runs it: `headway.predict` has the one that is called `fixed`.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

from headway.core import (
    UNKNOWN,
    BatchId,
    DeviceName,
    Forecast,
    ModelName,
    QueueView,
    Request,
    Run,
    Stages,
)
from headway.predict import Profile

__all__ = ["MeanPredictor"]

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


class MeanPredictor:
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
        self._runs: dict[BatchId, Run] = {}

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

    def solo_ns(self, model: ModelName, rows: int) -> int:
        """As `service_ns`: it knows no neighbours."""
        return self.service_ns(model, rows)

    def floor_ns(self, model: ModelName, rows: int) -> int:
        """The fastest batch of this size so far; 0 before the first."""
        seen = self._seen.get((model, rows))
        return 0 if seen is None else seen.floor_ns

    def forecast(
        self, candidate: Run | None, device: DeviceName, queue: QueueView, now_ns: int
    ) -> Sequence[Forecast]:
        """The candidate's own mean; it knows no neighbours, so it says nothing of them."""
        return () if candidate is None else (self._of(candidate),)

    def beside(self, candidate: Run | None, device: DeviceName, now_ns: int) -> Sequence[Forecast]:
        """As `forecast`."""
        return () if candidate is None else (self._of(candidate),)

    def foresee(self, request: Request, queue: QueueView, now_ns: int) -> Forecast:
        """Nothing: it does not look at the queue."""
        return UNKNOWN

    def admitted(self, request: Request, queue: QueueView, now_ns: int) -> Forecast:
        """Nothing, as it foresees."""
        return self.foresee(request, queue, now_ns)

    def started(self, run: Run, queue: QueueView, now_ns: int) -> Forecast:
        """The running mean."""
        self._runs[run.batch_id] = run
        return self._of(run)

    def finished(self, batch_id: BatchId, stages: Stages, now_ns: int) -> None:
        """Blend one observation in."""
        run = self._runs.pop(batch_id)
        self.observe(run.model, run.rows, stages.service_ns)

    def dropped(self, batch_id: BatchId, now_ns: int) -> None:
        """Forget that it ran."""
        del self._runs[batch_id]

    def answered(self, request: Request, foreseen: Forecast, now_ns: int) -> None:
        """Of no consequence."""

    def install(self, count: int) -> None:
        """Nothing is fitted here."""

    def state(self) -> dict[str, object]:
        """Mean and floor of each size."""
        seen = [[m, r, s.mean_ns, s.floor_ns] for (m, r), s in self._seen.items()]
        return {"seen": seen}

    def restore(self, state: object) -> bool:
        """Nothing: a few runs make up for it."""
        return False

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

    def _of(self, run: Run) -> Forecast:
        service_ns = self.service_ns(run.model, run.rows)
        return Forecast(
            batch_id=run.batch_id, mean_ns=service_ns, bound_ns=service_ns, base_ns=service_ns
        )
