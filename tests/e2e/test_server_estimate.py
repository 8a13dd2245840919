"""Predictions of a real server, as its clients meet them: estimates, headers, metrics, reports."""

import json
import os
import signal
import subprocess
import sys

from tests.e2e.puppet import HOLD, puppet, row
from tests.e2e.server import MODELS, a_config, infer_body, serving, wait_until

TIERS = {"standard": {"budget": "60s"}, "short": {"budget": "50ms", "priority": 2}}
PREDICTIONS = {"headway-expected-ms", "headway-bound-ms"}
BARE = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32"}]}


def estimate(server, body=BARE, headers=None, path="/v2/models/puppet/estimate"):
    """What would become of a request, and the time it took to say so."""
    return server.call("POST", path, json.dumps(body).encode(), headers or {})


def test_estimate_is_told_and_nothing_runs(tmp_path, folder, clients):
    """An answer in every situation, and no trace in counters, journal or model of any of them."""
    journal = tmp_path / "run.journal"
    model = puppet(folder, queue={"requests_max": 1})
    config = a_config(model, tiers=TIERS, journal={"path": str(journal)})
    with serving(tmp_path, config) as server:
        for tag in range(1, 31):
            assert server.infer("puppet", row(tag)).status == 200
        before = _counted(server)
        idle = estimate(server).json
        assert (idle["admitted"], idle["reason"], idle["tier"]) == (True, None, "standard")
        assert (idle["deadline_ms"], idle["limit"]) == (60_000, "tier")
        whole = server.call("POST", "/v2/models/puppet/versions/1/estimate", infer_body(row(99)))
        assert whole.json["admitted"]
        late = estimate(server, headers={"headway-budget-ms": "0"}).json
        assert (late["admitted"], late["reason"]) == (False, "deadline_past")
        assert estimate(server, path="/v2/models/nobody/estimate").code == "model_not_found"
        odd = {"inputs": [{"name": "x", "shape": [1, 5], "datatype": "FP32"}]}
        assert estimate(server, odd).code == "invalid_request"
        assert before == _counted(server)
        assert len(folder.batches()) == 30

        held = clients.submit(server.infer, "puppet", row(40, HOLD))
        folder.wait_begun(40)
        waits = clients.submit(server.infer, "puppet", row(41))
        wait_until(lambda: server.metric("headway_queue_depth") == 1, "one waits")
        full = estimate(server).json
        assert (full["admitted"], full["reason"]) == (False, "model_queue_full")
        assert full["retry_after_ms"] >= 1
        assert full["will_meet_deadline"] == {"expected": False, "bound": False}
        refused = server.infer("puppet", row(42))
        assert (refused.status, refused.json["reason"]) == (429, full["reason"])
        folder.open()
        assert {held.result().status, waits.result().status} == {200}
        server.signal(signal.SIGTERM)  # or the journal's last lines may not be written yet
        assert server.exit_code() == 0
    arrivals = journal.read_bytes().count(b'"RequestArrived"')
    assert arrivals == 30 + 3


def _counted(server):
    """What a server counts of requests and batches."""
    metrics = server.metrics()
    names = ("headway_requests_total", "headway_batches_total", "headway_predictions_total")
    return (
        [metrics.total(name) for name in names],
        server.get("/v2/models/puppet/stats").json,
    )


def test_what_estimates_headers_and_metrics_say_agrees(tmp_path, folder):
    """Where the predictor knows something all three say it; where it does not, none pretends to."""
    with serving(tmp_path, a_config(puppet(folder), tiers=TIERS)) as server:
        told_count = 0
        for tag in range(1, 41):
            known = estimate(server).json
            answer = server.infer("puppet", row(tag))
            assert answer.status == 200
            assert (answer.headers.keys() >= PREDICTIONS) is known["is_known"]
            told_count += known["is_known"]
            if known["is_known"]:
                assert float(answer.headers["headway-expected-ms"]) > 0
                assert 0 < known["expected_ms"] <= known["bound_ms"]
                parts_ms = sum(known["parts_ms"].values())
                assert abs(parts_ms - known["expected_ms"]) <= 0.001 + known["expected_ms"] / 1_000
                meets = known["will_meet_deadline"]
                assert meets["bound"] is (known["bound_ms"] <= known["deadline_ms"])
            else:
                assert known["expected_ms"] is known["bound_ms"] is known["parts_ms"] is None
        metrics = server.metrics()
        latency = {"model": "puppet", "tier": "standard", "of": "latency"}
        assert metrics.total("headway_predictions_total", **latency) == told_count
        assert metrics.total("headway_prediction_error_ratio_count", **latency) == told_count
        service = {"model": "puppet", "of": "service"}
        judged = metrics.total("headway_predictions_total", **service)
        # Of a batch's service something is known from the second on, whichever the predictor.
        assert judged >= 30
        assert metrics.total("headway_prediction_covered_total", **service) <= judged


def test_load_reports_predictions_where_there_are_any(tmp_path):
    """`headway load` judges what the headers said, and each sample carries it."""
    samples = tmp_path / "samples.jsonl"
    model = {"name": "stamped", "path": f"{MODELS}/stamped.py:Stamped"}
    with serving(tmp_path, a_config(model, tiers=TIERS)) as server:
        for tag in range(1, 31):
            server.infer("stamped", row(tag))
        is_known = estimate(server, path="/v2/models/stamped/estimate").json["is_known"]
        arguments = ["--model", "stamped", "--rate", "50", "--duration", "1s", "--seed", "3"]
        done = subprocess.run(
            [
                *(sys.executable, "-m", "headway", "load", f"http://127.0.0.1:{server.port}"),
                *(*arguments, "--format", "json", "--out", str(samples)),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "NO_COLOR": "1"},
            check=False,
        )
    assert done.returncode == 0, done.stderr
    total = json.loads(done.stdout)["total"]
    assert total["completed"] > 0
    told = [json.loads(line) for line in samples.read_text().splitlines()]
    assert [line.get("expected_ns") is not None for line in told] == [is_known] * len(told)
    assert (total["predictions"] is not None) is is_known
    if is_known:
        assert total["predictions"]["count"] == total["completed"]
