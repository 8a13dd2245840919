"""What deciding costs: time of one plan, and of taking in its end, by scheduler and batch.

So many sequences decode, and as many wait behind them in three classes and eight tags. Schedulers
take turns, round by round, and of each the median round counts. `blocked` has memory so short that
every step looks for somebody to begin and finds no room.

Usage: `python benchmarks/step_cost.py [--quick] [--format table|json]`. With `--format json` the
document goes to stdout; otherwise a table, and a full run puts the document into
`benchmarks/results/step_cost.json`.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable

import harness
from generated import A100_8B, BRONZE, GOLD, SILVER, headway, rounded, stock, vtc

from headway.core import ModelName, TenantId
from headway.generate import (
    EngineLimits,
    SequenceArrived,
    SequenceId,
    SequenceParams,
    StepFinished,
    StepScheduler,
)

NAME = "step_cost"
COLUMNS = ("policy", "sequences", "waiting", "plan_us", "finish_us", "step_us", "over_fcfs")
STEP_NS = 20_000_000
NOTES = (
    "Time of the scheduler alone, measured here; no model runs. A step of the model takes",
    "some 15 ms at 32 sequences on the accelerator that the other files simulate.",
)
POLICIES: dict[str, Callable[[EngineLimits], StepScheduler]] = {
    "fcfs": lambda limits: stock("fcfs", limits, 2_048),
    "priority": lambda limits: stock("priority", limits, 2_048),
    "vtc": lambda limits: vtc(limits, 2_048),
    "headway": headway,
}


class Bench:
    """One scheduler with its batch, stepped for ever: whoever ends is replaced."""

    def __init__(self, make: Callable[[EngineLimits], StepScheduler], sequences: int) -> None:
        blocks = sequences * 12
        limits = EngineLimits(
            blocks=blocks, sequences_max=sequences, law=A100_8B, waiting_max=1 << 20
        )
        self._scheduler = make(limits)
        self._next = 1
        self._now_ns = 0
        self._left: dict[SequenceId, int] = {}
        for _ in range(2 * sequences):
            self._arrive()

    def run(self, steps: int) -> tuple[float, float]:
        """Mean microseconds of a plan and of taking in its end."""
        clock, scheduler = time.perf_counter_ns, self._scheduler
        plan_ns = finish_ns = 0
        for _ in range(steps):
            begun_ns = clock()
            plan = scheduler.plan(self._now_ns)
            plan_ns += clock() - begun_ns
            self._now_ns += STEP_NS
            assert plan is not None
            ended = tuple(
                [w.sequence_id for w in plan.work if w.yields and self._is_last(w.sequence_id)]
            )
            event = StepFinished(step_ns=STEP_NS, ended=ended)
            begun_ns = clock()
            scheduler.handle(event, self._now_ns)
            finish_ns += clock() - begun_ns
            for _ in ended:
                self._arrive()
        return plan_ns / steps / 1e3, finish_ns / steps / 1e3

    def _arrive(self) -> None:
        number = self._next
        self._next += 1
        sequence_id = SequenceId(number)
        self._left[sequence_id] = 60 + number * 7 % 40
        params = SequenceParams(
            sequence_id=sequence_id,
            model=ModelName("llm"),
            tag=TenantId(f"tenant-{number % 8}"),
            terms=(GOLD, SILVER, BRONZE, BRONZE, BRONZE)[number % 5],
            arrived_at_ns=self._now_ns,
            prompt_tokens=60 + number * 11 % 20,
            output_tokens_max=100,
        )
        self._scheduler.handle(SequenceArrived(sequence=params), self._now_ns)

    def _is_last(self, sequence_id: SequenceId) -> bool:
        left = self._left[sequence_id] = self._left[sequence_id] - 1
        return left == 0


def rows(batches: tuple[int, ...], rounds: int, steps: int) -> list[harness.Row]:
    """Round after round, each scheduler in turn."""
    found: list[harness.Row] = []
    for sequences in batches:
        benches = {name: Bench(make, sequences) for name, make in POLICIES.items()}
        for bench in benches.values():
            bench.run(2 * steps)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in benches}
        gc.collect()
        gc.disable()
        for _ in range(rounds):
            for name, bench in benches.items():
                times[name].append(bench.run(steps))
        gc.enable()
        fcfs_us = 0.0
        for name, measured in times.items():
            plan_us = statistics.median([each[0] for each in measured])
            finish_us = statistics.median([each[1] for each in measured])
            fcfs_us = fcfs_us or plan_us + finish_us
            found.append(
                rounded(
                    {
                        "policy": name,
                        "sequences": sequences,
                        "waiting": sequences,
                        "plan_us": plan_us,
                        "finish_us": finish_us,
                        "step_us": plan_us + finish_us,
                        "over_fcfs": (plan_us + finish_us) / fcfs_us - 1.0,
                        "rounds": rounds,
                    }
                )
            )
    return found


def main() -> int:
    """Measure, and put the figures where they are asked for."""
    arguments = harness.quick_parser(__doc__, "one batch, fewer rounds").parse_args()
    if arguments.quick:
        found = rows((256,), rounds=5, steps=50)
    else:
        found = rows((32, 256, 1_024), rounds=15, steps=100)
    harness.publish(NAME, found, COLUMNS, arguments, notes=NOTES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
