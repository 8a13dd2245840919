"""Metrics of pipelines: what clients see of a call, beside what its steps cost.

Wall time and busy time are two numbers: branches that run side by side are busy for longer than the
call takes. Knows names and numbers. The steps' own requests are counted as those of any model are.
"""

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headway.observe.histogram import Durations, histogram_family
from headway.units import NS_PER_S

__all__ = ["PipelineMetrics"]

_OUTCOMES: Final = ("completed", "rejected", "expired", "cancelled", "failed")


class _Calls:
    """All that is counted for one pipeline in one tier."""

    __slots__ = ("latency", "outcomes", "violations")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self.outcomes = dict.fromkeys(_OUTCOMES, 0)
        self.violations = 0
        self.latency = Durations(bounds_s)


class _Now:
    """What is true of a pipeline now, added up from changes; and slots' time so far."""

    __slots__ = ("asked", "busy_ns", "held_bytes", "runs")

    def __init__(self) -> None:
        self.runs = 0
        self.asked = 0
        self.held_bytes = 0
        self.busy_ns = 0


_GAUGES: Final[tuple[tuple[str, str, Callable[[_Now], int]], ...]] = (
    ("calls_running", "Calls of a pipeline under way now.", lambda now: now.runs),
    ("steps_running", "Requests of its steps, waiting or running.", lambda now: now.asked),
    ("held_bytes", "Inputs and outputs kept for later steps.", lambda now: now.held_bytes),
)


class PipelineMetrics:
    """Counts what it is told of pipelines.

    Args:
        tiers: every configured tier; others are counted under the first.
        bounds_s: of the histograms.
    """

    def __init__(self, tiers: tuple[str, ...], bounds_s: tuple[float, ...]) -> None:
        self._tiers = tiers
        self._bounds_s = bounds_s
        self._calls: dict[tuple[str, str], _Calls] = {}
        self._now: dict[str, _Now] = {}

    def know(self, pipeline: str) -> None:
        """Have every series of a pipeline exist at 0."""
        self._now.setdefault(pipeline, _Now())
        for tier in self._tiers:
            self._calls.setdefault((pipeline, tier), _Calls(self._bounds_s))

    def started(self, pipeline: str) -> None:
        """A call is under way."""
        self._now[pipeline].runs += 1

    def ended(
        self, pipeline: str, tier: str, outcome: str, *, is_met: bool, wall_ns: int, busy_ns: int
    ) -> None:
        """A call has ended."""
        now = self._now[pipeline]
        now.runs -= 1
        now.busy_ns += busy_ns
        calls = self._calls[pipeline, tier]
        calls.outcomes[outcome] += 1
        calls.violations += not is_met and outcome != "cancelled"
        if outcome == "completed":
            calls.latency.add(wall_ns)

    def refused(self, pipeline: str, tier: str) -> None:
        """A call was not let in."""
        calls = self._calls[pipeline, tier]
        calls.outcomes["rejected"] += 1
        calls.violations += 1

    def held(self, pipeline: str, delta_bytes: int) -> None:
        """Calls hold so many bytes more, or fewer."""
        self._now[pipeline].held_bytes += delta_bytes

    def asked(self, pipeline: str, delta: int) -> None:
        """So many requests of steps more are under way, or fewer."""
        self._now[pipeline].asked += delta

    def families(self) -> Iterator[Metric]:
        """Everything, as metric families."""
        calls = CounterMetricFamily(
            "headway_pipeline_calls",
            "Calls of a pipeline by how they ended.",
            labels=("pipeline", "tier", "outcome"),
        )
        violations = CounterMetricFamily(
            "headway_pipeline_violations",
            "Calls of a pipeline that were not answered by their deadline, refused ones included.",
            labels=("pipeline", "tier"),
        )
        for labels, series in self._calls.items():
            violations.add_metric(labels, series.violations)
            for outcome, count in series.outcomes.items():
                calls.add_metric((*labels, outcome), count)
        yield calls
        yield violations
        yield histogram_family(
            "headway_pipeline_latency_seconds",
            "Wall time of a call of a pipeline, arrival to reply, completed calls.",
            ("pipeline", "tier"),
            {labels: series.latency for labels, series in self._calls.items()},
        )
        busy = CounterMetricFamily(
            "headway_pipeline_busy_seconds",
            "Slots' time of the steps of a pipeline's calls, added up, side by side or not.",
            labels=("pipeline",),
        )
        for name, now in self._now.items():
            busy.add_metric((name,), now.busy_ns / NS_PER_S)
        yield busy
        for suffix, text, value in _GAUGES:
            gauge = GaugeMetricFamily(f"headway_pipeline_{suffix}", text, labels=("pipeline",))
            for name, now in self._now.items():
                gauge.add_metric((name,), value(now))
            yield gauge
