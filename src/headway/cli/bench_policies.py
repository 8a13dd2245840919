"""`headway bench policies`: policies in turn on the same arrivals, with real models."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headway.cli.arguments import duration_ns as duration_flag
from headway.cli.arguments import policy_flag, policy_flags
from headway.cli.bench_words import demand_extra, fetch, listed, load_ratio
from headway.cli.output import drawing, print_json, print_rich, progress_bar, say
from headway.units import NS_PER_S

if TYPE_CHECKING:
    from rich.progress import Progress

    from headway.bench import Contender, Contest, ContestNews, ContestOrder, Mix
    from headway.report import PolicyDifference, PolicyRun, PolicySummary

__all__ = ["add_policies_flags", "run_policies"]

_NICED: Final = {"yes": (True,), "no": (False,), "both": (True, False)}
_STEPS: Final = 100
"""Of the bar, for each run."""


def add_policies_flags(group: "argparse._ArgumentGroup") -> None:
    """Say what may be given for it alone."""
    group.add_argument(
        "--mixes", metavar="NAMES", help="stationary, moving-1 to moving-8, or `moving` (all)"
    )
    group.add_argument(
        "--policies",
        type=policy_flags,
        metavar="KIND[:KEY=VALUE,...],...",
        help="only these (all that ship)",
    )
    group.add_argument(
        "--niced",
        choices=tuple(_NICED),
        help="whether low batches give way to high ones on their core (both)",
    )
    group.add_argument(
        "--duration", type=duration_flag, metavar="TIME", help="of the arrivals of one run (12s)"
    )
    group.add_argument(
        "--loads",
        metavar="RATIOS",
        help="play the stationary mix at these, offered work over what the cores can do (0.88)",
    )
    group.add_argument(
        "--against", metavar="POLICY", help="compare this one with all others (headway)"
    )


def run_policies(args: argparse.Namespace) -> int:
    """Play, sum up, show."""
    # Here, for `headway bench --help` needs no models.
    from headway.bench import (
        CONTEST_POLICIES,
        CONTEST_POLICIES_QUICK,
        MOVING,
        Contender,
        hold_contest,
    )
    from headway.config import cache_folder
    from headway.report import compare_policies, summarise_policies

    contest = _contest(args)
    usual = CONTEST_POLICIES_QUICK if args.quick else CONTEST_POLICIES
    flags = args.policies or [policy_flag(text) for text in usual]
    contenders = [Contender(flag.text, flag.settings) for flag in flags]
    demand_extra(plots=args.plots is not None)
    cache = cache_folder()
    fetch(cache)
    with progress_bar("%") as progress:
        watch = _Watch(progress)
        runs = hold_contest(
            contest,
            contenders,
            cache=cache,
            folder=None if args.keep is None else Path(args.keep),
            on_order=watch.on_order,
            on_news=watch.on_news,
        )
    summaries = summarise_policies(runs)
    differences = compare_policies(
        runs, policy=args.against or "headway", moving=[mix.name for mix in MOVING]
    )
    if args.format == "json":
        print_json(_plain(contest, contenders, runs, summaries, differences))
    else:
        _show(summaries, differences)
    if args.plots is not None:
        _draw(Path(args.plots), summaries)
    if args.keep is not None:
        say(f"journals and rows: {args.keep}")
    return 0


class _Watch:
    """Shows how far the contest is, and how long it will take."""

    def __init__(self, progress: "Progress") -> None:
        self._bar = progress
        self._task = progress.add_task("playing", total=None, words="timing each class alone")
        self._left = 0
        self._done = 0
        self._took_ns = 0

    def on_order(self, order: "ContestOrder") -> None:
        """Say what is played, and until when, before it is."""
        from headway.bench import expected_ns

        self._left = len(order.runs)
        self._bar.update(self._task, total=max(1, self._left) * _STEPS)
        policies = dict.fromkeys(run.policy for run in order.runs)
        mixes = ", ".join(mix.name for mix in order.mixes)
        say(
            f"{self._left} runs of real models: {mixes}; {', '.join(policies)}; "
            f"{_minutes(expected_ns(order))} in all"
        )

    def on_news(self, news: "ContestNews") -> None:
        """Something from the process that plays."""
        from headway.bench import CONTEST_OTHERS_MAX, ContestPlayed, ContestProgress

        if isinstance(news, ContestProgress):
            self._update(round(_STEPS * news.done_ratio), news.run.words)
        elif isinstance(news, ContestPlayed):
            self._done += 1
            self._left -= 1
            self._took_ns += news.took_ns
            self._update(0, news.run.words)
            if news.row.failed:
                say(f"{news.run.words}: {news.row.failed} requests failed")
        elif (news.others_cores or 0.0) > CONTEST_OTHERS_MAX:
            say(f"other programs kept {news.others_cores:.2f} cores busy: figures may be off")

    def _update(self, steps: int, words: str) -> None:
        if self._done:
            left_ns = self._took_ns / self._done * (self._left - steps / _STEPS)
            words = f"{words}, {_minutes(round(left_ns))} left"
        self._bar.update(self._task, completed=self._done * _STEPS + steps, words=words)
        self._bar.refresh()


def _minutes(duration_ns: int) -> str:
    seconds = duration_ns / NS_PER_S
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _contest(args: argparse.Namespace) -> "Contest":
    from msgspec.structs import replace

    from headway.bench import CONTEST_FULL, CONTEST_QUICK

    contest = CONTEST_QUICK if args.quick else CONTEST_FULL
    loads = listed(args.loads, load_ratio)
    return replace(
        contest,
        mixes=_mixes(args.mixes) or contest.mixes,
        niced=_NICED[args.niced] if args.niced else contest.niced,
        seeds=args.seeds or contest.seeds,
        duration_ns=args.duration or contest.duration_ns,
        loads=loads,
    )


def _mixes(text: str | None) -> "tuple[Mix, ...]":
    from headway.bench import MOVING, find_mix

    mixes: list[Mix] = []
    for name in listed(text, str):
        mixes += MOVING if name == "moving" else [find_mix(name)]
    return tuple(dict.fromkeys(mixes))


def _plain(
    contest: "Contest",
    contenders: "Sequence[Contender]",
    runs: "Sequence[PolicyRun]",
    summaries: "Sequence[PolicySummary]",
    differences: "Sequence[PolicyDifference]",
) -> dict[str, object]:
    from msgspec import to_builtins

    return {
        "mixes": to_builtins(contest.mixes),
        "policies": {one.label: dict(one.settings) for one in contenders},
        "seeds": contest.seeds,
        "duration_ns": contest.duration_ns,
        "rows": [to_builtins(row) | {"is_on_front": row.is_on_front} for row in summaries],
        "differences": to_builtins(differences),
        "runs": to_builtins(runs),
    }


def _show(summaries: "Sequence[PolicySummary]", differences: "Sequence[PolicyDifference]") -> None:
    from headway.report import differences_table, policies_table

    print_rich(policies_table(summaries), can_drop_columns=True)
    if differences:
        print_rich(differences_table(differences), can_drop_columns=True)


def _draw(folder: Path, summaries: "Sequence[PolicySummary]") -> None:
    """One picture for each kind of slots."""
    from msgspec import to_builtins

    from headway.report import draw_frontier

    command = shlex.join(["headway", *sys.argv[1:]])
    for niced in dict.fromkeys(row.niced for row in summaries):
        kind = "niced" if niced else "level"
        path = folder / f"frontier-{kind}.png"
        words = "low slots niced" if niced else "slots that cannot preempt"
        with drawing(str(path)):
            draw_frontier(
                [to_builtins(row) for row in summaries if row.niced is niced],
                path,
                command,
                title=f"High-class violations against low-class work done in time, {words}",
                goodput="low_goodput_work",
            )
