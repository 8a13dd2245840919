"""The REST app in this process, against a scripted engine: statuses, bodies, headers."""

import asyncio
import gzip
import json
import logging
import struct

import pytest
from tests.asgi_client import Exchange, call, scope_of
from tests.conformance import oip_schema as schema
from tests.fakes import FakeEngine, a_reply, a_status

from headway.core import Datatype, Tensor
from headway.errors import (
    DeadlineExceededError,
    ExecutorError,
    LoadError,
    RejectedError,
    UnavailableError,
    WorkerLostError,
)
from headway.executors import TensorSpec
from headway.frontends import DisconnectWatch, OipRest
from headway.runtime import ModelState

INFER = "/v2/models/echo/infer"
ONE = {"name": "INPUT", "shape": [1, 2], "datatype": "FP32", "data": [1.5, 2]}
BODY = json.dumps({"id": "7", "inputs": [ONE]}).encode()


@pytest.fixture
def engine():
    return FakeEngine()


def ask(engine, method, path, body=b"", headers=None, **options):
    """One request to an app around this engine."""
    app = OipRest(engine, version="1.2.3", **options)
    return asyncio.run(call(app, method, path, body, headers))


def refused(response, status):
    """The error body of a response that must have this status."""
    assert status == response.status
    assert response.headers["content-type"] == "application/json"
    return schema.check(schema.Error, response.body)


def test_infer_answers_in_json(engine):
    """A JSON request is answered in JSON, with its id and the limit it ran under."""
    response = ask(engine, "POST", INFER, BODY)
    answer = schema.check(schema.InferResponse, response.body)
    assert (response.status, response.headers["content-type"]) == (200, "application/json")
    assert (answer.id, answer.model_name, answer.model_version) == ("7", "echo", "1")
    assert (
        answer.outputs[0].name,
        answer.outputs[0].shape,
        answer.outputs[0].data,
    ) == ("OUTPUT", [1, 2], [1.5, 2.0])
    assert {"queue_us", "service_us", "batch_rows", "budget_ms", "limit", "tier"} == set(
        answer.parameters
    )


def test_infer_needs_no_content_type_and_minds_no_other(engine):
    """Clients send no Content-Type, or one of their own."""
    assert ask(engine, "POST", INFER, BODY).status == 200
    assert ask(engine, "POST", INFER, BODY, {"Content-Type": "text/plain"}).status == 200


def test_infer_answers_in_binary(engine):
    """A binary reply says how much of it is JSON."""
    request = {"inputs": [ONE], "parameters": {"binary_data_output": True}}
    response = ask(engine, "POST", INFER, json.dumps(request).encode())
    at = int(response.headers["inference-header-content-length"])
    answer = schema.check(schema.InferResponse, response.body[:at])
    assert response.headers["content-type"] == "application/octet-stream"
    assert answer.outputs[0].parameters.binary_data_size == 8
    assert struct.pack("<2f", 1.5, 2) == response.body[at:]


def test_infer_takes_a_raw_body(engine):
    """A body without JSON is the model's only input."""
    data = struct.pack("<16f", *range(16))
    response = ask(engine, "POST", INFER, data, {"Inference-Header-Content-Length": "0"})
    at = int(response.headers["inference-header-content-length"])
    assert data == response.body[at:]
    assert engine.calls[0].inputs[0].shape == (1, 16)


def test_infer_takes_a_version(engine):
    """A version in the path is asked for; one that is not there is not found."""
    assert ask(engine, "POST", "/v2/models/echo/versions/1/infer", BODY).status == 200
    assert engine.calls[0].version == "1"
    refused(ask(engine, "POST", "/v2/models/echo/versions/9/infer", BODY), 404)


def test_infer_passes_on_who_asks_and_how(engine):
    """Headers and parameters reach the engine, and the budget's name comes back."""
    headers = {
        "Headway-Priority": "3",
        "Headway-Budget-Ms": "50",
        "Headway-Tenant": "acme",
        "Headway-Tier": "gold",
    }
    response = ask(engine, "POST", INFER, BODY, headers)
    (asked,) = engine.calls
    assert (
        asked.priority,
        asked.budget_ns,
        asked.tenant,
        asked.tier,
        asked.arrived_at_ns,
    ) == (3, 50_000_000, "acme", "gold", 42)
    assert (
        response.json["parameters"]["limit"],
        response.json["parameters"]["budget_ms"],
    ) == ("headway-budget-ms", 50)


def test_infer_takes_a_body_in_pieces(engine):
    """A body may come in any number of pieces."""
    assert ask(engine, "POST", INFER, [BODY[:5], b"", BODY[5:]]).status == 200


def test_int64_survives_in_json(engine):
    """Integers beyond 2**53 come back exactly."""
    values = [2**53 + 1, -(2**63)]
    one = {"name": "INPUT", "shape": [2], "datatype": "INT64", "data": values}
    response = ask(engine, "POST", INFER, json.dumps({"inputs": [one]}).encode())
    assert values == response.json["outputs"][0]["data"]


def test_a_nan_is_an_error_in_json(engine):
    """An output that JSON cannot carry is no invalid JSON but an error with a remedy."""
    engine.outcome = a_reply(Tensor("y", Datatype.FP32, (1,), struct.pack("<f", float("nan"))))
    assert "binary_data" in refused(ask(engine, "POST", INFER, BODY), 400).error


def test_a_body_that_is_no_request_is_a_bad_request(engine):
    """Whatever is wrong with a body is a 400 with an error string."""
    assert refused(ask(engine, "POST", INFER, b"\xff{"), 400).code == "invalid_request"
    assert not engine.calls


def test_a_large_body_is_refused(engine):
    """A body over the limit is a 413 and the end of the connection, declared or not."""
    for headers in ({}, {"Content-Length": str(len(BODY))}):
        response = ask(engine, "POST", INFER, BODY, headers, body_bytes_max=10)
        assert refused(response, 413).code == "body_too_large"
        assert response.headers["connection"] == "close"


def test_many_headers_are_refused(engine):
    """The number of headers is bounded."""
    headers = {f"x-{at}": "y" for at in range(101)}
    refused(ask(engine, "POST", INFER, BODY, headers), 431)
    refused(ask(engine, "GET", "/v2", headers=headers), 431)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (UnavailableError("drains"), 503, "unavailable"),
        (DeadlineExceededError("late", limit="timeout", stage="waiting"), 504, "deadline_exceeded"),
        (RejectedError("full", reason="model_queue_full", retry_after_ns=1), 429, "rejected"),
        (ExecutorError("raised"), 500, "executor_failed"),
        (WorkerLostError("died"), 503, "worker_lost"),
    ],
)
def test_the_engines_errors_have_their_numbers(engine, error, status, code):
    """Each way for a request to end has one status and one code."""
    engine.outcome = error
    assert code == refused(ask(engine, "POST", INFER, BODY), status).code


def test_a_rejection_says_when_to_come_back(engine):
    """A 429 has Retry-After in whole seconds and the exact time beside it."""
    engine.outcome = RejectedError("full", reason="model_queue_full", retry_after_ns=1_500_000_000)
    response = ask(engine, "POST", INFER, BODY)
    assert refused(response, 429).reason == "model_queue_full"
    assert (
        response.headers["retry-after"],
        response.headers["headway-retry-after-ms"],
    ) == ("2", "1500")


def test_a_bug_is_answered_and_logged(engine, caplog):
    """An unexpected error is a 500 without details for the client, and all of them in the log."""
    engine.outcome = KeyError("secret")
    with caplog.at_level(logging.ERROR):
        response = ask(engine, "POST", INFER, BODY)
    assert refused(response, 500).code == "internal"
    assert b"secret" not in response.body
    assert "secret" in caplog.text


def test_a_compressed_request_is_unpacked(engine):
    """A request may be compressed; the length of its JSON is that of the unpacked one."""
    one = {key: ONE[key] for key in ("name", "shape", "datatype")}
    text = json.dumps({"inputs": [one | {"parameters": {"binary_data_size": 8}}]}).encode()
    headers = {
        "Content-Encoding": "gzip",
        "Inference-Header-Content-Length": str(len(text)),
    }
    body = gzip.compress(text + struct.pack("<2f", 1, 2))
    assert ask(engine, "POST", INFER, body, headers).json["outputs"][0]["data"] == [1.0, 2.0]
    refused(ask(engine, "POST", INFER, BODY, {"Content-Encoding": "br"}), 415)
    refused(ask(engine, "POST", INFER, BODY, {"Content-Encoding": "gzip"}), 400)
    refused(ask(engine, "POST", INFER, body, headers, body_bytes_max=len(text)), 413)


def test_a_reply_is_compressed_on_a_plain_wish_only(engine):
    """`gzip` alone is a wish; the list that a library sends by itself is none."""
    response = ask(engine, "POST", INFER, BODY, {"Accept-Encoding": "gzip"})
    assert response.headers["content-encoding"] == "gzip"
    schema.check(schema.InferResponse, gzip.decompress(response.body))
    for habit in ("gzip, deflate, br", "*", "identity"):
        response = ask(engine, "POST", INFER, BODY, {"Accept-Encoding": habit})
        assert "content-encoding" not in response.headers


def test_server_metadata_lists_extensions(engine):
    """Both spellings of the root say who answers."""
    for path in ("/v2", "/v2/"):
        answer = schema.check(schema.ServerMetadata, ask(engine, "GET", path).body)
        assert (answer.name, answer.version) == ("headway", "1.2.3")
        assert "binary_tensor_data" in answer.extensions


@pytest.mark.parametrize(("is_ready", "status"), [(True, 200), (False, 503)])
def test_health_has_bodies_that_clients_parse(engine, is_ready, status):
    """Live is always 200; ready says no with 503. Both bodies have both keys."""
    engine.is_ready = is_ready
    for path, expected in (("live", 200), ("ready", status)):
        response = ask(engine, "GET", f"/v2/health/{path}")
        assert expected == response.status
        assert schema.Health(True, is_ready) == schema.check(schema.Health, response.body)


def test_model_ready_knows_three_answers(engine):
    """Ready, known but not ready, and unknown are 200, 503 and 404."""
    engine.models["cold"] = a_status("cold", is_ready=False)
    state = ModelState(name="broken", version="1", state="UNAVAILABLE", reason="no such file")
    engine.states = [state]
    statuses = {}
    for name in ("echo", "cold", "broken"):
        response = ask(engine, "GET", f"/v2/models/{name}/ready")
        statuses[name] = response.status
        assert name == schema.check(schema.ModelReady, response.body).name
    assert statuses == {"echo": 200, "cold": 503, "broken": 503}
    refused(ask(engine, "GET", "/v2/models/nobody/ready"), 404)
    refused(ask(engine, "GET", "/v2/models/broken/versions/9/ready"), 404)


def test_a_model_that_loads_for_the_first_time_is_not_ready(engine):
    """It has no status to tell yet, and is nevertheless told apart from an unknown one."""
    engine.loading.add("echo")
    response = ask(engine, "GET", "/v2/models/echo/ready")
    assert response.status == 503
    assert schema.check(schema.ModelReady, response.body) == schema.ModelReady("echo", False)


def test_model_metadata_describes_tensors(engine):
    """Metadata has names, datatypes and shapes, the batch axis included."""
    for path in ("/v2/models/echo", "/v2/models/echo/versions/1"):
        answer = schema.check(schema.ModelMetadata, ask(engine, "GET", path).body)
        assert (
            answer.name,
            answer.versions,
            answer.platform,
        ) == ("echo", ["1"], "onnxruntime_onnx")
        assert [schema.TensorMetadata("INPUT", "FP32", [-1, 16])] == answer.inputs
    refused(ask(engine, "GET", "/v2/models/nobody"), 404)


def test_model_config_is_tritons(engine):
    """The configuration has dims without the batch axis, and what batching waits for."""
    spec = TensorSpec(name="INPUT", datatype=Datatype.BYTES, shape=(-1, 3))
    engine.models["echo"] = a_status(inputs=[spec])
    answer = schema.check(schema.ModelConfig, ask(engine, "GET", "/v2/models/echo/config").body)
    assert (answer.max_batch_size, answer.backend) == (8, "onnxruntime")
    assert [schema.ConfigTensor("INPUT", "TYPE_STRING", [3])] == answer.input
    assert answer.dynamic_batching.max_queue_delay_microseconds == 2000


def test_config_of_a_model_that_cannot_batch(engine):
    """Without a batch axis the batch size is 0 and the dims are whole."""
    engine.models["echo"] = a_status(can_batch=False)
    answer = schema.check(schema.ModelConfig, ask(engine, "GET", "/v2/models/echo/config").body)
    assert (answer.max_batch_size, answer.input[0].dims) == (0, [-1, 16])


def test_statistics_of_one_model_and_of_all(engine):
    """Statistics are Triton's, for a model, a version, or every model."""
    engine.models["other"] = a_status("other")
    for path, names in (
        ("/v2/models/echo/stats", ["echo"]),
        ("/v2/models/echo/versions/1/stats", ["echo"]),
        ("/v2/models/stats", ["echo", "other"]),
    ):
        answer = schema.check(schema.Statistics, ask(engine, "GET", path).body)
        assert names == [model.name for model in answer.model_stats]
    assert answer.model_stats[0].batch_stats[0].batch_size == 2


def test_repository_index_may_be_filtered(engine):
    """An empty body lists all; `ready` lists what serves."""
    engine.states = [ModelState(name="b", version="", state="UNAVAILABLE", reason="why")]
    every = schema.check(schema.Index, ask(engine, "POST", "/v2/repository/index").body)
    assert [line.name for line in every] == ["echo", "b"]
    ready = ask(engine, "POST", "/v2/repository/index", b'{"ready": true}')
    assert [line.name for line in schema.check(schema.Index, ready.body)] == ["echo"]
    refused(ask(engine, "POST", "/v2/repository/index", b"[]"), 400)


def test_load_hands_over_its_configuration(engine):
    """`config` is an object written as a string; without it nothing is replaced."""
    path = "/v2/repository/models/new/load"
    body = json.dumps({"parameters": {"config": '{"slots": 3}'}}).encode()
    assert ask(engine, "POST", path, body).status == 200
    assert ask(engine, "POST", path).status == 200
    assert engine.loads == [("new", {"slots": 3}), ("new", {})]


@pytest.mark.parametrize("config", ["{", "[]", 7, ""])
def test_a_configuration_that_is_none_is_refused(engine, config):
    """What is not an object in a string is a bad request."""
    body = json.dumps({"parameters": {"config": config}}).encode()
    response = ask(engine, "POST", "/v2/repository/models/new/load", body)
    assert config == "" or refused(response, 400)


def test_a_load_that_fails_says_so(engine):
    """A model that cannot be loaded is a 500 with the loader's words; files cannot be brought."""
    engine.load_error = LoadError("bad magic number")
    path = "/v2/repository/models/new/load"
    assert refused(ask(engine, "POST", path, b"{}"), 500).code == "load_failed"
    refused(ask(engine, "POST", path, b'{"parameters":{"file:1/model.onnx":"AA=="}}'), 501)


@pytest.mark.parametrize("verb", ["load", "unload"])
def test_management_may_be_switched_off(engine, verb):
    """Where clients may not load models, the engine is not asked."""
    response = ask(engine, "POST", f"/v2/repository/models/echo/{verb}", can_load=False)
    assert "server.admin.can_load" in refused(response, 403).error
    assert (engine.loads, engine.unloads) == ([], [])


def test_an_id_has_a_length(engine):
    """An id that is kept while its request waits cannot be a megabyte."""
    body = json.dumps({"id": "7" * 5000, "inputs": [ONE]}).encode()
    assert "4096" in refused(ask(engine, "POST", INFER, body), 400).error


def test_unload_frees_a_model(engine):
    """Unloading takes Triton's parameter and ignores it; an unknown model is not found."""
    body = b'{"parameters":{"unload_dependents":false}}'
    assert ask(engine, "POST", "/v2/repository/models/echo/unload", body).status == 200
    assert engine.unloads == ["echo"]
    refused(ask(engine, "POST", "/v2/repository/models/echo/unload", body), 404)


@pytest.mark.parametrize(
    ("path", "same", "other"),
    [
        ("/v2/trace/setting", {"trace_level": ["OFF"], "trace_rate": 1000}, {"trace_rate": "1"}),
        ("/v2/models/echo/trace/setting", {"trace_level": "OFF"}, {"trace_level": ["TENSORS"]}),
        ("/v2/logging", {"log_info": True, "log_file": None}, {"log_verbose_level": 1}),
    ],
)
def test_settings_are_told_and_not_changed(engine, path, same, other):
    """Settings can be read and confirmed; a change that would not happen is refused."""
    settings = ask(engine, "GET", path).json
    assert settings == ask(engine, "POST", path, json.dumps(same).encode()).json
    assert refused(ask(engine, "POST", path, json.dumps(other).encode()), 501).code == "unsupported"
    refused(ask(engine, "POST", path, b'{"nonsense": 1}'), 400)


@pytest.mark.parametrize(
    ("kind", "status", "said"),
    [("system", 403, "may not be used here"), ("cuda", 501, "cannot be registered")],
)
def test_shared_memory_is_empty_and_says_why(engine, kind, status, said):
    """No region is registered, none can be, and to give back one that is not there is no error."""
    prefix = f"/v2/{kind}sharedmemory"
    assert ask(engine, "GET", f"{prefix}/status").json == []
    assert ask(engine, "POST", f"{prefix}/unregister").status == 200
    refused(ask(engine, "GET", f"{prefix}/region/r/status"), 400)
    assert ask(engine, "POST", f"{prefix}/region/r/unregister").status == 200
    body = b'{"key": "/r", "byte_size": 16}'
    assert said in refused(ask(engine, "POST", f"{prefix}/region/r/register", body), status).error


def test_metrics_are_prometheus_text(engine):
    """The exposition is passed through with its content type."""
    response = ask(engine, "GET", "/metrics")
    assert b"".join(engine.metrics_text()) == response.body
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")


def test_metrics_are_openmetrics_for_who_prefers_it(engine):
    """The exposition is asked for in that format, and says so."""
    accept = {"accept": "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3"}
    response = ask(engine, "GET", "/metrics", headers=accept)
    assert b"".join(engine.metrics_text(is_openmetrics=True)) == response.body
    assert response.headers["content-type"].startswith(
        "application/openmetrics-text; version=1.0.0"
    )


@pytest.mark.parametrize("path", ["/", "/v1", "/v2/nothing", "/v2/models", "/v2/models/a/b/c/d"])
def test_unknown_paths_are_not_found(engine, path):
    """A path that means nothing is a 404 with an error string."""
    assert refused(ask(engine, "GET", path), 404).code == "path_not_found"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", INFER, "POST"),
        ("DELETE", "/v2/models/echo", "GET, HEAD"),
        ("GET", "/v2/repository/index", "POST"),
        ("PUT", "/v2/logging", "GET, HEAD, POST"),
    ],
)
def test_a_wrong_method_is_told_the_right_one(engine, method, path, allowed):
    """A 405 names the methods that the path has."""
    response = ask(engine, method, path)
    refused(response, 405)
    assert allowed == response.headers["allow"]


def test_head_is_get_without_the_body(engine):
    """HEAD has the headers of GET."""
    head, get = (ask(engine, method, "/v2/health/live") for method in ("HEAD", "GET"))
    assert (200, get.headers, b"") == (head.status, head.headers, head.body)


async def _hang_up(engine, app, exchange):
    """Send a request, and leave when the engine has it."""
    async with asyncio.TaskGroup() as group:
        group.create_task(app(scope_of("POST", INFER), exchange.receive, exchange.send))
        await engine.started.wait()
        exchange.hung_up.set()


def test_a_client_that_leaves_cancels_its_request():
    """A hang-up cancels the engine's work, and nothing is sent."""

    async def run():
        engine = FakeEngine(gate=asyncio.Event())
        app = OipRest(engine, version="1", watch=DisconnectWatch(tick_s=0.001))
        exchange = Exchange([BODY])
        await _hang_up(engine, app, exchange)
        assert engine.cancelled.is_set()
        assert exchange.response.status == 0

    asyncio.run(run())


def test_a_client_that_leaves_disturbs_no_other():
    """Of two requests under way, only the one whose client left is cancelled."""

    async def run():
        engine = FakeEngine(gate=asyncio.Event())
        app = OipRest(engine, version="1", watch=DisconnectWatch(tick_s=0.001))
        stays = Exchange([BODY])
        async with asyncio.TaskGroup() as group:
            group.create_task(app(scope_of("POST", INFER), stays.receive, stays.send))
            await engine.started.wait()
            engine.started.clear()
            await _hang_up(engine, app, Exchange([BODY]))
            assert engine.cancelled.is_set()
            engine.gate.set()
        assert stays.response.status == 200

    asyncio.run(run())
