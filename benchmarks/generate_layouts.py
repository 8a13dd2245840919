"""Four engines together, prompts and answers apart, layers on the host: when does which pay?

Every layout has four engines of one kind and the same requests. A row says what part of them had
first token and pace in time, and how many a second that is (`goodput_rps`); `busy` is the part of
the time that engines computed, of disaggregated ones those for prompts and those for answers.

- `together`: every engine does everything, under our step scheduler; `fcfs` under a constant budget
  of 2,048 tokens.
- `apart 1:3` and so on: so many engines for prompts, so many for answers; keys and values go over a
  link of 25 GB/s, 1 ms before the first byte.
- `streamed 8`: 8 of 32 layers lie on the host and are copied in each step, at 25 GB/s.

Targets are `even`, 1 s and 60 ms a token, or `tight pace`, 1 s and 16 ms; of Mooncake's prompts of
twelve thousand tokens 10 s to the first. `no hurry` is a minute, and 250 ms. A `small card` has so
little left for keys and values that some prompts do not fit at all: those are `refused`. `bursts`
are generated, all others recorded.

Usage: `python benchmarks/generate_layouts.py [--quick] [--format table|json] [--traces FOLDER]`.
With `--format json` the document goes to stdout; otherwise a table, and a full run puts the
document into `benchmarks/results/generate_layouts.json`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import harness
from generated import A100_8B, generation_parser, rounded, traces_folder
from msgspec.structs import replace

from headway.generate import LayerOffload, TierTerms
from headway.sim import (
    EngineShape,
    GenerationScenario,
    HandOver,
    Layout,
    RequestSource,
    SchedulerChoice,
    target_figures,
)
from headway.units import NS_PER_MS, NS_PER_S
from headway.workload import BurstLoad, TraceFormat, load_trace

NAME = "generate_layouts"
COLUMNS = (
    *("trace", "targets", "speed", "layout", "met_pct", "goodput_rps", "ttft_p50_s"),
    *("ttft_p99_s", "tpot_p99_ms", "refused", "busy", "busy_receivers", "makespan_s"),
)
NOTES = (
    "Simulated: a cost model in place of accelerators and links; every figure is of virtual time.",
)
GIB = 1 << 30
LINK_BYTES_PER_S = 25e9
A100_24 = EngineShape(
    memory_bytes=24 * GIB,
    weights_bytes=15 * GIB,
    reserve_bytes=3 * GIB,
    kv_token_bytes=128 * 1024,
    layers=32,
    law=A100_8B,
)
SMALL_CARD = EngineShape(
    memory_bytes=16 * GIB,
    weights_bytes=15 * GIB,
    reserve_bytes=GIB // 2,
    kv_token_bytes=128 * 1024,
    layers=32,
    law=A100_8B,
)
A100_80 = EngineShape(
    memory_bytes=58 * GIB,
    weights_bytes=15 * GIB,
    reserve_bytes=3 * GIB,
    kv_token_bytes=128 * 1024,
    layers=32,
    law=A100_8B,
)


class Setup(NamedTuple):
    """Whose requests, at which engines."""

    name: str
    file: str
    trace_format: TraceFormat | None
    engine: EngineShape
    count: int
    speeds: tuple[float, ...]
    ttft_ns: int = NS_PER_S
    targets: tuple[str, ...] = ("even", "tight pace")


CONV = "azure_llm_2023/AzureLLMInferenceTrace_conv.csv"
CODE = "azure_llm_2023/AzureLLMInferenceTrace_code.csv"
MOONCAKE = "mooncake/conversation_trace.jsonl"
SETUPS = (
    Setup("azure conv", CONV, TraceFormat.AZURE_LLM, A100_24, 800, (3.0, 4.0)),
    Setup("azure code", CODE, TraceFormat.AZURE_LLM, A100_24, 800, (2.0, 3.0)),
    Setup(
        "mooncake conv",
        MOONCAKE,
        TraceFormat.MOONCAKE,
        A100_80,
        300,
        (0.6, 0.9),
        10 * NS_PER_S,
    ),
    Setup("bursts", "", None, A100_24, 1_000, (1.0, 1.4)),
    Setup(
        "azure conv, small card",
        CONV,
        TraceFormat.AZURE_LLM,
        SMALL_CARD,
        300,
        (0.5,),
        targets=("even", "no hurry"),
    ),
    Setup(
        "mooncake conv, small card",
        MOONCAKE,
        TraceFormat.MOONCAKE,
        replace(SMALL_CARD, memory_bytes=18 * GIB),
        150,
        (0.1,),
        targets=("no hurry",),
    ),
)
BURSTS = BurstLoad(rate_rps=45.0)
TARGETS = {"even": 60 * NS_PER_MS, "tight pace": 16 * NS_PER_MS, "no hurry": 250 * NS_PER_MS}
QUICK = ("together", "apart 2:2", "streamed 8")


def layouts(shape: EngineShape) -> dict[str, Layout]:
    """Those that are compared; each has four engines."""
    way = HandOver(
        kv_bytes=shape.kv_token_bytes, bytes_per_s=LINK_BYTES_PER_S, latency_ns=NS_PER_MS
    )
    offload = LayerOffload(
        layers=8, layer_bytes=shape.layer_bytes, link_bytes_per_s=LINK_BYTES_PER_S
    )
    apart = {
        f"apart {prompts}:{4 - prompts}": Layout(
            engines=prompts, receivers=4 - prompts, hand_over=way
        )
        for prompts in (1, 2, 3)
    }
    return {
        "together": Layout(engines=4),
        "together, fcfs": Layout(engines=4, scheduler=SchedulerChoice("fcfs", 2_048)),
        **apart,
        "streamed 8": Layout(engines=4, offload=offload),
    }


def scenario(setup: Setup, folder: Path, tpot_ns: int) -> GenerationScenario:
    """The requests, all of one tier."""
    recorded = None
    if setup.trace_format is not None:
        recorded = load_trace(folder / setup.file, setup.trace_format)
    source = RequestSource(
        count=setup.count, recorded=recorded, bursts=None if recorded else BURSTS
    )
    ttft_ns = 60 * NS_PER_S if tpot_ns == TARGETS["no hurry"] else setup.ttft_ns
    terms = TierTerms(name="chat", ttft_ns=ttft_ns, tpot_ns=tpot_ns)
    return GenerationScenario(
        engine=setup.engine,
        terms=(terms,),
        source=source,
        layouts=layouts(setup.engine),
        scheduler=SchedulerChoice(),
        seed=1,
    )


def play(setup: Setup, base: GenerationScenario, targets: str, speed: float, name: str) -> object:
    """One run."""
    layout = base.layouts[name]
    run = base.scaled(speed).play(layout)
    figures = target_figures(run.samples)
    busy = [each.busy_ns / run.makespan_ns for each in run.engines]
    receivers = busy[layout.engines :]
    return {
        "trace": setup.name,
        "targets": targets,
        "speed": speed,
        "layout": name,
        "met_pct": 100.0 * figures.met_ratio,
        "goodput_rps": figures.goodput_rps(run.makespan_ns),
        "first_in_time_pct": 100.0 * figures.first_in_time / figures.requests,
        "pace_in_time_pct": 100.0 * figures.pace_in_time / figures.requests,
        "ttft_p50_s": (figures.ttft_p50_ns or 0) / NS_PER_S,
        "ttft_p99_s": (figures.ttft_p99_ns or 0) / NS_PER_S,
        "tpot_p50_ms": (figures.tpot_p50_ns or 0) / NS_PER_MS,
        "tpot_p99_ms": (figures.tpot_p99_ns or 0) / NS_PER_MS,
        "refused": figures.refused,
        "preempts": figures.preempts,
        "busy": sum(busy[: layout.engines]) / layout.engines,
        "busy_receivers": sum(receivers) / len(receivers) if receivers else None,
        "link_busy_s": run.link_busy_ns / NS_PER_S,
        "makespan_s": run.makespan_ns / NS_PER_S,
        "requests": figures.requests,
        "is_generated": base.is_generated,
    }


def rows(folder: Path, *, is_quick: bool) -> Iterator[harness.Row]:
    """All of them."""
    for setup in SETUPS[:1] if is_quick else SETUPS:
        for targets in setup.targets:
            base = scenario(setup, folder, TARGETS[targets])
            if is_quick:
                base = base.taking(300)
            for speed in setup.speeds:
                for name in QUICK if is_quick else base.layouts:
                    row = play(setup, base, targets, speed, name)
                    yield rounded(row)  # type: ignore[arg-type]
                    print(f"{setup.name} {targets} x{speed} {name}", file=sys.stderr, flush=True)


def main() -> int:
    """Play all, and put the figures where they are asked for."""
    quick = "the first trace only, three layouts, fewer requests"
    arguments = generation_parser(__doc__, quick).parse_args()
    found = list(rows(traces_folder(arguments), is_quick=arguments.quick))
    harness.publish(NAME, found, COLUMNS, arguments, notes=NOTES, emulated=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
