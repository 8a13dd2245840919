"""Requests larger than a batch, and answers after their deadline, through a whole server."""

from tests.e2e.answers import tags_of
from tests.e2e.puppet import HOLD, KILL, puppet, row
from tests.e2e.server import a_config, serving, wait_until

SPLIT = {"rows_max": 3, "oversize": "split"}


def rows_from(first, count, **orders):
    """Rows with tags in order; `r2=KILL` orders something for the row with tag 2."""
    return [row(tag, orders.get(f"r{tag}", 0.0))[0] for tag in range(first, first + count)]


def test_request_of_many_rows_is_answered_whole(tmp_path, folder):
    """Eight rows through a model that takes three: three batches, one answer, all rows in order."""
    with serving(tmp_path, a_config(puppet(folder, batch=SPLIT))) as server:
        sent = rows_from(1, 8)
        answer = server.infer("puppet", sent)
        assert answer.status == 200
        assert answer.rows == sent
        assert answer.json["parameters"]["segments"] == 3
        assert folder.batches() == [[1, 2, 3], [4, 5, 6], [7, 8]]
        metrics = server.metrics()
        assert metrics.total("headway_segments_total") == 3
        assert metrics.total("headway_requests_total", outcome="completed") == 1
        assert metrics.total("headway_queue_depth") == 0
        assert metrics.total("headway_decision_seconds_count") >= 4


def test_request_of_many_rows_is_refused_by_default(tmp_path, folder):
    """400, with the setting that would let it in; nothing of it runs."""
    with serving(tmp_path, a_config(puppet(folder, batch={"rows_max": 3}))) as server:
        answer = server.infer("puppet", rows_from(1, 8))
        assert answer.status == 400
        assert "batch.oversize" in answer.json["error"]
    assert folder.batches() == []


def test_urgent_request_goes_between_segments(tmp_path, folder, clients):
    """A long request holds a slot for one segment at a time; the rest of it waits its turn."""
    tiers = {"bulk": {"priority": 9}, "urgent": {"priority": 0}}
    model = puppet(folder, batch=SPLIT, tier="bulk")
    with serving(tmp_path, a_config(model, tiers=tiers)) as server:
        long = clients.submit(server.infer, "puppet", rows_from(1, 8, r1=HOLD))
        folder.wait_begun(1)
        urgent = clients.submit(server.infer, "puppet", row(50), headers={"headway-tier": "urgent"})
        wait_until(lambda: server.metric("headway_queue_depth", tier="urgent") == 1, "it waits")
        folder.open()
        assert tags_of(urgent.result()) == [50]
        assert tags_of(long.result()) == list(range(1, 9))
    assert folder.batches() == [[1, 2, 3], [50], [4, 5, 6], [7, 8]]


def test_worker_that_dies_between_segments_fails_the_request_once(tmp_path, folder):
    """The parts that had run are dropped; the server goes on, and a new request is whole."""
    with serving(tmp_path, a_config(puppet(folder, batch=SPLIT))) as server:
        answer = server.infer("puppet", rows_from(1, 8, r5=KILL))
        assert (answer.status, answer.json["code"]) == (503, "worker_lost")
        wait_until(lambda: server.state_of("puppet") == "READY", "the worker is back")
        assert tags_of(server.infer("puppet", rows_from(11, 5))) == [11, 12, 13, 14, 15]
    assert folder.batches() == [[1, 2, 3], [4, 5, 6], [11, 12, 13], [14, 15]]


def test_late_answer_of_a_tier_that_serves_late(tmp_path, folder, clients):
    """A 200 that says how late it is; for the metrics a violation. A tier that drops has a 504."""
    tiers = {"patient": {"budget": "1ms", "late": "serve"}, "strict": {"budget": "1ms"}}
    with serving(tmp_path, a_config(puppet(folder, tier="patient"), tiers=tiers)) as server:
        asked = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        dropped = server.infer("puppet", row(2), headers={"headway-tier": "strict"})
        assert (dropped.status, dropped.json["code"]) == (504, "deadline_exceeded")
        assert "headway-late-ms" not in dropped.headers
        folder.open()
        answer = asked.result()
        assert tags_of(answer) == [1]
        assert float(answer.headers["headway-late-ms"]) > 0
        assert answer.json["parameters"]["late_ms"] > 0
        metrics = server.metrics()
        assert metrics.total("headway_late_answers_total", tier="patient") == 1
        assert metrics.total("headway_deadline_violations_total", tier="patient") == 1
        assert metrics.total("headway_requests_total", tier="patient", outcome="completed") == 1
        assert metrics.total("headway_late_answers_total", tier="strict") == 0
