"""Prometheus metrics from kernel steps.

Counting costs about a microsecond a step: plain integers and a bisection, no metric objects. The
exposition is built when it is asked for, by prometheus_client, from what was counted. Every series
of a known model exists at 0 from the start, and labels are bounded: names that nobody configured
are counted under `unknown`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from headway.core import (
    BatchFailed,
    BatchFinished,
    BatchId,
    Cancel,
    Command,
    Complete,
    Dispatch,
    Event,
    Expire,
    ExpireReason,
    Fail,
    KeepSegment,
    Kernel,
    ModelLoadRequested,
    ModelName,
    Reject,
    RejectReason,
    ReplicasLost,
    ReplicaState,
    Request,
    RequestArrived,
    RequestId,
    TierName,
)
from headway.observe.histogram import Histogram, histogram_family
from headway.observe.loop import LoopTimes
from headway.observe.prediction import PredictionScore, prediction_families
from headway.observe.shapes import BatchShapes
from headway.units import NS_PER_S

__all__ = ["Metrics"]

_SECONDS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
_ROWS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_UNKNOWN: Final = "unknown"
_MODELS_MAX: Final = 256
"""Models with series of their own, over the life of the server."""
_FAIL_REASONS: Final = ("executor_failed", "out_of_memory", "worker_lost", "load_failed", "other")
_OUTCOMES: Final[tuple[tuple[str, str], ...]] = (
    ("completed", ""),
    ("cancelled", ""),
    *(("rejected", str(reason)) for reason in RejectReason),
    *(("expired", str(reason)) for reason in ExpireReason),
    *(("failed", reason) for reason in _FAIL_REASONS),
)
_STAGES: Final = ("transfer_in", "execution", "transfer_out")


class _Series:
    """All that is counted for one model in one tier."""

    __slots__ = (
        "late",
        "latency",
        "latency_predictions",
        "outcomes",
        "queue_delay",
        "service",
        "service_predictions",
        "violations",
        "waiting",
    )

    def __init__(self) -> None:
        self.outcomes: dict[tuple[str, str], int] = dict.fromkeys(_OUTCOMES, 0)
        self.violations = 0
        self.late = 0
        self.queue_delay = Histogram(_SECONDS)
        self.service = Histogram(_SECONDS)
        self.latency = Histogram(_SECONDS)
        self.latency_predictions = PredictionScore()
        """Of requests, as foreseen when they were admitted."""
        self.service_predictions = PredictionScore()
        """Of batches, as expected when they were dispatched; by the tier of the first member."""
        self.waiting: dict[RequestId, int] = {}
        """Arrival instants of what waits now. A large body arrives early and is handed on late, so
        the first is not always the oldest."""


_PER_TIER: Final[tuple[tuple[str, str, Callable[[_Series], Histogram]], ...]] = (
    ("queue_delay", "Arrival to first dispatch.", lambda s: s.queue_delay),
    ("service", "Dispatch to executor done.", lambda s: s.service),
    ("latency", "Arrival to reply, completed requests.", lambda s: s.latency),
)


class _ModelSeries:
    """What is counted for a model whatever the tier."""

    __slots__ = ("batches", "batches_failed", "rows", "segments", "stages")

    def __init__(self) -> None:
        self.batches = 0
        self.batches_failed = 0
        self.segments = 0
        self.rows = Histogram(_ROWS)
        self.stages = {stage: Histogram(_SECONDS) for stage in _STAGES}


class _Live(Struct, frozen=True, gc=False):
    """A request that has not ended."""

    request: Request
    series: _Series
    admitted_at_ns: int
    """From here on a prediction of it counts."""


class _Running(Struct, frozen=True, gc=False):
    """A batch that has not ended."""

    dispatch: Dispatch
    started_at_ns: int
    predictions: PredictionScore


class Metrics(Collector):
    """An observer of kernel steps and a Prometheus collector.

    Args:
        kernel: read for what is true now: slots, replicas.
        now_ns: the engine's clock, for ages.
        tiers: every configured tier.
        is_emulated: the devices are emulated, and so is every time that is measured here.
    """

    def __init__(
        self,
        kernel: Kernel,
        now_ns: Callable[[], int],
        tiers: Iterable[TierName],
        *,
        is_emulated: bool = False,
    ) -> None:
        self._kernel = kernel
        self._now_ns = now_ns
        self._tiers = tuple(tiers)
        self._is_emulated = is_emulated
        self._series: dict[tuple[str, str], _Series] = {}
        self._models: dict[str, _ModelSeries] = {}
        self._live: dict[RequestId, _Live] = {}
        self._batches: dict[BatchId, _Running] = {}
        self._losses = 0
        self._shapes = BatchShapes()
        self.loop = LoopTimes()
        """To be told by the driver how it fares."""
        self._answers: Mapping[int, int] = {}
        # Looked up by type, which is cheaper than asking for one type after another.
        self._on_event: dict[type[Event], Callable[[Any, int], None]] = {
            RequestArrived: self._arrived,
            BatchFinished: self._finished,
            BatchFailed: self._failed,
            ReplicasLost: self._lost,
            ModelLoadRequested: lambda event, _: self.know(event.model.name),
        }
        self._on_command: dict[type[Command], Callable[[Any, int], None]] = {
            Complete: self._completed,
            Dispatch: self._dispatched,
            KeepSegment: self._waits_again,
            Reject: self._rejected,
            Expire: self._expired,
            Cancel: self._cancelled,
            Fail: self._request_failed,
        }
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        self.know(ModelName(_UNKNOWN))

    def know(self, model: ModelName) -> None:
        """Have every series of a model exist at 0; too many models are counted as unknown."""
        if len(self._models) > _MODELS_MAX:
            return
        self._models.setdefault(model, _ModelSeries())
        self._shapes.know(model)
        for tier in self._tiers:
            self._series.setdefault((model, tier), _Series())

    def count_answers(self, answers: Mapping[int, int]) -> None:
        """Export a frontend's live table of answers by status.

        It has what no kernel step shows: requests that could not be decoded, or named no model.
        """
        self._answers = answers

    def text(self) -> bytes:
        """The exposition, in Prometheus' text format 0.0.4."""
        return generate_latest(self._registry)

    def __call__(self, now_ns: int, event: Event, commands: list[Command]) -> None:
        """Take one kernel step."""
        self._shapes(event, commands)
        on_event = self._on_event.get(type(event))
        if on_event is not None:
            on_event(event, now_ns)
        for command in commands:
            on_command = self._on_command.get(type(command))
            if on_command is not None:
                on_command(command, now_ns)

    def _arrived(self, event: RequestArrived, now_ns: int) -> None:
        request = event.request
        series = self._series.get((request.model, request.tier))
        if series is None:
            series = self._series[_UNKNOWN, self._tiers[0]]
        self._live[request.request_id] = _Live(request, series, now_ns)
        series.waiting[request.request_id] = request.arrived_at_ns

    def _dispatched(self, command: Dispatch, now_ns: int) -> None:
        for request_id in command.request_ids:
            del self._live[request_id].series.waiting[request_id]
        model = self._of_model(command.model)
        model.batches += 1
        model.segments += command.is_segment
        model.rows.add(command.rows)
        predictions = self._live[command.request_ids[0]].series.service_predictions
        self._batches[command.batch_id] = _Running(command, now_ns, predictions)

    def _waits_again(self, command: KeepSegment, _: int) -> None:
        live = self._live[command.request_id]
        live.series.waiting[command.request_id] = live.request.arrived_at_ns

    def _finished(self, event: BatchFinished, now_ns: int) -> None:
        batch = self._batches.pop(event.batch_id, None)
        if batch is None:
            return
        dispatch = batch.dispatch
        if dispatch.bound_ns:
            service_ns = now_ns - batch.started_at_ns
            batch.predictions.add(dispatch.expected_ns, dispatch.bound_ns, service_ns)
        stages = self._of_model(dispatch.model).stages
        stages["transfer_in"].add(event.transfer_in_ns / NS_PER_S)
        stages["execution"].add(event.execution_ns / NS_PER_S)
        stages["transfer_out"].add(event.transfer_out_ns / NS_PER_S)

    def _failed(self, event: BatchFailed, _: int) -> None:
        batch = self._batches.pop(event.batch_id, None)
        if batch is not None and event.code != "cancelled":
            self._of_model(batch.dispatch.model).batches_failed += 1

    def _lost(self, event: ReplicasLost, _: int) -> None:
        self._losses += 1
        running = [batch.dispatch for batch in self._batches.values()]
        for batch in [b for b in running if b.replica_id in event.replica_ids]:
            del self._batches[batch.batch_id]
            self._of_model(batch.model).batches_failed += 1

    def _of_model(self, model: ModelName) -> _ModelSeries:
        return self._models.get(model) or self._models[_UNKNOWN]

    def _completed(self, command: Complete, now_ns: int) -> None:
        live = self._live.pop(command.request_id)
        request, series = live.request, live.series
        latency_ns = now_ns - request.arrived_at_ns
        series.outcomes["completed", ""] += 1
        is_late = latency_ns > request.budget_ns
        series.violations += is_late
        series.late += is_late
        series.queue_delay.add(command.queue_delay_ns / NS_PER_S)
        series.service.add(command.service_ns / NS_PER_S)
        series.latency.add(latency_ns / NS_PER_S)
        foreseen = command.foreseen
        if foreseen.bound_ns:
            took_ns = now_ns - live.admitted_at_ns
            series.latency_predictions.add(foreseen.mean_ns, foreseen.bound_ns, took_ns)

    def _rejected(self, command: Reject, _: int) -> None:
        self._ended(command.request_id, ("rejected", command.reason)).series.violations += 1

    def _expired(self, command: Expire, now_ns: int) -> None:
        live = self._ended(command.request_id, ("expired", command.reason))
        live.series.violations += 1
        if 0 < command.foreseen.bound_ns < now_ns - live.admitted_at_ns:
            live.series.latency_predictions.miss()

    def _cancelled(self, command: Cancel, _: int) -> None:
        self._ended(command.request_id, ("cancelled", ""))

    def _request_failed(self, command: Fail, _: int) -> None:
        code = command.code if command.code in _FAIL_REASONS else "other"
        self._ended(command.request_id, ("failed", code)).series.violations += 1

    def _ended(self, request_id: RequestId, outcome: tuple[str, str]) -> _Live:
        live = self._live.pop(request_id)
        live.series.waiting.pop(request_id, None)
        live.series.outcomes[outcome] += 1
        return live

    # The collector's side: what Prometheus sees.

    def collect(self) -> Iterator[Metric]:
        """Everything, as metric families."""
        yield from self._queues()
        yield from self._requests()
        yield from self._histograms()
        yield from prediction_families(
            {
                (*labels, of): score
                for labels, series in self._series.items()
                for of, score in (
                    ("service", series.service_predictions),
                    ("latency", series.latency_predictions),
                )
            }
        )
        yield from self._batch_families()
        yield from self._shapes.families()
        yield from self.loop.families()
        yield from self._fleet()
        answers = CounterMetricFamily(
            "headway_http_answers",
            "HTTP answers by status, of all paths; 499 for clients that left before theirs.",
            labels=("status",),
        )
        for status, count in sorted(self._answers.items()):
            answers.add_metric((str(status),), count)
        yield answers

    def _queues(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily(
            "headway_queue_depth", "Requests that wait now.", labels=("model", "tier")
        )
        age = GaugeMetricFamily(
            "headway_queue_oldest_age_seconds",
            "How long the oldest waiting request has waited; 0 with none.",
            labels=("model", "tier"),
        )
        now_ns = self._now_ns()
        for labels, series in self._series.items():
            oldest_at_ns = min(series.waiting.values(), default=now_ns)
            depth.add_metric(labels, len(series.waiting))
            age.add_metric(labels, max(0, now_ns - oldest_at_ns) / NS_PER_S)
        yield depth
        yield age

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "headway_requests",
            "Requests by how they ended, and why where there is a reason.",
            labels=("model", "tier", "outcome", "reason"),
        )
        violations = CounterMetricFamily(
            "headway_deadline_violations",
            "Requests that were not completed within their budget, refused ones included.",
            labels=("model", "tier"),
        )
        late = CounterMetricFamily(
            "headway_late_answers",
            "Requests that were completed after their deadline; each is a violation too.",
            labels=("model", "tier"),
        )
        for labels, series in self._series.items():
            violations.add_metric(labels, series.violations)
            late.add_metric(labels, series.late)
            for outcome, count in series.outcomes.items():
                requests.add_metric((*labels, *outcome), count)
        yield requests
        yield violations
        yield late

    def _histograms(self) -> Iterator[Metric]:
        for name, text, of in _PER_TIER:
            yield histogram_family(
                f"headway_{name}_seconds",
                text,
                ("model", "tier"),
                {labels: of(series) for labels, series in self._series.items()},
            )

    def _batch_families(self) -> Iterator[Metric]:
        batches = CounterMetricFamily("headway_batches", "Batches started.", labels=("model",))
        failed = CounterMetricFamily(
            "headway_batches_failed", "Batches that raised or were lost.", labels=("model",)
        )
        segments = CounterMetricFamily(
            "headway_segments",
            "Batches started that were some rows of one request and not all of them.",
            labels=("model",),
        )
        for model, series in self._models.items():
            batches.add_metric((model,), series.batches)
            segments.add_metric((model,), series.segments)
            failed.add_metric((model,), series.batches_failed)
        yield batches
        yield segments
        yield failed
        yield histogram_family(
            "headway_batch_rows",
            "Rows of a batch.",
            ("model",),
            {(model,): series.rows for model, series in self._models.items()},
        )
        yield histogram_family(
            "headway_stage_seconds",
            "Time of a batch in each stage of execution.",
            ("model", "stage"),
            {
                (model, stage): histogram
                for model, series in self._models.items()
                for stage, histogram in series.stages.items()
            },
        )

    def _fleet(self) -> Iterator[Metric]:
        fleet = self._kernel.fleet
        slots = GaugeMetricFamily("headway_slots", "Slots of a device.", labels=("device",))
        busy = GaugeMetricFamily(
            "headway_slots_busy", "Slots that run a batch now.", labels=("device",)
        )
        for device in fleet.devices.values():
            slots.add_metric((device.name,), len(device.slots))
            busy.add_metric((device.name,), len(device.slots) - device.free)
        yield slots
        yield busy
        yield GaugeMetricFamily(
            "headway_emulated",
            "1 where devices are emulated: then no time here was measured on a real one.",
            value=int(self._is_emulated),
        )
        replicas = GaugeMetricFamily(
            "headway_replicas", "Replicas by state.", labels=("model", "state")
        )
        for model in self._models:
            states = [r.state for r in fleet.by_model.get(ModelName(model), ())]
            for state in ReplicaState:
                replicas.add_metric((model, state), states.count(state))
        yield replicas
        losses = CounterMetricFamily("headway_worker_losses", "Worker processes that died.")
        losses.add_metric((), self._losses)
        yield losses
