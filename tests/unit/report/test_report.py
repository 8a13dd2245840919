"""Numbers, tables and pictures of runs, on samples made by hand."""

import io
import json

import pytest
from rich.console import Console

from headway.core import (
    Cancel,
    Complete,
    Expire,
    ExpireReason,
    Fail,
    Forecast,
    Record,
    Reject,
    RejectReason,
    Request,
    RequestArrived,
    SetTimer,
    Stage,
    TimerFired,
)
from headway.errors import ConfigError
from headway.report import (
    comparison_table,
    percentile,
    plot_comparison,
    records_to_samples,
    samples_from_jsonl,
    samples_to_jsonl,
    summaries_to_json,
    summarise,
    summary_table,
)
from headway.units import NS_PER_MS, NS_PER_S
from headway.workload import Outcome, Sample


def a_sample(due_ms=0, took_ms=10, **fields):
    """A request that was due, sent, and answered `took_ms` later."""
    given = {
        "stream": 0,
        "model": "ocr",
        "tier": "live",
        "tenant": "a",
        "intended_at_ns": due_ms * NS_PER_MS,
        "sent_at_ns": due_ms * NS_PER_MS,
        "done_at_ns": (due_ms + took_ms) * NS_PER_MS,
        "outcome": Outcome.COMPLETED,
        "budget_ns": 50 * NS_PER_MS,
    }
    return Sample(**given | fields)


def a_run(late=0):
    """A hundred requests over a second in two tiers, some of them late."""
    live = [a_sample(due_ms=10 * n, took_ms=60 if n < late else n + 1) for n in range(50)]
    batch = [
        a_sample(due_ms=10 * n, took_ms=200 + n, tier="batch", model="text", budget_ns=NS_PER_S)
        for n in range(50)
    ]
    return live + batch


def test_percentile_is_the_nearest_rank():
    """It is a number that was there, the worst one when there are too few, and none of none."""
    numbers = list(range(1, 101))
    assert [percentile(numbers, q) for q in (0.0, 0.5, 0.99, 0.999)] == [1, 50, 99, 100]
    assert percentile([7], 0.5) == 7
    assert percentile([], 0.5) is None


def test_summary_counts_each_fate_once():
    """Every way to end is counted, and what was not served in time is a violation."""
    samples = [
        a_sample(),
        a_sample(took_ms=51),
        *(a_sample(outcome=outcome) for outcome in Outcome if outcome != "completed"),
    ]
    total = summarise(samples, duration_ns=2 * NS_PER_S).total
    assert (total.requests, total.completed, total.late) == (8, 2, 1)
    assert (total.rejected, total.expired, total.failed) == (1, 1, 1)
    assert (total.cancelled, total.unanswered, total.unsent) == (1, 1, 1)
    assert total.violations == 6
    assert total.violation_ratio == pytest.approx(6 / 7)
    assert total.goodput_rps == 0.5


def test_percentiles_are_of_completed_requests():
    """A quick refusal does not make the latencies look good."""
    samples = [a_sample(took_ms=40), *(a_sample(took_ms=1, outcome="rejected") for _ in range(9))]
    assert summarise(samples).total.latency_p50_ns == 40 * NS_PER_MS


def test_summary_groups_by_tier_and_model():
    """The tightest budget comes first, and rates are over the whole run."""
    summary = summarise(a_run(late=5))
    assert list(summary.tiers) == ["live", "batch"]
    assert list(summary.models) == ["ocr", "text"]
    assert summary.tiers["live"].violations == 5
    assert summary.tiers["batch"].violations == 0
    assert summary.duration_ns == 739 * NS_PER_MS
    assert summary.offered_rps == pytest.approx(100 / 0.739)


def test_server_times_are_none_where_the_server_did_not_say():
    """What is not known is not zero."""
    assert summarise([a_sample()]).total.queue_delay_p50_ns is None
    told = summarise([a_sample(queue_delay_ns=0, service_ns=5, batch_rows=4)]).total
    assert (told.queue_delay_p50_ns, told.service_p50_ns, told.batch_rows_mean) == (0, 5, 4.0)


def test_sending_late_is_reported():
    """A slow generator is visible beside what it measured."""
    assert summarise([a_sample(sent_at_ns=7)]).total.send_delay_p99_ns == 7


def test_no_requests_have_no_summary():
    """An empty run is a mistake of the caller's."""
    with pytest.raises(ValueError, match="without requests"):
        summarise([])


def test_json_is_stable():
    """The same runs give the same text, with policies and tiers in their order."""
    runs = {"fifo": [summarise(a_run())], "edf": [summarise(a_run())]}
    text = summaries_to_json(runs)
    assert text == summaries_to_json(runs)
    decoded = json.loads(text)
    assert list(decoded) == ["fifo", "edf"]
    assert list(decoded["edf"][0]["tiers"]) == ["live", "batch"]


def predicted(expected_ms, bound_ms, took_ms, **fields):
    """A request that was predicted, and took so long in the server."""
    given = {
        "took_ms": took_ms + 1,
        "queue_delay_ns": took_ms * NS_PER_MS // 4,
        "service_ns": took_ms * NS_PER_MS - took_ms * NS_PER_MS // 4,
        "expected_ns": expected_ms * NS_PER_MS,
        "bound_ns": bound_ms * NS_PER_MS,
    }
    return a_sample(**given | fields)


def test_predictions_are_judged_by_what_the_server_took():
    """Error, bias and coverage are of queue and service, not of the client's own millisecond."""
    samples = [predicted(10, 20, 10), predicted(5, 20, 10), predicted(16, 18, 20), a_sample()]
    found = summarise(samples).total.predictions
    assert found.count == 3
    assert found.error_ratio == pytest.approx((0 + 0.5 + 0.2) / 3)
    assert found.bias_ratio == pytest.approx((0 - 0.5 - 0.2) / 3)
    assert found.covered_ratio == pytest.approx(2 / 3)


def test_bound_of_an_expired_request_counts_once_it_is_broken():
    """One given up after its bound was promised too little; one given up before says nothing."""
    untimed = {"outcome": Outcome.EXPIRED, "queue_delay_ns": None, "service_ns": None}
    late = predicted(10, 40, 50, **untimed)
    early = predicted(10, 90, 50, **untimed)
    assert (late.is_within_bound, early.is_within_bound) == (False, None)
    found = summarise([predicted(10, 10, 10), late, early]).total.predictions
    assert (found.count, found.covered_ratio) == (1, 0.5)
    only_late = summarise([late]).total.predictions
    assert (only_late.count, only_late.error_ratio, only_late.covered_ratio) == (0, None, 0)


def test_without_predictions_nothing_is_said_of_them():
    """A server that predicts nothing, or did not say how long it took, is not judged."""
    assert summarise([a_sample()]).total.predictions is None
    silent = predicted(10, 20, 10, queue_delay_ns=None)
    refused = predicted(10, 20, 10, outcome=Outcome.REJECTED)
    assert summarise([silent, refused]).total.predictions is None
    assert "predict" not in _printed(summary_table(summarise(a_run())))
    assert "predict" not in _printed(comparison_table({"edf": [summarise(a_run())]}))


def test_predictions_of_each_class_are_in_the_tables():
    """A class has its own line, and a class without predictions a dash."""
    samples = [predicted(10, 20, 10), predicted(5, 20, 10), a_sample(tier="batch", model="text")]
    text = _printed(summary_table(summarise(samples)))
    (live,) = [line for line in text.splitlines() if "tier live" in line]
    (batch,) = [line for line in text.splitlines() if "tier batch" in line]
    assert "25.00 %" in live
    assert "-25.00 %" in live
    assert "100.00 %" in live
    assert batch.rstrip(" │").endswith("–")
    compared = _printed(comparison_table({"edf": [summarise(samples)]})).splitlines()
    assert sum("prediction error" in line for line in compared) == 2
    assert any("in bound" in line and "100.00 %" in line for line in compared)


def _printed(table):
    console = Console(file=io.StringIO(), width=200, no_color=True)
    console.print(table)
    return console.file.getvalue()


def test_table_of_one_run_leaves_out_what_says_nothing():
    """Tiers, models and the total have a line each; a column of nothing is not there."""
    text = _printed(summary_table(summarise(a_run(late=5)), title="fifo"))
    assert "tier live" in text
    assert "5 (10.00 %)" in text
    assert "rejected" not in text
    assert "queue p50" not in text


def test_table_of_several_runs_shows_their_spread():
    """Policies stand side by side, each cell a mean with the least and the most."""
    runs = {
        "fifo": [summarise(a_run(late=5)), summarise(a_run(late=15))],
        "edf": [summarise(a_run()), summarise(a_run())],
    }
    text = _printed(comparison_table(runs))
    assert "20.00 % (10.00 % to 30.00 %)" in text
    assert "mean of 2 runs" in text
    one = _printed(comparison_table({"edf": [summarise(a_run())]}))
    assert "mean of" not in one


def test_comparison_shows_a_tier_that_one_policy_lacks():
    """A tier without requests under a policy is a dash, not an error."""
    runs = {
        "fifo": [summarise(a_run())],
        "edf": [summarise([a_sample(outcome=Outcome.REJECTED)])],
    }
    assert "–" in _printed(comparison_table(runs))


@pytest.mark.parametrize("is_mixed", [False, True])
def test_picture_is_drawn(tmp_path, is_mixed):
    """A PNG comes out for one run or several, with one budget a tier or many."""
    mixed = [a_sample(budget_ns=(20 + n) * NS_PER_MS) for n in range(9 if is_mixed else 0)]
    runs = {
        "fifo": [[*a_run(late=9), *mixed], a_run(late=5)],
        "edf": [a_run(), [a_sample(outcome=Outcome.EXPIRED, budget_ns=None)]],
    }
    path = tmp_path / "picture.png"
    plot_comparison(runs, path, title="two", subtitle="by hand", command="headway report a b")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_picture_of_nothing_is_refused(tmp_path):
    """A policy without a run cannot be compared."""
    with pytest.raises(ValueError, match="every policy"):
        plot_comparison({"fifo": []}, tmp_path / "p.png", title="", command="")


def test_samples_survive_a_file(tmp_path):
    """What is written is read back, and a bad line is named."""
    path = tmp_path / "run.jsonl"
    samples = a_run(late=3)
    assert samples_to_jsonl(samples, path) == len(samples)
    assert samples_from_jsonl(path) == samples
    with path.open("a") as file:
        file.write("{}\n")
    with pytest.raises(ConfigError) as caught:
        samples_from_jsonl(path)
    assert caught.value.path == f"{path}:101"
    with pytest.raises(ConfigError, match="cannot read"):
        samples_from_jsonl(tmp_path / "none.jsonl")


def _arrived(request_id, now_ns):
    request = Request(
        request_id=request_id,
        model="ocr",
        bucket="",
        rows=2,
        priority=0,
        tier="live",
        tenant="a",
        arrived_at_ns=now_ns,
        budget_ns=50,
    )
    return RequestArrived(request=request)


def test_records_become_samples():
    """Each request of a journal has one sample, whatever became of it."""
    foreseen = Forecast(mean_ns=12, bound_ns=15)
    ends = [
        Complete(
            request_id=1,
            batch_id=1,
            batch_rows=4,
            queue_delay_ns=6,
            service_ns=7,
            foreseen=foreseen,
        ),
        Expire(
            request_id=2,
            stage=Stage.WAITING,
            reason=ExpireReason.DEADLINE_PAST,
            foreseen=foreseen,
        ),
        Cancel(request_id=3, stage=Stage.WAITING),
        Fail(request_id=4, stage=Stage.RUNNING, code="executor_failed", message="boom"),
    ]
    rejection = Reject(request_id=5, reason=RejectReason.DRAINING, retry_after_ns=0)
    steps = [(_arrived(n, n), []) for n in range(1, 5)]
    steps += [(_arrived(5, 5), [rejection]), (_arrived(6, 6), [])]
    steps.append((TimerFired(), [*ends, SetTimer(at_ns=99)]))
    records = [
        Record(seq=seq, now_ns=seq + 1, event=event, commands=commands)
        for seq, (event, commands) in enumerate(steps)
    ]
    samples = list(records_to_samples(records))
    assert [sample.outcome for sample in samples] == [
        Outcome.REJECTED,
        Outcome.COMPLETED,
        Outcome.EXPIRED,
        Outcome.CANCELLED,
        Outcome.FAILED,
        Outcome.UNANSWERED,
    ]
    completed = samples[1]
    assert (completed.latency_ns, completed.budget_ns, completed.rows) == (6, 50, 2)
    assert (completed.queue_delay_ns, completed.service_ns, completed.batch_rows) == (6, 7, 4)
    assert [sample.expected_ns for sample in samples] == [None, 12, 12, None, None, None]
    assert [sample.bound_ns for sample in samples] == [None, 15, 15, None, None, None]
    assert completed.is_within_bound is True


def test_unknown_prediction_of_a_journal_is_none():
    """All zeros mean that nothing was known, not that it would take no time."""
    end = Complete(request_id=1, batch_id=1, batch_rows=1, queue_delay_ns=0, service_ns=1)
    record = Record(seq=0, now_ns=1, event=_arrived(1, 0), commands=[end])
    (sample,) = records_to_samples([record])
    assert (sample.expected_ns, sample.bound_ns, sample.is_within_bound) == (None, None, None)
