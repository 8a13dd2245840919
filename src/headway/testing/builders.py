"""Builders that state only what matters, and a kernel to talk to: events in, commands out.

Knows the kernel, the policies and the text forms of durations. Never a clock: a test says when.

    talk = a_kernel(slots=1, models=[a_model(batch_rows_max=4)])
    commands = talk.arrives(1, at="10ms", budget="50ms")
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypedDict, Unpack

from headway.core import (
    BatchFinished,
    BatchId,
    BucketKey,
    Cancel,
    Command,
    Complete,
    DeviceName,
    DeviceParams,
    Dispatch,
    Event,
    Expire,
    Fail,
    Kernel,
    KernelParams,
    LoadReplica,
    ModelLoadRequested,
    ModelName,
    ModelParams,
    Policy,
    Predictor,
    Record,
    Reject,
    ReplicaId,
    ReplicaLoaded,
    ReplicaWarmed,
    Request,
    RequestArrived,
    RequestId,
    SetTimer,
    SlotClass,
    SlotIndex,
    TenantId,
    TierName,
    TimerFired,
    check_invariants,
)
from headway.errors import InvariantError
from headway.policy import edf, fifo, priority
from headway.testing.mean_predictor import MeanPredictor
from headway.units import parse_bytes, parse_duration_ns

__all__ = [
    "Dialogue",
    "a_device",
    "a_dispatch",
    "a_kernel",
    "a_model",
    "a_request",
    "dispatched",
    "without_timers",
]

Span = int | str
"""A length of time or an instant: text such as "10ms", or nanoseconds."""
Size = int | str
"""Text such as "4KiB", or bytes."""

_POLICIES: Final[Mapping[str, Callable[[Predictor], Policy]]] = {
    "edf": edf,
    "fifo": fifo,
    "priority": priority,
}
_STEPS_MAX: Final = 100_000


class RequestWords(TypedDict, total=False):
    """What may be said of a request."""

    model: str
    bucket: str
    """One for each pinned version when it is not said."""
    version: str
    rows: int
    payload: Size
    padding: Size
    priority: int
    tier: str
    tenant: str
    slot_class: SlotClass
    budget: Span
    late: Span
    """How long after its deadline an answer is still wanted."""


class ModelWords(TypedDict, total=False):
    """What may be said of a model."""

    version: str
    devices: Sequence[str]
    batch_rows_max: int
    can_batch: bool
    can_split: bool
    segments_max: int
    linger: Span
    queue_requests_max: int
    queue_size_max: Size
    hung_after: Span
    """`batch_ns_max`."""


class DispatchWords(TypedDict, total=False):
    """What may be said of a batch that starts."""

    replica_id: int
    model: str
    device: str
    slot: int
    slot_class: SlotClass
    expected: Span
    bound: Span
    """Without it what is expected."""
    first_row: int
    is_segment: bool


class LimitWords(TypedDict, total=False):
    """What may be said of a kernel; fields of `KernelParams`."""

    requests_max: int
    bytes_max: int
    retry_after_ns_min: int
    retry_after_ns_max: int
    restart_delay_ns_min: int
    restart_delay_ns_max: int


def a_request(request_id: int = 1, *, at: Span = 0, **what: Unpack[RequestWords]) -> Request:
    """A request of one row to model `m` with a budget of a second, arriving at an instant."""
    _refuse_unknown(what, RequestWords)
    version = what.get("version", "")
    return Request(
        request_id=RequestId(request_id),
        model=ModelName(what.get("model", "m")),
        bucket=BucketKey(what.get("bucket", f"version {version}" if version else "")),
        version=version,
        rows=what.get("rows", 1),
        payload_bytes=_bytes(what.get("payload", 0)),
        padding_bytes=_bytes(what.get("padding", 0)),
        priority=what.get("priority", 1),
        tier=TierName(what.get("tier", "normal")),
        tenant=TenantId(what.get("tenant", "default")),
        slot_class=what.get("slot_class", SlotClass.HIGH),
        arrived_at_ns=_ns(at),
        budget_ns=_ns(what.get("budget", "1s")),
        late_ns=_ns(what.get("late", 0)),
    )


def a_dispatch(
    batch_id: int, *request_ids: int, rows: int | None = None, **what: Unpack[DispatchWords]
) -> Dispatch:
    """A batch of requests of one row each, on the first slot of the first replica."""
    _refuse_unknown(what, DispatchWords)
    return Dispatch(
        batch_id=BatchId(batch_id),
        replica_id=ReplicaId(what.get("replica_id", 1)),
        model=ModelName(what.get("model", "m")),
        device=DeviceName(what.get("device", "cpu:0")),
        slot=SlotIndex(what.get("slot", 0)),
        slot_class=what.get("slot_class", SlotClass.HIGH),
        rows=len(request_ids) if rows is None else rows,
        request_ids=tuple(RequestId(request_id) for request_id in request_ids),
        expected_ns=_ns(what.get("expected", 0)),
        bound_ns=_ns(what.get("bound", what.get("expected", 0))),
        first_row=what.get("first_row", 0),
        is_segment=what.get("is_segment", False),
    )


def a_device(
    name: str = "cpu:0", *, lanes: Sequence[int] = (0,), shares_all: bool = False
) -> DeviceParams:
    """A device with one slot a lane given."""
    return DeviceParams(name=DeviceName(name), slot_lanes=tuple(lanes), shares_all=shares_all)


def a_model(name: str = "m", **what: Unpack[ModelWords]) -> ModelParams:
    """A model on `cpu:0` that takes one row at a time and does not linger."""
    _refuse_unknown(what, ModelWords)
    return ModelParams(
        name=ModelName(name),
        version=what.get("version", "1"),
        devices=tuple(DeviceName(device) for device in what.get("devices", ("cpu:0",))),
        batch_rows_max=what.get("batch_rows_max", 1),
        can_batch=what.get("can_batch", True),
        can_split=what.get("can_split", False),
        segments_max=what.get("segments_max", 8),
        linger_ns=_ns(what.get("linger", 0)),
        queue_requests_max=what.get("queue_requests_max", 1024),
        queue_bytes_max=_bytes(what.get("queue_size_max", "1GiB")),
        batch_ns_max=_ns(what.get("hung_after", "60s")),
    )


def a_kernel(
    policy: str | Policy = "fifo",
    *,
    slots: int = 1,
    devices: Sequence[DeviceParams] | None = None,
    models: Sequence[ModelParams | str] = ("m",),
    predictor: Predictor | None = None,
    **limits: Unpack[LimitWords],
) -> "Dialogue":
    """A kernel whose models are loaded and warm at instant 0.

    Args:
        policy: a policy, or the name of one.
        slots: of the only device, `cpu:0`, all on one lane; `devices` says more.
        predictor: of a policy given by name; one that knows nothing yet when absent.
        limits: fields of `KernelParams`; its defaults when absent.
    """
    if isinstance(policy, str):
        policy = _POLICIES[policy](MeanPredictor() if predictor is None else predictor)
    devices = [a_device(lanes=[0] * slots)] if devices is None else devices
    talk = Dialogue(Kernel(KernelParams(devices=tuple(devices), **limits), policy))
    for model in models:
        talk.serve(a_model(model) if isinstance(model, str) else model)
    return talk


class Dialogue:
    """A kernel, its time, and what it has said; its laws are checked after every event.

    Invariants: instants never go back; each request is answered once, when it has arrived.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.now_ns = 0
        self.records: list[Record] = []
        """Every step so far."""
        self.outcomes: dict[RequestId, Command] = {}
        """How each request ended."""

    def handle(self, event: Event, *, at: Span | None = None) -> list[Command]:
        """Tell one fact, now or at a later instant, and return what the kernel says.

        Raises:
            InvariantError: a law of the kernel does not hold, or a request was answered twice.
        """
        self.now_ns = self.now_ns if at is None else _ns(at)
        commands = self.kernel.handle(event, self.now_ns)
        self.records.append(
            Record(seq=len(self.records), now_ns=self.now_ns, event=event, commands=commands)
        )
        for command in commands:
            if isinstance(command, Complete | Reject | Expire | Cancel | Fail):
                if command.request_id in self.outcomes:
                    raise InvariantError(f"request {command.request_id} was answered twice")
                self.outcomes[command.request_id] = command
        check_invariants(self.kernel)
        return commands

    def arrives(
        self, request_id: int, *, at: Span | None = None, **what: Unpack[RequestWords]
    ) -> list[Command]:
        """A request comes in; `what` as for `a_request`."""
        now_ns = self.now_ns if at is None else _ns(at)
        request = a_request(request_id, at=now_ns, **what)
        return self.handle(RequestArrived(request=request), at=now_ns)

    def finishes(self, batch_id: int, *, at: Span | None = None) -> list[Command]:
        """A batch has run."""
        return self.handle(BatchFinished(batch_id=BatchId(batch_id)), at=at)

    def wakes(self, *, at: Span | None = None) -> list[Command]:
        """The timer fires, at the instant that was asked for unless another is given."""
        return self.handle(TimerFired(), at=self.kernel.armed_at_ns if at is None else at)

    def serve(self, model: ModelParams) -> list[Command]:
        """Load and warm a model now; returns what the last step says."""
        commands = self.handle(ModelLoadRequested(model=model))
        for load in [c for c in commands if isinstance(c, LoadReplica)]:
            commands = self.warm(load.replica_id)
        return commands

    def warm(self, replica_id: int, *, can_batch: bool = True) -> list[Command]:
        """A replica is loaded and warmed now; returns what the second step says."""
        replica = ReplicaId(replica_id)
        self.handle(ReplicaLoaded(replica_id=replica, can_batch=can_batch))
        return self.handle(ReplicaWarmed(replica_id=replica))

    def drain(self) -> None:
        """Finish batches and let time pass until every request has ended.

        Raises:
            InvariantError: a request is left that nothing will ever end.
        """
        for _ in range(_STEPS_MAX):
            if not self.kernel.ledger.live:
                return
            batch_id = min(self.kernel.fleet.batches, default=None)
            if batch_id is not None:
                self.finishes(batch_id)
            elif self.kernel.armed_at_ns is not None:
                self.wakes(at=max(self.now_ns, self.kernel.armed_at_ns))
            else:
                break
        raise InvariantError(f"requests {sorted(self.kernel.ledger.live)} will never be answered")


def without_timers(commands: Sequence[Command]) -> list[Command]:
    """What was said besides `SetTimer`, for tests of something else."""
    return [command for command in commands if not isinstance(command, SetTimer)]


def dispatched(commands: Sequence[Command]) -> list[tuple[RequestId, ...]]:
    """The members of each batch that was started, in order."""
    return [command.request_ids for command in commands if isinstance(command, Dispatch)]


def _ns(span: Span) -> int:
    return span if isinstance(span, int) else parse_duration_ns(span)


def _refuse_unknown(said: Mapping[str, object], words: type) -> None:
    """A word that nobody reads would make a test say one thing and check another.

    Raises:
        TypeError: naming the word.
    """
    unknown = sorted(said.keys() - words.__annotations__.keys())
    if unknown:
        raise TypeError(f"`{unknown[0]}` is none of {', '.join(words.__annotations__)}")


def _bytes(size: Size) -> int:
    return size if isinstance(size, int) else parse_bytes(size)
