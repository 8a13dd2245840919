"""Little's law of a generating engine beside the engine simulated: sequences, memory, highest rate.

Requests have lengths of a trace, drawn anew, and arrive independently at a part of the highest rate
that the law states (`load`). `sequences` and `kv_tokens` are what the law says is in the engine at
once; `played_*` what the simulation had, over the time from a tenth of the arrivals to the last.
`naive_sequences` is rate times a residence without prefill, in memory counted as mean prompt and
half of the mean answer. The rows with `load` 1.5 send more than the engine can do: there
`played_rate_rps` is what it did.

Usage: `python benchmarks/generate_capacity.py [--quick] [--format table|json] [--traces FOLDER]`.
With `--format json` the document goes to stdout; otherwise a table, and a full run puts the
document into `benchmarks/results/generate_capacity.json`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

import harness
from generated import (
    A100_8B,
    A100_LIMITS,
    NOTES,
    generation_parser,
    headway,
    rounded,
    traces_folder,
)

from headway.core import TenantId
from headway.generate import Capacity, RequestMix, StepPlan, TierTerms
from headway.sim import Generation, GenerationRequest
from headway.units import NS_PER_MS, NS_PER_S
from headway.workload import BurstLoad, Poisson, Trace, TraceFormat, burst_trace, load_trace

NAME = "generate_capacity"
COLUMNS = (
    *("lengths", "load", "rate_rps", "sequences", "played_sequences", "sequences_off_pct"),
    *("kv_tokens", "played_kv_tokens", "kv_off_pct", "naive_sequences", "played_rate_rps"),
)
LOADS = (0.3, 0.5, 0.7, 0.85, 1.5)
OVERLOAD = 1.5
TERMS = TierTerms(name="chat", ttft_ns=10 * NS_PER_S, tpot_ns=200 * NS_PER_MS, is_gated=True)


class Meter:
    """Sequences and tokens in memory over time, between two instants."""

    def __init__(self, generation_of: list[Generation], from_ns: int, to_ns: int) -> None:
        self._generation_of = generation_of
        self._from_ns, self._to_ns = from_ns, to_ns
        self.sequence_ns = self.token_ns = self.time_ns = 0
        self._last_ns = from_ns

    def __call__(self, plan: StepPlan, begun_at_ns: int, ended_at_ns: int) -> None:
        """Take one step, and the pause before it."""
        if ended_at_ns <= self._from_ns or begun_at_ns >= self._to_ns:
            return
        roster = self._generation_of[0].scheduler.roster
        resident = (*roster.decoding.values(), *roster.prefilling.values())
        step_ns = ended_at_ns - begun_at_ns
        self.time_ns += ended_at_ns - self._last_ns
        self._last_ns = ended_at_ns
        self.sequence_ns += step_ns * len(resident)
        self.token_ns += step_ns * sum(each.computed_tokens for each in resident)


def requests_of(trace: Trace, rate_rps: float, count: int) -> list[GenerationRequest]:
    """Lengths that are drawn from a trace, independent arrivals."""
    chance = Random(f"capacity/{trace.name}")
    instants = islice(Poisson(rate_rps).instants(Random("capacity/arrivals")), count)
    found = []
    for at_ns in instants:
        index = chance.randrange(len(trace.input_tokens))
        found.append(
            GenerationRequest(
                arrived_at_ns=at_ns,
                tag=TenantId("t"),
                terms=TERMS,
                prompt_tokens=max(1, trace.input_tokens[index]),
                output_tokens=max(1, trace.output_tokens[index]),
                output_tokens_max=2_048,
            )
        )
    return found


def row_of(name: str, trace: Trace, load: float, count: int) -> harness.Row:
    """The law and a run."""
    law = Capacity(law=A100_8B, kv_tokens=A100_LIMITS.kv_tokens)
    whole = RequestMix.of(trace.input_tokens, trace.output_tokens)
    rate_rps = load * law.at_most(whole).rate_rps
    requests = requests_of(trace, rate_rps, count)
    # What did arrive: chance makes it a little more or less than what was asked for.
    span_ns = requests[-1].arrived_at_ns - requests[0].arrived_at_ns
    rate_rps = (count - 1) * NS_PER_S / span_ns
    mix = RequestMix.of(
        [each.prompt_tokens for each in requests], [each.output_tokens for each in requests]
    )
    at_once = law.at_most(mix) if load > 1.0 else law.at_rate(mix, rate_rps)
    assert at_once is not None, "a load below 1 is one that the engine bears"
    home: list[Generation] = []
    first_ns, last_ns = requests[count // 10].arrived_at_ns, requests[-1].arrived_at_ns
    meter = Meter(home, first_ns, last_ns)
    home.append(Generation(headway(A100_LIMITS), A100_8B, A100_LIMITS.copies, observe=meter))
    run = home[0].run(requests)
    ended = [
        each for each in run.samples if each.ended_at_ns and first_ns < each.ended_at_ns <= last_ns
    ]
    sequences, kv_tokens = meter.sequence_ns / meter.time_ns, meter.token_ns / meter.time_ns
    naive_ns = mix.output_tokens * (A100_8B.base_ns + A100_8B.context_ns * at_once.kv_tokens)
    return rounded(
        {
            "lengths": name,
            "load": load,
            "rate_rps": rate_rps,
            "law_rate_rps": at_once.rate_rps,
            "played_rate_rps": len(ended) * NS_PER_S / (last_ns - first_ns),
            "sequences": at_once.sequences,
            "played_sequences": sequences,
            "sequences_off_pct": 100.0 * (at_once.sequences / sequences - 1.0),
            "kv_tokens": at_once.kv_tokens,
            "played_kv_tokens": kv_tokens,
            "kv_off_pct": 100.0 * (at_once.kv_tokens / kv_tokens - 1.0),
            "naive_sequences": rate_rps * naive_ns / NS_PER_S,
            "requests": count,
        }
    )


def rows(folder: Path, *, is_quick: bool) -> Iterator[harness.Row]:
    """All of them."""
    azure = folder / "azure_llm_2023"
    traces = {
        "azure conv": load_trace(azure / "AzureLLMInferenceTrace_conv.csv", TraceFormat.AZURE_LLM),
        "azure code": load_trace(azure / "AzureLLMInferenceTrace_code.csv", TraceFormat.AZURE_LLM),
        "generated bursts": burst_trace(BurstLoad(rate_rps=1.0), 1, 10_000),
    }
    for name, trace in traces.items():
        for load in (0.5,) if is_quick else LOADS:
            yield row_of(name, trace, load, 400 if is_quick else 2_500)
            print(f"{name} {load}", file=sys.stderr, flush=True)


def main() -> int:
    """Play all, and put the figures where they are asked for."""
    arguments = generation_parser(__doc__, "one load, fewer requests").parse_args()
    found = list(rows(traces_folder(arguments), is_quick=arguments.quick))
    harness.publish(NAME, found, COLUMNS, arguments, notes=NOTES, emulated=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
