"""The page of the predictor: do bounds hold, how far off are times, and to which side."""

from headway.monitoring.dashboard import Dashboard, Kind, Panel, Query, Row, Unit, Variable, lines
from headway.monitoring.queries import (
    CHOSEN,
    OVER,
    TIER,
    gauges,
    legend_of,
    quantiles,
    rate,
    rates,
    shares,
)

__all__ = ["predictor_page"]

_BY = "model, tier, of"
_SERVICE = f'{{{CHOSEN},model=~"$model",tier=~"$tier",of="service"}}'
_LATENCY = f'{{{CHOSEN},model=~"$model",tier=~"$tier",of="latency"}}'
_POOR = ("HeadwayPredictorPoor",)


def predictor_page() -> Dashboard:
    """How right predictions are."""
    return Dashboard(
        name="predictor",
        title="headway: predictor",
        says="How right predictions are: of a batch's `service` time when it starts, and of a "
        "request's `latency` when it is admitted.",
        variables=[
            Variable("job", "headway_slots"),
            Variable("instance", "headway_slots"),
            Variable("model", "headway_queue_depth"),
            Variable("tier", "headway_queue_depth"),
        ],
        rows=[_bound_row(), _time_row()],
    )


def _bound_row() -> Row:
    errors, judged = "headway_prediction_error_ratio", "headway_predictions_total"
    pace = rate(judged, _BY)
    weighed = f"headway_prediction_bias_ratio{TIER} * rate({judged}{TIER}[{OVER}])"
    return Row(
        "Can it be relied on?",
        [
            lines(
                "Coverage",
                "Part of the bounds that held; predictor.confidence is what is wanted.",
                Unit.RATIO,
                shares("headway_prediction_covered_total", "headway_predictions_total", _BY),
                alerts=_POOR,
            ),
            lines(
                "Bias",
                "Mean of (predicted - actual) / actual: above 0 where too much was predicted. Of "
                "several servers each counts by how much it predicts.",
                Unit.RATIO,
                Query(f"sum by ({_BY}) ({weighed}) / {pace}", legend_of(_BY)),
                alerts=_POOR,
            ),
            lines(
                "Error of batches' times",
                "|predicted - actual| / actual.",
                Unit.RATIO,
                *quantiles(errors, "model, tier", _SERVICE, (0.5, 0.95)),
                alerts=_POOR,
            ),
            lines(
                "Error of requests' latencies",
                "The same, for requests at their admission: who comes after them is not known "
                "then.",
                Unit.RATIO,
                *quantiles(errors, "model, tier", _LATENCY, (0.5, 0.95)),
            ),
            Panel(
                title="Errors of batches' times",
                says="How many were how far off.",
                queries=[Query(rate(f"{errors}_bucket", "le", _SERVICE), legend_of("le"))],
                unit=Unit.RATIO,
                kind=Kind.HEATMAP,
            ),
            lines(
                "Predictions that were judged",
                "Without some hundred, coverage is chance.",
                Unit.PER_SECOND,
                rates("headway_predictions_total", _BY),
            ),
        ],
    )


def _time_row() -> Row:
    return Row(
        "Predicted beside actual",
        [
            lines(
                "Estimated wait and queue delay",
                "What a request that came now is expected to wait, beside what those that have run "
                "did wait.",
                Unit.SECONDS,
                gauges(
                    "headway_estimated_wait_seconds", "model, tier", how="max", prefix="estimated "
                ),
                *quantiles("headway_queue_delay_seconds", "model, tier", ratios=(0.5, 0.95)),
                width=12,
            ),
            lines(
                "Service time",
                "What the predictions are about; it moves with batches and neighbours.",
                Unit.SECONDS,
                *quantiles("headway_service_seconds", "model, tier", ratios=(0.5, 0.95)),
                width=12,
            ),
        ],
    )
