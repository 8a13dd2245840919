"""What is counted of generators."""

import pytest
from prometheus_client.core import Metric

from headway.core import DeviceParams, Kernel, KernelParams
from headway.decoder.wire import Figures
from headway.observe import AnswerFigures, GeneratorMetrics, Metrics
from headway.policy import fifo
from headway.runtime import TierParams
from headway.testing import MeanPredictor
from headway.units import NS_PER_MS, NS_PER_S

STEP = Figures(
    step_ns=20 * NS_PER_MS,
    prefill_tokens=30,
    decode_tokens=4,
    swapped=1,
    dropped=2,
    running=5,
    waiting=3,
    kv_used_ratio=0.5,
)


def an_answer(**changes):
    given = {
        "outcome": "completed",
        "prompt_tokens": 10,
        "answer_tokens": 6,
        "ttft_ns": 40 * NS_PER_MS,
        "tpot_ns": 8.0 * NS_PER_MS,
        "latency_ns": 90 * NS_PER_MS,
        "is_violation": False,
    }
    return AnswerFigures(**given | changes)


@pytest.fixture
def counts():
    found = GeneratorMetrics(("gold", "bulk"), ("acme",))
    found.know("llm")
    return found


def values(families, name, **labels):
    """Samples of a name with these labels."""
    return [
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]


def test_every_series_is_there_from_the_start(counts):
    """At 0, so that a rate has something to begin from."""
    families = list(counts.families())
    assert values(families, "headway_generator_requests_total", outcome="failed") == [0, 0]
    assert values(families, "headway_generator_running") == [0]
    assert values(families, "headway_generator_tokens_total", tenant="acme") == [0, 0]
    assert values(families, "headway_generator_ttft_seconds_count") == [0, 0]


def test_answers_are_counted_by_tier_tenant_and_outcome(counts):
    """Times of completed ones only; tokens of all; tenants that nobody configured together."""
    counts.ended("llm", "gold", "acme", an_answer(is_violation=True))
    counts.ended("llm", "gold", "stranger", an_answer(outcome="cancelled", ttft_ns=None))
    families = list(counts.families())
    name = "headway_generator_requests_total"
    assert values(families, name, tier="gold", outcome="completed") == [1]
    assert values(families, name, tier="gold", outcome="cancelled") == [1]
    assert values(families, "headway_generator_violations_total", tier="gold") == [1]
    assert values(families, "headway_generator_ttft_seconds_sum", tier="gold") == [0.04]
    assert values(families, "headway_generator_tpot_seconds_count", tier="gold") == [1]
    tokens = "headway_generator_tokens_total"
    assert values(families, tokens, tenant="acme", kind="prompt") == [10]
    assert values(families, tokens, tenant="other", kind="answer") == [6]


def test_steps_add_up_and_the_state_is_the_last(counts):
    """A word without a step changes only the state; a lost worker holds nothing."""
    counts.stepped("llm", STEP)
    counts.stepped("llm", STEP)
    counts.stepped("llm", Figures(running=1))
    families = list(counts.families())
    assert values(families, "headway_generator_step_seconds_count") == [2]
    assert values(families, "headway_generator_step_tokens_total", phase="prefill") == [60]
    assert values(families, "headway_generator_preemptions_total", way="recompute") == [4]
    assert values(families, "headway_generator_running") == [1]
    assert values(families, "headway_generator_kv_used_ratio") == [0]
    counts.stepped("llm", STEP)
    counts.lost("llm")
    families = list(counts.families())
    assert values(families, "headway_generator_waiting") == [0]
    assert values(families, "headway_generator_worker_losses_total") == [1]


def a_collector(*aliases):
    device = DeviceParams(name="cpu:0", slot_lanes=(0,))
    kernel = Kernel(KernelParams(devices=(device,)), fifo(MeanPredictor()))
    terms = TierParams(priority=1, budget_ns=NS_PER_S, slot_class="high")
    return Metrics(kernel, lambda: 0, {"gold": terms}, aliases=aliases)


def test_vllms_names_are_there_where_they_are_asked_for():
    """Memory, tokens and first tokens under the names that its dashboards know."""
    metrics = a_collector("vllm")
    metrics.generators.know("llm")
    metrics.generators.stepped("llm", STEP)
    metrics.generators.ended("llm", "gold", "acme", an_answer())
    families: list[Metric] = list(metrics.collect())
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    of_llm = {"model_name": "llm", "engine": "0"}
    assert values(families, "vllm:kv_cache_usage_perc", **of_llm) == [0.5]
    assert values(families, "vllm:num_requests_running", **of_llm) == [5]
    assert values(families, "vllm:num_requests_waiting", **of_llm) == [3]
    assert values(families, "vllm:num_preemptions_total", **of_llm) == [3]
    assert values(families, "vllm:generation_tokens_total", **of_llm) == [6]
    assert values(families, "vllm:time_to_first_token_seconds_count", **of_llm) == [1]
    assert values(families, "vllm:e2e_request_latency_seconds_count", **of_llm) == [1]
    assert values(families, "vllm:request_success_total", finished_reason="stop", **of_llm) == [1]


def test_server_without_generators_has_none_of_theirs():
    """What is not there is not told as 0."""
    names = [family.name for family in a_collector("vllm").collect()]
    assert "vllm:kv_cache_usage_perc" not in names
