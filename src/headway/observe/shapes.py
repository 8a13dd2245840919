"""What shapes cost: padding that was run, and batches that stayed small because others differed.

Knows Records. Refuses to know tensors: what is padding a request says itself. A batch is cut by
what kept a waiting request of the same model out of it: another version asked for, another shape,
other parameters; or, where one of its own bucket still waits, its rows, because the policy chose
fewer or the next request did not fit.

Cost: some dictionary operations for each event of a request. It holds live requests only.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from prometheus_client.core import CounterMetricFamily, Metric

from headway.core import (
    BucketDifference,
    BucketKey,
    Cancel,
    Command,
    Complete,
    Dispatch,
    Event,
    Expire,
    Fail,
    KeepSegment,
    LoadReplica,
    ModelLoadRequested,
    ModelName,
    Reject,
    ReplicaId,
    ReplicaLoaded,
    ReplicaLoadFailed,
    Request,
    RequestArrived,
    RequestId,
    bucket_difference,
)

__all__ = ["BatchShapes"]

_ROWS: Final = "rows"
_REASONS: Final = (*map(str, BucketDifference), _ROWS)
_BUCKETS_MAX: Final = 8
"""Buckets of a model that are looked at when one of its batches starts."""


class _Model:
    """What is counted for one model."""

    __slots__ = ("can_batch", "cuts", "input_bytes", "padding_bytes", "rows_max", "waiting")

    def __init__(self) -> None:
        self.can_batch = True
        self.rows_max = 1
        self.cuts = dict.fromkeys(_REASONS, 0)
        self.input_bytes = 0
        self.padding_bytes = 0
        self.waiting: dict[BucketKey, int] = {}
        """Requests that wait, by bucket; no bucket with none."""


class BatchShapes:
    """An observer of kernel steps that counts for the models it is told to know.

    Invariants: a live request is in ``_live``, and counted in its model's ``waiting`` while it
    waits.
    """

    def __init__(self) -> None:
        self._models: dict[str, _Model] = {}
        self._live: dict[RequestId, Request] = {}
        self._waits: set[RequestId] = set()
        self._loading: dict[ReplicaId, ModelName] = {}

    def know(self, model: str) -> None:
        """Have every series of a model exist at 0."""
        self._models.setdefault(model, _Model())

    def __call__(self, event: Event, commands: list[Command]) -> None:
        """Take one kernel step."""
        match event:
            case RequestArrived():
                self._live[event.request.request_id] = event.request
                self._wait(event.request)
            case ModelLoadRequested():
                self._asked(event)
            case ReplicaLoaded():
                self._loaded(event)
            case ReplicaLoadFailed():
                self._loading.pop(event.replica_id, None)
            case _:
                pass
        for command in commands:
            match command:
                case Dispatch():
                    self._dispatched(command)
                case Complete() | Reject() | Expire() | Cancel() | Fail():
                    self._ended(command.request_id)
                case KeepSegment():
                    self._wait(self._live[command.request_id])
                case LoadReplica():
                    self._loading[command.replica_id] = command.model
                case _:
                    pass

    def families(self) -> Iterator[Metric]:
        """What was counted, as metric families."""
        inputs = CounterMetricFamily(
            "headway_batch_input_bytes",
            "Bytes of input that batches ran with, padding included.",
            labels=("model",),
        )
        padding = CounterMetricFamily(
            "headway_batch_padding_bytes",
            "Bytes of padding that batches ran with; over `headway_batch_input_bytes_total` this is"
            " the waste.",
            labels=("model",),
        )
        cuts = CounterMetricFamily(
            "headway_batches_cut",
            "Batches with fewer rows than the model takes that started while more of it waited, by"
            " what kept those out; a batch counts once for each reason.",
            labels=("model", "reason"),
        )
        for name, model in self._models.items():
            inputs.add_metric((name,), model.input_bytes)
            padding.add_metric((name,), model.padding_bytes)
            for reason, count in model.cuts.items():
                cuts.add_metric((name, reason), count)
        yield inputs
        yield padding
        yield cuts

    def _asked(self, event: ModelLoadRequested) -> None:
        model = self._models.get(event.model.name)
        if model is not None:
            model.rows_max = event.model.batch_rows_max
            model.can_batch = event.model.can_batch

    def _loaded(self, event: ReplicaLoaded) -> None:
        name = self._loading.pop(event.replica_id, None)
        model = None if name is None else self._models.get(name)
        if model is not None:
            model.can_batch = model.can_batch and event.can_batch

    def _wait(self, request: Request) -> None:
        self._waits.add(request.request_id)
        model = self._models.get(request.model)
        if model is not None:
            model.waiting[request.bucket] = model.waiting.get(request.bucket, 0) + 1

    def _leave(self, request: Request) -> None:
        """It no longer waits, if it did."""
        if request.request_id not in self._waits:
            return
        self._waits.discard(request.request_id)
        model = self._models.get(request.model)
        if model is None or request.bucket not in model.waiting:
            return  # it came before its model was known
        model.waiting[request.bucket] -= 1
        if not model.waiting[request.bucket]:
            del model.waiting[request.bucket]

    def _ended(self, request_id: RequestId) -> None:
        self._leave(self._live.pop(request_id))

    def _dispatched(self, command: Dispatch) -> None:
        members = [self._live[request_id] for request_id in command.request_ids]
        for request in members:
            self._leave(request)
        model = self._models.get(command.model)
        if model is None:
            return
        for request in members:
            rows = command.rows if command.is_segment else request.rows
            model.input_bytes += request.payload_bytes * rows // request.rows
            model.padding_bytes += request.padding_bytes * rows // request.rows
        if model.can_batch and command.rows < model.rows_max and model.waiting:
            for reason in self._reasons(members[0].bucket, model):
                model.cuts[reason] += 1

    def _reasons(self, own: BucketKey, model: _Model) -> set[str]:
        """What kept others out of a batch of this bucket."""
        return {
            _ROWS if bucket == own else str(bucket_difference(own, bucket))
            for bucket in islice(model.waiting, _BUCKETS_MAX)
        }
