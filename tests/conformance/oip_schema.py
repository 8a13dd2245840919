"""The bodies of the Open Inference Protocol's REST side, written down from its specification.

Each class is the shape of one body, with no key too many: `check(kind, body)` fails on a missing
key, a wrong kind of value or a key that the specification and Triton's extensions do not have.
"""

import json
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

Parameters = dict[str, str | int | float | bool]
Datatype = Literal[
    "BOOL",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "FP16",
    "BF16",
    "FP32",
    "FP64",
    "BYTES",
]
Count = Annotated[int, Meta(ge=0)]
Size = Annotated[int, Meta(ge=-1)]


class Body(Struct, forbid_unknown_fields=True):
    """No keys but those named."""


class ServerMetadata(Body):
    name: str
    version: str
    extensions: list[str]


class Health(Body):
    """Clients read `live` or `ready`; the specification's text has one where the other is meant."""

    live: bool
    ready: bool


class ModelReady(Body):
    name: str
    ready: bool


class TensorMetadata(Body):
    name: str
    datatype: Datatype
    shape: list[Size]


class ModelMetadata(Body):
    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class OutputParameters(Body):
    binary_data_size: Count


class ResponseOutput(Body):
    name: str
    shape: list[Count]
    datatype: Datatype
    data: list[Any] | msgspec.UnsetType = msgspec.UNSET
    parameters: OutputParameters | msgspec.UnsetType = msgspec.UNSET


class InferResponse(Body):
    model_name: str
    model_version: str
    outputs: list[ResponseOutput]
    parameters: Parameters
    id: str | msgspec.UnsetType = msgspec.UNSET


class Error(Body):
    """The protocol has `error`; the other keys are headway's."""

    error: Annotated[str, Meta(min_length=1)]
    code: Annotated[str, Meta(pattern="^[a-z_]+$")]
    reason: str | msgspec.UnsetType = msgspec.UNSET
    limit: str | msgspec.UnsetType = msgspec.UNSET
    stage: str | msgspec.UnsetType = msgspec.UNSET
    retry_after_ms: Count | msgspec.UnsetType = msgspec.UNSET


class IndexLine(Body):
    name: str
    version: str
    state: Literal["READY", "LOADING", "UNLOADING", "UNAVAILABLE"]
    reason: str


class Duration(Body):
    count: Count
    ns: Count


class InferenceStatistics(Body):
    success: Duration
    fail: Duration
    queue: Duration
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration
    cache_hit: Duration
    cache_miss: Duration


class BatchStatistics(Body):
    batch_size: Count
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration


class MemoryUsage(Body):
    type: str
    id: str
    byte_size: Count


class ModelStatistics(Body):
    name: str
    version: str
    last_inference: Count
    inference_count: Count
    execution_count: Count
    inference_stats: InferenceStatistics
    batch_stats: list[BatchStatistics]
    memory_usage: list[MemoryUsage]


class Statistics(Body):
    model_stats: list[ModelStatistics]


class ConfigTensor(Body):
    name: str
    data_type: Annotated[str, Meta(pattern="^TYPE_[A-Z0-9]+$")]
    dims: list[Size]


class QueuePolicy(Body):
    timeout_action: Literal["REJECT", "DELAY"]
    default_timeout_microseconds: Count
    allow_timeout_override: bool
    max_queue_size: Count


class DynamicBatching(Body):
    max_queue_delay_microseconds: Count
    default_queue_policy: QueuePolicy


class InstanceGroup(Body):
    name: str
    count: Count


class ModelConfig(Body):
    name: str
    platform: str
    backend: str
    version_policy: dict[str, dict[str, int]]
    max_batch_size: Count
    input: list[ConfigTensor]
    output: list[ConfigTensor]
    instance_group: list[InstanceGroup]
    parameters: dict[str, dict[str, str]]
    dynamic_batching: DynamicBatching | msgspec.UnsetType = msgspec.UNSET


Index = list[IndexLine]


def check(kind: Any, body: bytes) -> Any:
    """Parse a body as a strict JSON reader would, and see that it has this shape."""
    json.loads(body, parse_constant=_refuse_constant)
    return msgspec.json.decode(body, type=kind)


def _refuse_constant(word: str) -> None:
    raise ValueError(f"`{word}` is no JSON")
