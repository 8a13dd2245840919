"""The step scheduler on recorded arrivals: what was set out to be reached."""

import os
from pathlib import Path

import pytest

from headway.generate import (
    EngineLimits,
    FcfsOrder,
    HeadwayScheduler,
    PriorityOrder,
    StepLaw,
    StockScheduler,
    StockSettings,
    TierTerms,
)
from headway.sim import Generation, requests_of_trace, tier_figures
from headway.workload import TraceFormat, load_trace

MS = 1_000_000
REAL = Path(
    os.environ.get(  # noqa: TID251 (where real traces are is for the tester to say)
        "HEADWAY_TRACES", Path(__file__).parents[2] / "../shared/traces"
    )
)
pytestmark = pytest.mark.skipif(
    not REAL.is_dir(), reason="no folder of recorded traces: set HEADWAY_TRACES"
)
LAW = StepLaw()
GOLD = TierTerms(name="gold", priority=0, ttft_ns=300 * MS, tpot_ns=50 * MS)
SILVER = TierTerms(name="silver", priority=1, ttft_ns=500 * MS, tpot_ns=100 * MS)
BRONZE = TierTerms(name="bronze", priority=2, ttft_ns=10_000 * MS, tpot_ns=200 * MS, is_gated=True)
TIERS = (GOLD, SILVER, BRONZE, BRONZE, BRONZE)


def played(scheduler, trace, speed, *, count=1_500):
    """A run, and the p99 of first tokens in seconds, by tier."""
    run = Generation(scheduler, LAW).run(requests_of_trace(trace, TIERS, count=count, speed=speed))
    return run, [
        tier_figures(run.samples, tier).ttft_p99_s for tier in ("gold", "silver", "bronze")
    ]


@pytest.mark.parametrize(
    ("speed", "gold_max_s", "silver_max_s"), [(1.0, 0.45, 0.65), (1.6, 0.6, 1.1)]
)
def test_tiers_on_the_azure_conversations(speed, gold_max_s, silver_max_s):
    """Gold and silver in time, bronze as by priority or sooner, the run as by arrival."""
    trace = load_trace(
        REAL / "azure_llm_2023/AzureLLMInferenceTrace_conv.csv", TraceFormat.AZURE_LLM
    )
    limits, settings = EngineLimits(blocks=3_000), StockSettings(step_tokens=512)
    run, (gold_s, silver_s, bronze_s) = played(HeadwayScheduler(limits), trace, speed)
    fcfs, _ = played(StockScheduler(limits, FcfsOrder(), settings), trace, speed)
    _, priority = played(StockScheduler(limits, PriorityOrder(), settings), trace, speed)
    assert gold_s <= gold_max_s
    assert silver_s <= silver_max_s
    assert bronze_s <= priority[2]
    assert run.makespan_ns <= 1.02 * fcfs.makespan_ns


def test_shared_prefixes_of_mooncake_are_not_computed_again():
    """With memory for all, what prompts have in common goes through the model once, nearly."""
    trace = load_trace(REAL / "mooncake/conversation_trace.jsonl", TraceFormat.MOONCAKE)
    count, seen, shared_tokens = 60, set(), 0
    for keys in trace.prefix_keys[:count]:
        common = next((index for index, key in enumerate(keys) if key not in seen), len(keys))
        shared_tokens += common * trace.prefix_block_tokens
        seen.update(keys)
    run, _ = played(HeadwayScheduler(EngineLimits(blocks=60_000)), trace, 0.1, count=count)
    saved = sum(sample.request.prompt_tokens for sample in run.samples) - run.prefill_tokens
    assert 0.9 * shared_tokens <= saved <= shared_tokens
