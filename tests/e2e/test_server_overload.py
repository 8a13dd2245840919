"""Ten times more requests than can be served: bounded queues, and an answer for everyone."""

import json
import subprocess
import sys
from pathlib import Path

from tests.e2e.answers import tags_of
from tests.e2e.puppet import HOLD, puppet, row
from tests.e2e.server import a_config, serving, wait_until

BENCHMARK = Path(__file__).parent.parent.parent / "benchmarks" / "overload.py"
FLOOD_S = 3


def test_flood_is_answered_and_memory_stays():
    """At ten times its capacity every request has one right answer, and memory is flat."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), "--seconds", str(FLOOD_S), "--format", "json"],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *seconds, total = json.loads(done.stdout)["rows"]
    assert total["sent"] == total["answered"] == total["counted"], done.stderr
    assert total["lost"] == total["wrong"] == total["other"] == total["counted_cancelled"] == 0
    assert total["left_waiting"] == 0
    # The flood was one, and what can be served was served all the same.
    assert total["rejected"] > total["sent"] / 2
    assert total["completed"] > FLOOD_S * 20
    assert total["expired"] > 0
    assert max(one["rss_mib"] for one in seconds) < total["rss_mib_first"] + 16
    assert total["rss_mib_after"] < total["rss_mib_first"] + 16


def test_full_queue_refuses_with_a_time_to_come_back(tmp_path, folder, clients):
    """Beyond `requests_max` comes 429 with both headers; the place of one that ends is free."""
    model = puppet(folder, queue={"requests_max": 2}, batch={"rows_max": 1})
    with serving(tmp_path, a_config(model)) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        waiting = [clients.submit(server.infer, "puppet", row(tag)) for tag in (2, 3)]
        wait_until(lambda: server.metric("headway_queue_depth") == 2, "the queue is full")
        refused = server.infer("puppet", row(4))
        assert (refused.status, refused.code) == (429, "rejected")
        assert refused.json["reason"] == "model_queue_full"
        assert int(refused.headers["retry-after"]) >= 1
        assert int(refused.headers["headway-retry-after-ms"]) == refused.json["retry_after_ms"] > 0
        folder.open()
        assert [tags_of(one.result()) for one in (held, *waiting)] == [[1], [2], [3]]
        assert tags_of(server.infer("puppet", row(5))) == [5]
    assert sorted(folder.batches()) == [[1], [2], [3], [5]]


def test_queue_is_bounded_by_bytes_and_over_all_models(tmp_path, folder, clients):
    """A model's bytes, the server's requests and its bytes each have a limit and a name."""
    row_bytes = 16
    models = (
        puppet(folder, "small", queue={"bytes_max": f"{2 * row_bytes}B"}),
        puppet(folder, "large"),
    )
    limits = {"requests_max": 3, "bytes_max": f"{4 * row_bytes}B"}
    with serving(tmp_path, a_config(*models, limits=limits)) as server:
        held = clients.submit(server.infer, "large", row(1, HOLD))
        folder.wait_begun(1)
        waiting = [clients.submit(server.infer, "small", row(2) + row(3))]
        wait_until(lambda: server.metric("headway_queue_depth") == 1, "one waits")

        def reason(model, rows):
            refused = server.infer(model, rows)
            assert refused.status == 429
            return refused.json["reason"]

        assert reason("small", row(4)) == "model_bytes_full"
        assert reason("large", row(4) * 3) == "server_bytes_full"
        waiting += [clients.submit(server.infer, "large", row(tag)) for tag in (5, 6)]
        wait_until(lambda: server.metric("headway_queue_depth") == 3, "three wait")
        assert reason("large", row(7)) == "server_queue_full"
        folder.open()
        for one in (held, *waiting):
            assert one.result().status == 200
        assert server.metric("headway_requests_total", outcome="rejected") == 3
