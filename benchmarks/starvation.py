"""Starvation: important work at 110 % of what the machine can do, beside a little other work.

Strict priority then never serves the rest. The bound is half of a request's own budget: `wait_max`
is the longest that any low request waited for its first start, as part of its budget, and
`beyond_bound` counts those that waited for longer than half of it, and `over_bound_max_ms` is by
how much at most. Refused as they arrived are not among them: `refused_at_once` counts those. What
it costs the important work is `high_violations_difference` in the rows of kind `difference`.

Usage: `python benchmarks/starvation.py [--quick] [--format table|json]`. With `--format json` the
document goes to stdout; otherwise a table, and a full run puts the document into
`benchmarks/results/starvation.json`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from contests import (
    Entry,
    Figures,
    contest_parser,
    contestants,
    difference_rows,
    matches_of,
    play_measured,
    publish,
    rows_of,
    seeds_of,
)

from headway.bench import Contender, Match
from headway.core import SlotClass
from headway.sim import Scenario, WaitMeter, scenario_from_dict

NAME = "starvation"
ENTRIES = tuple(Entry(name) for name in ("fifo", "priority", "static-cap", "strait", "headway"))
QUICK = ("priority", "headway")
BOUND = 0.5
"""Of a request's own budget."""
LANES = 2
HIGH_MS, LOW_MS = 10, 40
HIGH_LOAD, LOW_LOAD = 1.1, 0.1
"""Of what the lanes can do."""
COLUMNS = (
    *("mix", "policy", "high_violations", "low_violations", "low_requests", "refused_at_once"),
    *("beyond_bound", "wait_max", "over_bound_max_ms", "never_started", "seeds", "against"),
    *("high_violations_difference", "low_violations_difference"),
)
NOTES = (
    "Simulated on two lanes of two slots, ten milliseconds of high work against forty of low.",
    "Counts are means over seeds; wait_max and over_bound_max_ms are the worst of all.",
    "Rows of kind `difference` are headway less the other, seed by seed.",
)


def scenario(crowded_s: int, *, niced: bool) -> Scenario:
    """Too much high work for a while, and a little low work throughout."""
    high_rps = HIGH_LOAD * LANES * 1000 / HIGH_MS
    low_rps = LOW_LOAD * LANES * 1000 / LOW_MS
    return scenario_from_dict(
        {
            "devices": [{"name": "cpu:0", "slots": 2 * LANES, "lanes": LANES}],
            "sharing": {"kind": "lanes", "niced": niced},
            "tiers": {
                "urgent": {"priority": 0, "budget": f"{5 * HIGH_MS}ms"},
                "patient": {"priority": 5, "budget": "2s", "slot_class": "low"},
            },
            "models": [
                {
                    "name": name,
                    "service": f"{ms}ms",
                    "noise_cv": 0.05,
                    "batch": {"rows_max": 1},
                }
                for name, ms in (("quick", HIGH_MS), ("slow", LOW_MS))
            ],
            "workload": {
                "duration": f"{crowded_s + 10}s",
                "streams": [
                    {
                        "model": "quick",
                        "tier": "urgent",
                        "stop": f"{crowded_s}s",
                        "arrivals": {"kind": "poisson", "rate_rps": high_rps},
                    },
                    {
                        "model": "slow",
                        "tier": "patient",
                        "arrivals": {"kind": "poisson", "rate_rps": low_rps},
                    },
                ],
            },
        }
    )


class Waits:
    """Measures one match: how long low requests waited."""

    def __init__(self) -> None:
        self.meter = WaitMeter(SlotClass.LOW, BOUND)

    def figures(self) -> Figures:
        """What a row says of it."""
        waits = self.meter.figures()
        return {
            "low_requests": waits.requests,
            "refused_at_once": waits.refused,
            "never_started": waits.never_started,
            "beyond_bound": waits.beyond_bound,
            "wait_p99": waits.wait_p99_ratio,
            "wait_max": waits.wait_max_ratio,
            "over_bound_max_ms": waits.longest_over_bound_ns / 1e6,
        }


def measure(_: Match) -> tuple[Sequence[WaitMeter], Callable[[], Figures]]:
    """The observers of one match, and what they say at its end."""
    waits = Waits()
    return [waits.meter], waits.figures


def main() -> int:
    """Play all and put the figures where they are asked for."""
    quick = "one seed, 15 s at 110 %, two policies"
    arguments = contest_parser(__doc__, quick, ENTRIES, seeds=5).parse_args()
    crowded_s = 15 if arguments.quick else 60
    blanks = [
        Match(scenario(crowded_s, niced=niced), Contender("", {}), mix=name)
        for name, niced in (("even", False), ("niced", True))
    ]
    seeds = range(1, 2) if arguments.quick and not arguments.seeds else seeds_of(arguments)
    matches = matches_of(blanks, contestants(arguments, ENTRIES, QUICK), seeds)
    results = list(play_measured(matches, arguments.processes, measure))
    rows = [*rows_of(results), *difference_rows(results, "headway")]
    publish(NAME, rows, COLUMNS, arguments, notes=NOTES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
