"""What was counted, under the names that other servers have for it.

Dashboards, autoscalers and routers know those names, and go on working with a server that has them.
Only what has the same meaning here is exported; what has none, such as a cache of keys and values
of a model that generates no tokens, is left out and not told as 0.

Knows what is counted. Counts nothing.

Triton's counters have no `_total`, which this library holds to be no counter: they are exported
without a type. Queries do not ask for one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headway.devices import DeviceReading
from headway.observe.generators import GeneratorMetrics, GeneratorNow
from headway.observe.histogram import Durations, Histogram, histogram_family
from headway.observe.requests import Series, SeriesTable

__all__ = ["triton_families", "vllm_families"]

_NS_PER_US: Final = 1_000
_BACKEND_FAILURES: Final = ("executor_failed", "out_of_memory", "worker_lost")
_ENGINE: Final = "0"


class _Model(NamedTuple):
    """A model's series of all tiers."""

    name: str
    all: Sequence[Series]

    def sum(self, value: Callable[[Series], float]) -> float:
        """Over its tiers."""
        return sum([value(series) for series in self.all])

    def ends(self, *outcomes: str, reasons: Sequence[str] | None = None) -> int:
        """Requests that ended so."""
        return sum(
            count
            for series in self.all
            for (outcome, reason), count in series.outcomes.items()
            if outcome in outcomes and (reasons is None or reason in reasons)
        )

    def merged(self, of: Callable[[Series], Durations]) -> Durations:
        """One histogram of all tiers."""
        merged = Durations()
        for series in self.all:
            histogram = of(series)
            merged.counts = [a + b for a, b in zip(merged.counts, histogram.counts, strict=True)]
            merged.total += histogram.total
        return merged


def triton_families(
    table: SeriesTable, versions: Mapping[str, str], readings: Iterable[DeviceReading]
) -> Iterator[Metric]:
    """As Triton Inference Server names them.

    Args:
        table: by model and tier, the tiers of a model in a row.
        versions: that each model serves now; others are left out.
        readings: of devices.
    """
    models = [model for model in _models(table) if model.name in versions]
    for name, text, value in _TRITON:
        family = Metric(f"nv_inference_{name}", text, "unknown")
        for model in models:
            labels = {"model": model.name, "version": versions[model.name]}
            family.add_sample(family.name, labels, value(model))
        yield family
    failures = Metric("nv_inference_request_failure", "Requests that failed.", "unknown")
    for model in models:
        for reason, count in _failures(model).items():
            labels = {"model": model.name, "version": versions[model.name], "reason": reason}
            failures.add_sample(failures.name, labels, count)
    yield failures
    pending = GaugeMetricFamily(
        "nv_inference_pending_request_count",
        "Requests that wait.",
        labels=("model", "version"),
    )
    for model in models:
        pending.add_metric((model.name, versions[model.name]), model.sum(lambda s: s.waiting))
    yield pending
    yield from _triton_devices(list(readings))


_TRITON: Final[tuple[tuple[str, str, Callable[[_Model], float]], ...]] = (
    ("request_success", "Requests that succeeded.", lambda m: m.ends("completed")),
    ("count", "Rows of batches that have started.", lambda m: m.all[0].model.rows.total),
    ("exec_count", "Batches that have started.", lambda m: m.all[0].model.batches),
    (
        "request_duration_us",
        "Arrival to reply of requests that succeeded, added up.",
        lambda m: m.sum(lambda s: s.latency.total) // _NS_PER_US,
    ),
    (
        "queue_duration_us",
        "Arrival to dispatch of requests that succeeded, added up.",
        lambda m: m.sum(lambda s: s.queue_delay.total) // _NS_PER_US,
    ),
    (
        "compute_input_duration_us",
        "Transfer in, added up; a batch counts once for each of its requests.",
        lambda m: m.all[0].model.transfer_in_ns_by_request // _NS_PER_US,
    ),
    (
        "compute_infer_duration_us",
        "Execution, added up; a batch counts once for each of its requests.",
        lambda m: m.all[0].model.execution_ns_by_request // _NS_PER_US,
    ),
    (
        "compute_output_duration_us",
        "Transfer out, added up; a batch counts once for each of its requests.",
        lambda m: m.all[0].model.transfer_out_ns_by_request // _NS_PER_US,
    ),
)


def _failures(model: _Model) -> dict[str, int]:
    failed = model.ends("failed")
    of_back_end = model.ends("failed", reasons=_BACKEND_FAILURES)
    return {
        "REJECTED": model.ends("rejected", "expired"),
        "CANCELED": model.ends("cancelled"),
        "BACKEND": of_back_end,
        "OTHER": failed - of_back_end,
    }


_GPU: Final[tuple[tuple[str, str, Callable[[DeviceReading], float | None]], ...]] = (
    ("utilization", "Of a GPU, 0 to 1.", lambda r: r.utilization_ratio),
    ("memory_total_bytes", "Of a GPU.", lambda r: r.memory_total_bytes),
    ("memory_used_bytes", "Of a GPU.", lambda r: r.memory_used_bytes),
    ("power_usage", "Watts of a GPU.", lambda r: r.power_w),
    ("power_limit", "Watts that a GPU may draw.", lambda r: r.power_limit_w),
)
_CPU: Final = _GPU[:3]


def _triton_devices(readings: Sequence[DeviceReading]) -> Iterator[Metric]:
    """GPUs by their driver's names; of cores those of the first device, for it has no label."""
    gpus = [reading for reading in readings if reading.uuid]
    for name, text, value in _GPU:
        family = GaugeMetricFamily(f"nv_gpu_{name}", text, labels=("gpu_uuid",))
        for reading in gpus:
            known = value(reading)
            if known is not None:
                family.add_metric((reading.uuid,), known)
        yield family
    energy = Metric("nv_energy_consumption", "Joules that a GPU has drawn.", "unknown")
    for reading in gpus:
        if reading.energy_j is not None:
            energy.add_sample(energy.name, {"gpu_uuid": reading.uuid}, reading.energy_j)
    yield energy
    cores = [reading for reading in readings if not reading.uuid][:1]
    for name, _, value in _CPU:
        family = GaugeMetricFamily(f"nv_cpu_{name}", "Of the server's cores or memory.")
        for reading in cores:
            known = value(reading)
            if known is not None:
                family.add_metric((), known)
        yield family


def vllm_families(
    table: SeriesTable, served: Iterable[str], generators: GeneratorMetrics
) -> Iterator[Metric]:
    """As vLLM names them.

    Args:
        table: by model and tier, the tiers of a model in a row.
        served: models that are served now; others are left out.
        generators: what is counted of them; some of it only they have.
    """
    known = set(served)
    models = [model for model in _models(table) if model.name in known]
    labels = ("model_name", "engine")
    running = GaugeMetricFamily("vllm:num_requests_running", "Requests that run.", labels=labels)
    waiting = GaugeMetricFamily("vllm:num_requests_waiting", "Requests that wait.", labels=labels)
    ended = CounterMetricFamily(
        "vllm:request_success",
        "Requests that were answered (`stop`), or whose client left (`abort`).",
        labels=(*labels, "finished_reason"),
    )
    for model in models:
        running.add_metric((model.name, _ENGINE), model.sum(lambda s: s.in_flight - s.waiting))
        waiting.add_metric((model.name, _ENGINE), model.sum(lambda s: s.waiting))
        ended.add_metric((model.name, _ENGINE, "stop"), model.ends("completed"))
        ended.add_metric((model.name, _ENGINE, "abort"), model.ends("cancelled"))
    for name, now in generators.now.items():
        running.add_metric((name, _ENGINE), now.running)
        waiting.add_metric((name, _ENGINE), now.waiting)
        ended.add_metric((name, _ENGINE, "stop"), generators.outcomes(name, "completed"))
        ended.add_metric((name, _ENGINE, "abort"), generators.outcomes(name, "cancelled"))
    yield running
    yield waiting
    yield ended
    for name, text, of in _VLLM_TIMES:
        times: dict[tuple[str, ...], Histogram] = {
            (model.name, _ENGINE): model.merged(of) for model in models
        }
        if name == "e2e_request_latency":
            for generator in generators.now:
                times[generator, _ENGINE] = generators.merged(generator, "latency")
        yield histogram_family(f"vllm:{name}_seconds", text, labels, times)
    if generators.now:
        yield from _of_generators(generators)


def _of_generators(generators: GeneratorMetrics) -> Iterator[Metric]:
    """What only models that generate have."""
    labels = ("model_name", "engine")
    used = GaugeMetricFamily(
        "vllm:kv_cache_usage_perc", "Memory for keys and values in use, 0 to 1.", labels=labels
    )
    counters: list[tuple[CounterMetricFamily, Callable[[str, GeneratorNow], int]]] = [
        (
            CounterMetricFamily("vllm:num_preemptions", "Preemptions.", labels=labels),
            lambda _, now: now.swapped + now.dropped,
        ),
        (
            CounterMetricFamily("vllm:prompt_tokens", "Tokens of prompts.", labels=labels),
            lambda name, _: generators.tokens(name, "prompt"),
        ),
        (
            CounterMetricFamily("vllm:generation_tokens", "Tokens of answers.", labels=labels),
            lambda name, _: generators.tokens(name, "answer"),
        ),
    ]
    for name, now in generators.now.items():
        used.add_metric((name, _ENGINE), now.kv_used_ratio)
        for family, value in counters:
            family.add_metric((name, _ENGINE), value(name, now))
    yield used
    yield from [family for family, _ in counters]
    for suffix, text, what in (
        ("time_to_first_token", "Arrival to first token.", "ttft"),
        ("time_per_output_token", "Mean time of a token after the first.", "tpot"),
    ):
        times: dict[tuple[str, ...], Histogram] = {
            (name, _ENGINE): generators.merged(name, what) for name in generators.now
        }
        yield histogram_family(f"vllm:{suffix}_seconds", text, labels, times)


_VLLM_TIMES: Final[tuple[tuple[str, str, Callable[[Series], Durations]], ...]] = (
    ("e2e_request_latency", "Arrival to reply, completed requests.", lambda s: s.latency),
    ("request_queue_time", "Arrival to dispatch, completed requests.", lambda s: s.queue_delay),
)


def _models(table: SeriesTable) -> list[_Model]:
    return [
        _Model(name, [series for _, series in pairs])
        for name, pairs in groupby(table.items(), key=lambda item: item[0][0])
    ]
