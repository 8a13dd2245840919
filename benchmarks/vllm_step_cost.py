"""What headway's scheduler costs inside vLLM: time per step at 256 sequences, beside vLLM's own.

A real engine with a tiny model, so that of a step the scheduler is as large a part as it can be;
256 sequences of eight tenants in three classes decode, and none waits. The two take turns, each
round an engine of its own, and of each scheduler the median round counts. `schedule_us` and
`update_us` are the parts of a step that are vLLM's scheduler's, with all that headway does in them;
`step_cpu_us` is a step in processor time of its thread, which other work on the machine sways less.

Usage: `.venv-vllm/bin/python benchmarks/vllm_step_cost.py [--quick] [--format table|json]`, in the
environment that `make test-vllm` makes. With `--format json` the document goes to stdout; otherwise
a table, and a full run puts the document into `benchmarks/results/vllm_step_cost.json`.
"""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import harness

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "vllm")]

from vllm_rig import HEADWAY, Call, Engine, prompt, tiny_llama  # noqa: E402

import conftest  # noqa: E402, F401  (sets what vLLM reads when it is imported)

NAME = "vllm_step_cost"
COLUMNS = (
    *("scheduler", "sequences", "step_us", "step_cpu_us", "schedule_us", "update_us"),
    *("over_vllm", "over_vllm_cpu"),
)
NOTES = (
    "A model of a few thousand parameters on a CPU: with a real one a step is longer, and the",
    "scheduler's part of it smaller. `over_vllm` is the median over rounds of the ratio of steps.",
)
SEQUENCES = 256
WARM_STEPS = 20


class Times(NamedTuple):
    """Medians of one round, in microseconds."""

    step_us: float
    step_cpu_us: float
    schedule_us: float
    update_us: float


def timed(
    function: Callable[..., Any],
    into: list[int],
    clock: Callable[[], int] = time.perf_counter_ns,
) -> Callable[..., Any]:
    """The same, with how long each call took."""

    def call(*args: Any, **rest: Any) -> Any:
        begun_ns = clock()
        result = function(*args, **rest)
        into.append(clock() - begun_ns)
        return result

    return call


def measure(model: Path, scheduler: str | None, steps: int) -> Times:
    """One round: an engine, all its sequences decoding."""
    engine = Engine(
        model,
        scheduler,
        headway={"is_checked": False},
        max_num_seqs=SEQUENCES,
        max_num_batched_tokens=4_096,
        num_gpu_blocks_override=4_000,
        kv_cache_memory_bytes=256 << 20,
        scheduling_policy="priority",
    )
    for index in range(SEQUENCES):
        engine.add(
            Call(
                f"r{index}",
                prompt(index, 32),
                WARM_STEPS + steps + 100,
                priority=index % 3,
                args={"tenant": f"tenant-{index % 8}"},
            )
        )
    for _ in range(WARM_STEPS):
        engine.advance()
    assert len(engine.first_step) == SEQUENCES
    spent: tuple[list[int], ...] = ([], [], [], [])
    engine.scheduler.schedule = timed(engine.scheduler.schedule, spent[2])
    engine.scheduler.update_from_output = timed(engine.scheduler.update_from_output, spent[3])
    step = timed(timed(engine.advance, spent[1], time.thread_time_ns), spent[0])
    gc.collect()
    gc.disable()
    for _ in range(steps):
        step()
    gc.enable()
    engine.close()
    return Times(*[statistics.median(each) / 1e3 for each in spent])


def rows(rounds: int, steps: int) -> list[harness.Row]:
    """Round after round, each scheduler in turn."""
    found: dict[str, list[Times]] = {"vllm": [], "headway": []}
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_llama(Path(folder))
        for index in range(rounds):
            order = [("vllm", None), ("headway", HEADWAY)]
            for name, scheduler in order if index % 2 == 0 else reversed(order):
                found[name].append(measure(model, scheduler, steps))
    pairs = list(zip(found["headway"], found["vllm"], strict=True))
    over = statistics.median([ours.step_us / theirs.step_us for ours, theirs in pairs]) - 1.0
    over_cpu = (
        statistics.median([ours.step_cpu_us / theirs.step_cpu_us for ours, theirs in pairs]) - 1.0
    )
    return [
        {
            "scheduler": name,
            "sequences": SEQUENCES,
            "step_us": round(statistics.median([each.step_us for each in times])),
            "step_cpu_us": round(statistics.median([each.step_cpu_us for each in times])),
            "schedule_us": round(statistics.median([each.schedule_us for each in times])),
            "update_us": round(statistics.median([each.update_us for each in times])),
            "over_vllm": round(over, 3) if name == "headway" else 0.0,
            "over_vllm_cpu": round(over_cpu, 3) if name == "headway" else 0.0,
            "rounds": rounds,
            "steps": steps,
        }
        for name, times in found.items()
    ]


def main() -> int:
    """Measure, and put the figures where they are asked for."""
    arguments = harness.quick_parser(__doc__, "one round, fewer steps").parse_args()
    found = rows(2, 60) if arguments.quick else rows(8, 200)
    harness.publish(NAME, found, COLUMNS, arguments, notes=NOTES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
