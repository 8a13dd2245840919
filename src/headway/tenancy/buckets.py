"""A rate with a burst: a bucket that fills at the rate and is as large as the burst.

Knows amounts and instants. Refuses to know what is counted.
"""

from math import ceil

from headway.units import NS_PER_S

__all__ = ["Bucket"]


class Bucket:
    """One rate.

    What is larger than the bucket may be taken when it is full, and leaves a debt: a limit of 10
    rows a second must slow a request of 64 rows, not refuse it for ever.

    All that is kept is the instant at which it will be full, which taking puts off: so there is
    nothing to bring up to date, and nothing that rounding could lose.

    Args:
        rate_per_s: what comes in.
        burst_s: it is full after so long without use.
        now_ns: an instant before the first use; it is full then.
    """

    __slots__ = ("_full_at_ns", "_unit_ns", "rate_per_s", "size")

    def __init__(self, rate_per_s: float, burst_s: float, now_ns: int) -> None:
        self.rate_per_s = rate_per_s
        self.size = max(1.0, rate_per_s * burst_s)
        self._unit_ns = NS_PER_S / rate_per_s
        self._full_at_ns = float(now_ns)

    def level(self, now_ns: int) -> float:
        """What may be taken now; below 0 while there is a debt."""
        return self.size - max(0.0, self._full_at_ns - now_ns) / self._unit_ns

    def wait_ns(self, amount: float, now_ns: int) -> int:
        """Until so much may be taken; 0 for now."""
        wait_ns = self._full_at_ns - now_ns
        if amount < self.size:
            wait_ns -= (self.size - amount) * self._unit_ns
        return ceil(wait_ns) if wait_ns > 0 else 0

    def take(self, amount: float, now_ns: int) -> None:
        """Take it, to be paid for by waiting; a negative amount gives back."""
        full_at_ns = self._full_at_ns
        full_at_ns = max(full_at_ns, now_ns)
        self._full_at_ns = full_at_ns + amount * self._unit_ns

    def change(self, rate_per_s: float, burst_s: float, now_ns: int) -> None:
        """Take another rate or burst; a debt stays one."""
        size = max(1.0, rate_per_s * burst_s)
        missing = size - min(size, self.level(now_ns))
        self.rate_per_s, self.size = rate_per_s, size
        self._unit_ns = NS_PER_S / rate_per_s
        self._full_at_ns = now_ns + missing * self._unit_ns

    def full_ns(self, now_ns: int) -> int:
        """Until it is full."""
        return max(0, ceil(self._full_at_ns - now_ns))
