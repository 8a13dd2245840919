"""A whole server with ONNX and Python models, as Triton's own HTTP client sees it."""

import json
import subprocess
import sys
from pathlib import Path

from tests.e2e.server import MODELS, a_config, serving
from tests.models import identity

from headway.core import Datatype

PROGRAM = Path(__file__).parent / "triton_calls.py"
READY = {"tiny": "READY", "words": "READY", "parts": "READY", "stamped": "READY"}


def calls_of_the_client(server):
    """Run the client's program and return what it saw."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), f"127.0.0.1:{server.port}"],
        capture_output=True,
        text=True,
        timeout=45,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_all_calls_of_the_client(tmp_path):
    """Health, metadata, config, inference in all forms, errors, repository and statistics."""
    models = (
        {"name": "tiny", "path": identity(tmp_path / "tiny.onnx", Datatype.FP32)},
        {"name": "words", "path": f"{MODELS}/words.py:Words"},
        {
            "name": "parts",
            "path": f"{MODELS}/words.py:Words",
            "batch": {"rows_max": 2, "oversize": "split"},
        },
        {"name": "stamped", "path": f"{MODELS}/stamped.py:Stamped", "options": {"stamp": 1}},
    )
    config = a_config(*models, slots=2, server={"port": 0, "admin": {"can_override": True}})
    with serving(tmp_path, config) as server:
        seen = calls_of_the_client(server)
        metrics = server.metrics()

    assert seen["health"] == [True, True]
    assert seen["models"] == {"tiny": True, "words": True, "stamped": True, "none": False}
    assert seen["server"]["name"] == "headway"
    assert "binary_tensor_data" in seen["server"]["extensions"]
    assert seen["metadata"]["platform"] == "onnxruntime_onnx"
    assert seen["metadata"]["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert seen["config"]["max_batch_size"] == 8
    assert seen["config"]["input"][0]["dims"] == [4]

    assert [name for name, is_right in seen["infer"].items() if not is_right] == []
    assert seen["async"]
    assert {name: status for name, (status, _) in seen["errors"].items()} == {
        "no such model": "404",
        "no such version": "404",
        "wrong shape": "400",
        "no time": "504",
        "no such load": "404",
    }
    assert "[-1, 4]" in seen["errors"]["wrong shape"][1]

    gone = {**READY, "stamped": "UNAVAILABLE"}
    steps = [READY, [2.0, 2.0], ["2"], False, gone, True, [1.0, 1.0], READY]
    assert seen["repository"] == steps

    (stats,) = seen["statistics"]["model_stats"]
    calls = 6 + 1 + 2 + 40
    assert stats["inference_stats"]["success"]["count"] == calls
    assert stats["inference_count"] == 2 * calls
    assert calls / 8 < stats["execution_count"] <= calls
    completed = metrics.total("headway_requests_total", model="tiny", outcome="completed")
    assert completed == calls
