"""What was measured of models before they serve: times over rows, by device, model and bucket.

Knows profiles, and which of them may stand in for shapes that were not measured. Refuses to know
what ran since.
"""

from collections.abc import Iterable
from math import inf, log
from typing import Final, NamedTuple

from headway.core import BucketKey, DeviceName, ModelName
from headway.predict.profile import ModelProfile, Profile
from headway.predict.stored import NS_MAX

__all__ = ["Curve", "Curves", "StandIn", "bytes_distance"]

_STAND_INS_MAX: Final = 32
"""Profiles of a model on a device that are looked at for one that may stand in."""
_ANY: Final = BucketKey("")


class Curve(NamedTuple):
    """Execution alone over rows, of one bucket."""

    bucket: BucketKey
    times: Profile
    in_bytes: int
    """Input bytes of a row; 0 when they are not known."""
    is_guess: bool
    """It was never measured: its shape over rows counts, its level until a size was seen."""


class StandIn(NamedTuple):
    """A curve of other shapes."""

    curve: Curve
    distance: float
    """Logarithm of how much more or less a row is; 0 for the same shapes, or nobody knows."""
    scale: float
    """By which its times are multiplied."""


class Curves:
    """Profiles that have times. A profile without a bucket is for every bucket that has none.

    A bucket without a curve borrows the nearest on its device: one of the same shapes (a request
    that names its version, or has parameters, is in a bucket of its own, which contains the
    profile's), else the one whose rows are nearest in bytes. Other devices' are never borrowed:
    how much faster they are is unknown, and a wait that is foreseen far too long is never served,
    so never mended.

    Invariants: of a model on a device at most `_STAND_INS_MAX` curves are compared.
    """

    def __init__(self, profiles: Iterable[ModelProfile] = ()) -> None:
        self._exact: dict[tuple[DeviceName, ModelName, BucketKey], Curve] = {}
        self._devices: dict[ModelName, DeviceName] = {}
        """The first device that each model was profiled on."""
        self._all: dict[tuple[DeviceName, ModelName], list[Curve]] = {}
        for profile in profiles:
            if profile.solo:
                curve = _curve(profile)
                self._devices.setdefault(profile.model, profile.device)
                self._exact[profile.device, profile.model, profile.bucket] = curve
        for (device, model, _), curve in self._exact.items():
            self._all.setdefault((device, model), []).append(curve)

    def exact(self, device: DeviceName, model: ModelName, bucket: BucketKey) -> Curve | None:
        """The curve of these shapes, or the one for whatever shapes."""
        exact = self._exact.get((device, model, bucket))
        return exact or self._exact.get((device, model, _ANY))

    def any_of(self, model: ModelName) -> tuple[DeviceName, BucketKey] | None:
        """A device and a bucket that the model has a curve for; None if it has none."""
        device = self._devices.get(model)
        return None if device is None else (device, self._all[device, model][0].bucket)

    def stand_in(
        self, device: DeviceName, model: ModelName, bucket: BucketKey, row_bytes: float
    ) -> StandIn | None:
        """The nearest curve of other shapes; None if the model has none on this device."""
        nearest: StandIn | None = None
        for curve in self._all.get((device, model), ())[:_STAND_INS_MAX]:
            if curve.bucket in bucket:
                return StandIn(curve, 0.0, 1.0)
            distance = bytes_distance(row_bytes, curve.in_bytes)
            if nearest is None or (distance or inf) < (nearest.distance or inf):
                scale = row_bytes / curve.in_bytes if curve.in_bytes and row_bytes > 0 else 1.0
                nearest = StandIn(curve, distance, scale)
        return nearest


def bytes_distance(one: float, other: float) -> float:
    """Logarithm of a ratio, without its sign; 0 where either is unknown."""
    return abs(log(one) - log(other)) if one > 0 and other > 0 else 0.0


def _curve(profile: ModelProfile) -> Curve:
    times = Profile({time.rows: min(time.median_ns, NS_MAX) for time in profile.solo})
    is_guess = all(time.runs == 0 for time in profile.solo)
    return Curve(profile.bucket, times, profile.transfer_in_bytes, is_guess)
