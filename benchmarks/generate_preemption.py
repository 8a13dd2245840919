"""Important requests that find an engine full: how many steps they wait, and at what cost.

- `slots`: 24 long bronze requests hold all eight slots, memory is plenty, and eight gold ones
  arrive.
- `memory`: bronze requests fill the memory, slots are plenty, and gold ones arrive one after
  another.

`gold_ttft_*_steps` counts steps from a gold request's arrival to its first token. `computed_tokens`
over `prompt_tokens` is what preemption has had computed again. Every request ends with all its
tokens, which is asserted.

Usage: `python benchmarks/generate_preemption.py [--quick] [--format table|json]`. With `--format
json` the document goes to stdout; otherwise a table, and a full run puts the document into
`benchmarks/results/generate_preemption.json`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from statistics import fmean

import harness
from generated import A100_8B, BRONZE, GOLD, NOTES, headway, rounded, stock
from msgspec.structs import replace

from headway.core import TenantId
from headway.generate import EngineLimits, PreemptWay, StepPlan, StepScheduler, SwapSettings
from headway.sim import Generation, GenerationRequest
from headway.units import NS_PER_MS, NS_PER_S

NAME = "generate_preemption"
COLUMNS = (
    *("scenario", "policy", "gold_ttft_p50_steps", "gold_ttft_max_steps", "gold_ttft_max_ms"),
    *("paused_steps", "preemptions", "preemptions_max", "prompt_tokens", "computed_tokens"),
    *("makespan_s",),
)
SLOTS = EngineLimits(blocks=3_000, sequences_max=8, law=A100_8B)
MEMORY = EngineLimits(blocks=500, sequences_max=64, law=A100_8B)
URGENT = replace(GOLD, ttft_ns=100 * NS_PER_MS)
CHEAP = replace(BRONZE, is_gated=False)
"""Ungated, so that it fills what there is."""
POLICIES: dict[str, Callable[[EngineLimits], StepScheduler]] = {
    "fcfs": lambda limits: stock("fcfs", limits, 2_048),
    "priority": lambda limits: stock("priority", limits, 2_048),
    "headway": headway,
    "headway, recompute only": lambda limits: headway(
        limits, swap=SwapSettings(ways=(PreemptWay.RECOMPUTE,))
    ),
}


def request(at_ns: int, *, is_gold: bool, prompt_tokens: int, output: int) -> GenerationRequest:
    """One request."""
    terms = URGENT if is_gold else CHEAP
    return GenerationRequest(
        arrived_at_ns=at_ns,
        tag=TenantId(terms.name),
        terms=terms,
        prompt_tokens=prompt_tokens,
        output_tokens=output,
        output_tokens_max=output,
    )


def slots_requests() -> list[GenerationRequest]:
    """24 long ones, and eight that come while eight of them run."""
    low = [request(0, is_gold=False, prompt_tokens=64, output=200) for _ in range(24)]
    gold = [request(500 * NS_PER_MS, is_gold=True, prompt_tokens=64, output=16) for _ in range(8)]
    return low + gold


def memory_requests() -> list[GenerationRequest]:
    """More than memory holds, and a gold one every second and a half."""
    low = [request(0, is_gold=False, prompt_tokens=600, output=300) for _ in range(40)]
    gold = [
        request(2 * NS_PER_S + each * 1_500 * NS_PER_MS, is_gold=True, prompt_tokens=900, output=32)
        for each in range(16)
    ]
    return low + gold


class Watch:
    """Steps: when each sequence had its first token, and how often one that had begun paused."""

    def __init__(self) -> None:
        self.first: dict[int, int] = {}
        self.ends_ns: list[int] = []
        self.paused_steps = 0
        self._begun: dict[int, int] = {}

    def __call__(self, plan: StepPlan, begun_at_ns: int, ended_at_ns: int) -> None:
        """Take one step."""
        index = len(self.ends_ns)
        self.ends_ns.append(ended_at_ns)
        for work in plan.work:
            if work.yields:
                self.first.setdefault(work.sequence_id, index)
            last = self._begun.get(work.sequence_id)
            if last is not None:
                self.paused_steps += index - last - 1
            self._begun[work.sequence_id] = index

    def steps_to_first(self, number: int, arrived_at_ns: int) -> int:
        """Steps that ended after its arrival, up to that of its first token."""
        ends_ns = self.ends_ns[: self.first[number] + 1]
        return sum(1 for ended_at_ns in ends_ns if ended_at_ns > arrived_at_ns)


def rows() -> Iterator[harness.Row]:
    """All of them."""
    scenarios = {"slots": (SLOTS, slots_requests()), "memory": (MEMORY, memory_requests())}
    for scenario, (limits, requests) in scenarios.items():
        for policy, make in POLICIES.items():
            watch = Watch()
            run = Generation(make(limits), A100_8B, limits.copies, observe=watch).run(requests)
            assert [sample.tokens for sample in run.samples] == [r.output_tokens for r in requests]
            gold = [
                (number, sample)
                for number, sample in enumerate(run.samples, start=1)
                if sample.tier == "gold"
            ]
            steps = sorted(
                watch.steps_to_first(number, sample.request.arrived_at_ns)
                for number, sample in gold
            )
            yield rounded(
                {
                    "scenario": scenario,
                    "policy": policy,
                    "gold_ttft_p50_steps": steps[len(steps) // 2],
                    "gold_ttft_max_steps": steps[-1],
                    "gold_ttft_mean_ms": fmean((s.ttft_ns or 0) / NS_PER_MS for _, s in gold),
                    "gold_ttft_max_ms": max((s.ttft_ns or 0) / NS_PER_MS for _, s in gold),
                    "paused_steps": watch.paused_steps,
                    "preemptions": run.swaps + run.recomputes,
                    "preemptions_max": max(sample.preempts for sample in run.samples),
                    "prompt_tokens": sum(each.prompt_tokens for each in requests),
                    "computed_tokens": run.prefill_tokens,
                    "makespan_s": run.makespan_ns / 1e9,
                }
            )


def main() -> int:
    """Play all, and put the figures where they are asked for."""
    arguments = harness.quick_parser(__doc__, "the same: it takes seconds").parse_args()
    harness.publish(NAME, list(rows()), COLUMNS, arguments, notes=NOTES, emulated=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
