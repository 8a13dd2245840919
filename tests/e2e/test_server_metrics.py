"""What a server counts: there from the start, what clients saw, back to nothing at rest."""

from collections import Counter

from tests.e2e.answers import tags_of
from tests.e2e.puppet import HOLD, KILL, puppet, row
from tests.e2e.server import a_config, serving, wait_until

TIERS = {"standard": {"budget": "60s"}, "short": {"budget": "400ms"}}
GAUGES_AT_REST = (
    "headway_queue_depth",
    "headway_queue_oldest_age_seconds",
    "headway_slots_busy",
)


def test_every_series_is_there_from_the_start(tmp_path, folder):
    """Before the first request all counters of all models and tiers exist, at 0."""
    config = a_config(puppet(folder, "first"), puppet(folder, "second"), slots=3, tiers=TIERS)
    with serving(tmp_path, config) as server:
        metrics = server.metrics()
        settled = {"headway_slots": 3, "headway_replicas": 2}
        for name, labels, value in metrics.all:
            if name == "headway_http_answers_total" and labels["status"] in {"200", "503"}:
                continue  # whether the server was ready was asked before
            if name.startswith(("headway_decision_", "headway_loop_lag_")):
                continue  # the loads were decisions already
            if name.startswith("headway_") and name not in settled:
                assert value == 0, (name, labels)
        for name, value in settled.items():
            assert metrics.total(name) == value
        outcomes = {labels["outcome"] for name, labels, _ in metrics.all if "outcome" in labels}
        assert outcomes == {"completed", "cancelled", "rejected", "expired", "failed"}
        for model in ("first", "second"):
            for tier in TIERS:
                labels = {"model": model, "tier": tier}
                metrics.total("headway_requests_total", outcome="completed", **labels)
                metrics.total("headway_latency_seconds_count", **labels)
                metrics.total("headway_queue_delay_seconds_bucket", le="+Inf", **labels)
        metrics.total("process_resident_memory_bytes")


def test_counts_are_those_of_the_clients(tmp_path, folder, clients):
    """After a run with every kind of end, outcomes add up to what was sent, and gauges are back."""
    model = puppet(folder, batch={"rows_max": 4}, queue={"requests_max": 3})
    limits = {"restart_delay_min": "50ms"}
    config = a_config(model, tiers=TIERS, limits=limits)
    with serving(tmp_path, config) as server:
        seen = Counter()
        for tag in range(1, 21):
            seen[server.infer("puppet", row(tag)).status] += 1
        held = clients.submit(server.infer, "puppet", row(30, HOLD))
        folder.wait_begun(30)
        waiting = [clients.submit(server.infer, "puppet", row(tag)) for tag in (31, 32)]
        wait_until(lambda: server.metric("headway_queue_depth") == 2, "two wait")
        leaves = server.open_infer("puppet", row(33))
        wait_until(lambda: server.metric("headway_queue_depth") == 3, "three wait")
        for _ in range(5):
            seen[server.infer("puppet", row(34)).status] += 1
        age_s = server.metric("headway_queue_oldest_age_seconds")
        assert age_s > 0
        leaves.close()
        cancelled = {"outcome": "cancelled"}
        wait_until(lambda: server.metric("headway_requests_total", **cancelled) == 1, "it is told")
        late = server.infer("puppet", row(35), headers={"headway-tier": "short"})
        seen[late.status] += 1
        assert server.metric("headway_queue_oldest_age_seconds") > age_s
        folder.open()
        seen.update(one.result().status for one in (held, *waiting))
        seen[server.infer("puppet", row(36, KILL)).status] += 1
        seen[server.infer("puppet", [[1.0] * 3]).status] += 1  # refused by its shape, uncounted
        seen[server.infer("nobody", row(1)).status] += 1  # no such model, uncounted
        assert seen == {200: 23, 429: 5, 504: 1, 503: 1, 400: 1, 404: 1}
        assert tags_of(server.infer("puppet", row(37))) == [37]

        metrics = server.metrics()
        name = "headway_requests_total"
        assert metrics.total(name, outcome="completed") == 24
        assert metrics.total(name, outcome="rejected", reason="model_queue_full") == 5
        assert metrics.total(name, outcome="expired", tier="short") == 1
        assert metrics.total(name, outcome="failed", reason="worker_lost") == 1
        assert metrics.total(name) == 24 + 5 + 1 + 1 + 1
        assert metrics.total("headway_deadline_violations_total") == 7
        assert metrics.total("headway_latency_seconds_count") == 24
        batches = len(folder.batches())
        assert metrics.total("headway_batches_total") == batches
        assert metrics.total("headway_batch_rows_count") == batches
        assert metrics.total("headway_batch_rows_sum") == sum(map(len, folder.batches()))
        assert metrics.total("headway_batches_failed_total") == 1
        assert metrics.total("headway_stage_seconds_count", stage="execution") == batches - 1
        for gauge in GAUGES_AT_REST:
            assert metrics.total(gauge) == 0, gauge


def test_statistics_count_rows_and_batches(tmp_path, folder, clients):
    """inference_count counts rows, execution_count batches; times are those that clients saw."""
    with serving(tmp_path, a_config(puppet(folder))) as server:
        began = server.infer("puppet", row(1) + row(2) + row(3))
        held = clients.submit(server.infer, "puppet", row(4, HOLD))
        folder.wait_begun(4)
        asked = [clients.submit(server.infer, "puppet", row(tag) * 2) for tag in (5, 6, 7)]
        wait_until(lambda: server.metric("headway_queue_depth") == 3, "three wait")
        folder.open()
        answers = [began, *(one.result() for one in (held, *asked))]
        (stats,) = server.get("/v2/models/puppet/stats").json["model_stats"]
        assert server.get("/v2/models/stats").json["model_stats"] == [stats]
    assert (stats["name"], stats["version"]) == ("puppet", "1")
    assert stats["inference_count"] == 3 + 1 + 2 * 3
    assert stats["execution_count"] == 3 == len(folder.batches())
    batches = {line["batch_size"]: line["compute_infer"]["count"] for line in stats["batch_stats"]}
    assert batches == {1: 1, 3: 1, 6: 1}
    of = stats["inference_stats"]
    assert of["success"]["count"] == len(answers) == of["queue"]["count"]
    assert of["fail"]["count"] == 0
    assert 0 < of["success"]["ns"] <= sum(answer.elapsed_s for answer in answers) * 1e9
    assert 0 < of["queue"]["ns"] < of["success"]["ns"]
    assert 0 < of["compute_infer"]["ns"] < of["success"]["ns"]
    assert stats["last_inference"] > 0
