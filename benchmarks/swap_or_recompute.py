"""Recompute or swap, where memory is too small: either way always, and by cost.

Gold and bronze share an engine whose memory holds a fraction of what they ask for, with no gate, so
that victims are many. Each row is one engine: what a prompt token costs it, and what a copy. By the
rule's formula `crossover_tokens` is the length below which recomputing is cheaper; the lengths
of victims lie on one side of it, or on both. Makespans are added up over stretches of the trace.
`over_best` is the rule's figure over that of the better
way, less one. Laws are given as wrong by half, and learnt.

Usage: `python benchmarks/swap_or_recompute.py [--quick] [--format table|json] [--traces FOLDER]`.
With `--format json` the document goes to stdout; otherwise a table, and a full run puts the
document into `benchmarks/results/swap_or_recompute.json`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import harness
from generated import BRONZE, GOLD, NOTES, generation_parser, headway, rounded, traces_folder
from msgspec.structs import replace

from headway.generate import (
    CopyLaw,
    EngineLimits,
    PreemptWay,
    StepLaw,
    SwapSettings,
    VictimSettings,
    WatermarkSettings,
    crossover_tokens,
)
from headway.sim import Generation, GenerationRun, requests_of_trace
from headway.workload import Trace, TraceFormat, load_trace

NAME = "swap_or_recompute"
TRACE = "azure_llm_2023/AzureLLMInferenceTrace_conv.csv"
COLUMNS = (
    *("engine", "crossover_tokens", "way", "makespan_s", "latency_mean_s", "over_best_makespan"),
    *("over_best_latency", "swaps", "recomputes", "recomputed_tokens", "stalled_s"),
)
WAYS = {
    "recompute": (PreemptWay.RECOMPUTE,),
    "swap": (PreemptWay.SWAP,),
    "by cost": tuple(PreemptWay),
}


class Setup(NamedTuple):
    """An engine, and how fast the trace is played at it."""

    name: str
    law: StepLaw
    copies: CopyLaw
    speed: float
    blocks: int = 1_000
    output_tokens_max: int = 1_024


SETUPS = (
    Setup("8B, grouped heads, 32 GB/s", StepLaw(), CopyLaw(), 0.6),
    Setup(
        "8B, copies of small pieces, 2.5 GB/s",
        StepLaw(),
        CopyLaw(fixed_ns=2e6, token_ns=52_000.0),
        0.6,
    ),
    Setup(
        "8B, a copy costs 30 ms to set up",
        StepLaw(),
        CopyLaw(fixed_ns=30e6, token_ns=4_096.0),
        0.6,
    ),
    Setup(
        "13B, a head for each query, H100, 16 GB/s shared by 4",
        StepLaw(base_ns=14e6, prefill_ns=36_000.0, pair_ns=12.0, context_ns=250.0),
        CopyLaw(fixed_ns=1e6, token_ns=205_000.0),
        0.6,
    ),
    Setup(
        "long prompts, attention binds, s above a",
        StepLaw(base_ns=8e6, prefill_ns=10_000.0, pair_ns=30.0, context_ns=100.0),
        CopyLaw(fixed_ns=1e6, token_ns=16_000.0),
        0.6,
    ),
    Setup(
        "135M on a CPU",
        StepLaw(
            base_ns=8e6, prefill_ns=1e6, pair_ns=50.0, decode_ns=2e6, context_ns=500, free_tokens=0
        ),
        CopyLaw(fixed_ns=2e5, token_ns=4_500.0),
        0.1,
    ),
)


def play(setup: Setup, trace: Trace, way: str, count: int, first: int) -> GenerationRun:
    """One run."""
    limits = EngineLimits(blocks=setup.blocks, law=_halved(setup.law), copies=setup.copies)
    scheduler = headway(
        limits,
        swap=SwapSettings(ways=WAYS[way]),
        watermark=WatermarkSettings(high_ratio=1.0, low_ratio=0.99),
        victims=VictimSettings(quantum_steps=8, preempts_max=4),
        output_level=0.3,
    )
    terms = (GOLD, *[replace(BRONZE, is_gated=False)] * 2)
    requests = requests_of_trace(
        trace,
        terms,
        count=count,
        first=first,
        speed=setup.speed,
        output_tokens_max=setup.output_tokens_max,
    )
    return Generation(scheduler, setup.law, setup.copies).run(requests)


def _halved(law: StepLaw) -> StepLaw:
    """A law to begin with, which is wrong."""
    return replace(law, prefill_ns=law.prefill_ns / 2, pair_ns=law.pair_ns / 2)


def rows(folder: Path, *, is_quick: bool) -> Iterator[harness.Row]:
    """All of them; the rule's come last, beside the better way."""
    trace = load_trace(folder / TRACE, TraceFormat.AZURE_LLM)
    count, stretches = (200, 1) if is_quick else (600, 4)
    for setup in SETUPS[:2] if is_quick else SETUPS:
        best: dict[str, float] = {}
        for way in WAYS:
            runs = [play(setup, trace, way, count, each * count) for each in range(stretches)]
            latencies = [
                sample.ended_at_ns - sample.request.arrived_at_ns
                for run in runs
                for sample in run.samples
                if sample.ended_at_ns is not None
            ]
            figures = {
                "makespan": sum(run.makespan_ns for run in runs) / 1e9,
                "latency": sum(latencies) / len(latencies) / 1e9,
            }
            row: dict[str, object] = {
                "engine": setup.name,
                "crossover_tokens": crossover_tokens(setup.law, setup.copies),
                "way": way,
                "makespan_s": figures["makespan"],
                "latency_mean_s": figures["latency"],
                "swaps": sum(run.swaps for run in runs),
                "recomputes": sum(run.recomputes for run in runs),
                "recomputed_tokens": sum(run.recomputed_tokens for run in runs),
                "stalled_s": sum(run.stalled_ns for run in runs) / 1e9,
                "stretches": stretches,
            }
            if way == "by cost":
                for key, value in figures.items():
                    row[f"over_best_{key}"] = value / best[key] - 1.0
            best = {key: min(value, best.get(key, value)) for key, value in figures.items()}
            print(f"{setup.name}: {way}", file=sys.stderr, flush=True)
            yield rounded(row)


def main() -> int:
    """Play all, and put the figures where they are asked for."""
    arguments = generation_parser(__doc__, "two engines, 200 requests").parse_args()
    found = list(rows(traces_folder(arguments), is_quick=arguments.quick))
    harness.publish(NAME, found, COLUMNS, arguments, notes=NOTES, emulated=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
