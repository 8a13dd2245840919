"""What a batch executes for alone, by device, model, bucket and rows.

Knows profiles and what executions were worth once their neighbours' share was taken off. Refuses
to know who the neighbours were.
"""

from collections.abc import Iterable
from math import exp, log
from typing import Final

from headway.core import BucketKey, DeviceName, ModelName, Run
from headway.predict.belief import Belief
from headway.predict.profile import ModelProfile, Profile
from headway.predict.stored import fields_of, rows_of

__all__ = ["SoloTimes"]

_SIZES_MAX: Final = 4096
"""Distinct (device, model, bucket, rows) that are remembered."""
_PROFILE_SIGMA: Final = 0.1
_GUESS_SIGMA: Final = 0.4
_FIRST_SIGMA: Final = 0.3
_DRIFT_SIGMA: Final = 0.005
_LOG_RATIO_MAX: Final = log(8.0)
"""A profile may be wrong by this factor, no more."""
_LOG_NS_MAX: Final = log(86_400e9)
"""No batch takes longer than a day."""

_Size = tuple[DeviceName, ModelName, BucketKey, int]


class SoloTimes:
    """Execution of a batch with the device to itself.

    A size with a profile starts from it (interpolated over rows) and is corrected by a bounded
    ratio, so that a profile which turns out wrong (a hot or a shared machine) is mended. A size
    without starts from the nearest known size of its bucket, else of its model, in proportion to
    payload bytes where they differ, else to rows; then from its first observation. 0 is unknown.
    A profile of no run is a guess: its shape over rows counts, its level until a size was seen.

    Invariants: at most `_SIZES_MAX` sizes are kept; every answer is finite and >= 0.
    """

    def __init__(self, profiles: Iterable[ModelProfile] = ()) -> None:
        self._curves: dict[tuple[DeviceName, ModelName, BucketKey], Profile] = {}
        self._guesses: set[Profile] = set()
        """Those of the curves that were never measured."""
        for profile in profiles:
            if profile.solo:
                curve = Profile({time.rows: time.median_ns for time in profile.solo})
                self._curves[profile.device, profile.model, profile.bucket] = curve
                if all(time.runs == 0 for time in profile.solo):
                    self._guesses.add(curve)
        self._beliefs: dict[_Size, Belief] = {}
        """Of log nanoseconds."""
        self._payloads: dict[ModelName, dict[_Size, int]] = {}
        """Payload bytes of each size that was seen, by model."""
        self._floors: dict[tuple[ModelName, int], int] = {}

    def base_ns(
        self, device: DeviceName, model: ModelName, bucket: BucketKey, rows: int, payload_bytes: int
    ) -> float:
        """Expected execution alone; 0 while nothing is known of the model."""
        key = (device, model, bucket, rows)
        belief = self._beliefs.get(key)
        if belief is not None:
            return float(round(exp(belief.mean)))
        start = self._start(key, payload_bytes)
        return 0.0 if start is None else float(round(exp(start)))

    def belief(self, run: Run) -> Belief | None:
        """What an observation of this batch moves; None while there is nothing to start from."""
        key = (run.device, run.model, run.bucket, run.rows)
        belief = self._beliefs.get(key)
        if belief is None:
            start = self._start(key, run.payload_bytes)
            if start is not None:
                belief = self._remember(run, key, self._fresh(key, start))
        return belief

    def first(self, run: Run, execution_ns: float) -> None:
        """The first observation of a model of which nothing was known."""
        mean = log(max(execution_ns, 1.0))
        key = (run.device, run.model, run.bucket, run.rows)
        self._remember(run, key, _belief(mean, _FIRST_SIGMA, 0.0, _LOG_NS_MAX))

    def any_ns(self, model: ModelName, rows: int) -> float:
        """Execution alone of this many rows in any bucket, on any device; 0 while unknown."""
        for size, payload_bytes in self._payloads.get(model, {}).items():
            if size[3] == rows:
                return self.base_ns(*size, payload_bytes)
        sizes = [*self._payloads.get(model, {}), *[(*c, 1) for c in self._curves if c[1] == model]]
        return self.base_ns(*sizes[0][:3], rows, 0) if sizes else 0.0

    def floor_ns(self, model: ModelName, rows: int) -> int:
        """The fastest execution so far of this many rows, on any device; 0 before the first."""
        return self._floors.get((model, rows), 0)

    def see(self, run: Run, execution_ns: int) -> None:
        """An execution may have been the fastest."""
        key = (run.model, run.rows)
        floor_ns = self._floors.get(key)
        if floor_ns is not None:
            self._floors[key] = min(floor_ns, execution_ns)
        elif len(self._floors) < _SIZES_MAX:
            self._floors[key] = execution_ns

    def _fresh(self, key: _Size, start: float) -> Belief:
        """A belief about a size: firm and within reach of what was measured, or loose."""
        curve = self._curve(key)
        if curve is None or curve in self._guesses:
            return _belief(start, _GUESS_SIGMA, 0.0, _LOG_NS_MAX)
        start = log(curve.service_ns(key[3]))
        return _belief(start, _PROFILE_SIGMA, start - _LOG_RATIO_MAX, start + _LOG_RATIO_MAX)

    def _remember(self, run: Run, key: _Size, belief: Belief) -> Belief | None:
        if len(self._beliefs) >= _SIZES_MAX:
            return None
        self._beliefs[key] = belief
        self._payloads.setdefault(run.model, {})[key] = run.payload_bytes
        return belief

    def _curve(self, key: _Size) -> Profile | None:
        device, model, bucket, _ = key
        exact = self._curves.get((device, model, bucket))
        return exact or self._curves.get((device, model, BucketKey("")))

    def _start(self, key: _Size, payload_bytes: int) -> float | None:
        """Logarithm of where a size that was never seen begins."""
        curve = self._curve(key)
        device, model, bucket, rows = key
        known = self._payloads.get(model)
        if curve is not None and not (known and curve in self._guesses):
            return log(curve.service_ns(rows))
        if not known:
            return None
        near = min(
            known,
            key=lambda size: (size[2] != bucket, size[0] != device, abs(log(size[3] / rows))),
        )
        if curve is not None:
            ratio = curve.service_ns(rows) / curve.service_ns(near[3])
        elif near[2] != bucket and known[near] > 0 and payload_bytes > 0:
            ratio = payload_bytes / known[near]
        else:
            ratio = rows / near[3]
        return min(max(self._beliefs[near].mean + log(ratio), 0.0), _LOG_NS_MAX)

    def state(self) -> dict[str, object]:
        """Sizes with mean, variance and bytes; the fastest executions."""
        return {
            "sizes": [
                [*key, *belief.dump(), self._payloads[key[1]][key]]
                for key, belief in self._beliefs.items()
            ],
            "floors": [[*key, floor_ns] for key, floor_ns in self._floors.items()],
        }

    def restore(self, state: object) -> None:
        """Take up what `state` gave; what does not fit is ignored, profiles keep their reach."""
        fields = fields_of(state)
        for key, numbers in rows_of(fields.get("sizes"), (str, str, str, int), 3):
            rows = int(key[3])
            if rows < 1 or len(self._beliefs) >= _SIZES_MAX:
                continue
            model = ModelName(str(key[1]))
            size = (DeviceName(str(key[0])), model, BucketKey(str(key[2])), rows)
            belief = self._fresh(size, 0.0)
            belief.load(numbers[:2])
            self._beliefs[size] = belief
            self._payloads.setdefault(model, {})[size] = max(0, int(numbers[2]))
        for key, numbers in rows_of(fields.get("floors"), (str, int), 1):
            if numbers[0] > 0.0 and len(self._floors) < _SIZES_MAX:
                self._floors[ModelName(str(key[0])), int(key[1])] = int(numbers[0])


def _belief(mean: float, sigma: float, low: float, high: float) -> Belief:
    return Belief(mean, sigma, drift_sigma=_DRIFT_SIGMA, low=max(0.0, low), high=high)
