"""A kernel that is timed as it decides, by a clock that it is handed.

The figures are of real time on the machine that simulates; nothing in virtual time depends on them.
"""

from collections.abc import Callable

from headway.core import Command, Event, Kernel, KernelParams, Policy
from headway.sim.histogram import bucket_of, quantile_ns

__all__ = ["TimedKernel"]


class TimedKernel(Kernel):
    """A kernel, and how long each of its steps took.

    Args:
        clock: nanoseconds from wherever; only differences are used.
    """

    def __init__(self, params: KernelParams, policy: Policy, clock: Callable[[], int]) -> None:
        super().__init__(params, policy)
        self._clock = clock
        self._steps: dict[int, int] = {}

    def handle(self, event: Event, now_ns: int) -> list[Command]:
        """As any kernel does."""
        began_ns = self._clock()
        commands = super().handle(event, now_ns)
        bucket = bucket_of(self._clock() - began_ns)
        self._steps[bucket] = self._steps.get(bucket, 0) + 1
        return commands

    def decision_ns(self, quantile: float) -> float | None:
        """How long a step took at a quantile in 0..1; None before the first."""
        return quantile_ns(self._steps, quantile)
