"""What a server counts: there from the start, what clients saw, back to nothing at rest."""

import socket
import time
from collections import Counter
from functools import partial

import pytest
from tests.e2e.answers import tags_of
from tests.e2e.puppet import HOLD, KILL, puppet, row
from tests.e2e.server import a_config, infer_body, serving, wait_until

TIERS = {"standard": {"budget": "60s"}, "short": {"budget": "400ms"}}
GAUGES_AT_REST = (
    "headway_queue_depth",
    "headway_queue_oldest_age_seconds",
    "headway_requests_in_flight",
    "headway_requests_oldest_age_seconds",
    "headway_estimated_wait_seconds",
    "headway_slots_busy",
)
SETTLED = ("headway_decision_", "headway_loop_lag_", "headway_tier_", "headway_worker_")
"""The loads were decisions already; promises and workers are there from the start."""
READ = ("headway_device_utilization_", "headway_device_memory_")
"""From cores and memory, which others use too."""


def test_every_series_is_there_from_the_start(tmp_path, folder):
    """Before the first request all counters of all models and tiers exist, at 0."""
    config = a_config(puppet(folder, "first"), puppet(folder, "second"), slots=3, tiers=TIERS)
    with serving(tmp_path, config) as server:
        metrics = server.metrics()
        settled = {"headway_slots": 3, "headway_replicas": 2}
        for name, labels, value in metrics.all:
            if name == "headway_http_answers_total" and labels["status"] in {"200", "503"}:
                continue  # whether the server was ready was asked before
            if name.startswith((*SETTLED, *READ)):
                continue
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
        assert metrics.total("headway_tier_budget_seconds", tier="short") == 0.4
        assert metrics.total("headway_tier_attainment_target_ratio", tier="standard") == 0.99
        assert metrics.total("headway_worker_starts_total", worker="cpu:0") == 1
        assert metrics.total("headway_worker_losses_total") == 0
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
        assert metrics.total("headway_requests_arrived_total") == metrics.total(name)
        assert metrics.total("headway_deadline_violations_total") == 7
        assert metrics.total("headway_latency_seconds_count") == 24
        batches = len(folder.batches())
        assert metrics.total("headway_batches_total") == batches
        assert metrics.total("headway_batch_rows_count") == batches
        assert metrics.total("headway_batch_rows_sum") == sum(map(len, folder.batches()))
        assert metrics.total("headway_batches_failed_total") == 1
        assert metrics.total("headway_stage_seconds_count", stage="execution") == batches - 1
        busy_s = metrics.total("headway_slots_busy_seconds_total", device="cpu:0")
        device_s = metrics.total("headway_device_seconds_total", device="cpu:0", model="puppet")
        assert device_s == pytest.approx(busy_s)
        wasted = "headway_device_wasted_seconds_total"
        assert 0 < metrics.total(wasted, reason="failed") < device_s
        assert metrics.total(wasted) == metrics.total(wasted, reason="failed")
        assert metrics.total("headway_worker_starts_total", worker="cpu:0") == 2
        for gauge in GAUGES_AT_REST:
            assert metrics.total(gauge) == 0, gauge


@pytest.mark.parametrize("is_chunked", [False, True])
def test_latency_counts_from_the_head_of_a_request(tmp_path, folder, is_chunked):
    """While a client still sends its body it waits already, and so do metrics say."""
    body = infer_body(row(1))
    how = "transfer-encoding: chunked" if is_chunked else f"content-length: {len(body)}"
    if is_chunked:
        body = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    head = f"POST /v2/models/puppet/infer HTTP/1.1\r\nhost: x\r\n{how}\r\n\r\n"
    with serving(tmp_path, a_config(puppet(folder))) as server:
        latency_s = partial(server.metric, "headway_latency_seconds_sum")
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            client.sendall(head.encode() + body[:9])
            server.infer("puppet", row(2))
            server.infer("puppet", row(3))  # who came before has been heard by now
            began_s = time.monotonic()
            for tag in range(4, 14):
                server.infer("puppet", row(tag))
            passed_s = time.monotonic() - began_s
            before_s = latency_s()
            client.sendall(body[9:])
            assert client.recv(12) == b"HTTP/1.1 200"
        assert latency_s() - before_s >= passed_s


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
