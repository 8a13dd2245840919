"""The roofline model: what a device could do at best, given how much is computed a byte.

Pure: numbers in, numbers out. Knows neither graphs nor how a ceiling was measured.

A device computes at most `flop_per_s` and moves at most `bytes_per_s`; work of an intensity I, in
FLOP a byte, cannot run faster than min(flop_per_s, I * bytes_per_s). The two meet at the ridge,
flop_per_s / bytes_per_s: below it memory is the limit, above it arithmetic (Williams, Waterman and
Patterson, "Roofline", Communications of the ACM 52(4), 2009).
"""

from enum import StrEnum
from math import inf, isfinite, sqrt

from msgspec import Struct

from headway.predict import ModelProfile
from headway.units import NS_PER_S

__all__ = ["Bounds", "Limit", "Roof", "SoloEstimate", "bounds_of", "estimate_solo_ns"]


class Limit(StrEnum):
    """What keeps work from running faster on a device."""

    COMPUTE = "compute"
    MEMORY = "memory"
    EITHER = "either"
    """Memory if nothing is fused, compute if all is: the ridge lies between."""


class Roof(Struct, frozen=True, kw_only=True):
    """Ceilings of a device, or of the part of it that one execution gets.

    Raises:
        ValueError: a ceiling that is not a number above 0.
    """

    flop_per_s: float
    bytes_per_s: float

    def __post_init__(self) -> None:
        if not all(isfinite(v) and v > 0 for v in (self.flop_per_s, self.bytes_per_s)):
            raise ValueError(f"ceilings must be above 0, not {self.flop_per_s}, {self.bytes_per_s}")

    @property
    def ridge_flop_per_byte(self) -> float:
        """The intensity at which both ceilings are reached."""
        return self.flop_per_s / self.bytes_per_s

    def attainable_flop_per_s(self, intensity_flop_per_byte: float) -> float:
        """The most at this intensity."""
        return min(self.flop_per_s, intensity_flop_per_byte * self.bytes_per_s)


class Bounds(Struct, frozen=True, kw_only=True):
    """Where work lies under a roof. The low end is unfused, the high end fused."""

    intensity_low: float
    """FLOP a byte if every node reads and writes memory."""
    intensity_high: float
    """FLOP a byte if every intermediate stays in cache; infinite where nothing is moved."""
    attainable_low_flop_per_s: float
    attainable_high_flop_per_s: float
    limit: Limit


class SoloEstimate(Struct, frozen=True, kw_only=True):
    """A first guess of an execution alone on the device.

    Invariants: 0 <= least <= likely <= most.
    """

    least_ns: int
    """Fused, arithmetic and memory at their ceilings at once."""
    likely_ns: int
    """The geometric middle of the two."""
    most_ns: int
    """Unfused, arithmetic and memory one after the other; slower still where kernels are poor."""


def bounds_of(flop: float, bytes_fused: float, bytes_unfused: float, roof: Roof) -> Bounds:
    """Place work under a roof.

    Args:
        flop: operations.
        bytes_fused: memory traffic, at the least.
        bytes_unfused: memory traffic, at the most.
        roof: ceilings.
    """
    low, high = _ratio(flop, max(bytes_fused, bytes_unfused)), _ratio(flop, bytes_fused)
    ridge = roof.ridge_flop_per_byte
    if low >= ridge:
        limit = Limit.COMPUTE
    elif high < ridge:
        limit = Limit.MEMORY
    else:
        limit = Limit.EITHER
    return Bounds(
        intensity_low=low,
        intensity_high=high,
        attainable_low_flop_per_s=roof.attainable_flop_per_s(low),
        attainable_high_flop_per_s=roof.attainable_flop_per_s(high),
        limit=limit,
    )


def estimate_solo_ns(profile: ModelProfile, roof: Roof, rows: int) -> SoloEstimate:
    """Guess how long a model takes that has never run, from its graph and the ceilings.

    With F operations, B bytes fused and U unfused: least = max(F / flop_per_s, B / bytes_per_s),
    most = F / flop_per_s + U / bytes_per_s, likely = sqrt(least * most). A guess for a model's
    first minutes, no measurement: it leaves out the start of each kernel, which is most of a model
    of a tenth of a millisecond, and takes every kernel for as good as the one that made the
    ceiling.

    Args:
        profile: its `flop_per_row`, `bytes_per_row_fused`, `bytes_per_row_unfused` and
            `weight_bytes`; all zero where the graph is not known, which gives zeros.
        roof: of what one execution gets, one core for a model with one thread.
        rows: of the batch.
    """
    compute_s = rows * profile.flop_per_row / roof.flop_per_s
    fused_bytes = profile.weight_bytes + rows * profile.bytes_per_row_fused
    unfused_bytes = profile.weight_bytes + rows * profile.bytes_per_row_unfused
    least_s = max(compute_s, fused_bytes / roof.bytes_per_s)
    most_s = compute_s + max(fused_bytes, unfused_bytes) / roof.bytes_per_s
    least_ns, most_ns = round(least_s * NS_PER_S), round(most_s * NS_PER_S)
    likely_ns = round(sqrt(least_s) * sqrt(most_s) * NS_PER_S)
    return SoloEstimate(
        least_ns=least_ns,
        likely_ns=min(max(likely_ns, least_ns), most_ns),  # rounding must not reorder them
        most_ns=most_ns,
    )


def _ratio(flop: float, moved_bytes: float) -> float:
    if moved_bytes > 0:
        return flop / moved_bytes
    return inf if flop > 0 else 0.0
