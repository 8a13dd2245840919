"""A timeline, asked with SQL, gives the sums that its journal gives.

Each question is asked of tables made by the rules of the trace event format, and of Perfetto's own
trace processor where its program is to be had: PyPI's `perfetto` brings the way to talk to it, and
fetches the program itself, which a machine without the internet cannot.
"""

import json
from collections import Counter
from pathlib import Path
from shutil import which

import pytest
from tests.recorded_run import record_run
from tests.trace_tables import TraceTables

from headway.core import (
    Complete,
    Dispatch,
    Expire,
    ExpireReason,
    Fail,
    Reject,
    RequestArrived,
)
from headway.observe import Lives, read_journal
from headway.report import Window, write_timeline

PROGRAMS = ("trace_processor_shell", "trace_processor")
BATCHES = "category in ('high', 'low')"


def perfetto_program():
    """Where the trace processor is, on the path or where an earlier start of it was kept."""
    for name in PROGRAMS:
        if (found := which(name)) is not None:
            return found
    kept = Path.home() / ".local" / "share" / "perfetto" / "prebuilts"
    found = [path for path in kept.glob(f"{PROGRAMS[0]}*") if path.suffix != ".tmp"]
    return str(found[0]) if found else None


class Perfetto:
    """Its trace processor with a trace open."""

    def __init__(self, path):
        api = pytest.importorskip("perfetto.trace_processor", reason="`perfetto` is not installed")
        program = perfetto_program()
        if program is None:
            pytest.skip("Perfetto's trace processor is not on this machine")
        config = api.TraceProcessorConfig(bin_path=program)
        self._processor = api.TraceProcessor(trace=str(path), config=config)

    def ask(self, query):
        """All rows."""
        rows = self._processor.query(query)
        return [tuple(getattr(row, name) for name in rows.column_names) for row in rows]

    def close(self):
        """End the program."""
        self._processor.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A journal and its timeline."""
    folder = tmp_path_factory.mktemp("timeline")
    header, records = read_journal(record_run(folder / "run.journal"))
    steps = list(records)
    write_timeline(steps, folder / "run.json", header.params.devices)
    return steps, header.params.devices, folder / "run.json"


@pytest.fixture(scope="module", params=["tables", "perfetto"])
def timeline(request, run):
    """The same timeline, in the hands of either."""
    path = run[2]
    if request.param == "perfetto":
        opened = Perfetto(path)
    else:
        opened = TraceTables(json.loads(path.read_bytes()))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def lives(run):
    """The requests and batches of the journal, all that ended."""
    steps, devices, _ = run
    followed = Lives(devices)
    ended = [followed.step(record) for record in steps]
    left = followed.finish()
    assert left == ([], [])
    return [r for e in ended for r in e.requests], [b for e in ended for b in e.batches]


def about(nanoseconds, rows):
    """Instants are written in microseconds, to a rounding of a nanosecond each."""
    return pytest.approx(nanoseconds, abs=2 * rows)


def test_time_on_each_slot_is_that_of_its_batches(timeline, lives):
    """Slices of a slot's thread, by class, against the batches of the journal."""
    rows = timeline.ask(
        "select process.name as device, thread.name as slot, category, count(*) as batches, "
        "sum(dur) as took from slice join thread_track on track_id = thread_track.id "
        f"join thread using (utid) join process using (upid) where {BATCHES} group by 1, 2, 3"
    )
    took, batches = Counter(), Counter()
    for batch in lives[1]:
        slot = batch.dispatch.slot
        key = (batch.dispatch.device, f"lane {slot}, slot {slot}", batch.dispatch.slot_class)
        took[key] += batch.ended_at_ns - batch.started_at_ns
        batches[key] += 1
    assert {row[:3]: row[3] for row in rows} == batches
    assert len(rows) > 2
    for row in rows:
        assert row[4] == about(took[row[:3]], row[3])


def test_replies_say_what_answers_took(timeline, lives):
    """How many in time and how many late, and their latencies added up."""
    rows = timeline.ask(
        "select name, count(*) as answers, sum(extract_arg(arg_set_id, 'args.after_ms')) as took "
        "from slice where category = 'reply' group by name"
    )
    answered = [life for life in lives[0] if isinstance(life.outcome, Complete)]
    assert sum(row[1] for row in rows) == len(answered)
    took_ms = sum(life.latency_ns for life in answered) / 1e6
    assert sum(row[2] for row in rows) == pytest.approx(took_ms, rel=1e-9)
    late = sum(life.is_late for life in answered)
    assert {row[0]: row[1] for row in rows}.get("answered late", 0) == late


def named(outcome):
    """As its mark is called."""
    match outcome:
        case Reject():
            return f"refused: {outcome.reason}"
        case Expire(reason=ExpireReason.DEADLINE_PAST):
            return f"expired while {outcome.stage}"
        case Expire():
            return f"given up: {outcome.reason}"
        case Fail():
            return f"failed: {outcome.code}"
    raise AssertionError(outcome)


def test_ends_without_an_answer_are_counted_by_their_reason(timeline, lives):
    """Each is one mark."""
    rows = timeline.ask(
        "select name, count(*) as ends from slice where category = 'end' group by name"
    )
    expected = Counter(
        named(life.outcome) for life in lives[0] if not isinstance(life.outcome, Complete)
    )
    assert dict(rows) == expected
    assert len(rows) >= 2


def test_arrows_lead_from_arrival_to_batch_to_end(timeline, run, lives):
    """One an arrival, and the instants at their ends give the waits and the latencies."""
    arrivals = sum(isinstance(record.event, RequestArrived) for record in run[0])
    (found,) = timeline.ask("select count(*) as arrivals from slice where category = 'arrival'")
    assert found == (arrivals,)
    ran = [life for life in lives[0] if life.runs]
    ((count, waited_ns),) = timeline.ask(
        "select count(*) as arrows, sum(b.ts - a.ts) as waited from flow "
        "join slice a on slice_out = a.id join slice b on slice_in = b.id "
        "where a.category = 'arrival' and b.category in ('high', 'low')"
    )
    assert count == len(ran)
    waits_ns = sum(life.runs[0].started_at_ns - life.seen_at_ns for life in ran)
    assert waited_ns == about(waits_ns, count)
    ((count,),) = timeline.ask(
        "select count(*) as arrows from flow join slice b on slice_in = b.id "
        "where b.category in ('reply', 'end')"
    )
    assert count == arrivals


def test_arrows_go_to_the_batches_that_ran_their_requests(timeline, lives):
    """The batch at the end of each arrow has the request among its members."""
    rows = timeline.ask(
        "select extract_arg(a.arg_set_id, 'args.request') as request, "
        "extract_arg(b.arg_set_id, 'args.batch') as batch from flow "
        "join slice a on slice_out = a.id join slice b on slice_in = b.id "
        "where a.category = 'arrival' and b.category in ('high', 'low')"
    )
    assert sorted(rows) == sorted(
        (life.request_id, life.runs[0].dispatch.batch_id) for life in lives[0] if life.runs
    )


def test_predictions_are_spans_as_long_as_they_said(timeline, run):
    """What was expected of all batches, and their bounds."""
    started = [c for record in run[0] for c in record.commands if isinstance(c, Dispatch)]
    known = [dispatch for dispatch in started if dispatch.bound_ns]
    assert len(known) > 50
    ((count, expected_ns),) = timeline.ask(
        "select count(*) as spans, sum(dur) as expected from slice where category = 'prediction' "
        "and name = 'expected'"
    )
    assert count == len(known)
    assert expected_ns == about(sum(dispatch.expected_ns for dispatch in known), count)
    ((count, bound_ns),) = timeline.ask(
        "select count(*) as spans, sum(dur) as bound from slice where category = 'prediction' "
        "and name like 'slot % bound'"
    )
    assert count == len(known)
    assert bound_ns == about(sum(dispatch.bound_ns for dispatch in known), count)


def test_counters_integrate_to_the_same_times(timeline, lives):
    """Batches that run over time are the slots' time, and what waits is the sum of all waits."""
    integral = (
        "select sum(value * (after - ts)) as integral from (select value, ts, lead(ts) over "
        "(partition by track_id order by ts, counter.id) as after from counter "
        "join process_counter_track on track_id = process_counter_track.id where name like '{}%') "
        "where after is not null"
    )
    requests, batches = lives
    ((ran_ns,),) = timeline.ask(integral.format("running"))
    busy_ns = sum(batch.ended_at_ns - batch.started_at_ns for batch in batches)
    assert ran_ns == pytest.approx(busy_ns, rel=1e-6)
    ((waited_ns,),) = timeline.ask(integral.format("waiting"))
    waits_ns = sum(
        (life.runs[0].started_at_ns if life.runs else life.ended_at_ns) - life.seen_at_ns
        for life in requests
    )
    assert waited_ns == pytest.approx(waits_ns, rel=1e-6)


def test_decisions_are_one_a_batch_with_their_reason(timeline, run):
    """Every start says upon what."""
    rows = timeline.ask(
        "select name, count(*) as starts from slice where category = 'decision' group by name"
    )
    started = sum(isinstance(c, Dispatch) for record in run[0] for c in record.commands)
    assert sum(row[1] for row in rows) == started
    assert all(row[0].startswith("starts: ") for row in rows)
    assert len(rows) >= 2


def test_part_of_a_run_has_the_same_sums_within_it(run, tmp_path):
    """Whole batches that touch the window, and arrivals within it."""
    steps, devices, _ = run
    window = Window(500_000_000, 800_000_000)
    path = tmp_path / "part.json"
    write_timeline(steps, path, devices, window=window)
    tables = TraceTables(json.loads(path.read_bytes()))
    followed = Lives(devices)
    batches = [batch for record in steps for batch in followed.step(record).batches]
    drawn = [b for b in batches if window.overlaps(b.started_at_ns, b.ended_at_ns)]
    ((count, took_ns),) = tables.ask(
        f"select count(*) as batches, sum(dur) as took from slice where {BATCHES}"
    )
    tables.close()
    assert count == len(drawn)
    assert took_ns == about(sum(b.ended_at_ns - b.started_at_ns for b in drawn), count)
