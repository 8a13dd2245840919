"""A whole server over gRPC: Triton's own client, health, and calls that are taken back."""

import json
import subprocess
import sys
from pathlib import Path

import grpc
import numpy as np
import pytest
from tests.e2e.puppet import HOLD, puppet, row
from tests.e2e.server import MODELS, a_config, serving, wait_until
from tests.models import identity

from headway.core import Datatype
from headway.frontends.oip_messages import HEALTH, INFERENCE

PROGRAM = Path(__file__).parent / "triton_grpc_calls.py"
READY = {"tiny": "READY", "words": "READY", "stamped": "READY"}


def a_grpc_config(*models, **server):
    """A configuration with both interfaces, at ports that the system chooses."""
    section = {"port": 0, "grpc": {"port": 0}, **server}
    return a_config(*models, slots=2, server=section)


def three_models(folder):
    """An ONNX model and two in Python."""
    return (
        {"name": "tiny", "path": identity(folder / "tiny.onnx", Datatype.FP32)},
        {"name": "words", "path": f"{MODELS}/words.py:Words"},
        {"name": "stamped", "path": f"{MODELS}/stamped.py:Stamped", "options": {"stamp": 1}},
    )


def call(channel, method, request, *, messages=INFERENCE, answer=None, **how):
    """One unary call, by name."""
    kind = messages[answer or f"{method}Response"]
    ask = channel.unary_unary(
        f"/{messages.service}/{method}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=kind.FromString,
    )
    return ask(request, **how)


def infer_request(model, rows, **fields):
    """Rows of the input `x`, raw."""
    array = np.asarray(rows, dtype=np.float32)
    request = INFERENCE["ModelInferRequest"](model_name=model, **fields)
    request.inputs.add(name="x", datatype="FP32", shape=array.shape)
    request.raw_input_contents.append(array.tobytes())
    return request


def hold_both_slots(channel, folder):
    """How to send an infer request, and two of them that run until the folder is opened."""
    ask = channel.unary_unary(f"/{INFERENCE.service}/ModelInfer")
    held = [
        ask.future(infer_request("puppet", row(tag, HOLD)).SerializeToString()) for tag in (1, 2)
    ]
    folder.wait_begun(1)
    folder.wait_begun(2)
    return ask, held


@pytest.fixture
def channel():
    """Channels that are closed in the end."""
    opened = []

    def open_to(server):
        opened.append(grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}"))
        return opened[-1]

    yield open_to
    for each in opened:
        each.close()


def test_all_calls_of_the_client(tmp_path):
    """Everything that Triton's client can ask, sync, async and streamed, and shared memory."""
    config = a_grpc_config(
        *three_models(tmp_path), shared_memory=True, admin={"can_override": True}
    )
    with serving(tmp_path, config) as server:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), f"127.0.0.1:{server.grpc_port}"],
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)

    assert seen["both are imported"] == "inference.ServerLiveRequest"
    assert seen["health"] == [True, True]
    assert seen["models"] == {"tiny": True, "words": True, "stamped": True}
    assert seen["server"]["name"] == "headway"
    assert "system_shared_memory" in seen["server"]["extensions"]
    assert seen["metadata"]["inputs"] == [{"name": "x", "datatype": "FP32", "shape": ["-1", "4"]}]
    assert seen["config"]["config"]["max_batch_size"] == 8
    assert seen["config"]["config"]["input"][0]["data_type"] == "TYPE_FP32"

    assert [name for name, is_right in seen["infer"].items() if not is_right] == []
    assert seen["parameters"] == {limit: limit for limit in seen["parameters"]}
    assert seen["async"]
    assert {name: status for name, (status, _) in seen["errors"].items()} == {
        "no such model": "StatusCode.NOT_FOUND",
        "no such version": "StatusCode.NOT_FOUND",
        "wrong shape": "StatusCode.INVALID_ARGUMENT",
        "no time": "StatusCode.DEADLINE_EXCEEDED",
        "no such load": "StatusCode.NOT_FOUND",
        "not ready": "StatusCode.NOT_FOUND",
        "no such region": "StatusCode.INVALID_ARGUMENT",
    }
    assert seen["stream"]["first"] == seen["stream"]["again"] == [True, True]
    assert len(seen["stream"]["refused"]) == 1
    assert "none" in seen["stream"]["refused"][0]
    assert seen["stream"]["final"]
    assert seen["memory"] == {
        "known": ["in", "out"],
        "right": True,
        "not in the reply": True,
        "left": ["out"],
        "none": {},
    }
    assert seen["settings"] == [{"value": ["OFF"]}, True, "StatusCode.UNIMPLEMENTED"]
    gone = {**READY, "stamped": "UNAVAILABLE"}
    steps = [READY, [2.0, 2.0], ["2"], False, gone, True, [1.0, 1.0], READY]
    assert seen["repository"] == steps
    (stats,) = seen["statistics"]["model_stats"]
    assert int(stats["inference_stats"]["success"]["count"]) > 40
    assert seen["cuda"] == ["", "StatusCode.UNIMPLEMENTED"]
    assert seen["plugin"] == [True, True]
    rest = seen["aio"].pop("rest of its calls")
    assert rest == {
        "ready": [True, True],
        "server": "headway",
        "metadata": ["1"],
        "config": "tiny",
        "index": 3,
        "statistics": 1,
        "trace": True,
        "log": True,
        "regions": ["aio"],
        "memory": True,
        "cuda": "StatusCode.UNIMPLEMENTED",
        "cuda regions": "",
        "cuda gone": "None",
    }
    assert seen["aio"] == {
        "live": True,
        "many": True,
        "streamed": [[str(number), True] for number in range(5)],
    }


def test_health_is_told_of_the_server_and_of_each_model(tmp_path, channel):
    """Checked and watched, a model that is unloaded, and a service that nobody knows."""
    ask = HEALTH["HealthCheckRequest"]
    with serving(tmp_path, a_grpc_config(*three_models(tmp_path))) as server:
        to = channel(server)

        def status(service):
            how = {"messages": HEALTH, "answer": "HealthCheckResponse"}
            return call(to, "Check", ask(service=service), **how).status

        assert [status(s) for s in ("", "inference.GRPCInferenceService", "tiny")] == [1, 1, 1]
        with pytest.raises(grpc.RpcError) as error:
            status("nobody")
        assert error.value.code() is grpc.StatusCode.NOT_FOUND
        watch = to.unary_stream(
            "/grpc.health.v1.Health/Watch",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=HEALTH["HealthCheckResponse"].FromString,
        )(ask(service="tiny"))
        assert next(watch).status == 1
        server.unload("tiny")
        assert next(watch).status == 2
        assert status("tiny") == 2
        watch.cancel()


def test_call_that_is_taken_back_is_cancelled_waiting_and_running(tmp_path, folder, channel):
    """The server forgets it, and what comes after it is served."""
    with serving(tmp_path, a_grpc_config(puppet(folder))) as server:
        to = channel(server)
        ask, running = hold_both_slots(to, folder)
        waiting = ask.future(infer_request("puppet", row(3, HOLD)).SerializeToString())
        wait_until(lambda: server.metric("headway_queue_depth") == 1, "one waits")
        waiting.cancel()
        wait_until(lambda: server.metric("headway_queue_depth") == 0, "none waits any more")
        running[0].cancel()
        cancelled = {"model": "puppet", "outcome": "cancelled"}
        wait_until(
            lambda: server.metric("headway_requests_total", **cancelled) == 2, "both are cancelled"
        )
        folder.open()
        response = INFERENCE["ModelInferResponse"].FromString(running[1].result(timeout=20))
        assert np.frombuffer(response.raw_output_contents[0], np.float32)[0] == 2.0


def test_deadline_of_a_call_is_its_budget(tmp_path, folder, channel):
    """Who waits behind held work is told when its time is up, not when the work ends."""
    with serving(tmp_path, a_grpc_config(puppet(folder))) as server:
        to = channel(server)
        _, held = hold_both_slots(to, folder)
        with pytest.raises(grpc.RpcError) as error:
            call(to, "ModelInfer", infer_request("puppet", row(3)), timeout=0.3)
        assert error.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        wait_until(lambda: server.metric("headway_queue_depth") == 0, "it is gone")
        folder.open()
        assert all(each.result(timeout=20) for each in held)


def test_refusal_says_why_and_when_to_come_again(tmp_path, folder, channel):
    """The limit that fired, and the time, are in the trailing metadata."""
    limited = puppet(folder, queue={"requests_max": 1})
    with serving(tmp_path, a_grpc_config(limited)) as server:
        to = channel(server)
        ask, held = hold_both_slots(to, folder)
        held.append(ask.future(infer_request("puppet", row(3)).SerializeToString()))
        wait_until(lambda: server.metric("headway_queue_depth") == 1, "one waits")
        with pytest.raises(grpc.RpcError) as error:
            call(to, "ModelInfer", infer_request("puppet", row(4)))
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        said = dict(error.value.trailing_metadata())
        assert said["headway-code"] == "rejected"
        assert said["headway-reason"] == "model_queue_full"
        assert int(said["headway-retry-after-ms"]) >= 1
        assert int(said["retry-after"]) >= 1
        folder.open()
        assert all(each.result(timeout=20) for each in held)
        answers = {"OK": 3, "RESOURCE_EXHAUSTED": 1, "NOT_FOUND": 0}
        for code, count in answers.items():
            assert server.metric("headway_grpc_answers_total", code=code) == count
        assert server.metric("headway_grpc_stream_requests") == 0


def test_message_that_is_too_large_is_refused_and_the_next_is_served(tmp_path, channel):
    """The limit is the configured one, not the library's four megabytes."""
    config = a_grpc_config(*three_models(tmp_path), grpc={"port": 0, "message_max": "6MB"})
    with serving(tmp_path, config) as server:
        to = channel(server)
        five = np.zeros((1, 4), np.float32)
        request = infer_request("tiny", five)
        request.raw_input_contents.append(bytes(5 << 20))
        with pytest.raises(grpc.RpcError) as error:
            call(to, "ModelInfer", request)
        assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT, "it was read"
        request.raw_input_contents.append(bytes(2 << 20))
        with pytest.raises(grpc.RpcError) as error:
            call(to, "ModelInfer", request)
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        answer = call(to, "ModelInfer", infer_request("tiny", five))
        assert answer.outputs[0].shape == [1, 4]


def test_shared_memory_is_off_unless_it_is_switched_on(tmp_path, channel):
    """Over either interface; and CUDA's there is none of."""
    with serving(tmp_path, a_grpc_config(*three_models(tmp_path))) as server:
        region = INFERENCE["SystemSharedMemoryRegisterRequest"](name="r", key="/r", byte_size=4)
        with pytest.raises(grpc.RpcError) as error:
            call(channel(server), "SystemSharedMemoryRegister", region)
        assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED
        path = "/v2/systemsharedmemory/region/r/register"
        assert server.post(path, {"key": "/r", "byte_size": 4}).status == 403
        assert server.post("/v2/cudasharedmemory/region/r/register", {}).status == 501


@pytest.mark.parametrize("name", ["n" * 50_000, "\u00e9" * 5000])
def test_error_with_a_long_name_arrives_as_it_is(tmp_path, folder, channel, name):
    """A text that is too long for gRPC's trailers must not turn one error into another."""
    with serving(tmp_path, a_grpc_config(puppet(folder))) as server:
        with pytest.raises(grpc.RpcError) as failed:
            call(channel(server), "ModelMetadata", INFERENCE["ModelMetadataRequest"](name=name))
        assert failed.value.code() is grpc.StatusCode.NOT_FOUND
        assert "is not served" in failed.value.details()
