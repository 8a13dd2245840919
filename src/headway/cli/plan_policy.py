"""`headway plan policy`: which policy a workload should have, tried out on that very workload."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headway.cli.arguments import VerbParser, add_format, count, positive
from headway.cli.output import print_json, print_note, print_rich, progress_bar, say
from headway.errors import HeadwayError
from headway.units import format_duration

if TYPE_CHECKING:
    from headway.bench import Advice, Match
    from headway.plan import Candidate, Character
    from headway.report import PolicyRun, PolicySummary
    from headway.sim import Scenario

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway plan policy examples/scenario.yaml --seeds 2 --requests 400"

_SEEDS: Final = 5
_REQUESTS_MAX: Final = 2_000
"""Of a run."""
_REQUESTS_IN_ALL_MAX: Final = 60_000
"""Of all runs: about half a minute on two cores."""
_REQUESTS_IN_ALL_MAX_EMULATED: Final = 30_000
"""Devices with links and kernels take longer to simulate."""
_HIGH_MISSED_RATIO: Final = 0.01


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.add_argument(
        "scenario", metavar="SCENARIO", help="machine, models and load (.yaml), as for `sim`"
    )
    parser.add_argument(
        "--seed", type=count, metavar="N", help="of all chance, instead of the scenario's"
    )
    parser.add_argument(
        "--seeds",
        type=positive(int),
        default=_SEEDS,
        metavar="N",
        help=f"how many seeds each candidate is played with, from that one on ({_SEEDS})",
    )
    parser.add_argument(
        "--requests",
        type=positive(int),
        metavar="N",
        help="about so many a run at most: of a longer workload the first part (what takes half a "
        f"minute in all, {_REQUESTS_MAX} at most)",
    )
    parser.add_argument(
        "--high-missed-ratio",
        type=_ratio,
        default=_HIGH_MISSED_RATIO,
        metavar="X",
        help="part of high requests that may miss their deadline: policies that keep to it are "
        f"compared by the low work they do ({_HIGH_MISSED_RATIO})",
    )
    parser.add_argument(
        "--processes", type=positive(int), metavar="N", help="runs at once (one for each core)"
    )
    parser.add_argument(
        "--traces", metavar="FOLDER", help="where the workload's recorded traces are"
    )
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Look at the workload, play what fits it, and print the simplest that did as well as any."""
    # Here, for else `headway plan policy --help` would pay for what a simulation needs.
    from headway.bench import advise, matches_of, shortened
    from headway.plan import candidates_for, characterise
    from headway.report import policies_table, summarise_policies

    whole = _scenario(args)
    try:
        character = characterise(whole)
    except ValueError as error:
        raise HeadwayError(
            f"`{args.scenario}` cannot be planned for: {error}",
            hint="give its streams higher rates, or the workload a longer duration",
        ) from error
    candidates = candidates_for(character, whole)
    scenario = shortened(whole, args.requests or _requests_max(args, whole, candidates))
    say(_opening(args, scenario, whole, candidates))
    if scenario is not whole and character.moves:
        print_note("warning", "the load moves, and not all of it is played; give more `--requests`")
    mix = Path(args.scenario).stem
    runs = _played(args, matches_of(scenario, candidates, seeds=args.seeds, mix=mix))
    advice = advise(character, candidates, runs, high_missed_ratio=args.high_missed_ratio)
    summaries = summarise_policies(runs)
    if args.format == "json":
        print_json(_plain(args, scenario, character, candidates, summaries, advice))
        return 0
    print_rich(policies_table(summaries, title=_title(args, scenario)), can_drop_columns=True)
    print(f"\n{advice.chosen.label}")
    for reason in advice.reasons:
        print(f"- {reason}")
    print("\n# for the server's configuration")
    for line in _snippet(advice.chosen):
        print(line)
    return 0


def _scenario(args: argparse.Namespace) -> "Scenario":
    from headway.config import build_from_file
    from headway.sim import scenario_from_dict

    traces = Path(args.traces) if args.traces else None
    scenario = build_from_file(
        Path(args.scenario), lambda data: scenario_from_dict(data, traces=traces)
    )
    return scenario if args.seed is None else scenario.with_seed(args.seed)


def _played(args: argparse.Namespace, matches: "Sequence[Match]") -> "list[PolicyRun]":
    from headway.bench import play_candidates
    from headway.devices import usable_cores

    runs = []
    processes = args.processes or len(usable_cores())
    with progress_bar("runs") as progress:
        task = progress.add_task("simulated", total=len(matches), words="")
        for played in play_candidates(matches, processes=processes):
            runs.append(played)
            progress.update(task, advance=1, words=played.policy)
            progress.refresh()
    return runs


def _requests_max(
    args: argparse.Namespace, scenario: "Scenario", candidates: "Sequence[Candidate]"
) -> int:
    """Of a run, so that all of them take no longer than anyone wants to wait."""
    is_emulated = scenario.emulated is not None
    in_all = _REQUESTS_IN_ALL_MAX_EMULATED if is_emulated else _REQUESTS_IN_ALL_MAX
    runs = int(args.seeds) * len(candidates)
    return max(1, min(_REQUESTS_MAX, in_all // runs))


def _ratio(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"`{text}` is not between 0 and 1")
    return value


def _opening(
    args: argparse.Namespace,
    scenario: "Scenario",
    whole: "Scenario",
    candidates: "Sequence[Candidate]",
) -> str:
    played_ns, whole_ns = scenario.workload.duration_ns, whole.workload.duration_ns
    part = "" if played_ns == whole_ns else f"the first {format_duration(played_ns)} of "
    return (
        f"{args.scenario}: {len(candidates)} policies on {part}{format_duration(whole_ns)}, "
        f"{args.seeds} seeds from {scenario.seed} on"
    )


def _title(args: argparse.Namespace, scenario: "Scenario") -> str:
    emulated = scenario.emulated
    where = "" if emulated is None else f" of an emulated {emulated.accelerator.name}"
    return (
        f"{Path(args.scenario).name}: {format_duration(scenario.workload.duration_ns)} of virtual "
        f"time{where}, {args.seeds} seeds from {scenario.seed} on"
    )


def _snippet(chosen: "Candidate") -> Iterator[str]:
    """The settings as a server's configuration has them."""
    settings = ", ".join(f"{key}: {value}" for key, value in chosen.settings.items())
    yield f"policy: {{{settings}}}"
    if chosen.linger_ns:
        yield "models:  # add to what stands there"
    for name, linger_ns in chosen.linger_ns.items():
        yield f"  - {{name: {name}, batch: {{linger: {format_duration(linger_ns)}}}}}"


def _plain(
    args: argparse.Namespace,
    scenario: "Scenario",
    character: "Character",
    candidates: "Sequence[Candidate]",
    summaries: "Sequence[PolicySummary]",
    advice: "Advice",
) -> dict[str, object]:
    import msgspec

    chosen = advice.chosen
    return {
        "scenario": args.scenario,
        "seed": scenario.seed,
        "seeds": args.seeds,
        "emulated": None if scenario.emulated is None else scenario.emulated.accelerator.name,
        "duration_ns": scenario.workload.duration_ns,
        "high_missed_ratio": args.high_missed_ratio,
        "workload": msgspec.to_builtins(character),
        "candidates": {candidate.label: candidate.why for candidate in candidates},
        "rows": [msgspec.to_builtins(row) for row in summaries],
        "recommended": {
            "label": chosen.label,
            "policy": dict(chosen.settings),
            "linger_ns": dict(chosen.linger_ns),
            "reasons": list(advice.reasons),
        },
    }
