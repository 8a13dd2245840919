"""The published mix, emulated: ResNet-50 with 20 ms beside BERT-base, on two cards at 87 %.

`examples/published.yaml` says what is emulated, and what was tuned. Rows with `published_high` and
`published_low` have a counterpart in print: arrival order, strict priority with fixed latencies,
the same with a model of transfers, and with one of interference too. Every figure is emulated.

Usage: `python benchmarks/policies_published.py [--quick] [--format table|json] [--plots FOLDER]`.
With `--format json` the document goes to stdout; otherwise a table, and a full run puts the
document into `benchmarks/results/policies_published.json`.
"""

from __future__ import annotations

import sys
from pathlib import Path

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
from headway.config import build_from_file
from headway.sim import scenario_from_dict
from headway.units import NS_PER_S

NAME = "policies_published"
SCENARIO = Path(__file__).resolve().parents[1] / "examples" / "published.yaml"
ENTRIES = (
    Entry("fifo", "fixed"),
    Entry("priority", "fixed"),
    Entry("pcie"),
    Entry("strait"),
    Entry("edf", "fixed"),
    Entry("static-cap"),
    Entry("lane-edf"),
    Entry("clockwork"),
    Entry("nexus"),
    Entry("headway"),
    Entry("oracle"),
)
QUICK = ("fifo", "priority", "headway")
PUBLISHED = {
    "fifo": (0.183, 0.121),
    "priority": (0.147, 0.158),
    "pcie": (0.102, 0.161),
    "strait": (0.071, 0.173),
}
"""Violations of the high and the low class as they were published of these four."""
COLUMNS = (
    *("policy", "high_violations", "low_violations", "published_high", "published_low"),
    *(
        "low_goodput_rps",
        "devices_busy",
        "waste_ratio",
        "oracle_high",
        "oracle_low",
        "seeds",
        "against",
    ),
    *("high_violations_difference", "low_violations_difference"),
)
NOTES = (
    "Emulated: no accelerator was there. The mix and the machine were tuned so that fifo and "
    "priority, with fixed latencies, come out near the published figures.",
    "devices_busy is the part of the time with a batch on a card, utilisation that of the slots.",
    "Rows of kind `difference` are headway less the other, seed by seed.",
)


def main() -> int:
    """Play all and put the figures where they are asked for."""
    quick = "two seeds of 8 s, three policies"
    arguments = contest_parser(__doc__, quick, ENTRIES, seeds=10).parse_args()
    scenario = build_from_file(SCENARIO, scenario_from_dict)
    scenario = scenario.lasting((8 if arguments.quick else 15) * NS_PER_S)
    contenders = contestants(arguments, ENTRIES, QUICK)
    blank = Match(scenario, Contender("", {}), mix="published")
    matches = matches_of([blank], contenders, seeds_of(arguments))
    results = list(play_measured(matches, arguments.processes))
    rows = rows_of(results)
    for row in rows:
        high, low = PUBLISHED.get(str(row["policy"]), (None, None))
        row |= {"published_high": high, "published_low": low}
    frontier(rows, arguments.plots, NAME, "The published mix, emulated")
    differences = difference_rows(results, "headway")
    publish(NAME, [*rows, *differences], COLUMNS, arguments, notes=NOTES, emulated=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
