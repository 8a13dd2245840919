"""Several predictors on one recorded run: all are told the same, and none changes it."""

from contextlib import closing
from types import SimpleNamespace

import pytest

from headway.app import kernel_of, predictor_of
from headway.bench.shadows import Tee, listen
from headway.core import (
    BatchFinished,
    Cancel,
    Complete,
    Expire,
    ExpireReason,
    Fail,
    Forecast,
    Reject,
    RejectReason,
    RequestArrived,
    Stage,
)
from headway.errors import ConfigError
from headway.observe import read_journal
from headway.testing import MeanPredictor, a_request


class Stubborn(MeanPredictor):
    """Says the same of everything, and writes down what it is told."""

    def __init__(self, says_ns):
        super().__init__()
        self.says_ns = says_ns
        self.told = []

    def _forecast(self):
        return Forecast(mean_ns=self.says_ns, bound_ns=2 * self.says_ns, base_ns=self.says_ns)

    def admitted(self, request, queue, now_ns):
        self.told.append(("admitted", request.request_id, queue.count, now_ns))
        return self._forecast()

    def started(self, run, queue, now_ns):
        super().started(run, queue, now_ns)
        self.told.append(("started", run.batch_id, queue.count, now_ns))
        return self._forecast()

    def finished(self, batch_id, stages, now_ns):
        super().finished(batch_id, stages, now_ns)
        self.told.append(("finished", batch_id, stages.service_ns, now_ns))

    def dropped(self, batch_id, now_ns):
        super().dropped(batch_id, now_ns)
        self.told.append(("dropped", batch_id, now_ns))

    def answered(self, request, foreseen, now_ns):
        self.told.append(("answered", request.request_id, foreseen.mean_ns, now_ns))


def records_of(journal):
    """Every step of the file."""
    _, records = read_journal(journal)
    with closing(records):
        return list(records)


def test_every_execution_and_answer_is_judged(journal):
    """As many forecasts as batches ended and requests were answered, with the journal's times."""
    log = listen(journal, {"a": Stubborn(7)})
    records = records_of(journal)
    ended = [r.event for r in records if isinstance(r.event, BatchFinished)]
    completed = [c for r in records for c in r.commands if isinstance(c, Complete)]
    judged = [e.run.batch_id for e in log.executions]
    assert set(judged) <= {event.batch_id for event in ended}
    assert {c.batch_id for c in completed} <= set(judged)
    assert len(log.by_execution["a"]) == len(judged) > 20
    assert len(log.by_response["a"]) == len(completed) > 20
    times = {event.batch_id: event.execution_ns for event in ended}
    for execution, seen in zip(log.executions, log.by_execution["a"], strict=True):
        assert seen.actual_ns == max(1, times[execution.run.batch_id])
        assert (seen.predicted_ns, seen.bound_ns) == (7, 14)
        assert seen.bounded_ns == execution.ended_at_ns - execution.started_at_ns


def test_latency_is_counted_from_admission(journal):
    """What a request took is what the journal says from its arrival to its answer."""
    log = listen(journal, {"a": Stubborn(7)})
    arrived = {}
    latencies = []
    for record in records_of(journal):
        if isinstance(record.event, RequestArrived):
            arrived[record.event.request.request_id] = record.now_ns
        latencies += [
            record.now_ns - arrived[c.request_id]
            for c in record.commands
            if isinstance(c, Complete)
        ]
    assert [seen.actual_ns for seen in log.by_response["a"]] == latencies


def test_shadows_are_told_alike_and_do_not_meet(journal):
    """Each hears the same in the same order, and gets back its own foresight, not another's."""
    first, second = Stubborn(7), Stubborn(90)
    listen(journal, {"a": first, "b": second})
    alone = Stubborn(90)
    listen(journal, {"b": alone})
    assert second.told == alone.told
    assert {kind for kind, *_ in first.told} == {
        "admitted",
        "started",
        "finished",
        "dropped",
        "answered",
    }
    assert {told[2] for told in first.told if told[0] == "answered"} == {7}
    assert {told[2] for told in second.told if told[0] == "answered"} == {90}


def test_seen_counts_what_a_predictor_could_know(journal):
    """It never decreases from start to start, and begins with nothing."""
    log = listen(journal, {"a": Stubborn(7)})
    by_start = sorted(log.executions, key=lambda e: e.run.batch_id)
    seen = [execution.seen for execution in by_start]
    assert seen == sorted(seen)
    assert seen[0] == 0
    assert seen[-1] > 20


def test_cost_is_timed_by_the_clock_that_is_given(journal):
    """Each forecast takes one tick of a clock that ticks when it is read; none without a clock."""
    ticks = iter(range(10_000_000))
    log = listen(journal, {"a": Stubborn(7), "b": Stubborn(8)}, lambda: next(ticks))
    assert len(log.cost_ns["a"]) >= len(log.executions)
    assert set(log.cost_ns["a"]) == set(log.cost_ns["b"]) == {1}
    assert listen(journal, {"a": Stubborn(7)}).cost_ns == {"a": []}


def test_other_decisions_are_refused(journal):
    """A journal that this version would have decided otherwise is not judged as if it had."""
    text = journal.read_bytes()
    assert b'"kind":"priority"' in text
    journal.write_bytes(text.replace(b'"kind":"priority"', b'"kind":"fifo"', 1))
    with pytest.raises(ConfigError, match="decided otherwise"):
        listen(journal, {"a": Stubborn(7)})


def test_requests_that_end_unanswered_are_let_go(journal):
    """Of those that expired after their bound it is known to be broken; of others nothing is."""
    header, _ = read_journal(journal)
    records = records_of(journal)
    arrived, took_ns = {}, []
    for record in records:
        if isinstance(record.event, RequestArrived):
            arrived[record.event.request.request_id] = record.now_ns
        expired = (c for c in record.commands if isinstance(c, Expire))
        took_ns += [record.now_ns - arrived[c.request_id] for c in expired]
    assert len(set(took_ns)) > 5
    middle_ns = sorted(took_ns)[len(took_ns) // 2]
    shadows = {"a": Stubborn(middle_ns // 2), "b": Stubborn(10**12), "c": Stubborn(0)}
    tee = Tee(predictor_of(header), shadows)
    kernel = kernel_of(header, tee)
    for record in records:
        tee.unanswered(kernel.handle(record.event, record.now_ns), record.now_ns)
    bound_ns = 2 * (middle_ns // 2)
    broken = tee.log.by_expired["a"]
    assert [seen.bounded_ns for seen in broken] == [ns for ns in took_ns if ns > bound_ns] != []
    assert {(seen.predicted_ns, seen.bound_ns) for seen in broken} == {(middle_ns // 2, bound_ns)}
    assert (tee.log.by_expired["b"], tee.log.by_expired["c"]) == ([], [])
    assert tee._admissions.keys() == kernel.ledger.live.keys()
    assert listen(journal, {"a": Stubborn(middle_ns // 2)}).by_expired["a"] == broken


@pytest.mark.parametrize(
    "command",
    [
        Expire(request_id=1, stage=Stage.WAITING, reason=ExpireReason.DEADLINE_PAST),
        Cancel(request_id=1, stage=Stage.WAITING),
        Fail(request_id=1, stage=Stage.RUNNING, code="internal", message="?"),
        Reject(request_id=1, reason=RejectReason.MODEL_QUEUE_FULL, retry_after_ns=1),
    ],
)
def test_every_end_without_an_answer_lets_a_request_go(command):
    """Whatever the reason, and also where it never was let in."""
    tee = Tee(Stubborn(1), {"a": Stubborn(1)})
    tee.unanswered([command], 5)
    tee.admitted(a_request(1), SimpleNamespace(count=0), 0)
    tee.unanswered([command], 10)
    assert not tee._admissions
    assert len(tee.log.by_expired["a"]) == isinstance(command, Expire)
