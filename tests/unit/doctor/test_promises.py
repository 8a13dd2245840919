"""Promises that are not kept: budgets, predictions, starts, losses, errors, overload."""

import pytest
from tests.unit.doctor.charts import (
    a_batch,
    batches,
    found,
    is_fine,
    requests,
    run_of,
    value,
    watched,
    why_not,
)

from headway.core import ModelName
from headway.doctor import Chart, Severity
from headway.doctor.course import BatchEnd, Loss
from headway.units import NS_PER_MS


def test_budget_below_the_fastest_service_is_infeasible() -> None:
    """Five milliseconds for what takes ten."""
    asked_for = requests(30, budget="5ms", end="expired", reason="deadline")
    finding = found("budget_infeasible", run_of(batches(30), asked_for=asked_for))
    assert finding.subject == "m, tier normal"
    assert (value(finding, "budget"), value(finding, "fastest service")) == (5, 10)
    fair = requests(30, budget="50ms")
    assert is_fine("budget_infeasible", run_of(batches(30), asked_for=fair))
    some = [*requests(10, budget="5ms"), *requests(30, budget="50ms")]
    assert is_fine("budget_infeasible", run_of(batches(30), asked_for=some))


def test_budget_of_a_model_that_never_ran_is_not_judged() -> None:
    """Nothing is known of its time."""
    refused = requests(30, budget="5ms", end="rejected", reason="queue_full")
    assert "no batch" in why_not("budget_infeasible", run_of(asked_for=refused))


def test_requests_that_became_hopeless_while_they_waited_do_not_make_a_budget_infeasible() -> None:
    """That is overload: alone they would have been in time."""
    hopeless = requests(30, budget="50ms", end="expired", reason="hopeless")
    assert is_fine("budget_infeasible", run_of(batches(30), asked_for=hopeless))


def test_bounds_that_do_not_hold_and_cost_deadlines_are_found() -> None:
    """Every second batch takes twice its bound, and its member is late."""
    ran = batches(
        100,
        lambda i: a_batch(
            20 * i,
            service_ms=10 if i % 2 else 24,
            bound_ns=12 * NS_PER_MS,
            expected_ns=10 * NS_PER_MS,
            late=int(i % 2 == 0),
        ),
    )
    finding = found("poor_predictions", run_of(ran))
    assert value(finding, "bounds that held") == 0.5
    assert value(finding, "late requests in batches that took longer") == 25


def test_bounds_are_judged_when_they_were_learnt_and_when_they_matter() -> None:
    """A predictor that learns, and one that is wrong without harm, are fine; few say so."""
    learns = batches(
        100, lambda i: a_batch(20 * i, bound_ns=(12 if i > 40 else 5) * NS_PER_MS, late=i < 40)
    )
    assert is_fine("poor_predictions", run_of(learns))
    harmless = batches(100, lambda i: a_batch(20 * i, bound_ns=5 * NS_PER_MS))
    assert is_fine("poor_predictions", run_of(harmless))
    few = batches(20, lambda i: a_batch(20 * i, bound_ns=5 * NS_PER_MS, late=1))
    assert "50 are needed" in why_not("poor_predictions", run_of(few))


def test_first_batch_that_takes_far_longer_is_a_cold_start() -> None:
    """300 ms once, 10 ms from then on."""
    ran = batches(40, lambda i: a_batch(400 * i, service_ms=10 if i else 300, order=i))
    finding = found("cold_start", run_of(ran))
    assert value(finding, "first execution") == pytest.approx(285)
    assert value(finding, "later ones") == pytest.approx(9.5)
    assert is_fine("cold_start", run_of(batches(40, lambda i: a_batch(10 * i, order=i))))


def test_short_cold_start_that_made_nobody_late_is_a_note() -> None:
    """Fifty milliseconds once; where a request was late for it, it is more than a note."""

    def starts(late: int):
        return batches(
            40, lambda i: a_batch(90 * i, service_ms=10 if i else 53, order=i, late=late)
        )

    assert found("cold_start", run_of(starts(0))).severity is Severity.NOTE
    assert found("cold_start", run_of(starts(1))).severity is Severity.WARNING


def test_cold_start_is_told_from_a_model_that_jumps() -> None:
    """Where later batches take as long now and then, the first was no exception."""
    jumps = batches(40, lambda i: a_batch(400 * i, service_ms=300 if i % 5 == 0 else 10, order=i))
    assert is_fine("cold_start", run_of(jumps))
    assert "no load" in why_not("cold_start", run_of(batches(40)))


def test_three_losses_are_a_loop_and_one_is_an_accident() -> None:
    """By the steps, with the last words of the worker."""
    loss = Loss(at_ns=5, models=(ModelName("ocr"),), message="killed by signal 11\nand more")
    finding = found("crash_loop", run_of(batches(1), losses=[loss] * 3))
    assert (finding.severity, finding.subject) == (Severity.SERIOUS, "ocr")
    assert [one.value for one in finding.evidence if one.name == "the last"] == [
        "killed by signal 11"
    ]
    once = found("crash_loop", run_of(batches(1), losses=[loss]))
    assert (once.severity, once.title) == (Severity.WARNING, "a worker died")
    assert is_fine("crash_loop", run_of(batches(1)))


def test_losses_are_counted_by_metrics_where_there_are_no_steps() -> None:
    """The counter's growth while it was watched, not what was before."""
    name = "headway_worker_losses_total"
    chart = Chart(readings=watched(5, lambda i: {"counters": {name: 7.0 + i}}))
    assert value(found("crash_loop", chart), "losses") == 4
    level = Chart(readings=watched(5, lambda i: {"counters": {name: 7.0}}))
    assert is_fine("crash_loop", level)
    other = Chart(readings=watched(5, lambda i: {"counters": {"headway_batches_total": 1.0}}))
    assert "does not count" in why_not("crash_loop", other)


def test_model_that_raises_is_found_with_its_errors() -> None:
    """Every third batch fails; cancelled ones do not count."""
    ran = batches(
        60,
        lambda i: a_batch(
            10 * i,
            end=BatchEnd.FINISHED if i % 3 else BatchEnd.FAILED,
            error="" if i % 3 else "executor_failed",
        ),
    )
    finding = found("failing_batches", run_of(ran))
    assert value(finding, "with `executor_failed`") == 20
    gone = batches(60, lambda i: a_batch(10 * i, end=BatchEnd.FAILED, error="cancelled"))
    assert is_fine("failing_batches", run_of(gone))


def test_losing_requests_on_busy_slots_is_overload() -> None:
    """Every second one refused, slots busy; with idle slots it is something else."""
    asked_for = [
        *requests(30),
        *requests(30, end="rejected", reason="predicted_late"),
    ]
    finding = found("overload", run_of(batches(30), asked_for=asked_for, busy_ratio=0.95))
    assert value(finding, "requests not served in time") == 0.5
    assert value(finding, "predicted_late") == 30
    assert is_fine("overload", run_of(batches(30), asked_for=asked_for, busy_ratio=0.4))
    kept = run_of(batches(30), asked_for=requests(60), busy_ratio=0.95)
    assert is_fine("overload", kept)
