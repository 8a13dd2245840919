"""Policies on real models: who keeps the important deadlines, and how much of the rest is done.

Plays one policy after another on the same arrivals, on this machine's cores, with and without low
slots that give way. Two results: `policies_stationary` (one mix at 88 % of capacity, or at the
loads that are asked for) and `policies_moving` (eight mixes whose load and shares move). Each has a
row for every policy, mix and kind of slots, and then, with `kind` `difference`, how `headway`
differs from every other on the same arrivals.

Usage: `python benchmarks/policies.py [--quick] [--only stationary|moving] [--policies P ...]
[--niced both|yes|no] [--seeds N] [--loads 0.6,0.8,1.0,1.2] [--keep DIR] [--plots DIR]
[--format table|json]`. A full run takes hours; with `--keep` one that was interrupted goes on where
it was. It needs the extra `demo`.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from harness import Row, publish, quick_parser
from msgspec import to_builtins
from msgspec.structs import replace

from headway.bench import (
    CONTEST_FULL,
    CONTEST_POLICIES,
    CONTEST_POLICIES_QUICK,
    CONTEST_QUICK,
    MOVING,
    STATIONARY,
    Contender,
    Contest,
    ContestNews,
    ContestOrder,
    ContestPlayed,
    Measured,
    expected_ns,
    hold_contest,
)
from headway.cli.arguments import policy_flag
from headway.config import cache_folder
from headway.demo import fetch_models
from headway.report import PolicyRun, compare_policies, draw_frontier, summarise_policies
from headway.units import NS_PER_S

MIXES = {"stationary": (STATIONARY,), "moving": MOVING}
COLUMNS = (
    "mix",
    "load",
    "niced",
    "policy",
    "high_violations",
    "low_violations",
    "high_goodput_rps",
    "low_goodput_rps",
    "low_goodput_work",
    "high_p99_ms",
    "low_p99_ms",
    "waste_ratio",
    "utilisation",
    "error_median",
    "decision_p99_us",
    "others_cores",
    "seeds",
    "is_on_front",
)
NOTES = (
    "A request that was refused, given up, late or failed is a violation, of all offered.",
    "load is the work offered over what the cores do when they are never idle; where it is empty "
    "it moves from 0.6 to 1.3 within each run, and the high part of the work from 10 to 85 %.",
    "niced: low batches run at niceness 19, high ones at 5; else all at 5.",
    "_from and _to are the 95 % interval over seeds (Student's t); differences are paired by seed, "
    "and over mixes by mix and seed.",
    "low_goodput_work is work answered in time, in cores, each request counted at its time alone; "
    "whether a policy is on the front goes by that and by high_violations.",
    "decision_p99_us is processor time of one kernel step, predictor included.",
    "No deadline is below 15 ms: below that the system's own time slices decide.",
)


def main() -> int:
    """Play, and put the figures where they are asked for."""
    arguments = _arguments()
    usual = CONTEST_POLICIES_QUICK if arguments.quick else CONTEST_POLICIES
    flags = [policy_flag(text) for text in arguments.policies or usual]
    contenders = [Contender(flag.text, flag.settings) for flag in flags]
    cache = cache_folder()
    fetch_models(cache)
    for name in [arguments.only] if arguments.only else MIXES:
        runs = hold_contest(
            _contest(name, arguments),
            contenders,
            cache=cache,
            folder=None if arguments.keep is None else Path(arguments.keep),
            on_order=_tell_order,
            on_news=_tell_news,
        )
        publish(f"policies_{name}", _rows(runs), COLUMNS, arguments, notes=NOTES)
        if arguments.plots is not None:
            _draw(runs, Path(arguments.plots), name)
    return 0


def _arguments() -> argparse.Namespace:
    parser = quick_parser(__doc__, "one seed, short runs, two policies, one mix of each kind")
    parser.add_argument("--only", choices=tuple(MIXES), help="one of the two results")
    parser.add_argument("--policies", nargs="+", metavar="POLICY", help="instead of all")
    parser.add_argument("--niced", choices=("both", "yes", "no"), help="kinds of slots (both)")
    parser.add_argument("--seeds", type=int, metavar="N", help="from 1 (5)")
    parser.add_argument("--loads", metavar="RATIOS", help="of the stationary mix (0.88)")
    parser.add_argument("--keep", metavar="DIR", help="leave journals and rows there")
    parser.add_argument("--plots", metavar="DIR", help="write pictures there")
    return parser.parse_args()


def _contest(name: str, arguments: argparse.Namespace) -> Contest:
    contest = CONTEST_QUICK if arguments.quick else CONTEST_FULL
    niced = {"both": (True, False), "yes": (True,), "no": (False,)}
    return replace(
        contest,
        mixes=tuple(mix for mix in contest.mixes if mix in MIXES[name]),
        niced=niced[arguments.niced] if arguments.niced else contest.niced,
        seeds=arguments.seeds or contest.seeds,
        loads=tuple(float(word) for word in arguments.loads.split(",")) if arguments.loads else (),
    )


def _rows(runs: Sequence[PolicyRun]) -> list[Row]:
    moving = [mix.name for mix in MOVING]
    summaries = summarise_policies(runs)
    differences = compare_policies(runs, policy="headway", moving=moving)
    return [
        *(_rounded(to_builtins(row) | {"is_on_front": row.is_on_front}) for row in summaries),
        *({"kind": "difference", **_rounded(to_builtins(row))} for row in differences),
    ]


def _rounded(row: Row) -> Row:
    """Five digits that matter: more are not measured."""
    return {
        name: float(f"{value:.5g}") if isinstance(value, float) else value
        for name, value in row.items()
    }


def _draw(runs: Sequence[PolicyRun], folder: Path, name: str) -> None:
    command = shlex.join(["python", "benchmarks/policies.py", *sys.argv[1:]])
    rows = [to_builtins(row) for row in summarise_policies(runs)]
    for niced in dict.fromkeys(row["niced"] for row in rows):
        kind = "niced" if niced else "level"
        draw_frontier(
            [row for row in rows if row["niced"] is niced],
            folder / f"policies-{name}-{kind}.png",
            command,
            title="High-class violations against low-class work done in time, "
            + ("low slots niced" if niced else "slots that cannot preempt"),
            goodput="low_goodput_work",
        )


def _tell_order(order: ContestOrder) -> None:
    minutes = expected_ns(order) / NS_PER_S / 60
    print(f"{len(order.runs)} runs, {minutes:.0f} min", file=sys.stderr, flush=True)


def _tell_news(news: ContestNews) -> None:
    if isinstance(news, ContestPlayed):
        row = news.row
        kind = "niced" if row.niced else "level"
        words = (
            f"{news.run.words}, {kind}: high {row.high_violations:.1%}, low "
            f"{row.low_violations:.1%}, {news.tries} tries"
        )
        others_cores = row.others_cores
    elif isinstance(news, Measured):
        words = f"timed {len(news.classes)} classes alone, capacity {news.capacity_ratios}"
        others_cores = news.others_cores
    else:
        return
    print(f"{words}, others used {others_cores} cores", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
