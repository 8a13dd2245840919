"""Bursts: sixteen models on four emulated cards, each with gaps that come in clumps.

Two kinds of arrivals. `cv-8` draws gamma gaps with a coefficient of variation of 8, which needs
nothing but the seed. `code-trace` has the gaps of the Azure LLM inference trace of 2023 (code),
each model starting at another place of the recording, stretched to its rate; the recording is not
part of this project, and is played where `--traces` or HEADWAY_TRACES names the folder that holds
it.

Six models are important and quick, ten are neither. Rows of kind `difference` are headway less the
other on the same arrivals, with intervals. Every figure is emulated.

Usage: `python benchmarks/policies_bursts.py [--quick] [--format table|json] [--traces FOLDER]`.
With `--format json` the document goes to stdout; otherwise a table, and a full run puts the
document into `benchmarks/results/policies_bursts.json`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

from contests import (
    Entry,
    contest_parser,
    contestants,
    difference_rows,
    frontier,
    matches_of,
    play_measured,
    publish,
    rows_of,
    seeds_of,
)

from headway.bench import Contender, Match
from headway.sim import Scenario, scenario_from_dict

NAME = "policies_bursts"
ENTRIES = tuple(
    Entry(name)
    for name in (
        *("edf", "static-cap:low_max=1", "static-cap:low_max=2", "static-cap:low_max=3"),
        *("lane-edf", "clockwork", "nexus", "strait", "headway"),
    )
)
QUICK = ("edf", "static-cap:low_max=2", "headway")
TRACE = "azure_llm_2023/AzureLLMInferenceTrace_code.csv"
CARDS = 4
LOAD = 1.6
"""Work offered over the cards, a request's time alone counted in full. Batches share what they
load, so that a card does more than one second of such work in a second."""
HIGH_PART = 0.4
"""Of the work."""
COLUMNS = (
    *("mix", "policy", "high_violations", "low_violations", "high_goodput_rps", "low_goodput_rps"),
    *("low_goodput_work", "utilisation", "devices_busy", "waste_ratio", "seeds", "against"),
    *("high_violations_difference", "low_violations_difference"),
)
NOTES = (
    "Emulated: four cards of `a100-pcie4`, four slots each; sixteen models, each on every card.",
    "Rows of kind `difference` are headway less the other, seed by seed.",
)


class Kind(NamedTuple):
    """A model: its time alone, how many of them a request may take, and what it asks of a card."""

    name: str
    solo_ms: int
    budget_ms: int
    is_high: bool
    occupancy: float
    bandwidth: float


def kinds() -> list[Kind]:
    """Six important models and ten others, of sizes that a card meets in practice."""
    high = [(4, 8.0), (6, 8.0), (8, 7.0), (12, 6.0), (16, 5.0), (24, 5.0)]
    low = [10, 16, 20, 30, 40, 50, 60, 80, 100, 120]
    return [
        *(
            Kind(f"high-{index}", ms, round(ms * times), True, 0.2 + 0.05 * index, 0.4)
            for index, (ms, times) in enumerate(high)
        ),
        *(
            Kind(f"low-{index}", ms, 8 * ms, False, 0.3 + 0.03 * index, 0.3 + 0.05 * index)
            for index, ms in enumerate(low)
        ),
    ]


def scenario(duration_s: int, traces: Path | None) -> Scenario:
    """All models, each with an equal part of its class's work."""
    models, streams, tiers = [], [], {}
    high_count = sum(kind.is_high for kind in kinds())
    low_count = len(kinds()) - high_count
    for kind in kinds():
        part = HIGH_PART / high_count if kind.is_high else (1 - HIGH_PART) / low_count
        rate_rps = LOAD * CARDS * part * 1000 / kind.solo_ms
        models.append(
            {
                "name": kind.name,
                "devices": [f"gpu:{card}" for card in range(CARDS)],
                "options": {
                    "solo": f"{kind.solo_ms}ms",
                    "row": f"{kind.solo_ms * 150}us",
                    "occupancy": round(kind.occupancy, 2),
                    "occupancy_full_rows": 16,
                    "bandwidth": round(kind.bandwidth, 2),
                    "kernels": 50,
                    "in_bytes": 602112,
                    "out_bytes": 4096,
                },
                "batch": {"rows_max": 16},
            }
        )
        tiers[kind.name] = {
            "priority": 0 if kind.is_high else 5,
            "budget": f"{kind.budget_ms}ms",
            "slot_class": "high" if kind.is_high else "low",
        }
        streams.append(
            {"model": kind.name, "tier": kind.name, "arrivals": arrivals(rate_rps, traces)}
        )
    return scenario_from_dict(
        {
            "accelerator": "a100-pcie4",
            "devices": [{"name": f"gpu:{card}"} for card in range(CARDS)],
            "tiers": tiers,
            "models": models,
            "workload": {"duration": f"{duration_s}s", "streams": streams},
        },
        traces=traces,
    )


def arrivals(rate_rps: float, traces: Path | None) -> dict[str, object]:
    """Recorded gaps where there is a recording, else drawn ones."""
    if traces is None:
        return {"kind": "gamma", "rate_rps": rate_rps, "cv": 8}
    return {
        "kind": "recorded",
        "trace": TRACE,
        "format": "azure_llm",
        "rate_rps": rate_rps,
        "is_rotated": True,
    }


def main() -> int:
    """Play all and put the figures where they are asked for."""
    quick = "two seeds, drawn gaps, three policies"
    parser = contest_parser(__doc__, quick, ENTRIES, seeds=10)
    parser.add_argument(
        "--traces",
        metavar="FOLDER",
        default=os.environ.get("HEADWAY_TRACES"),
        help="that holds the recorded traces (HEADWAY_TRACES)",
    )
    arguments = parser.parse_args()
    duration_s = 8
    blanks = [Match(scenario(duration_s, None), Contender("", {}), mix="cv-8")]
    if arguments.traces and not arguments.quick:
        recorded = scenario(duration_s, Path(arguments.traces))
        blanks.append(Match(recorded, Contender("", {}), mix="code-trace"))
    contenders = contestants(arguments, ENTRIES, QUICK)
    matches = matches_of(blanks, contenders, seeds_of(arguments))
    results = list(play_measured(matches, arguments.processes))
    rows = rows_of(results)
    frontier(rows, arguments.plots, NAME, "Sixteen models in bursts on four cards, emulated")
    document = [*rows, *difference_rows(results, "headway")]
    publish(NAME, document, COLUMNS, arguments, notes=NOTES, emulated=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
