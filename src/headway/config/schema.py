"""The configuration as one frozen model: every setting, its default and what it means.

Knows what may be written. The string under a field is its documentation, here, in the reference
pages and in the hints of errors. Refuses to know files, the environment and this machine.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)

from headway.config.batching import BatchConfig
from headway.config.checks import CrossCheckError, cross_problems
from headway.config.generators import GeneratorConfig
from headway.config.pipelines import PipelineConfig
from headway.config.policies import PolicyConfig, PriorityPolicyConfig, with_own_predictor
from headway.config.quantities import PositiveDuration, PositiveSize, Size
from headway.config.section import Count, Name, PathName, Section, Whole
from headway.config.server import ServerConfig
from headway.config.tenancy import TenancyConfig
from headway.core import Datatype, SlotClass
from headway.units import NS_PER_MS, NS_PER_S

__all__ = [
    "Backend",
    "Config",
    "CpuDeviceConfig",
    "DeviceConfig",
    "EmulatedDeviceConfig",
    "Isolation",
    "JournalConfig",
    "Late",
    "LimitsConfig",
    "LogConfig",
    "LogFormat",
    "LogLevel",
    "MetricAlias",
    "ModelConfig",
    "NicenessConfig",
    "ObserveConfig",
    "PredictorConfig",
    "QueueConfig",
    "TensorConfig",
    "TierConfig",
    "TracingConfig",
    "WarmupConfig",
    "WindowedPciePredictorConfig",
]


class Backend(StrEnum):
    """What runs a model."""

    AUTO = "auto"
    ONNX = "onnx"
    PYTHON = "python"
    EMULATED = "emulated"


class Late(StrEnum):
    """What becomes of a request whose budget has run out."""

    DROP = "drop"
    SERVE = "serve"


class Isolation(StrEnum):
    """How the models of a device share worker processes."""

    SHARED = "shared"
    PER_MODEL = "per_model"


class MetricAlias(StrEnum):
    """Whose names of metrics are exported beside our own."""

    TRITON = "triton"
    VLLM = "vllm"


class LogFormat(StrEnum):
    """How log lines are written."""

    AUTO = "auto"
    JSON = "json"
    HUMAN = "human"


class LogLevel(StrEnum):
    """The least important line that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def _version_text(value: object) -> object:
    """YAML reads `version: 2` as a number; 1.10 would lose its zero, so only whole ones pass."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole or isinstance(value, str):
        return str(value)
    raise ValueError(f'`{value}` is not text: put a version in quotes, "{value}"')


VersionText = Annotated[
    str,
    BeforeValidator(_version_text),
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64),
    WithJsonSchema({"type": ["string", "integer"], "pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]*$"}),
]
Axis = Annotated[int, Field(ge=-1, strict=True)]
Niceness = Annotated[int, Field(ge=-20, le=19, strict=True)]
OptionValue = bool | int | float | str


class QueueConfig(Section):
    """How much may wait for one model; beyond it requests are refused."""

    requests_max: Whole = 1024
    """Requests that may wait."""
    bytes_max: Size = 1 << 30
    """Bytes of input that may wait."""


class TensorConfig(Section):
    """An input or output."""

    name: str = Field(min_length=1)
    """Its name in the model."""
    datatype: Datatype
    """Element type, as the Open Inference Protocol names it."""
    shape: tuple[Axis, ...]
    """Shape with the batch axis first; -1 is any size."""


class WarmupConfig(Section):
    """What a model runs before it is ready."""

    rows: tuple[Count, ...] = (1,)
    """Batch sizes to run."""
    shapes: dict[str, tuple[Count, ...]] = Field(default_factory=dict)
    """Shape of one row, without the batch axis, for inputs whose model leaves it open; open axes
    of the others are taken as 1."""


class ModelConfig(Section):
    """A model to serve."""

    name: PathName
    """Under which clients ask for it."""
    version: VersionText = "1"
    """What clients see as its version."""
    backend: Backend = Backend.AUTO
    """What runs it. `auto` takes `onnx` for a path that ends in `.onnx`, `python` for
    `file.py:Class` or `module:Class`, and `emulated` on an emulated device."""
    path: str | None = Field(default=None, min_length=1)
    """The model: a file, or for `python` a class, `file.py:Class` or `module:Class`. Relative
    paths start at this file's folder. Required, but for a pipeline and for `emulated`, which does
    not look at it."""
    devices: tuple[Name, ...] = ()
    """Devices that each hold a replica; empty takes the first device."""
    tier: Name | None = None
    """Tier of requests that name none; without it the tier called `default`, else the first."""
    batch: BatchConfig = BatchConfig()
    """How requests are put together."""
    queue: QueueConfig = QueueConfig()
    """How much may wait."""
    batch_max: PositiveDuration = 60 * NS_PER_S
    """A batch that runs longer is taken for hung, and its worker is replaced."""
    options: dict[str, OptionValue] = Field(default_factory=dict)
    """Passed to the back end: `intra_op_threads` for `onnx`; keyword arguments of `load` for
    `python`; for `emulated` what the model asks of the device: `solo`, the execution of one row
    alone, and if need be `row`, what each further row adds, `occupancy` and `bandwidth`, the parts
    of the device that it takes, and `kernels`, how many it launches."""
    inputs: tuple[TensorConfig, ...] = ()
    """Inputs, where the model itself does not say. Required for `emulated`."""
    outputs: tuple[TensorConfig, ...] = ()
    """Outputs, where the model itself does not say. Required for `emulated`."""
    warmup: WarmupConfig = WarmupConfig()
    """What is run before the model is ready."""
    pipeline: PipelineConfig | None = None
    """A graph of steps that stands for a model: models of this file and Python functions, wired
    output to input. Takes the place of `path`; `inputs` and `outputs` are then required."""


class TierConfig(Section):
    """A class of service that requests may ask for."""

    priority: Whole = 1
    """Lower is served first."""
    budget: PositiveDuration = 30 * NS_PER_S
    """Time from arrival to the last byte; a request may ask for less, never for more."""
    slot_class: SlotClass = SlotClass.HIGH
    """What the slot that runs a batch is told: `low` work gives way to `high` on the same core."""
    late: Late = Late.DROP
    """What becomes of a request whose budget has run out: `drop` answers it with an error, as does
    a policy before that where it foresees it; `serve` answers it late, which counts as a violation
    all the same."""
    late_max: PositiveDuration = 30 * NS_PER_S
    """How late an answer may be where `late` is `serve`; then the request is dropped after all."""
    attainment: float = Field(default=0.99, gt=0, lt=1)
    """The part of its requests that is to be completed within the budget: what alerts and
    dashboards compare with. It changes no decision."""

    @property
    def late_ns(self) -> int:
        """How long after its deadline a request is still served."""
        return self.late_max if self.late is Late.SERVE else 0


class NicenessConfig(Section):
    """How far worker threads stand back.

    The dispatcher runs at 0: were the workers level with it, busy cores would make it notice
    arrivals late. Numbers below 0 need a privilege.
    """

    high: Niceness = 5
    """For batches of slot class `high`."""
    low: Niceness = 19
    """For batches of slot class `low`."""


class CpuDeviceConfig(Section):
    """Cores that run batches."""

    name: Name = "cpu:0"
    """By which models name it."""
    kind: Literal["cpu"] = "cpu"
    """What it is."""
    cores: tuple[Whole, ...] | None = Field(default=None, min_length=1)
    """Cores to use; without it all that the process may use."""
    slots_per_core: int = Field(default=2, ge=1, le=64, strict=True)
    """Batches that may run on one core at once."""
    pin: bool = True
    """Keep each slot's thread on its core, which makes service times predictable."""
    isolation: Isolation = Isolation.SHARED
    """`shared` is one worker process for all models, `per_model` one for each: a crash then takes
    one model only, at the price of memory."""
    niceness: NicenessConfig = NicenessConfig()
    """How far worker threads stand back."""
    arena_max: PositiveSize = 256 << 20
    """Shared memory of one slot of one worker: the inputs and outputs of one batch."""


class EmulatedDeviceConfig(Section):
    """A card of an emulated accelerator.

    Batches take the time that a description of it says, and outputs are zeros: figures that come of
    it are no measurements.
    """

    name: Name = "gpu:0"
    """By which models name it."""
    kind: Literal["emulated"]
    """What it is."""
    accelerator: str = "a100-pcie4"
    """The machine that is emulated; all devices of a server are cards of one."""
    seed: Whole = 1
    """Of the chance in its times; the same for all cards of the machine."""


def _kind_of(device: object) -> str:
    """Cores, unless something else is written."""
    if isinstance(device, Mapping):
        return str(device.get("kind", "cpu"))
    return str(getattr(device, "kind", "cpu"))


DeviceConfig = Annotated[
    Annotated[CpuDeviceConfig, Tag("cpu")] | Annotated[EmulatedDeviceConfig, Tag("emulated")],
    Discriminator(_kind_of),
]


class PredictorSection(Section):
    """What all predictors can be told."""

    confidence: float = Field(default=0.95, ge=0.5, le=0.999)
    """How often a bound is to hold. A finite bound needs 19 observations at 0.95, 99 at 0.99."""
    profiles: tuple[str, ...] = ()
    """Files that `headway profile` wrote, to start from; without them a model is learnt as it
    runs. Relative paths start at this file's folder."""
    state: str | None = None
    """File that keeps what was learnt from one run to the next; dropped when the machine, the
    slots or the threads are others than then. Relative paths start at this file's folder."""
    save_every: PositiveDuration = 60 * NS_PER_S
    """How often the file is written while the server runs; also when it ends."""
    looks_per_second: Count = 100
    """Forecasts in a second, for short and for long work each: one costs as much as a small batch.
    Beyond them the last of the same model, shapes and rows is repeated."""


class HeadwayPredictorConfig(PredictorSection):
    """Integrates progress over the changing set of neighbours, and corrects itself."""

    kind: Literal["headway"]
    """Integration, learnt corrections, calibrated bounds."""


class FixedPredictorConfig(PredictorSection):
    """A batch takes what it takes alone: the baseline."""

    kind: Literal["fixed"]
    """The time alone, whatever runs beside."""


class Max10PredictorConfig(PredictorSection):
    """The longest of the last ten, as Clockwork has it."""

    kind: Literal["max10"]
    """The longest of the last ten of the same model and size."""


class PairwisePredictorConfig(PredictorSection):
    """A factor for each neighbour by what both are bound by, blended with what was seen."""

    kind: Literal["pairwise"]
    """A factor for each neighbour."""


class WindowedPciePredictorConfig(PredictorSection):
    """Bytes wanted in a window over what the link can carry."""

    kind: Literal["windowed-pcie"]
    """Bytes wanted in the last 100 ms over the link's bandwidth."""
    link_per_second: PositiveSize = 12 << 30
    """Bytes that the link to the devices carries in a second."""


class RlsPredictorConfig(PredictorSection):
    """Linear in the pressures and counts of the neighbours, recursive least squares."""

    kind: Literal["rls"]
    """Recursive least squares."""


class BoostedPredictorConfig(PredictorSection):
    """Gradient boosting, fitted again and again in the background; needs the extra `boosted`."""

    kind: Literal["boosted"]
    """Gradient boosting."""


PredictorConfig = (
    HeadwayPredictorConfig
    | FixedPredictorConfig
    | Max10PredictorConfig
    | PairwisePredictorConfig
    | WindowedPciePredictorConfig
    | RlsPredictorConfig
    | BoostedPredictorConfig
)


class LimitsConfig(Section):
    """Limits over all models, and the pauses between tries."""

    requests_max: Whole = 4096
    """Requests that may wait, over all models."""
    bytes_max: Size = 2 << 30
    """Bytes of input that may wait, over all models."""
    restart_delay_min: PositiveDuration = 100 * NS_PER_MS
    """Pause before a lost worker is started again; doubles with each loss in a row."""
    restart_delay_max: PositiveDuration = 10 * NS_PER_S
    """Longest such pause."""
    retry_after_min: PositiveDuration = 10 * NS_PER_MS
    """Shortest time after which a refused client is told to try again."""
    retry_after_max: PositiveDuration = 30 * NS_PER_S
    """Longest such time."""


class JournalConfig(Section):
    """The run's log of every event and decision, for `headway replay` and `headway report`."""

    path: str | None = None
    """File to write; without it no journal is kept. Relative paths start at this file's folder."""
    bytes_max: PositiveSize = 1 << 30
    """Size at which the journal ends; the server goes on without it."""


class ObserveConfig(Section):
    """What the server remembers and reads of itself, for its page, timelines and diagnoses."""

    recent_steps: int = Field(default=50_000, ge=0, le=10_000_000)
    """Steps of the scheduler that are kept in memory; 0 keeps none."""
    device_period: PositiveDuration = NS_PER_S
    """How often devices and workers are looked at: utilisation, memory, throttling. GPUs are seen
    with the extra `gpu`."""
    aliases: tuple[MetricAlias, ...] = ()
    """Other servers whose metrics are exported too, under their own names, for dashboards and
    autoscalers that know those: `triton` (`nv_inference_...`), `vllm` (`vllm:...`)."""
    viewers_max: int = Field(default=32, ge=0, le=1024)
    """Pages that may watch at once; further ones are refused."""


class TracingConfig(Section):
    """Spans of requests, for OpenTelemetry. Needs the extra `otel`."""

    otlp: str | None = Field(default=None, pattern=r"^https?://[^/\s]+/\S*$")
    """Where an OTLP receiver takes traces over HTTP, as in `http://localhost:4318/v1/traces`; left
    out, nothing is traced. What else the exporter needs it takes from its own variables, such as
    `OTEL_EXPORTER_OTLP_HEADERS`."""
    ratio: float = Field(default=0.1, ge=0, le=1)
    """Part of the requests without a `traceparent` that is traced; with one, its sender decides."""
    service: str = Field(default="headway", min_length=1, max_length=128)
    """What the server is called there."""


class LogConfig(Section):
    """What the server says about itself, on stderr."""

    format: LogFormat = LogFormat.AUTO
    """`auto` is `human` on a terminal and `json` elsewhere."""
    level: LogLevel = LogLevel.INFO
    """The least important line that is written."""


class Config(Section):
    """Everything that can be configured.

    Invariants: every tier and device that a model names exists; model and device names are unique;
    no lower bound is above its upper bound; devices are all cores, or all cards of one emulated
    accelerator.
    """

    server: ServerConfig = ServerConfig()
    """The interfaces."""
    tenancy: TenancyConfig | None = None
    """Who may use it, and how much; without it anyone may, as much as is served."""
    models: tuple[ModelConfig, ...] = ()
    """What is served."""
    generators: tuple[GeneratorConfig, ...] = ()
    """Token-by-token models, which the built-in engine runs. Needs the extra `generate`."""
    tiers: dict[Name, TierConfig] = Field(default={"standard": TierConfig()}, min_length=1)
    """Classes of service, by name."""
    devices: tuple[DeviceConfig, ...] = Field(default=(CpuDeviceConfig(),), min_length=1)
    """Where models run: cores, or cards of one emulated accelerator."""
    policy: PolicyConfig = Field(
        default=PriorityPolicyConfig(kind="priority"), discriminator="kind"
    )
    """Who goes first."""
    predictor: PredictorConfig = Field(
        default=HeadwayPredictorConfig(kind="headway"), discriminator="kind"
    )
    """How long things are expected to take. The default is `headway`, but for policies that have
    one of their own."""
    limits: LimitsConfig = LimitsConfig()
    """Limits over all models."""
    journal: JournalConfig = JournalConfig()
    """The log of every event and decision."""
    log: LogConfig = LogConfig()
    """What the server says about itself."""
    observe: ObserveConfig = ObserveConfig()
    """What the server remembers of itself."""
    tracing: TracingConfig = TracingConfig()
    """Spans of requests."""

    @property
    def served(self) -> tuple[ModelConfig, ...]:
        """What replicas are made of: models that are no pipelines."""
        return tuple(model for model in self.models if model.pipeline is None)

    @model_validator(mode="before")
    @classmethod
    def _suits_policy(cls, data: object) -> object:
        return with_own_predictor(data)

    @model_validator(mode="after")
    def _agrees(self) -> "Config":
        problems = tuple(cross_problems(self))
        if problems:
            raise CrossCheckError(problems)
        return self
