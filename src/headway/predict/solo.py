"""What a batch executes for alone, by device, model, bucket and rows.

Knows profiles and what executions were worth once their neighbours' share was taken off. Refuses
to know who the neighbours were.
"""

from collections.abc import Iterable
from math import exp, log
from typing import Final

from headway.core import BucketKey, DeviceName, ModelName, Run
from headway.predict.belief import Belief
from headway.predict.curves import Curves, bytes_distance
from headway.predict.profile import ModelProfile
from headway.predict.sizes import Size, Sizes
from headway.predict.stored import NS_MAX, fields_of, has_rows, rows_of, time_of

__all__ = ["SoloTimes"]

_FLOORS_MAX: Final = 4096
"""Distinct (model, rows) whose fastest execution is remembered."""
_PROFILE_SIGMA: Final = 0.1
_GUESS_SIGMA: Final = 0.4
_FIRST_SIGMA: Final = 0.3
_DRIFT_SIGMA: Final = 0.005
_LOG_RATIO_MAX: Final = log(8.0)
"""A profile may be wrong by this factor, no more."""
_LOG_NS_MAX: Final = log(NS_MAX)
"""No batch takes longer than a day."""
_BYTES_MAX: Final = float(2**53)


class SoloTimes:
    """Execution of a batch with the device to itself.

    A size with a profile starts from it (interpolated over rows) and is corrected by a bounded
    ratio, so that a profile which turns out wrong (a hot or a shared machine) is mended. A profile
    of no run is a guess: its shape over rows counts, its level until a size was seen.

    A size without starts from the nearest known size of its bucket. If none of its bucket ran, from
    what was measured of other shapes on its device (corrected by what those took since) or from a
    known size of the model, whichever is nearer in bytes of a row; in proportion to these where
    they differ. What started so is held like a guess. Rows count as a profile of the model has it,
    else in proportion. Then comes the first observation. 0 is unknown.

    Invariants: as many sizes are kept as `Sizes` allows; every answer is finite and >= 0.
    """

    def __init__(self, profiles: Iterable[ModelProfile] = ()) -> None:
        self._curves = Curves(profiles)
        self._sizes = Sizes()
        """Of log nanoseconds."""
        self._floors: dict[tuple[ModelName, int], int] = {}

    def base_ns(
        self, device: DeviceName, model: ModelName, bucket: BucketKey, rows: int, payload_bytes: int
    ) -> float:
        """Expected execution alone; 0 while nothing is known of the model."""
        key = (device, model, bucket, rows)
        seen = self._sizes.seen.get(key)
        if seen is not None:
            return float(round(exp(seen.belief.mean)))
        start = self._start(key, payload_bytes)
        return 0.0 if start is None else float(round(exp(start)))

    def belief(self, run: Run) -> Belief | None:
        """What an observation of this batch moves; None while there is nothing to start from."""
        key = (run.device, run.model, run.bucket, run.rows)
        seen = self._sizes.seen.get(key)
        if seen is not None:
            self._sizes.touch(key)
            return seen.belief
        start = self._start(key, run.payload_bytes)
        if start is None:
            return None
        belief = self._fresh(key, start)
        self._sizes.add(key, belief, run.payload_bytes)
        return belief

    def first(self, run: Run, execution_ns: float) -> None:
        """The first observation of a model of which nothing was known."""
        mean = log(max(execution_ns, 1.0))
        key = (run.device, run.model, run.bucket, run.rows)
        self._sizes.add(key, _belief(mean, _FIRST_SIGMA, 0.0, _LOG_NS_MAX), run.payload_bytes)

    def any_ns(self, model: ModelName, rows: int) -> float:
        """Execution alone of this many rows in any bucket, on any device; 0 while unknown."""
        size = self._sizes.nearest_rows(model, rows)
        if size is not None:
            return self.base_ns(size[0], model, size[2], rows, 0)
        place = self._curves.any_of(model)
        return 0.0 if place is None else self.base_ns(place[0], model, place[1], rows, 0)

    def floor_ns(self, model: ModelName, rows: int) -> int:
        """The fastest execution so far of this many rows, on any device; 0 before the first."""
        return self._floors.get((model, rows), 0)

    def see(self, run: Run, execution_ns: int) -> None:
        """An execution may have been the fastest."""
        key = (run.model, run.rows)
        floor_ns = self._floors.get(key)
        if floor_ns is not None:
            self._floors[key] = min(floor_ns, execution_ns)
        elif len(self._floors) < _FLOORS_MAX:
            self._floors[key] = execution_ns

    def _fresh(self, key: Size, start: float) -> Belief:
        """A belief about a size: firm and within reach of what was measured, or loose."""
        curve = self._curves.exact(*key[:3])
        if curve is None or curve.is_guess:
            return _belief(start, _GUESS_SIGMA, 0.0, _LOG_NS_MAX)
        start = _log_ns(curve.times.service_ns(key[3]))
        return _belief(start, _PROFILE_SIGMA, start - _LOG_RATIO_MAX, start + _LOG_RATIO_MAX)

    def _start(self, key: Size, payload_bytes: int) -> float | None:
        """Logarithm of where a size that was never seen begins."""
        device, model, bucket, rows = key
        curve = self._curves.exact(device, model, bucket)
        near = self._sizes.nearest(key)
        if curve is not None and (near is None or not curve.is_guess):
            return _log_ns(curve.times.service_ns(rows))
        row_bytes = payload_bytes / rows
        near_bytes = 0.0 if near is None else self._sizes.seen[near].payload_bytes / near[3]
        is_other = near is None or near[2] != bucket
        if curve is None:
            other = self._curves.stand_in(device, model, bucket, row_bytes)
            is_nearer = near is None or (
                other is not None
                and not other.curve.is_guess
                and other.distance <= bytes_distance(row_bytes, near_bytes)
            )
            if other is not None and is_other and is_nearer:
                start_ns = self.base_ns(device, model, other.curve.bucket, rows, 0)
                return _log_ns(start_ns * other.scale)
            curve = None if other is None else other.curve
        if near is None:
            return None
        ratio = rows / near[3]
        if curve is not None:
            ratio = curve.times.service_ns(rows) / curve.times.service_ns(near[3])
        if is_other and row_bytes > 0.0 and near_bytes > 0.0:
            ratio *= row_bytes / near_bytes
        return min(max(self._sizes.seen[near].belief.mean + log(ratio), 0.0), _LOG_NS_MAX)

    def state(self) -> dict[str, object]:
        """Sizes with mean, variance and bytes; the fastest executions."""
        return {
            "sizes": [
                [*key, *seen.belief.dump(), seen.payload_bytes]
                for key, seen in self._sizes.seen.items()
            ],
            "floors": [[*key, floor_ns] for key, floor_ns in self._floors.items()],
        }

    def restore(self, state: object) -> None:
        """Take up what `state` gave; what does not fit is ignored, profiles keep their reach."""
        fields = fields_of(state)
        for key, numbers in rows_of(fields.get("sizes"), (str, str, str, int), 3):
            if not has_rows(key[3]):
                continue
            model = ModelName(str(key[1]))
            size = (DeviceName(str(key[0])), model, BucketKey(str(key[2])), int(key[3]))
            belief = self._fresh(size, 0.0)
            belief.load(numbers[:2])
            self._sizes.add(size, belief, int(min(max(numbers[2], 0.0), _BYTES_MAX)))
        for key, numbers in rows_of(fields.get("floors"), (str, int), 1):
            if has_rows(key[1]) and numbers[0] > 0.0 and len(self._floors) < _FLOORS_MAX:
                floor_ns = int(time_of(numbers[0]))
                self._floors[ModelName(str(key[0])), int(key[1])] = floor_ns


def _log_ns(time_ns: float) -> float:
    """Logarithm of a time within a nanosecond and a day."""
    return min(log(max(time_ns, 1.0)), _LOG_NS_MAX)


def _belief(mean: float, sigma: float, low: float, high: float) -> Belief:
    return Belief(mean, sigma, drift_sigma=_DRIFT_SIGMA, low=max(0.0, low), high=high)
