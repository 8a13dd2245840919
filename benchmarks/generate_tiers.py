"""Three tiers on recorded arrivals: first tokens, pace and makespan under each step scheduler.

Requests of a trace are dealt out to gold, silver and bronze, 1 to 1 to 3, and played at the
recorded rate and at 1.6 times that, which is more than the engine can do. `headway (law unknown)`
begins with a law of steps that is wrong by half and learns it; `headway (evict at mark)` is the
textbook form of watermarks, which evicts running sequences at 0.85 down to 0.70.

Usage: `python benchmarks/generate_tiers.py [--quick] [--format table|json] [--traces FOLDER]`. With
`--format json` the document goes to stdout; otherwise a table, and a full run puts the document
into `benchmarks/results/generate_tiers.json`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import harness
from generated import (
    A100_8B,
    A100_LIMITS,
    NOTES,
    TIERS,
    generation_parser,
    headway,
    rounded,
    stock,
    traces_folder,
)
from msgspec.structs import replace

from headway.generate import EngineLimits, StepLaw, StepScheduler
from headway.sim import Generation, requests_of_trace, tier_figures
from headway.workload import BurstLoad, Trace, TraceFormat, burst_trace, load_trace

NAME = "generate_tiers"
COLUMNS = (
    *("trace", "speed", "policy", "gold_ttft_p50_s", "gold_ttft_p99_s", "silver_ttft_p99_s"),
    *("bronze_ttft_p99_s", "gold_tpot_p99_ms", "bronze_tpot_p99_ms", "preemptions"),
    *("makespan_s", "prefill_tokens"),
)
BURSTS = BurstLoad(rate_rps=12.0)
WRONG_LAW = StepLaw(base_ns=18e6, prefill_ns=100_000.0, context_ns=30.0)


class Setup(NamedTuple):
    """A trace, the engine it is played at, and how much of it."""

    name: str
    file: str
    trace_format: TraceFormat | None
    """None for bursts that are drawn."""
    limits: EngineLimits
    count: int
    speeds: tuple[float, ...]


SETUPS = (
    Setup(
        "azure conv",
        "azure_llm_2023/AzureLLMInferenceTrace_conv.csv",
        TraceFormat.AZURE_LLM,
        A100_LIMITS,
        1_500,
        (1.0, 1.6),
    ),
    Setup(
        "azure code",
        "azure_llm_2023/AzureLLMInferenceTrace_code.csv",
        TraceFormat.AZURE_LLM,
        A100_LIMITS,
        1_500,
        (1.0, 1.6),
    ),
    # Drawn: gamma gaps, a rate that drifts, lengths by a power law.
    Setup("generated bursts", "", None, A100_LIMITS, 1_500, (1.0, 1.6)),
    # Prompts of twelve thousand tokens, of which a part is shared: a larger memory, eight engines'
    # worth of arrivals spread over one.
    Setup(
        "mooncake conv",
        "mooncake/conversation_trace.jsonl",
        TraceFormat.MOONCAKE,
        replace(A100_LIMITS, blocks=20_000),
        600,
        (0.2, 0.3),
    ),
)

POLICIES: dict[str, Callable[[EngineLimits], StepScheduler]] = {
    "fcfs, 512 a step": lambda limits: stock("fcfs", limits, 512),
    "fcfs, 2048 a step": lambda limits: stock("fcfs", limits, 2_048),
    "priority, 512 a step": lambda limits: stock("priority", limits, 512),
    "priority, 2048 a step": lambda limits: stock("priority", limits, 2_048),
    "headway": headway,
    "headway (law unknown)": lambda limits: headway(replace(limits, law=WRONG_LAW)),
    "headway (lane for long)": lambda limits: headway(limits, long_part_max=1.0),
    "headway (evict at mark)": lambda limits: headway(limits, evicts=True),
}
QUICK = ("fcfs, 512 a step", "priority, 512 a step", "headway")


def trace_of(setup: Setup, folder: Path) -> Trace:
    """Recorded, or drawn."""
    if setup.trace_format is None:
        return burst_trace(BURSTS, 1, setup.count)
    return load_trace(folder / setup.file, setup.trace_format)


def play(setup: Setup, trace: Trace, speed: float, policy: str) -> harness.Row:
    """One run."""
    requests = requests_of_trace(trace, TIERS, count=setup.count, speed=speed)
    generation = Generation(POLICIES[policy](setup.limits), A100_8B, setup.limits.copies)
    run = generation.run(requests)
    row: dict[str, object] = {"trace": setup.name, "speed": speed, "policy": policy}
    for tier in ("gold", "silver", "bronze"):
        figures = tier_figures(run.samples, tier)
        row[f"{tier}_ttft_p50_s"] = figures.ttft_p50_s
        row[f"{tier}_ttft_p99_s"] = figures.ttft_p99_s
        row[f"{tier}_tpot_p99_ms"] = figures.tpot_p99_ms
        row[f"{tier}_itl_max_p99_ms"] = figures.itl_max_p99_ms
    row["preemptions"] = run.swaps + run.recomputes
    row["swaps"] = run.swaps
    row["recomputed_tokens"] = run.recomputed_tokens
    row["prefill_tokens"] = run.prefill_tokens
    row["makespan_s"] = run.makespan_ns / 1e9
    row["requests"] = setup.count
    return rounded(row)


def rows(folder: Path, *, is_quick: bool) -> Iterator[harness.Row]:
    """All of them."""
    for setup in SETUPS[:1] if is_quick else SETUPS:
        trace = trace_of(setup, folder)
        for speed in setup.speeds:
            for policy in QUICK if is_quick else POLICIES:
                yield play(setup, trace, speed, policy)
                print(f"{setup.name} x{speed} {policy}", file=sys.stderr, flush=True)


def main() -> int:
    """Play all, and put the figures where they are asked for."""
    quick = "the first trace only, three schedulers"
    arguments = generation_parser(__doc__, quick).parse_args()
    found = list(rows(traces_folder(arguments), is_quick=arguments.quick))
    harness.publish(NAME, found, COLUMNS, arguments, notes=NOTES, emulated=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
