"""Numbers of a run: counts, percentiles and rates, for each tier and each model.

Knows Samples. Every percentile is the nearest rank: a latency that some request really had, and
with fewer requests than it resolves the worst one.

Predictions are judged by the time from a request's arrival at the server to the end of its batch,
as the server measured it: that is what was predicted. What the network adds is in the latencies.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from statistics import fmean

import msgspec
from msgspec import Struct

from headway.core import ModelName, TierName
from headway.units import NS_PER_S
from headway.workload import Outcome, Sample

__all__ = [
    "GroupSummary",
    "PredictionSummary",
    "Summary",
    "percentile",
    "summaries_to_json",
    "summarise",
    "tiers_in_order",
]


class PredictionSummary(Struct, frozen=True, kw_only=True):
    """How right the predictions made at admission were."""

    count: int
    """Completed requests that one was made for."""
    error_ratio: float | None
    """Mean of |predicted - actual| / actual; None where none was completed."""
    bias_ratio: float | None
    """Mean of (predicted - actual) / actual; above 0 where too much was predicted."""
    covered_ratio: float
    """Part whose bound held, of those completed and those that expired after their bound."""


class GroupSummary(Struct, frozen=True, kw_only=True):
    """What became of a group of requests."""

    requests: int
    completed: int
    """In time or late."""
    rejected: int
    expired: int
    failed: int
    cancelled: int
    """Its client left of itself; in no ratio."""
    unanswered: int
    unsent: int
    late: int
    """Completed after the budget."""
    violations: int
    """Late, rejected, expired, failed, unanswered or unsent."""
    violation_ratio: float
    """Violations over requests that were not cancelled; 0 with none."""
    goodput_rps: float
    """Requests completed in time, a second."""
    budget_ns: int | None
    """The smallest of the group's; None where no request had one."""
    latency_p50_ns: int | None
    """Percentiles are over completed requests; None with none."""
    latency_p99_ns: int | None
    latency_p999_ns: int | None
    queue_delay_p50_ns: int | None
    """None where the server did not say."""
    service_p50_ns: int | None
    batch_rows_mean: float | None
    send_delay_p99_ns: int
    """How late the sender itself was. Beyond a tenth of the budget, doubt the run."""
    predictions: PredictionSummary | None = None
    """None where nothing was predicted."""


class Summary(Struct, frozen=True, kw_only=True):
    """A run's numbers."""

    duration_ns: int
    offered_rps: float
    """Requests that were due, a second."""
    total: GroupSummary
    tiers: dict[TierName, GroupSummary]
    """The tightest budget first."""
    models: dict[ModelName, GroupSummary]


def summarise(samples: Sequence[Sample], *, duration_ns: int | None = None) -> Summary:
    """Sum up a run.

    Args:
        samples: one a request, in any order.
        duration_ns: the length of the workload, which the rates are over; None takes the time from
            the first due instant to the last answer.

    Raises:
        ValueError: no samples.
    """
    if not samples:
        raise ValueError("a run without requests has no summary")
    if duration_ns is None:
        first_at_ns = min(sample.intended_at_ns for sample in samples)
        duration_ns = max(1, max(sample.done_at_ns for sample in samples) - first_at_ns)
    tiers: dict[TierName, list[Sample]] = {}
    models: dict[ModelName, list[Sample]] = {}
    for sample in samples:
        tiers.setdefault(sample.tier, []).append(sample)
        models.setdefault(sample.model, []).append(sample)
    return Summary(
        duration_ns=duration_ns,
        offered_rps=len(samples) * NS_PER_S / duration_ns,
        total=_group(samples, duration_ns),
        tiers={tier: _group(tiers[tier], duration_ns) for tier in tiers_in_order(samples)},
        models={model: _group(models[model], duration_ns) for model in sorted(models)},
    )


def tiers_in_order(samples: Iterable[Sample]) -> list[TierName]:
    """Every tier, the tightest budget first, then by name."""
    budgets_ns: dict[TierName, float] = {}
    for sample in samples:
        budget_ns = float("inf") if sample.budget_ns is None else sample.budget_ns
        budgets_ns[sample.tier] = min(budget_ns, budgets_ns.get(sample.tier, float("inf")))
    return sorted(budgets_ns, key=lambda tier: (budgets_ns[tier], tier))


def percentile(ascending: Sequence[int], ratio: float) -> int | None:
    """The nearest rank at a ratio in 0..1; None of nothing."""
    if not ascending:
        return None
    return ascending[max(0, ceil(ratio * len(ascending)) - 1)]


def summaries_to_json(summaries: Mapping[str, Sequence[Summary]]) -> str:
    """Summaries by policy, one a run, as JSON whose keys keep their order."""
    plain = {
        policy: [msgspec.to_builtins(summary) for summary in runs]
        for policy, runs in summaries.items()
    }
    return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode()


def _group(samples: Sequence[Sample], duration_ns: int) -> GroupSummary:
    outcomes = Counter(sample.outcome for sample in samples)
    completed = [sample for sample in samples if sample.outcome is Outcome.COMPLETED]
    violations = sum(sample.is_violation for sample in samples)
    late = sum(sample.is_violation for sample in completed)
    asked = len(samples) - outcomes[Outcome.CANCELLED]
    latencies_ns = sorted(sample.latency_ns for sample in completed)
    sent = [sample.send_delay_ns for sample in samples if sample.outcome is not Outcome.UNSENT]
    rows = _known(sample.batch_rows for sample in completed)
    return GroupSummary(
        requests=len(samples),
        completed=len(completed),
        rejected=outcomes[Outcome.REJECTED],
        expired=outcomes[Outcome.EXPIRED],
        failed=outcomes[Outcome.FAILED],
        cancelled=outcomes[Outcome.CANCELLED],
        unanswered=outcomes[Outcome.UNANSWERED],
        unsent=outcomes[Outcome.UNSENT],
        late=late,
        violations=violations,
        violation_ratio=violations / asked if asked else 0.0,
        goodput_rps=(len(completed) - late) * NS_PER_S / duration_ns,
        budget_ns=min(_known(sample.budget_ns for sample in samples), default=None),
        latency_p50_ns=percentile(latencies_ns, 0.5),
        latency_p99_ns=percentile(latencies_ns, 0.99),
        latency_p999_ns=percentile(latencies_ns, 0.999),
        queue_delay_p50_ns=percentile(_known(s.queue_delay_ns for s in completed), 0.5),
        service_p50_ns=percentile(_known(s.service_ns for s in completed), 0.5),
        batch_rows_mean=sum(rows) / len(rows) if rows else None,
        send_delay_p99_ns=percentile(sorted(sent), 0.99) or 0,
        predictions=_predictions(samples),
    )


def _predictions(samples: Iterable[Sample]) -> PredictionSummary | None:
    judged = [s for s in samples if s.is_within_bound is not None]
    if not judged:
        return None
    errors = [
        (sample.expected_ns - actual_ns) / actual_ns
        for sample in judged
        if sample.outcome is Outcome.COMPLETED
        and sample.expected_ns is not None
        and (actual_ns := sample.queue_and_service_ns)
    ]
    return PredictionSummary(
        count=len(errors),
        error_ratio=fmean(map(abs, errors)) if errors else None,
        bias_ratio=fmean(errors) if errors else None,
        covered_ratio=fmean(sample.is_within_bound is True for sample in judged),
    )


def _known(numbers: Iterable[int | None]) -> list[int]:
    """Those that are there, ascending."""
    return sorted(number for number in numbers if number is not None)
