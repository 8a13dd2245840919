"""How fast virtual time passes: requests a second on one core, and memory over a long run.

Two kinds of row. `speed`: a scenario of two tiers and two models on four slots at 0.9 of what they
can do, alone and with what a report costs. `memory`: a million requests in one run, with the
process's resident memory along the way; only one arrival is ever held, so it must not grow.

Usage: `python benchmarks/simulator.py [--quick] [--format table|json]`. With `--format json` the
document goes to stdout; otherwise a table, and a full run puts the document into
`benchmarks/results/simulator.json`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from time import perf_counter, process_time

from harness import (
    Interval,
    Row,
    line_table,
    median_row,
    quick_parser,
    results_document,
    rss_mib,
    write_results,
)

from headway.core import Command, Event, Kernel, Policy, Predictor, Request
from headway.policy import edf, fifo, priority
from headway.sim import Scenario, Tally, World, scenario_from_dict
from headway.testing import MeanPredictor

NAME = "simulator"
POLICIES: dict[str, Callable[[Predictor], Policy]] = {
    "fifo": fifo,
    "priority": priority,
    "edf": edf,
}
Observe = Callable[[int, Event, list[Command]], None]
SPEED_COLUMNS = (
    "policy",
    "sharing",
    "observer",
    "requests",
    "events",
    "requests_per_s",
    "requests_per_cpu_s",
    "events_per_s",
    "others_cores",
)
MEMORY_COLUMNS = ("policy", "requests", "rss_mib", "growth_mib", "seconds", "others_cores")
LOAD = 0.9


def scenario(requests: int, sharing: str, *, load: float = LOAD) -> Scenario:
    """So many requests, give or take chance, on four slots."""
    rate_rps = load * 4 / 0.0025  # half of them take 1 ms, half 4 ms
    duration_ns = round(requests / rate_rps * 1e9)
    stream = {"kind": "poisson", "rate_rps": rate_rps / 2}
    batch = {"rows_max": 1}  # the most decisions a request can need
    return scenario_from_dict(
        {
            "devices": [{"name": "cpu:0", "slots": 4, "lanes": 4 if sharing == "solo" else 2}],
            "sharing": {"kind": sharing},
            "tiers": {
                "live": {"priority": 0, "budget": "100ms"},
                "bulk": {"priority": 5, "budget": "2s", "slot_class": "low"},
            },
            "models": [
                {"name": "quick", "service": "1ms", "batch": batch},
                {"name": "slow", "service": "4ms", "batch": batch},
            ],
            "workload": {
                "duration": f"{duration_ns}ns",
                "streams": [
                    {"model": "quick", "tier": "live", "arrivals": stream},
                    {"model": "slow", "tier": "bulk", "arrivals": stream},
                ],
            },
        }
    )


def speed(policy: str, sharing: str, observer: str, requests: int) -> Row:
    """One run, timed from the first event to the last."""
    # Two slots on a core share it: the same load on half the cores.
    plan = scenario(requests, sharing, load=LOAD if sharing == "solo" else LOAD / 2)
    observe: Observe | None = Tally() if observer == "tally" else None
    gc.collect()
    with Interval() as interval:
        started, cpu_started = perf_counter(), process_time()
        world = plan.play(POLICIES[policy](MeanPredictor()), observe=observe)
        seconds, cpu_seconds = perf_counter() - started, process_time() - cpu_started
    done = world.kernel.ledger.arrived_count
    return {
        "kind": "speed",
        "policy": policy,
        "sharing": sharing,
        "observer": observer,
        "requests": done,
        "events": world.event_count,
        "requests_per_s": round(done / seconds, 1),
        "requests_per_cpu_s": round(done / cpu_seconds, 1),
        "events_per_s": round(world.event_count / seconds, 1),
        "others_cores": interval.others_cores,
    }


def memory(policy: str, requests: int, samples: int) -> list[Row]:
    """A row for each part of a long run."""
    plan = scenario(requests, "lanes", load=LOAD / 2)
    kernel = Kernel(plan.params, POLICIES[policy](MeanPredictor()))
    world = World(kernel, plan.executor(), observe=Tally())
    world.load(model.params for model in plan.models)
    rows: list[Row] = []
    started = perf_counter()
    every = requests // samples

    def note(number: int) -> None:
        rows.append(
            {
                "kind": "memory",
                "policy": policy,
                "requests": number,
                "rss_mib": rss_mib([os.getpid()]),
                "seconds": round(perf_counter() - started, 2),
            }
        )

    def watched() -> Iterator[Request]:
        for number, request in enumerate(plan.requests()):
            if number % every == 0 and number:
                note(number)
            yield request

    with Interval() as interval:
        world.run(watched())
    note(kernel.ledger.arrived_count)
    first = float(rows[0]["rss_mib"] or 0)
    for row in rows:
        row["growth_mib"] = round(float(row["rss_mib"] or 0) - first, 1)
        row["others_cores"] = interval.others_cores
    return rows


def main() -> int:
    """Run both parts and put the figures where they are asked for."""
    arguments = quick_parser(__doc__, "a tenth of the requests").parse_args()
    scale = 10 if arguments.quick else 1
    rounds = 1 if arguments.quick else 3
    speeds: list[Row] = []
    for policy in POLICIES:
        for sharing, observer in (("solo", "none"), ("solo", "tally"), ("lanes", "tally")):
            runs = [speed(policy, sharing, observer, 200_000 // scale) for _ in range(rounds)]
            speeds.append(median_row(runs))
            print(f"{policy}, {sharing}, {observer}: measured", file=sys.stderr, flush=True)
    memories = memory("fifo", 1_000_000 // scale, 10)
    document = results_document(
        NAME,
        [*speeds, *memories],
        notes=[
            "One process, one core; the workload is generated inside the timed part. "
            "requests_per_cpu_s leaves out the time in which other programs had the core.",
            "speed: medians of the rounds. observer none is the kernel and the virtual world "
            "alone, tally adds counts and latency histograms for each tier.",
            "memory: growth_mib is since the first row, which is after a tenth of the requests.",
        ],
    )
    if arguments.format == "json":
        sys.stdout.write(document)
    else:
        print("\n".join(line_table(speeds, SPEED_COLUMNS)))
        print()
        print("\n".join(line_table(memories, MEMORY_COLUMNS)))
    if not arguments.quick:
        write_results(NAME, document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
