"""Triton's own HTTP clients, sync and asyncio, against the server on loopback: all their calls.

The server runs in a thread with its own loop; the sync client, which stands on gevent, in ours.
"""

import asyncio
import http.client
import json
import threading
import warnings
from collections.abc import Iterator
from typing import Self

import ml_dtypes
import numpy as np
import pytest
from tests.fakes import FakeEngine, a_status
from tests.predictors import a_forecast

from headway.core import Datatype
from headway.errors import RejectedError
from headway.executors import TensorSpec
from headway.frontends import HttpServer, OipRest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # gevent's and the client's own
    import tritonclient.http as triton
    import tritonclient.http.aio as triton_aio
    from tritonclient.http.auth import BasicAuth
    from tritonclient.utils import InferenceServerException

NUMPY = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "FP32": np.float32,
    "FP64": np.float64,
    "BYTES": np.object_,
}


class Serving:
    """A server in a thread of its own."""

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine
        self.url = ""
        self._listens = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = HttpServer(OipRest(self.engine, version="1"), port=0)
        await server.start()
        self.url = f"127.0.0.1:{server.port}"
        self._listens.set()
        await self._stop.wait()
        await server.stop(10.0)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listens.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


@pytest.fixture
def serving() -> Iterator[Serving]:
    with Serving(FakeEngine()) as serving:
        yield serving


@pytest.fixture
def client(serving) -> Iterator[triton.InferenceServerClient]:
    client = triton.InferenceServerClient(serving.url, concurrency=4)
    yield client
    client.close()


def an_array(datatype: str) -> np.ndarray:
    if datatype == "BYTES":
        return np.array([["one", "zwölf"], ["", "three\n"]], dtype=np.object_)
    return np.array([[0, 1], [2, 3]]).astype(NUMPY[datatype])


def an_input(array: np.ndarray, datatype: str = "FP32", *, is_binary: bool = True):
    tensor = triton.InferInput("INPUT", list(array.shape), datatype)
    tensor.set_data_from_numpy(array, binary_data=is_binary)
    return tensor


FP32 = np.arange(32, dtype=np.float32).reshape(2, 16)


@pytest.mark.parametrize("is_binary", [False, True])
def test_headers_of_a_prediction_disturb_nobody(serving, client, is_binary):
    """A client that knows nothing of predictions reads its outputs as ever."""
    serving.engine.foreseen = a_forecast(2_500_000, 4_000_000)
    wanted = [triton.InferRequestedOutput("OUTPUT", binary_data=is_binary)]
    result = client.infer("echo", [an_input(FP32, is_binary=is_binary)], outputs=wanted)
    assert (result.as_numpy("OUTPUT") == FP32).all()
    sent = headers_of_a_reply(serving.url)
    assert (sent["headway-expected-ms"], sent["headway-bound-ms"]) == ("2.500", "4.000")


def headers_of_a_reply(url: str) -> dict[str, str]:
    """The headers of a reply, which Triton's client keeps to itself."""
    tensor = {"name": "INPUT", "shape": [1], "datatype": "FP32", "data": [1]}
    connection = http.client.HTTPConnection(url, timeout=10)
    connection.request("POST", "/v2/models/echo/infer", json.dumps({"inputs": [tensor]}))
    response = connection.getresponse()
    response.read()
    connection.close()
    return dict(response.getheaders())


def test_health_and_metadata(client):
    """The server and its model say who they are and that they are ready."""
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("echo")
    assert client.is_model_ready("echo", "1")
    assert not client.is_model_ready("nobody")
    assert client.get_server_metadata()["name"] == "headway"
    assert client.get_model_metadata("echo")["inputs"][0]["datatype"] == "FP32"
    assert client.get_model_config("echo", "1")["max_batch_size"] == 8


def test_not_ready_is_not_ready(serving, client):
    """A server that drains is live and not ready."""
    serving.engine.is_ready = False
    assert client.is_server_live()
    assert not client.is_server_ready()


def test_the_repository(serving, client):
    """Models are listed, loaded with and without a configuration, and unloaded."""
    assert [line["name"] for line in client.get_model_repository_index()] == ["echo"]
    client.load_model("new")
    client.load_model("new", config=json.dumps({"slots": 2}))
    assert serving.engine.loads == [("new", {}), ("new", {"slots": 2})]
    client.unload_model("new", unload_dependents=True)
    with pytest.raises(InferenceServerException, match="not served"):
        client.unload_model("new")


def test_statistics(client):
    """Statistics are there for one model and for all."""
    assert client.get_inference_statistics("echo", "1")["model_stats"][0]["inference_count"] == 6
    assert len(client.get_inference_statistics()["model_stats"]) == 1


def test_settings(client):
    """Trace and log settings can be read and confirmed; a change is refused in clear words."""
    settings = client.get_trace_settings()
    assert client.update_trace_settings(settings={"trace_level": ["OFF"]}) == settings
    assert client.get_trace_settings("echo") == settings
    assert client.update_trace_settings("echo", {"trace_rate": None}) == settings
    log_settings = client.get_log_settings()
    assert client.update_log_settings(log_settings) == log_settings
    with pytest.raises(InferenceServerException, match="cannot be changed"):
        client.update_log_settings({"log_verbose_level": 2})


def test_shared_memory(client):
    """There are no regions; to register one is refused in clear words."""
    assert client.get_system_shared_memory_status() == []
    assert client.get_cuda_shared_memory_status() == []
    client.unregister_system_shared_memory()
    client.unregister_cuda_shared_memory()
    with pytest.raises(InferenceServerException, match="may not be used here"):
        client.register_system_shared_memory("r", "/r", 16)
    with pytest.raises(InferenceServerException, match="cannot be registered"):
        client.register_cuda_shared_memory("r", b"handle", 0, 16)
    with pytest.raises(InferenceServerException, match="no shared memory region"):
        client.get_system_shared_memory_status("r")


@pytest.mark.parametrize("datatype", sorted(NUMPY))
def test_every_datatype_in_binary(client, datatype):
    """Each datatype goes in and comes out as bytes."""
    array = an_array(datatype)
    result = client.infer("echo", [an_input(array, datatype)])
    returned = result.as_numpy("OUTPUT")
    if datatype == "BYTES":
        returned = np.vectorize(bytes.decode, otypes=[object])(returned)
    assert returned.tolist() == array.tolist()
    assert result.get_output("OUTPUT")["datatype"] == datatype


@pytest.mark.parametrize("datatype", sorted(set(NUMPY) - {"FP16", "BF16"}))
def test_every_datatype_in_json(client, datatype):
    """Each datatype that the client can write as JSON goes in and comes out so."""
    array = an_array(datatype)
    wanted = triton.InferRequestedOutput("OUTPUT", binary_data=False)
    result = client.infer("echo", [an_input(array, datatype, is_binary=False)], outputs=[wanted])
    assert "data" in result.get_output("OUTPUT")
    assert result.as_numpy("OUTPUT").tolist() == array.tolist()


def test_forms_mix(client):
    """JSON in and binary out, and the other way about."""
    binary = triton.InferRequestedOutput("OUTPUT", binary_data=True)
    plain = triton.InferRequestedOutput("OUTPUT", binary_data=False)
    for is_binary, wanted in ((False, binary), (True, plain)):
        result = client.infer("echo", [an_input(FP32, is_binary=is_binary)], outputs=[wanted])
        assert np.array_equal(result.as_numpy("OUTPUT"), FP32)


@pytest.mark.parametrize("request_algorithm", [None, "gzip", "deflate"])
@pytest.mark.parametrize("response_algorithm", [None, "gzip", "deflate"])
def test_compression(client, request_algorithm, response_algorithm):
    """Requests and replies may be compressed, each in its own way."""
    result = client.infer(
        "echo",
        [an_input(FP32)],
        request_compression_algorithm=request_algorithm,
        response_compression_algorithm=response_algorithm,
    )
    assert np.array_equal(result.as_numpy("OUTPUT"), FP32)


def test_scheduling_parameters(serving, client):
    """Priority, timeout, id and parameters arrive, and the reply says what it ran under."""
    result = client.infer(
        "echo",
        [an_input(FP32)],
        model_version="1",
        request_id="abc",
        priority=2,
        timeout=250_000,
        parameters={"mode": "fast"},
    )
    (call,) = serving.engine.calls
    assert (call.priority, call.budget_ns, call.parameters, call.version) == (
        2,
        250_000_000,
        {"mode": "fast"},
        "1",
    )
    response = result.get_response()
    assert response["id"] == "abc"
    assert (response["parameters"]["limit"], response["parameters"]["budget_ms"]) == (
        "timeout",
        250,
    )


def test_headers_of_ours(serving, client):
    """Any client that can send headers can say who asks, how urgently and until when."""
    headers = {"headway-tenant": "acme", "headway-budget-ms": "20", "headway-priority": "1"}
    client.infer("echo", [an_input(FP32)], headers=headers)
    (call,) = serving.engine.calls
    assert (call.tenant, call.budget_ns, call.priority) == ("acme", 20_000_000, 1)


def test_async_infer(client):
    """Several requests at once over several connections."""
    pending = [client.async_infer("echo", [an_input(FP32 + at)]) for at in range(8)]
    for at, request in enumerate(pending):
        assert np.array_equal(request.get_result().as_numpy("OUTPUT"), FP32 + at)


def test_bodies_built_by_the_client(serving, client):
    """The client's own body builder and parser agree with ours."""
    body, header_length = client.generate_request_body([an_input(FP32)])
    assert header_length is not None
    response = client._post(
        "v2/models/echo/infer",
        body,
        {"Inference-Header-Content-Length": header_length},
        None,
    )
    length = int(response.get("Inference-Header-Content-Length"))
    result = client.parse_response_body(bytes(response.read()), header_length=length)
    assert np.array_equal(result.as_numpy("OUTPUT"), FP32)


def test_a_plugin_puts_headers_into_every_request(serving, client):
    """As the client's own for basic authentication does; to us they are no key."""
    client.register_plugin(BasicAuth("somebody", "secret"))
    assert client.plugin() is not None
    client.infer("echo", [an_input(FP32)])
    assert serving.engine.calls[0].credential == ""
    client.unregister_plugin()


def test_errors_reach_the_caller(serving, client):
    """The client raises with our text and status."""
    with pytest.raises(InferenceServerException, match="`nobody` is not served") as caught:
        client.infer("nobody", [an_input(FP32)])
    assert caught.value.status() == "404"
    serving.engine.outcome = RejectedError("full", reason="model_queue_full", retry_after_ns=1)
    with pytest.raises(InferenceServerException, match="full") as caught:
        client.infer("echo", [an_input(FP32)])
    assert caught.value.status() == "429"


def test_the_asyncio_client(serving):
    """The asyncio client has the same calls and gets the same answers."""

    async def run():
        async with triton_aio.InferenceServerClient(serving.url) as client:
            assert await client.is_server_live()
            assert await client.is_server_ready()
            assert await client.is_model_ready("echo")
            assert (await client.get_server_metadata())["name"] == "headway"
            assert (await client.get_model_metadata("echo"))["platform"] == "onnxruntime_onnx"
            assert (await client.get_model_config("echo"))["max_batch_size"] == 8
            assert len(await client.get_model_repository_index()) == 1
            assert len((await client.get_inference_statistics())["model_stats"]) == 1
            assert (await client.get_trace_settings())["trace_level"] == ["OFF"]
            assert (await client.get_log_settings())["log_info"] is True
            assert await client.get_system_shared_memory_status() == []
            for algorithm in (None, "gzip", "deflate"):
                result = await client.infer(
                    "echo",
                    [an_input(FP32)],
                    request_compression_algorithm=algorithm,
                    response_compression_algorithm=algorithm,
                )
                assert np.array_equal(result.as_numpy("OUTPUT"), FP32)
            await the_rest(client)

    async def the_rest(client):
        settings = await client.get_trace_settings("echo")
        assert await client.update_trace_settings("echo", {"trace_rate": None}) == settings
        log_settings = await client.get_log_settings()
        assert await client.update_log_settings(log_settings) == log_settings
        await client.load_model("new", config=json.dumps({"slots": 2}))
        await client.unload_model("new")
        assert serving.engine.loads == [("new", {"slots": 2})]
        assert await client.get_cuda_shared_memory_status() == []
        await client.unregister_system_shared_memory()
        await client.unregister_cuda_shared_memory()
        with pytest.raises(InferenceServerException, match="may not be used here"):
            await client.register_system_shared_memory("r", "/r", 16)
        with pytest.raises(InferenceServerException, match="cannot be registered"):
            await client.register_cuda_shared_memory("r", b"handle", 0, 16)
        body, header_length = client.generate_request_body([an_input(FP32)])
        assert len(body) > header_length
        client.register_plugin(BasicAuth("somebody", "secret"))
        assert await client.is_server_live()
        client.unregister_plugin()

    asyncio.run(run())


def test_a_model_of_strings_takes_strings(serving, client):
    """A model's configuration calls BYTES a string, as perf_analyzer expects."""
    spec = TensorSpec(name="INPUT", datatype=Datatype.BYTES, shape=(-1, 1))
    serving.engine.models["words"] = a_status("words", inputs=[spec])
    assert client.get_model_config("words")["input"][0]["data_type"] == "TYPE_STRING"
    array = np.array([["hello"]], dtype=np.object_)
    assert client.infer("words", [an_input(array, "BYTES")]).as_numpy("OUTPUT")[0, 0] == b"hello"
