"""`headway sim` with several seeds or loads: policies against one another, with intervals."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.arguments import UsageError
from headway.cli.output import drawing, print_json, print_rich, progress_bar
from headway.units import format_duration

if TYPE_CHECKING:
    from headway.bench import Contender, Match
    from headway.report import PolicyDifference, PolicyRun, PolicySummary
    from headway.sim import Scenario

__all__ = ["run_contest"]


def run_contest(
    args: argparse.Namespace, scenario: "Scenario", contenders: "Sequence[Contender]"
) -> int:
    """Play every contender at every load with every seed; print means, differences and a plot.

    Raises:
        UsageError: a journal or a timeline was asked for, of which there would be one a run.
    """
    from headway.bench import add_oracle, play_all
    from headway.devices import usable_cores
    from headway.report import (
        compare_policies,
        differences_table,
        policies_table,
        summarise_policies,
    )

    if args.journal or args.timeline:
        raise UsageError(
            "a journal is of one run, and so is a timeline", hint="leave `--seeds` and `--load` out"
        )
    matches = _matches(args, scenario, contenders)
    processes = args.processes or len(usable_cores())
    runs: list[PolicyRun] = []
    with progress_bar("runs") as progress:
        task = progress.add_task("simulated", total=len(matches), words="")
        for played in play_all(matches, processes=processes, clock=time.perf_counter_ns):
            runs.append(played.run)
            progress.update(task, advance=1, words=played.run.policy)
            progress.refresh()
    runs = add_oracle(runs)
    summaries = summarise_policies(runs)
    differences = compare_policies(runs, policy=contenders[-1].label)
    if args.format == "json":
        print_json(_plain(args, scenario, summaries, differences))
    else:
        print_rich(policies_table(summaries, title=_title(args, scenario)), can_drop_columns=True)
        if differences:
            print_rich(differences_table(differences))
    if args.plots:
        _draw(Path(args.plots), args, summaries)
    return 0


def _matches(
    args: argparse.Namespace, scenario: "Scenario", contenders: "Sequence[Contender]"
) -> "list[Match]":
    """Policies in turn, so that whatever changes on the machine meets all of them."""
    from headway.bench import Match

    mix = Path(args.scenario).stem
    return [
        Match(
            scenario.scaled(load or 1.0).with_seed(seed),
            contender,
            mix,
            load,
        )
        for load in args.load or [None]
        for seed in range(scenario.seed, scenario.seed + args.seeds)
        for contender in contenders
    ]


def _title(args: argparse.Namespace, scenario: "Scenario") -> str:
    where = ""
    if scenario.emulated is not None:
        where = f" of an emulated {scenario.emulated.accelerator.name}"
    return (
        f"{Path(args.scenario).name}: {format_duration(scenario.workload.duration_ns)} of virtual "
        f"time{where}, {args.seeds} seeds from {scenario.seed} on"
    )


def _plain(
    args: argparse.Namespace,
    scenario: "Scenario",
    summaries: "Sequence[PolicySummary]",
    differences: "Sequence[PolicyDifference]",
) -> dict[str, object]:
    import msgspec

    emulated = None if scenario.emulated is None else scenario.emulated.accelerator.name
    return {
        "scenario": args.scenario,
        "seed": scenario.seed,
        "seeds": args.seeds,
        "emulated": emulated,
        "duration_ns": scenario.workload.duration_ns,
        "rows": [msgspec.to_builtins(row) for row in summaries],
        "differences": [msgspec.to_builtins(row) for row in differences],
    }


def _draw(folder: Path, args: argparse.Namespace, summaries: "Sequence[PolicySummary]") -> None:
    import msgspec

    from headway.report import draw_frontier

    path = folder / f"{Path(args.scenario).stem}-frontier.png"
    command = "headway " + " ".join(sys.argv[1:])
    with drawing(str(path)):
        draw_frontier([msgspec.to_builtins(row) for row in summaries], path, command)
