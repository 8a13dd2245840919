"""A profile: solo service time by batch size, measured or assumed, interpolated between sizes."""

from bisect import bisect_left
from collections.abc import Mapping

__all__ = ["Profile"]


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
