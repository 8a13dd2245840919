"""The parts of `docs/reference/metrics.md`: families of a server that has everything, and queries.

Queries answer what people ask first; a test sees that each name in them is exported.
"""

import re
from collections.abc import Iterable, Iterator

from prometheus_client.core import Metric

from headway.core import (
    DeviceName,
    DeviceParams,
    Kernel,
    KernelParams,
    ModelLoadRequested,
    ModelName,
    ModelParams,
    TenantId,
    TierName,
)
from headway.devices import DeviceReading
from headway.observe import Look, Metrics
from headway.policy import fifo
from headway.runtime import TierParams
from headway.tenancy import TenantCounts
from headway.testing import MeanPredictor
from headway.units import NS_PER_S

ALIASES = ("triton", "vllm")
NAME = re.compile(r"\b(?:headway|process)_[a-z_]+|nv_[a-z_]+|vllm:[a-z_0-9]+")

INTRODUCTION = """\
At `/metrics`, in Prometheus' text format, or that of OpenMetrics 1.0 for who prefers it. Every
series of a configured model exists at 0 from the start. Names that nobody configured are counted
under `unknown`. Besides these there are prometheus_client's `process_...` metrics. Those of tenants
are there where the configuration has some.

Devices and workers are looked at every second (`observe.device_period`): cores and memory through
`/proc`, NVIDIA's GPUs and their MIG slices through NVML, with the extra `gpu`. What a device cannot
tell has no series, for unknown is not 0: a slice of a GPU before Hopper has no utilisation. GPUs
are `cuda:0`, `cuda:1` in the driver's order, whatever the configuration calls the devices that
headway uses."""

QUERIES = {
    "The part of requests answered in time, by tier": (
        "1 - sum by (tier) (rate(headway_deadline_violations_total[5m])) / sum by (tier)"
        ' (rate(headway_requests_total{outcome!="cancelled"}[5m]))'
    ),
    "How fast the error budget burns: 1 uses it up just in time": (
        "(sum by (tier) (rate(headway_deadline_violations_total[1h])) / sum by (tier)"
        ' (rate(headway_requests_total{outcome!="cancelled"}[1h])))'
        " / on(tier) (1 - max by (tier) (headway_tier_attainment_target_ratio))"
    ),
    "The same part by tenant and tier": (
        "1 - rate(headway_tenant_violations_total[5m]) / rate(headway_tenant_answers_total[5m])"
    ),
    "Latency that 99 of 100 completed requests keep, by tier": (
        "histogram_quantile(0.99, sum by (tier, le) (rate(headway_latency_seconds_bucket[5m])))"
    ),
    "How that compares with the budget": (
        "histogram_quantile(0.99, sum by (tier, le) (rate(headway_latency_seconds_bucket[5m])))"
        " / on(tier) max by (tier) (headway_tier_budget_seconds)"
    ),
    "Arrivals a second, before anything becomes of them": (
        "sum by (model, tier) (rate(headway_requests_arrived_total[1m]))"
    ),
    "Rows of the average batch": (
        "rate(headway_batch_rows_sum[5m]) / rate(headway_batch_rows_count[5m])"
    ),
    "How full batches are on average": (
        "rate(headway_batch_fill_ratio_sum[5m]) / rate(headway_batch_fill_ratio_count[5m])"
    ),
    "The part of the input that is padding": (
        "rate(headway_batch_padding_bytes_total[5m]) / rate(headway_batch_input_bytes_total[5m])"
    ),
    "The part of the devices' time that came to nothing, by reason": (
        "sum by (reason) (rate(headway_device_wasted_seconds_total[5m]))"
        " / scalar(sum(rate(headway_device_seconds_total[5m])))"
    ),
    "The part of a device's slots that is busy, on average": (
        "rate(headway_slots_busy_seconds_total[5m]) / headway_slots"
    ),
    "Whose the time of devices is": (
        "sum by (model, tier) (rate(headway_device_seconds_total[5m]))"
        " / scalar(sum(rate(headway_device_seconds_total[5m])))"
    ),
    "How often bounds hold (coverage)": (
        "rate(headway_prediction_covered_total[5m]) / rate(headway_predictions_total[5m])"
    ),
    "Mean error of predictions": (
        "rate(headway_prediction_error_ratio_sum[5m])"
        " / rate(headway_prediction_error_ratio_count[5m])"
    ),
    "First tokens of generators that 99 of 100 answers keep, by tier": (
        "histogram_quantile(0.99, sum by (tier, le)"
        " (rate(headway_generator_ttft_seconds_bucket[5m])))"
    ),
    "Tokens a second that generators write, by tenant": (
        'sum by (tenant) (rate(headway_generator_tokens_total{kind="answer"}[1m]))'
    ),
    "Device memory in use": (
        "headway_device_memory_used_bytes / headway_device_memory_total_bytes"
    ),
    "Processes of a worker started in an hour": "increase(headway_worker_starts_total[1h])",
}

NATIVE = """\
Histograms are exported with fixed buckets, which every version of Prometheus reads. Native ones
travel to it as Protocol Buffers, which the library that writes the exposition, prometheus_client,
does not write; it has them in the draft of OpenMetrics 2.0 only, and calls that experimental.
Prometheus 3 makes native histograms of these (with custom buckets: the same bounds, stored as one
series) where a scrape asks for it; before version 3.8 they are switched on as a whole with
`--enable-feature=native-histograms`:

```yaml
scrape_configs:
  - job_name: headway
    convert_classic_histograms_to_nhcb: true
    static_configs:
      - targets: ["localhost:8000"]
```

Then `histogram_quantile(0.99, sum by (tier) (rate(headway_latency_seconds[5m])))` is the whole
query. Quantiles are as fine as the buckets either way."""

OTHERS = """\
`observe.aliases: [triton, vllm]` exports what was counted under the names of Triton Inference
Server and of vLLM too, for dashboards, autoscalers and routers that know those. Only what means the
same here is there: no summaries, and nothing of caches of answers, which are not 0 but not there;
what is of keys and values and of tokens, generators alone have. Triton's counters come without a
type, which queries do not ask for."""


def families() -> Iterator[Metric]:
    """Every family that a server exports, but for the process's own; aliases last."""
    tier = TierName("standard")
    terms = TierParams(priority=1, budget_ns=NS_PER_S, slot_class="high")
    cores = DeviceParams(name=DeviceName("cpu:0"), slot_lanes=(0,))
    kernel = Kernel(KernelParams(devices=(cores,)), fifo(MeanPredictor()))
    # Families of other servers' names know their labels only by their series.
    model = ModelParams(name=ModelName("m"), version="1", devices=(cores.name,))
    kernel.handle(ModelLoadRequested(model=model), 0)
    metrics = Metrics(kernel, lambda: 0, {tier: terms}, targets={tier: 0.99}, aliases=ALIASES)
    metrics.know(model.name)
    metrics.generators.know("g")
    metrics.devices.look = lambda: Look(
        (DeviceReading(name="cpu:0"), DeviceReading(name="cuda:0", uuid="GPU-0", energy_j=0.0))
    )
    metrics.count_answers({200: 0})
    metrics.count_tenants(lambda: {TenantId("acme"): TenantCounts()}, lambda: {TenantId("acme"): 0})
    metrics.count_grpc({"OK": 0}, lambda: 0)
    return metrics.collect()


def is_alias(family: Metric) -> bool:
    """Whether it has the name of another server's."""
    return not family.name.startswith("headway_")


def rows(found: Iterable[Metric]) -> list[tuple[str, ...]]:
    """A row of a table for each family."""
    return [
        (f"`{exposed_name(family)}`", family.type, labels_of(family), family.documentation)
        for family in found
    ]


def exposed_name(family: Metric) -> str:
    """As it stands in the exposition: counters end in `_total`."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def labels_of(family: Metric) -> str:
    """Label names, but the histogram's own `le`; a family without a series yet knows them too."""
    names = dict.fromkeys(getattr(family, "_labelnames", ()))
    names |= dict.fromkeys(name for sample in family.samples for name in sample.labels)
    return ", ".join(f"`{name}`" for name in names if name != "le")


def queries() -> str:
    """The questions and their queries."""
    return "\n\n".join(
        f"{question}:\n\n```promql\n{query}\n```" for question, query in QUERIES.items()
    )


def names_in(query: str) -> set[str]:
    """Metrics that a query names, as they stand in an exposition."""
    return set(NAME.findall(query))


def exposed_names() -> set[str]:
    """Every name that a query may use."""
    found = set()
    for family in families():
        name = exposed_name(family)
        found.add(name)
        if family.type == "histogram":
            found |= {f"{name}_{suffix}" for suffix in ("bucket", "sum", "count")}
    return found
