"""A server's spans as a collector receives them, and a collector that is not there."""

import json
import signal
import subprocess
import sys
import time
from contextlib import closing

import grpc
import numpy as np
import pytest
from tests.e2e.otlp_receiver import receiving
from tests.e2e.puppet import HOLD, puppet, row
from tests.e2e.server import a_config, free_port, serving, wait_until

from headway.client import Client
from headway.errors import InvalidRequestError
from headway.frontends import grpc_messages

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
STAGES = ("transfer_in", "execution", "transfer_out")
CALLER = "00f067aa0ba902b7"


def traceparent(span: str = CALLER, flags: str = "01") -> str:
    return f"00-{TRACE}-{span}-{flags}"


def url_of(server) -> str:
    return f"http://127.0.0.1:{server.port}"


def attributes_of(span):
    """By name, each as the one value that it is."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def grpc_infer(port: int, metadata) -> None:
    """One row for the puppet, over gRPC."""
    messages = grpc_messages("inference.GRPCInferenceService")
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 4]}
    request = messages["ModelInferRequest"](
        model_name="puppet", inputs=[tensor], raw_input_contents=[np.array(row(3), "<f4").tobytes()]
    )
    with closing(grpc.insecure_channel(f"127.0.0.1:{port}")) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        assert call(request.SerializeToString(), metadata=metadata, timeout=20)


def test_request_is_a_child_of_its_callers_span(tmp_path, folder):
    """Short way, long way and gRPC: the caller's trace, its span the parent, times inside it."""
    with receiving() as collector:
        config = a_config(
            puppet(folder),
            server={"port": 0, "grpc": {"port": 0}},
            tracing={"otlp": collector.url, "ratio": 0, "service": "here"},
        )
        began_at_ns = time.time_ns()
        with serving(tmp_path, config) as server, Client(url_of(server)) as client:
            short = {"x": np.array(row(1), np.float32)}
            long = {"x": np.array(row(2) * 4000, np.float32)}  # 64 kB, which go the long way
            client.infer("puppet", short, traceparent=traceparent("00000000000000a1"))
            with pytest.raises(InvalidRequestError, match="rows"):
                client.infer("puppet", long, traceparent=traceparent("00000000000000a2"))
            grpc_infer(server.grpc_port, [("traceparent", traceparent("00000000000000a3"))])
            # None of these is told of: its sender does not want it, or the ratio is 0.
            client.infer("puppet", short, traceparent=traceparent(flags="00"))
            client.infer("puppet", short, traceparent="00-nonsense")
            client.infer("puppet", short)
            server.signal(signal.SIGTERM)
            assert server.exit_code() == 0
        ended_at_ns = time.time_ns()
    requests = collector.named("infer puppet")
    assert [span.trace_id.hex() for span in requests] == [TRACE] * 3
    assert [span.parent_span_id.hex()[-2:] for span in requests] == ["a1", "a2", "a3"]
    assert collector.resource["service.name"] == "here"
    assert attributes_of(requests[1])["error.type"] == "invalid_request"
    for span in (requests[0], requests[2]):
        said = attributes_of(span)
        assert (said["headway.model"], said["headway.outcome"]) == ("puppet", "completed")
        assert (said["headway.batch_rows"], said["headway.tier"]) == (1, "standard")
        in_worker_ms = sum(said[f"headway.{stage}_ms"] for stage in STAGES)
        parts = [one for one in collector.spans if one.parent_span_id == span.span_id]
        assert sorted(one.name for one in parts) == ["execute", "queue"]
        assert {one.trace_id.hex() for one in parts} == {TRACE}
        queue, execute = sorted(parts, key=lambda one: one.name, reverse=True)
        instants = [
            began_at_ns,
            span.start_time_unix_nano,
            queue.start_time_unix_nano,
            queue.end_time_unix_nano,
            execute.start_time_unix_nano,
            execute.end_time_unix_nano,
            span.end_time_unix_nano,
            ended_at_ns,
        ]
        assert instants == sorted(instants)
        executed_ns = execute.end_time_unix_nano - execute.start_time_unix_nano
        assert 0 < in_worker_ms * 1e6 < executed_ns
    assert len(collector.spans) == 3 + 2 * 2


def test_expired_and_vanished_requests_are_told(tmp_path, folder, clients):
    """One that ran out of time waiting, one whose client left: told, though nothing ran."""
    with receiving() as collector:
        config = a_config(puppet(folder), tracing={"otlp": collector.url, "ratio": 1})
        with serving(tmp_path, config) as server:
            held = clients.submit(server.infer, "puppet", row(1, HOLD))
            folder.wait_begun(1)
            late = server.infer("puppet", row(2), headers={"headway-budget-ms": "20"})
            assert late.status == 504
            server.open_infer("puppet", row(3)).close()

            def outcomes():
                spans = collector.named("infer puppet")
                return sorted(attributes_of(span)["headway.outcome"] for span in spans)

            wait_until(lambda: outcomes() == ["cancelled", "expired"], "both are told")
            folder.open()
            held.result()
            wait_until(lambda: len(outcomes()) == 3, "the third is told")
    (expired,) = [one for one in collector.spans if one.status.code == 2]
    said = attributes_of(expired)
    assert (said["headway.limit"], said["headway.stage"]) == ("headway-budget-ms", "waiting")


def test_server_without_its_collector_serves(tmp_path, folder):
    """Nobody listens: every request is answered, one line says so, and the end comes in time."""
    tracing = {"otlp": f"http://127.0.0.1:{free_port()}/v1/traces", "ratio": 1}
    with serving(tmp_path, a_config(puppet(folder), tracing=tracing)) as server:
        with Client(url_of(server)) as client:
            for tag in range(1, 300):
                client.infer("puppet", {"x": np.array(row(tag), np.float32)})
        wait_until(lambda: "cannot be delivered" in server.log(), "it is told")
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0
        said = server.log()
    assert said.count("cannot be delivered") == 1
    assert "were never delivered" in said
    assert "Traceback" not in said


LOADED = """
import asyncio, json, sys
from headway.app import Server
from headway.config import Config

async def build():
    Server.build(Config.model_validate(json.loads(sys.argv[1])))

asyncio.run(build())
print(json.dumps(sorted(name for name in sys.modules if name.startswith("opentelemetry"))))
"""


@pytest.mark.parametrize("is_traced", [False, True])
def test_library_is_loaded_only_where_it_is_asked_for(is_traced):
    """A server that traces nothing does not even import it."""
    tracing = {"otlp": "http://127.0.0.1:1/v1/traces"} if is_traced else {}
    device = {"name": "g", "kind": "emulated", "accelerator": "small"}
    config = json.dumps({"devices": [device], "tracing": tracing})
    done = subprocess.run(
        [sys.executable, "-c", LOADED, config],
        capture_output=True,
        text=True,
        timeout=45,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert bool(json.loads(done.stdout)) is is_traced
