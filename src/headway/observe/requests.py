"""What is counted of requests, by model and tier: arrivals, ends, times, what waits.

Knows requests and lengths of time. Refuses to know batches, and what a request cost a device:
`batches.py` and `device_time.py` have their part of a live request, of which there is one record.

Invariants: arrived = ended + in flight, at any time; what waits is in flight.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headway.core import ExpireReason, RejectReason, Request
from headway.observe.batches import ModelCounts
from headway.observe.device_time import Cell, Spent
from headway.observe.histogram import Durations, Histogram, histogram_family
from headway.observe.prediction import PredictionScore, prediction_families
from headway.units import NS_PER_S

__all__ = ["FAIL_REASONS", "OUTCOMES", "Live", "Series", "SeriesTable", "request_families"]

SeriesTable = Mapping[tuple[str, str], "Series"]
"""By model and tier."""

FAIL_REASONS: Final = ("executor_failed", "out_of_memory", "worker_lost", "load_failed", "other")
OUTCOMES: Final[tuple[tuple[str, str], ...]] = (
    ("completed", ""),
    ("cancelled", ""),
    *(("rejected", str(reason)) for reason in RejectReason),
    *(("expired", str(reason)) for reason in ExpireReason),
    *(("failed", reason) for reason in FAIL_REASONS),
)
_LABELS: Final = ("model", "tier")


class Series:
    """All that is counted for one model in one tier."""

    __slots__ = (
        "arrived",
        "cells",
        "in_flight",
        "last",
        "late",
        "latency",
        "latency_predictions",
        "model",
        "outcomes",
        "promotions",
        "queue_delay",
        "service",
        "service_predictions",
        "violations",
        "waiting",
    )

    def __init__(self, model: ModelCounts) -> None:
        self.model = model
        self.arrived = 0
        self.in_flight = 0
        self.waiting = 0
        self.outcomes: dict[tuple[str, str], int] = dict.fromkeys(OUTCOMES, 0)
        self.violations = 0
        self.late = 0
        self.promotions = 0
        self.queue_delay = Durations()
        self.service = Durations()
        self.latency = Durations()
        self.latency_predictions = PredictionScore()
        """Of requests, as foreseen when they were admitted."""
        self.service_predictions = PredictionScore()
        """Of batches, as expected when they were dispatched; by the tier of the first member."""
        self.cells: dict[str, Cell] = {}
        """Time of slots, by device."""
        self.last: Request | None = None
        """The one that arrived last: what requests here are like."""


class Live(Struct, gc=False):
    """A request that has not ended, or whose batch has not."""

    request: Request
    series: Series
    admitted_at_ns: int
    """From here on a prediction of it counts."""
    is_waiting: bool = True
    fate: str = ""
    """Why time that is spent for it is wasted, once it has ended so."""
    spent: Spent | None = None
    """Time that batches have spent for it."""


_TIMES: Final[tuple[tuple[str, str, Callable[[Series], Histogram]], ...]] = (
    ("queue_delay", "Arrival to first dispatch.", lambda s: s.queue_delay),
    ("service", "Dispatch to executor done.", lambda s: s.service),
    ("latency", "Arrival to reply, completed requests.", lambda s: s.latency),
)
_GAUGES: Final[tuple[tuple[str, str, Callable[[Series], int]], ...]] = (
    ("queue_depth", "Requests that wait now.", lambda s: s.waiting),
    (
        "requests_in_flight",
        "Requests that have arrived and not ended: they wait, or run. What arrived is what ended"
        " and what is in flight.",
        lambda s: s.in_flight,
    ),
)
_COUNTERS: Final[tuple[tuple[str, str, Callable[[Series], int]], ...]] = (
    (
        "requests_arrived",
        "Requests that have arrived, refused ones included, at once and not when they end. A"
        " pipeline's call makes one for each of its steps.",
        lambda s: s.arrived,
    ),
    (
        "deadline_violations",
        "Requests that were not completed within their budget, refused ones included.",
        lambda s: s.violations,
    ),
    (
        "late_answers",
        "Requests that were completed after their deadline; each is a violation too.",
        lambda s: s.late,
    ),
    (
        "promotions",
        "Waiting requests that were given a better place because they had waited for long.",
        lambda s: s.promotions,
    ),
)


def request_families(table: SeriesTable, live: Iterable[Live], now_ns: int) -> Iterator[Metric]:
    """Every family of requests.

    Args:
        table: what was counted.
        live: requests that have not ended.
        now_ns: for ages.
    """
    for name, text, value in _GAUGES:
        gauge = GaugeMetricFamily(f"headway_{name}", text, labels=_LABELS)
        for labels, series in table.items():
            gauge.add_metric(labels, value(series))
        yield gauge
    yield from _ages(table, live, now_ns)
    for name, text, value in _COUNTERS:
        counter = CounterMetricFamily(f"headway_{name}", text, labels=_LABELS)
        for labels, series in table.items():
            counter.add_metric(labels, value(series))
        yield counter
    ends = CounterMetricFamily(
        "headway_requests",
        "Requests by how they ended, and why where there is a reason.",
        labels=(*_LABELS, "outcome", "reason"),
    )
    for labels, series in table.items():
        for outcome, count in series.outcomes.items():
            ends.add_metric((*labels, *outcome), count)
    yield ends
    for name, text, of in _TIMES:
        times: dict[tuple[str, ...], Histogram] = {
            labels: of(series) for labels, series in table.items()
        }
        yield histogram_family(f"headway_{name}_seconds", text, _LABELS, times)
    yield from prediction_families(
        {
            (*labels, of): score
            for labels, series in table.items()
            for of, score in (
                ("service", series.service_predictions),
                ("latency", series.latency_predictions),
            )
        }
    )


def _ages(table: SeriesTable, live: Iterable[Live], now_ns: int) -> Iterator[Metric]:
    """Looked for when it is asked for: requests come and go far more often than that.

    By arrival: a large body arrives early and is handed on late, so the first admitted is not
    always the oldest.
    """
    waiting_at_ns: dict[Series, int] = {}
    arrived_at_ns: dict[Series, int] = {}
    for each in live:
        series, at_ns = each.series, each.request.arrived_at_ns
        arrived_at_ns[series] = min(at_ns, arrived_at_ns.get(series, at_ns))
        if each.is_waiting:
            waiting_at_ns[series] = min(at_ns, waiting_at_ns.get(series, at_ns))
    for name, text, oldest_at_ns in (
        (
            "queue_oldest_age",
            "How long the oldest waiting request has waited; 0 with none.",
            waiting_at_ns,
        ),
        (
            "requests_oldest_age",
            "Time since the arrival of the oldest request that has not ended, waiting or running; 0"
            " with none.",
            arrived_at_ns,
        ),
    ):
        age = GaugeMetricFamily(f"headway_{name}_seconds", text, labels=_LABELS)
        for labels, series in table.items():
            age_ns = max(0, now_ns - oldest_at_ns.get(series, now_ns))
            age.add_metric(labels, age_ns / NS_PER_S)
        yield age
