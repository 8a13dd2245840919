"""Arrival processes: when one source of requests sends them.

Knows rates, gaps and a `random.Random` handed in. Never a clock, and never what is sent.

Every process yields instants in nanoseconds from its start, never decreasing and without end; the
workload cuts them at its duration. The same process with the same chance yields the same instants
on every run and machine.
"""

from collections.abc import Iterator, Sequence
from itertools import cycle, pairwise
from math import log
from random import Random
from typing import Final, Protocol, Self

from msgspec import Struct
from msgspec.structs import replace

from headway.units import NS_PER_S
from headway.workload.shapes import GapShape

__all__ = [
    "Arrivals",
    "Gamma",
    "OnOff",
    "Phase",
    "Piecewise",
    "Poisson",
    "Recorded",
    "Uniform",
]


_RATE_MAX_RPS: Final = float(NS_PER_S)
"""One a nanosecond: instants could not tell more apart."""


class Arrivals(Protocol):
    """A source of instants."""

    @property
    def rate_rps(self) -> float:
        """Requests a second in the long run."""

    def instants(self, chance: Random) -> Iterator[int]:
        """Nanoseconds from the start of the source, never decreasing, endless."""

    def scaled(self, ratio: float) -> Self:
        """The same pattern at `ratio` times the rate; phases keep their lengths."""


class Poisson(Struct, frozen=True, gc=False):
    """Independent arrivals: each gap exponential, CV 1.

    Cost: 0.3 us an arrival.
    """

    rate_rps: float

    def __post_init__(self) -> None:
        _check_rate(self.rate_rps)

    def instants(self, chance: Random) -> Iterator[int]:
        """See `Arrivals`. Written out, because this is the loop that simulations spend time in."""
        random = chance.random
        gap_mean_ns = NS_PER_S / self.rate_rps
        at_ns = 0.0
        while True:
            at_ns -= log(1.0 - random()) * gap_mean_ns
            yield int(at_ns)

    def scaled(self, ratio: float) -> Self:
        """See `Arrivals`."""
        return replace(self, rate_rps=self.rate_rps * ratio)


class Gamma(Struct, frozen=True, gc=False):
    """Independent gamma gaps: burstier than chance above a CV of 1, more even below.

    Cost: 1 us an arrival.
    """

    rate_rps: float
    cv: float
    """Standard deviation of the gaps over their mean; 0 sends evenly."""

    def __post_init__(self) -> None:
        _check_rate(self.rate_rps)
        GapShape.of_cv(self.cv)

    def instants(self, chance: Random) -> Iterator[int]:
        """See `Arrivals`."""
        shape = GapShape.of_cv(self.cv)
        draw = shape.sampler(chance)
        gap_mean_ns = NS_PER_S / self.rate_rps
        at_ns = shape.draw_first(chance) * gap_mean_ns
        while True:
            yield int(at_ns)
            at_ns += draw() * gap_mean_ns

    def scaled(self, ratio: float) -> Self:
        """See `Arrivals`."""
        return replace(self, rate_rps=self.rate_rps * ratio)


class Uniform(Struct, frozen=True, gc=False):
    """Equal gaps, the first cut short by chance so that such sources do not send in step."""

    rate_rps: float

    def __post_init__(self) -> None:
        _check_rate(self.rate_rps)

    def instants(self, chance: Random) -> Iterator[int]:
        """See `Arrivals`. Counted from the first instant, so that no rounding adds up."""
        gap_ns = NS_PER_S / self.rate_rps
        first_at_ns = chance.random() * gap_ns
        count = 0
        while True:
            yield int(first_at_ns + count * gap_ns)
            count += 1

    def scaled(self, ratio: float) -> Self:
        """See `Arrivals`."""
        return replace(self, rate_rps=self.rate_rps * ratio)


class Phase(Struct, frozen=True, gc=False):
    """A stretch of time at one rate.

    Raises:
        ValueError: no length, or a negative rate.
    """

    duration_ns: int
    rate_rps: float
    """May be 0."""
    shape: GapShape = GapShape()
    """How the gaps scatter; exponential unless said otherwise."""

    def __post_init__(self) -> None:
        if self.duration_ns <= 0:
            raise ValueError(f"a phase must last, not {self.duration_ns} ns")
        if self.rate_rps != 0:
            _check_rate(self.rate_rps)


class Piecewise(Struct, frozen=True):
    """A schedule of rates, over and over: load that moves while it is measured.

    Raises:
        ValueError: no phase sends anything.
    """

    phases: tuple[Phase, ...]

    def __post_init__(self) -> None:
        if not any(phase.rate_rps > 0 for phase in self.phases):
            raise ValueError("one phase at least needs a rate above 0")

    @property
    def rate_rps(self) -> float:
        """See `Arrivals`."""
        total_ns = sum(phase.duration_ns for phase in self.phases)
        return sum(phase.duration_ns * phase.rate_rps for phase in self.phases) / total_ns

    def instants(self, chance: Random) -> Iterator[int]:
        """See `Arrivals`."""
        return _through_phases(cycle(self.phases), chance)

    def scaled(self, ratio: float) -> Self:
        """See `Arrivals`."""
        _check_rate(ratio)
        phases = tuple(replace(phase, rate_rps=phase.rate_rps * ratio) for phase in self.phases)
        return replace(self, phases=phases)


class OnOff(Struct, frozen=True, gc=False):
    """Bursts and pauses in turn, beginning with a burst."""

    rate_on_rps: float
    on_ns: int
    off_ns: int
    rate_off_rps: float = 0.0
    are_lengths_random: bool = False
    """Lengths are exponential with these means, instead of equal to them."""
    shape: GapShape = GapShape()

    def __post_init__(self) -> None:
        _check_rate(self.rate_on_rps)
        Phase(self.on_ns, self.rate_on_rps)
        Phase(self.off_ns, self.rate_off_rps)

    @property
    def rate_rps(self) -> float:
        """See `Arrivals`."""
        sent = self.rate_on_rps * self.on_ns + self.rate_off_rps * self.off_ns
        return sent / (self.on_ns + self.off_ns)

    def instants(self, chance: Random) -> Iterator[int]:
        """See `Arrivals`. Lengths draw from their own chance: they stay when the rate is scaled."""
        return _through_phases(self._phases(Random(chance.getrandbits(64))), chance)

    def scaled(self, ratio: float) -> Self:
        """See `Arrivals`."""
        return replace(
            self, rate_on_rps=self.rate_on_rps * ratio, rate_off_rps=self.rate_off_rps * ratio
        )

    def _phases(self, chance: Random) -> Iterator[Phase]:
        turns = ((self.on_ns, self.rate_on_rps), (self.off_ns, self.rate_off_rps))
        for mean_ns, rate_rps in cycle(turns):
            length_ns = mean_ns
            if self.are_lengths_random:
                length_ns = max(1, round(chance.expovariate(1.0) * mean_ns))
            yield Phase(length_ns, rate_rps, self.shape)


class Recorded(Struct, frozen=True):
    """Gaps that were measured somewhere, stretched to a rate, over and over.

    Raises:
        ValueError: no gaps, a negative one, or none above 0.
    """

    gaps_ns: tuple[int, ...]
    rate_rps: float
    is_rotated: bool = False
    """Start at a gap drawn by chance, so that each seed sees another part of the recording."""

    def __post_init__(self) -> None:
        _check_rate(self.rate_rps)
        if not any(self.gaps_ns) or min(self.gaps_ns) < 0:
            raise ValueError("recorded gaps must not be negative, and one at least above 0")

    @classmethod
    def of_instants(cls, at_ns: Sequence[int], rate_rps: float | None = None) -> Self:
        """From sorted instants; None keeps the rate at which they were recorded."""
        gaps_ns = tuple(later - earlier for earlier, later in pairwise(at_ns))
        if not any(gaps_ns):
            raise ValueError("a recording needs two instants that differ")
        return cls(gaps_ns, rate_rps or len(gaps_ns) * NS_PER_S / sum(gaps_ns))

    def instants(self, chance: Random) -> Iterator[int]:
        """See `Arrivals`. Sums the recorded integers, so that a long run does not drift."""
        gaps_ns = self.gaps_ns
        stretch = len(gaps_ns) * NS_PER_S / (self.rate_rps * sum(gaps_ns))
        start = chance.randrange(len(gaps_ns)) if self.is_rotated else 0
        recorded_at_ns = 0
        index = start
        while True:
            recorded_at_ns += gaps_ns[index]
            yield int(recorded_at_ns * stretch)
            index += 1
            if index == len(gaps_ns):
                index = 0

    def scaled(self, ratio: float) -> Self:
        """See `Arrivals`."""
        return replace(self, rate_rps=self.rate_rps * ratio)


def _check_rate(rate_rps: float) -> None:
    if not 0 < rate_rps <= _RATE_MAX_RPS:
        raise ValueError(f"a rate must be above 0 and finite, not {rate_rps}")


def _through_phases(phases: Iterator[Phase], chance: Random) -> Iterator[int]:
    """Let time pass faster where the rate is higher.

    Gaps are drawn in units of expected arrivals, and each phase holds as many of them as its rate
    times its length. What a gap has left when a phase ends goes on into the next, so the process
    has no seam where phases meet, and is exactly Poisson when its gaps are exponential.
    """
    start_at_ns = 0
    wait: float | None = None
    for phase in phases:
        draw = phase.shape.sampler(chance)
        if wait is None:
            wait = phase.shape.draw_first(chance)
        per_ns = phase.rate_rps / NS_PER_S
        room = phase.duration_ns * per_ns
        used = 0.0
        while used + wait < room:
            used += wait
            yield start_at_ns + int(used / per_ns)
            wait = draw()
        wait -= room - used
        start_at_ns += phase.duration_ns
