"""The bodies of the HTTP interface as its description has them: one class a JSON object.

Where the codecs decode into classes of their own or write plain mappings, what they take and give
is written down here, for people and their tools; the tests hold the server to it. A class's
docstring and the string under a field are what the description says of them. Keys that are not
listed are ignored in requests, and may come in answers.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from headway.core import Datatype
from headway.frontends.client_call import PRIORITY_MAX
from headway.frontends.oip_request import ID_CHARS_MAX
from headway.frontends.oip_tensors import AXES_MAX
from headway.frontends.openai_embeddings import TEXTS_MAX

__all__ = [
    "EmbeddingsBody",
    "Empty",
    "EstimateRequest",
    "FlatAnswer",
    "FlatRequest",
    "Health",
    "IndexLine",
    "IndexRequest",
    "InferAnswer",
    "InferRequest",
    "LoadRequest",
    "LogSettings",
    "LogSettingsRequest",
    "ModelConfig",
    "ModelMetadata",
    "ModelReady",
    "ModelStatisticsList",
    "Region",
    "RegionRequest",
    "ServerMetadata",
    "TenantAbout",
    "TraceSettings",
    "TraceSettingsRequest",
    "UnloadRequest",
]

Count = Annotated[int, Meta(ge=0)]
Size = Annotated[int, Meta(ge=-1)]
AxisSize = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Shape = Annotated[list[AxisSize], Meta(max_length=AXES_MAX)]
Digits = Annotated[str, Meta(pattern="^[0-9]{1,9}$")]
Milliseconds = int | float
Elements = Annotated[Any, Meta(description="A list of elements, flat or nested as the shape says")]


class Empty(Struct):
    """Nothing to say."""


# --- the server and its models --------------------------------------------------------------------


class ServerMetadata(Struct):
    """Who answers."""

    name: str
    version: str
    extensions: list[str]
    """Of the protocol: those that this server honours."""


class Health(Struct):
    """Whether the server lives, and whether it takes requests."""

    live: bool
    ready: bool


class ModelReady(Struct):
    """Whether a model takes requests."""

    name: str
    ready: bool


class TenantLimit(Struct):
    """A limit of a tenant."""

    name: str
    """`places`, `concurrency`, `requests`, `rows`, `tokens` or `quota`."""
    limit: float
    """Requests, rows or tokens; of a quota milliseconds of device time."""
    remaining: float
    resets_ms: int
    """Until more is to be had."""


class TenantAbout(Struct):
    """What a tenant may use."""

    tenant: str
    tier: str | None
    tiers: list[str]
    models: list[str]
    in_flight: int
    limits: list[TenantLimit]


class TensorMetadata(Struct):
    """An input or output."""

    name: str
    datatype: Datatype
    shape: list[Size]
    """-1 is any size; the batch axis, if there is one, is the first."""


class ModelMetadata(Struct):
    """What a model takes and gives."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class ConfigTensor(Struct):
    """An input or output in Triton's words."""

    name: str
    data_type: Annotated[str, Meta(pattern="^TYPE_[A-Z0-9]+$")]
    dims: list[Size]
    """Without the batch axis."""


class InstanceGroup(Struct):
    """Slots that may run the model."""

    name: str
    count: Count


class ModelConfig(Struct):
    """A model as Triton's configuration would have it."""

    name: str
    platform: str
    backend: str
    version_policy: dict[str, Any]
    max_batch_size: Count
    """0 where requests are not put together."""
    input: list[ConfigTensor]
    output: list[ConfigTensor]
    instance_group: list[InstanceGroup]
    parameters: dict[str, Any]
    dynamic_batching: dict[str, Any] | UnsetType = UNSET


class StageCount(Struct):
    """How often, and how long in all."""

    count: Count
    ns: Count


class InferenceStatistics(Struct):
    """Where requests' time went."""

    success: StageCount
    fail: StageCount
    queue: StageCount
    compute_input: StageCount
    compute_infer: StageCount
    compute_output: StageCount
    cache_hit: StageCount
    cache_miss: StageCount


class BatchStatistics(Struct):
    """Batches of one size."""

    batch_size: Count
    compute_input: StageCount
    compute_infer: StageCount
    compute_output: StageCount


class MemoryUsage(Struct):
    """Memory that a model holds."""

    type: str
    id: str
    byte_size: Count


class ModelStatistics(Struct):
    """Counters of one model since it was first loaded."""

    name: str
    version: str
    last_inference: Count
    """Milliseconds since the epoch; 0 for never."""
    inference_count: Count
    """Rows."""
    execution_count: Count
    """Batches."""
    inference_stats: InferenceStatistics
    batch_stats: list[BatchStatistics]
    memory_usage: list[MemoryUsage]


class ModelStatisticsList(Struct):
    """Counters, a model each."""

    model_stats: list[ModelStatistics]


# --- inference ------------------------------------------------------------------------------------

ParameterValue = str | int | float | bool | None


class RequestParameters(Struct):
    """What a request says besides its tensors. Any other key is a parameter for the model."""

    priority: Annotated[int, Meta(ge=0, le=PRIORITY_MAX)] | Digits | None = None
    """Lower is served first, 1 before all; 0 leaves it to the tier."""
    timeout: Annotated[int, Meta(ge=0, le=2**63 - 1)] | Digits | None = None
    """The budget in microseconds; 0 is none."""
    binary_data_output: bool | None = None
    """Outputs that do not say otherwise are wanted as bytes."""


class InputParameters(Struct):
    """Where an input's data is, if not in `data`."""

    binary_data_size: Count | None = None
    """So many bytes behind the JSON."""
    shared_memory_region: str | UnsetType = UNSET
    """A registered region."""
    shared_memory_offset: Count | UnsetType = UNSET
    shared_memory_byte_size: Count | UnsetType = UNSET


class OutputParameters(Struct):
    """How an output is wanted."""

    binary_data: bool | None = None
    """As bytes behind the JSON."""
    shared_memory_region: str | UnsetType = UNSET
    """In a registered region."""
    shared_memory_offset: Count | UnsetType = UNSET
    shared_memory_byte_size: Count | UnsetType = UNSET


class InferInput(Struct):
    """One tensor."""

    name: str
    shape: Shape
    datatype: Datatype
    data: Elements = None
    """Its elements, row-major; left out where `parameters` say where they are."""
    parameters: InputParameters | None = None


class InferRequestedOutput(Struct):
    """One output that is wanted."""

    name: str
    parameters: OutputParameters | None = None


class InferRequest(Struct):
    """Tensors for a model."""

    inputs: list[InferInput]
    outputs: list[InferRequestedOutput] | None = None
    """Left out or empty for all."""
    id: Annotated[str, Meta(max_length=ID_CHARS_MAX)] | None = None
    """Comes back with the answer."""
    parameters: RequestParameters | None = None


class EstimateRequest(InferRequest):
    """An infer request, whose inputs may leave their data out."""


class PlacedParameters(Struct):
    """Where an output's data is, if not in `data`."""

    binary_data_size: Count | UnsetType = UNSET
    shared_memory_region: str | UnsetType = UNSET
    shared_memory_offset: Count | UnsetType = UNSET
    shared_memory_byte_size: Count | UnsetType = UNSET


class InferOutput(Struct):
    """One tensor of an answer."""

    name: str
    shape: list[Count]
    datatype: Datatype
    data: list[Any] | UnsetType = UNSET
    parameters: PlacedParameters | UnsetType = UNSET


class AnswerParameters(Struct):
    """Where the time went, and under which limit."""

    queue_us: Count
    """Arrival to the start of the first batch."""
    service_us: Count
    """In batches."""
    batch_rows: Count
    budget_ms: Milliseconds
    limit: str
    """What set the budget."""
    tier: str
    segments: int | UnsetType = UNSET
    """Batches that the rows ran in, where there were several."""
    late_ms: Milliseconds | UnsetType = UNSET
    """How late the answer is, where it is."""


class InferAnswer(Struct):
    """What the model gave."""

    model_name: str
    model_version: str
    outputs: list[InferOutput]
    parameters: AnswerParameters
    id: str | UnsetType = UNSET


class FlatRequest(Struct):
    """Inputs by name, each a list, a single element, or nested once for each axis.

    A key that names no input becomes a parameter.
    """

    id: Annotated[str, Meta(max_length=ID_CHARS_MAX)] | None = None
    """Comes back with the answer; an input, where the model has one of this name."""
    parameters: RequestParameters | None = None


class FlatAnswer(Struct):
    """Outputs by name, a single element or a flat list, beside these."""

    model_name: str
    model_version: str
    id: str | UnsetType = UNSET


# --- the repository, settings, shared memory ------------------------------------------------------


class IndexRequest(Struct):
    """Which models are wanted."""

    ready: bool = False
    """Only those that serve."""


class IndexLine(Struct):
    """One model."""

    name: str
    version: str
    state: Literal["READY", "LOADING", "UNLOADING", "UNAVAILABLE"]
    reason: str


class RepositoryParameters(Struct):
    """How a model is loaded. A key that begins with `file:` is refused; others are ignored."""

    config: str | None = None
    """Settings of its own, a JSON object written as a string."""


class LoadRequest(Struct):
    """How a model is loaded."""

    parameters: RepositoryParameters | None = None


class UnloadRequest(Struct):
    """How a model is unloaded: Triton's parameters are understood, and change nothing."""

    parameters: dict[str, Any] | None = None


class TraceSettings(Struct):
    """Triton's trace settings. They can be read, and written as they are."""

    trace_file: str
    trace_level: list[str]
    trace_rate: str
    trace_count: str
    log_frequency: str
    trace_mode: str


class TraceSettingsRequest(Struct, forbid_unknown_fields=True):
    """Trace settings as they are, or null for their defaults, which is the same."""

    trace_file: Any = None
    trace_level: Any = None
    trace_rate: Any = None
    trace_count: Any = None
    log_frequency: Any = None
    trace_mode: Any = None


class LogSettings(Struct):
    """Triton's log settings. They can be read, and written as they are."""

    log_file: str
    log_info: bool
    log_warning: bool
    log_error: bool
    log_verbose_level: Count
    log_format: str


class LogSettingsRequest(Struct, forbid_unknown_fields=True):
    """Log settings as they are, or null for their defaults, which is the same."""

    log_file: Any = None
    log_info: Any = None
    log_warning: Any = None
    log_error: Any = None
    log_verbose_level: Any = None
    log_format: Any = None


class RegionRequest(Struct):
    """Shared memory of a client."""

    key: str
    """The name of its shared memory object."""
    byte_size: int
    offset: int = 0


class Region(Struct):
    """A registered region."""

    name: str
    key: str
    offset: Count
    byte_size: Count


# --- OpenAI ---------------------------------------------------------------------------------------


class EmbeddingsBody(Struct):
    """Texts for an embedding model."""

    model: str
    input: str | Annotated[list[str], Meta(min_length=1, max_length=TEXTS_MAX)]
    """One text or several. Token numbers are refused."""
    encoding_format: Literal["float", "base64"] | None = None
    """Numbers, or little-endian FP32 in base64."""
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    """Only what the model has."""
    user: Any = None
    """Ignored, as is every key that is not listed."""
    service_tier: Any = None
    """A tier, or what the server has for one of OpenAI's names; whatever it does not know is the
    model's own."""
    priority: Any = None
    """Lower is served first, 1 before all; 0 leaves it to the tier, as does what is no integer."""
