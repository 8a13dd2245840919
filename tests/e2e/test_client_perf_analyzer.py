"""Triton's load generator against a whole server: sweeps of concurrency and of rates, both ways."""

import pytest
from perf_analyzer import Target
from tests.e2e.foreign import analyzer
from tests.e2e.server import a_config, serving
from tests.models import identity

from headway.core import Datatype

SHARED = ["--shared-memory", "system", "--output-shared-memory-size", "64"]
JSON = ["--input-tensor-format", "json", "--output-tensor-format", "json"]
SWEEPS = {
    "binary": ("http", ["--concurrency-range", "1:3"], []),
    "rates": ("http", ["--request-rate-range", "50:100:50"], []),
    "json": ("http", ["--concurrency-range", "2"], JSON),
    "http memory": ("http", ["--concurrency-range", "2"], SHARED),
    "grpc": ("grpc", ["--concurrency-range", "1:3"], []),
    "grpc rates": ("grpc", ["--request-rate-range", "50:100:50"], []),
    "grpc stream": ("grpc", ["--concurrency-range", "2", "--async"], ["--streaming"]),
    "grpc gzip": ("grpc", ["--concurrency-range", "2"], ["--grpc-compression-algorithm", "gzip"]),
    "grpc memory": ("grpc", ["--concurrency-range", "2"], SHARED),
    "grpc parameters": (
        "grpc",
        ["--concurrency-range", "2"],
        ["--request-parameter", "priority:1:int"],
    ),
}
SECONDS = 0.3


@pytest.mark.timeout(300)  # the first run fetches the program
def test_sweeps(tmp_path):
    """Each level of each is measured, by a program that stops at the first request that fails."""
    program = analyzer()
    tiny = {"name": "tiny", "path": identity(tmp_path / "tiny.onnx", Datatype.FP32)}
    server = {"port": 0, "grpc": {"port": 0}, "shared_memory": True}
    with serving(tmp_path, a_config(tiny, slots=2, server=server)) as server:
        seen = {}
        for name, (protocol, load, flags) in SWEEPS.items():
            port = server.grpc_port if protocol == "grpc" else server.port
            target = Target(protocol=protocol, port=port, model="tiny", shapes=["x:4"], flags=flags)
            seen[name] = program.run(target, load, SECONDS)
        completed = server.metric("headway_requests_total", outcome="completed")
        assert completed == server.metric("headway_requests_total")
    levels = {name: [row.load for row in rows] for name, rows in seen.items()}
    assert levels["binary"] == levels["grpc"] == [1, 2, 3]
    assert levels["rates"] == levels["grpc rates"] == [50, 100]
    assert all(levels[name] == [2] for name in seen if len(levels[name]) == 1)
    assert all(row.rps > 0 for rows in seen.values() for row in rows)
    assert completed > sum(row.rps * SECONDS / 2 for rows in seen.values() for row in rows)
