"""What the simulated contests share: their flags, playing them, and their rows.

Knows policies by the names of the command line. Knows no scenario.

A match is played in a process of its own where there are cores for it. What a scenario measures
beside the common figures comes from observers, which a script makes anew for each match and reads
at its end, in that process.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import harness
import msgspec

from headway.bench import Contender, Match, Played, add_oracle, play
from headway.cli.arguments import policy_flag
from headway.devices import usable_cores
from headway.report import (
    PolicyDifference,
    PolicySummary,
    compare_policies,
    draw_frontier,
    summarise_policies,
)

__all__ = [
    "Entry",
    "Figures",
    "Measured",
    "contest_parser",
    "contestants",
    "difference_rows",
    "frontier",
    "matches_of",
    "play_measured",
    "publish",
    "rows_of",
    "seeds_of",
]

ORACLE = "oracle"
ROW_FIELDS = (
    "mix",
    "load",
    "policy",
    "seeds",
    "emulated",
    "high_violations",
    "high_violations_from",
    "high_violations_to",
    "low_violations",
    "low_violations_from",
    "low_violations_to",
    "high_goodput_rps",
    "low_goodput_rps",
    "low_goodput_rps_from",
    "low_goodput_rps_to",
    "low_goodput_work",
    "high_p50_ms",
    "high_p99_ms",
    "low_p50_ms",
    "low_p99_ms",
    "error_mean",
    "utilisation",
    "waste_ratio",
    "decision_p99_us",
    "refused",
    "given_up",
    "oracle_high",
    "oracle_low",
)

Figures = Mapping[str, float | int | None]
Measure = Callable[[Match], tuple[Sequence[Any], Callable[[], Figures]]]
"""From a match to observers of it, and what they say at its end."""


class Entry(NamedTuple):
    """A policy by its name on the command line, with the predictor that it is played with."""

    policy: str
    predictor: str | None = None


class Measured(NamedTuple):
    """What came of a match, and what the script's own observers say."""

    played: Played
    figures: Figures


def contest_parser(
    doc: str | None, quick: str, entries: Sequence[Entry], *, seeds: int
) -> argparse.ArgumentParser:
    """The flags of every contest."""
    parser = harness.quick_parser(doc, quick)
    names = " ".join(entry.policy for entry in entries)
    parser.add_argument("--policies", nargs="+", metavar="POLICY", help=f"instead of {names}")
    parser.add_argument("--seeds", type=int, help=f"how many, from 1 on ({seeds}; 2 when quick)")
    parser.add_argument("--processes", type=int, default=len(usable_cores()), help="at once")
    parser.add_argument("--plots", metavar="FOLDER", help="where to draw what there is to draw")
    parser.set_defaults(seeds_full=seeds)
    return parser


def contestants(
    arguments: argparse.Namespace, entries: Sequence[Entry], quick: Sequence[str]
) -> list[Contender]:
    """Who takes part: those that were asked for, else all, or the few of a quick run."""
    known = {entry.policy: entry for entry in entries}
    wanted = arguments.policies or (quick if arguments.quick else list(known))
    return [_contender(known.get(text, Entry(text))) for text in wanted]


def _contender(entry: Entry) -> Contender:
    if entry.policy == ORACLE:
        return Contender(ORACLE, {"kind": ORACLE})
    return Contender(entry.policy, policy_flag(entry.policy).settings, entry.predictor)


def seeds_of(arguments: argparse.Namespace) -> range:
    """The seeds that are played."""
    return range(1, 1 + (arguments.seeds or (2 if arguments.quick else arguments.seeds_full)))


def matches_of(
    scenarios: Iterable[Match], contenders: Sequence[Contender], seeds: Iterable[int]
) -> list[Match]:
    """Every contender with every seed, in turn, on each scenario; the matches' own are ignored."""
    return [
        match._replace(scenario=match.scenario.with_seed(seed), contender=contender)
        for match in scenarios
        for seed in seeds
        for contender in contenders
    ]


def play_measured(
    matches: Sequence[Match], processes: int, measure: Measure | None = None
) -> Iterator[Measured]:
    """Play all, several at once, in the matches' order; words on stderr say how it goes."""
    if processes <= 1:
        results: Iterator[Measured] = (_one(match, measure) for match in matches)
        yield from _told(matches, results)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(_one, match, measure) for match in matches]
        yield from _told(matches, (future.result() for future in futures))


def _told(matches: Sequence[Match], results: Iterator[Measured]) -> Iterator[Measured]:
    began_s = time.monotonic()
    for number, (match, result) in enumerate(zip(matches, results, strict=True), start=1):
        run = result.played.run
        print(
            f"{number}/{len(matches)} {time.monotonic() - began_s:.0f} s: {match.mix} seed "
            f"{run.seed} {run.policy}: high {run.high_violations:.1%}, "
            f"low {run.low_violations:.1%}",
            file=sys.stderr,
            flush=True,
        )
        yield result


def _one(match: Match, measure: Measure | None) -> Measured:
    if measure is None:
        return Measured(play(match, clock=time.perf_counter_ns), {})
    observers, read = measure(match)
    return Measured(play(match, observers=observers, clock=time.perf_counter_ns), read())


def rows_of(results: Sequence[Measured]) -> list[harness.Row]:
    """A row for each scenario, load and policy: the common figures, then the script's, as means.

    Of a figure with `_max` in its name it is the largest, of one with `_min` the smallest.
    """
    own: dict[tuple[str, float | None, str], list[Figures]] = {}
    for result in results:
        run = result.played.run
        busy = {"devices_busy": result.played.usage.devices_busy_ratio}
        own.setdefault((run.mix, run.load, run.policy), []).append({**busy, **result.figures})
    runs = add_oracle([result.played.run for result in results])
    return [
        {**_plain(summary, ROW_FIELDS), **_joined(own[summary.mix, summary.load, summary.policy])}
        for summary in summarise_policies(runs)
    ]


def difference_rows(results: Sequence[Measured], policy: str) -> list[harness.Row]:
    """How one policy differs from each other, on the same arrivals."""
    runs = [result.played.run for result in results]
    fields = [f for f in PolicyDifference.__struct_fields__ if f != "niced"]
    return [
        {"kind": "difference", **_plain(difference, fields)}
        for difference in compare_policies(runs, policy=policy)
    ]


def publish(
    name: str,
    rows: Sequence[harness.Row],
    columns: Sequence[str],
    arguments: argparse.Namespace,
    *,
    notes: Sequence[str],
    emulated: bool = False,
) -> None:
    """As `harness.publish`, but a run of some policies or seeds only is no results file."""
    is_partial = arguments.policies is not None or arguments.seeds is not None
    arguments.quick = arguments.quick or is_partial
    harness.publish(name, rows, columns, arguments, notes=notes, emulated=emulated)


def frontier(rows: Sequence[harness.Row], folder: str | None, name: str, title: str) -> None:
    """Draw high violations against low goodput, where a folder was named."""
    if folder is not None:
        command = f"python benchmarks/{Path(sys.argv[0]).name} --plots {folder}"
        draw_frontier(rows, Path(folder) / f"{name}.png", command, title=title)


def _plain(value: PolicySummary | PolicyDifference, fields: Sequence[str]) -> harness.Row:
    plain = msgspec.to_builtins(value)
    return {field: _rounded(plain[field]) for field in fields}


def _joined(figures: Sequence[Figures]) -> harness.Row:
    row: harness.Row = {}
    for name in figures[0]:
        known = [number for one in figures if (number := one[name]) is not None]
        if not known:
            row[name] = None
        elif "_max" in name:
            row[name] = _rounded(max(known))
        elif "_min" in name:
            row[name] = _rounded(min(known))
        else:
            row[name] = _rounded(sum(known) / len(known))
    return row


def _rounded(value: Any) -> Any:
    """Five digits that matter."""
    return float(f"{value:.5g}") if isinstance(value, float) else value
