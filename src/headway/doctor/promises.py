"""Checks of promises: budgets that cannot be kept, predictions that do not hold, starts, losses.

Pure: the course of a run in, signs out.
"""

from collections import Counter
from collections.abc import Iterator
from statistics import median
from typing import Final

from headway.doctor.chance import confidence_above, quantile
from headway.doctor.chart import Chart, by_subject, count_of, figure
from headway.doctor.course import BatchEnd, Course, RequestPast
from headway.doctor.finding import Severity, Sign, Unknown
from headway.units import NS_PER_MS, NS_PER_S

__all__ = [
    "COLD_FACTOR_MIN",
    "COLD_FELT_NS_MIN",
    "COVERAGE_RATIO_MIN",
    "FAILED_RATIO_MIN",
    "INFEASIBLE_RATIO_MIN",
    "LOSSES_MIN",
    "LOST_RATIO_MIN",
    "OVERLOAD_RATIO_MIN",
    "cold_starts",
    "crash_loops",
    "failing_batches",
    "infeasible_budgets",
    "overload",
    "poor_predictions",
]

REQUESTS_MIN: Final = 10
INFEASIBLE_RATIO_MIN: Final = 0.5
"""Of a tier's requests of a model: some clients ask for the impossible, most do not."""
COVERAGE_RATIO_MIN: Final = 0.8
"""Of bounds that hold. They are made to hold for 95 of 100 and more; a predictor that is still
learning comes near that within a few dozen batches."""
PREDICTIONS_MIN: Final = 50
BLAMED_RATIO_MIN: Final = 0.2
"""Of the late requests, those whose batch took longer than its bound."""
COLD_FACTOR_MIN: Final = 3.0
"""Times the median of the later ones: caches and branches do not make a first run so slow."""
COLD_NS_MIN: Final = 20 * NS_PER_MS
COLD_FELT_NS_MIN: Final = 100 * NS_PER_MS
"""Of a first execution: a shorter one matters where it made somebody late."""
WARM_BATCHES_MIN: Final = 5
LOSSES_MIN: Final = 3
"""Within the time that was watched: one is an accident."""
FAILED_RATIO_MIN: Final = 0.05
LOST_RATIO_MIN: Final = 0.1
"""Of the requests, refused, given up or late."""
OVERLOAD_RATIO_MIN: Final = 0.85
"""Of the slots' time: beyond it queues grow without end, whatever the policy."""
_LATE_MIN: Final = 5
_NO_CAUSE: Final = "cancelled"


def infeasible_budgets(chart: Chart) -> Iterator[Sign | Unknown]:
    """Budgets below what the model takes alone."""
    course = chart.course
    assert course is not None
    fastest_ns = {
        model: quantile([each.service_ns for each in batches], 0.05)
        for model, batches in by_subject(chart.finished()).items()
    }
    for (model, tier), requests in _groups(course).items():
        solo_ns = fastest_ns.get(model)
        if len(requests) < REQUESTS_MIN:
            continue
        if solo_ns is None:
            yield Unknown(subject=f"{model}, tier {tier}", why="no batch of it has run")
            continue
        hopeless = count_of(0 < each.request.budget_ns < solo_ns for each in requests)
        sure = confidence_above(hopeless, len(requests), INFEASIBLE_RATIO_MIN)
        if sure > 0.5:
            budget_ns = median(each.request.budget_ns for each in requests)
            yield Sign(
                subject=f"{model}, tier {tier}",
                confidence_ratio=sure,
                evidence=(
                    figure("budget", budget_ns / NS_PER_MS, "ms (median)"),
                    figure("fastest service", solo_ns / NS_PER_MS, "ms (5 % are faster)"),
                    figure("requests that could not be met", hopeless),
                    figure("requests", len(requests)),
                ),
            )


def poor_predictions(chart: Chart) -> Iterator[Sign | Unknown]:
    """Bounds that do not hold, and late requests for it."""
    course = chart.course
    assert course is not None
    for model, every in by_subject(chart.finished()).items():
        batches = [each for each in every if each.bound_ns]
        if len(batches) < PREDICTIONS_MIN:
            why = f"{len(batches)} predictions, {PREDICTIONS_MIN} are needed"
            yield Unknown(subject=model, why=why)
            continue
        learnt = batches[len(batches) // 2 :]
        broken = [each for each in learnt if each.service_ns > each.bound_ns]
        late = sum(each.late for each in learnt)
        blamed = sum(each.late for each in broken)
        sure = confidence_above(len(broken), len(learnt), 1 - COVERAGE_RATIO_MIN)
        if sure > 0.5 and blamed >= max(_LATE_MIN, BLAMED_RATIO_MIN * late):
            errors = [abs(each.expected_ns - each.service_ns) / each.service_ns for each in learnt]
            yield Sign(
                subject=model,
                confidence_ratio=sure,
                evidence=(
                    figure("bounds that held", 1 - len(broken) / len(learnt)),
                    figure("error", median(errors), "of the actual (median)"),
                    figure("late requests in batches that took longer", blamed),
                    figure("late requests", late),
                    figure("predictions", len(learnt)),
                ),
            )


def cold_starts(chart: Chart) -> Iterator[Sign | Unknown]:
    """First batches after a load that are far slower than the later ones."""
    for model, batches in by_subject(chart.finished()).items():
        first = [each for each in batches if each.order == 0]
        warm = [each for each in batches if each.order != 0]
        if not first or len(warm) < WARM_BATCHES_MIN:
            yield Unknown(subject=model, why="no load and the batches after it were seen")
            continue
        usual_ns = median(each.execution_ns / each.rows for each in warm)
        exceptional_ns = quantile([each.execution_ns for each in warm], 0.95)
        cold = [
            each
            for each in first
            if each.execution_ns / each.rows > COLD_FACTOR_MIN * usual_ns
            and each.execution_ns - usual_ns * each.rows > COLD_NS_MIN
            and each.execution_ns > COLD_FACTOR_MIN * exceptional_ns
        ]
        if cold:
            # How far out of the others it lies: one of so many, if it were like them.
            sure = 1 - 1 / (len(warm) + 1)
            late = sum(each.late for each in cold)
            first_ns = max(each.execution_ns for each in cold)
            yield Sign(
                subject=model,
                confidence_ratio=sure ** (1 / len(cold)),
                severity=None if late or first_ns >= COLD_FELT_NS_MIN else Severity.NOTE,
                evidence=(
                    figure("first execution", first_ns / NS_PER_MS, "ms"),
                    figure(
                        "later ones", median(e.execution_ns for e in warm) / NS_PER_MS,
                        "ms (median)",
                    ),
                    figure("loads seen", len(first)),
                    figure("late requests in first batches", late),
                ),
            )  # fmt: skip


def crash_loops(chart: Chart) -> Iterator[Sign | Unknown]:
    """Workers that die."""
    course = chart.course
    if course is not None:
        losses = len(course.losses)
        span_s = course.span_ns / NS_PER_S
        models = sorted({str(model) for loss in course.losses for model in loss.models})
        last = course.losses[-1].message.splitlines()[0] if course.losses else ""
    else:
        name = "headway_worker_losses_total"
        counts = [r.counters[name] for r in chart.readings if name in r.counters]
        if len(counts) < 2:
            yield Unknown(why="the server does not count losses of workers")
            return
        losses, span_s, models, last = int(counts[-1] - counts[0]), chart.span_s, [], ""
    if losses:
        is_loop = losses >= LOSSES_MIN
        yield Sign(
            subject=", ".join(models),
            confidence_ratio=1.0,
            severity=None if is_loop else Severity.WARNING,
            title=None if is_loop else "a worker died",
            evidence=(
                figure("losses", losses),
                figure("seen", span_s, "s"),
                *((figure("the last", last),) if last else ()),
            ),
        )


def failing_batches(chart: Chart) -> Iterator[Sign | Unknown]:
    """Batches that raise."""
    course = chart.course
    assert course is not None
    for model, batches in by_subject(course.batches).items():
        failed = [e for e in batches if e.end is BatchEnd.FAILED and e.error != _NO_CAUSE]
        sure = confidence_above(len(failed), len(batches), FAILED_RATIO_MIN)
        if len(batches) >= REQUESTS_MIN and sure > 0.5:
            codes = Counter(each.error for each in failed)
            yield Sign(
                subject=model,
                confidence_ratio=sure,
                evidence=(
                    figure("batches that failed", len(failed) / len(batches)),
                    *(figure(f"with `{code}`", count) for code, count in codes.most_common(3)),
                ),
            )


def overload(chart: Chart) -> Iterator[Sign | Unknown]:
    """More work than the slots can do."""
    course = chart.course
    assert course is not None
    requests = list(course.requests)
    lost = [each for each in requests if each.is_violation and each.end != "failed"]
    sure = confidence_above(len(lost), len(requests), LOST_RATIO_MIN)
    if len(requests) < REQUESTS_MIN or sure <= 0.5:
        return
    for device, use in course.use.items():
        total_ns = use.slots * course.asked_ns
        if total_ns and use.busy_ns >= OVERLOAD_RATIO_MIN * total_ns:
            reasons = Counter(each.reason or "late" for each in lost)
            yield Sign(
                subject=device,
                confidence_ratio=sure,
                evidence=(
                    figure("slots busy while requests came", use.busy_ns / total_ns),
                    figure("requests not served in time", len(lost) / len(requests)),
                    *(figure(reason, count) for reason, count in reasons.most_common(3)),
                ),
            )


def _groups(course: Course) -> dict[tuple[str, str], list[RequestPast]]:
    found: dict[tuple[str, str], list[RequestPast]] = {}
    for each in course.requests:
        if each.end != _NO_CAUSE:
            found.setdefault((str(each.request.model), str(each.request.tier)), []).append(each)
    return found
