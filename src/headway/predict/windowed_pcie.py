"""`windowed-pcie`: a transfer slows down by the bytes that were asked for of late.

Knows the bytes of every batch that started within a window, and one total bandwidth. Refuses to
know links, directions, and when within the window a copy really ran.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Final, NamedTuple

from headway.core import BatchId, ModelName, Run, Stages
from headway.predict.profile import ModelProfile
from headway.predict.scene import Ended, ExecutionModel, Neighbour, Scene

__all__ = ["WindowedPcieModel", "WindowedTransfers"]

_WINDOW_NS: Final = 100_000_000
_COPIES_MAX: Final = 4096
"""Starts that are remembered; within 100 ms there are hardly more."""


class _Copy(NamedTuple):
    at_ns: int
    size_bytes: int


class WindowedTransfers:
    """T = bytes / bandwidth · max(1, demand / (bandwidth · window)), in nanoseconds.

    Demand is the sum of the bytes of every batch that started in the last 100 ms, on any device,
    the one in question included. Bytes are those of the inputs, and of the outputs where a profile
    knows them. That congestion grows with demand over capacity is how utilisation-driven placement
    reckons with PCIe; a tree of links, by contrast, knows which copies meet, and when.

    Args:
        bytes_per_second: What all links carry together.
        profiles: Where a model's output bytes stand.

    Raises:
        ValueError: The bandwidth is not a positive, finite number.

    Cost: O(starts within the window).
    """

    def __init__(
        self,
        *,
        bytes_per_second: float,
        profiles: Mapping[ModelName, ModelProfile] | None = None,
    ) -> None:
        if not (isfinite(bytes_per_second) and bytes_per_second > 0.0):
            raise ValueError(f"bytes_per_second must be positive, not {bytes_per_second}")
        self._bytes_per_ns = bytes_per_second / 1e9
        self._out_bytes = {
            model: profile.transfer_out_bytes for model, profile in (profiles or {}).items()
        }
        self._copies: deque[_Copy] = deque(maxlen=_COPIES_MAX)
        """In the order of their starts."""

    def transfer_ns(self, run: Run, neighbours: Sequence[Neighbour], now_ns: int) -> float:
        """Of a batch that would start now, both directions. Changes nothing."""
        own_bytes = self._bytes(run)
        demand_bytes = own_bytes
        for copy in reversed(self._copies):
            if copy.at_ns <= now_ns - _WINDOW_NS:
                break
            demand_bytes += copy.size_bytes
        slowdown = max(1.0, demand_bytes / (self._bytes_per_ns * _WINDOW_NS))
        return own_bytes / self._bytes_per_ns * slowdown

    def started(self, run: Run, execution_ns: float, now_ns: int) -> None:
        """Its bytes count until they have left the window."""
        while self._copies and self._copies[0].at_ns <= now_ns - _WINDOW_NS:
            self._copies.popleft()
        self._copies.append(_Copy(now_ns, self._bytes(run)))

    def finished(self, batch_id: BatchId, stages: Stages, now_ns: int) -> None:
        """An end changes nothing: what was asked for was asked for."""

    def dropped(self, batch_id: BatchId, now_ns: int) -> None:
        """The same."""

    def state(self) -> dict[str, object]:
        """Nothing: a window is past before any restart is over."""
        return {}

    def restore(self, state: dict[str, object]) -> None:
        """There is nothing to take up."""

    def _bytes(self, run: Run) -> int:
        return run.payload_bytes + run.rows * self._out_bytes.get(run.model, 0)


class WindowedPcieModel:
    """Executions are another model's, `fixed` or `pairwise`; transfers are `WindowedTransfers`.

    Give `transfers` to the shell beside the model: which start falls into the window is what the
    shell tells it.

    Raises:
        ValueError: The bandwidth is not a positive, finite number.
    """

    name = "windowed-pcie"

    def __init__(
        self,
        execution: ExecutionModel,
        *,
        bytes_per_second: float,
        profiles: Mapping[ModelName, ModelProfile] | None = None,
    ) -> None:
        self._execution = execution
        self.transfers = WindowedTransfers(bytes_per_second=bytes_per_second, profiles=profiles)

    def execution_ns(self, scene: Scene) -> float:
        """What the execution model says."""
        return self._execution.execution_ns(scene)

    def learn(self, ended: Ended) -> None:
        """The execution model learns."""
        self._execution.learn(ended)

    def state(self) -> dict[str, object]:
        """What the execution model learnt."""
        return {"execution": self._execution.state()}

    def restore(self, state: dict[str, object]) -> None:
        """Take up what `state` gave."""
        match state.get("execution"):
            case dict() as execution:
                self._execution.restore(execution)
