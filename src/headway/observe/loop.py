"""How the scheduler itself fares: how long it decides, and how late it is woken.

Knows lengths of time. Never what was decided.

Cost: a bisection for each kernel step. Both are of the event loop's thread: a decision that takes
long delays all that the loop does, and a loop that is busy otherwise is woken late.
"""

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from headway.observe.histogram import Durations, histogram_family

__all__ = ["LoopTimes"]

_SECONDS: Final = (
    1e-05, 2e-05, 5e-05, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0,
)  # fmt: skip


class LoopTimes:
    """Counts what a driver is told to tell."""

    __slots__ = ("_decisions", "_lags")

    def __init__(self) -> None:
        self._decisions = Durations(_SECONDS)
        self._lags = Durations(_SECONDS)

    def decided(self, duration_ns: int) -> None:
        """The kernel took so long over one event."""
        self._decisions.add(duration_ns)

    def woke(self, lag_ns: int) -> None:
        """A timer fired so long after its instant."""
        self._lags.add(lag_ns)

    def families(self) -> Iterator[Metric]:
        """What was counted, as metric families."""
        yield histogram_family(
            "headway_decision_seconds",
            "Time that the scheduler took over one event: an arrival, an end of a batch, a timer.",
            (),
            {(): self._decisions},
        )
        yield histogram_family(
            "headway_loop_lag_seconds",
            "How long after its instant a timer of the scheduler fired.",
            (),
            {(): self._lags},
        )
