"""Valid requests to make wrong ones of: every form of every decoder, small; and two that are wide.

Knows the protocol's words. A test sees to it that each of these is accepted as it stands.
"""

from __future__ import annotations

import gzip
import json
import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headway.core import Datatype, concat_bytes
from headway.frontends.oip_messages import INFERENCE

__all__ = [
    "ANSWERS",
    "HTTP",
    "MESSAGES",
    "METHODS",
    "REGION",
    "REGION_BYTES",
    "REGION_KEY",
    "REST",
    "Case",
]

REGION, REGION_BYTES = "fuzz", 64
"""A region that is always registered."""
REGION_KEY = f"/headway-fuzz-{os.getpid():07d}"
"""Its shared memory: this process's own, its name of one length, so that inputs are as long."""
LENGTH = b"inference-header-content-length"


class Case(NamedTuple):
    """An HTTP request, in parts."""

    method: str
    path: str
    body: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()


def _tensor(name: str, datatype: str, shape: Sequence[int], data: Any = None, **more: Any) -> Any:
    tensor = {"name": name, "shape": list(shape), "datatype": datatype}
    if data is not None:
        tensor["data"] = data
    return tensor | ({"parameters": more} if more else {})


def _post(path: str, value: object, *headers: tuple[bytes, bytes]) -> Case:
    return Case("POST", path, json.dumps(value).encode(), headers)


def _infer(model: str, inputs: Sequence[Any], *headers: tuple[bytes, bytes], **more: Any) -> Case:
    return _post(f"/v2/models/{model}/infer", {"inputs": inputs, **more}, *headers)


ONE = _tensor("INPUT", "FP32", [1, 4], [1.5, 2, -3e-2, 0])
NESTED = _tensor("INPUT", "FP32", [2, 2], [[1, 2], [3, 4]])
TEXT = _tensor("INPUT", "BYTES", [2, 1], ["a", "\u00e9\U0001f600"])
PAIR = [
    _tensor("INPUT0", "FP32", [1, 2], [1, 2]),
    _tensor("INPUT1", "INT64", [1, 2], [2**53 + 1, 0]),
]
PLACED = _tensor("INPUT", "FP32", [1, 4], shared_memory_region=REGION, shared_memory_byte_size=16)
INTO_PLACE = {
    "name": "OUTPUT",
    "parameters": {
        "shared_memory_region": REGION,
        "shared_memory_byte_size": 32,
        "shared_memory_offset": 16,
    },
}
URGENT = (
    (b"headway-budget-ms", b"4000"),
    (b"headway-priority", b"3"),
    (b"headway-tier", b"urgent"),
    (b"headway-tenant", b"a"),
    (b"authorization", b"Bearer key"),
    (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
)


def _all_datatypes() -> list[Any]:
    """An input of each datatype, two elements each."""
    inputs = []
    for at, datatype in enumerate(Datatype):
        data: list[Any] = [1, 0]
        if datatype is Datatype.BOOL:
            data = [True, False]
        elif datatype is Datatype.BYTES:
            data = ["", "b"]
        inputs.append(_tensor(f"INPUT{at}", datatype, [1, 2], data))
    return inputs


def _wide(count: int) -> list[Any]:
    """Many inputs, the last of them there twice: to find that out must not take long."""
    return [_tensor(f"INPUT{min(at, count - 2)}", "UINT8", [0], []) for at in range(count)]


JSON = [
    _infer("echo", [ONE]),
    _infer("echo", [NESTED], *URGENT, id="7", outputs=[{"name": "OUTPUT"}]),
    _infer("echo", [ONE], parameters={"priority": 3, "timeout": 5_000_000, "own": "x", "n": 1.5}),
    _infer("text", [TEXT]),
    _infer("pair", PAIR),
    _infer("all", _all_datatypes()),
    _infer("alone", [_tensor("INPUT", "UINT8", [3], [0, 255, 7])]),
    _infer("echo", [PLACED], outputs=[INTO_PLACE]),
    _infer("echo", [ONE], outputs=[{"name": "OUTPUT", "parameters": {"binary_data": True}}]),
    _infer(
        "echo", [ONE], parameters={"binary_data_output": True, "sequence_id": 1, "headers": "h"}
    ),
    Case(
        "POST",
        "/v2/models/echo/versions/1/infer",
        JSON_BODY := json.dumps({"inputs": [ONE]}).encode(),
    ),
]


def _binary(model: str, tensors: Sequence[tuple[Any, bytes]], **more: Any) -> Case:
    inputs = [one | {"parameters": {"binary_data_size": len(data)}} for one, data in tensors]
    text = json.dumps({"inputs": inputs, **more}).encode()
    body = b"".join([text, *(data for _, data in tensors)])
    return Case("POST", f"/v2/models/{model}/infer", body, ((LENGTH, b"%d" % len(text)),))


FLOATS = struct.pack("<4f", 1, 2, -3, 0)
AS_BYTES = {"parameters": {"binary_data_output": True}}
BINARY = [
    _binary("echo", [(_tensor("INPUT", "FP32", [1, 4]), FLOATS)]),
    _binary(
        "text", [(_tensor("INPUT", "BYTES", [2, 1]), concat_bytes([b"", b"\xff\0"]))], **AS_BYTES
    ),
    _binary(
        "pair",
        [
            (_tensor("INPUT0", "FP32", [1, 2]), FLOATS[:8]),
            (_tensor("INPUT1", "INT64", [1, 2]), struct.pack("<2q", -1, 2**62)),
        ],
        **AS_BYTES,
    ),
    _binary("alone", [(_tensor("INPUT", "UINT8", [5]), b"\0\1\2\3\4")], id="b"),
]
RAW = [
    Case("POST", "/v2/models/echo/infer", FLOATS, ((LENGTH, b"0"),)),
    Case("POST", "/v2/models/text/infer", "\u00e9t\u00e9".encode(), ((LENGTH, b"0"), *URGENT)),
    Case("POST", "/v2/models/alone/infer", b"\0\1\2", ((LENGTH, b"0"),)),
]
COMPRESSED = [
    one._replace(body=packed, headers=(*one.headers, (b"content-encoding", name)))
    for one in (JSON[0], JSON[3], BINARY[2])
    for name, packed in ((b"gzip", gzip.compress(one.body)), (b"deflate", zlib.compress(one.body)))
] + [JSON[0]._replace(headers=((b"accept-encoding", b"gzip"),))]
ESTIMATES = [
    one._replace(path=one.path.replace("/infer", "/estimate")) for one in (*JSON[:7], *BINARY, *RAW)
] + [
    _post("/v2/models/echo/estimate", {"inputs": [_tensor("INPUT", "FP32", [4, 4])]}),
    _post("/v2/models/text/estimate", {"inputs": [_tensor("INPUT", "BYTES", [4, 1])]}, *URGENT),
]
OVERRIDES = {
    "version": "2",
    "batch": {"rows_max": 16, "linger": "1ms"},
    "queue": {"requests_max": 5, "bytes_max": "1MiB"},
    "options": {"a": 1, "b": "x"},
    "warmup": {"rows": [1, 2], "shapes": {"INPUT": [4]}},
}
REPOSITORY = [
    _post("/v2/repository/index", {"ready": True}),
    Case("POST", "/v2/repository/index"),
    _post("/v2/repository/models/echo/load", {}),
    _post("/v2/repository/models/echo/load", {"parameters": {"config": json.dumps(OVERRIDES)}}),
    _post("/v2/repository/models/echo/unload", {"parameters": {"unload_dependents": False}}),
    _post("/v2/trace/setting", {"trace_level": None}),
    _post("/v2/models/echo/trace/setting", {"trace_level": ["OFF"]}),
    _post("/v2/logging", {"log_info": None}),
    _post(
        "/v2/systemsharedmemory/region/more/register",
        {"key": REGION_KEY, "offset": 0, "byte_size": 32},
    ),
    _post("/v2/systemsharedmemory/region/more/unregister", {}),
    _post("/v2/systemsharedmemory/unregister", {}),
    _post("/v2/cudasharedmemory/unregister", {}),
    *(
        Case("GET", path)
        for path in (
            "/v2",
            "/v2/health/live",
            "/v2/models/echo",
            "/v2/models/echo/versions/1/config",
            "/v2/models/echo/stats",
            "/v2/systemsharedmemory/status",
        )
    ),
]
WIDE = [_infer("echo", _wide(4000)), _infer("echo", [ONE], outputs=[{"name": "OUTPUT"}] * 4000)]
"""Refused as they stand, and costly to refuse: what makes a decoder slow."""
OPENAI = [
    _post("/v1/embeddings", {"model": "vectors", **more})
    for more in (
        {"input": "a text"},
        {"input": ["one", "two", "\u00e4\U0001f600"], "encoding_format": "base64"},
        {"input": ["x"], "encoding_format": "float", "user": "me", "unknown": {"a": [1, None]}},
        {"input": "x", "service_tier": "priority", "priority": 1},
        {"input": "x", "service_tier": "flex", "priority": "2"},
    )
] + [Case("GET", "/v1/models"), Case("GET", "/v1/models/vectors")]
GENERATE = [
    _post("/v2/models/text/generate", {"INPUT": "a text", "id": "x", "a": 1.5, "b": True}),
    _post("/v2/models/text/versions/1/generate", {"INPUT": ["one", "two"]}),
    _post("/v2/models/echo/generate", {"INPUT": [1, 2.5, 3], "priority": 1, "timeout": 5000000}),
    _post("/v2/models/pair/generate", {"INPUT0": [1.5, 2], "INPUT1": [3, 4]}),
    _post("/v2/models/text/generate_stream", {"INPUT": "a text"}),
]
REST: Mapping[str, Sequence[Case]] = {
    "openai": OPENAI,
    "generate": GENERATE,
    "json": JSON,
    "binary": BINARY,
    "raw": RAW,
    "compressed": COMPRESSED,
    "estimate": ESTIMATES,
    "repository": REPOSITORY,
    "wide": WIDE,
}


def _request_bytes(case: Case, *lines: bytes) -> bytes:
    head = [f"{case.method} {case.path} HTTP/1.1".encode(), b"host: x", *lines]
    head += [b"%b: %b" % pair for pair in case.headers]
    if case.method == "POST":
        head.append(b"content-length: %d" % len(case.body))
    return b"\r\n".join([*head, b"", case.body])


CHUNKED = (
    b"POST /v2/models/echo/infer HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    b"%x\r\n%b\r\n0\r\n\r\n" % (len(JSON_BODY), JSON_BODY)
)
HTTP: Sequence[bytes] = [
    *(_request_bytes(case) for case in (*JSON[:6], *BINARY, *RAW, COMPRESSED[0], *REPOSITORY[:8])),
    _request_bytes(JSON[0], b"connection: Upgrade, HTTP2-Settings", b"upgrade: h2c"),
    _request_bytes(JSON[0], b"expect: 100-continue"),
    _request_bytes(JSON[0], b"connection: close"),
    _request_bytes(JSON[0]) + _request_bytes(REPOSITORY[-6]) + _request_bytes(JSON[1]),
    _request_bytes(Case("GET", "/metrics")),
    CHUNKED,
    CHUNKED + CHUNKED,
]


# --- gRPC -----------------------------------------------------------------------------------------


def _message(kind: str, /, **fields: Any) -> bytes:
    return bytes(INFERENCE[kind](**fields).SerializeToString())


def _raw(model: str, tensors: Sequence[tuple[Any, bytes]], **more: Any) -> bytes:
    return _message(
        "ModelInferRequest",
        model_name=model,
        inputs=[one for one, _ in tensors],
        raw_input_contents=[data for _, data in tensors],
        **more,
    )


def _typed(model: str, field: str, values: Sequence[Any], one: Any, **more: Any) -> bytes:
    inputs = [one | {"contents": {field: values}}]
    return _message("ModelInferRequest", model_name=model, inputs=inputs, **more)


GRPC_PLACED = {
    "shared_memory_region": {"string_param": REGION},
    "shared_memory_byte_size": {"int64_param": 16},
}
MESSAGES: Sequence[bytes] = [
    _raw("echo", [(_tensor("INPUT", "FP32", [1, 4]), FLOATS)], id="1"),
    _raw("text", [(_tensor("INPUT", "BYTES", [1, 1]), concat_bytes([b"abc"]))]),
    _raw(
        "pair",
        [
            (_tensor("INPUT0", "FP32", [1, 2]), FLOATS[:8]),
            (_tensor("INPUT1", "INT64", [1, 2]), bytes(16)),
        ],
        outputs=[{"name": "OUTPUT0"}],
        parameters={"priority": {"uint64_param": 2}, "timeout": {"int64_param": 3_000_000}},
    ),
    _typed(
        "echo", "fp32_contents", [1.5, 2.5], _tensor("INPUT", "FP32", [1, 2]), model_version="1"
    ),
    _typed("text", "bytes_contents", [b"a", b""], _tensor("INPUT", "BYTES", [2, 1])),
    _typed("alone", "uint_contents", [1, 255], _tensor("INPUT", "UINT8", [2])),
    _message(
        "ModelInferRequest",
        model_name="echo",
        inputs=[_tensor("INPUT", "FP32", [1, 4]) | {"parameters": GRPC_PLACED}],
        outputs=[{"name": "OUTPUT", "parameters": GRPC_PLACED}],
    ),
    _message(
        "ModelInferRequest",
        model_name="echo",
        inputs=[_tensor("INPUT", "FP32", [1, 1]) | {"contents": {"fp32_contents": [1]}}],
        parameters={"own": {"string_param": "x"}, "n": {"double_param": 1.5}},
    ),
]
METHODS: Mapping[str, Sequence[bytes]] = {
    "ServerLive": [b""],
    "ServerMetadata": [b""],
    "ModelReady": [_message("ModelReadyRequest", name="echo", version="1")],
    "ModelMetadata": [_message("ModelMetadataRequest", name="echo")],
    "ModelConfig": [_message("ModelConfigRequest", name="pair", version="1")],
    "ModelStatistics": [_message("ModelStatisticsRequest", name="echo")],
    "RepositoryIndex": [_message("RepositoryIndexRequest", ready=True)],
    "RepositoryModelLoad": [
        _message(
            "RepositoryModelLoadRequest",
            model_name="echo",
            parameters={"config": {"string_param": json.dumps(OVERRIDES)}},
        )
    ],
    "RepositoryModelUnload": [_message("RepositoryModelUnloadRequest", model_name="echo")],
    "SystemSharedMemoryStatus": [_message("SystemSharedMemoryStatusRequest", name=REGION)],
    "SystemSharedMemoryRegister": [
        _message("SystemSharedMemoryRegisterRequest", name="more", key=REGION_KEY, byte_size=32)
    ],
    "SystemSharedMemoryUnregister": [_message("SystemSharedMemoryUnregisterRequest", name="more")],
    "TraceSetting": [_message("TraceSettingRequest", settings={"trace_level": {"value": ["OFF"]}})],
    "LogSettings": [_message("LogSettingsRequest", settings={"log_info": {"bool_param": True}})],
}
ANSWERS: Sequence[bytes] = [
    json.dumps(
        {
            "model_name": "m",
            "outputs": [ONE],
            "parameters": {
                "queue_us": 3,
                "service_us": 4.5,
                "batch_rows": 2,
                "budget_ms": 1.5,
                "tier": "a",
            },
        }
    ).encode(),
    b'{"error":"no","code":"rejected"}',
]
