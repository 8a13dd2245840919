"""Triton's own gRPC client against a server, in a process of its own.

A program, `triton_grpc_calls.py ADDRESS`, started by `test_server_grpc.py`. Writes what it saw as
JSON. The server has the models `tiny` (ONNX, FP32), `words` (Python, BYTES) and `stamped` (Python,
whose version may be overridden). headway is imported beside the client: that must be possible.
"""

import asyncio
import json
import queue
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.grpc.auth import BasicAuth
from tritonclient.utils import InferenceServerException, shared_memory

from headway.frontends.oip_messages import INFERENCE

X = np.arange(8, dtype=np.float32).reshape(2, 4)
WORDS = np.array([["one", "zwölf"], ["", "three\n"]], dtype=np.object_)
X_BYTES = X.nbytes


def main(address: str) -> None:
    """Call everything; write what came to stdout."""
    with triton.InferenceServerClient(address) as client:
        seen = {
            "both are imported": INFERENCE["ServerLiveRequest"].DESCRIPTOR.full_name,
            "health": [client.is_server_live(), client.is_server_ready()],
            "models": {m: client.is_model_ready(m) for m in ("tiny", "words", "stamped")},
            "server": client.get_server_metadata(as_json=True),
            "metadata": client.get_model_metadata("tiny", as_json=True),
            "config": client.get_model_config("tiny", as_json=True),
            "infer": infer(client),
            "parameters": parameters(client),
            "errors": errors(client),
            "async": concurrently(client),
            "stream": streamed(client),
            "memory": in_shared_memory(client),
            "cuda": in_no_cuda_memory(client),
            "plugin": with_plugin(client),
            "settings": settings(client),
            "repository": repository(client),
            "statistics": client.get_inference_statistics("tiny", as_json=True),
        }
    seen["aio"] = asyncio.run(aio(address))
    sys.stdout.write(json.dumps(seen))


def infer(client: triton.InferenceServerClient) -> dict[str, bool]:
    """Raw tensors of both models: whether the answers were right."""
    tensor = triton.InferInput("x", list(WORDS.shape), "BYTES")
    tensor.set_data_from_numpy(WORDS)
    words = client.infer("words", [tensor], outputs=[triton.InferRequestedOutput("y")])
    texts = [each.decode() for each in words.as_numpy("y").ravel()]
    plain = client.infer("tiny", [fp32(X)], request_id="mine")
    named = client.infer("tiny", [fp32(X)], model_version="1", priority=1, timeout=30_000_000)
    compressed = client.infer("tiny", [fp32(X)], compression_algorithm="gzip")
    return {
        "bytes": texts == list(WORDS.ravel()),
        "plain": is_right(plain, X) and plain.get_response().id == "mine",
        "named": is_right(named, X),
        "compressed": is_right(compressed, X),
        "large": is_right(client.infer("tiny", [fp32(np.tile(X, (4, 1)))]), np.tile(X, (4, 1))),
    }


def parameters(client: triton.InferenceServerClient) -> dict[str, Any]:
    """What a reply says of the limit it ran under."""
    calls = {
        "tier": {},
        "timeout": {"timeout": 9_000_000},
        "grpc-timeout": {"client_timeout": 8.0},
        "headway-budget-ms": {"headers": {"headway-budget-ms": "7000"}},
    }
    seen = {}
    for name, more in calls.items():
        response = client.infer("tiny", [fp32(X)], **more).get_response()
        seen[name] = response.parameters["limit"].string_param
    return seen


def errors(client: triton.InferenceServerClient) -> dict[str, list[str]]:
    """What the client makes of refusals."""
    calls = {
        "no such model": lambda: client.infer("none", [fp32(X)]),
        "no such version": lambda: client.infer("tiny", [fp32(X)], model_version="7"),
        "wrong shape": lambda: client.infer("tiny", [fp32(X[:, :3].copy())]),
        "no time": lambda: client.infer("tiny", [fp32(X)], timeout=1),
        "no such load": lambda: client.load_model("none"),
        "not ready": lambda: client.is_model_ready("none"),
        "no such region": lambda: client.infer("tiny", [placed("nowhere")]),
    }
    seen = {}
    for name, call in calls.items():
        try:
            call()
            seen[name] = ["no error", ""]
        except InferenceServerException as error:
            seen[name] = [str(error.status()), error.message()]
    return seen


def concurrently(client: triton.InferenceServerClient) -> bool:
    """Forty requests under way at once, each with its own answer."""
    done: queue.Queue[tuple[int, Any, Any]] = queue.Queue()
    for number in range(40):
        client.async_infer(
            "tiny",
            [fp32(X + number)],
            callback=lambda result, error, number=number: done.put((number, result, error)),
        )
    ends = [done.get(timeout=20) for _ in range(40)]
    return all(error is None and is_right(result, X + number) for number, result, error in ends)


def streamed(client: triton.InferenceServerClient) -> dict[str, Any]:
    """Twenty requests in one stream, and one that is refused; a second stream after the first."""
    done: queue.Queue[tuple[Any, Any]] = queue.Queue()
    seen: dict[str, Any] = {}
    for attempt in ("first", "again"):
        client.start_stream(callback=lambda result, error: done.put((result, error)))
        for number in range(20):
            client.async_stream_infer("tiny", [fp32(X + number)], request_id=str(number))
        client.async_stream_infer("none", [fp32(X)], request_id="lost")
        ends = [done.get(timeout=20) for _ in range(21)]
        client.stop_stream()
        results = [result for result, error in ends if error is None]
        ids = {int(result.get_response().id) for result in results}
        right = [is_right(r, X + int(r.get_response().id)) for r in results]
        seen[attempt] = [ids == set(range(20)), all(right)]
        seen["refused"] = [str(error.message()) for _, error in ends if error is not None]
        seen["final"] = results[0].get_response().parameters["triton_final_response"].bool_param
    return seen


def in_shared_memory(client: triton.InferenceServerClient) -> dict[str, Any]:
    """Input and output in memory that both see; then the region is unregistered."""
    with region("headway-test-in") as given, region("headway-test-out") as taken:
        shared_memory.set_shared_memory_region(given, [X])
        client.register_system_shared_memory("in", "/headway-test-in", X_BYTES)
        client.register_system_shared_memory("out", "/headway-test-out", X_BYTES)
        known = sorted(client.get_system_shared_memory_status(as_json=True)["regions"])
        output = triton.InferRequestedOutput("y")
        output.set_shared_memory("out", X_BYTES)
        result = client.infer("tiny", [placed("in")], outputs=[output])
        found = shared_memory.get_contents_as_numpy(taken, X.dtype, X.shape)
        seen = {
            "known": known,
            "right": bool(np.array_equal(found, X)),
            "not in the reply": list(result.get_response().raw_output_contents) == [b""],
        }
        client.unregister_system_shared_memory("in")
        seen["left"] = sorted(client.get_system_shared_memory_status(as_json=True)["regions"])
        client.unregister_system_shared_memory()
        seen["none"] = client.get_system_shared_memory_status(as_json=True).get("regions", {})
    return seen


@contextmanager
def region(key: str) -> Iterator[Any]:
    """Shared memory of the size of X."""
    handle = shared_memory.create_shared_memory_region(key, f"/{key}", X_BYTES)
    try:
        yield handle
    finally:
        shared_memory.destroy_shared_memory_region(handle)


def placed(name: str) -> triton.InferInput:
    """An input `x` that lies in a region."""
    tensor = triton.InferInput("x", list(X.shape), "FP32")
    tensor.set_shared_memory(name, X_BYTES)
    return tensor


def settings(client: triton.InferenceServerClient) -> list[Any]:
    """Trace and log settings, asked for and sent as they are."""
    trace = client.get_trace_settings(as_json=True)["settings"]
    log = client.get_log_settings(as_json=True)["settings"]
    client.update_trace_settings(settings={"trace_level": ["OFF"]})
    client.update_log_settings({"log_info": True})
    try:
        client.update_log_settings({"log_info": False})
    except InferenceServerException as error:
        return [trace["trace_level"], "log_info" in log, str(error.status())]
    return []


def repository(client: triton.InferenceServerClient) -> list[object]:
    """A model is reloaded with other settings, unloaded and loaded again; what each step shows."""
    steps: list[object] = [index(client)]
    client.load_model("stamped", config=json.dumps({"version": "2", "options": {"stamp": 2}}))
    steps += [stamp(client), client.get_model_metadata("stamped", as_json=True)["versions"]]
    client.unload_model("stamped")
    steps += [client.is_model_ready("stamped"), index(client), client.is_server_ready()]
    client.load_model("stamped")
    steps += [stamp(client), index(client)]
    return steps


def index(client: triton.InferenceServerClient) -> dict[str, str]:
    """Model -> state."""
    lines = client.get_model_repository_index(as_json=True)["models"]
    return {line["name"]: line["state"] for line in lines}


def stamp(client: triton.InferenceServerClient) -> list[float]:
    """What the stamped model puts behind each row."""
    return client.infer("stamped", [fp32(X)]).as_numpy("y")[:, -1].tolist()


async def aio(address: str) -> dict[str, Any]:
    """The asynchronous client: a call, many at once, a stream, and a call that is taken back."""
    async with triton_aio.InferenceServerClient(address) as client:
        many = await asyncio.gather(
            *(client.infer("tiny", [fp32(X + number)]) for number in range(20))
        )

        async def requests() -> Any:
            for number in range(5):
                yield {
                    "model_name": "tiny",
                    "inputs": [fp32(X + number)],
                    "request_id": str(number),
                }

        streamed = [
            (result.get_response().id, is_right(result, X + int(result.get_response().id)))
            async for result, error in client.stream_infer(requests())
            if error is None
        ]
        return {
            "rest of its calls": await the_rest(client),
            "live": await client.is_server_live(),
            "many": all(is_right(result, X + number) for number, result in enumerate(many)),
            "streamed": sorted(streamed),
        }


async def the_rest(client: triton_aio.InferenceServerClient) -> dict[str, Any]:
    """What the asynchronous client has beside inference."""
    seen: dict[str, Any] = {
        "ready": [await client.is_server_ready(), await client.is_model_ready("tiny")],
        "server": (await client.get_server_metadata(as_json=True))["name"],
        "metadata": (await client.get_model_metadata("tiny", as_json=True))["versions"],
        "config": (await client.get_model_config("tiny", as_json=True))["config"]["name"],
        "index": len((await client.get_model_repository_index(as_json=True))["models"]),
        "statistics": len(
            (await client.get_inference_statistics("tiny", as_json=True))["model_stats"]
        ),
    }
    trace, log = await client.get_trace_settings(), await client.get_log_settings()
    await client.unload_model("stamped")
    await client.load_model("stamped")
    with region("headway-test-aio") as given:
        shared_memory.set_shared_memory_region(given, [X])
        await client.register_system_shared_memory("aio", "/headway-test-aio", X_BYTES)
        regions = await client.get_system_shared_memory_status(as_json=True)
        result = await client.infer("tiny", [placed("aio")])
        await client.unregister_system_shared_memory("aio")
    return seen | {
        "trace": await client.update_trace_settings(settings={"trace_level": ["OFF"]}) == trace,
        "log": await client.update_log_settings({"log_info": True}) == log,
        "regions": list(regions["regions"]),
        "memory": is_right(result, X),
        "cuda": await refused(client.register_cuda_shared_memory("c", b"aGFuZGxl", 0, 4)),
        "cuda regions": str(await client.get_cuda_shared_memory_status()),
        "cuda gone": str(await client.unregister_cuda_shared_memory()),
    }


async def refused(call: Any) -> str:
    """The status of what must fail."""
    try:
        await call
    except InferenceServerException as error:
        return str(error.status())
    return "no error"


def in_no_cuda_memory(client: triton.InferenceServerClient) -> list[str]:
    """There is none here; what lists and forgets it works all the same."""
    known = str(client.get_cuda_shared_memory_status())
    client.unregister_cuda_shared_memory()
    try:
        client.register_cuda_shared_memory("c", b"aGFuZGxl", 0, 4)
    except InferenceServerException as error:
        return [known, str(error.status())]
    return [known, "no error"]


def with_plugin(client: triton.InferenceServerClient) -> list[bool]:
    """A plugin that puts headers into every request."""
    client.register_plugin(BasicAuth("somebody", "secret"))
    seen = [client.plugin() is not None, is_right(client.infer("tiny", [fp32(X)]), X)]
    client.unregister_plugin()
    return seen


def is_right(result: triton.InferResult, array: np.ndarray) -> bool:
    """The output is the input."""
    found = result.as_numpy("y")
    return bool(np.array_equal(found, array)) and found.dtype == array.dtype


def fp32(array: np.ndarray) -> triton.InferInput:
    """An input `x`."""
    tensor = triton.InferInput("x", list(array.shape), "FP32")
    tensor.set_data_from_numpy(array.astype(np.float32))
    return tensor


if __name__ == "__main__":
    main(sys.argv[1])
