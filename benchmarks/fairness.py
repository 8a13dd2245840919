"""Fairness between tenants: three of them on two cores, one sending ten times as much.

All three send more than their fair part all the time, so that the machine is saturated and what
each gets is the policy's doing. Their requests differ in size: a share is one of device time, not
of requests. `shares` are over the whole saturated stretch, `deviation_max` is the most that any
tenant's part was off its weight's in any window of ten seconds, relative to that; `jain_min` is the
least of Jain's index over the windows. In the last stretch the first tenant is quiet: `quiet_busy`
is the part of the lanes' time with a batch then, which is 1 if what it leaves is used by the
others.

Usage: `python benchmarks/fairness.py [--quick] [--format table|json]`. With `--format json` the
document goes to stdout; otherwise a table, and a full run puts the document into
`benchmarks/results/fairness.json`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from contests import (
    Entry,
    Figures,
    contest_parser,
    contestants,
    matches_of,
    play_measured,
    publish,
    rows_of,
    seeds_of,
)

from headway.bench import Contender, Match
from headway.core import BatchFinished, BatchId, Command, Dispatch, Event
from headway.sim import Scenario, ShareMeter, scenario_from_dict
from headway.units import NS_PER_S

NAME = "fairness"
ENTRIES = tuple(Entry(name) for name in ("fifo", "priority", "edf", "lane-edf", "headway"))
QUICK = ("fifo", "headway")
WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "1:1:1": {"first": 1, "second": 1, "crowd": 1},
    "2:1:1": {"first": 2, "second": 1, "crowd": 1},
}
SERVICE_MS = {"first": 40, "second": 20, "crowd": 60}
DEMAND = {"first": 0.75, "second": 0.75, "crowd": 7.5}
"""Of what the two lanes can do; so much over the largest share that chance never leaves it idle for
a while, for what was not asked for is no part of fairness."""
LANES = 2
WINDOW_NS = 10 * NS_PER_S
SETTLE_NS = 5 * NS_PER_S
"""Not looked at: queues fill."""
COLUMNS = (
    *("mix", "policy", "deviation_max", "jain_min", "jain_mean", "share_first", "share_second"),
    *("share_crowd", "quiet_busy", "low_violations", "seeds"),
)
NOTES = (
    "Simulated on two lanes of two slots; the tenants share one tier of class low.",
    "deviation_max and jain_min are the worst of all seeds and windows; shares are means.",
)


def scenario(weights: Mapping[str, float], saturated_s: int, quiet_s: int) -> Scenario:
    """Three tenants, a model each; the first stops sending when the quiet stretch begins."""
    streams = [
        {
            "model": name,
            "tier": "work",
            "tenant": name,
            "arrivals": {
                "kind": "poisson",
                "rate_rps": DEMAND[name] * LANES * 1000 / SERVICE_MS[name],
            },
            **({"stop": f"{saturated_s}s"} if name == "first" else {}),
        }
        for name in weights
    ]
    return scenario_from_dict(
        {
            "devices": [{"name": "cpu:0", "slots": 2 * LANES, "lanes": LANES}],
            "tiers": {"work": {"priority": 5, "budget": "1500ms", "slot_class": "low"}},
            "tenants": {name: {"share": share} for name, share in weights.items()},
            "models": [
                {
                    "name": name,
                    "service": f"{ms}ms",
                    "noise_cv": 0.1,
                    "batch": {"rows_max": 1},
                }
                for name, ms in SERVICE_MS.items()
            ],
            "workload": {"duration": f"{saturated_s + quiet_s}s", "streams": streams},
        }
    )


class Lanes:
    """An observer: for how long of a stretch each lane had a batch; slots go round the lanes."""

    def __init__(self, from_ns: int, until_ns: int) -> None:
        self._from_ns, self._until_ns = from_ns, until_ns
        self._running: list[set[BatchId]] = [set() for _ in range(LANES)]
        self._since_ns = 0
        self._busy_ns = 0

    def __call__(self, now_ns: int, event: Event, commands: list[Command]) -> None:
        """Take one kernel step."""
        passed_ns = min(now_ns, self._until_ns) - max(self._since_ns, self._from_ns)
        self._busy_ns += max(0, passed_ns) * sum(map(bool, self._running))
        self._since_ns = now_ns
        if isinstance(event, BatchFinished):
            for lane in self._running:
                lane.discard(event.batch_id)
        for command in commands:
            if isinstance(command, Dispatch):
                self._running[command.slot % LANES].add(command.batch_id)

    def ratio(self) -> float:
        """Of the lanes' time in the stretch."""
        return self._busy_ns / ((self._until_ns - self._from_ns) * LANES)


class Stretches:
    """Measures one match: shares while all send, and what is left unused when one is quiet."""

    def __init__(self, match: Match) -> None:
        streams = match.scenario.workload.streams
        stops = [stream.stop_at_ns for stream in streams if stream.stop_at_ns is not None]
        self._quiet_from_ns = stops[0]
        self._weights = match.scenario.shares
        self.meter = ShareMeter()
        # What the first tenant left waiting is served for a while yet.
        from_ns = self._quiet_from_ns + 2 * NS_PER_S
        self.lanes = Lanes(from_ns, match.scenario.workload.duration_ns)

    def figures(self) -> Figures:
        """What a row says of it."""
        shares = self.meter.figures(self._weights, WINDOW_NS, SETTLE_NS, self._quiet_from_ns)
        named = {f"share_{tenant}": share for tenant, share in shares.shares.items()}
        return {
            "windows": shares.windows,
            "deviation_max": shares.deviation_max_ratio,
            "jain_min": shares.jain_index_min,
            "jain_mean": shares.jain_index_mean,
            "quiet_busy": self.lanes.ratio(),
            **named,
        }


def measure(match: Match) -> tuple[Sequence[ShareMeter | Lanes], Callable[[], Figures]]:
    """The observers of one match, and what they say at its end."""
    stretches = Stretches(match)
    return [stretches.meter, stretches.lanes], stretches.figures


def main() -> int:
    """Play all and put the figures where they are asked for."""
    quick = "one seed, 25 s of saturation, two policies"
    arguments = contest_parser(__doc__, quick, ENTRIES, seeds=5).parse_args()
    saturated_s, quiet_s = (25, 8) if arguments.quick else (60, 20)
    blanks = [
        Match(scenario(weights, saturated_s, quiet_s), Contender("", {}), mix=name)
        for name, weights in WEIGHTS.items()
    ]
    seeds = range(1, 2) if arguments.quick and not arguments.seeds else seeds_of(arguments)
    matches = matches_of(blanks, contestants(arguments, ENTRIES, QUICK), seeds)
    results = list(play_measured(matches, arguments.processes, measure))
    publish(NAME, rows_of(results), COLUMNS, arguments, notes=NOTES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
