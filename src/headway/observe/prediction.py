"""How right predictions were: error, bias and whether bounds held, for Prometheus.

Knows what was predicted and what came. Never a predictor, nor what a prediction was used for.

A prediction is judged when its time is over. A request that expired never had an end to compare
with, but its bound is known to be broken once it has taken longer than that; those whose deadline
came before their bound say nothing, and are left out.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headway.observe.histogram import Histogram, histogram_family

__all__ = ["PredictionScore", "prediction_families"]

_RATIOS: Final = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0)
_LABELS: Final = ("model", "tier", "of")
_RECENT: Final = 100
"""Predictions that the bias is about; older ones fade."""


class PredictionScore:
    """Errors, bias and bounds of one kind of prediction. Cost: about a microsecond to add one.

    Invariants: covered_count <= judged_count; the bias is that of some mean of what was added.
    """

    __slots__ = ("_recent_count", "bias_ratio", "covered_count", "errors", "judged_count")

    def __init__(self) -> None:
        self.errors = Histogram(_RATIOS)
        """|predicted - actual| / actual."""
        self.bias_ratio = 0.0
        """Mean of (predicted - actual) / actual; above 0 where too much was predicted."""
        self.judged_count = 0
        self.covered_count = 0
        self._recent_count = 0

    def add(self, predicted_ns: int, bound_ns: int, actual_ns: int) -> None:
        """Judge a prediction by what came; what took no time at all is taken for 1 ns."""
        self.judged_count += 1
        self.covered_count += actual_ns <= bound_ns
        actual_ns = max(1, actual_ns)
        error = (predicted_ns - actual_ns) / actual_ns
        self.errors.add(abs(error))
        self._recent_count = count = min(self._recent_count + 1, _RECENT)
        self.bias_ratio += (error - self.bias_ratio) / count

    def miss(self) -> None:
        """A bound was broken by what has no end to compare the mean with."""
        self.judged_count += 1


def prediction_families(
    scores: Mapping[tuple[str, ...], PredictionScore],
) -> Iterator[Metric]:
    """The metric families of scores by (model, tier, what was predicted)."""
    yield histogram_family(
        "headway_prediction_error_ratio",
        "|predicted - actual| / actual: of a batch's `service` at its dispatch, under the tier of "
        "its first request, and of a request's `latency` at its admission.",
        _LABELS,
        {labels: score.errors for labels, score in scores.items()},
    )
    bias = GaugeMetricFamily(
        "headway_prediction_bias_ratio",
        f"Mean of (predicted - actual) / actual over about the last {_RECENT}; above 0 where too "
        "much was predicted.",
        labels=_LABELS,
    )
    judged = CounterMetricFamily(
        "headway_predictions",
        "Predictions whose bound was judged: of what ended, and of requests that expired after it.",
        labels=_LABELS,
    )
    covered = CounterMetricFamily(
        "headway_prediction_covered",
        "Predictions whose bound held; over `headway_predictions_total` this is the coverage.",
        labels=_LABELS,
    )
    for labels, score in scores.items():
        bias.add_metric(labels, score.bias_ratio)
        judged.add_metric(labels, score.judged_count)
        covered.add_metric(labels, score.covered_count)
    yield bias
    yield judged
    yield covered
