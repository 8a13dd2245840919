"""Rules about predictions: bounds that do not hold, times that are far off, to one side or both.

A prediction is judged by kind: of a batch's `service` when it starts, of a request's `latency` when
it is admitted. Coverage has to hold for both. Errors and bias are looked at for batches only: what
a request will take depends on who arrives after it, which nobody knows.
"""

from headway.monitoring.promql import number, window
from headway.monitoring.rule import Alert, RuleGroup, Severity
from headway.monitoring.settings import AlertSettings

__all__ = ["predictor_rules"]

_LABELS = "job, model, tier, of"


def predictor_rules(settings: AlertSettings) -> RuleGroup:
    """Three signs of one trouble."""
    over = window(settings.predictor_window_ns)
    covered = f"sum by ({_LABELS}) (rate(headway_prediction_covered_total[{over}]))"
    judged = f"sum by ({_LABELS}) (rate(headway_predictions_total[{over}]))"
    of = '{of="service"}'
    errors = f"sum by ({_LABELS}, le) (rate(headway_prediction_error_ratio_bucket{of}[{over}]))"
    pace = f"rate(headway_predictions_total{of}[{over}])"
    # By how much each server predicts: one without load keeps its last bias for ever.
    bias = f"""\
  sum by ({_LABELS}) (avg_over_time(headway_prediction_bias_ratio{of}[{over}]) * {pace})
  /
  (sum by ({_LABELS}) ({pace}) > 0)"""
    whose = "{{ $labels.of }} of {{ $labels.model }} in tier {{ $labels.tier }}"
    rules = (
        _poor(
            settings,
            sign="coverage",
            expression=f"{covered}\n/\n({judged} > 0)\n< {number(settings.coverage_ratio_min)}",
            description=(
                f"Only {{{{ $value | humanizePercentage }}}} of the bounds on the {whose} held "
                f"over the last {over}; at least "
                f"{number(100 * settings.coverage_ratio_min)} % should."
            ),
        ),
        _poor(
            settings,
            sign="error",
            expression=f"""\
histogram_quantile(0.5, {errors})
  > {number(settings.error_ratio_max)}""",
            description=(
                f"Half of the predictions of the {whose} were off by "
                f"{{{{ $value | humanizePercentage }}}} or more over the last {over}."
            ),
        ),
        _poor(
            settings,
            sign="bias",
            expression=f"abs(\n{bias}\n) > {number(settings.bias_ratio_max)}",
            description=(
                f"Predictions of the {whose} were off to one side by "
                f"{{{{ $value | humanizePercentage }}}} on average over the last {over}."
            ),
        ),
    )
    return RuleGroup(name="headway-predictor", rules=rules)


def _poor(settings: AlertSettings, *, sign: str, expression: str, description: str) -> Alert:
    over = window(settings.predictor_window_ns)
    enough = f"""\
and on ({_LABELS})
sum by ({_LABELS}) (increase(headway_predictions_total[{over}])) \
>= {number(settings.predictions_min)}"""
    return Alert(
        name="HeadwayPredictorPoor",
        severity=Severity.WARNING,
        pending_ns=settings.pending_ns,
        labels={"sign": sign},
        expression=f"{expression}\n{enough}",
        summary="Times of {{ $labels.model }} are predicted badly",
        description=description,
        dashboard="predictor",
        about=("model", "tier"),
    )
