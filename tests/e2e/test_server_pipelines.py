"""Pipelines on real workers: a page is cut by a function, read row by row, and made into text."""

import json
import os
import signal
import socket

import pytest
from tests.e2e.puppet import HOLD, Folder, puppet, row
from tests.e2e.server import MODELS, a_config, running, serving, wait_until

URGENT = {"headway-tier": "urgent"}
TIERS = {"default": {"priority": 5}, "urgent": {"priority": 1}}
PAGE = {"name": "page", "datatype": "FP32", "shape": [-1, 4]}
LINES = {"name": "lines", "datatype": "BYTES", "shape": [-1]}
SIZE = {"name": "size", "datatype": "INT64", "shape": [1]}


def reader(name="reader", **pipeline):
    """Page -> cut (function) -> each row read by the puppet -> text (function)."""
    return {
        "name": name,
        "inputs": [PAGE],
        "outputs": [LINES, SIZE],
        "pipeline": {
            "outputs": {"lines": "text.lines", "size": "cut.size"},
            "steps": [
                {
                    "name": "cut",
                    "function": f"{MODELS}/steps.py:cut",
                    "inputs": {"page": "input.page"},
                },
                {"name": "read", "model": "puppet", "each": "cut.row", "inputs": {"x": "cut.row"}},
                {
                    "name": "text",
                    "function": f"{MODELS}/steps.py:Text",
                    "options": {"prefix": "line "},
                    "inputs": {"rows": "read.y"},
                },
            ],
        }
        | pipeline,
    }


def with_pool(config):
    """A second device, for functions."""
    first = config["devices"][0]
    return config | {"devices": [first, {**first, "name": "cpu:1"}]}


def body_of(*rows, outputs=(), parameters=None):
    data = [value for one in rows for value in one[0]]
    page = {"name": "page", "shape": [len(rows), 4], "datatype": "FP32", "data": data}
    body = {"inputs": [page], "parameters": parameters or {}}
    if outputs:
        body["outputs"] = [{"name": name} for name in outputs]
    return json.dumps(body).encode()


def ask(server, *rows, name="reader", headers=None, **said):
    path = f"/v2/models/{name}/infer"
    return server.call("POST", path, body_of(*rows, **said), headers or {})


def outputs_of(answer):
    assert answer.status == 200, answer.body
    return {tensor["name"]: tensor["data"] for tensor in answer.json["outputs"]}


def test_page_is_read_row_by_row(tmp_path, folder):
    """Functions run in their pool, rows as the model's requests; metadata and counts agree."""
    pool = reader(pool="cpu:1", items_max=4)
    config = with_pool(a_config(puppet(folder, batch={"rows_max": 4}), pool))
    with serving(tmp_path, config) as server:
        assert len(server.worker_pids()) == 2
        answer = ask(server, row(3), row(1), row(2), parameters={"suffix": "!"})
        assert outputs_of(answer) == {"lines": ["line 3!", "line 1!", "line 2!"], "size": [12]}
        assert outputs_of(ask(server, row(7), outputs=("size",))) == {"size": [4]}
        assert sorted(tag for tags in folder.batches() for tag in tags) == [1, 2, 3]
        metadata = server.get("/v2/models/reader").json
        assert (metadata["platform"], metadata["inputs"]) == ("pipeline", [PAGE])
        assert server.get("/v2/models/reader/ready").status == 200
        assert (server.state_of("reader"), server.state_of("reader/cut")) == ("READY", "")
        too_many = ask(server, *(row(i) for i in range(1, 6)))
        assert (too_many.status, too_many.code) == (400, "invalid_request")
        assert "step `read` of pipeline `reader`" in too_many.json["error"]
        metrics = server.metrics()
        calls = {"pipeline": "reader", "tier": "standard"}
        assert metrics.total("headway_pipeline_calls_total", **calls, outcome="completed") == 2
        assert metrics.total("headway_pipeline_calls_total", **calls, outcome="failed") == 1
        for gauge in ("calls_running", "steps_running", "held_bytes"):
            assert metrics.total(f"headway_pipeline_{gauge}", pipeline="reader") == 0
        assert metrics.total("headway_pipeline_busy_seconds_total", pipeline="reader") > 0
        (stats,) = server.get("/v2/models/reader/stats").json["model_stats"]
        assert stats["inference_count"] == 2


def test_page_without_rows_has_no_lines(tmp_path, folder):
    """An empty list is a list: the text step is asked for and gives nothing."""
    with serving(tmp_path, a_config(puppet(folder), reader())) as server:
        page = {"name": "page", "shape": [0, 4], "datatype": "FP32", "data": []}
        answer = server.post("/v2/models/reader/infer", {"inputs": [page]})
        assert outputs_of(answer) == {"lines": [], "size": [0]}


def test_functions_fail_as_models_do(tmp_path, folder):
    """What a function raised reaches the client, with the step's name, and the worker lives on."""
    pipe = reader()
    pipe["pipeline"]["steps"][0]["function"] = f"{MODELS}/steps.py:refuse"
    pipe["pipeline"]["steps"][0]["inputs"] = {"x": "input.page"}
    with serving(tmp_path, a_config(puppet(folder), pipe)) as server:
        pids = server.worker_pids()
        answer = ask(server, row(1))
        assert (answer.status, answer.code) == (500, "executor_failed")
        assert "step `cut` of pipeline `reader`" in answer.json["error"]
        assert "this page is upside down" in answer.json["error"]
        assert server.worker_pids() == pids


def test_client_that_leaves_takes_its_steps_along(tmp_path, folder, clients):
    """What waits is never run, and no gauge keeps anything of the call."""
    config = with_pool(a_config(puppet(folder, batch={"rows_max": 1}), reader(pool="cpu:1")))
    with serving(tmp_path, config) as server:
        held = clients.submit(server.infer, "puppet", row(1, HOLD))
        folder.wait_begun(1)
        body = body_of(row(8), row(9))
        head = f"POST /v2/models/reader/infer HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}"
        client = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        client.sendall(head.encode() + b"\r\n\r\n" + body)
        wait_until(lambda: server.metric("headway_pipeline_steps_running") == 2, "rows wait")
        client.close()
        wait_until(
            lambda: server.metric("headway_pipeline_calls_total", outcome="cancelled") == 1, "gone"
        )
        assert server.metric("headway_pipeline_steps_running") == 0
        assert server.metric("headway_pipeline_held_bytes") == 0
        assert server.metric("headway_queue_depth") == 0
        folder.open()
        assert held.result().status == 200
    assert folder.batches() == [[1]]


def test_worker_killed_in_the_middle_of_a_call(tmp_path, folder, clients):
    """The client is told which step was lost, and may send it again: then it is answered."""
    limits = {"restart_delay_min": "50ms", "restart_delay_max": "1s"}
    config = with_pool(a_config(puppet(folder), reader(pool="cpu:1"), limits=limits))
    with serving(tmp_path, config) as server:
        before = set(server.worker_pids())
        lost = clients.submit(ask, server, row(1, HOLD), row(2))
        folder.wait_begun(1)
        loaded = [note["loaded"] for note in folder.notes() if "loaded" in note]
        os.kill(loaded[-1], signal.SIGKILL)
        answer = lost.result()
        assert (answer.status, answer.code) == (503, "worker_lost")
        assert "step `read` of pipeline `reader`" in answer.json["error"]
        wait_until(lambda: server.get("/v2/health/ready").status == 200, "it is back")
        assert outputs_of(ask(server, row(5)))["lines"] == ["line 5"]
        # The functions' worker is still the one it was.
        assert len(before & set(server.worker_pids())) == 1
        assert server.metric("headway_pipeline_steps_running") == 0


def test_urgent_call_overtakes_a_flood_in_each_inner_queue(tmp_path, clients):
    """Priority is the call's at every step: one of a flood runs, and the urgent one is next."""
    folders = [Folder(tmp_path / name) for name in ("first", "second")]
    models = [puppet(f, f.path.name, batch={"rows_max": 1}) for f in folders]
    pipe = {
        "name": "chain",
        "inputs": [{"name": "page", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}],
        "pipeline": {
            "outputs": {"y": "two.y"},
            "steps": [
                {"name": "one", "model": "first", "inputs": {"x": "input.page"}},
                {"name": "two", "model": "second", "inputs": {"x": "one.y"}},
            ],
        },
    }
    config = a_config(*models, pipe, tiers=TIERS)
    config["models"][1]["devices"] = ["cpu:1"]
    first, second = folders
    with serving(tmp_path, with_pool(config)) as server:
        asked = []
        for tag in (1, 2, 3, 4, 5):
            asked.append(clients.submit(ask, server, row(tag, HOLD), name="chain"))
            wait_until(lambda: server.metric("headway_pipeline_calls_running") == len(asked), "in")
        first.wait_begun(1)
        for tag in (1, 2, 3):  # one runs in the second queue, and two wait there
            first.open(tag)
        first.wait_begun(4)
        second.wait_begun(1)
        asked.append(clients.submit(ask, server, row(9, HOLD), name="chain", headers=URGENT))
        wait_until(lambda: server.metric("headway_pipeline_calls_running") == 6, "urgent is in")
        first.open()
        first.wait_begun(5)
        wait_until(
            lambda: server.metric("headway_queue_depth", model="second", tier="urgent") == 1,
            "the urgent one waits in the second queue",
        )
        second.open()
        assert [one.result().status for one in asked] == [200] * 6
    assert first.batches() == [[1], [2], [3], [4], [9], [5]]
    assert second.batches()[:2] == [[1], [9]]


def test_shutdown_lets_calls_take_their_later_steps(tmp_path, folder, clients):
    """After SIGTERM new calls are refused, and those under way are answered to the end."""
    with serving(tmp_path, a_config(puppet(folder), reader())) as server:
        held = clients.submit(ask, server, row(1, HOLD))
        folder.wait_begun(1)
        server.signal(signal.SIGTERM)
        wait_until(lambda: server.get("/v2/health/ready").status == 503, "it drains")
        assert ask(server, row(2)).status == 503
        folder.open()
        assert outputs_of(held.result())["lines"] == ["line 1"]
        assert server.exit_code() == 0
    assert folder.batches() == [[1]]


@pytest.mark.parametrize(
    "inputs", [{"pages": "input.page"}, {"page": "input.page", "other": "input.page"}]
)
def test_function_that_cannot_be_called_stops_the_start(tmp_path, folder, inputs):
    """Names that do not match are seen when functions are loaded, not by the first client."""
    pipe = reader()
    pipe["pipeline"]["steps"][0]["inputs"] = inputs
    path = tmp_path / "serve.yaml"
    path.write_text(json.dumps(a_config(puppet(folder), pipe)))
    with running(tmp_path, ["serve", str(path)]) as server:
        assert server.exit_code() == 1
        assert "`cut` cannot be called with the inputs" in server.log()
