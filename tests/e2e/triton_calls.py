"""Triton's own HTTP client against a server, in a process of its own: `triton_calls.py ADDRESS`.

A program, started by `test_server_tritonclient.py`: the client stands on gevent, which is best kept
out of a process with threads. Writes what it saw as JSON. The server has the models `tiny` (ONNX,
FP32), `words` (Python, BYTES), `parts` (the same, which runs more than two rows in segments) and
`stamped` (Python, whose version may be overridden).
"""

import json
import sys
import warnings

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # gevent's and the client's own
    import tritonclient.http as triton
    from tritonclient.utils import InferenceServerException

X = np.arange(8, dtype=np.float32).reshape(2, 4)
WORDS = np.array([["one", "zwölf"], ["", "three\n"]], dtype=np.object_)
MANY = np.array([[f"row {row}", "é" * row] for row in range(5)], dtype=np.object_)

CASES = (("tiny", X, "FP32"), ("words", WORDS, "BYTES"), ("parts", MANY, "BYTES"))


def main(address: str) -> None:
    """Call everything; write what came to stdout."""
    client = triton.InferenceServerClient(address, concurrency=4)
    try:
        seen = {
            "health": [client.is_server_live(), client.is_server_ready()],
            "models": {m: client.is_model_ready(m) for m in ("tiny", "words", "stamped", "none")},
            "server": client.get_server_metadata(),
            "metadata": client.get_model_metadata("tiny"),
            "config": client.get_model_config("tiny"),
            "infer": infer(client),
            "errors": errors(client),
            "async": concurrently(client),
            "repository": repository(client),
            "statistics": client.get_inference_statistics("tiny"),
        }
    finally:
        client.close()
    sys.stdout.write(json.dumps(seen))


def infer(client: triton.InferenceServerClient) -> dict[str, bool]:
    """Each model with JSON and binary tensors both ways: whether the answer was right."""
    right = {}
    for model, array, kind in CASES:
        for is_binary_in in (False, True):
            for is_binary_out in (False, True, None):
                tensor = triton.InferInput("x", list(array.shape), kind)
                tensor.set_data_from_numpy(array, binary_data=is_binary_in)
                wanted = None
                if is_binary_out is not None:
                    wanted = [triton.InferRequestedOutput("y", binary_data=is_binary_out)]
                result = client.infer(model, [tensor], outputs=wanted, request_id="mine")
                name = f"{model} {is_binary_in} {is_binary_out}"
                right[name] = is_right(result, array)
    result = client.infer("tiny", [fp32(X)], priority=1, timeout=30_000_000, model_version="1")
    right["priority and timeout"] = is_right(result, X)
    for coding in ("gzip", "deflate"):
        result = client.infer(
            "tiny",
            [fp32(X)],
            request_compression_algorithm=coding,
            response_compression_algorithm=coding,
        )
        right[coding] = is_right(result, X)
    return right


def is_right(result: triton.InferResult, array: np.ndarray) -> bool:
    """The output is the input; BYTES come back as bytes, or as text where they came as JSON."""
    found = result.as_numpy("y")
    if array.dtype != np.object_:
        return bool(np.array_equal(found, array)) and found.dtype == array.dtype
    texts = [v.decode() if isinstance(v, bytes) else v for v in found.ravel()]
    return texts == list(array.ravel()) and found.shape == array.shape


def errors(client: triton.InferenceServerClient) -> dict[str, list[str]]:
    """What the client makes of refusals."""
    calls = {
        "no such model": lambda: client.infer("none", [fp32(X)]),
        "no such version": lambda: client.infer("tiny", [fp32(X)], model_version="7"),
        "wrong shape": lambda: client.infer("tiny", [fp32(X[:, :3].copy())]),
        "no time": lambda: client.infer("tiny", [fp32(X)], timeout=1),
        "no such load": lambda: client.load_model("none"),
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
    arrays = [X + n for n in range(40)]
    calls = [client.async_infer("tiny", [fp32(array)]) for array in arrays]
    results = [call.get_result() for call in calls]
    return all(is_right(result, array) for result, array in zip(results, arrays, strict=True))


def repository(client: triton.InferenceServerClient) -> list[object]:
    """A model is reloaded with other settings, unloaded and loaded again; what each step shows."""
    steps: list[object] = [index(client)]
    settings = {"version": "2", "options": {"stamp": 2}}
    client.load_model("stamped", config=json.dumps(settings))
    steps += [stamp(client), client.get_model_metadata("stamped")["versions"]]
    client.unload_model("stamped")
    steps += [client.is_model_ready("stamped"), index(client), client.is_server_ready()]
    client.load_model("stamped")
    steps += [stamp(client), index(client)]
    return steps


def index(client: triton.InferenceServerClient) -> dict[str, str]:
    """Model -> state."""
    return {line["name"]: line["state"] for line in client.get_model_repository_index()}


def stamp(client: triton.InferenceServerClient) -> list[float]:
    """What the stamped model puts behind each row."""
    return client.infer("stamped", [fp32(X)]).as_numpy("y")[:, -1].tolist()


def fp32(array: np.ndarray) -> triton.InferInput:
    """An input `x`."""
    tensor = triton.InferInput("x", list(array.shape), "FP32")
    tensor.set_data_from_numpy(array)
    return tensor


if __name__ == "__main__":
    main(sys.argv[1])
