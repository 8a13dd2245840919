"""The overview: are deadlines kept, if not which requests fail, and where does their time go."""

from typing import Final

from headway.monitoring.dashboard import Dashboard, Kind, Panel, Query, Row, Unit, Variable, lines
from headway.monitoring.overview_work import batch_row, pipeline_row, queue_row, scheduler_row
from headway.monitoring.queries import (
    CHOSEN,
    MODEL,
    OVER,
    TIER,
    averages,
    gauges,
    legend_of,
    quantiles,
    rate,
    rates,
)

__all__ = ["overview"]

_TARGET: Final = f'{{{CHOSEN},tier=~"$tier"}}'
_ANSWERS: Final = f'{{{CHOSEN},model=~"$model",tier=~"$tier",outcome!="cancelled"}}'
_NOT_ANSWERED: Final = f'{{{CHOSEN},model=~"$model",tier=~"$tier",outcome!="completed"}}'


def overview() -> Dashboard:
    """The page to open first."""
    return Dashboard(
        name="overview",
        title="headway: overview",
        says="Are deadlines kept? If not: which requests fail, where, and what do they wait for?",
        variables=[
            Variable("job", "headway_slots"),
            Variable("instance", "headway_slots"),
            Variable("model", "headway_queue_depth"),
            Variable("tier", "headway_queue_depth"),
        ],
        rows=[
            _deadline_row(),
            _time_row(),
            queue_row(),
            batch_row(),
            pipeline_row(),
            scheduler_row(),
        ],
    )


def _attainment_over(over: str) -> Query:
    violations = rate("headway_deadline_violations_total", "tier", TIER, over)
    answers = rate("headway_requests_total", "tier", _ANSWERS, over)
    return Query(f"1 - {violations} / {answers}", legend_of("tier"))


def _deadline_row() -> Row:
    burn, late = "HeadwayErrorBudgetBurn", "HeadwayLatencyOverBudget"
    return Row(
        "Are deadlines kept?",
        [
            Panel(
                title="Alerts that fire",
                says="Each has a page of the runbook that starts from here.",
                queries=[Query('ALERTS{alertname=~"Headway.+",alertstate="firing"}')],
                unit=Unit.COUNT,
                kind=Kind.TABLE,
            ),
            Panel(
                title="Attainment by tier, whole range",
                says="Part of the requests that were answered within their budget. Refused ones "
                "count, those that clients took back do not.",
                queries=[_attainment_over("$__range")],
                unit=Unit.RATIO,
                kind=Kind.NUMBERS,
                alerts=[burn],
            ),
            lines(
                "Attainment by tier",
                "The same over time, beside its target.",
                Unit.RATIO,
                _attainment_over(OVER),
                gauges(
                    "headway_tier_attainment_target_ratio",
                    "tier",
                    _TARGET,
                    how="max",
                    prefix="target of ",
                ),
                alerts=[burn],
            ),
            lines(
                "Requests by outcome",
                "How requests ended.",
                Unit.REQUESTS_PER_SECOND,
                rates("headway_requests_total", "outcome"),
                is_stacked=True,
            ),
            lines(
                "Not answered, by reason",
                "Rejected at the door, expired, failed or cancelled, and why.",
                Unit.REQUESTS_PER_SECOND,
                rates("headway_requests_total", "outcome, reason", _NOT_ANSWERED),
                is_stacked=True,
                alerts=[burn],
            ),
            lines(
                "Violations by model and tier",
                "Whose deadlines are missed.",
                Unit.REQUESTS_PER_SECOND,
                rates("headway_deadline_violations_total", "model, tier"),
                is_stacked=True,
                alerts=[burn, late],
            ),
        ],
    )


def _time_row() -> Row:
    return Row(
        "Where does the time go?",
        [
            lines(
                "Latency and budget",
                "Of completed requests. Where late requests are dropped p99 stays below the "
                "budget, however many expire: look at what was not answered as well.",
                Unit.SECONDS,
                *quantiles("headway_latency_seconds", "tier"),
                gauges("headway_tier_budget_seconds", "tier", _TARGET, how="max", prefix="budget "),
                alerts=["HeadwayLatencyOverBudget"],
            ),
            lines(
                "Queue delay",
                "Arrival to first dispatch.",
                Unit.SECONDS,
                *quantiles("headway_queue_delay_seconds", "tier"),
            ),
            lines(
                "Service time",
                "Dispatch to executor done: it grows with the batch and with its neighbours.",
                Unit.SECONDS,
                *quantiles("headway_service_seconds", "model"),
            ),
            lines(
                "Stages of a batch",
                "Mean time of copying in, of execution, of copying out.",
                Unit.SECONDS,
                averages("headway_stage_seconds", "model, stage", MODEL),
            ),
            Panel(
                title="Latency of completed requests",
                says="How many took how long.",
                queries=[Query(rate("headway_latency_seconds_bucket", "le"), legend_of("le"))],
                unit=Unit.SECONDS,
                kind=Kind.HEATMAP,
                width=16,
            ),
        ],
    )
