"""Rules about deadlines: the error budget of each tier, latency, what waits too long.

An error budget is the part of a tier's requests that may miss its deadline: one less the target,
`tiers.NAME.attainment`. What clients took back themselves is no answer and is left out.

The share that came too late is counted, not read off a histogram. By default a request that is past
its deadline is not answered at all, so the completed ones never show a 99th percentile above the
budget, however many expired; and a budget between two bounds of the histogram makes the
interpolated quantile pass it when nothing is late. A 99th percentile is over the budget exactly if
more than one in a hundred is, which counters know without error.
"""

from collections.abc import Iterator
from typing import Final

from headway.monitoring.promql import number, window
from headway.monitoring.rule import Alert, Recording, RuleGroup, Severity
from headway.monitoring.settings import AlertSettings, Burn

__all__ = ["P99", "deadline_rules", "queue_rules", "violations_in"]

BUDGET: Final = "job_tier:headway_tier_budget_seconds:max"
_ERROR_BUDGET: Final = "job_tier:headway_error_budget:ratio"
_LIMIT: Final = "job_tier:headway_violation_limit:ratio"
P99: Final = "job_model_tier:headway_latency_seconds:p99"


def violations_in(duration_ns: int) -> str:
    """The name of the recording of the share of violations over so long."""
    return f"job_tier:headway_violations:ratio_rate{window(duration_ns)}"


def deadline_rules(settings: AlertSettings) -> RuleGroup:
    """The error budget and latency."""
    return RuleGroup(
        name="headway-deadlines",
        rules=(
            *_budgets(settings),
            *(_burn_alert(settings, burn) for burn in settings.burns),
            *_latency(settings),
        ),
    )


def _budgets(settings: AlertSettings) -> Iterator[Recording]:
    yield Recording(name=BUDGET, expression="max by (job, tier) (headway_tier_budget_seconds)")
    yield Recording(
        name=_ERROR_BUDGET,
        expression="1 - max by (job, tier) (headway_tier_attainment_target_ratio)",
    )
    windows_ns = {
        length_ns for burn in settings.burns for length_ns in (burn.long_ns, burn.short_ns)
    }
    for length_ns in sorted(windows_ns):
        over = window(length_ns)
        yield Recording(
            name=violations_in(length_ns),
            expression=f"""\
sum by (job, tier) (rate(headway_deadline_violations_total[{over}]))
/
(sum by (job, tier) (rate(headway_requests_total{{outcome!="cancelled"}}[{over}])) > 0)""",
        )
    for burn in settings.burns:
        # A tier that may miss much would need more than all of its requests to burn fast: midway
        # between what it may miss and all is enough.
        factor = number(burn.factor)
        yield Recording(
            name=_LIMIT,
            labels={"burn": factor},
            expression=f"""\
{factor} * {_ERROR_BUDGET} <= (1 + {_ERROR_BUDGET}) / 2
or
(1 + {_ERROR_BUDGET}) / 2""",
        )


def _burn_alert(settings: AlertSettings, burn: Burn) -> Alert:
    over, factor = window(burn.long_ns), number(burn.factor)
    limit = f'on (job, tier) {_LIMIT}{{burn="{factor}"}}'
    is_fast = burn.factor > 1
    return Alert(
        name="HeadwayErrorBudgetBurn",
        severity=Severity.CRITICAL if is_fast else Severity.WARNING,
        labels={"window": over},
        expression=f"""\
{violations_in(burn.long_ns)} > {limit}
and on (job, tier)
{violations_in(burn.short_ns)} > {limit}
and on (job, tier)
sum by (job, tier) (increase(headway_deadline_violations_total[{over}])) \
>= {number(settings.violations_min)}""",
        summary="Tier {{ $labels.tier }} spends its error budget too fast",
        description=(
            "{{ $value | humanizePercentage }} of the requests of tier {{ $labels.tier }} "
            f"missed their deadline over the last {over}."
            f"{{{{ with {_found(_ERROR_BUDGET, 'job', 'tier')} }}}} Its target allows "
            "{{ . | first | value | humanizePercentage }}.{{ end }}"
        ),
        dashboard="overview",
        about=("tier",),
    )


def _found(recording: str, *labels: str) -> str:
    """In a template: what a recording says where it has the alert's labels."""
    matchers = ",".join(f"{label}=%q" for label in labels)
    values = " ".join(f"$labels.{label}" for label in labels)
    return f'printf "{recording}{{{matchers}}}" {values} | query'


def _latency(settings: AlertSettings) -> Iterator[Recording | Alert]:
    over, labels = window(settings.window_ns), "job, model, tier"
    percent = number(100 * settings.latency_quantile)
    late = f"job_model_tier:headway_late:ratio_rate{over}"
    yield Recording(
        name=P99,
        expression=f"""\
histogram_quantile(
  {number(settings.latency_quantile)},
  sum by ({labels}, le) (rate(headway_latency_seconds_bucket[{over}]))
)""",
    )
    yield Recording(
        name=late,
        expression=f"""\
(
  sum by ({labels}) (rate(headway_late_answers_total[{over}]))
  +
  sum by ({labels}) (rate(headway_requests_total{{outcome="expired"}}[{over}]))
)
/
(sum by ({labels}) (rate(headway_requests_total{{outcome=~"completed|expired"}}[{over}])) > 0)""",
    )
    yield Alert(
        name="HeadwayLatencyOverBudget",
        severity=Severity.WARNING,
        pending_ns=settings.pending_ns,
        expression=f"""\
{late} > {number(1 - settings.latency_quantile)}
and on ({labels})
sum by ({labels}) (increase(headway_requests_total{{outcome=~"completed|expired"}}[{over}]))
  >= {number(settings.requests_min)}""",
        summary=(
            f"p{percent} of {{{{ $labels.model }}}} is over the budget of {{{{ $labels.tier }}}}"
        ),
        description=(
            "{{ $value | humanizePercentage }} of the requests of {{ $labels.model }} in tier "
            "{{ $labels.tier }} that were let in were not answered in time over the last "
            f"{over}."
            f"{{{{ with {_found(P99, 'job', 'model', 'tier')} }}}} Of those that were answered "
            f"p{percent} is {{{{ . | first | value | humanizeDuration }}}}.{{{{ end }}}}"
        ),
        dashboard="overview",
        about=("model", "tier"),
    )


def queue_rules(settings: AlertSettings) -> RuleGroup:
    """What waits too long, and batches that are small while more of their model waits."""
    part = number(settings.queue_age_ratio_max)
    age = Alert(
        name="HeadwayQueueOld",
        severity=Severity.WARNING,
        pending_ns=settings.pending_urgent_ns,
        expression=f"""\
max by (job, instance, model, tier) (headway_queue_oldest_age_seconds)
  > on (job, tier) group_left ()
{part} * {BUDGET}""",
        summary="Requests of {{ $labels.model }} wait for most of their budget",
        description=(
            "The oldest waiting request of {{ $labels.model }} in tier {{ $labels.tier }} at "
            "{{ $labels.instance }} has waited {{ $value | humanizeDuration }}, more than "
            f"{number(100 * settings.queue_age_ratio_max)} % of the tier's budget."
        ),
        dashboard="overview",
        about=("instance", "model", "tier"),
    )
    return RuleGroup(name="headway-queues", rules=(age, *_fill(settings)))


def _fill(settings: AlertSettings) -> Iterator[Recording | Alert]:
    over = window(settings.window_ns)
    fill = f"job_model:headway_batch_fill:ratio_rate{over}"
    cut = f"job_model:headway_batches_cut:ratio_rate{over}"
    yield Recording(
        name=fill,
        expression=f"""\
sum by (job, model) (rate(headway_batch_fill_ratio_sum[{over}]))
/
(sum by (job, model) (rate(headway_batch_fill_ratio_count[{over}])) > 0)""",
    )
    yield Recording(
        name=cut,
        expression=f"""\
max by (job, model) (sum by (job, model, reason) (rate(headway_batches_cut_total[{over}])))
/
(sum by (job, model) (rate(headway_batches_total[{over}])) > 0)""",
    )
    yield Alert(
        name="HeadwayBatchFillLow",
        severity=Severity.INFO,
        pending_ns=settings.pending_ns,
        expression=f"""\
{fill} < {number(settings.fill_ratio_min)}
and on (job, model)
{cut} > {number(settings.cut_ratio_min)}""",
        summary="Batches of {{ $labels.model }} start small while more of it waits",
        description=(
            "Batches of {{ $labels.model }} are {{ $value | humanizePercentage }} full over the "
            f"last {over}, and more than {number(100 * settings.cut_ratio_min)} % of them left "
            "requests of the model waiting. The reasons are counted in headway_batches_cut_total."
        ),
        dashboard="overview",
        about=("model",),
    )
