"""The `Engine` protocol: all that a frontend may know of the server.

A call goes in as tensors, a budget and an identity; a reply or an error of `headway.errors` comes
out. Who goes first, where it runs and how long it takes are decided below this line.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from headway.core import (
    UNKNOWN,
    Forecast,
    ModelName,
    RejectReason,
    RequestId,
    TenantId,
    Tensor,
    TierName,
)
from headway.errors import HeadwayError
from headway.executors import ParameterValue, StageTimes, TensorSpec

__all__ = [
    "Engine",
    "InferCall",
    "InferEstimate",
    "InferReply",
    "MetricsText",
    "ModelState",
    "ModelStatistics",
    "ModelStatus",
    "OnEnd",
    "Secret",
    "StageStatistics",
]


class Secret(str):
    """A text that is never shown: not in a log, not in an error, not by a debugger's repr."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'" if self else "''"


class InferCall(Struct, frozen=True, kw_only=True):
    """One request, decoded. Shapes and sizes of its tensors agree; names are not yet checked."""

    model: ModelName
    version: str = ""
    """Empty for whichever is current."""
    inputs: Sequence[Tensor]
    outputs: tuple[str, ...] = ()
    """Names wanted; empty for all."""
    parameters: Mapping[str, ParameterValue] = {}
    """Parameters the protocol does not reserve; they reach a Python model and split batches."""
    arrived_at_ns: int
    """`Engine.now_ns()` when the request's first bytes were seen."""
    priority: int | None = None
    """Lower first, in headway's own scale; None takes the tier's."""
    tier: TierName | None = None
    """None takes the model's tier."""
    tenant: TenantId | None = None
    budget_ns: int | None = None
    """None takes the tier's budget; a client may shorten that, never lengthen it."""
    budget_source: str = "request"
    """What set the budget, for the error that ends it: `timeout`, `headway-budget-ms`, ..."""
    credential: Secret = Secret()
    """The key that the client sent; empty for none. Whoever keeps keys says whose it is."""
    traceparent: str = ""
    """W3C trace context of the client, unparsed; empty for none."""
    origin: RequestId | None = None
    """The call that this one is a step of; no client sets it."""
    late_ns: int | None = None
    """How long after its deadline an answer is still of use; None takes the tier's word. No client
    sets it."""


class InferReply(Struct, frozen=True, kw_only=True):
    """A computed answer and where its time went."""

    model: ModelName
    version: str
    outputs: Sequence[Tensor]
    """The buffers are the caller's own."""
    queue_delay_ns: int
    service_ns: int
    """Dispatch to executor done; of a request that ran in segments, their sum."""
    batch_rows: int
    """Of its batch, or of its last segment."""
    tier: TierName
    budget_ns: int
    budget_source: str
    """What limit the request ran under: `tier`, `timeout` or `headway-budget-ms`."""
    request_id: RequestId = RequestId(0)
    """By which records know it; that of a pipeline's call is below 0."""
    foreseen: Forecast = UNKNOWN
    """What was expected of it when it was admitted; all 0 while nothing was known."""
    late_ns: int = 0
    """How long after its deadline it ended, where its tier has late requests served; else 0."""
    segments: int = 1
    """Batches that its rows ran in, one after another."""
    rows: int = 1
    """Its own."""
    device_ns: int = 0
    """Its part, by rows, of the time that its batches took of a slot."""
    tokens: int = 0
    """As its model counted them, in an output called `tokens`; 0 where it does not."""
    stages: StageTimes | None = None
    """Where its batch's time went, or that of its last segment; None for a pipeline."""


class InferEstimate(Struct, frozen=True, kw_only=True):
    """What would become of a request that is only asked about."""

    model: ModelName
    version: str
    reason: RejectReason | None
    """Why it would be refused; None where it would be admitted."""
    retry_after_ns: int
    """When to come back after a refusal; 0 where there is nothing to say."""
    foreseen: Forecast
    """What it would take from now on, were it admitted; all 0 while nothing is known."""
    left_ns: int
    """What is left of its budget; below 0 where that is spent."""
    tier: TierName
    budget_ns: int
    budget_source: str
    """As in a reply: `tier`, `timeout` or `headway-budget-ms`."""

    @property
    def is_known(self) -> bool:
        """Whether there is a prediction."""
        return self.foreseen.bound_ns > 0

    def will_meet_deadline(self, needed_ns: int) -> bool | None:
        """Whether it would be in time if it took this long; None while nothing is known."""
        if self.reason is not None:
            return False
        return needed_ns <= self.left_ns if self.is_known else None


OnEnd = Callable[[InferReply | HeadwayError], None]
"""Is told how a request ended."""


class ModelState(Struct, frozen=True, kw_only=True):
    """A line of the repository index."""

    name: ModelName
    version: str
    state: str
    """READY, LOADING, UNLOADING or UNAVAILABLE."""
    reason: str


class ModelStatus(Struct, frozen=True, kw_only=True):
    """A served model: what it takes, gives and may do."""

    name: ModelName
    version: str
    is_ready: bool
    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    can_batch: bool
    batch_rows_max: int
    linger_ns: int
    queue_requests_max: int
    tier: TierName
    budget_ns: int
    slots: int


class StageStatistics(Struct, frozen=True, kw_only=True):
    """How often, and how long in all."""

    count: int = 0
    total_ns: int = 0


class ModelStatistics(Struct, frozen=True, kw_only=True):
    """Counters of one model since it was first loaded, as in Triton's statistics extension."""

    name: ModelName
    version: str
    last_inference_ms: int
    """Wall clock, milliseconds since the epoch; 0 for never."""
    inference_count: int
    """Rows answered."""
    execution_count: int
    """Batches run."""
    success: StageStatistics
    fail: StageStatistics
    queue: StageStatistics
    compute_input: StageStatistics
    compute_infer: StageStatistics
    compute_output: StageStatistics
    batch_stats: Mapping[int, tuple[StageStatistics, StageStatistics, StageStatistics]]
    """Batch rows -> (compute_input, compute_infer, compute_output)."""
    memory_bytes: int


class MetricsText(Protocol):
    """Whoever measures an engine, and can say what."""

    def text(self, *, is_openmetrics: bool = False) -> Iterator[bytes]:
        """See `Engine.metrics_text`."""


class Engine(Protocol):
    """A server without a wire."""

    @property
    def is_ready(self) -> bool:
        """Every model of the configuration is ready and no shutdown has begun."""

    def now_ns(self) -> int:
        """Nanoseconds since the engine started."""

    async def infer(self, call: InferCall) -> InferReply:
        """Run one request to its end. Cancelling the awaiting task cancels the request.

        Raises:
            InvalidRequestError: inputs do not fit the model.
            ModelNotFoundError: no such model or version.
            RejectedError: refused at arrival, with a time to try again.
            UnavailableError: the model or the server takes no work now.
            DeadlineExceededError: the budget ran out, waiting or running.
            ExecutorError: the back end raised, or its worker died.
        """

    def submit(self, call: InferCall, on_end: OnEnd) -> RequestId:
        """Start one request without a task of its own; ``on_end`` is called exactly once.

        It may be called before this returns, gets what `infer` would return or raise, and must
        neither block nor raise.

        Raises:
            RequestError: as `infer` does, for what is known at once; ``on_end`` is not called.
        """

    def cancel(self, request_id: RequestId) -> None:
        """Take a submitted request back; one that has ended is ignored."""

    def estimate(self, call: InferCall) -> InferEstimate:
        """What would become of a call now. Runs nothing, queues nothing, counts nothing.

        Of the inputs only names, datatypes, shapes and sizes matter.

        Raises:
            InvalidRequestError: inputs do not fit the model, or the tier does not exist.
            ModelNotFoundError: no such model or version.
            UnavailableError: the model is still loading.
        """

    def status(self, model: ModelName, version: str = "") -> ModelStatus:
        """A model that is served now.

        Raises:
            ModelNotFoundError: no such model or version.
        """

    def index(self) -> Sequence[ModelState]:
        """Every model that is configured, served, or failed to load."""

    def statistics(
        self, model: ModelName | None = None, version: str = ""
    ) -> Sequence[ModelStatistics]:
        """Counters of one model or of all.

        Raises:
            ModelNotFoundError: no such model or version.
        """

    async def load(self, model: ModelName, overrides: Mapping[str, object]) -> None:
        """Load or reload a configured model; the old version serves until the new one is warm.

        Args:
            model: a name of the configuration.
            overrides: keys of the model's configuration that replace what is configured.

        Raises:
            ModelNotFoundError: the name is not configured and the overrides give no path.
            LoadError: the new version could not be loaded; the old one still serves.
        """

    async def unload(self, model: ModelName) -> None:
        """Finish what the model holds, then free it.

        Raises:
            ModelNotFoundError: no such model is served.
        """

    def metrics_text(self, *, is_openmetrics: bool = False) -> Iterator[bytes]:
        """Everything measured, in Prometheus' text format, or in that of OpenMetrics 1.0.

        In pieces, all of now; others may go first before the next is asked for.
        """
