"""Fairness between tenants of a generating engine: floods, backlogs, and the published bound.

- `flood`: one tenant sends 64 requests, another eight right after, on eight slots. `ttft_*_steps`
  counts steps from the arrival of the eight to their first tokens; `alone_*` is what they have
  without the flood. `flood_end_s` is when the last of the flood ends.
- `backlog`: tenants of several weights always have something waiting. `difference_max` is the
  largest difference of service over weight between any two at any time, and `bound` what is proven
  for it: 2 max(w_in L, w_out M) for virtual token counters, the docstring of
  `headway.generate.credits` for ours.

Usage: `python benchmarks/generate_fairness.py [--quick] [--format table|json]`. With `--format
json` the document goes to stdout; otherwise a table, and a full run puts the document into
`benchmarks/results/generate_fairness.json`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from random import Random
from statistics import fmean

import harness
from generated import A100_8B, GOLD, NOTES, headway, rounded, stock, vtc
from msgspec.structs import replace

from headway.core import TenantId
from headway.generate import CreditSettings, EngineLimits, StepPlan, StepScheduler
from headway.sim import Generation, GenerationRequest, GenerationRun
from headway.units import NS_PER_MS

NAME = "generate_fairness"
COLUMNS = (
    *("scenario", "policy", "prompt_tokens", "ttft_mean_steps", "ttft_max_steps"),
    *("ttft_mean_ms", "ttft_max_ms", "alone_mean_ms", "alone_max_ms", "makespan_s", "flood_end_s"),
    *("difference_max", "bound", "within_bound", "tokens_per_s"),
)
SLOTS = EngineLimits(blocks=3_000, sequences_max=8, law=A100_8B)
SMALL_MEMORY = EngineLimits(blocks=1_000, sequences_max=64, law=A100_8B)
TERMS = replace(GOLD, ttft_ns=100 * NS_PER_MS)
PROMPT_MAX, OUTPUT_MAX = 1_024, 512
INPUT_WEIGHT, OUTPUT_WEIGHT = 1.0, 2.0


def request(at_ns: int, tag: str, prompt_tokens: int, output_tokens: int) -> GenerationRequest:
    """One request of a tenant."""
    return GenerationRequest(
        arrived_at_ns=at_ns,
        tag=TenantId(tag),
        terms=TERMS,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        output_tokens_max=OUTPUT_MAX,
    )


class FirstSteps:
    """The step in which each sequence had its first token."""

    def __init__(self) -> None:
        self.first: dict[int, int] = {}

    def __call__(self, plan: StepPlan, begun_at_ns: int, ended_at_ns: int) -> None:
        """Take one step."""
        for work in plan.work:
            if work.yields:
                self.first.setdefault(work.sequence_id, plan.step_index + 1)


class ServiceGap:
    """The largest difference of service over weight between tenants who always want more."""

    def __init__(self, tags: Mapping[int, str], weights: Mapping[str, float]) -> None:
        self._tags = tags
        self._weights = weights
        self._served = dict.fromkeys(weights, 0.0)
        self._prompts: set[int] = set()
        self.difference_max = 0.0

    def __call__(self, plan: StepPlan, begun_at_ns: int, ended_at_ns: int) -> None:
        """Take one step: prompt tokens as they are computed, and tokens that are generated."""
        step = dict.fromkeys(self._weights, 0.0)
        for work in plan.work:
            tag = self._tags[work.sequence_id]
            is_decode = work.tokens == 1 and work.yields and work.sequence_id in self._prompts
            units = OUTPUT_WEIGHT * work.yields + INPUT_WEIGHT * work.tokens * (not is_decode)
            if work.yields:
                self._prompts.add(work.sequence_id)
            step[tag] += units / self._weights[tag]
        for tag, units in step.items():
            self._served[tag] += units
        for one, other in combinations(self._served.values(), 2):
            self.difference_max = max(self.difference_max, abs(one - other))


def play(
    scheduler: StepScheduler,
    requests: list[GenerationRequest],
    observe: Callable[[StepPlan, int, int], None],
) -> GenerationRun:
    """One run."""
    return Generation(scheduler, A100_8B, observe=observe).run(requests)


def schedulers(
    limits: EngineLimits, weights: Mapping[TenantId, float] | None = None
) -> dict[str, Callable[[], StepScheduler]]:
    """Those that are compared."""
    sharing = CreditSettings(
        input_weight=INPUT_WEIGHT, output_weight=OUTPUT_WEIGHT, weights=weights or {}
    )
    return {
        "fcfs": lambda: stock("fcfs", limits, 2_048),
        "vtc": lambda: vtc(limits, 2_048, weights),
        "headway": lambda: headway(limits, credits=sharing),
    }


def flood_rows(prompts: tuple[int, ...]) -> Iterator[harness.Row]:
    """64 of one tenant, eight of another."""
    for prompt_tokens in prompts:
        flood = [request(0, "flood", prompt_tokens, 32) for _ in range(64)]
        small = [request(1, "small", prompt_tokens, 32) for _ in range(8)]
        for name, make in schedulers(SLOTS).items():
            alone = play(make(), small, FirstSteps())
            steps = FirstSteps()
            run = play(make(), flood + small, steps)
            first = [steps.first[number] for number in range(65, 73)]
            alone_ms = [(sample.ttft_ns or 0) / NS_PER_MS for sample in alone.samples]
            ttft_ms = [(sample.ttft_ns or 0) / NS_PER_MS for sample in run.samples[64:]]
            flood_end_ns = max(sample.ended_at_ns or 0 for sample in run.samples[:64])
            yield rounded(
                {
                    "scenario": "flood",
                    "policy": name,
                    "prompt_tokens": prompt_tokens,
                    "ttft_mean_steps": fmean(first),
                    "ttft_max_steps": max(first),
                    "ttft_mean_ms": fmean(ttft_ms),
                    "ttft_max_ms": max(ttft_ms),
                    "alone_mean_ms": fmean(alone_ms),
                    "alone_max_ms": max(alone_ms),
                    "makespan_s": run.makespan_ns / 1e9,
                    "flood_end_s": flood_end_ns / 1e9,
                    "preemptions": run.swaps + run.recomputes,
                }
            )


def backlog_rows(counts: int) -> Iterator[harness.Row]:
    """Tenants that always want more, of equal and of different weights and sizes."""
    cases: dict[str, dict[str, float]] = {
        "two alike": {"a": 1.0, "b": 1.0},
        "four, weights 1 1 2 4": {"a": 1.0, "b": 1.0, "c": 2.0, "d": 4.0},
    }
    for case, weights in cases.items():
        random = Random(f"fairness/{case}")
        requests = [
            # Each tenant has a size of its own, so that a share of requests is no share of tokens.
            request(
                number,
                tag,
                random.randrange(16, PROMPT_MAX >> index),
                random.randrange(8, OUTPUT_MAX >> index),
            )
            for number in range(counts)
            for index, tag in enumerate(weights)
        ]
        tags = {number: str(each.tag) for number, each in enumerate(requests, start=1)}
        by_tag = {TenantId(tag): weight for tag, weight in weights.items()}
        for name, make in schedulers(SMALL_MEMORY, by_tag).items():
            yield _backlog_row(case, name, make(), requests, ServiceGap(tags, weights), weights)


def _backlog_row(
    case: str,
    name: str,
    scheduler: StepScheduler,
    requests: list[GenerationRequest],
    gap: ServiceGap,
    weights: Mapping[str, float],
) -> harness.Row:
    """One run, as long as every tenant has something waiting."""
    left = {tag: sum(each.tag == tag for each in requests) for tag in weights}
    seen: set[int] = set()
    tokens = ended_ns = 0

    def observe(plan: StepPlan, begun_at_ns: int, ended_at_ns: int) -> None:
        nonlocal tokens, ended_ns
        for work in plan.work:
            if work.sequence_id not in seen:
                seen.add(work.sequence_id)
                left[str(requests[work.sequence_id - 1].tag)] -= 1
        if min(left.values()) > 0:
            gap(plan, begun_at_ns, ended_at_ns)
            tokens += sum(work.yields for work in plan.work)
            ended_ns = ended_at_ns

    play(scheduler, requests, observe)
    least = min(weights.values())
    # What a tenant may be charged for those who were let in: all that memory has room for.
    charge_max = max(INPUT_WEIGHT * PROMPT_MAX, OUTPUT_WEIGHT * SMALL_MEMORY.kv_tokens)
    bound: float | None = None
    if name == "vtc":
        bound = 2 * charge_max / least
    elif name == "headway":
        settings = CreditSettings()
        bound = 2 * ((settings.carry_rounds + 1) * settings.quantum + charge_max / least)
    return rounded(
        {
            "scenario": f"backlog: {case}",
            "policy": name,
            "difference_max": gap.difference_max,
            "bound": bound,
            "within_bound": None if bound is None else gap.difference_max <= bound,
            "tokens_per_s": tokens / (ended_ns / 1e9),
            "backlogged_s": ended_ns / 1e9,
        }
    )


def main() -> int:
    """Play all, and put the figures where they are asked for."""
    arguments = harness.quick_parser(__doc__, "one size of prompt, shorter backlogs").parse_args()
    prompts = (64,) if arguments.quick else (16, 64, 256)
    found = [*flood_rows(prompts), *backlog_rows(60 if arguments.quick else 400)]
    harness.publish(NAME, found, COLUMNS, arguments, notes=NOTES, emulated=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
