"""The timeline of a run: what the trace event format asks for, and what is to be read off it."""

import gzip
import json
import re
from collections import defaultdict
from itertools import pairwise

import msgspec
import pytest
from msgspec.structs import replace

from headway.core import (
    BatchFailed,
    BatchFinished,
    BatchId,
    Complete,
    ExpireReason,
    KeepSegment,
    Record,
    ReplicasLost,
    RequestArrived,
    RequestCancelled,
    RequestId,
)
from headway.report import (
    Phase,
    Timeline,
    TraceEvent,
    Window,
    timeline_bytes,
    write_timeline,
)
from headway.testing import a_device, a_dispatch, a_kernel, a_model, a_request
from headway.units import NS_PER_MS


def events_of(records, *, lanes=(0,), window=None):
    """The timeline of some steps, as plain values."""
    timeline = Timeline([a_device(lanes=lanes)], window)
    events = list(timeline.begin())
    for record in records:
        events += timeline.step(record.now_ns, record.event, record.commands)
    return msgspec.to_builtins([*events, *timeline.end()])


def batches_of(events):
    """Slices of batches, in order of time."""
    marks = ("arrival", "reply")
    slices = [event for event in events if event["ph"] == "X" and event["cat"] not in marks]
    return sorted(slices, key=lambda event: event["ts"])


def counted(events, name):
    """The values of a counter, step by step."""
    return [event["args"] for event in events if event["ph"] == "C" and event["name"] == name]


def instants(events, category="end"):
    """Names of the instants of a kind; by default of requests that ended without an answer."""
    return [e["name"] for e in events if e["ph"] == "i" and e["cat"] == category]


def spans(events, name):
    """Begin and end of each span of a name that is on no thread, in milliseconds."""
    begun = {e["id"]: e["ts"] for e in events if e["ph"] == "b" and e["name"] == name}
    ended = {e["id"]: e["ts"] for e in events if e["ph"] == "e" and e["name"] == name}
    assert begun.keys() == ended.keys()
    return [(begun[key] / 1000, ended[key] / 1000) for key in begun]


def check_format(events):
    """The rules of the format, and those by which viewers draw it without loss."""
    slices, flows, joined, named = defaultdict(list), defaultdict(list), defaultdict(list), set()
    for event in events:
        check_event(event)
        if event["ph"] == "X":
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] in "stf":
            flows[event["id"]].append(event)
        elif event["ph"] in "be":
            joined[event["cat"], event["id"], event["name"]].append(event)
        elif event["ph"] == "M" and "name" in event["args"]:
            named.add((event["pid"], event.get("tid")))
    for spans_of_thread in slices.values():
        spans_of_thread.sort()
        for (_, end), (start, _) in pairwise(spans_of_thread):
            assert start >= end - 1e-6
    for arrow in flows.values():
        check_arrow(arrow, events)
    for pairs in joined.values():
        for begin, end in zip(pairs[::2], pairs[1::2], strict=True):
            assert (begin["ph"], end["ph"]) == ("b", "e")
            assert begin["ts"] <= end["ts"]
    threads = {(e["pid"], e["tid"]) for e in events if e["ph"] in set("Xstf") or e.get("s") == "t"}
    assert threads <= named
    assert len({tid for _, tid in threads}) == len(threads)


def check_event(event):
    """Alone, as it stands there."""
    assert event["ph"] in set("XiCstfMbe")
    assert event["name"]
    assert event.get("ts", 0.0) >= 0
    assert event["ph"] != "i" or event["s"] in set("tpg")
    assert event["ph"] != "C" or min(event["args"].values()) >= 0


def check_arrow(arrow, events):
    """It begins once, goes through any number of slices, and ends once; each is its own."""
    in_order = sorted(arrow, key=lambda event: event["ts"])
    assert re.fullmatch("st*f", "".join(event["ph"] for event in in_order))
    assert {event["name"] for event in arrow} == {"request"}
    assert in_order[-1]["bp"] == "e"
    for event in arrow:
        check_binding(event, events)


def check_binding(arrow, events):
    """A viewer joins an arrow to whatever began last on its thread; that must be its own."""
    on_thread = [
        event
        for event in sorted(events, key=lambda event: event.get("ts", 0.0))
        if event.get("tid") == arrow["tid"] and event["ph"] in "Xistf"
    ]
    before = on_thread[: next(i for i, event in enumerate(on_thread) if event is arrow)]
    last = next(event for event in reversed(before) if event["ph"] in "Xi")
    assert last["ts"] + last.get("dur", 0.0) >= arrow["ts"]
    args = last["args"]
    assert int(arrow["id"]) in args.get("requests", [args.get("request")])


def test_batch_is_a_slice_with_what_was_expected_and_what_it_took():
    """Model, members, deadlines, forecast and stages stand on it, in milliseconds."""
    request = a_request(7, at="2ms", tier="live", priority=3, budget="20ms")
    dispatch = a_dispatch(1, 7, slot=1, expected="8ms", bound="12ms")
    done = BatchFinished(batch_id=BatchId(1), execution_ns=9 * NS_PER_MS)
    complete = Complete(
        request_id=RequestId(7),
        batch_id=BatchId(1),
        batch_rows=1,
        queue_delay_ns=0,
        service_ns=10 * NS_PER_MS,
    )
    records = [
        Record(
            seq=0, now_ns=2 * NS_PER_MS, event=RequestArrived(request=request), commands=[dispatch]
        ),
        Record(seq=1, now_ns=12 * NS_PER_MS, event=done, commands=[complete]),
    ]
    events = events_of(records, lanes=(0, 1))
    check_format(events)
    (batch,) = batches_of(events)
    assert (batch["name"], batch["ts"], batch["dur"]) == ("m", 2_000.0, 10_000.0)
    args = batch["args"]
    assert args["requests"] == [7]
    assert (args["priority"], args["tiers"], args["met"], args["late"]) == (3, ["live"], 1, 0)
    assert (args["expected_ms"], args["bound_ms"], args["actual_ms"]) == (8.0, 12.0, 10.0)
    assert (args["error_ratio"], args["is_within_bound"]) == (-0.2, True)
    assert (args["left_ms_min"], args["execution_ms"]) == (20.0, 9.0)


def test_prediction_is_a_bound_beside_the_slot():
    """What was expected and what was not to be exceeded, from its start on, may outlast it."""
    talk = a_kernel()
    records = [
        Record(
            seq=0,
            now_ns=2 * NS_PER_MS,
            event=RequestArrived(request=a_request(1, at="2ms")),
            commands=[a_dispatch(1, 1, expected="8ms", bound="12ms")],
        ),
        Record(seq=1, now_ns=7 * NS_PER_MS, event=BatchFinished(batch_id=BatchId(1)), commands=[]),
    ]
    events = events_of(records)
    check_format(events)
    assert spans(events, "expected") == [(2.0, 10.0)]
    assert spans(events, "slot 0 bound") == [(2.0, 14.0)]
    talk.arrives(1, at="1ms")
    talk.finishes(1, at="2ms")
    assert spans(events_of(talk.records), "expected") == []  # nothing was known


def test_arrow_leads_from_arrival_through_the_batch_to_the_reply():
    """Each end has a mark of its own, and the reply says what it took and what was expected."""
    talk = a_kernel()
    talk.arrives(1, at="1ms", tier="live", priority=0)
    talk.arrives(2, at="2ms", tier="bulk", priority=3)
    talk.finishes(1, at="5ms")
    talk.finishes(2, at="9ms")
    events = events_of(talk.records)
    check_format(events)
    arrows = [(e["ph"], e["id"], e["ts"] / 1000) for e in events if e["ph"] in "stf"]
    assert sorted(arrows, key=lambda arrow: (arrow[1], arrow[2])) == [
        ("s", "1", 1.0),
        ("t", "1", 1.0),
        ("f", "1", 5.0),
        ("s", "2", 2.0),
        ("t", "2", 5.0),
        ("f", "2", 9.0),
    ]
    replies = [event for event in events if event.get("cat") == "reply"]
    assert [reply["name"] for reply in replies] == ["answered", "answered"]
    assert [reply["args"]["after_ms"] for reply in replies] == [4.0, 7.0]
    assert [reply["args"]["queue_ms"] for reply in replies] == [0.0, 3.0]


def test_start_says_upon_what_and_who_was_left_waiting():
    """A decision is an instant on the slot's thread, with its reasons."""
    talk = a_kernel("priority")
    talk.arrives(1, at="1ms", tier="live", priority=1)
    talk.arrives(2, at="2ms", tier="bulk", priority=5)
    talk.arrives(3, at="3ms", tier="live", priority=1)
    talk.finishes(1, at="5ms")
    events = events_of(talk.records)
    first, second = [e for e in events if e.get("cat") == "decision"]
    assert first["name"] == "starts: a request came and a slot was free"
    assert second["name"] == "starts: a slot came free"
    assert second["args"] == {
        "because": "a slot came free",
        "first_of": "live, priority 1",
        "waited_ms": 2.0,
        "passed_over": 0,
        "left_waiting": {"bulk, priority 5": 1},
    }


def test_start_of_a_less_important_batch_says_whom_it_passed_over():
    """Those of higher classes only; its own class waits with it."""
    talk = a_kernel("fifo")
    for number, priority in enumerate((1, 5, 5, 1), start=1):
        talk.arrives(number, at=f"{number}ms", priority=priority)
    talk.finishes(1, at="9ms")
    *_, second = [e for e in events_of(talk.records) if e.get("cat") == "decision"]
    assert second["args"]["first_of"] == "normal, priority 5"
    assert second["args"]["left_waiting"] == {"normal, priority 1": 1, "normal, priority 5": 1}
    assert second["args"]["passed_over"] == 1


def test_models_and_workers_have_marks_and_loads_are_spans():
    """What was asked for, how long it took, and what was lost."""
    talk = a_kernel()
    talk.handle(ReplicasLost(replica_ids=(1,), message="it died"), at="60ms")
    talk.wakes()
    events = events_of(talk.records)
    check_format(events)
    assert instants(events, "models") == ["load asked for", "worker lost"]
    loads = spans(events, "loading m")
    assert loads[-1] == (talk.now_ns / NS_PER_MS, talk.now_ns / NS_PER_MS)


@pytest.mark.parametrize("skipped", range(1, 8))
def test_part_of_a_run_is_drawn_as_far_as_it_is_known(skipped):
    """Records that begin anywhere: what began before is left out, or says that it did."""
    talk = a_kernel()
    for number in range(1, 4):
        talk.arrives(number, at=f"{number}ms")
    for number in range(1, 4):
        talk.finishes(number, at=f"{10 + number}ms")
    events = events_of(talk.records[-skipped:])
    check_format(events)
    whole = {batch["ts"]: batch for batch in batches_of(events_of(talk.records))}
    for batch in batches_of(events):
        assert batch["dur"] == whole[batch["ts"]]["dur"]
    assert all(value >= 0 for values in counted(events, "waiting") for value in values.values())


def test_bytes_are_those_of_the_file(tmp_path):
    """A server answers with what the verb would have written."""
    talk = a_kernel()
    talk.arrives(1)
    talk.finishes(1, at="5ms")
    path = tmp_path / "run.json"
    write_timeline(talk.records, path, [a_device()], notes={"policy": "fifo"})
    drawn = timeline_bytes(talk.records, [a_device()], notes={"policy": "fifo"})
    assert drawn == path.read_bytes()


def test_steps_of_a_pipeline_say_whose_they_are():
    """Requests of one call of a pipeline can be found together; others say nothing of it."""
    step = replace(a_request(1, at="1ms"), origin=RequestId(-4))
    records = [
        Record(seq=index, now_ns=index, event=RequestArrived(request=request), commands=[])
        for index, request in enumerate((step, a_request(2, at="1ms")))
    ]
    marks = [event for event in events_of(records) if event.get("cat") == "arrival"]
    assert [mark["args"].get("pipeline_call") for mark in marks] == [-4, None]


def test_threads_are_slots_in_the_order_of_lanes():
    """A thread a slot, named by its lane, and slots of one lane side by side."""
    events = events_of([], lanes=(0, 1, 0, 1))
    threads = [event for event in events if event["ph"] == "M" and "tid" in event]
    names = {event["tid"]: event["args"]["name"] for event in threads if "name" in event["args"]}
    order = {
        event["tid"]: event["args"]["sort_index"]
        for event in threads
        if "sort_index" in event["args"]
    }
    assert [names[tid] for tid in sorted(names, key=order.__getitem__)] == [
        "lane 0, slot 0",
        "lane 0, slot 2",
        "lane 1, slot 1",
        "lane 1, slot 3",
    ]


def test_late_failed_lost_and_unfinished_batches_have_names_of_their_own():
    """Viewers choose the colour by the name, so that what went wrong can be seen from afar."""
    talk = a_kernel()
    talk.arrives(1, budget="10ms", at="1ms")
    talk.wakes()
    talk.finishes(1, at="20ms")
    talk.arrives(2, at="30ms")
    talk.handle(BatchFailed(batch_id=BatchId(2), code="executor_failed", message="no"), at="40ms")
    talk.arrives(3, at="50ms")
    lost = ReplicasLost(replica_ids=(1,), message="it died")
    talk.handle(lost, at="60ms")
    events = events_of(talk.records)
    check_format(events)
    assert [batch["name"] for batch in batches_of(events)] == [
        "m, abandoned",
        "m, failed",
        "m, lost",
    ]
    ended = ["expired while running", "failed: executor_failed", "failed: worker_lost"]
    assert instants(events) == ended
    cut = events_of(talk.records[:-1])
    assert batches_of(cut)[-1]["name"] == "m, unfinished"


def test_answer_after_the_deadline_is_late():
    """A tier that still serves late requests shows which they were."""
    request = a_request(1, budget="5ms")
    request = msgspec.structs.replace(request, late_ns=NS_PER_MS * 100)
    talk = a_kernel()
    talk.handle(RequestArrived(request=request))
    talk.finishes(1, at="9ms")
    events = events_of(talk.records)
    (batch,) = batches_of(events)
    assert (batch["name"], batch["args"]["late"]) == ("m, late", 1)
    (reply,) = [event for event in events if event.get("cat") == "reply"]
    assert (reply["name"], reply["args"]["late_ms"]) == ("answered late", 4.0)


def test_counters_say_what_waits_and_what_runs():
    """Each class has its line, each device its own, and all are back at nothing in the end."""
    talk = a_kernel()
    talk.arrives(1, tier="live", priority=0)
    talk.arrives(2, tier="bulk", priority=5)
    talk.handle(RequestCancelled(request_id=RequestId(2)))
    talk.arrives(3, tier="bulk", priority=5)
    talk.finishes(1, at="5ms")
    talk.finishes(2, at="9ms")
    events = events_of(talk.records)
    check_format(events)
    live, bulk = "live, priority 0", "bulk, priority 5"
    assert counted(events, "waiting") == [
        {live: 0},
        {live: 0, bulk: 1},
        {live: 0, bulk: 0},
        {live: 0, bulk: 1},
        {live: 0, bulk: 0},
    ]
    assert [sum(values.values()) for values in counted(events, "running")] == [1, 1, 0]
    assert instants(events) == ["cancelled while waiting"]


def test_refusals_expiries_and_what_was_given_up_are_marked():
    """Requests without an answer stand on their class's thread, by reason."""
    talk = a_kernel(models=[a_model("m", queue_requests_max=1)])
    talk.arrives(1, budget="1s")
    talk.arrives(2, budget="3ms")
    talk.arrives(3, budget="1s")
    talk.wakes(at="3ms")
    events = events_of(talk.records)
    check_format(events)
    assert instants(events) == [
        "refused: model_queue_full",
        "expired while waiting",
        "unfinished",
    ]
    record = talk.records[-1]
    (expire,) = [c for c in record.commands if hasattr(c, "stage")]
    foreseen = msgspec.structs.replace(expire, reason=ExpireReason.PREDICTED_LATE)
    given_up = msgspec.structs.replace(record, commands=[foreseen])
    assert "given up: predicted_late" in instants(events_of([*talk.records[:-1], given_up]))


def test_segments_of_a_request_are_slices_with_an_arrow_each():
    """Between its segments a request waits again; each says with which row it began."""
    request = a_request(1, rows=4)
    first = msgspec.structs.replace(a_dispatch(1, 1, rows=2), is_segment=True)
    second = msgspec.structs.replace(a_dispatch(2, 1, rows=2), is_segment=True, first_row=2)
    kept = KeepSegment(request_id=RequestId(1), batch_id=BatchId(1))
    done = Complete(
        request_id=RequestId(1),
        batch_id=BatchId(2),
        batch_rows=2,
        queue_delay_ns=0,
        service_ns=8 * NS_PER_MS,
    )
    finished = [BatchFinished(batch_id=BatchId(number)) for number in (1, 2)]
    records = [
        Record(seq=0, now_ns=0, event=RequestArrived(request=request), commands=[first]),
        Record(seq=1, now_ns=4 * NS_PER_MS, event=finished[0], commands=[kept]),
        Record(
            seq=2,
            now_ns=5 * NS_PER_MS,
            event=RequestArrived(request=a_request(2)),
            commands=[second],
        ),
        Record(seq=3, now_ns=9 * NS_PER_MS, event=finished[1], commands=[done]),
    ]
    events = events_of(records)
    check_format(events)
    batches = batches_of(events)
    assert [(b["args"]["first_row"], b["args"]["met"]) for b in batches] == [(0, 0), (2, 1)]
    assert [(e["ph"], e["ts"]) for e in events if e["ph"] in "stf" and e["id"] == "1"] == [
        ("s", 0.0),
        ("t", 0.0),
        ("t", 5_000.0),
        ("f", 9_000.0),
    ]
    assert [sum(values.values()) for values in counted(events, "waiting")] == [0, 1]


def test_window_draws_whole_batches_and_stops_reading(tmp_path):
    """A batch that reaches into the window is drawn as long as it was; the rest is not read."""
    talk = a_kernel()
    for number in range(1, 6):
        talk.arrives(number, at=f"{10 * number}ms")
        talk.finishes(number, at=f"{10 * number + 8}ms")
    window = Window(15 * NS_PER_MS, 35 * NS_PER_MS)
    events = events_of(talk.records, window=window)
    check_format(events)
    assert [(b["ts"], b["dur"]) for b in batches_of(events)] == [
        (10_000.0, 8_000.0),
        (20_000.0, 8_000.0),
        (30_000.0, 8_000.0),
    ]
    assert sum(event.get("cat") == "arrival" for event in events) == 2
    records = iter(talk.records)
    write_timeline(records, tmp_path / "a.json", [a_device()], window=window)
    assert next(records).event == RequestArrived(request=a_request(4, at="40ms"))


def test_classes_beyond_the_limit_are_drawn_as_one():
    """Clients may choose priorities; that does not make a thread each without end."""
    talk = a_kernel()
    for number in range(1, 60):
        talk.arrives(number, priority=number)
    events = events_of(talk.records)
    check_format(events)
    assert len(counted(events, "waiting")[-1]) == 33
    assert counted(events, "waiting")[-1]["others"] == 27


@pytest.mark.parametrize("name", ["run.json", "run.json.gz", "deeper/run.json"])
def test_file_is_one_json_object(name, tmp_path):
    """Notes on the whole and the list of events, compressed where the name says so."""
    talk = a_kernel()
    talk.arrives(1)
    talk.finishes(1, at="5ms")
    path = tmp_path / name
    count = write_timeline(talk.records, path, [a_device()], notes={"policy": "fifo"})
    data = path.read_bytes()
    whole = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)
    assert (whole["displayTimeUnit"], whole["otherData"]) == ("ms", {"policy": "fifo"})
    assert len(whole["traceEvents"]) == count
    check_format(whole["traceEvents"])


def test_event_that_the_format_does_not_have_is_refused():
    """A slice without a length would be drawn nowhere."""
    with pytest.raises(ValueError, match="a slice has a length"):
        TraceEvent(ph=Phase.SLICE, name="m", pid=1)
    with pytest.raises(ValueError, match="a flow or span has an identity"):
        TraceEvent(ph=Phase.FLOW_START, name="m", pid=1)
    with pytest.raises(ValueError, match="an instant has a scope"):
        TraceEvent(ph=Phase.INSTANT, name="m", pid=1)
