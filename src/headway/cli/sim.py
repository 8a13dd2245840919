"""`headway sim`: the scheduler in virtual time, on a described machine and load."""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from headway.cli.arguments import (
    POLICY_METAVAR,
    PREDICTORS,
    PolicyFlag,
    VerbParser,
    add_format,
    count,
    policy_flag,
    positive,
)
from headway.cli.output import print_json, print_rich, progress_bar, say
from headway.errors import HeadwayError
from headway.units import NS_PER_S, format_duration

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

    from headway.bench import Contender, Played
    from headway.core import Command, Event, TierName
    from headway.observe import JournalObserver
    from headway.report import TimelineObserver
    from headway.sim import BudgetRange, GenerationScenario, Scenario, TierTally

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "headway sim examples/scenario.yaml --policy fifo --policy edf --seed 1"

_EVENTS_BETWEEN_LOOKS: Final = 1_000
_REFRESH_S: Final = 0.1
_ORACLE: Final = "oracle"
_LOADS_MAX: Final = 20

Observe = Callable[[int, "Event", "list[Command]"], None]


class Figures(NamedTuple):
    """Numbers of a group of requests, under the names that other verbs give them."""

    requests: int
    completed: int
    rejected: int
    expired: int
    failed: int
    cancelled: int
    late: int
    violations: int
    violation_ratio: float
    goodput_rps: float
    budget_ns: int
    """The smallest of the group's."""
    latency_p50_ns: int | None
    """Percentiles are over completed requests; None with none."""
    latency_p99_ns: int | None
    latency_p999_ns: int | None


class PolicyRun(NamedTuple):
    """What one policy made of the load."""

    tiers: Mapping["TierName", Figures]
    total: Figures
    journal: Path | None
    events: int


def add_arguments(parser: VerbParser) -> None:
    """Say what may be given."""
    parser.description = (
        f"{parser.description} A scenario with an `engine` is one of a generating model: its "
        "requests are played at each of its `layouts`, with engines that do everything, that share "
        "prompts and answers out, or that keep layers on their hosts."
    )
    parser.add_argument("scenario", metavar="SCENARIO", help="machine, models and load (.yaml)")
    parser.add_argument(
        "--policy",
        action="append",
        type=_contender_flag,
        metavar=POLICY_METAVAR,
        help="policy to run, or `oracle`, which knows the future; give it again to compare several "
        "(priority)",
    )
    parser.add_argument(
        "--predictor",
        choices=PREDICTORS,
        help="what expects how long things take, starting from the scenario's times (the policy's "
        "own, else headway)",
    )
    parser.add_argument(
        "--seed", type=count, metavar="N", help="of all chance, instead of the scenario's"
    )
    parser.add_argument(
        "--seeds",
        type=positive(int),
        default=1,
        metavar="N",
        help="how many seeds, from that one on; with several, means and their intervals (1)",
    )
    parser.add_argument(
        "--load",
        type=_loads,
        metavar="X,...",
        help="times the workload's rates, such as 0.6,0.8,1.0,1.2; each is played",
    )
    parser.add_argument(
        "--processes",
        type=positive(int),
        metavar="N",
        help="runs at once, where there are several seeds or loads (one for each core)",
    )
    parser.add_argument(
        "--plots", metavar="FOLDER", help="where to draw high violations against low goodput"
    )
    parser.add_argument(
        "--traces", metavar="FOLDER", help="where the workload's recorded traces are"
    )
    parser.add_argument(
        "--journal",
        metavar="FILE",
        help="write the journal of the run; of several runs each, as FILE with the policy's name",
    )
    parser.add_argument(
        "--timeline",
        metavar="FILE",
        help="write a timeline of slots and requests for Perfetto; of several runs as --journal",
    )
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Play the same arrivals under each policy and compare."""
    # Here, for else `headway sim --help` would pay for what a simulation needs.
    from headway.bench import Contender
    from headway.cli.sim_contest import run_contest
    from headway.config import build_from_file
    from headway.sim import (
        GenerationScenario,
        generation_from_dict,
        is_generation,
        scenario_from_dict,
    )

    traces = Path(args.traces) if args.traces else None

    def build(data: Mapping[str, object]) -> "Scenario | GenerationScenario":
        make = generation_from_dict if is_generation(data) else scenario_from_dict
        return make(data, traces=traces)

    scenario = build_from_file(Path(args.scenario), build)
    if args.seed is not None:
        scenario = scenario.with_seed(args.seed)
    if isinstance(scenario, GenerationScenario):
        from headway.cli.sim_generation import run_generation

        return run_generation(args, scenario)
    flags = {flag.text: flag for flag in args.policy or [policy_flag("priority")]}
    contenders = [Contender(f.text, f.settings, args.predictor) for f in flags.values()]
    say(_opening(args.scenario, scenario, list(flags)))
    if args.seeds > 1 or args.load or args.plots:
        return run_contest(args, scenario, contenders)
    with progress_bar("s of virtual time") as progress:
        runs = {
            contender.label: _play(
                scenario,
                contender,
                _path_of(args.journal, contender.label, list(flags)),
                _path_of(args.timeline, contender.label, list(flags)),
                progress,
            )
            for contender in contenders
        }
    if args.format == "json":
        print_json(_plain(args.scenario, scenario, runs))
    else:
        print_rich(_table(scenario, runs), can_drop_columns=True)
    for result in runs.values():
        if result.journal is not None:
            say(f"journal: {result.journal} ({result.events} steps)")
    for label in runs:
        drawn = _path_of(args.timeline, label, list(flags))
        if drawn is not None:
            say(f"timeline: {drawn}; open it in https://ui.perfetto.dev")
    return 0


def _contender_flag(text: str) -> PolicyFlag:
    """A policy, or the one that only a simulator has."""
    return PolicyFlag(text, {"kind": _ORACLE}) if text == _ORACLE else policy_flag(text)


def _loads(text: str) -> list[float]:
    """Ratios with commas between."""
    loads = [positive(float)(part) for part in text.split(",")]
    if len(loads) > _LOADS_MAX:
        raise argparse.ArgumentTypeError(f"at most {_LOADS_MAX} loads, not {len(loads)}")
    return loads


def _opening(path: str, scenario: "Scenario", policies: Sequence[str]) -> str:
    devices = scenario.params.devices
    slots = sum(len(device.slot_lanes) for device in devices)
    return (
        f"{path}: {format_duration(scenario.workload.duration_ns)} of "
        f"{scenario.workload.rate_rps:.1f} req/s for {len(scenario.models)} models on "
        f"{slots} slots{_where(scenario)}; {', '.join(policies)}; seed {scenario.seed}"
    )


def _where(scenario: "Scenario") -> str:
    """A word on figures that come from no machine at all."""
    emulated = scenario.emulated
    return "" if emulated is None else f" of an emulated {emulated.accelerator.name}"


def _path_of(wanted: str | None, policy: str, policies: Sequence[str]) -> Path | None:
    if wanted is None:
        return None
    path = Path(wanted)
    return path if len(policies) == 1 else path.with_name(f"{path.stem}-{policy}{path.suffix}")


def _play(
    scenario: "Scenario",
    contender: "Contender",
    path: Path | None,
    timeline_path: Path | None,
    progress: "Progress",
) -> PolicyRun:
    from headway.bench import Match, play

    with ExitStack() as files:
        observers: list[Observe] = []
        if path is not None:
            observers.append(files.enter_context(closing(_journal(scenario, contender, path))))
        if timeline_path is not None:
            timeline = _timeline(scenario, contender, timeline_path)
            observers.append(files.enter_context(closing(timeline)))
        if not progress.disable:
            observers.append(_Meter(contender.label, scenario.workload.duration_ns, progress))
        played = play(Match(scenario, contender, mix=""), observers=observers)
    return _result(scenario, played, path)


def _journal(scenario: "Scenario", contender: "Contender", path: Path) -> "JournalObserver":
    """What writes the run down, with all that a replay needs.

    Raises:
        HeadwayError: it cannot be written, or not replayed.
    """
    from headway.app import journal_header
    from headway.bench import recipe_for, section_for
    from headway.observe import JournalObserver

    if contender.settings["kind"] == _ORACLE:
        raise HeadwayError(
            f"`{_ORACLE}` has no journal: a replay does not know the future",
            hint="leave `--journal` out, or that policy",
        )
    section, recipe = section_for(scenario, contender), recipe_for(scenario, contender)
    try:
        return JournalObserver(path, journal_header(scenario.params, section, recipe))
    except OSError as error:
        raise HeadwayError(f"cannot write the journal `{path}`: {error.strerror}") from error


def _timeline(scenario: "Scenario", contender: "Contender", path: Path) -> "TimelineObserver":
    """What draws the run.

    Raises:
        HeadwayError: it cannot be written.
    """
    from headway.report import TimelineObserver

    emulated = scenario.emulated
    notes = {
        "policy": contender.label,
        "seed": scenario.seed,
        "simulated": True,
        "emulated": None if emulated is None else emulated.accelerator.name,
    }
    try:
        return TimelineObserver(path, scenario.params.devices, notes=notes)
    except OSError as error:
        raise HeadwayError(f"cannot write the timeline `{path}`: {error.strerror}") from error


class _Meter:
    """An observer that moves the bar, and asks for the time only now and then."""

    def __init__(self, policy: str, duration_ns: int, progress: "Progress") -> None:
        self._progress = progress
        self._task = progress.add_task(policy, total=duration_ns // NS_PER_S, words="")
        self._events = 0
        self._shown_at_s = time.monotonic()

    def __call__(self, now_ns: int, event: "Event", commands: "list[Command]") -> None:
        """Count one step."""
        self._events += 1
        if self._events % _EVENTS_BETWEEN_LOOKS:
            return
        now_s = time.monotonic()
        if now_s - self._shown_at_s >= _REFRESH_S:
            self._shown_at_s = now_s
            words = f"{self._events:,} events"
            self._progress.update(self._task, completed=now_ns // NS_PER_S, words=words)
            self._progress.refresh()


# --- numbers --------------------------------------------------------------------------------------


def _result(scenario: "Scenario", played: "Played", path: Path | None) -> PolicyRun:
    from headway.sim import TierTally

    tallies = played.tiers
    duration_ns = scenario.workload.duration_ns
    budgets = scenario.budgets()
    # The tightest budget first, as in every report.
    names = sorted(tallies, key=lambda name: (budgets[name].min_ns, name))
    tiers = {name: _figures(tallies[name], duration_ns, budgets[name].min_ns) for name in names}
    budget_ns = min(budget.min_ns for budget in budgets.values())
    total = _figures(TierTally.merged(tallies.values()), duration_ns, budget_ns)
    return PolicyRun(tiers, total, path, played.events)


def _figures(tally: "TierTally", duration_ns: int, budget_ns: int) -> Figures:
    return Figures(
        requests=tally.arrived,
        completed=tally.completed,
        rejected=tally.rejected,
        expired=tally.expired,
        failed=tally.failed,
        cancelled=tally.cancelled,
        late=tally.late,
        violations=tally.violations,
        violation_ratio=tally.violation_ratio,
        goodput_rps=(tally.completed - tally.late) * NS_PER_S / duration_ns,
        budget_ns=budget_ns,
        latency_p50_ns=_whole(tally.latency_ns(0.5)),
        latency_p99_ns=_whole(tally.latency_ns(0.99)),
        latency_p999_ns=_whole(tally.latency_ns(0.999)),
    )


def _whole(latency_ns: float | None) -> int | None:
    return None if latency_ns is None else round(latency_ns)


def _plain(path: str, scenario: "Scenario", runs: Mapping[str, PolicyRun]) -> dict[str, object]:
    return {
        "scenario": path,
        "seed": scenario.seed,
        "emulated": None if scenario.emulated is None else scenario.emulated.accelerator.name,
        "duration_ns": scenario.workload.duration_ns,
        "policies": {
            policy: {
                "events": result.events,
                "journal": None if result.journal is None else str(result.journal),
                "total": result.total._asdict(),
                "tiers": {name: figures._asdict() for name, figures in result.tiers.items()},
            }
            for policy, result in runs.items()
        },
    }


def _table(scenario: "Scenario", runs: Mapping[str, PolicyRun]) -> "Table":
    from rich.table import Table

    table = Table()
    table.add_column("tier")
    table.add_column("policy")
    for column in ("requests", "violations", "p50", "p99", "goodput\nreq/s", "p99.9"):
        table.add_column(column, justify="right")
    tiers = next(iter(runs.values())).tiers
    for tier in tiers:
        groups = {policy: result.tiers[tier] for policy, result in runs.items()}
        _add_groups(table, (str(tier), _budget(scenario.budgets()[tier])), groups)
    if len(tiers) > 1:
        _add_groups(table, ("all",), {policy: result.total for policy, result in runs.items()})
    table.caption = (
        f"virtual time{_where(scenario)}, seed {scenario.seed}; percentiles of completed requests"
    )
    return table


def _budget(budget: "BudgetRange") -> str:
    least, most = format_duration(budget.min_ns), format_duration(budget.max_ns)
    return least if least == most else f"{least}–{most}"


def _add_groups(table: "Table", words: Sequence[str], groups: Mapping[str, Figures]) -> None:
    """A row a policy; the words stand beside the first ones, a line each."""
    for index, (policy, figures) in enumerate(groups.items()):
        is_last = index == len(groups) - 1
        table.add_row(
            "\n".join(words[index:] if is_last else words[index : index + 1]),
            policy,
            f"{figures.requests:,}",
            f"{figures.violation_ratio * 100:.2f} %",
            _time(figures.latency_p50_ns),
            _time(figures.latency_p99_ns),
            f"{figures.goodput_rps:.1f}",
            _time(figures.latency_p999_ns),
        )
    table.add_section()


def _time(latency_ns: int | None) -> str:
    return "–" if latency_ns is None else format_duration(latency_ns)
