"""Prometheus metrics from kernel steps.

Counting costs a few microseconds a request, as `benchmarks/metrics_cost.py` measures: plain
integers and bisections, no metric objects. The exposition is built when it is asked for, by
prometheus_client, from what was counted. Every series of a known model exists at 0 from the start,
and labels are bounded: names that nobody configured are counted under `unknown`.

This file has what happens at each step; what is counted then, and how it is exported, is in a file
for each of requests, batches and the time of devices.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
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
    Fail,
    KeepSegment,
    Kernel,
    ModelLoadRequested,
    ModelName,
    Reject,
    ReplicasLost,
    ReplicaState,
    RequestArrived,
    RequestId,
    TenantId,
    TierName,
    TimerFired,
)
from headway.observe.aliases import triton_families, vllm_families
from headway.observe.answers import AnswerFamilies
from headway.observe.attainment import TenantTiers, tier_families
from headway.observe.batches import ModelCounts, batch_families
from headway.observe.device_time import FAILED, GONE, LATE, Cell, DeviceTime, waste
from headway.observe.devices import DeviceFamilies
from headway.observe.exposition import exposition
from headway.observe.generators import GeneratorMetrics
from headway.observe.glance import Kept
from headway.observe.histogram import SECONDS
from headway.observe.loop import LoopTimes
from headway.observe.pipelines import PipelineMetrics
from headway.observe.prediction import PredictionScore
from headway.observe.requests import FAIL_REASONS, Live, Series, request_families
from headway.observe.tenants import TenantCounts, TenantFamilies
from headway.observe.waits import EstimatedWaits, TierTerms

__all__ = ["Metrics"]

_UNKNOWN: Final = ModelName("unknown")
_MODELS_MAX: Final = 256
"""Models with series of their own, over the life of the server."""
_NO_TARGETS: Final[Mapping[TierName, float]] = MappingProxyType({})
_COMPLETED: Final = ("completed", "")
_CANCELLED: Final = ("cancelled", "")


class _Running(Struct, frozen=True, gc=False):
    """A batch that has not ended."""

    dispatch: Dispatch
    started_at_ns: int
    members: list[Live]
    predictions: PredictionScore


class Metrics(Collector):
    """An observer of kernel steps and a Prometheus collector.

    Args:
        kernel: read for what is true now, and asked what it would say.
        now_ns: the engine's clock, for ages.
        tiers: every configured tier.
        targets: the part of each tier's requests that is to be met.
        aliases: other servers under whose names some of it is exported too: `triton`, `vllm`.
        is_emulated: the devices are emulated, and so is every time that is measured here.

    Invariants: `_live` has every request that has arrived and not ended, `_batches` every batch
    that has started and not ended.
    """

    def __init__(
        self,
        kernel: Kernel,
        now_ns: Callable[[], int],
        tiers: Mapping[TierName, TierTerms],
        *,
        targets: Mapping[TierName, float] = _NO_TARGETS,
        aliases: Iterable[str] = (),
        is_emulated: bool = False,
    ) -> None:
        self._kernel = kernel
        self._now_ns = now_ns
        self._tiers = dict(tiers)
        self._targets = dict(targets)
        self._aliases = frozenset(aliases)
        self._is_emulated = is_emulated
        self._series: dict[tuple[str, str], Series] = {}
        self._models: dict[str, ModelCounts] = {}
        self._live: dict[RequestId, Live] = {}
        self._batches: dict[BatchId, _Running] = {}
        self._losses = 0
        self._device_time = DeviceTime()
        self._waits = EstimatedWaits(kernel, now_ns, self._tiers)
        self.loop = LoopTimes()
        """To be told by the driver how it fares."""
        self.pipelines = PipelineMetrics(tuple(self._tiers), SECONDS)
        """To be told by pipelines."""
        self.generators = GeneratorMetrics(tuple(self._tiers))
        """To be told by generators."""
        self.devices = DeviceFamilies()
        """To be told where readings of devices and workers are."""
        self._frontends = AnswerFamilies()
        self._tenants: TenantFamilies | None = None
        self._tenant_tiers: TenantTiers | None = None
        # Looked up by type, which is cheaper than asking for one type after another.
        self._on_event: dict[type[Event], Callable[[Any, int], None]] = {
            RequestArrived: self._arrived,
            BatchFinished: self._finished,
            BatchFailed: self._failed,
            TimerFired: self._woke,
            ReplicasLost: self._lost,
            ModelLoadRequested: self._asked,
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
        self.know(_UNKNOWN)
        self._strangers = self._series[_UNKNOWN, next(iter(self._tiers))]
        """Of no configured tier, which none of a server's requests is."""

    def know(self, model: ModelName) -> None:
        """Have every series of a model exist at 0; too many models are counted as unknown."""
        if len(self._models) > _MODELS_MAX:
            return
        if model not in self._models:
            counts = self._models[model] = ModelCounts(is_stranger=model == _UNKNOWN)
            for tier in self._tiers:
                self._series[model, tier] = Series(counts)

    def count_answers(self, answers: Mapping[int, int]) -> None:
        """Export a frontend's live table of answers by status.

        It has what no kernel step shows: requests that could not be decoded, or named no model.
        """
        self._frontends.http = answers

    def count_tenants(
        self,
        counts: Callable[[], Mapping[TenantId, TenantCounts]],
        in_flight: Callable[[], Mapping[TenantId, int]],
    ) -> None:
        """Export what is counted for each tenant, by who knows them, and how each fares."""
        self._tenants = TenantFamilies(counts, in_flight)
        self._tenant_tiers = TenantTiers(counts, self._tiers)

    def count_grpc(self, answers: Mapping[str, int], streamed: Callable[[], int]) -> None:
        """Export the gRPC interface's live table of answers, and its streams' requests under way.

        Args:
            answers: by the name of their status code.
            streamed: how many requests of streams have no answer yet.
        """
        self._frontends.grpc, self._frontends.streamed = answers, streamed

    def kept(self) -> dict[str, Kept]:
        """By tier: what ended so far, and what of it in time; taken back requests are neither."""
        sums = {tier: [0, 0] for tier in self._tiers}
        for (_, tier), series in self._series.items():
            ended = sum(series.outcomes.values()) - series.outcomes[_CANCELLED]
            sums[TierName(tier)][0] += ended
            sums[TierName(tier)][1] += ended - series.violations
        return {tier: Kept(*of) for tier, of in sums.items()}

    def text(self, *, is_openmetrics: bool = False) -> Iterator[bytes]:
        """The exposition, in Prometheus' text format 0.0.4 or in that of OpenMetrics 1.0.

        All of it is what holds now; the pieces are written as they are asked for, none of them for
        long.
        """
        return exposition(list(self._registry.collect()), is_openmetrics=is_openmetrics)

    def __call__(self, now_ns: int, event: Event, commands: list[Command]) -> None:
        """Take one kernel step."""
        on_event = self._on_event.get(type(event))
        if on_event is not None:
            on_event(event, now_ns)
        for command in commands:
            on_command = self._on_command.get(type(command))
            if on_command is not None:
                on_command(command, now_ns)

    # Requests come, wait, and end.

    def _arrived(self, event: RequestArrived, now_ns: int) -> None:
        request = event.request
        series = self._series.get((request.model, request.tier))
        if series is None:
            series = self._series.get((_UNKNOWN, request.tier), self._strangers)
        series.arrived += 1
        series.in_flight += 1
        series.waiting += 1
        series.last = request
        series.model.wait(request.bucket)
        self._live[request.request_id] = Live(request, series, now_ns)

    def _waits_again(self, command: KeepSegment, _: int) -> None:
        live = self._live[command.request_id]
        live.is_waiting = True
        live.series.waiting += 1
        live.series.model.wait(live.request.bucket)

    def _woke(self, _: TimerFired, __: int) -> None:
        for request in self._kernel.promoted:
            live = self._live.get(request.request_id)
            if live is not None:
                live.series.promotions += 1

    def _completed(self, command: Complete, now_ns: int) -> None:
        live = self._live.pop(command.request_id)
        request, series = live.request, live.series
        latency_ns = now_ns - request.arrived_at_ns
        is_late = latency_ns > request.budget_ns
        series.in_flight -= 1
        series.outcomes[_COMPLETED] += 1
        if is_late:
            series.violations += 1
            series.late += 1
            waste(live, LATE)
        series.queue_delay.add(command.queue_delay_ns)
        series.service.add(command.service_ns)
        series.latency.add(latency_ns)
        foreseen = command.foreseen
        if foreseen.bound_ns:
            took_ns = now_ns - live.admitted_at_ns
            series.latency_predictions.add(foreseen.mean_ns, foreseen.bound_ns, took_ns)
        if self._tenant_tiers is not None:
            self._tenant_tiers.ended(request, is_violation=is_late)

    def _rejected(self, command: Reject, _: int) -> None:
        self._violated(command.request_id, ("rejected", command.reason), FAILED)

    def _expired(self, command: Expire, now_ns: int) -> None:
        live = self._violated(command.request_id, ("expired", command.reason), LATE)
        if 0 < command.foreseen.bound_ns < now_ns - live.admitted_at_ns:
            live.series.latency_predictions.miss()

    def _cancelled(self, command: Cancel, _: int) -> None:
        self._ended(command.request_id, _CANCELLED, GONE)

    def _request_failed(self, command: Fail, _: int) -> None:
        code = command.code if command.code in FAIL_REASONS else "other"
        self._violated(command.request_id, ("failed", code), FAILED)

    def _violated(self, request_id: RequestId, outcome: tuple[str, str], fate: str) -> Live:
        """It was not completed, and its client knows."""
        live = self._ended(request_id, outcome, fate)
        live.series.violations += 1
        if self._tenant_tiers is not None:
            self._tenant_tiers.ended(live.request, is_violation=True)
        return live

    def _ended(self, request_id: RequestId, outcome: tuple[str, str], fate: str) -> Live:
        live = self._live.pop(request_id)
        series = live.series
        series.in_flight -= 1
        series.outcomes[outcome] += 1
        if live.is_waiting:
            live.is_waiting = False
            series.waiting -= 1
            series.model.leave(live.request.bucket)
        waste(live, fate)
        return live

    # Batches start and end.

    def _dispatched(self, command: Dispatch, now_ns: int) -> None:
        members = [self._live[request_id] for request_id in command.request_ids]
        for live in members:
            live.is_waiting = False
            live.series.waiting -= 1
            live.series.model.leave(live.request.bucket)
        series = members[0].series
        params = self._kernel.queues[command.model].params
        series.model.started(command, [live.request for live in members], params)
        self._batches[command.batch_id] = _Running(
            command, now_ns, members, series.service_predictions
        )

    def _finished(self, event: BatchFinished, now_ns: int) -> None:
        batch = self._batches.pop(event.batch_id, None)
        if batch is None:
            return
        dispatch = batch.dispatch
        service_ns = now_ns - batch.started_at_ns
        wanted_count = self._device_time.ran(dispatch, batch.members, service_ns)
        if dispatch.bound_ns:
            batch.predictions.add(dispatch.expected_ns, dispatch.bound_ns, service_ns)
        batch.members[0].series.model.ran(event, wanted_count)

    def _failed(self, event: BatchFailed, now_ns: int) -> None:
        batch = self._batches.pop(event.batch_id, None)
        if batch is not None:
            self._came_to_nothing(batch, now_ns, is_failure=event.code != "cancelled")

    def _lost(self, event: ReplicasLost, now_ns: int) -> None:
        self._losses += 1
        running = [(batch_id, batch.dispatch) for batch_id, batch in self._batches.items()]
        for batch_id, dispatch in running:
            if dispatch.replica_id in event.replica_ids:
                self._came_to_nothing(self._batches.pop(batch_id), now_ns, is_failure=True)

    def _came_to_nothing(self, batch: _Running, now_ns: int, *, is_failure: bool) -> None:
        self._device_time.ran(batch.dispatch, batch.members, now_ns - batch.started_at_ns)
        batch.members[0].series.model.batches_failed += is_failure

    # Models come.

    def _asked(self, event: ModelLoadRequested, _: int) -> None:
        params = event.model
        self.know(params.name)
        if params.name not in self._models:
            return
        for tier in self._tiers:
            cells = self._series[params.name, tier].cells
            for device in params.devices:
                cells.setdefault(device, Cell())

    # The collector's side: what Prometheus sees.

    def collect(self) -> Iterator[Metric]:
        """Everything, as metric families."""
        now_ns = self._now_ns()
        yield from request_families(self._series, self._live.values(), now_ns)
        yield from self._waits.families(self._series)
        yield from tier_families(self._tiers, self._targets)
        yield from batch_families(self._models)
        yield from self._device_time.families(
            self._series, self._kernel.fleet.devices, self._running(), now_ns
        )
        yield from self.loop.families()
        yield from self.pipelines.families()
        yield from self.generators.families()
        yield from self._fleet()
        yield from self.devices.families()
        yield from self._frontends()
        if self._tenants is not None:
            yield from self._tenants()
        if self._tenant_tiers is not None:
            yield from self._tenant_tiers.families(self._live.values(), now_ns)
        yield from self._as_others_say()

    def _as_others_say(self) -> Iterator[Metric]:
        queues = self._kernel.queues
        if "triton" in self._aliases:
            versions = {str(name): queue.params.version for name, queue in queues.items()}
            yield from triton_families(self._series, versions, self.devices.look().readings)
        if "vllm" in self._aliases:
            yield from vllm_families(self._series, queues, self.generators)

    def _running(self) -> Iterable[tuple[str, int]]:
        return ((each.dispatch.device, each.started_at_ns) for each in self._batches.values())

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
