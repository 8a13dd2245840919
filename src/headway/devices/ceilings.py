"""The most that the cores can compute and the memory can stream: the two lines of a roofline.

Knows burners. Refuses to know models. The figures are of the processor time that the burners got:
programs beside them cost precision, not height.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from headway.devices.burner import Burners, Load, LoadKind, OpenBurners
from headway.devices.host import Fingerprint, llc_bytes

__all__ = ["Ceiling", "Ceilings", "measure_ceilings", "stream_bytes"]

_ARRAY_BYTES_MIN: Final = 16 << 20
_ARRAY_BYTES_MAX: Final = 256 << 20
_MEMORY_PART: Final = 4
"""Of the memory that is available, all arrays together take at most one part in this many."""


class Ceiling(Struct, frozen=True, kw_only=True):
    """The best window of several, with so many cores at work at once."""

    cores_count: int
    flop_per_s: float
    """Float32 matrix products in cache, one thread a core; all cores together."""
    bytes_per_s: float
    """The triad a = b + s·c over arrays far larger than the caches, three arrays of traffic, one
    thread a core; all cores together."""


class Ceilings(Struct, frozen=True, kw_only=True):
    """Compute and bandwidth of one core, and of all that may be used."""

    one: Ceiling
    every: Ceiling
    array_bytes: int
    """Size of each of a core's three arrays."""
    presence_ratio: float = 1.0
    """Part of the time that the burners had their cores; less where other programs ran."""

    @property
    def ridge_flop_per_byte(self) -> float:
        """Below this intensity one core is bound by memory, above it by arithmetic."""
        return self.one.flop_per_s / self.one.bytes_per_s if self.one.bytes_per_s else 0.0


def stream_bytes(machine: Fingerprint, *, available_bytes: int, cores_count: int) -> int:
    """Size of one array that no cache holds and that memory has room for.

    Twice the largest cache, so that three of them are six times it; less only where all burners'
    arrays would take more than a quarter of the available memory.
    """
    wanted = min(_ARRAY_BYTES_MAX, max(_ARRAY_BYTES_MIN, 2 * llc_bytes(machine)))
    if not available_bytes:
        return wanted
    room = available_bytes // (_MEMORY_PART * 3 * max(1, cores_count))
    return max(1 << 20, min(wanted, room))


def measure_ceilings(
    cores: Sequence[int],
    *,
    array_bytes: int,
    windows: int,
    window_ns: int,
    on_step: Callable[[], None] = lambda: None,
    open_burners: OpenBurners = Burners,
) -> Ceilings:
    """Measure compute and bandwidth on the last core alone and on all together.

    Args:
        cores: to burn.
        array_bytes: of each of a core's three arrays.
        windows: the best of so many counts.
        window_ns: length of each.
        on_step: told after each of the four measurements.
        open_burners: what starts the burners.

    Raises:
        HeadwayError: a burner could not be started, or has ended.
    """
    found: dict[tuple[int, LoadKind], float] = {}
    presences: list[float] = []
    for chosen in (tuple(cores[-1:]), tuple(cores)):
        with open_burners(chosen) as burners:
            for kind in (LoadKind.COMPUTE, LoadKind.STREAM):
                burners.prepare(Load(kind, array_bytes))
                rates = [burners.run(window_ns) for _ in range(windows)]
                found[len(chosen), kind] = max(sum(r.per_cpu_s for r in some) for some in rates)
                presences.extend(rate.cpu_ratio for some in rates for rate in some)
                on_step()
    one, every = (
        Ceiling(
            cores_count=count,
            flop_per_s=found[count, LoadKind.COMPUTE],
            bytes_per_s=found[count, LoadKind.STREAM],
        )
        for count in (1, len(cores))
    )
    return Ceilings(
        one=one,
        every=every,
        array_bytes=array_bytes,
        presence_ratio=sum(presences) / len(presences),
    )
