"""`headway bench prediction`: how right the predictors are, with real models, on this machine."""

import argparse
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headway.cli.bench_words import demand_extra, fetch, listed, load_ratio
from headway.cli.output import print_json, print_rich, progress_bar, say

if TYPE_CHECKING:
    from rich.progress import Progress

    from headway.bench import Campaign, Judgement, News

__all__ = ["add_prediction_flags", "run_prediction"]

_STEPS: Final = 100
"""Of the bar, for each recording."""
_RESULTS: Final = ("prediction", "response_prediction", "prediction_cold_start", "prediction_shift")


def add_prediction_flags(group: "argparse._ArgumentGroup") -> None:
    """Say what may be given for it alone."""
    group.add_argument(
        "--utilisation",
        metavar="RATIOS",
        help="offered work over what the cores can do (0.6,0.75,0.85,0.95)",
    )
    group.add_argument(
        "--configs",
        metavar="NAMES",
        help="pinned, unpinned, per_model, intra2, intra2_spinning; the first has all loads and "
        "seeds, the others the two highest loads (pinned)",
    )
    group.add_argument("--predictors", metavar="NAMES", help="only these (all that ship)")
    group.add_argument(
        "--shifts", action="store_true", help="also what happens when the load or machine changes"
    )


def run_prediction(args: argparse.Namespace) -> int:
    """Record, judge, show."""
    campaign = _campaign(args)
    demand_extra(plots=args.plots is not None)
    # Here, for `headway bench --help` needs no models.
    from headway.bench import PREDICTORS, draw, run_campaign, shipped
    from headway.config import cache_folder

    predictors = listed(args.predictors, str) or PREDICTORS
    cache = cache_folder()
    fetch(cache)
    say(_opening(campaign, predictors))
    with _folder(args.keep) as folder, progress_bar("%") as progress:
        watch = _Watch(progress, campaign)
        outcome = run_campaign(
            campaign,
            predictors,
            folder=folder,
            cache=cache,
            build=shipped,
            on_news=watch.on_news,
            on_judged=watch.on_judged,
        )
    if args.format == "json":
        print_json(_plain(campaign, outcome.rows))
    else:
        _show(outcome.rows)
    if args.plots is not None:
        command = shlex.join(["headway", *sys.argv[1:]])
        for path in draw(outcome, Path(args.plots), command):
            say(f"plot: {path}")
    if args.keep is not None:
        say(f"recordings: {args.keep}")
    return 0


class _Watch:
    """Shows how far the campaign is."""

    def __init__(self, progress: "Progress", campaign: "Campaign") -> None:
        count = campaign.recordings_count
        self._bar = progress
        self._recording = progress.add_task("recording", total=count * _STEPS, words="")
        self._judging = progress.add_task("judging", total=count * _STEPS, words="")
        self._done = 0

    def on_news(self, news: "News") -> None:
        """Something from the recorder."""
        from headway.bench import OTHERS_CORES_MAX, Recorded
        from headway.bench import Progress as RecordingProgress

        if isinstance(news, RecordingProgress):
            done = self._done + round(_STEPS * news.done_ratio)
            self._update(done, Path(news.path).stem)
        elif isinstance(news, Recorded):
            self._done += _STEPS
            self._update(self._done, Path(news.path).stem)
        else:
            others = news.others_cores
            self._update(self._done, "each class was timed alone")
            if others is not None and others > OTHERS_CORES_MAX:
                say(f"other programs kept {others:.1f} cores busy: figures may be off")

    def on_judged(self, journal: Path) -> None:
        """A recording was judged."""
        self._bar.update(self._judging, advance=_STEPS, words=journal.stem)
        self._bar.refresh()

    def _update(self, done: int, words: str) -> None:
        self._bar.update(self._recording, completed=done, words=words)
        self._bar.refresh()


def _campaign(args: argparse.Namespace) -> "Campaign":
    from msgspec.structs import replace

    from headway.bench import FULL, QUICK

    campaign = QUICK if args.quick else FULL
    loads = listed(args.utilisation, load_ratio)
    return replace(
        campaign,
        configs=listed(args.configs, str) or ("pinned",),
        utilisations=loads or campaign.utilisations,
        seeds=args.seeds or campaign.seeds,
        shifts=FULL.shifts if args.shifts else (),
    )


def _opening(campaign: "Campaign", predictors: Sequence[str]) -> str:
    loads = ", ".join(f"{100 * load:.0f} %" for load in campaign.utilisations)
    seeds = f"seeds 1 to {campaign.seeds}" if campaign.seeds > 1 else "seed 1"
    return (
        f"{campaign.recordings_count} recordings of real models: {', '.join(campaign.configs)}; "
        f"{loads}; {seeds}; predictors {', '.join(predictors)}"
    )


@contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    if keep is not None:
        yield Path(keep)
        return
    with tempfile.TemporaryDirectory(prefix="headway-bench-") as name:
        yield Path(name)


def _plain(campaign: "Campaign", rows: "Judgement") -> dict[str, object]:
    from msgspec import to_builtins

    return {
        "campaign": to_builtins(campaign),
        **{n: to_builtins(getattr(rows, n)) for n in _RESULTS},
    }


def _show(rows: "Judgement") -> None:
    from msgspec import to_builtins

    from headway.report import learning_table, scores_table

    captions = {
        "prediction": "execution time, predicted when the batch starts",
        "response_prediction": "time to the answer, predicted at admission",
        "prediction_cold_start": "error of execution times by executions seen",
        "prediction_shift": "error of execution times around a change half way",
    }
    for name in _RESULTS:
        if plain := to_builtins(getattr(rows, name)):
            shown = learning_table if name == "prediction_cold_start" else scores_table
            print_rich(shown(plain, caption=captions[name]), can_drop_columns=True)
