"""A real server whose accelerator is emulated: labelled as such, and otherwise like any other."""

import json
import signal
from contextlib import closing
from pathlib import Path

import yaml
from tests.e2e.server import serving, wait_until

from headway.app import kernel_of
from headway.observe import read_journal, replay

ROOT = Path(__file__).parents[2]

CONFIG = {
    "server": {"port": 0},
    "devices": [{"name": "gpu:0", "kind": "emulated", "accelerator": "small"}],
    "models": [
        {
            "name": "m",
            "options": {"solo": "20ms", "row": "1ms"},
            "batch": {"rows_max": 2},
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}],
        }
    ],
    "log": {"format": "human"},
}


def test_emulated_server_answers_in_emulated_time_and_says_so(tmp_path):
    """Zeros of the declared shape, after the time that the machine says; no worker processes."""
    journal = tmp_path / "run.journal"
    with serving(tmp_path, CONFIG | {"journal": {"path": str(journal)}}) as server:
        answers = [server.infer("m", [[1.0, 2.0, 3.0, 4.0]]) for _ in range(5)]
        assert {answer.status for answer in answers} == {200}
        (output,) = answers[0].json["outputs"]
        assert (output["name"], output["shape"], output["data"]) == ("y", [1, 2], [0.0, 0.0])
        assert all(a.json["parameters"]["service_us"] >= 19_000 for a in answers)
        assert server.get("/v2/models/m").json["platform"] == "emulated"
        assert server.metric("headway_emulated") == 1
        assert server.metric("headway_slots") > 0
        assert server.worker_pids() == []
        body = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32"}]}
        estimate = server.call("POST", "/v2/models/m/estimate", json.dumps(body).encode())
        assert estimate.json["expected_ms"] > 19
        assert estimate.json["parts_ms"]["transfer"] > 0
        assert "everything here is emulated" in server.log()
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0
    header = json.loads(journal.read_bytes().splitlines()[0])
    assert header["predictor"]["links"]["devices"].keys() == {"gpu:0"}


def test_example_of_an_emulated_server_serves(tmp_path):
    """The file among the examples starts as it is, and both of its models answer."""
    config = yaml.safe_load((ROOT / "examples/emulated.yaml").read_text(encoding="utf-8"))
    with serving(tmp_path, config | {"server": {"port": 0}}) as server:
        tokens = {"name": "tokens", "shape": [2, 128], "datatype": "INT64", "data": [1] * 256}
        answer = server.post("/v2/models/embed/infer", {"inputs": [tokens]})
        assert answer.status == 200
        assert answer.json["outputs"][0]["shape"] == [2, 384]
        assert server.state_of("classify") == "READY"
        assert server.metric("headway_slots") == 8


def test_fits_of_a_live_server_replay(tmp_path, clients):
    """Boosting is fitted while the server runs, and its journal replays step by step."""
    journal = tmp_path / "run.journal"
    model = {**CONFIG["models"][0], "options": {"solo": "1ms", "row": "1ms"}}
    config = CONFIG | {
        "models": [model],
        "predictor": {"kind": "boosted"},
        "journal": {"path": str(journal)},
    }
    with serving(tmp_path, config) as server:

        def has_fitted():
            calls = [clients.submit(server.infer, "m", [[1.0] * 4]) for _ in range(20)]
            assert {call.result().status for call in calls} == {200}
            return b'"PredictorTrained"' in journal.read_bytes()

        wait_until(has_fitted, "the predictor has been fitted")
        assert server.infer("m", [[1.0] * 4]).status == 200
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0
    header, records = read_journal(journal)
    with closing(records):
        _, divergence = replay(kernel_of(header), records)
    assert divergence is None
