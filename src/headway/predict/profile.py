"""A profile: solo service time by batch size, measured or assumed, interpolated between sizes."""

from bisect import bisect_left
from collections.abc import Mapping

from msgspec import Struct

from headway.core import BucketKey, DeviceName, ModelName

__all__ = ["ModelProfile", "Pressures", "Profile", "SoloTime"]


class SoloTime(Struct, frozen=True, kw_only=True):
    """How long one batch size takes with the device to itself."""

    rows: int
    median_ns: int
    p95_ns: int
    runs: int
    """Of which these are the median and the 95th percentile, warm-up apart."""


class Pressures(Struct, frozen=True, kw_only=True):
    """What black-box probes say of a model and its neighbours on other lanes of the device.

    A demand is the part of the resource that the model takes, 0 to 1, seen by how much it slows a
    stressor; a sensitivity is the slowdown less 1 that a stressor which takes all of the resource
    causes it. `headway.profiling` says how each is measured. The defaults are those of a model of
    which nothing is known: one thread that never waits, and no effect from lane to lane.
    """

    compute_demand: float = 1.0
    """Part of its own lane's core that the model keeps busy while it runs."""
    bandwidth_demand: float = 0.0
    """Part of the device's memory bandwidth that the model takes from the other lanes."""
    compute_sensitivity: float = 0.0
    """How much longer it takes, 0.1 for 10 %, while all other lanes compute flat out."""
    bandwidth_sensitivity: float = 0.0
    """How much longer it takes while all other lanes stream memory flat out."""


class ModelProfile(Struct, frozen=True, kw_only=True):
    """What was measured of one model on one device; all of it may be absent but the name."""

    model: ModelName
    device: DeviceName
    bucket: BucketKey = BucketKey("")
    """The shapes that it was measured with, as requests that name no version and no parameters
    have them; empty when that is not known. A model may have a profile for each; shapes without one
    borrow the nearest's."""
    solo: tuple[SoloTime, ...] = ()
    """Ascending in rows; execution alone, without transfers and the way to the worker."""
    transfer_in_bytes: int = 0
    """Input bytes of one row."""
    transfer_out_bytes: int = 0
    """Output bytes of one row."""
    memory_bytes: int = 0
    """What loading it added to a worker, the library apart."""
    overhead_ns: int = 0
    """Of a batch of the smallest size, not of a row: what its service takes beside its stages,
    which are the copies in and out and the execution."""
    pressures: Pressures = Pressures()
    flop_per_row: float = 0.0
    """From the graph; 0 when it is not known."""
    bytes_per_row_fused: float = 0.0
    """Memory traffic if every intermediate stayed in cache: a lower bound."""
    bytes_per_row_unfused: float = 0.0
    """Memory traffic if every node read and wrote memory: an upper bound."""
    weight_bytes: int = 0
    """Constants that a batch reads, whatever its rows; on top of the bytes per row."""


class Profile:
    """Service time of one model over batch rows.

    Between measured sizes the time is interpolated linearly, beyond the largest it grows in
    proportion to rows, below the smallest it is the smallest's. Times are rounded up.

    Raises:
        ValueError: no size given, or a size or a time that is not positive.
    """

    __slots__ = ("_rows", "_times_ns")

    def __init__(self, service_ns_by_rows: Mapping[int, int]) -> None:
        pairs = sorted(service_ns_by_rows.items())
        if not pairs or pairs[0][0] < 1 or min(time_ns for _, time_ns in pairs) <= 0:
            raise ValueError(f"a profile needs positive rows and times, not {dict(pairs)}")
        self._rows = [rows for rows, _ in pairs]
        self._times_ns = [time_ns for _, time_ns in pairs]

    def points(self) -> list[tuple[int, int]]:
        """Every size that was given, with its time."""
        return list(zip(self._rows, self._times_ns, strict=True))

    def service_ns(self, rows: int) -> int:
        """Solo service time of a batch of this many rows."""
        at = bisect_left(self._rows, rows)
        if at == len(self._rows):
            return -(-self._times_ns[-1] * rows // self._rows[-1])
        if at == 0 or self._rows[at] == rows:
            return self._times_ns[at]
        low, high = self._rows[at - 1], self._rows[at]
        low_ns, high_ns = self._times_ns[at - 1], self._times_ns[at]
        return low_ns - (low_ns - high_ns) * (rows - low) // (high - low)
