"""Cuts: what a slice of a device offers, and how long a model's batches take there.

Knows measured times by product and part of its multiprocessors, and which reading between them errs
on the safe side. Every time that was not measured says what it was taken from.
"""

from collections.abc import Mapping
from math import ceil, exp, log
from typing import Final, NamedTuple

from msgspec import Struct

from headway.plan.demand import MeasuredTimes, ModelDemand
from headway.plan.fleet import FleetDevice
from headway.plan.geometry import MigProfile
from headway.predict import Profile

__all__ = ["Cut", "TimesThere", "cut_of", "times_there", "whole_cut"]

_RATIO_EPSILON: Final = 0.02
"""Parts of a device that differ by less count as the same."""


class Cut(Struct, frozen=True, cache_hash=True):
    """A kind of slice: what all slices of one kind on one product have in common."""

    product: str
    profile: str | None
    """Of the MIG instance; None for the whole device, outside MIG."""
    sm_count: int
    device_sm_count: int
    memory_bytes: int

    @property
    def compute_ratio(self) -> float:
        """Part of the device's multiprocessors."""
        return self.sm_count / self.device_sm_count

    def __str__(self) -> str:
        """`3g.40gb of A100-80GB`."""
        return (
            f"a whole {self.product}"
            if self.profile is None
            else f"{self.profile} of {self.product}"
        )


class TimesThere(NamedTuple):
    """How long a model's batches take in a cut."""

    profile: Profile
    assumed: str
    """What it rests on where it was not measured there; empty where it was."""


def whole_cut(device: FleetDevice) -> Cut:
    """All of a device, outside MIG."""
    sm_count = device.sm_count
    return Cut(device.product, None, sm_count, sm_count, device.memory_bytes)


def cut_of(device: FleetDevice, profile: MigProfile) -> Cut:
    """An instance of a device."""
    return Cut(
        device.product, profile.name, profile.sm_count, device.sm_count, profile.memory_bytes
    )


def times_there(model: ModelDemand, cut: Cut, speeds: Mapping[str, float]) -> TimesThere | None:
    """Read a model's times for a cut out of what was measured.

    Between two measured parts of the product the logarithm of the time is interpolated over that of
    the part. On less than the smallest part measured, time grows as the part shrinks, as if the
    model could use every multiprocessor; on more than the largest it stays what it was there. Both
    err upwards. On a product without a measurement the times of another are taken, by the fleet's
    speeds of whole devices.

    Returns:
        None where nothing is known: no measurement, and no speed to convert one by.
    """
    measured = [times for times in model.times if times.product == cut.product]
    factor, assumed = 1.0, ""
    if not measured:
        source = _convertible(model, cut.product, speeds)
        if source is None:
            return None
        measured = [times for times in model.times if times.product == source]
        factor = speeds[source] / speeds[cut.product]
        assumed = f"times of {source} × {factor:.2f}, by the fleet's speeds"
    measured.sort(key=lambda times: times.compute_ratio)
    times_ns, how = _read(measured, cut.compute_ratio)
    if factor != 1.0 or assumed:
        times_ns = {rows: time_ns * factor for rows, time_ns in times_ns.items()}
    words = "; ".join(part for part in (assumed, how) if part)
    return TimesThere(Profile({rows: ceil(time_ns) for rows, time_ns in times_ns.items()}), words)


def _convertible(model: ModelDemand, product: str, speeds: Mapping[str, float]) -> str | None:
    """The measured product whose times are stretched least."""
    if product not in speeds:
        return None
    known = [times.product for times in model.times if times.product in speeds]
    return min(
        known, key=lambda name: (abs(log(speeds[name] / speeds[product])), name), default=None
    )


def _read(measured: list[MeasuredTimes], ratio: float) -> tuple[dict[int, float], str]:
    """Times by rows on a part of the product, and a word where they were not measured on it."""
    for times in measured:
        if abs(times.compute_ratio - ratio) <= _RATIO_EPSILON:
            return {rows: float(ns) for rows, ns in times.service_ns.items()}, ""
    below = [times for times in measured if times.compute_ratio < ratio]
    above = [times for times in measured if times.compute_ratio > ratio]
    if not below:
        smallest = above[0]
        stretch = smallest.compute_ratio / ratio
        words = (
            f"measured on {_percent(smallest.compute_ratio)} of the device, taken × {stretch:.2f}"
        )
        return {rows: ns * stretch for rows, ns in smallest.service_ns.items()}, words
    if not above:
        largest = below[-1]
        words = (
            f"measured on {_percent(largest.compute_ratio)} of the device, taken as no faster here"
        )
        return {rows: float(ns) for rows, ns in largest.service_ns.items()}, words
    low, high = below[-1], above[0]
    part = log(ratio / low.compute_ratio) / log(high.compute_ratio / low.compute_ratio)
    low_times, high_times = Profile(low.service_ns), Profile(high.service_ns)
    rows_known = sorted({*low.service_ns, *high.service_ns})
    found = {
        rows: exp(
            (1 - part) * log(low_times.service_ns(rows)) + part * log(high_times.service_ns(rows))
        )
        for rows in rows_known
    }
    words = (
        f"between measurements on {_percent(low.compute_ratio)} and "
        f"{_percent(high.compute_ratio)} of the device"
    )
    return found, words


def _percent(ratio: float) -> str:
    return f"{ratio * 100:.0f} %"
