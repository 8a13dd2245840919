"""Batches of a model: how many, how full, how long in each stage, and what shapes cost them.

Padding is what was run for nothing. A batch is cut by what kept a waiting request of the same model
out of it: another version asked for, another shape, other parameters; or, where one of its own
bucket still waits, its rows, because the policy chose fewer or the next request did not fit.

Knows Records. Refuses to know tensors: what is padding a request says itself.

Cost: a few dictionary operations for each request that comes to wait or ceases to.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from prometheus_client.core import CounterMetricFamily, Metric

from headway.core import (
    BatchFinished,
    BucketDifference,
    BucketKey,
    Dispatch,
    ModelParams,
    Request,
    bucket_difference,
)
from headway.observe.histogram import Durations, Histogram, histogram_family

__all__ = ["ModelCounts", "batch_families", "cut_reasons"]

_LABELS: Final = ("model",)
_ROWS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_FILLS: Final = (0.1, 0.25, 0.5, 0.7, 0.9, 1.0)
_STAGES: Final = ("transfer_in", "execution", "transfer_out")
_BY_ROWS: Final = "rows"
_REASONS: Final = (*map(str, BucketDifference), _BY_ROWS)
_BUCKETS_MAX: Final = 8
"""Buckets of a model that are looked at when one of its batches starts."""


class ModelCounts:
    """What is counted for a model whatever the tier.

    Args:
        is_stranger: it stands for all that nobody configured, whose batches cut nothing.

    Invariants: `_waiting` has the number of its requests that wait, by bucket; no bucket with none.
    """

    __slots__ = (
        "_waiting",
        "batches",
        "batches_failed",
        "cuts",
        "execution",
        "execution_ns_by_request",
        "fill",
        "input_bytes",
        "is_stranger",
        "padding_bytes",
        "rows",
        "segments",
        "transfer_in",
        "transfer_in_ns_by_request",
        "transfer_out",
        "transfer_out_ns_by_request",
    )

    def __init__(self, *, is_stranger: bool = False) -> None:
        self.is_stranger = is_stranger
        self.batches = 0
        self.batches_failed = 0
        self.segments = 0
        self.rows = Histogram(_ROWS)
        self.fill = Histogram(_FILLS)
        self.transfer_in = Durations()
        self.execution = Durations()
        self.transfer_out = Durations()
        self.transfer_in_ns_by_request = 0
        """As if each request of a batch had taken all of its time; so are the next two."""
        self.execution_ns_by_request = 0
        self.transfer_out_ns_by_request = 0
        self.cuts = dict.fromkeys(_REASONS, 0)
        self.input_bytes = 0
        self.padding_bytes = 0
        self._waiting: dict[BucketKey, int] = {}

    def wait(self, bucket: BucketKey) -> None:
        """One more of its requests waits."""
        self._waiting[bucket] = self._waiting.get(bucket, 0) + 1

    def leave(self, bucket: BucketKey) -> None:
        """One of them waits no longer."""
        left = self._waiting[bucket] - 1
        if left:
            self._waiting[bucket] = left
        else:
            del self._waiting[bucket]

    def started(self, dispatch: Dispatch, members: Sequence[Request], params: ModelParams) -> None:
        """A batch starts, and its members wait no longer.

        Args:
            dispatch: the batch.
            members: its requests.
            params: what the model is served with now. What a load was asked for with is not it: the
                load may take minutes, and fail.
        """
        rows, rows_max = dispatch.rows, params.batch_rows_max
        has_room = params.can_batch and rows < rows_max
        self.batches += 1
        self.rows.add(rows)
        self.fill.add(rows / rows_max if has_room else 1.0)
        if dispatch.is_segment:
            self._segment(dispatch, members[0])
        else:
            for request in members:
                self.input_bytes += request.payload_bytes
                self.padding_bytes += request.padding_bytes
        if has_room and self._waiting and not self.is_stranger:
            for reason in cut_reasons(members[0].bucket, self._waiting):
                self.cuts[reason] += 1

    def ran(self, event: BatchFinished, wanted_count: int) -> None:
        """A batch has run to its end, and so many of its requests wait for that."""
        self.transfer_in.add(event.transfer_in_ns)
        self.execution.add(event.execution_ns)
        self.transfer_out.add(event.transfer_out_ns)
        self.transfer_in_ns_by_request += event.transfer_in_ns * wanted_count
        self.execution_ns_by_request += event.execution_ns * wanted_count
        self.transfer_out_ns_by_request += event.transfer_out_ns * wanted_count

    @property
    def stages(self) -> dict[str, Durations]:
        """Times of its batches by stage."""
        return dict(
            zip(_STAGES, (self.transfer_in, self.execution, self.transfer_out), strict=True)
        )

    def _segment(self, dispatch: Dispatch, request: Request) -> None:
        """Its part of a request's bytes."""
        self.segments += 1
        self.input_bytes += request.payload_bytes * dispatch.rows // request.rows
        self.padding_bytes += request.padding_bytes * dispatch.rows // request.rows


def cut_reasons(own: BucketKey, waiting: Iterable[BucketKey]) -> set[str]:
    """What kept requests of the same model, that wait in these buckets, out of a batch of this one.

    The first few buckets are looked at.
    """
    return {
        _BY_ROWS if bucket == own else str(bucket_difference(own, bucket))
        for bucket in islice(waiting, _BUCKETS_MAX)
    }


_COUNTERS: Final = (
    ("batches", "Batches started.", "batches"),
    (
        "segments",
        "Batches started that were some rows of one request and not all of them.",
        "segments",
    ),
    ("batches_failed", "Batches that raised or were lost.", "batches_failed"),
    (
        "batch_input_bytes",
        "Bytes of input that batches ran with, padding included.",
        "input_bytes",
    ),
    (
        "batch_padding_bytes",
        "Bytes of padding that batches ran with; over `headway_batch_input_bytes_total` this is"
        " the waste.",
        "padding_bytes",
    ),
)


def batch_families(models: Mapping[str, ModelCounts]) -> Iterator[Metric]:
    """What was counted for each model, as metric families."""
    for name, text, field in _COUNTERS:
        counter = CounterMetricFamily(f"headway_{name}", text, labels=_LABELS)
        for model, counts in models.items():
            counter.add_metric((model,), getattr(counts, field))
        yield counter
    yield histogram_family(
        "headway_batch_rows",
        "Rows of a batch.",
        _LABELS,
        {(model,): counts.rows for model, counts in models.items()},
    )
    yield histogram_family(
        "headway_batch_fill_ratio",
        "Rows of a batch over the rows that its model takes at most.",
        _LABELS,
        {(model,): counts.fill for model, counts in models.items()},
    )
    yield histogram_family(
        "headway_stage_seconds",
        "Time of a batch in each stage of execution.",
        (*_LABELS, "stage"),
        {
            (model, stage): times
            for model, counts in models.items()
            for stage, times in counts.stages.items()
        },
    )
    cuts = CounterMetricFamily(
        "headway_batches_cut",
        "Batches with fewer rows than the model takes that started while more of it waited, by"
        " what kept those out; a batch counts once for each reason.",
        labels=(*_LABELS, "reason"),
    )
    for model, counts in models.items():
        for reason, count in counts.cuts.items():
            cuts.add_metric((model, reason), count)
    yield cuts
